"""How far is each row from the other side of the decision boundary?

A distance is the least cost of a change to the row's features that flips the decision. Distances that are expressions
of columns run on any engine; the others (`Mixed`, `Kernel`, `Tree`, `ModelScore`, `Searched`) read the feature columns
as arrays.

`estimators.distance` returns the one that fits a fitted scikit-learn estimator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from isonomy.errors import DataError, UsageError, choose
from isonomy.frames.expressions import Expression, linear, number
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.options import Finite, Number, Positive, check, check_fields, shown

Norm = Literal["l1", "l2", "linf"]
ORDER: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": np.inf}
DUAL: dict[Norm, float] = {"l1": np.inf, "l2": 2, "linf": 1}  # dual to the norm in which a move is measured
AIMS, BISECTIONS = 3, 24  # of a search: the rows on the other side that it aims at, and the halvings of each way
AGREEMENT = 1e-6  # a row this close to the boundary (in units of the spread) may be on either side of it


class Distance(ABC):
    """What `project` needs to know about a distance. A subclass that is a dataclass has its fields checked."""

    features: Sequence[str]
    signed: bool = True  # positive where the decision is 1; False: a plain distance, the side is the decision's
    scored_by: str = ""  # the kind of model on whose score it is measured, if it is not measured in features
    tested: bool = True  # False: the null law does not hold for it; there is a plan but no p-value
    approximate: bool = False  # an upper bound that a search found, not the distance itself

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The numeric columns it measures, in the order in which `evaluate` and `move` take them."""
        return tuple(self.features)

    def expression(self) -> Expression | None:
        """The (signed) distance of each row; None if it takes arrays."""
        return None

    @abstractmethod
    def evaluate(self, features: FloatArray) -> FloatArray:
        """The (signed) distance of each row of ``features``, whose columns are `columns`."""

    def selects(self, features: FloatArray) -> BoolArray:
        """The decision about each row, for a signed distance."""
        return self.evaluate(features) >= 0

    def move(self, features: FloatArray, beyond: float = 0.0) -> FloatArray | None:
        """Where each row would go: the nearest point that is not on its side of the boundary, or ``beyond`` further.

        None if it is not known; NaN for a row that cannot move. ``beyond`` has the unit of the distance.
        """
        return None


def sides(signed: FloatArray) -> FloatArray:
    return np.where(signed >= 0, 1.0, -1.0)


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


def feature_costs(features: Sequence[str], immutable: Sequence[str], costs: Mapping[str, float]) -> FloatArray:
    """The cost per unit of each feature: 1, or as in ``costs``, and infinite if it is immutable."""
    for argument, names in (("immutable", immutable), ("costs", costs)):
        for name in names:
            choose(argument, name, features)
    for cost in costs.values():
        check("costs", cost, Positive)
    if set(features) <= set(immutable):
        raise UsageError("immutable: all features are listed; nobody could cross the boundary.")
    return np.array([np.inf if name in immutable else float(costs.get(name, 1.0)) for name in features])


@dataclass(frozen=True)
class ColumnDistance(Distance):
    """A column of distances: at least 0, infinite for a row that cannot move."""

    name: str
    signed = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    def expression(self) -> Expression:
        return number(self.name)

    def evaluate(self, features: FloatArray) -> FloatArray:
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
        return number(self.name) - self.threshold

    def evaluate(self, features: FloatArray) -> FloatArray:
        return features[:, 0] - self.threshold

    def move(self, features: FloatArray, beyond: float = 0.0) -> FloatArray:
        return self.threshold - beyond * sides(self.evaluate(features))[:, None]


@dataclass(frozen=True)
class Linear(Distance):
    """Distance to the hyperplane theta'(x - center) + intercept = 0.

    ``norm`` measures the move: "l2" straight across, "l1" along the one feature that counts most, "linf" along all
    features at once. ``center`` (default 0) is subtracted first, for features far from 0, such as times in seconds,
    whose digits theta'x and a large intercept would lose. ``immutable`` features do not move; ``costs`` is the cost per
    unit of each feature, 1 by default.

    >>> plane = Linear(("x", "y"), (3.0, 4.0), -5.0)
    >>> plane.evaluate(np.array([[3.0, 4.0]])), plane.move(np.array([[3.0, 4.0]]))
    (array([4.]), array([[0.6, 0.8]]))
    """

    features: Sequence[str]
    coefficients: Sequence[float]
    intercept: Finite = 0.0
    norm: Norm = "l2"
    center: Sequence[float] = ()
    immutable: Sequence[str] = ()
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        Distance.__post_init__(self)
        for argument, values in (("coefficients", self.theta), ("center", self._center)):
            if len(values) != len(self.features):
                raise UsageError(f"{argument}: {len(values)} for {len(self.features)} features; give one each.")
        with np.errstate(over="ignore"):
            size = self._size
        if not 0 < size < np.inf:
            raise UsageError(
                f"coefficients: per unit of cost, those of the features that can change have the norm {size:g}. If it "
                "is 0, there is no boundary to cross; if it is infinite, rescale the features."
            )

    @cached_property
    def theta(self) -> FloatArray:
        return np.asarray(self.coefficients, dtype=float)

    @cached_property
    def reach(self) -> FloatArray:
        """How far a unit of cost moves each feature: not at all if it is immutable."""
        return 1 / feature_costs(self.features, self.immutable, self.costs)

    @property
    def _size(self) -> float:
        return float(np.linalg.norm(self.theta * self.reach, DUAL[self.norm]))

    @property
    def _center(self) -> FloatArray:
        return np.asarray(self.center, dtype=float) if len(self.center) else np.zeros(len(self.features))

    def margins(self, features: FloatArray) -> FloatArray:
        return np.asarray((features - self._center) @ self.theta + self.intercept)

    def expression(self) -> Expression:
        margin = linear(self.features, self.coefficients, self.intercept, self._center.tolist())
        return margin * (1.0 / self._size)

    def evaluate(self, features: FloatArray) -> FloatArray:
        return self.margins(features) / self._size

    def move(self, features: FloatArray, beyond: float = 0.0) -> FloatArray:
        step, signed = _steepest(self.theta * self.reach, self.norm) * self.reach, self.evaluate(features)
        return features - np.outer(signed + beyond * sides(signed), step)


def _steepest(theta: FloatArray, norm: Norm) -> FloatArray:
    """The direction of length 1 in ``norm`` along which theta'x grows fastest."""
    if norm == "l2":
        return theta / np.linalg.norm(theta)
    if norm == "linf":
        return np.sign(theta)
    return np.where(np.arange(theta.size) == np.argmax(np.abs(theta)), np.sign(theta), 0.0)


@dataclass(frozen=True)
class Mixed(Distance):
    """Linear classifier whose discrete features may jump to any listed combination, at a total price of ``delta``.

    Cost (4) of the paper: continuous features move at their norm; changing any number of discrete ones costs ``delta``.
    The best jump is the listed combination with the largest (or smallest) theta'x. A row whose discrete features are
    not a listed combination cannot jump.
    """

    linear: Linear
    discrete: Sequence[str]
    allowed: Any  # (combinations, discrete features)
    delta: Positive

    def __post_init__(self) -> None:
        Distance.__post_init__(self)
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
        try:
            shape, listed = self._points.shape, bool(self._points.size) and np.isfinite(self._points).all()
        except (TypeError, ValueError):
            shape, listed = (), False
        if not listed or shape[1:] != (len(self.discrete),):
            raise UsageError(
                f"allowed: {shown(self.allowed)} is not allowed; list combinations such as "
                f"{(0.0,) * len(self.discrete)!r}, one finite number each for {', '.join(self.discrete)}."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.linear.columns

    @property
    def _points(self) -> FloatArray:
        return np.asarray(self.allowed, dtype=float)

    @property
    def _places(self) -> list[int]:
        return [self.linear.columns.index(name) for name in self.discrete]

    @property
    def _continuous(self) -> FloatArray:
        theta = self.linear.theta * self.linear.reach
        theta[self._places] = 0.0
        return theta

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The cheaper of a continuous move, and a jump followed by a shorter one."""
        side, stay, jump, _ = self._routes(features)
        return side * np.minimum(stay, self.delta + jump)

    def move(self, features: FloatArray, beyond: float = 0.0) -> FloatArray:
        """By the cheaper route: continuous features alone, or a jump and the rest of the way."""
        side, stay, jump, landed = self._routes(features)
        stays = stay <= self.delta + jump
        start, length = np.where(stays[:, None], features, landed), np.where(stays, stay, jump)
        cannot, direction = np.isinf(length), self._continuous
        if direction.any():
            direction = _steepest(direction, self.linear.norm) * self.linear.reach
        end = start - np.outer(side * np.where(cannot, 0.0, length + beyond), direction)
        return np.where(cannot[:, None], np.nan, end)

    def _routes(self, features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Side of each row, continuous distance without and with the best jump, and where that jump lands."""
        margin, places, points = self.linear.margins(features), self._places, self._points
        side = sides(margin)
        sums = points @ self.linear.theta[places]
        landed = features.copy()
        landed[:, places] = points[np.where(side > 0, sums.argmin(), sums.argmax())]
        listed = np.any([(features[:, places] == point).all(axis=1) for point in points], axis=0)
        left = np.where(listed, np.maximum(side * self.linear.margins(landed), 0.0), np.inf)
        size = float(np.linalg.norm(self._continuous, DUAL[self.linear.norm]))
        if size == 0.0:  # only a jump can cross
            return side, np.full(side.size, np.inf), np.where(left > 0, np.inf, 0.0), landed
        return side, np.abs(margin) / size, left / size, landed


@dataclass(frozen=True, eq=False)
class Kernel(Distance):
    """Distance in the kernel's own space: |f(x)| / norm of f, with f(x) = sum of alpha_i k(x_i, x) + b.

    ``decision`` gives f(x) for rows of features. The paper's cost (3b) is the square of this distance. Its density at
    the boundary is infinite, which the theorem excludes, so ``squared=True`` gives a plan but no p-value.
    """

    features: Sequence[str]
    decision: Callable[[FloatArray], npt.ArrayLike]
    norm: Annotated[float, Number(above=0, unit="the norm of f")]
    squared: bool = False

    def __post_init__(self) -> None:
        Distance.__post_init__(self)
        object.__setattr__(self, "tested", not self.squared)

    def evaluate(self, features: FloatArray) -> FloatArray:
        value = np.asarray(self.decision(features), dtype=float) / self.norm
        return np.sign(value) * value**2 if self.squared else value


@dataclass(frozen=True, eq=False)
class Tree(Distance):
    """Exact distance to the nearest leaf of the other decision: leaves are boxes.

    ``low`` and ``high`` are the boxes' corners, (leaves, features); ``decision`` the leaves' decisions. ``immutable``
    features do not move; ``costs`` is the cost per unit of each feature.
    """

    features: Sequence[str]
    low: FloatArray
    high: FloatArray
    decision: BoolArray
    norm: Norm = "l2"
    immutable: Sequence[str] = ()
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        Distance.__post_init__(self)
        feature_costs(self.features, self.immutable, self.costs)
        shape = (self.decision.size, len(self.features))
        for argument, corner in (("low", self.low), ("high", self.high)):
            if corner.shape != shape:
                raise UsageError(
                    f"{argument}: an array of shape {corner.shape}; give one of shape {shape}, (leaves, features)."
                )
        if self.decision.all() or not self.decision.any():
            raise UsageError("distance: all leaves of the tree make the same decision; there is no boundary.")

    def evaluate(self, features: FloatArray) -> FloatArray:
        return self._nearest(features)[0]

    def move(self, features: FloatArray, beyond: float = 0.0) -> FloatArray:
        """To the nearest box; ``beyond`` an open end of it, but no further than its middle."""
        return self._nearest(features, beyond)[1]

    def _nearest(self, features: FloatArray, beyond: float = 0.0) -> tuple[FloatArray, FloatArray]:
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
            selected[((features > low) & (features <= high)).all(axis=1)] = decision
            side = int(decision)
            nearer = far < best[side]
            best[side, nearer] = far[nearer]
            inside = np.minimum(low + beyond, (low + np.minimum(high, low + 2 * beyond)) / 2)
            point[side, nearer] = np.where((features <= low) & np.isfinite(low), inside, target)[nearer]
        rows = np.arange(len(features))
        other = 1 - selected.astype(int)
        return np.where(selected, 1.0, -1.0) * best[other, rows], point[other, rows]


@dataclass(frozen=True, eq=False)
class ModelScore(Distance):
    """Distance on the axis of a model's own score, if none in its features is known: forests, boosting.

    ``decision`` gives score minus threshold for rows of features; ``scored_by`` is the name of the model.
    """

    features: Sequence[str]
    decision: Callable[[FloatArray], npt.ArrayLike]
    scored_by: str

    def evaluate(self, features: FloatArray) -> FloatArray:
        return np.asarray(self.decision(features), dtype=float)


@dataclass(frozen=True, eq=False)
class Searched(ModelScore):
    """An upper bound on the distance to the boundary of a classifier of which only ``predict`` is known.

    ``decision`` gives the decision (0 or 1) for rows of features; ``scored_by`` is the name of the model. The boundary
    is searched by bisection on the way from each row to the nearest rows that the classifier decides otherwise.
    """

    norm: Norm = "l2"
    approximate = True

    def evaluate(self, features: FloatArray) -> FloatArray:
        return self._search(features)[0]

    def selects(self, features: FloatArray) -> BoolArray:
        return np.asarray(self.decision(features), dtype=float) > 0.5

    def move(self, features: FloatArray, beyond: float = 0.0) -> FloatArray:
        """To the boundary found, which the end has just crossed; ``beyond`` further, as far as the row aimed at."""
        _, end, aim = self._search(features)
        rest = np.linalg.norm(aim - end, ORDER[self.norm], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return end + np.nan_to_num(np.minimum(beyond / rest, 1.0))[:, None] * (aim - end)

    def _search(self, features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The signed distance, the point just across the boundary, and the row behind it."""
        from sklearn.neighbors import NearestNeighbors

        selected = self.selects(features)
        best, end, aim = np.full(len(features), np.inf), features.copy(), features.copy()
        if selected.all() or not selected.any():
            raise UsageError(f"distance: {self.scored_by} decides all rows alike; no boundary can be found from them.")
        for side in (False, True):
            rows, others = np.flatnonzero(selected == side), np.flatnonzero(selected != side)
            near = NearestNeighbors(n_neighbors=min(AIMS, others.size), p=ORDER[self.norm]).fit(features[others])
            for target in near.kneighbors(features[rows], return_distance=False).T:
                start, goal = features[rows], features[others[target]]
                across = self._bisected(start, goal, side)
                length = np.linalg.norm(across - start, ORDER[self.norm], axis=1)
                nearer = length < best[rows]
                best[rows[nearer]], end[rows[nearer]], aim[rows[nearer]] = length[nearer], across[nearer], goal[nearer]
        return np.where(selected, best, -best), end, aim

    def _bisected(self, start: FloatArray, goal: FloatArray, side: bool) -> FloatArray:
        """The nearest point found between ``start`` and ``goal`` whose decision is that of the goal."""
        near, far = np.zeros(len(start)), np.ones(len(start))
        for _ in range(BISECTIONS):
            middle = (near + far) / 2
            crossed = self.selects(start + middle[:, None] * (goal - start)) != side
            near, far = np.where(crossed, near, middle), np.where(crossed, middle, far)
        return start + far[:, None] * (goal - start)


@dataclass(frozen=True, eq=False)
class PerGroup:
    """Another distance, times a factor that depends on a column: the cost depends on the attribute.

    The factor changes the cost of a move, not its end.
    """

    distance: Distance
    column: str
    factors: Mapping[Any, Any]

    def __post_init__(self) -> None:
        check_fields(self)
        for level, factor in self.factors.items():
            check(f"factors[{level!r}]", factor, Positive)
