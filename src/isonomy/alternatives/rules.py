"""Selection rules: what finds a candidate algorithm on the training part.

A rule is any callable ``rule(training) -> algorithm``; an algorithm is any callable ``algorithm(people) -> values``,
where values are 0/1 decisions, or scores that the capacity or the threshold turns into decisions. The test is valid
whatever the rule is; a better rule finds more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives.utilities import FloatArray, Utility
from isonomy.errors import MissingRole, UnknownOption, UsageError
from isonomy.numerics.status import Status


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """What an algorithm may look at: features, and the group for rules that are group-aware."""

    features: Mapping[str, FloatArray]
    group: NDArray[np.intp]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.group)

    def matrix(self, *, group_aware: bool = False) -> FloatArray:
        """Features as columns, then one 0/1 column a group (but the first) if group-aware."""
        columns = list(self.features.values())
        if group_aware:
            columns += [(self.group == code).astype(float) for code in range(1, len(self.labels))]
        return np.column_stack(columns) if columns else np.empty((len(self), 0))

    def take(self, index: NDArray[np.intp]) -> People:
        """The people at ``index``, repeats allowed."""
        return People({n: v[index] for n, v in self.features.items()}, self.group[index], self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The training part of one round, one entry a person. A rule may use all of it."""

    people: People
    outcome: FloatArray
    status_quo: FloatArray  # the status quo's decisions
    accuracy: Utility
    capacity: float | None
    scored: bool  # a capacity or a threshold will turn scores into decisions
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """A candidate algorithm with what its rule has to say about it.

    A rule may return this in place of a bare callable: ``decide`` is None where nothing was found, and the round's
    p-value is then 1.
    """

    decide: Callable[[People], Any] | None
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, people: People) -> Any:
        """Scores or decisions."""
        if self.decide is None:
            raise UsageError(f"no algorithm was found: {self.note}")
        return self.decide(people)


@runtime_checkable
class SelectionRule(Protocol):
    """Anything that makes an algorithm from the training part."""

    def __call__(self, training: Training, /) -> Callable[[People], Any]:
        """Find an algorithm."""


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorRule:
    """Fit a scikit-learn regressor or classifier to the outcome; its prediction is the score.

    A classifier's score is the probability of its larger class where it gives one, else its decision function;
    without capacity or threshold its 0/1 predictions are the decisions. ``random_state`` left at None is set from
    the round's generator, so that a seed repeats the run.
    """

    estimator: Any
    group_aware: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", type(self.estimator).__name__)

    def __call__(self, training: Training) -> Algorithm:
        """Fit a clone on the training part."""
        from sklearn.base import clone

        model = clone(self.estimator)
        model.set_params(**_seeds(model, training.rng))
        model.fit(training.people.matrix(group_aware=self.group_aware), training.outcome)
        predict = _predictor(model, scores=training.scored)
        return Algorithm(lambda people: predict(people.matrix(group_aware=self.group_aware)))


def _seeds(model: Any, rng: np.random.Generator) -> dict[str, int]:
    unset = sorted(
        name
        for name, value in model.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    )
    return {name: int(rng.integers(2**31 - 1)) for name in unset}


def _predictor(model: Any, *, scores: bool) -> Callable[[FloatArray], Any]:
    from sklearn.base import is_classifier

    if not is_classifier(model) or not scores:
        return model.predict
    if hasattr(model, "predict_proba"):
        return lambda x: model.predict_proba(x)[:, -1]
    return getattr(model, "decision_function", model.predict)


@dataclass(frozen=True, slots=True, eq=False)
class ReductionsRule:
    """Fairlearn's reductions (Agarwal et al. 2018), an extra: ``pip install isonomy[reductions]``.

    The reduction's answer is a lottery over classifiers. The probability of selection it gives each person is used
    as a score: with a capacity the highest are selected, otherwise those selected with probability above 1/2, so
    that decisions do not depend on a draw.

    Parameters
    ----------
    constraint
        ``"demographic_parity"``, ``"equalized_odds"``, ``"true_positive_rate"``, ``"false_positive_rate"`` or
        ``"error_rate"``.
    eps
        The disparity the reduction allows on the training part.
    estimator
        A classifier that takes ``sample_weight``; logistic regression when None.
    """

    constraint: str = "demographic_parity"
    eps: float = 0.01
    estimator: Any = None
    group_aware: bool = False
    max_iter: int = 50
    name: str = "reductions"

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
        if self.constraint not in moments:
            raise UnknownOption("constraint", self.constraint, moments)
        base = LogisticRegression(max_iter=1_000) if self.estimator is None else self.estimator
        moment = moments[self.constraint](difference_bound=self.eps)
        reduction = reductions.ExponentiatedGradient(base, moment, eps=self.eps, max_iter=self.max_iter)
        reduction.fit(
            training.people.matrix(group_aware=self.group_aware),
            training.outcome.astype(int),
            sensitive_features=training.people.group,
        )
        weights, members = np.asarray(reduction.weights_), list(reduction.predictors_)
        scored = training.scored

        def decide(people: People) -> FloatArray:
            x = people.matrix(group_aware=self.group_aware)
            chance = sum(
                w * np.asarray(h.predict(x), dtype=float) for w, h in zip(weights, members, strict=True) if w > 0
            )
            return np.asarray(chance) if scored else (np.asarray(chance) > 0.5).astype(float)

        return Algorithm(decide)


@dataclass(frozen=True, slots=True, eq=False)
class CallableRule:
    """Any function of the training part, with a name for the tables."""

    function: Callable[[Training], Callable[[People], Any]]
    name: str

    def __call__(self, training: Training) -> Callable[[People], Any]:
        """Call the function."""
        return self.function(training)


def _linear(group_aware: bool) -> EstimatorRule:
    from sklearn.linear_model import LinearRegression

    return EstimatorRule(LinearRegression(), group_aware, "linear")


def _lasso(group_aware: bool) -> EstimatorRule:
    from sklearn.linear_model import LassoCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Standardised, so that the units of a feature do not decide how strongly it is shrunk.
    return EstimatorRule(make_pipeline(StandardScaler(), LassoCV(cv=5)), group_aware, "lasso")


def _random_forest(group_aware: bool) -> EstimatorRule:
    from sklearn.ensemble import RandomForestRegressor

    return EstimatorRule(RandomForestRegressor(n_estimators=300), group_aware, "random_forest")


def _reductions(group_aware: bool) -> ReductionsRule:
    return ReductionsRule(group_aware=group_aware)


def _milp(group_aware: bool) -> Any:
    from isonomy.alternatives.milp import MILPRule

    return MILPRule(group_aware=group_aware)


NAMED: Mapping[str, Callable[[bool], Any]] = {
    "linear": _linear,
    "lasso": _lasso,
    "random_forest": _random_forest,
    "milp": _milp,
    "reductions": _reductions,
}


def selection_rule(given: object, *, group_aware: bool, features: Sequence[str]) -> Any:
    """A rule from its name, a scikit-learn estimator, a rule object or any callable."""
    if not features and (isinstance(given, str) or hasattr(given, "fit")):
        raise MissingRole("features: a rule that fits needs them; name the columns the candidate may use.")
    if isinstance(given, str):
        if given not in NAMED:
            raise UnknownOption("rule", given, (*NAMED, "a scikit-learn estimator", "a callable"))
        return NAMED[given](group_aware)
    if isinstance(given, type) or not (callable(given) or hasattr(given, "predict")):
        raise UsageError(
            f"rule: {given!r} is not allowed; give one of {', '.join(NAMED)}, a scikit-learn estimator (an object, "
            "not its class), or a callable rule(training) -> algorithm."
        )
    if hasattr(given, "predict"):
        return EstimatorRule(given, group_aware)
    if hasattr(given, "name"):
        return given
    function: Any = given
    return CallableRule(function, getattr(given, "__name__", type(given).__name__))
