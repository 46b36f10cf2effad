"""What the rounds say together: one p-value, averages, and p-values over every gain that could be required (Figure 3).

The p-value of a round at (delta_a, delta_f) is the larger of an accuracy curve at delta_a and a fairness curve at
delta_f, both read off the same resamples. So a whole surface is a few curves and a median over rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.rules.bootstrap import Comparison, PvalueForm, largest
from isonomy.alternatives.rules.criteria import Scale
from isonomy.errors import UsageError
from isonomy.numerics.arrays import BoolArray, FloatArray

GRID = (201, 101)  # accuracy gains from -1 to 1, fairness gains from 0 to 1, as in the paper


def median(pvalues: ArrayLike) -> FloatArray:
    """The smallest median along the first axis (the paper's footnote 18), so that half the rounds suffice."""
    ordered = np.sort(np.asarray(pvalues, dtype=float), axis=0)
    return np.asarray(ordered[(len(ordered) - 1) // 2])


def combined(pvalues: ArrayLike) -> FloatArray:
    """One valid p-value from the rounds': min(1, 2 x median) (Corollary 1); a single round's own, undoubled."""
    middle = median(pvalues)
    return middle if len(np.atleast_1d(pvalues)) == 1 else np.minimum(1.0, 2 * middle)


def level(alpha: float, rounds: int) -> float:
    """What the median p-value is compared with: alpha / 2, or alpha for one round."""
    return alpha if rounds == 1 else alpha / 2


def averages(values: FloatArray) -> FloatArray:
    """Means over the rounds that found something, of candidate and status quo."""
    complete = ~np.isnan(values).any(axis=tuple(range(1, values.ndim)))
    kept = values[complete][..., :2]
    return kept.mean(axis=0) if len(kept) else np.full((*values.shape[1:-1], 2), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """For every round the p-value of its accuracy part and of its fairness part, over grids of gains."""

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    accuracy: FloatArray  # (rounds, accuracy gains)
    fairness: FloatArray  # (rounds, fairness gains)

    def __post_init__(self) -> None:
        for array in (self.accuracy_gains, self.fairness_gains, self.accuracy, self.fairness):
            array.flags.writeable = False

    def median_pvalues(self) -> FloatArray:
        """Median over rounds of the larger p-value: (accuracy gains, fairness gains)."""
        rows = [median(np.maximum(self.accuracy[:, i, None], self.fairness)) for i in range(len(self.accuracy_gains))]
        return np.stack(rows)


def curves(
    rounds: Sequence[Comparison | None], accuracy_gains: ArrayLike, fairness_gains: ArrayLike, form: PvalueForm
) -> Curves:
    """Read the curves off the resamples; a round that found no algorithm has p = 1 throughout."""
    a, f = _grid("accuracy_gains", accuracy_gains), _grid("fairness_gains", fairness_gains)
    return Curves(
        a,
        f,
        np.stack([np.ones(len(a)) if c is None else largest(c.accuracy, a, form) for c in rounds]),
        np.stack([np.ones(len(f)) if c is None else largest(c.fairness, f, form) for c in rounds]),
    )


def _grid(name: str, given: ArrayLike) -> FloatArray:
    grid = np.array(given, dtype=float)
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or (np.diff(grid) <= 0).any():
        raise UsageError(f"{name}: give increasing, finite numbers.")
    return grid


def default_grids(scale: Scale, accuracy: FloatArray, unfairness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The paper's grid of ratios; for differences the same grid times the status quo's own largest values."""
    a, f = np.linspace(-1, 1, GRID[0]), np.linspace(0, 1, GRID[1])
    if scale == "ratio":
        return a, f
    return a * (float(np.abs(accuracy).max()) or 1.0), f * (float(unfairness.max()) or 1.0)


def largest_supported(
    rounds: Sequence[Comparison | None],
    kind: Literal["fairness", "accuracy"],
    grid: FloatArray,
    level: float,
    form: PvalueForm,
) -> float:
    """The largest gain in fairness (or accuracy) that is rejected at, the other gain being 0; NaN where 0 is not.

    The test inverted: a lower confidence bound. The grid brackets it and bisection places it between two points.
    """

    def rejects(gain: float) -> bool:
        a, f = (0.0, gain) if kind == "fairness" else (gain, 0.0)
        ps = [
            1.0 if c is None else float(max(largest(c.accuracy, a, form), largest(c.fairness, f, form))) for c in rounds
        ]
        return float(median(ps)) <= level

    return _last(rejects, np.unique(np.concatenate([[0.0], grid[grid > 0]])))


def _last(rejects: Callable[[float], bool], grid: FloatArray) -> float:
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


def reach(supported: BoolArray, accuracy_gains: FloatArray) -> FloatArray:
    """For each fairness gain the largest accuracy gain supported without a break from below; NaN where none."""
    steps = np.cumprod(supported, axis=0).sum(axis=0)
    return np.where(steps > 0, accuracy_gains[np.maximum(steps, 1) - 1], np.nan)
