"""The rules that fit something: the named ones, any scikit-learn estimator, fairlearn's reductions, any callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.rules.algorithm import Algorithm, People, SelectionRule, Training
from isonomy.alternatives.rules.choice import ChoiceRule
from isonomy.alternatives.rules.milp import MILPRule
from isonomy.alternatives.rules.thresholds import ThresholdsRule
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Number, Whole, check_parameters

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorRule:
    """Fit a scikit-learn regressor or classifier to the outcome; its prediction is the score.

    A classifier's score is the probability of its larger class where it gives one, else its decision function;
    without capacity or threshold its 0/1 predictions are the decisions. ``random_state`` left at None is set from
    the round's generator, so that a seed repeats the run.

    Parameters
    ----------
    estimator : estimator
        It is cloned, never fitted itself.
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
        return Algorithm(Lottery(tuple(lottery), self.group_aware, training.scored))


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """The probability of selection under a lottery over classifiers; or, without a cut-off, whether it exceeds 1/2."""

    model: tuple[tuple[float, Any], ...]
    group_aware: bool
    scores: bool

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        x = people.matrix(group_aware=self.group_aware)
        chance: FloatArray = np.sum([w * np.asarray(h.predict(x), dtype=np.float64) for w, h in self.model], axis=0)
        return chance if self.scores else (chance > 0.5).astype(float)


def _linear(group_aware: bool) -> SelectionRule:
    from sklearn.linear_model import LinearRegression

    return EstimatorRule(LinearRegression(), group_aware)


def _lasso(group_aware: bool) -> SelectionRule:
    from sklearn.linear_model import LassoCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Standardised, so that the units of a feature do not decide how strongly it is shrunk.
    return EstimatorRule(make_pipeline(StandardScaler(), LassoCV(cv=5)), group_aware)


def _random_forest(group_aware: bool) -> SelectionRule:
    from sklearn.ensemble import RandomForestRegressor

    return EstimatorRule(RandomForestRegressor(n_estimators=300), group_aware)


def _boosting(group_aware: bool) -> SelectionRule:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return EstimatorRule(HistGradientBoostingRegressor(max_iter=100, early_stopping=False), group_aware)


_RULES: Mapping[str, Callable[[bool], SelectionRule]] = {
    "linear": _linear,
    "lasso": _lasso,
    "random_forest": _random_forest,
    "boosting": _boosting,
    "group_thresholds": lambda group_aware: ThresholdsRule(_linear(group_aware)),
    "milp": lambda group_aware: MILPRule(group_aware=group_aware),
    "reductions": lambda group_aware: ReductionsRule(group_aware=group_aware),
}
NAMES = tuple(_RULES)


def selection_rule(given: object, *, group_aware: bool, features: Sequence[str]) -> tuple[SelectionRule, str]:
    """A rule from its name, a scikit-learn estimator, a rule object or any callable; and what it is called.

    Of a list of them, the rule that chooses one.
    """
    if isinstance(given, (list, tuple)):
        if not given:
            raise UsageError(f"rule: an empty list; give one or several of {', '.join(NAMES)}, or estimators.")
        rules = tuple(selection_rule(one, group_aware=group_aware, features=features) for one in given)
        if len(rules) == 1:
            return rules[0]
        choice = ChoiceRule(rules)
        return choice, choice.name
    if not features and (isinstance(given, str) or hasattr(given, "fit")):
        raise MissingRole("features: a rule that fits needs them; name the columns the candidate may use.")
    if isinstance(given, str):
        if given not in _RULES:
            raise UnknownOption("rule", given, (*NAMES, "a scikit-learn estimator", "a callable"))
        return _RULES[given](group_aware), given
    if hasattr(given, "predict") and not isinstance(given, type):
        return EstimatorRule(given, group_aware), type(given).__name__
    if isinstance(given, type) or not callable(given):
        raise UsageError(
            f"rule: {given!r} is not allowed; give one of {', '.join(NAMES)}, a scikit-learn estimator (an object, "
            "not its class), or a callable rule(training) -> algorithm."
        )
    return given, str(getattr(given, "name", getattr(given, "__name__", type(given).__name__)))
