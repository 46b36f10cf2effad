"""The rules that find candidates: estimators, fairlearn's reductions, cut-offs by group, a choice among several.

`selection_rule` makes a rule from a name, a scikit-learn estimator, a rule object, any callable, or a list of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.options import GroupAware
from isonomy.alternatives.rules import algorithm as rules
from isonomy.alternatives.rules.comparison import assess
from isonomy.alternatives.rules.influence import Judged, moments
from isonomy.alternatives.rules.milp import MILPRule
from isonomy.alternatives.rules.utilities import CANDIDATE, STATUS_QUO, Criteria
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Number, Whole, check_parameters

STEPS = 80  # shares of a group that are tried
FOLDS = 3  # of the score from which cut-offs are chosen
ROUNDS = 4  # passes over the groups
VALIDATION = 0.3  # the share of the training rows that choose among rules
NamedRule = tuple[rules.SelectionRule, str]  # with its name

Constraint = Literal["demographic_parity", "equalized_odds", "true_positive_rate", "false_positive_rate", "error_rate"]
CONSTRAINTS = {
    "demographic_parity": "DemographicParity",
    "equalized_odds": "EqualizedOdds",
    "true_positive_rate": "TruePositiveRateParity",
    "false_positive_rate": "FalsePositiveRateParity",
    "error_rate": "ErrorRateParity",
}


# ---- rules that fit an estimator


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorRule:
    """Fit a scikit-learn regressor or classifier to the outcome; its prediction is the score.

    A classifier's score is the probability of its larger class if it has one, else its decision function; without a
    capacity or a threshold its 0/1 predictions are the decisions. A ``random_state`` of None is set from the round's
    generator, so that a seed repeats the run.

    Parameters
    ----------
    estimator : estimator
        It is cloned; the object itself is not fitted.
    group_aware : bool, default False
        Whether the group is among the features.
    name : str, optional
        The name in tables, by default that of its class.
    """

    estimator: object
    group_aware: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", type(self.estimator).__name__)

    def __call__(self, training: rules.Training) -> rules.Algorithm:
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        model = clone(self.estimator)
        unset = [name for name, value in model.get_params(deep=True).items() if value is None]
        states = sorted(name for name in unset if name.split("__")[-1] == "random_state")
        model.set_params(**{name: int(training.rng.integers(2**31 - 1)) for name in states})
        weighted = training.weight is not None and has_fit_parameter(model, "sample_weight")
        weights = {"sample_weight": training.weight} if weighted else {}
        model.fit(training.people.matrix(group_aware=self.group_aware), training.outcome, **weights)
        scored = training.criteria.scored
        return rules.Algorithm(partial(estimator_values, model=model, group_aware=self.group_aware, scored=scored))


def estimator_values(people: rules.People, *, model: Any, group_aware: bool, scored: bool) -> ArrayLike:
    from sklearn.base import is_classifier

    x = people.matrix(group_aware=group_aware)
    if not is_classifier(model) or not scored:
        return model.predict(x)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(x)[:, -1]
    return getattr(model, "decision_function", model.predict)(x)


@dataclass(frozen=True, slots=True, eq=False)
class ReductionsRule:
    """Fairlearn's reductions (Agarwal et al. 2018), an extra: ``pip install isonomy[reductions]``.

    A reduction returns a lottery over classifiers. The probability that the lottery selects a person is used as the
    score: with a capacity the highest are selected, otherwise those above 1/2, so that decisions do not depend on a
    draw.

    Parameters
    ----------
    constraint : str, default "demographic_parity"
        Or ``"equalized_odds"``, ``"true_positive_rate"``, ``"false_positive_rate"``, ``"error_rate"``.
    eps : float, default 0.01
        The disparity the reduction allows on the training part.
    estimator : classifier, optional
        One that takes ``sample_weight``; logistic regression by default.
    group_aware : bool, default False
        Whether the group is among the features.
    max_iter : int, default 50
        Iterations of exponentiated gradient.
    """

    constraint: Constraint = "demographic_parity"
    eps: Annotated[float, Number(least=0)] = 0.01
    estimator: object = None
    group_aware: bool = False
    max_iter: Whole = 50
    name: str = "reductions"

    def __post_init__(self) -> None:
        check_parameters(self, {"constraint": self.constraint, "eps": self.eps, "max_iter": self.max_iter})

    def __call__(self, training: rules.Training) -> rules.Algorithm:
        try:
            from fairlearn import reductions
        except ImportError as error:
            raise UsageError("rule: reductions need fairlearn; pip install isonomy[reductions].") from error
        from sklearn.linear_model import LogisticRegression

        base = LogisticRegression(max_iter=1_000) if self.estimator is None else self.estimator
        constraint = getattr(reductions, CONSTRAINTS[self.constraint])(difference_bound=self.eps)
        reduction = reductions.ExponentiatedGradient(base, constraint, eps=self.eps, max_iter=self.max_iter)
        reduction.fit(
            training.people.matrix(group_aware=self.group_aware),
            training.outcome.astype(int),
            sensitive_features=training.people.group,
        )
        lottery = tuple((w, h) for w, h in zip(reduction.weights_, reduction.predictors_, strict=True) if w > 0)
        scored = training.criteria.scored
        return rules.Algorithm(partial(lottery_values, model=lottery, group_aware=self.group_aware, scored=scored))


def lottery_values(
    people: rules.People, *, model: Sequence[tuple[float, Any]], group_aware: bool, scored: bool
) -> FloatArray:
    """The probability that a lottery over classifiers selects; without a cut-off, whether it exceeds 1/2."""
    x = people.matrix(group_aware=group_aware)
    chance: FloatArray = np.sum([w * np.asarray(h.predict(x), dtype=np.float64) for w, h in model], axis=0)
    return chance if scored else (chance > 0.5).astype(float)


# ---- cut-offs by group


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsRule:
    """Cut-offs by group on the score of another rule, chosen for the required gains.

    Among the shares selected of each group (which keep the capacity, if there is one), the rule takes those that meet
    every accuracy requirement with the smallest unfairness or, if none does, those that come closest. Cut-offs are
    chosen from scores of rows that the score was not fitted on. The rule needs everybody's group.

    Parameters
    ----------
    score : callable
        The rule that makes the score.
    """

    score: rules.SelectionRule
    name: str = "group_thresholds"
    group_aware: ClassVar[bool] = True

    def __call__(self, training: rules.Training) -> rules.Algorithm:
        if training.criteria.priced:
            raise UsageError("accuracy: the group_thresholds rule needs 0/1 decisions; a price has no cut-off.")
        if not training.criteria.scored:
            raise UsageError(
                "capacity: group_thresholds moves the cut-off of a score; give a capacity, or iso.above(threshold)."
            )
        n = len(training.outcome)
        fold, scores = training.rng.permutation(n) % FOLDS, np.full(n, np.nan)
        for number in range(FOLDS):
            learn, judge = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            part = rules.find(self.score, self.name, training.take(learn))
            part, scores[judge] = rules.applied(part, self.name, training.people.take(judge))
            if part.decide is None:
                return part
        whole = rules.find(self.score, self.name, training)
        if whole.decide is None:
            return whole
        threshold = training.criteria.threshold or 0.0
        cutoffs = np.array(_cutoffs(training, scores))
        return rules.Algorithm(partial(shifted_values, model=whole.decide, cutoffs=cutoffs, threshold=threshold))


def shifted_values(
    people: rules.People, *, model: rules.Decide, cutoffs: FloatArray, unit: float = 1.0, threshold: float = 0.0
) -> FloatArray:
    """A score minus its group's cut-off, in ``unit``, so that one ``threshold`` serves all groups and rules."""
    shifted: FloatArray = np.asarray(model(people), dtype=float) - cutoffs[people.group]
    return shifted / unit + threshold


def _cutoffs(training: rules.Training, scores: FloatArray) -> list[float]:
    """The cut-off of each group: one group after another moves to its best share, and the others make room."""
    criteria, group = training.criteria, training.people.group
    members = [np.flatnonzero(group == code) for code in range(len(training.people.labels))]
    ordered = [rows[np.argsort(-scores[rows], kind="stable")] for rows in members]
    sizes = np.array([len(rows) for rows in members], dtype=float)
    total = None if criteria.capacity is None else criteria.capacity * sizes.sum()
    start = criteria.capacity or float((scores > (criteria.threshold or 0.0)).mean())
    # Sums of u and w if the first k of each group are selected: (0 to all of them, utilities, 2).
    judged = _judged(training, rules.Selection(np.zeros(len(scores)), np.zeros(len(scores))))
    steps, nobody = training.masses[:, None, None] * judged.slopes, judged.sums[:, CANDIDATE]
    parts = [np.concatenate([nobody[None, ..., code], steps[rows]]) for code, rows in enumerate(ordered)]
    selecting = [np.cumsum(part, axis=0) for part in parts]

    def cost(taken: FloatArray) -> float:
        candidate = np.stack([sums[round(k)] for sums, k in zip(selecting, taken, strict=True)], axis=-1)
        return _shortfall(criteria, np.stack([judged.sums[:, STATUS_QUO], candidate], axis=1))

    taken = start * sizes
    best = cost(taken)
    for _ in range(ROUNDS):
        last = best
        for code in range(len(sizes)):
            for share in np.linspace(0, 1, STEPS + 1)[1:-1] * (1.0 if total is None else min(1.0, 2 * start)):
                moved = taken.copy()
                moved[code] = share * sizes[code]
                if total is not None:  # the others are scaled to keep the total
                    others = np.arange(len(sizes)) != code
                    left = max(0.0, total - moved[code])
                    moved[others] = np.minimum(sizes[others], moved[others] * left / max(moved[others].sum(), 1e-12))
                    moved[code] = min(sizes[code], total - moved[others].sum())
                if (reached := cost(moved)) < best:
                    best, taken = reached, moved
        if best == last:
            break
    return [_between(scores[rows], round(k)) for rows, k in zip(ordered, taken, strict=True)]


def _between(descending: FloatArray, k: int) -> float:
    """A cut-off that selects the first ``k`` of scores in descending order."""
    if 0 < k < len(descending):
        return float((descending[k - 1] + descending[k]) / 2)
    return float(descending[0] if k <= 0 else np.nextafter(descending[-1], -np.inf))


def _judged(training: rules.Training, candidate: rules.Selection) -> Judged:
    people, before = training.people, rules.Selection(training.status_quo, np.zeros(len(training.people)))
    both, weight = (before, candidate), training.masses
    return Judged(training.criteria, people.features, training.outcomes, people.group, weight, both)


def _shortfall(criteria: Criteria, sums: FloatArray) -> float:
    """The largest unfairness as a share of the status quo's, plus ten times the shortfall in accuracy."""
    accuracy, unfair = criteria.measured(sums)
    before, after = accuracy.T
    scale = np.abs(before) if criteria.scale == "ratio" else np.ones(len(before))
    missing = np.array(criteria.accuracy_gains) * scale - (after - before)
    relative = [now / max(then, 1e-12) for then, now in unfair]
    cost = max(relative) + 10 * float(np.maximum(missing / np.maximum(np.abs(before), 1e-12), 0).max())
    return float(cost) if np.isfinite(cost) else np.inf


# ---- a choice among rules


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceRule:
    """Fit every rule on a part of the training rows, and choose the one with the smallest p-value on the others.

    The p-value is the largest over the components of the null. The chosen rule is fitted again on all training rows.
    """

    choices: tuple[NamedRule, ...]

    @property
    def group_aware(self) -> bool:
        """Whether one of them may use the group."""
        return any(getattr(rule, "group_aware", True) for rule, _ in self.choices)

    def __call__(self, training: rules.Training) -> rules.Algorithm:
        learn, check = rules.stratified(training, 1 - VALIDATION)
        part, rest = training.take(learn), training.take(check)
        pvalues, notes, scores = [], [], []
        for rule, name in self.choices:
            algorithm, values = rules.applied(rules.find(rule, name, part), name, rest.people)
            pvalues.append(1.0 if algorithm.decide is None else _largest_pvalue(rest, values))
            notes.append(algorithm.note)
            scores.append(values)
        if all(notes):
            return rules.Algorithm(None, algorithm.status, notes[0])
        best = int(np.argmin([np.inf if note else p for p, note in zip(pvalues, notes, strict=True)]))
        rule, name = self.choices[best]
        fitted = rules.find(rule, name, training)
        details = {**fitted.details, f"chose {name}": 1.0}
        lost = next((f"{note.removesuffix('.')}, so it was not chosen." for note in notes if note), "")
        decide, criteria = fitted.decide, training.criteria
        if decide is not None and criteria.capacity is not None and not criteria.priced:
            # Folds may choose different rules, and the cut-off to recommend is the mean of theirs: it needs one unit.
            cutoff = rules.select(scores[best], rest.masses, criteria, "rule", scores=True).cutoff
            same, unit = np.full(len(rest.people.labels), cutoff), float(scores[best].std()) or 1.0
            decide = partial(shifted_values, model=decide, cutoffs=same, unit=unit)
        return rules.Algorithm(decide, fitted.status, fitted.note or lost, details)


def _largest_pvalue(rest: rules.Training, values: FloatArray) -> float:
    """The p-value on rows that no rule has seen; 1 if a utility is undefined on them."""
    criteria = rest.criteria
    judged = _judged(rest, rules.select(values, rest.masses, criteria, "rule", scores=True))
    if (judged.sums[:, :, 1] <= 0).any():
        return 1.0
    same = np.zeros(len(criteria.accuracies), dtype=bool)
    requirements, _ = assess(judged, moments(judged), same, 0.05, rest.rng)
    return float(requirements.pvalues(criteria).max())


# ---- rules by name


NAMES = ("linear", "lasso", "random_forest", "boosting", "group_thresholds", "milp", "reductions")


def _named_rule(name: str, group_aware: bool) -> rules.SelectionRule:
    if name == "milp":
        return MILPRule(group_aware=group_aware)
    if name == "reductions":
        return ReductionsRule(group_aware=group_aware)
    if name == "group_thresholds":
        return ThresholdsRule(_named_rule("linear", group_aware))
    from sklearn import ensemble, linear_model, pipeline, preprocessing

    estimators = {
        "linear": linear_model.LinearRegression(),
        # Standardized, so that the unit of a feature does not determine how strongly it is shrunk.
        "lasso": pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LassoCV(cv=5)),
        "random_forest": ensemble.RandomForestRegressor(n_estimators=300),
        "boosting": ensemble.HistGradientBoostingRegressor(max_iter=100, early_stopping=False),
    }
    return EstimatorRule(estimators[name], group_aware)


def selection_rule(
    given: object, *, features: Sequence[str], group_aware: bool = False
) -> tuple[rules.SelectionRule, str]:
    """The rule for a name, a scikit-learn estimator, a callable, or a list of these to choose from; and its name."""
    if isinstance(given, GroupAware):
        return selection_rule(given.rule, features=features, group_aware=True)
    if isinstance(given, (list, tuple)) and given:
        choices = tuple(selection_rule(item, features=features, group_aware=group_aware) for item in given)
        return choices[0] if len(choices) == 1 else (ChoiceRule(choices), " or ".join(name for _, name in choices))
    if not features and (isinstance(given, str) or hasattr(given, "fit")):
        raise MissingRole("features: a rule that fits needs them; name the columns the candidate may use.")
    if isinstance(given, str):
        if given not in NAMES:
            raise UnknownOption("rule", given, (*NAMES, "a scikit-learn estimator", "a callable"))
        return _named_rule(given, group_aware), given
    if hasattr(given, "predict") and not isinstance(given, type):
        return EstimatorRule(given, group_aware), type(given).__name__
    if isinstance(given, type) or not callable(given):
        raise UsageError(
            f"rule: {given!r} is not allowed; give one of {', '.join(NAMES)}, a scikit-learn estimator (an object, "
            "not its class), or a callable rule(training) -> algorithm."
        )
    rule: Any = given
    name = str(getattr(rule, "name", getattr(rule, "__name__", type(rule).__name__)))
    if group_aware and not getattr(rule, "group_aware", False):
        if not hasattr(rule, "group_aware"):
            raise UsageError(
                f"rule: {name!r} is not allowed in iso.group_aware, which takes rules by name, estimators and rule "
                "objects; leave group_aware out and use training.people.group in the rule."
            )
        rule = replace(rule, group_aware=True)
    return rule, name
