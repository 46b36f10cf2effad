"""How far is each row from the other side of the decision boundary?

A distance is the least cost of a change to the row's features that flips the decision. Those that are expressions of
columns run on any engine; those that need the model itself (`Kernel`, `Tree`) read the feature columns as arrays.

    Column      a column the user computed
    Score       on the score axis: |score - threshold|; needs no model, the default for black boxes
    Linear      |theta'x + b| / dual norm
    Mixed       linear, with discrete features that may jump at a fixed price (cost (4) of the paper)
    Kernel      |f(x)| / norm of f in the kernel's own space
    Tree        to the nearest leaf of the other decision, exactly
    PerGroup    any of these, priced differently by group

`estimators.of` picks one for a fitted scikit-learn estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError, choose
from isonomy.transport.cost import DUAL, Distance, FloatArray, Norm, finite, names
from isonomy.transport.hyperplane import Linear, Mixed

__all__ = ["Column", "Distance", "Kernel", "Linear", "Mixed", "PerGroup", "Score", "Tree"]


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

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The column itself."""
        return features[:, 0]


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

    def evaluate(self, features: FloatArray) -> FloatArray:
        """Score minus threshold."""
        return features[:, 0] - self.threshold

    def move(self, features: FloatArray) -> FloatArray:
        """Every row that moves goes to the threshold."""
        return np.full_like(features, self.threshold)


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

    def __post_init__(self) -> None:
        names("features", self.features)
        if not callable(self.decision):
            raise UsageError(
                f"decision: {self.decision!r} is not allowed; give a function from rows of features to f(x)."
            )
        if finite("norm", self.norm) <= 0:
            raise UsageError(f"norm: {self.norm!r} is not allowed; give the norm of f, a number above 0.")

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
        size = len(names("features", self.features))
        for argument, shape, wanted in (
            ("low", (size,), "(leaves, features)"),
            ("high", (size,), "(leaves, features)"),
            ("decision", (), "(leaves,)"),
        ):
            value = getattr(self, argument)
            if not isinstance(value, np.ndarray) or value.shape[1:] != shape or value.ndim != len(shape) + 1:
                seen = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
                raise UsageError(f"{argument}: {seen} is not allowed; give a numpy array of shape {wanted}.")
            if len(value) != len(self.low):
                raise UsageError(f"{argument}: {len(value)} leaves, but low has {len(self.low)}; give one for each.")
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
    """Another distance, times a factor that depends on a column: a cost that depends on the attribute.

    The factor changes what a move costs, not where it goes.
    """

    distance: Distance
    column: str
    factors: Mapping[Any, float]

    def __post_init__(self) -> None:
        if not isinstance(self.distance, Distance):
            raise UsageError(
                f"distance: {self.distance!r} is not allowed; give an object of isonomy.transport.distances, such as "
                "Column(name) or estimators.of(model)."
            )
        if not isinstance(self.column, str):
            raise UsageError(
                f"column: {self.column!r} is not allowed; give the name of the column that sets the factor."
            )
        wanted = 'give level -> a finite number above 0, such as {"a": 1.0, "b": 2.0}.'
        if not isinstance(self.factors, Mapping) or not self.factors:
            raise UsageError(f"factors: {self.factors!r} is not allowed; {wanted}")
        for level, factor in self.factors.items():
            if isinstance(factor, bool) or not (isinstance(factor, Real) and 0 < factor < np.inf):
                raise UsageError(f"factors: {factor!r} for level {level!r} is not allowed; {wanted}")

    @property
    def signed(self) -> bool:  # type: ignore[override]
        """As the distance it scales."""
        return self.distance.signed

    @property
    def tested(self) -> bool:  # type: ignore[override]
        """As the distance it scales."""
        return self.distance.tested

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the distance it scales."""
        return self.distance.columns

    @property
    def reads(self) -> tuple[str, ...]:
        """The same, and the column that sets the factor."""
        return (*self.distance.reads, self.column)

    def factor(self) -> nw.Expr:
        """The level's factor (missing for a level without one), times that of the distance it scales."""
        factor: Any = nw.lit(None, nw.Float64)
        for level, value in self.factors.items():
            factor = nw.when(nw.col(self.column) == level).then(nw.lit(float(value))).otherwise(factor)
        inner = self.distance.factor()
        return factor if inner is None else factor * inner

    def without(self) -> tuple[str, nw.Expr]:
        """The column that sets the factor, and the rows whose level there has none."""
        known = nw.any_horizontal(*(nw.col(self.column) == level for level in self.factors), ignore_nulls=True)
        return self.column, ~known & ~nw.col(self.column).is_null()

    def expression(self) -> nw.Expr | None:
        """The distance without the factor."""
        return self.distance.expression()

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The distance without the factor."""
        return self.distance.evaluate(features)

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where the distance it scales goes."""
        return self.distance.move(features)
