"""How far is each row from the other side of the decision boundary?

A distance is the least cost of a change to the row's features that flips the decision. Those that are expressions of
columns run on any engine; those that need the model itself (`Kernel`, `Tree`) read the feature columns as arrays.

    Column      a column the user computed
    Score       on the score axis: |score - threshold|; needs no model, the default for black boxes
    Linear      |theta'x + b| / dual norm
    Mixed       linear, with discrete features that may jump at a fixed price (cost (4) of the paper)
    Kernel      |f(x)| / norm of f in the kernel's own space
    Tree        to the nearest leaf of the other decision, exactly
    PerGroup    another distance, priced differently by group

`estimators.of` picks one for a fitted scikit-learn estimator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError, choose

FloatArray = npt.NDArray[np.float64]
Norm = Literal["l1", "l2", "linf"]
DUAL: dict[str, Any] = {"l1": np.inf, "l2": 2, "linf": 1}  # the norm dual to that in which a move is measured


class Distance(ABC):
    """What `project` needs to know of a distance."""

    signed: bool = True  # positive where the decision is 1; False: a plain distance, the side is the decision's
    tested: bool = True  # False: the null law does not hold for it; a plan is given and no p-value

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""

    def expression(self) -> nw.Expr | None:
        """The (signed) distance of each row, or None where it takes arrays."""
        return None

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The (signed) distance of each row of ``features``, whose columns are `columns`."""
        raise NotImplementedError

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where each row would go: the nearest point of the boundary (Proposition 3). None where it is not known."""
        return None


@dataclass(frozen=True)
class Column(Distance):
    """A column of distances: at least 0, infinite for a row that cannot move."""

    name: str
    signed = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.name,)

    def expression(self) -> nw.Expr:
        """The column itself."""
        return nw.col(self.name).cast(nw.Float64)


@dataclass(frozen=True)
class Score(Distance):
    """Distance on the score axis, |score - threshold|.

    It costs nothing to compute and assumes only that the decision is 1 where the score is above the threshold. Its unit
    is the score's: "how many points of score".
    """

    name: str
    threshold: float

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return (self.name,)

    def expression(self) -> nw.Expr:
        """Score minus threshold."""
        return nw.col(self.name).cast(nw.Float64) - self.threshold

    def move(self, features: FloatArray) -> FloatArray:
        """Every row that moves goes to the threshold."""
        return np.full_like(features, self.threshold)


@dataclass(frozen=True)
class Linear(Distance):
    """Distance to the hyperplane theta'x + intercept = 0.

    ``norm`` measures the move: "l2" straight across, "l1" along the one feature that counts most, "linf" along all
    features at once.

    >>> plane = Linear(("x", "y"), (3.0, 4.0), -5.0)
    >>> plane.evaluate(np.array([[3.0, 4.0]])), plane.move(np.array([[3.0, 4.0]]))
    (array([4.]), array([[0.6, 0.8]]))
    """

    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    intercept: float = 0.0
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        choose("norm", self.norm, DUAL)
        if len(self.features) != len(self.coefficients):
            raise UsageError(
                f"coefficients: {len(self.coefficients)} for {len(self.features)} features; give one each."
            )
        if not self._size > 0:
            raise UsageError("coefficients: all are zero; such a classifier has no boundary.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The features."""
        return tuple(self.features)

    @property
    def _size(self) -> float:
        return float(np.linalg.norm(self.coefficients, DUAL[self.norm]))

    def expression(self) -> nw.Expr:
        """The margin over the dual norm, as an expression of the features."""
        return _margin(self.features, self.coefficients, self.intercept) * (1.0 / self._size)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The same for arrays."""
        return (features @ np.asarray(self.coefficients) + self.intercept) / self._size

    def move(self, features: FloatArray) -> FloatArray:
        """The nearest point of the hyperplane in the chosen norm."""
        theta = np.asarray(self.coefficients)
        if self.norm == "l2":
            direction = theta / self._size
        elif self.norm == "linf":
            direction = np.sign(theta)
        else:
            largest = int(np.argmax(np.abs(theta)))
            direction = np.where(np.arange(theta.size) == largest, np.sign(theta), 0.0)
        return features - np.outer(self.evaluate(features), direction)


@dataclass(frozen=True)
class Mixed(Distance):
    """Linear classifier whose discrete features may jump to any listed combination, at price ``delta`` in all.

    Cost (4) of the paper: continuous features move at their norm; changing the discrete ones, however many, costs
    ``delta``. The best jump is the listed combination with the largest (or smallest) theta'x.
    """

    linear: Linear
    discrete: tuple[str, ...]
    allowed: tuple[tuple[float, ...], ...]
    delta: float
    _theta: dict[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        theta = dict(zip(self.linear.features, self.linear.coefficients, strict=True))
        unknown = [name for name in self.discrete if name not in theta]
        if unknown or not self.discrete:
            raise UsageError(f"discrete: {unknown or 'none given'}; name some of {', '.join(theta)}.")
        if not self.allowed or any(len(point) != len(self.discrete) for point in self.allowed):
            raise UsageError("allowed: list combinations with one value for each discrete feature.")
        if not self.delta > 0:
            raise UsageError(f"delta: {self.delta!r} is not allowed; give a number above 0.")
        object.__setattr__(self, "_theta", theta)

    @property
    def columns(self) -> tuple[str, ...]:
        """The features of the linear classifier."""
        return self.linear.columns

    @property
    def _reach(self) -> tuple[float, float]:
        """Smallest and largest contribution the discrete features can make."""
        sums = np.asarray(self.allowed, dtype=float) @ [self._theta[name] for name in self.discrete]
        return float(sums.min()), float(sums.max())

    @property
    def _size(self) -> float:
        """Dual norm of the continuous coefficients; 0 when every feature is discrete."""
        rest = [value for name, value in self._theta.items() if name not in self.discrete]
        return float(np.linalg.norm(rest, DUAL[self.linear.norm])) if rest else 0.0

    def expression(self) -> nw.Expr:
        """The cheaper of a continuous move, and a jump followed by a shorter one."""
        margin = _margin(self.linear.features, self.linear.coefficients, self.linear.intercept)
        jump = _margin(self.discrete, [self._theta[name] for name in self.discrete], 0.0)
        low, high = self._reach
        # What the best jump leaves to be crossed, 0 when the jump alone crosses.
        up = _positive(-(margin - jump + high))
        down = _positive(margin - jump + low)
        return nw.when(margin >= 0).then(self._cost(margin, down)).otherwise(-self._cost(-margin, up))

    def _cost(self, across: nw.Expr, left: nw.Expr) -> nw.Expr:
        if self._size == 0.0:
            return nw.when(left > 0).then(nw.lit(np.inf)).otherwise(nw.lit(self.delta))
        whole, rest = across * (1 / self._size), left * (1 / self._size) + self.delta
        return nw.when(whole <= rest).then(whole).otherwise(rest)


@dataclass(frozen=True, eq=False)
class Kernel(Distance):
    """Distance in the kernel's own space: |f(x)| / norm of f, with f(x) = sum of alpha_i k(x_i, x) + b.

    The paper's cost (3b) is this squared. Its density at the boundary is infinite, which the theorem excludes, so
    ``squared=True`` gives a plan and no p-value.
    """

    features: tuple[str, ...]
    decision: Any  # rows -> f(x)
    norm: float
    squared: bool = False

    @property
    def tested(self) -> bool:  # type: ignore[override]
        """The null law holds for the distance, not for its square."""
        return not self.squared

    @property
    def columns(self) -> tuple[str, ...]:
        """The features."""
        return tuple(self.features)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """f(x) over its norm; squared, with the sign kept, if asked."""
        value = np.asarray(self.decision(features), dtype=float) / self.norm
        return np.sign(value) * value**2 if self.squared else value


@dataclass(frozen=True, eq=False)
class Tree(Distance):
    """Exact distance to the nearest leaf of the other decision: leaves are boxes.

    ``low`` and ``high`` are the boxes' corners, (leaves, features); ``decision`` the leaves' decisions.
    """

    features: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    decision: npt.NDArray[np.bool_]
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        choose("norm", self.norm, DUAL)
        if self.decision.all() or not self.decision.any():
            raise UsageError("distance: every leaf of the tree decides alike; there is no boundary.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The features."""
        return tuple(self.features)

    def evaluate(self, features: FloatArray) -> FloatArray:
        """Signed distance to the nearest box of the other decision."""
        return self._nearest(features)[0]

    def move(self, features: FloatArray) -> FloatArray:
        """The nearest point of that box."""
        return self._nearest(features)[1]

    def _nearest(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        selected = np.zeros(len(features), dtype=bool)
        best = np.full((2, len(features)), np.inf)  # to the nearest leaf that refuses, that selects
        point = np.repeat(features[None], 2, axis=0)
        order: Any = {"l1": 1, "l2": 2, "linf": np.inf}[self.norm]
        for low, high, decision in zip(self.low, self.high, self.decision, strict=True):
            target = np.clip(features, low, high)
            far = np.linalg.norm(features - target, order, axis=1)
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
class PerGroup(Distance):
    """Another distance, times a factor that depends on a column: a cost that depends on the attribute."""

    distance: Distance
    column: str
    factors: Mapping[Any, float]

    def __post_init__(self) -> None:
        if self.distance.expression() is None:
            raise UsageError("PerGroup: give a distance that is an expression of columns, or compute a column.")
        if not self.factors or not all(0 < f < np.inf for f in self.factors.values()):
            raise UsageError(f"factors: {dict(self.factors)!r}; give a finite number above 0 for each level.")

    @property
    def signed(self) -> bool:  # type: ignore[override]
        """As the distance it scales."""
        return self.distance.signed

    @property
    def columns(self) -> tuple[str, ...]:
        """The distance's columns and the one that sets the factor."""
        return (*self.distance.columns, self.column)

    def expression(self) -> nw.Expr:
        """The distance times the factor; a level without one is missing."""
        factor: Any = nw.lit(None, nw.Float64)
        for level, value in self.factors.items():
            factor = nw.when(nw.col(self.column) == level).then(nw.lit(float(value))).otherwise(factor)
        inner = self.distance.expression()
        assert inner is not None
        return inner * factor


def _margin(features: Sequence[str], coefficients: Sequence[float], intercept: float) -> nw.Expr:
    total: Any = nw.lit(float(intercept))
    for name, coefficient in zip(features, coefficients, strict=True):
        total = total + nw.col(name).cast(nw.Float64) * float(coefficient)
    return total


def _positive(value: nw.Expr) -> nw.Expr:
    return nw.when(value > 0).then(value).otherwise(nw.lit(0.0))
