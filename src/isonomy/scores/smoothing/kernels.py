"""The score axis and its bins; kernels, bandwidths, and local-linear curves on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import shown

# ---- axis

BINS = 1024  # of the score axis, for the pooled curve and the default grid
PERCENTS = (1, *range(5, 100, 5), 99)
_ZOOMS = 8  # of the axis, each by up to 512
_PIECE = 2**15


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
            counts = histogram(axis)
            if not counts.any():
                return self  # every weight is zero: the reader of the rows raises
            first, low, high, last = axis.quantiles(counts, (0.01, 0.05, 0.95, 0.99))
            if last - first >= axis.length / 4:
                more = (high - low) / 4
                return replace(axis, span=(max(axis.low, low - more), min(axis.high, high + more)))
            more = (last - first) / 2
            axis = replace(axis, low=max(axis.low, first - more), high=min(axis.high, last + more))
        return self  # nearly all scores are equal

    def focused_on(self, score: FloatArray, weight: FloatArray | None = None) -> Axis:
        """The axis for these scores."""
        return self.focused(lambda axis: axis.histogram(score, weight))

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
    def centers(self) -> FloatArray:
        """The middle of each bin."""
        return self.low + self.length * (np.arange(BINS) + 0.5) / BINS

    def bin(self, score: FloatArray) -> IntArray:
        """The bin of each score."""
        return np.clip(np.floor((score - self.low) * (BINS / self.length)), 0, BINS - 1).astype(np.intp)

    def histogram(self, score: FloatArray, weight: FloatArray | None = None) -> FloatArray:
        """Weight (or number of rows) in each bin, in pieces that fit into the cache."""
        total = np.zeros(BINS)
        for start in range(0, score.size, _PIECE):
            part = slice(start, start + _PIECE)
            total += np.bincount(self.bin(score[part]), None if weight is None else weight[part], BINS)
        return total

    def quantiles(self, weight: FloatArray, fractions: Sequence[float]) -> FloatArray:
        """Quantiles of a histogram on this axis, linear inside a bin."""
        reached = np.cumsum(weight)
        wanted = np.asarray(fractions) * reached[-1]
        place = np.minimum(np.searchsorted(reached, wanted), int(np.flatnonzero(weight)[-1]))
        inside = (wanted - (reached - weight)[place]) / weight[place]
        return self.low + self.length * (place + np.clip(inside, 0, 1)) / BINS

    def grid(self, weight: FloatArray) -> FloatArray:
        """The paper's quantiles of a histogram; points in one bin of the axis are taken once."""
        points = self.quantiles(weight, [percent / 100 for percent in PERCENTS])
        _, first = np.unique(self.bin(points), return_index=True)
        return points[first]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCurve:
    """A function of the score: linear between the centers of the axis's bins, constant beyond the ends."""

    axis: Axis
    values: FloatArray  # at `Axis.centers`

    def __call__(self, score: FloatArray) -> FloatArray:
        """Value at each score."""
        centers = self.axis.centers
        position = np.floor((score - centers[0]) * (BINS / self.axis.length))
        index = np.clip(position, 0, BINS - 2).astype(np.intp)
        intercept, slope = self.pieces
        return intercept[index] + slope[index] * np.clip(score, centers[0], centers[-1])

    @property
    def pieces(self) -> tuple[FloatArray, FloatArray]:
        """Intercept and slope of each of the BINS - 1 linear pieces."""
        slope = np.diff(self.values) * (BINS / self.axis.length)
        return self.values[:-1] - slope * self.axis.centers[:-1], slope


# ---- kernels

Kernel = Literal["gaussian", "gaussian4", "gaussian6"]

# Even polynomials in u that multiply exp(-u^2/2): moments 1 to order - 1 vanish (the paper's Assumption 4).
KERNELS: dict[Kernel, tuple[float, ...]] = {
    "gaussian": (1.0,),
    "gaussian4": (3 / 2, -1 / 2),
    "gaussian6": (15 / 8, -10 / 8, 1 / 8),
}
# Bandwidth of the pooled curve and of the groups' shares, as a part of the comparison's. At one half a curve with
# kinks keeps a bias that shows where one group's scores lie between the other's.
POOLED = 0.3
RESIDUAL = 0.5  # for the method that smooths residuals alone


def kernel(u: FloatArray, name: Kernel = "gaussian") -> FloatArray:
    """K(u) without its constant, which cancels.

    The paper prints exp(-x^2 / (2 h)); u = x / h, hence exp(-u^2 / 2), is meant.
    """
    square = u * u
    bell = np.exp(square * -0.5)
    return bell if name == "gaussian" else bell * polynomial(KERNELS[name], square)


def polynomial(coefficients: Sequence[float] | FloatArray, u: FloatArray) -> FloatArray:
    """Value at ``u``; constant term first. Coefficients may be arrays, which broadcast against ``u``."""
    value = np.asarray(coefficients[-1], dtype=np.float64)
    for coefficient in coefficients[-2::-1]:
        value = u * value + coefficient
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidth:
    """How wide the kernel is at each score."""

    axis: Axis
    n: float  # users at user level, rows at aggregate level: the average number in a group
    given: FloatArray | None = None  # the caller's own, at the grid
    grid: FloatArray | None = None
    factor: float = 1.0  # on the published rule

    @classmethod
    def of(
        cls, axis: Axis, n: float, bandwidth: float | Sequence[float] | FloatArray | None, grid: FloatArray
    ) -> Bandwidth:
        """The caller's bandwidth: one positive number, or one for each point of the grid. None: the published rule."""
        if bandwidth is None:
            return cls(axis, n)
        try:
            values = np.atleast_1d(np.asarray(bandwidth, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            values = np.empty(0)
        least = axis.length / BINS
        if values.size not in (1, grid.size) or not np.all(np.isfinite(values) & (values >= least)):
            raise UsageError(
                f"bandwidth: {shown(bandwidth)} is not allowed; give None for the published rule, a number of at "
                f"least {least:.3g} (a bin of the score axis), or one such number per grid point ({grid.size})."
            )
        return cls(axis, n, values, grid)

    def at(self, points: FloatArray) -> FloatArray:
        """Bandwidth at each point; the published rule unless the caller gave a bandwidth."""
        if self.given is None or self.grid is None:
            return self.factor * published(points, self.n, self.axis)
        if self.given.size == 1:
            return np.full(points.shape, float(self.given[0]))
        return np.interp(points, self.grid, self.given)

    def smooth(self, weight: FloatArray, total: FloatArray, part: float = POOLED) -> ScoreCurve:
        """The pooled curve of total/weight, histograms on the axis: local-linear at a ``part`` of the bandwidth."""
        return local_linear(self.axis, weight, total, part * self.at(self.axis.centers))

    def share(self, weight: FloatArray, part: float = POOLED) -> ScoreCurve:
        """The share of the first of the groups in ``weight`` (groups, bins) at each score."""
        return ScoreCurve(self.axis, np.clip(self.smooth(weight.sum(axis=0), weight[0], part).values, 0.0, 1.0))


FACTORS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)


def cross_validated(bandwidth: Bandwidth, weight: FloatArray, total: FloatArray) -> Bandwidth:
    """The published rule times the factor whose local line best predicts the mean outcome of a bin from the others.

    ``weight``, ``total``: votes, and votes times outcomes, in the bins of the axis.
    """
    held = weight > 0
    at, votes, mean = bandwidth.axis.centers[held], weight[held], total[held] / weight[held]
    errors = []
    for factor in FACTORS:
        u = (at[:, None] - at) / np.maximum(factor * bandwidth.at(at), bandwidth.axis.length / BINS)
        k = kernel(u) * votes[:, None]
        np.fill_diagonal(k, 0.0)
        fit = local_line(k.sum(axis=0), (k * u).sum(axis=0), (k * u * u).sum(axis=0), mean @ k, mean @ (k * u))
        errors.append(float(np.nansum(votes * (mean - fit) ** 2)) if np.isfinite(fit).all() else np.inf)
    return replace(bandwidth, factor=FACTORS[int(np.argmin(errors))] if np.isfinite(min(errors)) else 1.0)


def published(points: FloatArray, n: float, axis: Axis) -> FloatArray:
    """max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5) / 10), the paper's section 7, on the axis's span scaled to [0, 1]."""
    low, high = axis.span
    length = high - low if high > low else 1.0
    s = np.clip((points - low) / length, 0.0, 1.0)
    rate = max(n, 1.0) ** -0.2
    return length * np.maximum(1.06 * np.sqrt(s * (1 - s)) * rate, rate / 10)


def line_sums(at: FloatArray, width: FloatArray, score: FloatArray, weights: FloatArray) -> FloatArray:
    """Sums of K u^k and K u^k Y for `local_line`, over ``score``; ``weights``: of each score, and times its outcome."""
    u = (score[:, None] - at) / width
    k = kernel(u)
    ku = k * u
    return np.stack([weights[0] @ k, weights[0] @ ku, weights[0] @ (ku * u), weights[1] @ k, weights[1] @ ku])


def local_line(s0: FloatArray, s1: FloatArray, s2: FloatArray, t0: FloatArray, t1: FloatArray) -> FloatArray:
    """The local line's value at its center, from sums of K u^k and K u^k Y; the local mean where there is no slope."""
    spread = s0 * s2 - s1 * s1
    enough = spread > 1e-8 * s0 * s0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(enough, (s2 * t0 - s1 * t1) / np.where(enough, spread, 1.0), t0 / s0)


def local_linear(axis: Axis, weight: FloatArray, total: FloatArray, width: FloatArray) -> ScoreCurve:
    """Local-linear fit of total/weight, a histogram on the axis, with ``width`` at each of its centers.

    Bins are joined by 2, 4, ... up to half of the narrowest width first: that widens the kernel by at most 2 %.
    """
    step = 1
    while step < 64 and 2 * step * axis.length / BINS <= width.min() / 2:
        step *= 2
    at = axis.centers.reshape(-1, step).mean(axis=1)
    width = np.interp(at, axis.centers, width)
    weight, total = weight.reshape(-1, step).sum(axis=1), total.reshape(-1, step).sum(axis=1)
    held = weight > 0
    fit = local_line(*line_sums(at, width, at[held], np.stack([weight[held], total[held]])))
    known = np.isfinite(fit)
    return ScoreCurve(axis, np.interp(axis.centers, at[known], fit[known]))
