"""Are two curves equal? Differences, bands and p-values over the grid, alone and with the cumulative walk and trend.

Statistics are judged by Student's law and turned into normal scores; their joint law is normal with the correlation of
the sums by user, and maxima over the grid and ranges of the walk are judged by the same draws from it. No row is
resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from isonomy.calibration.smoothing.contrasts import Contrast, Pair
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.trends import Trend
from isonomy.calibration.smoothing.walks import Walk, span
from isonomy.inference import multiplicity
from isonomy.inference.simultaneous import normal_draws, sup_t
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray

Adjustment = Literal["sup-t", "bonferroni", "holm", "none"]
Test = Literal["points", "walk", "trend", "all"]
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """One curve minus another at each grid point; NaN where it is unsupported."""

    difference: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    pointwise_low: FloatArray  # of the interval that two one-sided tests at alpha are
    pointwise_high: FloatArray
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
    bounds: tuple[float, float] = (-np.inf, np.inf)  # where a difference can lie
    test: Test = "points"

    def band(
        self,
        moments: Moments,
        pair: Pair,
        average: Contrast,
        robust: Contrast | None,
        usable: BoolArray,
        walk: Walk | None,
        rng: np.random.Generator,
    ) -> Band:
        """The first group of a pair minus the second.

        ``average`` is tested, and estimates the difference; the band is that of ``robust`` (without one, of the
        average). ``walk``: judged together with the points, or it or its trend in place of them.
        """
        covariance, df = average.law(moments, pair)
        usable = usable & np.isfinite(np.diagonal(covariance))
        se = np.where(usable, average.errors(covariance), np.nan)
        difference = np.where(usable, average.estimate, np.nan)
        score, pvalue = beyond(difference, se, df, self.tolerance)
        points, band_draws, both = rng.spawn(3)
        adjusted, critical = self._adjusted(score, _correlation(covariance, usable), pvalue, points)
        overall, statistic = multiplicity.smallest(adjusted), NAN
        if usable.any():
            statistic = float(np.nanmax(np.maximum(np.abs(difference) - (self.tolerance or 0.0), 0.0) / se))
        if walk is not None:
            overall = self._together(moments, pair, average, walk, usable, overall, both)
        centre, wide, freedom = difference, se, df
        if robust is not None:
            second, freedom = robust.law(moments, pair)
            wide = np.where(usable, robust.errors(second), np.nan)
            centre = np.where(usable, robust.estimate, np.nan)
            _, critical = self._adjusted(score, _correlation(second, usable), pvalue, band_draws)
        half = tails.t_as_rare(critical, freedom) * wide
        one_sided = tails.t_as_rare(float(tails.normal_isf(self.alpha, sides="one")), df) * se
        ends = (centre - half, centre + half, difference - one_sided, difference + one_sided)
        low, high, pointwise_low, pointwise_high = (np.clip(end, *self.bounds) for end in ends)
        shown = np.clip(difference, *self.bounds)
        return Band(shown, se, low, high, pointwise_low, pointwise_high, pvalue, adjusted, overall, statistic)

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

    def _together(
        self,
        moments: Moments,
        pair: Pair,
        average: Contrast,
        walk: Walk,
        usable: BoolArray,
        points: float,
        rng: np.random.Generator,
    ) -> float:
        """P-value of the walk, or of its trend; or of the smallest of points, walk and trend, by their joint law."""
        if not walk.known:
            return points if self.test == "all" else NAN
        joined = [
            np.concatenate([f[..., usable], w], axis=-1)
            for f, w in zip(average.functionals, walk.functionals, strict=True)
        ]
        covariance = moments.covariance(dict(zip(pair, joined, strict=True)))
        many = int(usable.sum())
        correlation, scale = correlations(covariance, many)
        factor = walk.factor(covariance[many:, many:])
        steps, scale[many:] = covariance[many:, many:] * factor, scale[many:] * np.sqrt(factor)
        z = normal_draws(correlation, self.draws, rng)
        ranges = span(np.cumsum(z[:, many:] * scale[many:], axis=1))
        largest = walk.statistic(self.tolerance) * (1 - 1e-12)
        ascending = np.sort(ranges)
        own = 1.0
        if largest > 0:
            own = min(float(resampling.among(largest, ascending)), walk.bound(largest, steps))
        if self.test == "walk":
            return own
        trend = Trend.of(walk, steps)
        pvalues = [own, trend.pvalue(trend.statistic(self.tolerance))]
        if self.test == "trend":
            return pvalues[1]
        drawn = [resampling.among(ranges, ascending), trend.drawn(z[:, many:] * scale[many:])]
        if many:
            maxima = np.abs(z[:, :many]).max(axis=1)
            pvalues.append(points)
            drawn.append(resampling.among(maxima, np.sort(maxima)))
        smallest = min(pvalues)
        bound = min(1.0, len(pvalues) * smallest)  # Bonferroni
        if self.adjust != "sup-t":
            return bound
        simulated = resampling.pvalue(int((np.min(drawn, axis=0) <= smallest * (1 + 1e-12)).sum()), self.draws)
        return min(float(simulated), bound)  # the bound, where draws cannot resolve it


def correlations(covariance: FloatArray, first: int = 0) -> tuple[FloatArray, FloatArray]:
    """Correlations and standard deviations; 0 where all that there is of a variance, beside others, is rounding.

    That is so where every outcome of a stretch of scores is the same. ``first``: so many numbers are of another kind
    than the rest. A square root of correlations has a tolerance that suits all of them.
    """
    variance = np.diagonal(covariance)
    most = np.concatenate([np.full(part.size, part.max(initial=0.0)) for part in np.split(variance, [first])])
    scale = np.sqrt(np.where(variance > 1e-12 * most, variance, 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(covariance * inverse[:, None] * inverse[None, :]), scale


def _correlation(covariance: FloatArray, usable: BoolArray) -> FloatArray:
    scale = np.sqrt(np.where(usable, np.diagonal(covariance), np.nan))
    return np.asarray(covariance / scale[:, None] / scale[None, :])


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
