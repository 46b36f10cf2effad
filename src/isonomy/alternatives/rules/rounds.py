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
from isonomy.inference import rejected
from isonomy.numerics.arrays import BoolArray, FloatArray

Merge = Literal["median", "exchangeable", "smallest"]
GRID = (201, 101)  # accuracy gains from -1 to 1, fairness gains from 0 to 1, as in the paper


def median(pvalues: ArrayLike) -> FloatArray:
    """The smallest median along the first axis (the paper's footnote 18), so that half the rounds suffice."""
    ordered = np.sort(np.asarray(pvalues, dtype=float), axis=0)
    return np.asarray(ordered[(len(ordered) - 1) // 2])


def exchangeable(pvalues: ArrayLike) -> FloatArray:
    """The smallest median of the first p-values, over how many are looked at (Gasparin, Wang and Ramdas 2025).

    Twice that is a valid p-value for exchangeable ones, and never above twice the median of all.
    """
    values = np.asarray(pvalues, dtype=float)
    return np.asarray(np.min([median(values[:size]) for size in range(1, len(values) + 1)], axis=0))


def smallest(pvalues: ArrayLike) -> FloatArray:
    """The smallest along the first axis."""
    return np.asarray(np.min(pvalues, axis=0), dtype=float)


def combined(pvalues: ArrayLike, merge: Merge = "median", attempts: int = 1) -> FloatArray:
    """One valid p-value along the first axis, times the number of attempts made.

    ``"median"``: min(1, 2 x median) (Corollary 1); ``"exchangeable"``: `exchangeable`, doubled; a single round's own,
    undoubled. ``"smallest"``: of several candidates, which are attempts.

    >>> float(combined([0.01, 0.2, 0.3], "exchangeable")), float(combined([0.01, 0.2, 0.3]))
    (0.02, 0.4)
    """
    values = np.asarray(pvalues, dtype=float)
    middle = {"median": median, "exchangeable": exchangeable, "smallest": smallest}[merge](values)
    doubled = merge != "smallest" and len(values) > 1
    return np.asarray(np.minimum(1.0, (2 if doubled else 1) * attempts * middle))


def level(alpha: float, rounds: int) -> float:
    """What the median p-value is compared with in the paper: alpha / 2, or alpha for one round."""
    return alpha if rounds == 1 else alpha / 2


def averages(values: FloatArray) -> FloatArray:
    """Means over the rounds that found something, of candidate and status quo."""
    complete = ~np.isnan(values).any(axis=tuple(range(1, values.ndim)))
    kept = values[complete][..., :2]
    return kept.mean(axis=0) if len(kept) else np.full((*values.shape[1:-1], 2), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """For every round the p-value of its accuracy part and of its fairness part, over grids of gains.

    ``merge`` and ``attempts`` say how the rounds (or candidates) become one p-value.
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
    rounds: Sequence[Comparison | None],
    accuracy_gains: ArrayLike,
    fairness_gains: ArrayLike,
    form: PvalueForm,
    merge: Merge,
    attempts: int,
) -> Curves:
    """Read the curves off the resamples; a round that found no algorithm has p = 1 throughout."""
    a, f = _grid("accuracy_gains", accuracy_gains), _grid("fairness_gains", fairness_gains)
    return Curves(
        a,
        f,
        np.stack([np.ones(len(a)) if c is None else largest(c.accuracy, a, form) for c in rounds]),
        np.stack([np.ones(len(f)) if c is None else largest(c.fairness, f, form) for c in rounds]),
        merge,
        attempts,
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
    curves: Curves,
    alpha: float,
    form: PvalueForm,
    margin: float = 0.0,
) -> float:
    """The largest gain in fairness (or accuracy) that is rejected at, the other gain being 0; NaN where 0 is not.

    ``margin``: the loss of accuracy that still counts as no loss, where the gain is in fairness.

    The test inverted: a lower confidence bound. The grid brackets it and bisection places it between two points.
    """
    grid = curves.fairness_gains if kind == "fairness" else curves.accuracy_gains

    def rejects(gain: float) -> bool:
        a, f = (-margin, gain) if kind == "fairness" else (gain, 0.0)
        ps = [
            1.0 if c is None else float(max(largest(c.accuracy, a, form), largest(c.fairness, f, form))) for c in rounds
        ]
        return bool(rejected(combined(ps, curves.merge, curves.attempts), alpha))

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
