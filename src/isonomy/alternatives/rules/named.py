"""The rules that find candidates: estimators, fairlearn's reductions, cut-offs by group, a choice among several.

`selection_rule` makes a rule from a name, a scikit-learn estimator, a rule object, any callable, or a list of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.options import GroupAware
from isonomy.alternatives.rules import influence
from isonomy.alternatives.rules.algorithm import (
    Algorithm,
    Decide,
    People,
    SelectionRule,
    Training,
    applied,
    find,
    stratified,
)
from isonomy.alternatives.rules.comparison import assess
from isonomy.alternatives.rules.cutoffs import Selection, selection
from isonomy.alternatives.rules.milp import MILPRule
from isonomy.alternatives.rules.utilities import CANDIDATE, STATUS_QUO, Criteria, rates_of
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Number, Whole, check_parameters

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

STEPS = 80  # shares of a group that are tried
FOLDS = 3  # scores that choose cut-offs come from rows the score was not fitted on
ROUNDS = 4  # passes over the groups
VALIDATION = 0.3  # of the training rows choose among rules; the rule chosen is fitted on all of them


# ---- rules that fit an estimator


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorRule:
    """Fit a scikit-learn regressor or classifier to the outcome; its prediction is the score.

    A classifier's score is the probability of its larger class if it gives one, else its decision function; without a
    capacity or a threshold its 0/1 predictions are the decisions. A ``random_state`` of None is set from the round's
    generator, so that a seed repeats the run.

    Parameters
    ----------
    estimator : estimator
        It is cloned; the object itself is not fitted.
    group_aware : bool, default False
        Whether the group is among the features.
    name : str, optional
        What it is called in tables; its class by default.
    """

    estimator: object
    group_aware: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", type(self.estimator).__name__)

    def __call__(self, training: Training) -> Algorithm:
        """Fit a clone on the training part."""
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        model = clone(self.estimator)
        model.set_params(**_seeds(model, training.rng))
        weighted = training.weight is not None and has_fit_parameter(model, "sample_weight")
        weights = {"sample_weight": training.weight} if weighted else {}
        model.fit(training.people.matrix(group_aware=self.group_aware), training.outcome, **weights)
        return Algorithm(FittedEstimator(model, self.group_aware, training.scored))


@dataclass(frozen=True, slots=True, eq=False)
class FittedEstimator:
    """A fitted estimator as an algorithm: its scores, or its decisions."""

    model: BaseEstimator
    group_aware: bool
    scores: bool

    def __call__(self, people: People) -> ArrayLike:
        """One number per person."""
        from sklearn.base import is_classifier

        x = people.matrix(group_aware=self.group_aware)
        if not is_classifier(self.model) or not self.scores:
            return self.model.predict(x)
        if hasattr(self.model, "predict_proba"):
            return self.model.predict_proba(x)[:, -1]
        return getattr(self.model, "decision_function", self.model.predict)(x)


def _seeds(model: BaseEstimator, rng: np.random.Generator) -> dict[str, int]:
    unset = sorted(
        name
        for name, value in model.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    )
    return {name: int(rng.integers(2**31 - 1)) for name in unset}


@dataclass(frozen=True, slots=True, eq=False)
class ReductionsRule:
    """Fairlearn's reductions (Agarwal et al. 2018), an extra: ``pip install isonomy[reductions]``.

    The reduction's answer is a lottery over classifiers. The probability of selection it gives each person is used
    as a score: with a capacity the highest are selected, otherwise those selected with probability above 1/2, so
    that decisions do not depend on a draw.

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

    constraint: Literal[
        "demographic_parity", "equalized_odds", "true_positive_rate", "false_positive_rate", "error_rate"
    ] = "demographic_parity"
    eps: Annotated[float, Number(least=0)] = 0.01
    estimator: object = None
    group_aware: bool = False
    max_iter: Whole = 50
    name: str = "reductions"

    def __post_init__(self) -> None:
        check_parameters(self, {"constraint": self.constraint, "eps": self.eps, "max_iter": self.max_iter})

    def __call__(self, training: Training) -> Algorithm:
        """Run exponentiated gradient on the training part."""
        try:
            from fairlearn import reductions
        except ImportError as error:
            raise UsageError("rule: reductions need fairlearn; pip install isonomy[reductions].") from error
        from sklearn.linear_model import LogisticRegression

        moments = {
            "demographic_parity": reductions.DemographicParity,
            "equalized_odds": reductions.EqualizedOdds,
            "true_positive_rate": reductions.TruePositiveRateParity,
            "false_positive_rate": reductions.FalsePositiveRateParity,
            "error_rate": reductions.ErrorRateParity,
        }
        base = LogisticRegression(max_iter=1_000) if self.estimator is None else self.estimator
        moment = moments[self.constraint](difference_bound=self.eps)
        reduction = reductions.ExponentiatedGradient(base, moment, eps=self.eps, max_iter=self.max_iter)
        reduction.fit(
            training.people.matrix(group_aware=self.group_aware),
            training.outcome.astype(int),
            sensitive_features=training.people.group,
        )
        lottery = [(w, h) for w, h in zip(reduction.weights_, reduction.predictors_, strict=True) if w > 0]
        return Algorithm(FittedLottery(tuple(lottery), self.group_aware, training.scored))


@dataclass(frozen=True, slots=True, eq=False)
class FittedLottery:
    """The probability of selection under a lottery over classifiers; or, without a cut-off, whether it exceeds 1/2."""

    model: tuple[tuple[float, Any], ...]
    group_aware: bool
    scores: bool

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        x = people.matrix(group_aware=self.group_aware)
        chance: FloatArray = np.sum([w * np.asarray(h.predict(x), dtype=np.float64) for w, h in self.model], axis=0)
        return chance if self.scores else (chance > 0.5).astype(float)


# ---- cut-offs by group


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsRule:
    """Cut-offs by group on the score of another rule, chosen for the required gains.

    Among the shares selected of each group (which keep the capacity, if there is one), the rule takes those that meet
    every accuracy requirement with the smallest unfairness or, if none meets them, those that miss least. The scores
    that choose come from rows the score was not fitted on. The rule needs everybody's group.

    Parameters
    ----------
    score : callable
        The rule that makes the score.
    """

    score: SelectionRule
    name: str = "group_thresholds"
    group_aware: bool = True

    def __call__(self, training: Training) -> Algorithm:
        """Fit the score on all training rows, and the cut-offs on scores from rows it was not fitted on."""
        if training.criteria.priced:
            raise UsageError("accuracy: the group_thresholds rule needs 0/1 decisions; a price has no cut-off.")
        if not training.scored:
            raise UsageError(
                "capacity: group_thresholds moves the cut-off of a score; give a capacity, or isonomy.above(threshold)."
            )
        n = len(training.outcome)
        fold, scores = training.rng.permutation(n) % FOLDS, np.full(n, np.nan)
        for number in range(FOLDS):
            learn, judge = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            part = find(self.score, self.name, training.take(learn))
            part, scores[judge] = applied(part, self.name, training.people.take(judge))
            if part.decide is None:
                return part
        whole = find(self.score, self.name, training)
        if whole.decide is None:
            return whole
        return Algorithm(ShiftedScore(whole.decide, tuple(_cutoffs(training, scores)), training.threshold or 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedScore:
    """A score less its group's cut-off, so that one cut-off serves all groups."""

    model: Decide
    cutoffs: tuple[float, ...]
    threshold: float

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        return np.asarray(self.model(people), dtype=float) - np.array(self.cutoffs)[people.group] + self.threshold


def _cutoffs(training: Training, scores: FloatArray) -> list[float]:
    """The cut-off of each group: one group after another moves to its best share, and the others make room."""
    group, n_groups = training.people.group, len(training.people.labels)
    members = [np.flatnonzero(group == code) for code in range(n_groups)]
    ordered = [rows[np.argsort(-scores[rows], kind="stable")] for rows in members]
    sizes = np.array([len(rows) for rows in members], dtype=float)
    total = None if training.capacity is None else training.capacity * sizes.sum()
    start = training.capacity or float((scores > (training.threshold or 0.0)).mean())
    taken = start * sizes
    before, selecting = _totals(training, ordered)

    def cost(taken: FloatArray) -> float:
        candidate = np.stack([sums[round(k)] for sums, k in zip(selecting, taken, strict=True)], axis=-1)
        return shortfall(training.criteria, np.stack([before, candidate], axis=1))

    best = cost(taken)
    for _ in range(ROUNDS):
        last = best
        for code in range(n_groups):
            for share in np.linspace(0, 1, STEPS + 1)[1:-1] * (1.0 if total is None else min(1.0, 2 * start)):
                tried = _moved(taken, sizes, code, share, total)
                if (reached := cost(tried)) < best:
                    best, taken = reached, tried
        if best == last:
            break
    return [_between(scores[rows], round(k)) for rows, k in zip(ordered, taken, strict=True)]


def _moved(taken: FloatArray, sizes: FloatArray, code: int, share: float, total: float | None) -> FloatArray:
    """``share`` of one group selected; the others scaled to keep the total."""
    moved = taken.copy()
    moved[code] = share * sizes[code]
    if total is not None:
        others = np.arange(len(sizes)) != code
        left = max(0.0, total - moved[code])
        moved[others] = np.minimum(sizes[others], moved[others] * left / max(moved[others].sum(), 1e-12))
        moved[code] = min(sizes[code], total - moved[others].sum())
    return moved


def _totals(training: Training, ordered: Sequence[IntArray]) -> tuple[FloatArray, list[FloatArray]]:
    """Sums of u and w: the status quo's (utilities, 2, groups), and those of selecting the first k of each group.

    The latter are (0 to all selected, utilities, 2) for each group, whose rows are ``ordered`` by score.
    """
    n, people = len(training.outcome), training.people
    both = (Selection(training.status_quo, np.zeros(n)), Selection(np.zeros(n), np.zeros(n)))
    weight = np.ones(n) if training.weight is None else training.weight
    lines = influence.Judged(people.features, training.outcomes, people.group, weight, both)
    known = influence.worth(training.criteria, lines)
    steps = weight[:, None, None] * known.slopes
    nobody = known.sums[:, CANDIDATE]
    parts = [np.concatenate([nobody[None, ..., code], steps[rows]]) for code, rows in enumerate(ordered)]
    return known.sums[:, STATUS_QUO], [np.cumsum(part, axis=0) for part in parts]


def shortfall(criteria: Criteria, sums: FloatArray) -> float:
    """How far sums by group are from the requirements: 0 for no unfairness at the accuracy required.

    It is the largest unfairness as a share of the status quo's, plus ten times what accuracy lacks.
    """
    rates = rates_of(sums)
    accuracy = criteria.accuracy_of(rates, sums)
    ratio = criteria.scale == "ratio"
    scale = np.abs(accuracy[STATUS_QUO]) if ratio else np.ones(accuracy.shape[1])
    missing = np.array(criteria.accuracy_gains) * scale - (accuracy[CANDIDATE] - accuracy[STATUS_QUO])
    unfair = [criteria.unfairness(criteria.gaps(rates, k)).max(axis=-1) for k in range(len(criteria.fairness))]
    relative = [after / max(before, 1e-12) for before, after in unfair]
    cost = max(relative) + 10 * float(np.maximum(missing / np.maximum(np.abs(accuracy[STATUS_QUO]), 1e-12), 0).max())
    return float(cost) if np.isfinite(cost) else np.inf


def _between(descending: FloatArray, k: int) -> float:
    """A cut-off that selects the first ``k`` of scores in descending order."""
    if k <= 0:
        return float(descending[0])
    if k >= len(descending):
        return float(np.nextafter(descending[-1], -np.inf))
    return float((descending[k - 1] + descending[k]) / 2)


# ---- a choice among rules


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceRule:
    """Fit every rule on a part of the training rows, and choose the one with the smallest p-value on the others.

    The p-value is the largest over the components of the null. The rule chosen is fitted again on all training rows.

    Parameters
    ----------
    rules : sequence of callables
        With the name of each.
    """

    rules: tuple[tuple[SelectionRule, str], ...]

    @property
    def name(self) -> str:
        """The names of all rules."""
        return " or ".join(name for _, name in self.rules)

    @property
    def group_aware(self) -> bool:
        """Whether one of the rules may use the group."""
        return any(getattr(rule, "group_aware", True) for rule, _ in self.rules)

    def __call__(self, training: Training) -> Algorithm:
        """Choose and fit."""
        learn, check = stratified(training, 1 - VALIDATION)
        part, rest = training.take(learn), training.take(check)
        pvalues, notes, scores = [], [], []
        for rule, name in self.rules:
            algorithm, values = applied(find(rule, name, part), name, rest.people)
            pvalues.append(1.0 if algorithm.decide is None else _largest_pvalue(rest, values))
            notes.append(algorithm.note)
            scores.append(values)
        if all(notes):
            return Algorithm(None, algorithm.status, notes[0])
        best = int(np.argmin([np.inf if note else p for p, note in zip(pvalues, notes, strict=True)]))
        rule, name = self.rules[best]
        fitted = find(rule, name, training)
        details = {**fitted.details, f"chose {name}": 1.0}
        lost = next((f"{note.removesuffix('.')}, so it was not chosen." for note in notes if note), "")
        decide = fitted.decide
        if decide is not None and training.capacity is not None and not training.criteria.priced:
            cutoff = _decided(rest, scores[best]).cutoff
            decide = RescaledScore(decide, cutoff, float(scores[best].std()) or 1.0)
        return Algorithm(decide, fitted.status, fitted.note or lost, details)


@dataclass(frozen=True, slots=True, eq=False)
class RescaledScore:
    """Scores relative to a cut-off, in standard deviations, both from rows the rule had not seen.

    Folds may choose different rules, and the cut-off to recommend is the mean of theirs, which needs one unit.
    """

    model: Decide
    cutoff: float
    deviation: float

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        return (np.asarray(self.model(people), dtype=float) - self.cutoff) / self.deviation


def _decided(rest: Training, values: FloatArray) -> Selection:
    if rest.criteria.priced:
        return Selection(values, np.zeros(len(values)))
    weight = np.ones(len(values)) if rest.weight is None else rest.weight
    return selection(values, weight, "rule", capacity=rest.capacity, threshold=rest.threshold, scores=True)


def _largest_pvalue(rest: Training, values: FloatArray) -> float:
    """The p-value on rows no rule has seen; 1 if a utility is undefined on them."""
    criteria, people, nothing = rest.criteria, rest.people, np.zeros(len(values))
    weight = np.ones(len(values)) if rest.weight is None else rest.weight
    both = (Selection(rest.status_quo, nothing), _decided(rest, values))
    lines = influence.Judged(people.features, rest.outcomes, people.group, weight, both)
    worths = influence.worth(criteria, lines)
    if (worths.sums[:, :, 1] <= 0).any():
        return 1.0
    known = influence.moments(criteria, lines, worths)
    same = np.zeros(len(criteria.accuracies), dtype=bool)
    requirements, _ = assess(criteria, known, worths, same, 0.05, rest.rng)
    gains = (*criteria.accuracy_gains, *criteria.fairness_gains)
    parts = zip((*requirements.accuracy, *requirements.fairness), gains, strict=True)
    return max(float(requirement.pvalue(gain)) for requirement, gain in parts)


# ---- rules by name


NAMES = ("linear", "lasso", "random_forest", "boosting", "group_thresholds", "milp", "reductions")


def named_rule(name: str, group_aware: bool) -> SelectionRule:
    """The rule of that name."""
    if name == "milp":
        return MILPRule(group_aware=group_aware)
    if name == "reductions":
        return ReductionsRule(group_aware=group_aware)
    if name == "group_thresholds":
        return ThresholdsRule(named_rule("linear", group_aware))
    estimator: object
    if name == "linear":
        from sklearn.linear_model import LinearRegression

        estimator = LinearRegression()
    elif name == "lasso":
        from sklearn.linear_model import LassoCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        # Standardized, so that the unit of a feature does not determine how strongly it is shrunk.
        estimator = make_pipeline(StandardScaler(), LassoCV(cv=5))
    elif name == "random_forest":
        from sklearn.ensemble import RandomForestRegressor

        estimator = RandomForestRegressor(n_estimators=300)
    else:
        from sklearn.ensemble import HistGradientBoostingRegressor

        estimator = HistGradientBoostingRegressor(max_iter=100, early_stopping=False)
    return EstimatorRule(estimator, group_aware)


def selection_rule(given: object, *, features: Sequence[str], group_aware: bool = False) -> tuple[SelectionRule, str]:
    """A rule from its name, a scikit-learn estimator, a rule object or any callable; and what it is called.

    A list of them makes the rule that chooses one.
    """
    if isinstance(given, GroupAware):
        return selection_rule(given.rule, features=features, group_aware=True)
    if isinstance(given, (list, tuple)):
        if not given:
            raise UsageError(f"rule: an empty list; give one or several of {', '.join(NAMES)}, or estimators.")
        rules = tuple(selection_rule(item, features=features, group_aware=group_aware) for item in given)
        choice = ChoiceRule(rules)
        return rules[0] if len(rules) == 1 else (choice, choice.name)
    if not features and (isinstance(given, str) or hasattr(given, "fit")):
        raise MissingRole("features: a rule that fits needs them; name the columns the candidate may use.")
    if isinstance(given, str):
        if given not in NAMES:
            raise UnknownOption("rule", given, (*NAMES, "a scikit-learn estimator", "a callable"))
        return named_rule(given, group_aware), given
    if hasattr(given, "predict") and not isinstance(given, type):
        return EstimatorRule(given, group_aware), type(given).__name__
    if isinstance(given, type) or not callable(given):
        raise UsageError(
            f"rule: {given!r} is not allowed; give one of {', '.join(NAMES)}, a scikit-learn estimator (an object, "
            "not its class), or a callable rule(training) -> algorithm."
        )
    return given, str(getattr(given, "name", getattr(given, "__name__", type(given).__name__)))
