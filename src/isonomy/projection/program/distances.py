"""How far is each row from the other side of the decision boundary?

A distance is the least cost of a change to the row's features that flips the decision. Distances that are expressions
of columns run on any engine; those that need the model itself (`Kernel`, `Tree`) read the feature columns as arrays.

    ColumnDistance  a column the user computed
    Score           on the score axis: |score - threshold|; needs no model, the default for black boxes
    Linear          |theta'x + b| / dual norm
    Mixed           linear, with discrete features that may jump at a fixed price (cost (4) of the paper)
    Kernel          |f(x)| / norm of f in the kernel's own space
    Tree            to the nearest leaf of the other decision, exactly
    ModelScore      on the axis of a model's own score: forests, boosting
    PerGroup        any of these, priced differently by group

`estimators.distance` returns the one that fits a fitted scikit-learn estimator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from isonomy.errors import DataError, UsageError, choose
from isonomy.frames.expressions import Expression, among, either, levels, linear, number
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.options import NAMES, Finite, Number, Positive, check, check_parameters

__all__ = ["ColumnDistance", "Distance", "Kernel", "Linear", "Mixed", "ModelScore", "PerGroup", "Score", "Tree"]

Norm = Literal["l1", "l2", "linf"]
ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": np.inf}
DUAL: dict[Norm, float] = {"l1": np.inf, "l2": 2, "linf": 1}  # dual to the norm in which a move is measured
Features = Annotated[tuple[str, ...], NAMES]
AGREEMENT = 1e-6  # a row this close to the boundary (in units of the spread) may be on either side of it


class Distance(ABC):
    """What `project` needs to know about a distance."""

    features: Features
    signed: bool = True  # positive where the decision is 1; False: a plain distance, the side is the decision's
    scored_by: str = ""  # the kind of model on whose score it is measured, if it is not measured in features
    tested: bool = True  # False: the null law does not hold for it; there is a plan but no p-value

    def __post_init__(self) -> None:
        """Check the fields of a distance that is a dataclass against their annotations."""
        check_parameters(self, {field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]

    @property
    def columns(self) -> tuple[str, ...]:
        """The numeric columns it measures, in the order in which `evaluate` and `move` take them."""
        return tuple(self.features)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every column it needs: `columns`, and those that set the `factor`."""
        return self.columns

    def expression(self) -> Expression | None:
        """The (signed) distance of each row, before `factor`; None if it takes arrays."""
        return None

    @abstractmethod
    def evaluate(self, features: FloatArray) -> FloatArray:
        """The (signed) distance of each row of ``features``, whose columns are `columns`, before `factor`."""

    def factor(self) -> Expression | None:
        """The factor of each row's distance; None for 1."""
        return None

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where each row would go: the nearest point that is not on its side of the boundary (Proposition 3).

        None if it is not known; NaN for a row that cannot move.
        """
        return None

    def ends(self, start: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where rows are and where they would go; without columns if that is not known."""
        end, unknown = self.move(start), np.empty((len(start), 0))
        return (unknown, unknown) if end is None else (start, end)


def refuse_wrong_side(rows: float, *, signed: bool) -> None:
    """Raise if ``rows`` are on the wrong side of the boundary: below 0, or not on the side of their decision."""
    if rows and not signed:
        raise DataError(f"distance: {rows:,.0f} rows have a negative distance; a distance is at least 0.")
    if rows:
        raise DataError(
            f"prediction: {rows:,.0f} rows are on the other side of the boundary than their decision says. The "
            "prediction must be 1 exactly where the score (or decision function) is at or above the threshold; for "
            "decisions made otherwise, compute the distances yourself and give their column as distance."
        )


def feature_costs(features: Features, immutable: Sequence[str], costs: Mapping[str, float]) -> FloatArray:
    """The cost per unit of each feature: 1, or as in ``costs``, and infinite if it is immutable."""
    check_names("immutable", immutable)
    if not isinstance(costs, Mapping):
        raise UsageError(f'costs: {costs!r} is not allowed; give feature -> a number above 0, such as {{"age": 2.0}}.')
    for argument, names in (("immutable", immutable), ("costs", costs)):
        for name in names:
            choose(argument, name, features)
    for cost in costs.values():
        check("costs", cost, Positive)
    if set(features) <= set(immutable):
        raise UsageError("immutable: all features are listed; nobody could cross the boundary.")
    return np.array([np.inf if name in immutable else float(costs.get(name, 1.0)) for name in features])


def check_names(argument: str, value: object) -> None:
    """Raise unless ``value`` is a sequence of column names, which a string is not."""
    sequence = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    if not sequence or not all(isinstance(name, str) for name in value):  # type: ignore[attr-defined]
        raise UsageError(
            f'{argument}: {value!r} is not allowed; give a sequence of column names, such as ("age", "x").'
        )


@dataclass(frozen=True)
class ColumnDistance(Distance):
    """A column of distances: at least 0, infinite for a row that cannot move."""

    name: str
    signed = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.name,)

    def expression(self) -> Expression:
        """The column itself."""
        return number(self.name)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The column itself."""
        return features[:, 0]


@dataclass(frozen=True)
class Score(ColumnDistance):
    """Distance on the score axis, |score - threshold|.

    It costs nothing to compute and assumes only that the decision is 1 where the score is at or above the threshold. It
    has the unit of the score.
    """

    threshold: Finite
    signed = True

    def expression(self) -> Expression:
        """Score minus threshold."""
        return number(self.name) - self.threshold

    def evaluate(self, features: FloatArray) -> FloatArray:
        """Score minus threshold."""
        return features[:, 0] - self.threshold

    def move(self, features: FloatArray) -> FloatArray:
        """Every row that moves goes to the threshold."""
        return np.full_like(features, self.threshold)


@dataclass(frozen=True)
class Linear(Distance):
    """Distance to the hyperplane theta'(x - centre) + intercept = 0.

    ``norm`` measures the move: "l2" straight across, "l1" along the one feature that counts most, "linf" along all
    features at once. ``centre`` (default 0) is subtracted first, for features far from 0, such as times in seconds,
    whose digits theta'x and a large intercept would lose. ``immutable`` features do not move; ``costs`` is the cost per
    unit of each feature, 1 by default.

    >>> plane = Linear(("x", "y"), (3.0, 4.0), -5.0)
    >>> plane.evaluate(np.array([[3.0, 4.0]])), plane.move(np.array([[3.0, 4.0]]))
    (array([4.]), array([[0.6, 0.8]]))
    """

    features: Features
    coefficients: Sequence[float]
    intercept: Finite = 0.0
    norm: Norm = "l2"
    centre: Sequence[float] = ()
    immutable: Sequence[str] = ()
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_names("features", self.features)
        Distance.__post_init__(self)
        for argument, values in (("coefficients", self.coefficients), ("centre", self.centre)):
            if len(values) != len(self.features) and not (argument == "centre" and len(values) == 0):
                raise UsageError(f"{argument}: {len(values)} for {len(self.features)} features; give one each.")
            for value in values:
                check(argument, value, Finite)
        with np.errstate(over="ignore"):
            size = self._size
        if not size > 0:
            raise UsageError(
                "coefficients: those of all features that can change are zero; there is no boundary to cross."
            )
        if not size < np.inf:  # every distance would be 0
            raise UsageError(
                "coefficients, costs: the coefficients per unit of cost are too large; rescale the features."
            )

    @property
    def reach(self) -> FloatArray:
        """How far a unit of cost moves each feature: not at all if it is immutable."""
        return 1 / feature_costs(self.features, self.immutable, self.costs)

    @property
    def _steep(self) -> FloatArray:
        """The coefficients per unit of cost."""
        return np.asarray(self.coefficients, dtype=float) * self.reach

    @property
    def _size(self) -> float:
        return float(np.linalg.norm(self._steep, DUAL[self.norm]))

    @property
    def _origin(self) -> FloatArray:
        return np.asarray(self.centre, dtype=float) if len(self.centre) else np.zeros(len(self.features))

    def margin(self) -> Expression:
        """theta'(x - centre) + intercept, as an expression of the features."""
        return linear(self.features, self.coefficients, self.intercept, self._origin.tolist())

    def margins(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        return np.asarray((features - self._origin) @ np.asarray(self.coefficients, dtype=float) + self.intercept)

    def expression(self) -> Expression:
        """The margin over the dual norm, as an expression of the features."""
        return self.margin() * (1.0 / self._size)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        return self.margins(features) / self._size

    def move(self, features: FloatArray) -> FloatArray:
        """The nearest point of the hyperplane in the chosen norm."""
        step = _steepest(self._steep, self.norm) * self.reach
        return features - np.outer(self.evaluate(features), step)


@dataclass(frozen=True)
class Mixed(Distance):
    """Linear classifier whose discrete features may jump to any listed combination, at a total price of ``delta``.

    Cost (4) of the paper: continuous features move at their norm; changing any number of discrete ones costs ``delta``.
    The best jump is the listed combination with the largest (or smallest) theta'x. A row whose discrete features are
    not a listed combination cannot jump.
    """

    linear: Linear
    discrete: Features
    allowed: Sequence[Sequence[float]]
    delta: Positive

    def __post_init__(self) -> None:
        check_names("discrete", self.discrete)
        if not isinstance(self.linear, Linear):
            raise UsageError(f"linear: {self.linear!r} is not allowed; give a Linear(features, coefficients).")
        features = self.linear.features
        unknown = [name for name in self.discrete if name not in features]
        if unknown or not self.discrete:
            raise UsageError(f"discrete: {unknown or 'none given'}; name some of {', '.join(features)}.")
        for argument, names in (("immutable", self.linear.immutable), ("costs", self.linear.costs)):
            if jumping := [name for name in self.discrete if name in names]:
                raise UsageError(
                    f"{argument}: {', '.join(jumping)} may jump, at the price delta; leave it out of discrete, or of "
                    f"the linear distance's {argument}."
                )
        size = len(self.discrete)
        wanted = f"list combinations such as {(0.0,) * size!r}, one value each for {', '.join(self.discrete)}."
        several = isinstance(self.allowed, Sequence | np.ndarray) and not isinstance(self.allowed, str)
        if not several or not len(self.allowed):
            raise UsageError(f"allowed: {self.allowed!r} is not allowed; {wanted}")
        for point in self.allowed:
            if np.ndim(point) != 1 or len(point) != size:
                raise UsageError(f"allowed: {point!r} is not a combination; {wanted}")
            for value in point:
                check("allowed", value, Finite)
        check("delta", self.delta, Positive)

    @property
    def columns(self) -> tuple[str, ...]:
        """The features of the linear classifier."""
        return self.linear.columns

    @property
    def _places(self) -> list[int]:
        """The places of the discrete features."""
        return [self.linear.features.index(name) for name in self.discrete]

    @property
    def _weights(self) -> FloatArray:
        """Coefficients of the discrete features."""
        return np.asarray(self.linear.coefficients, dtype=float)[self._places]

    @property
    def _continuous(self) -> FloatArray:
        """The coefficients per unit of cost, 0 for discrete features."""
        theta = np.array(self.linear.coefficients, dtype=float) * self.linear.reach
        theta[self._places] = 0.0
        return theta

    @property
    def _size(self) -> float:
        """Dual norm of the continuous coefficients; 0 when only a jump can cross."""
        return float(np.linalg.norm(self._continuous, DUAL[self.linear.norm]))

    @property
    def _jumps(self) -> FloatArray:
        """The combinations of smallest and of largest theta'x: the best jumps down and up."""
        points = np.asarray(self.allowed, dtype=float)
        sums = points @ self._weights
        return points[[int(sums.argmin()), int(sums.argmax())]]

    def expression(self) -> Expression:
        """The cheaper of a continuous move, and a jump followed by a shorter one."""
        margin = self.linear.margin()
        rest = margin - linear(self.discrete, self._weights.tolist())
        low, high = (self._jumps @ self._weights).tolist()
        listed = among(self.discrete, self.allowed)
        down, up = self._cost(margin, rest + low, listed), self._cost(-margin, -(rest + high), listed)
        return either(margin >= 0, down, -up)

    def _cost(self, across: Expression, left: Expression, listed: Expression) -> Expression:
        """The cost to cross ``across``, or to jump and cross what is ``left``, which is infinite for a row that cannot.

        Nothing is left if the jump alone crosses.
        """
        left = either(listed, either(left > 0, left, 0.0), np.inf)
        if self._size == 0.0:
            return either(left > 0, np.inf, self.delta)
        whole, part = across * (1 / self._size), left * (1 / self._size) + self.delta
        return either(whole <= part, whole, part)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        side, stay, jump, _ = self._routes(features)
        return side * np.minimum(stay, self.delta + jump)

    def move(self, features: FloatArray) -> FloatArray:
        """By the cheaper route: continuous features alone, or a jump and the rest of the way."""
        side, stay, jump, landed = self._routes(features)
        stays = stay <= self.delta + jump
        start, length = np.where(stays[:, None], features, landed), np.where(stays, stay, jump)
        cannot = np.isinf(length)
        direction = _steepest(self._continuous, self.linear.norm) if self._size else np.zeros(features.shape[1])
        direction = direction * self.linear.reach
        end = start - np.outer(side * np.where(cannot, 0.0, length), direction)
        return np.where(cannot[:, None], np.nan, end)

    def _routes(self, features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Side of each row, continuous distance without and with the best jump, and where that jump lands."""
        margin = self.linear.margins(features)
        side = np.where(margin >= 0, 1.0, -1.0)
        landed = features.copy()
        landed[:, self._places] = self._jumps[np.where(side > 0, 0, 1)]
        here = features[:, self._places]
        listed = np.any([(here == np.asarray(point)).all(axis=1) for point in self.allowed], axis=0)
        left = np.where(listed, np.maximum(side * self.linear.margins(landed), 0.0), np.inf)
        if self._size == 0.0:
            return side, np.full(side.size, np.inf), np.where(left > 0, np.inf, 0.0), landed
        return side, np.abs(margin) / self._size, left / self._size, landed


def _steepest(theta: FloatArray, norm: Norm) -> FloatArray:
    """The direction of length 1 in ``norm`` along which theta'x grows fastest."""
    if norm == "l2":
        return theta / np.linalg.norm(theta)
    if norm == "linf":
        return np.sign(theta)
    return np.where(np.arange(theta.size) == np.argmax(np.abs(theta)), np.sign(theta), 0.0)


@dataclass(frozen=True, eq=False)
class Kernel(Distance):
    """Distance in the kernel's own space: |f(x)| / norm of f, with f(x) = sum of alpha_i k(x_i, x) + b.

    The paper's cost (3b) is the square of it. Its density at the boundary is infinite, which the theorem excludes, so
    ``squared=True`` gives a plan but no p-value.
    """

    features: Features
    decision: Callable[[FloatArray], npt.ArrayLike]  # rows of features -> f(x)
    norm: Annotated[float, Number(above=0, unit="the norm of f")]
    squared: bool = False

    def __post_init__(self) -> None:
        check_names("features", self.features)
        if not callable(self.decision):
            raise UsageError(
                f"decision: {self.decision!r} is not allowed; give a function from rows of features to f(x)."
            )
        Distance.__post_init__(self)
        object.__setattr__(self, "tested", not self.squared)  # the law holds for the distance, not for its square

    def evaluate(self, features: FloatArray) -> FloatArray:
        """f(x) over its norm; with ``squared``, its square with the sign of f(x)."""
        value = np.asarray(self.decision(features), dtype=float) / self.norm
        return np.sign(value) * value**2 if self.squared else value


@dataclass(frozen=True, eq=False)
class Tree(Distance):
    """Exact distance to the nearest leaf of the other decision: leaves are boxes.

    ``low`` and ``high`` are the boxes' corners, (leaves, features); ``decision`` the leaves' decisions. ``immutable``
    features do not move; ``costs`` is the cost per unit of each feature.
    """

    features: Features
    low: FloatArray
    high: FloatArray
    decision: BoolArray
    norm: Norm = "l2"
    immutable: Sequence[str] = ()
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_names("features", self.features)
        feature_costs(self.features, self.immutable, self.costs)
        corners = ((len(self.features),), "(leaves, features)")
        for argument, (shape, wanted) in {"low": corners, "high": corners, "decision": ((), "(leaves,)")}.items():
            value = getattr(self, argument)
            if not isinstance(value, np.ndarray) or value.shape[1:] != shape or value.ndim != len(shape) + 1:
                given = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
                raise UsageError(f"{argument}: {given} is not allowed; give a numpy array of shape {wanted}.")
            if len(value) != len(self.low):
                raise UsageError(f"{argument}: {len(value)} leaves, but low has {len(self.low)}; give one for each.")
        if self.decision.all() or not self.decision.any():
            raise UsageError("distance: all leaves of the tree make the same decision; there is no boundary.")
        Distance.__post_init__(self)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """Signed distance to the nearest box of the other decision."""
        return self._nearest(features)[0]

    def move(self, features: FloatArray) -> FloatArray:
        """The nearest point of that box."""
        return self._nearest(features)[1]

    def _nearest(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        selected = np.zeros(len(features), dtype=bool)
        costs = feature_costs(self.features, self.immutable, self.costs)
        best = np.full((2, len(features)), np.inf)  # to the nearest leaf that refuses, that selects
        point = np.repeat(features[None], 2, axis=0)
        for low, high, decision in zip(self.low, self.high, self.decision, strict=True):
            target = np.clip(features, low, high)
            moves = features - target
            far = np.linalg.norm(np.where(moves == 0, 0.0, costs) * moves, ORDER[self.norm], axis=1)
            # A box does not hold its lower ends: at one, a feature that does not move is as far as it can be.
            far[((features == low) & np.isinf(costs)).any(axis=1)] = np.inf
            inside = ((features > low) & (features <= high)).all(axis=1)
            selected[inside] = decision
            side = int(decision)
            nearer = far < best[side]
            best[side, nearer] = far[nearer]
            point[side, nearer] = target[nearer]
        rows = np.arange(len(features))
        other = 1 - selected.astype(int)
        return np.where(selected, 1.0, -1.0) * best[other, rows], point[other, rows]


@dataclass(frozen=True, eq=False)
class ModelScore(Distance):
    """Distance on the axis of a model's own score, if none in its features is known: forests, boosting.

    ``decision`` gives score minus threshold for rows of features; ``scored_by`` is the name of the model.
    """

    features: Features
    decision: Callable[[FloatArray], npt.ArrayLike]
    scored_by: str

    def evaluate(self, features: FloatArray) -> FloatArray:
        """Score minus threshold."""
        return np.asarray(self.decision(features), dtype=float)


@dataclass(frozen=True, eq=False)
class PerGroup(Distance):
    """Another distance, times a factor that depends on a column: the cost depends on the attribute.

    The factor changes the cost of a move, not its end.
    """

    distance: Distance
    column: str
    factors: Mapping[Any, float]

    def __post_init__(self) -> None:
        if not isinstance(self.distance, Distance):
            raise UsageError(
                f"distance: {self.distance!r} is not allowed; give an object of isonomy.projection.distances, such as "
                "Score(name, threshold) or estimators.distance(model)."
            )
        if not isinstance(self.column, str):
            raise UsageError(
                f"column: {self.column!r} is not allowed; give the name of the column that sets the factor."
            )
        wanted = 'give level -> a finite number above 0, such as {"a": 1.0, "b": 2.0}.'
        if not isinstance(self.factors, Mapping) or not self.factors:
            raise UsageError(f"factors: {self.factors!r} is not allowed; {wanted}")
        for level, factor in self.factors.items():
            if not Number(above=0).admits(factor):
                raise UsageError(f"factors: {factor!r} for level {level!r} is not allowed; {wanted}")
        for name in ("signed", "tested", "scored_by"):
            object.__setattr__(self, name, getattr(self.distance, name))

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the distance it scales."""
        return self.distance.columns

    @property
    def reads(self) -> tuple[str, ...]:
        """The same, and the column that sets the factor."""
        return (*self.distance.reads, self.column)

    def factor(self) -> Expression:
        """The level's factor (missing for a level without one), times that of the distance it scales."""
        outer, inner = levels(self.column, self.factors), self.distance.factor()
        return outer if inner is None else outer * inner

    def expression(self) -> Expression | None:
        """The distance without the factor."""
        return self.distance.expression()

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The distance without the factor."""
        return self.distance.evaluate(features)

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where the distance it scales goes."""
        return self.distance.move(features)
