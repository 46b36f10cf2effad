"""The score axis and its bins; kernels, bandwidths, and local polynomials on the axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import shown

# ---- axis

BINS = 1024  # of the score axis
PERCENTS = (1, *range(5, 100, 5), 99)
AT_ONCE = 2**17  # rows: their sums fit into a processor's cache
_ZOOMS = 8  # of the axis, each by up to 512


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal bins of the score. Scores beyond the ends belong to the outer bins.

    ``anchor`` is the lower edge of the bin with the number ``before``: rounding never puts a score that equals the
    anchor into the bin below it.
    """

    anchor: float
    step: float
    size: int = BINS
    before: int = 0

    @property
    def edges(self) -> FloatArray:
        """The ends of the bins, one more than there are bins."""
        return np.asarray(self.anchor + self.step * (np.arange(self.size + 1.0) - self.before))

    @property
    def centers(self) -> FloatArray:
        return np.asarray(self.anchor + self.step * (np.arange(self.size) - self.before + 0.5))

    def index(self, score: FloatArray) -> IntArray:
        place = score - self.anchor
        place *= 1.0 / self.step
        np.floor(place, out=place)
        place += self.before
        return np.clip(place, 0, self.size - 1, out=place).astype(np.intp)


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of scores from ``low`` to ``high``, cut into `BINS` equal bins.

    ``whole`` is [0, 1], or the range of the scores if a score lies outside [0, 1]. ``span`` is where the scores lie,
    except for stray ones; bandwidths follow it.
    """

    low: float
    high: float
    span: tuple[float, float]
    whole: tuple[float, float]

    @classmethod
    def between(cls, low: float, high: float) -> Axis:
        ends = (0.0, 1.0) if 0 <= low <= high <= 1 else (low, high)
        return cls(*ends, ends, ends)

    def focused(self, histogram: Callable[[Axis], FloatArray]) -> Axis:
        """The axis for the scores that ``histogram`` counts in the bins of any axis.

        The span is the range of the central 90 % plus a quarter of it at either end: [0, 1] for scores that fill it. If
        the central 98 % fill less than a quarter of the axis, the axis is narrowed to twice their range.
        """
        axis = self
        for _ in range(_ZOOMS):
            counts = histogram(axis)
            if not counts.any():
                return self  # every weight is zero: reading the rows will raise
            first, low, high, last = axis.quantiles(counts, (0.01, 0.05, 0.95, 0.99))
            if last - first >= axis.length / 4:
                more = (high - low) / 4
                return replace(axis, span=(max(axis.low, low - more), min(axis.high, high + more)))
            more = (last - first) / 2
            axis = replace(axis, low=max(axis.low, first - more), high=min(axis.high, last + more))
        return self  # nearly all scores are equal

    def focused_on(self, score: FloatArray, weight: FloatArray | None = None) -> Axis:
        def histogram(axis: Axis) -> FloatArray:
            counts = np.zeros(BINS)
            for start in range(0, score.size, AT_ONCE):
                part = slice(start, start + AT_ONCE)
                counts += np.bincount(axis.bins.index(score[part]), None if weight is None else weight[part], BINS)
            return counts

        return self.focused(histogram)

    @property
    def length(self) -> float:
        """Length of the axis; 1 if all scores are equal, so that nothing is divided by zero."""
        return self.high - self.low if self.high > self.low else 1.0

    @property
    def unit(self) -> bool:
        """Whether scores can be read as probabilities."""
        return self.whole == (0.0, 1.0)

    @property
    def bins(self) -> Bins:
        return Bins(self.low, self.length / BINS)

    def quantiles(self, weight: FloatArray, fractions: Sequence[float]) -> FloatArray:
        reached = np.cumsum(weight)
        wanted = np.asarray(fractions) * reached[-1]
        place = np.minimum(np.searchsorted(reached, wanted), int(np.flatnonzero(weight)[-1]))
        inside = (wanted - (reached - weight)[place]) / weight[place]
        return self.low + self.length * (place + np.clip(inside, 0, 1)) / BINS

    def grid(self, weight: FloatArray) -> FloatArray:
        """The paper's quantiles of a histogram, at most one in each bin."""
        points = self.quantiles(weight, [percent / 100 for percent in PERCENTS])
        _, first = np.unique(self.bins.index(points), return_index=True)
        return points[first]


# ---- kernels

Kernel = Literal["gaussian", "gaussian4", "gaussian6"]

# Even polynomials in u that multiply exp(-u^2/2): moments 1 to order - 1 vanish (the paper's Assumption 4).
KERNELS: dict[Kernel, tuple[float, ...]] = {
    "gaussian": (1.0,),
    "gaussian4": (3 / 2, -1 / 2),
    "gaussian6": (15 / 8, -10 / 8, 1 / 8),
}


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
class Smoother:
    points: FloatArray
    width: FloatArray
    degree: int = 1  # of the local polynomial; 0 is Nadaraya-Watson
    kernel: Kernel = "gaussian"

    def scaled(self, score: FloatArray) -> FloatArray:
        return (score[:, None] - self.points) * (1.0 / self.width)

    def powers(self, u: FloatArray) -> list[FloatArray]:
        powers = [kernel(u, self.kernel)]
        for _ in range(2 * self.degree):
            powers.append(powers[-1] * u)
        return powers


# ---- local polynomials


def power_sums(powers: Sequence[FloatArray], weight: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of K u^k, k up to twice the degree, and of K u^k Y, k up to the degree (first axis), around each point.

    ``powers``: K u^k at the sites (first axis); ``weight``, ``total``: votes, and votes times outcomes, at the sites
    (last axis).
    """
    outcome = np.stack([total @ power for power in powers[: len(powers) // 2 + 1]])
    return np.stack([weight @ power for power in powers]), outcome


def local_polynomial(power: FloatArray, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients (first axis) and inverse Gram matrices (last two axes) of local polynomials, from `power_sums`."""
    index = np.arange(len(outcome))
    gram = np.moveaxis(power[index[:, None] + index[None, :]], (0, 1), (-2, -1))
    scale = np.maximum(power[0], np.finfo(float).tiny)[..., None, None]
    # Far from any data the Gram matrix is zero; these points are unsupported and their numbers are replaced by NaN.
    inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
    return np.moveaxis((inverse @ np.moveaxis(outcome, 0, -1)[..., None])[..., 0], -1, 0), inverse


def local_line(power: FloatArray, outcome: FloatArray) -> FloatArray:
    """The value of the local line at each point; the local mean where scores are too close together for a slope."""
    flat = power[0] * power[2] - power[1] ** 2 <= 1e-8 * power[0] ** 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(flat, outcome[0] / power[0], local_polynomial(power, outcome)[0][0])


def local_linear(axis: Axis, weight: FloatArray, total: FloatArray, width: FloatArray) -> FloatArray:
    """Local-linear fit of total/weight, histograms on the axis, with ``width`` at each center; values at the centers.

    Bins are first joined by 2, 4, ... up to half of the narrowest width, which widens the kernel by at most 2 %.
    """
    step, centers = 1, axis.bins.centers
    while step < 64 and 2 * step * axis.length / BINS <= width.min() / 2:
        step *= 2
    points = centers.reshape(-1, step).mean(axis=1)
    weight, total = (values.reshape(*values.shape[:-1], -1, step).sum(axis=-1) for values in (weight, total))
    occupied = weight > 0
    smoother = Smoother(points, np.interp(points, centers, width))
    powers = smoother.powers(smoother.scaled(points[occupied]))
    fit = local_line(*power_sums(powers, weight[occupied], total[..., occupied]))
    known = np.isfinite(fit).reshape(-1, points.size).all(axis=0)
    return np.apply_along_axis(lambda values: np.interp(centers, points[known], values[known]), -1, fit)


# ---- bandwidths

FACTORS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
Widths = float | Sequence[float] | Literal["cross-validation"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidth:
    """The width of the kernel at each score: the published rule unless the caller gave widths."""

    axis: Axis
    n: float  # users at user level, rows at aggregate level: the average number in a group
    given: tuple[FloatArray, FloatArray] | None = None  # scores, and the caller's width at each of them
    factor: float = 1.0  # on the published rule

    @classmethod
    def checked(cls, axis: Axis, n: float, bandwidth: Widths | FloatArray, grid: FloatArray) -> Bandwidth:
        """The caller's bandwidth: one positive number, or one for each point of the grid. None: the published rule."""
        if bandwidth is None:
            return cls(axis, n)
        values = np.atleast_1d(np.asarray(bandwidth, dtype=np.float64))
        least = axis.length / BINS
        if values.size not in (1, grid.size) or not np.all(np.isfinite(values) & (values >= least)):
            raise UsageError(
                f"bandwidth: {shown(bandwidth)} is not allowed; give None for the published rule, a number of at "
                f"least {least:.3g} (a bin of the score axis), or one such number per grid point ({grid.size})."
            )
        return cls(axis, n, (grid, np.broadcast_to(values, grid.shape)))

    def widths(self, points: FloatArray) -> FloatArray:
        """The published rule is max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5) / 10), the paper's section 7, on the span
        of the axis scaled to [0, 1].
        """
        if self.given is not None:
            return np.interp(points, *self.given)
        low, high = self.axis.span
        length = high - low if high > low else 1.0
        s = np.clip((points - low) / length, 0.0, 1.0)
        rate = max(self.n, 1.0) ** -0.2
        return self.factor * (length * np.maximum(1.06 * np.sqrt(s * (1 - s)) * rate, rate / 10))

    def cross_validated(self, points: FloatArray, votes: FloatArray, sums: FloatArray) -> Bandwidth:
        """The published rule times the factor whose local line best predicts the mean at a point from the other points.

        ``votes``, ``sums``: votes, and votes times outcomes, at the points.
        """
        errors = []
        for factor in FACTORS:
            smoother = Smoother(points, np.maximum(factor * self.widths(points), self.axis.length / BINS))
            powers = smoother.powers(smoother.scaled(points))
            for power in powers:
                np.fill_diagonal(power, 0.0)
            fit = local_line(*power_sums(powers, votes, sums))
            known = np.isfinite(fit).all()
            errors.append(float(np.nansum(votes * (sums / votes - fit) ** 2)) if known else np.inf)
        return replace(self, factor=FACTORS[int(np.argmin(errors))] if np.isfinite(min(errors)) else 1.0)
