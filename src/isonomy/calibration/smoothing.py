"""Kernels, bandwidths, a fine axis of scores, and the curves that are fitted on it.

Everything here is a pure function of small arrays. Kernels are written once and work on numpy arrays and on narwhals
expressions alike, so that rows in memory and rows in an engine are smoothed by the same formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray

BINS = 1024  # of the score axis, for the pooled curve and the default grid
PERCENTS = (1, *range(5, 100, 5), 99)
_ZOOMS = 8  # of the axis, each by up to 512

# Even polynomials in u that multiply exp(-u^2/2): moments 1 to order - 1 vanish (the paper's Assumption 4).
KERNELS: dict[str, tuple[float, ...]] = {
    "gaussian": (1.0,),
    "gaussian4": (3 / 2, -1 / 2),
    "gaussian6": (15 / 8, -10 / 8, 1 / 8),
}


def kernel(u: Any, name: str = "gaussian") -> Any:
    """K(u) without its constant, which cancels. ``u`` is an array or a narwhals expression.

    The paper prints exp(-x^2 / (2 h)); u = x / h, hence exp(-u^2 / 2), is meant.
    """
    square = u * u
    bell = (square * -0.5).exp() if isinstance(u, nw.Expr) else np.exp(square * -0.5)
    coefficients = KERNELS[name]
    if len(coefficients) == 1:
        return bell
    polynomial: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        polynomial = square * polynomial + coefficient
    return bell * polynomial


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of scores from ``low`` to ``high``, cut into `BINS` equal bins; scores beyond it are in the outer ones.

    ``whole`` is [0, 1], or the scores' range if a score lies outside that. ``span`` is where the scores lie, stray ones
    aside: bandwidths follow it.
    """

    low: float
    high: float
    span: tuple[float, float]
    whole: tuple[float, float]

    @classmethod
    def of(cls, low: float, high: float) -> Axis:
        """The axis for scores from ``low`` to ``high``."""
        ends = (0.0, 1.0) if 0 <= low <= high <= 1 else (low, high)
        return cls(*ends, ends, ends)

    def focused(self, histogram: Callable[[Axis], FloatArray]) -> Axis:
        """The axis for the scores that ``histogram`` counts in the bins of any axis.

        The span is the range of the central 90 % and a quarter of it more at either end: [0, 1] for scores that fill
        it. Where the central 98 % fill less than a quarter of the axis, the axis is narrowed to twice their range.
        """
        axis = self
        for _ in range(_ZOOMS):
            first, low, high, last = axis.quantiles(histogram(axis), (0.01, 0.05, 0.95, 0.99))
            if last - first >= axis.length / 4:
                more = (high - low) / 4
                return replace(axis, span=(max(axis.low, low - more), min(axis.high, high + more)))
            more = (last - first) / 2
            axis = replace(axis, low=max(axis.low, first - more), high=min(axis.high, last + more))
        return self  # nearly every score is one and the same number

    @property
    def published(self) -> Axis:
        """The axis with the bandwidths of the paper, which follow [0, 1]."""
        return replace(self, span=self.whole)

    @property
    def length(self) -> float:
        """Length of the axis; 1 when every score is the same, so that nothing is divided by zero."""
        return self.high - self.low if self.high > self.low else 1.0

    @property
    def unit(self) -> bool:
        """Whether scores can be read as probabilities."""
        return self.whole == (0.0, 1.0)

    @property
    def centres(self) -> FloatArray:
        """The middle of each bin."""
        return self.low + self.length * (np.arange(BINS) + 0.5) / BINS

    def bin(self, score: Any) -> Any:
        """The bin of a score, as a whole float; array or expression."""
        position = (score - self.low) * (BINS / self.length)
        if isinstance(score, nw.Expr):
            return position.floor().clip(0, BINS - 1)
        return np.clip(np.floor(position), 0, BINS - 1)

    def quantiles(self, weight: FloatArray, fractions: Sequence[float]) -> FloatArray:
        """Quantiles of a histogram on this axis, linear inside a bin."""
        reached = np.cumsum(weight)
        wanted = np.asarray(fractions) * reached[-1]
        place = np.minimum(np.searchsorted(reached, wanted), int(np.flatnonzero(weight)[-1]))
        inside = (wanted - (reached - weight)[place]) / weight[place]
        return self.low + self.length * (place + np.clip(inside, 0, 1)) / BINS


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidth:
    """How wide the kernel is at each score."""

    axis: Axis
    n: float  # users at user level, rows at aggregate level: the average number in a group
    given: FloatArray | None = None  # the caller's own, at the grid
    grid: FloatArray | None = None

    def at(self, points: FloatArray) -> FloatArray:
        """Bandwidth at each point; the published rule unless the caller gave another."""
        if self.given is None:
            return published(points, self.n, self.axis)
        if self.given.size == 1 or self.grid is None:
            return np.full(points.shape, float(self.given.flat[0]))
        order = np.argsort(self.grid)
        return np.interp(points, self.grid[order], self.given[order])


def published(points: FloatArray, n: float, axis: Axis) -> FloatArray:
    """max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5) / 10), the paper's section 7, on the axis's span scaled to [0, 1]."""
    low, high = axis.span
    length = high - low if high > low else 1.0
    s = np.clip((points - low) / length, 0.0, 1.0)
    rate = max(n, 1.0) ** -0.2
    return length * np.maximum(1.06 * np.sqrt(s * (1 - s)) * rate, rate / 10)


def own_bandwidth(bandwidth: object, grid: FloatArray) -> FloatArray | None:
    """Check the ``bandwidth`` argument: None, a positive number, or one positive number a grid point."""
    if bandwidth is None:
        return None
    try:
        values = np.atleast_1d(np.asarray(bandwidth, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or values.size not in (1, grid.size) or not np.all(np.isfinite(values) & (values > 0)):
        raise UsageError(
            f"bandwidth: {bandwidth!r} is not allowed; give None for the published rule, a positive number, "
            f"or one positive number for each of the {grid.size} grid points."
        )
    return values


def own_grid(grid: object) -> FloatArray | None:
    """Check the ``grid`` argument: None, or finite scores that increase."""
    if grid is None:
        return None
    try:
        points = np.asarray(grid, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        points = np.array([])
    if not points.size or not np.all(np.isfinite(points)) or np.any(np.diff(points) <= 0):
        raise UsageError(f"grid: {grid!r} is not allowed; give None or finite scores in increasing order.")
    return points


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A function of the score: linear between the centres of the axis's bins, constant beyond the ends."""

    axis: Axis
    values: FloatArray  # at `Axis.centres`

    def __call__(self, score: FloatArray) -> FloatArray:
        """Value at each score."""
        index = np.clip(self.position(score).astype(np.intp), 0, BINS - 2)
        intercept, slope = self.pieces
        return intercept[index] + slope[index] * self._inside(score)

    @property
    def pieces(self) -> tuple[FloatArray, FloatArray]:
        """Intercept and slope of each of the BINS - 1 linear pieces."""
        slope = np.diff(self.values) * (BINS / self.axis.length)
        return self.values[:-1] - slope * self.axis.centres[:-1], slope

    def position(self, score: Any) -> Any:
        """The piece a score lies on, as a whole float; array or expression."""
        position = (score - self.axis.centres[0]) * (BINS / self.axis.length)
        if isinstance(score, nw.Expr):
            return position.floor().clip(0, BINS - 2)
        return np.clip(np.floor(position), 0, BINS - 2)

    def _inside(self, score: FloatArray) -> FloatArray:
        return np.clip(score, self.axis.centres[0], self.axis.centres[-1])


def local_linear(axis: Axis, weight: FloatArray, total: FloatArray, width: FloatArray) -> Curve:
    """Local-linear fit of total/weight, a histogram on the axis, with ``width`` at each of its centres.

    Bins are joined by 2, 4, ... up to half of the narrowest width first: that widens the kernel by at most 2 %.
    """
    step = 1
    while step < 64 and 2 * step * axis.length / BINS <= width.min() / 2:
        step *= 2
    at = axis.centres.reshape(-1, step).mean(axis=1)
    width = np.interp(at, axis.centres, width)
    weight, total = weight.reshape(-1, step).sum(axis=1), total.reshape(-1, step).sum(axis=1)
    held = weight > 0
    w, t = weight[held], total[held]
    u = (at[held][None, :] - at[:, None]) / width[:, None]
    k = kernel(u)
    ku = k * u
    s0, s1, s2, t0, t1 = k @ w, ku @ w, (ku * u) @ w, k @ t, ku @ t
    spread = s0 * s2 - s1 * s1
    enough = spread > 1e-8 * s0 * s0
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.where(enough, (s2 * t0 - s1 * t1) / spread, t0 / s0)
    known = np.isfinite(fit)
    return Curve(axis, np.interp(axis.centres, at[known], fit[known]))
