"""p-values over a grid of required gains, and how large a gain the data support (Figure 3).

The p-value of a round at (delta_a, delta_f) is the larger of an accuracy curve at delta_a and a fairness curve at
delta_f, both read off the same resamples. So a whole surface is a few curves and a median over rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives import wording
from isonomy.alternatives.evidence import Evidence, median
from isonomy.alternatives.utilities import FloatArray
from isonomy.errors import UsageError
from isonomy.results import Result, storable
from isonomy.results.shape import read_only

if TYPE_CHECKING:
    import altair as alt

GRID = (201, 101)  # accuracy gains from -1 to 1, fairness gains from 0 to 1, as in the paper


@storable
@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """For every round the p-value of its accuracy part and of its fairness part, over grids of gains."""

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    accuracy: FloatArray  # (rounds, accuracy gains)
    fairness: FloatArray  # (rounds, fairness gains)

    def __post_init__(self) -> None:
        read_only(self)

    def median_pvalues(self) -> FloatArray:
        """Median over rounds of the larger p-value: (accuracy gains, fairness gains)."""
        rows = [median(np.maximum(self.accuracy[:, i, None], self.fairness)) for i in range(len(self.accuracy_gains))]
        return np.stack(rows)


def curves(
    rounds: Sequence[Evidence | None], accuracy_gains: ArrayLike, fairness_gains: ArrayLike, form: str
) -> Curves:
    """Read the curves off the resamples; a round that found no algorithm has p = 1 throughout."""
    a, f = _grid("accuracy_gains", accuracy_gains), _grid("fairness_gains", fairness_gains)
    return Curves(
        a,
        f,
        np.stack([np.ones(len(a)) if e is None else accuracy_part(e, a, form) for e in rounds]),
        np.stack([np.ones(len(f)) if e is None else fairness_part(e, f, form) for e in rounds]),
    )


def accuracy_part(evidence: Evidence, gain: Any, form: str) -> FloatArray:
    """The largest p-value of the accuracy components, all asked for the same gain (or gains)."""
    return np.max([c.pvalue(gain, form) for c in evidence.accuracy], axis=0)


def fairness_part(evidence: Evidence, gain: Any, form: str) -> FloatArray:
    """The largest p-value of the fairness components, all asked for the same gain (or gains)."""
    return np.max([c.pvalue(gain, form) for c in evidence.fairness], axis=0)


def _grid(name: str, given: ArrayLike) -> FloatArray:
    grid = np.asarray(given, dtype=float)
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or (np.diff(grid) <= 0).any():
        raise UsageError(f"{name}: give increasing, finite numbers.")
    return grid


def default_grids(scale: str, accuracy: FloatArray, unfairness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The paper's grid of ratios; for differences the same grid times the status quo's own largest values."""
    a, f = np.linspace(-1, 1, GRID[0]), np.linspace(0, 1, GRID[1])
    if scale == "ratio":
        return a, f
    return a * (float(np.abs(accuracy).max()) or 1.0), f * (float(unfairness.max()) or 1.0)


def largest_supported(rounds: Sequence[Evidence | None], kind: str, grid: FloatArray, level: float, form: str) -> float:
    """The largest gain in fairness (or accuracy) that is rejected at, the other gain being 0; NaN where 0 is not.

    The test inverted: a lower confidence bound. The grid brackets it and bisection places it between two points.
    """
    live = [e for e in rounds if e is not None]
    absent = [1.0] * (len(rounds) - len(live))
    move, hold = (fairness_part, accuracy_part) if kind == "fairness" else (accuracy_part, fairness_part)

    def rejects(gain: float) -> bool:
        ps = [float(max(hold(e, 0.0, form), move(e, gain, form))) for e in live]
        return float(median([*ps, *absent])) < level

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


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SurfaceResult(Result):
    """Median p-values over required gains, with the contour of the level and its crossings.

    ``level`` is alpha / 2 (alpha for one round): a point is supported where its median p-value is below it.
    ``fairness_gain`` is where the contour crosses delta_a = 0, ``accuracy_gain`` where it crosses delta_f = 0; NaN
    where even (0, 0) is not supported.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    median_pvalues: FloatArray
    level: float
    alpha: float
    scale: str
    fairness_gain: float
    accuracy_gain: float

    @property
    def contour(self) -> FloatArray:
        """For each fairness gain the largest accuracy gain supported without a break from below; NaN where none."""
        shown = self.median_pvalues < self.level
        reach = np.cumprod(shown, axis=0).sum(axis=0)
        return np.where(reach > 0, self.accuracy_gains[np.maximum(reach, 1) - 1], np.nan)

    def table(self) -> dict[str, Any]:
        """One row a grid point."""
        a, f = np.meshgrid(self.accuracy_gains, self.fairness_gains, indexing="ij")
        p = self.median_pvalues.ravel()
        return {
            "accuracy_gain": a.ravel(),
            "fairness_gain": f.ravel(),
            "median_pvalue": p,
            "supported": p < self.level,
        }

    def findings(self) -> tuple[str, ...]:
        """The two crossings."""
        return (
            wording.supported("fairness", self.fairness_gain, self.scale, self.alpha),
            wording.supported("accuracy", self.accuracy_gain, self.scale, self.alpha),
        )

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """As for the test itself."""
        return ()

    def limits(self) -> tuple[str, ...]:
        """What the surface does not show."""
        return wording.surface_limits()

    def plot(self) -> alt.TopLevelMixin:
        """Heat map with the contour and the crossings."""
        from isonomy.alternatives.figure import surface_chart
        from isonomy.results.theme import finish

        return finish(surface_chart(self))
