"""Are two curves equal? Differences, bands and p-values over the grid, from sums by user.

Statistics are judged by Student's law with the effective number of users and turned into normal scores; their joint law
is normal with the correlation of the sums by user, and maxima over the grid are judged by draws from it. No row is
resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from isonomy.calibration.smoothing.axis import Axis, Curve
from isonomy.calibration.smoothing.sums import KernelSums, Smoother, solve, support
from isonomy.inference import multiplicity
from isonomy.inference.simultaneous import beyond_rounding, sup_t
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

Adjustment = Literal["sup-t", "bonferroni", "holm", "none"]
Point = tuple[int | IntArray, int | IntArray]  # groups, grid points


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Curves of every group on the grid, with their covariance."""

    curve: FloatArray  # (G, J)
    covariance: FloatArray  # (G, G, J, J)
    effective: FloatArray  # (G, J): effective number of users
    supported: BoolArray  # (G, J)
    gap: FloatArray  # (G, J)
    gap_covariance: FloatArray  # (G, G, J, J)
    student: bool = True  # whether statistics have Student's law with the effective users, or the normal one

    @classmethod
    def of(cls, sums: KernelSums, smoother: Smoother, *, binary: bool) -> Smoothed:
        """Both passes, then which points are supported."""
        fit = solve(smoother, sums.totals(smoother))
        products = sums.products(smoother, fit)
        effective, supported = support(fit, products, binary=binary)
        curve = fit.beta[0] if smoother.curves else fit.mean
        # The paper's method is kept as it is: normal, whatever the number of users.
        student = smoother.marks is not None
        return cls(curve, products.curve, effective, supported, fit.gap, products.gap, student)

    def freedom(self, a: Point, b: Point, covariance: FloatArray) -> FloatArray:
        """Degrees of freedom of a difference between points ``a`` and ``b``, after Welch."""
        if not self.student:
            return np.full(np.shape(a[1]), np.inf)
        (i, s), (j, t) = a, b
        return welch(covariance[i, i, s, s], covariance[j, j, t, t], self.effective[i, s], self.effective[j, t])


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """One curve minus another at each grid point; NaN where it is unsupported."""

    difference: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    pvalue: FloatArray  # of each point alone
    adjusted: FloatArray  # of each point, adjusted for all of them
    overall: float  # of "equal (or within the tolerance) everywhere"
    statistic: float  # the largest difference (beyond the tolerance) in standard errors


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """How the points of a band are judged together."""

    adjust: Adjustment
    alpha: float
    tolerance: float | None
    draws: int

    def band(self, smoothed: Smoothed, pair: tuple[int, int], unit: FloatArray, rng: np.random.Generator) -> Band:
        """The first group of a pair minus the second, from gaps smoothed together. ``unit``: see `attenuation`."""
        i, j = pair
        v = smoothed.gap_covariance
        parts = v[i, i] + v[j, j]
        covariance = parts - v[i, j] - v[j, i]
        known = np.isfinite(beyond_rounding(np.diagonal(covariance), np.diagonal(parts)))
        covariance = covariance / unit[:, None] / unit[None, :]
        usable = smoothed.supported[i] & smoothed.supported[j] & known
        se = np.sqrt(np.where(usable, np.diagonal(covariance), np.nan))
        every = np.arange(usable.size)
        df = smoothed.freedom((i, every), (j, every), v)
        difference = np.where(usable, (smoothed.gap[i] - smoothed.gap[j]) / unit, np.nan)
        score, pvalue = beyond(difference, se, df, self.tolerance)
        adjusted, critical = self._adjusted(score, covariance / se[:, None] / se[None, :], pvalue, rng)
        overall, statistic = float("nan"), float("nan")
        if usable.any():
            overall = float(np.nanmin(adjusted))
            statistic = float(np.nanmax(np.maximum(np.abs(difference) - (self.tolerance or 0.0), 0.0) / se))
        half = student_width(critical, df) * se
        return Band(difference, se, difference - half, difference + half, pvalue, adjusted, overall, statistic)

    def _adjusted(
        self, score: FloatArray, correlation: FloatArray, pvalue: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, float]:
        """P-values adjusted for the number of points, and the critical value of their normal scores."""
        points = int(np.isfinite(score).sum())
        if self.adjust == "none" or not points:
            return pvalue, float(tails.normal_isf(self.alpha))
        if self.adjust != "sup-t":
            # Holm's band is Bonferroni's: only its p-values are smaller.
            return multiplicity.adjust(pvalue, self.adjust), float(tails.normal_isf(self.alpha / points))
        law = sup_t(correlation, alpha=self.alpha, draws=self.draws, rng=rng)
        # Bonferroni bounds the exact sup-t p-value from above; it takes over where draws cannot resolve it.
        return np.fmin(law.adjusted(score), multiplicity.adjust(pvalue, "bonferroni")), law.critical


def attenuation(axis: Axis, smoother: Smoother, share: Curve, weight: FloatArray) -> FloatArray:
    """What a difference of 1 between two groups' outcomes makes of the difference of their smoothed residuals.

    At a score the pooled curve lies between the groups' curves according to their shares, so the two residuals add up
    to the whole difference. Smoothing takes each over scores where its own group is frequent, where the pooled curve is
    nearer to it: together they come to less than the whole. Dividing by that leaves every p-value as it is.
    """
    k = smoother.weigh((axis.centres[None, :] - smoother.points[:, None]) / smoother.width[:, None])
    parts = (1 - share.values, share.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sum((k @ (weight[g] * part)) / (k @ weight[g]) for g, part in enumerate(parts)))


def welch(v: FloatArray, w: FloatArray, n: FloatArray, m: FloatArray) -> FloatArray:
    """Degrees of freedom of a difference, from the variance and the effective users of each side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((v + w) ** 2 / (v**2 / np.maximum(n - 1, 1.0) + w**2 / np.maximum(m - 1, 1.0)))


def normal_score(t: FloatArray, df: FloatArray) -> FloatArray:
    """The normal quantile that is as rare as ``t`` under Student's law: its sign kept, infinite df changing nothing."""
    t, df = np.broadcast_arrays(t, df)
    rare = special.stdtr(np.where(np.isfinite(df), df, 1.0), -np.abs(t))
    with np.errstate(invalid="ignore"):
        # Beyond the range of doubles the normal law's own statistic is kept: such a p-value is 0 either way.
        score = np.where(np.isfinite(df) & (rare > 0), -special.ndtri(rare), np.abs(t))
    return np.asarray(np.sign(t) * score)


def beyond(
    difference: FloatArray, se: FloatArray, df: FloatArray, tolerance: float | None
) -> tuple[FloatArray, FloatArray]:
    """Normal score and p-value of each difference, against "none" or "at most the tolerance, either way".

    The p-value outside the tolerance is half of P(|Z| > nearer end) + P(|Z| > farther end), which is the two-sided one
    without a tolerance and the one-sided one for a wide tolerance.
    """
    if tolerance is None:
        score = normal_score(difference / se, df)
        return score, np.asarray(tails.normal_sf(score))
    size = np.abs(difference)
    score = normal_score(np.sign(difference) * np.maximum(size - tolerance, 0.0) / se, df)
    far = normal_score((size + tolerance) / se, df)
    pvalue = (np.asarray(tails.normal_sf(score)) + np.asarray(tails.normal_sf(far))) / 2
    return score, np.where(size <= tolerance, 1.0, pvalue)


def student_width(critical: float, df: FloatArray) -> FloatArray:
    """The Student quantile that is as rare as the normal quantile ``critical``."""
    quantile = -special.stdtrit(np.where(np.isfinite(df), df, 1.0), special.ndtr(-critical))
    return np.where(np.isfinite(df), quantile, critical)
