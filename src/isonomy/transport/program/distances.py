"""How far is each row from the other side of the decision boundary?

A distance is the least cost of a change to the row's features that flips the decision. Those that are expressions of
columns run on any engine; those that need the model itself (`Kernel`, `Tree`) read the feature columns as arrays.

    Column      a column the user computed
    Score       on the score axis: |score - threshold|; needs no model, the default for black boxes
    Linear      |theta'x + b| / dual norm
    Mixed       linear, with discrete features that may jump at a fixed price (cost (4) of the paper)
    Kernel      |f(x)| / norm of f in the kernel's own space
    Tree        to the nearest leaf of the other decision, exactly
    ModelScore  on the axis of a model's own score: forests, boosting
    PerGroup    any of these, priced differently by group

`estimators.of` picks one for a fitted scikit-learn estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.frames.expressions import Expression, levels, number
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.options import Finite, Number
from isonomy.transport.program.cost import ORDER, Distance, Features, Norm, check_names, feature_costs
from isonomy.transport.program.hyperplane import Linear, Mixed

__all__ = ["Column", "Distance", "Kernel", "Linear", "Mixed", "ModelScore", "PerGroup", "Score", "Tree"]


@dataclass(frozen=True)
class Column(Distance):
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
class Score(Distance):
    """Distance on the score axis, |score - threshold|.

    It costs nothing to compute and assumes only that the decision is 1 where the score is above the threshold. Its unit
    is the score's: "how many points of score".
    """

    name: str
    threshold: Finite

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return (self.name,)

    def expression(self) -> Expression:
        """Score minus threshold."""
        return number(self.name) - self.threshold

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
        """f(x) over its norm; squared, with the sign kept, if asked."""
        value = np.asarray(self.decision(features), dtype=float) / self.norm
        return np.sign(value) * value**2 if self.squared else value


@dataclass(frozen=True, eq=False)
class Tree(Distance):
    """Exact distance to the nearest leaf of the other decision: leaves are boxes.

    ``low`` and ``high`` are the boxes' corners, (leaves, features); ``decision`` the leaves' decisions. ``immutable``
    features do not move; ``costs`` says what a unit of a feature costs.
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
            raise UsageError("distance: every leaf of the tree decides alike; there is no boundary.")
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
    """On the axis of a model's own score, where no distance in its features is known: forests, boosting.

    ``kind`` is what the model is called, ``decision`` gives score minus threshold for rows of features.
    """

    features: Features
    decision: Callable[[FloatArray], npt.ArrayLike]
    kind: str

    @property
    def note(self) -> str:  # type: ignore[override]
        """Said beside every result."""
        return (
            f"The distance is measured on the score of the {self.kind}, not in its features: how far somebody's "
            "features would have to move is not known, and the plan does not say where to."
        )

    def evaluate(self, features: FloatArray) -> FloatArray:
        """Score minus threshold."""
        return np.asarray(self.decision(features), dtype=float)


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
            if not Number(above=0).admits(factor):
                raise UsageError(f"factors: {factor!r} for level {level!r} is not allowed; {wanted}")
        object.__setattr__(self, "signed", self.distance.signed)
        object.__setattr__(self, "tested", self.distance.tested)
        object.__setattr__(self, "note", self.distance.note)

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
        own, inner = levels(self.column, self.factors), self.distance.factor()
        return own if inner is None else own * inner

    def expression(self) -> Expression | None:
        """The distance without the factor."""
        return self.distance.expression()

    def evaluate(self, features: FloatArray) -> FloatArray:
        """The distance without the factor."""
        return self.distance.evaluate(features)

    def move(self, features: FloatArray) -> FloatArray | None:
        """Where the distance it scales goes."""
        return self.distance.move(features)
