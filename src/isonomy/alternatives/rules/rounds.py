"""Merging trials: one p-value, and p-values over every gain that could be required (Figure 3 of the paper).

The p-value of a trial at (delta_a, delta_f) is the larger of an accuracy curve at delta_a and a fairness curve at
delta_f, so a whole surface takes a few curves and one merge per point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.options import Scale
from isonomy.alternatives.rules.comparison import Requirements, largest
from isonomy.errors import UsageError
from isonomy.inference import rejected
from isonomy.numerics.arrays import FloatArray

Merge = Literal["median", "exchangeable", "smallest"]
GRID = (201, 101)  # accuracy gains from -1 to 1, fairness gains from 0 to 1, as in the paper


def median(pvalues: ArrayLike) -> FloatArray:
    """The smallest median along the first axis (the paper's footnote 18), so that half of the rounds suffice."""
    ordered = np.sort(np.asarray(pvalues, dtype=float), axis=0)
    return np.asarray(ordered[(len(ordered) - 1) // 2])


def combined(pvalues: ArrayLike, merge: Merge = "median", attempts: int = 1) -> FloatArray:
    """One valid p-value along the first axis, times the number of attempts.

    ``"median"`` is min(1, 2 x median) (Corollary 1). ``"exchangeable"`` is twice the smallest median of the first k
    p-values, over k, which is valid for exchangeable p-values (Gasparin, Wang and Ramdas 2025). A single round is not
    doubled. ``"smallest"`` is for several candidates, each of which counts as an attempt.

    >>> float(combined([0.01, 0.2, 0.3], "exchangeable")), float(combined([0.01, 0.2, 0.3]))
    (0.02, 0.4)
    """
    values = np.asarray(pvalues, dtype=float)
    if merge == "smallest":
        return np.asarray(np.minimum(1.0, attempts * values.min(axis=0)))
    first = 1 if merge == "exchangeable" else len(values)
    middle = np.min([median(values[:size]) for size in range(first, len(values) + 1)], axis=0)
    return np.asarray(np.minimum(1.0, (2 if len(values) > 1 else 1) * attempts * middle))


def level(alpha: float, rounds: int) -> float:
    """The paper's critical value of the median p-value: alpha / 2, or alpha for one round."""
    return alpha if rounds == 1 else alpha / 2


@dataclass(frozen=True, slots=True, eq=False)
class GainCurves:
    """The p-values of the accuracy part and of the fairness part of every round, over grids of required gains.

    ``merge`` and ``attempts`` determine how the rounds (or candidates) become one p-value.
    """

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    accuracy: FloatArray  # (rounds, accuracy gains)
    fairness: FloatArray  # (rounds, fairness gains)
    merge: Merge
    attempts: int

    def __post_init__(self) -> None:
        for array in (self.accuracy_gains, self.fairness_gains, self.accuracy, self.fairness):
            array.flags.writeable = False

    def pvalues(self) -> FloatArray:
        """The combined p-value at every point: (accuracy gains, fairness gains)."""
        return np.stack(
            [
                combined(np.maximum(self.accuracy[:, i, None], self.fairness), self.merge, self.attempts)
                for i in range(len(self.accuracy_gains))
            ]
        )


def curves(
    rounds: Sequence[Requirements | None],
    accuracy_gains: ArrayLike,
    fairness_gains: ArrayLike,
    merge: Merge,
    attempts: int,
) -> GainCurves:
    """The curves of every round; a round that found no algorithm has p = 1 throughout."""
    a, f = np.array(accuracy_gains, dtype=float), np.array(fairness_gains, dtype=float)
    for name, grid in (("accuracy_gains", a), ("fairness_gains", f)):
        if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or (np.diff(grid) <= 0).any():
            raise UsageError(f"{name}: give increasing, finite numbers.")
    accuracy = np.stack([np.ones(len(a)) if c is None else largest(c.accuracy, a) for c in rounds])
    fairness = np.stack([np.ones(len(f)) if c is None else largest(c.fairness, f) for c in rounds])
    return GainCurves(a, f, accuracy, fairness, merge, attempts)


def default_grids(scale: Scale, accuracy: FloatArray, unfairness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The paper's grid of ratios; for differences, the same grid times the largest values of the status quo."""
    a, f = np.linspace(-1, 1, GRID[0]), np.linspace(0, 1, GRID[1])
    if scale == "ratio":
        return a, f
    return a * (float(np.abs(accuracy).max()) or 1.0), f * (float(unfairness.max()) or 1.0)


def largest_supported(
    rounds: Sequence[Requirements | None],
    kind: Literal["fairness", "accuracy"],
    curves: GainCurves,
    alpha: float,
    margin: float = 0.0,
) -> float:
    """The largest gain in fairness (or accuracy) at which the test rejects if the other gain is 0; NaN if none.

    This is a lower confidence bound. The grid brackets it, and bisection refines it. ``margin`` is the loss of accuracy
    that a gain in fairness may cost.
    """
    grid = curves.fairness_gains if kind == "fairness" else curves.accuracy_gains
    grid = np.unique(np.concatenate([[0.0], grid[grid > 0]]))

    def rejects(gain: float) -> bool:
        a, f = (-margin, gain) if kind == "fairness" else (gain, 0.0)
        pvalues = [1.0 if c is None else float(max(largest(c.accuracy, a), largest(c.fairness, f))) for c in rounds]
        return bool(rejected(combined(pvalues, curves.merge, curves.attempts), alpha))

    if not rejects(0.0):
        return float("nan")
    failing = next((i for i in range(1, len(grid)) if not rejects(grid[i])), None)
    if failing is None:
        return float(grid[-1])
    low, high = float(grid[failing - 1]), float(grid[failing])
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low
