"""Are two curves equal? Differences, bands and p-values over the grid, alone and with the cumulative walk and trend.

Statistics are judged by Student's law and turned into normal scores; their joint law is normal with the correlation of
the sums by user, and maxima over the grid and ranges of the walk are judged by the same draws from it. No row is
resampled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from isonomy.inference import multiplicity
from isonomy.inference.simultaneous import beyond_rounding, normal_draws, sup_t
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.scores.smoothing.contrasts import Pair, PairContrast, Pooled, enough, welch
from isonomy.scores.smoothing.moments import VoteMoments

# ---- walks

CHECKPOINTS = 40  # score intervals of the cumulative test


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """Sums of (1_g - share(S)) (Y - pooled(S)) over the rows of two groups in each of some score intervals.

    Its range (Kuiper's statistic) is judged. With a tolerance, what a difference of that size could add to a stretch is
    taken off the stretch; the law without any difference then bounds that of the statistic.
    """

    step: FloatArray  # (C,)
    allowed: FloatArray  # (C,): what a difference of 1 would add
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, C) each
    known: bool  # whether there are events and users enough, and a variance
    freedom: float = np.inf  # degrees of freedom of the whole sum
    least: float = 0.0  # sum of the steps' variances, if outcomes of 0 and 1 had the pooled curve's chances

    def factor(self, covariance: FloatArray) -> float:
        """What the steps' covariance is multiplied by: from few events it is small where they are few by chance."""
        return max(1.0, self.least / max(float(np.trace(covariance)), np.finfo(float).tiny))

    def statistic(self, tolerance: float | None) -> float:
        """The largest sum over a stretch of scores, beyond what the tolerance allows."""
        if tolerance is None:
            return float(span(np.cumsum(self.step)[None, :])[0])
        path, most = (np.concatenate([[0.0], np.cumsum(values)]) for values in (self.step, self.allowed))
        apart, margin = np.abs(path[:, None] - path[None, :]), np.abs(most[:, None] - most[None, :])
        return max(float((apart - tolerance * margin).max()), 0.0)

    def bound(self, statistic: float, covariance: FloatArray) -> float:
        """A p-value from above, for statistics that draws cannot resolve: the sum over all stretches."""
        path = np.zeros((len(covariance) + 1, len(covariance) + 1))
        path[1:, 1:] = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
        a, b = np.triu_indices(len(path), 1)
        variance = np.maximum(path[a, a] + path[b, b] - 2 * path[a, b], np.finfo(float).tiny)
        return min(float(np.sum(tails.normal_sf(statistic / np.sqrt(variance)))), 1.0)


def walk(moments: VoteMoments, pair: Pair, pooled: Pooled, *, binary: bool, within: BoolArray | None = None) -> Walk:
    """The walk of two groups, at intervals with equal shares of their votes. ``within``: at these sites alone."""
    chosen = list(pair)
    weight = moments.weight[chosen]
    if within is not None:
        pooled = replace(pooled, common=within if pooled.common is None else pooled.common & within)
    member = pooled.membership
    cell = intervals(weight.sum(axis=0) * (1.0 if within is None else within), CHECKPOINTS)
    inside = (cell[:, None] == np.arange(CHECKPOINTS)).astype(np.float64)
    residual = (member * (moments.total[chosen] - weight * pooled.outcome)).sum(axis=0)
    slopes = member[:, :, None] * inside
    functionals = [np.stack([-slope * pooled.outcome[:, None], slope]) for slope in slopes]
    held = np.ones(len(cell)) if pooled.common is None else pooled.common.astype(np.float64)
    ones = np.stack([held, np.zeros(len(cell))])[:, :, None]
    votes, squares = weight @ held, np.array([moments.cross(g, ones, g, ones)[0, 0] for g in pair])
    effective = np.divide(votes**2, squares, out=np.zeros(2), where=squares > 0)
    mean = np.full(2, (moments.total[chosen] @ held).sum() / max(votes.sum(), np.finfo(float).tiny))
    own = [moments.cross(g, f, g, f) for g, f in zip(pair, functionals, strict=True)]
    second = sum(float(np.trace(part)) for part in own)
    between = 2 * float(np.trace(moments.cross(pair[0], functionals[0], pair[1], functionals[1])))
    known = bool(
        enough(effective, mean, binary=binary).all() and np.isfinite(beyond_rounding(second + between, second))
    )
    sums = residual @ inside, (weight * member**2).sum(axis=0) @ inside
    freedom = float(welch(*(np.array(part.sum()) for part in own), *effective))
    least = 0.0
    if binary and moments.diagonal is not None:  # squares of users' votes say less of how their rows vary
        chance = np.maximum(pooled.outcome * (1 - pooled.outcome), 0.0)
        least = float(np.sum(moments.square[chosen] * member**2 @ chance))
    return Walk(*sums, (functionals[0], functionals[1]), known, freedom, least)


def intervals(weight: FloatArray, size: int) -> IntArray:
    """The interval of each site, of at most ``size`` with about equal votes."""
    share = (np.cumsum(weight) - weight / 2) / max(float(weight.sum()), np.finfo(float).tiny)
    return np.minimum((size * share).astype(np.intp), size - 1)


def span(path: FloatArray) -> FloatArray:
    """The range of each path (paths, steps), which begins at zero."""
    return np.asarray(np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0))


# ---- trends

_DIRECTIONS = 180  # half a turn, where a tolerance makes the largest over directions no closed form


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """The steps of a walk summed along directions in the plane of a level and a line, each with a variance of 1."""

    walk: Walk
    basis: FloatArray  # (C, 2), or fewer: what each step adds to uncorrelated numbers with a variance of 1

    @classmethod
    def of(cls, walk: Walk, covariance: FloatArray) -> Trend:
        """``covariance``: of the walk's steps. Where all rows have one score there is no line."""
        place = np.arange(walk.step.size) / walk.step.size
        center = walk.allowed @ place / max(float(walk.allowed.sum()), np.finfo(float).tiny)
        lines = np.column_stack([np.ones(place.size), place - center])
        variance = lines.T @ covariance @ lines
        scale = np.sqrt(np.maximum(np.diagonal(variance), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(variance / scale[:, None] / scale[None, :])
        held = values > 1e-8
        return cls(walk, lines / scale @ (vectors[:, held] / np.sqrt(values[held])))

    def statistic(self, tolerance: float | None) -> float:
        """The largest of the sums along all directions, beyond what the tolerance allows."""
        if tolerance is None or not self.basis.size:
            return float(np.linalg.norm(self.walk.step @ self.basis))
        angle = np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        turns = np.stack([np.cos(angle), np.sin(angle)]) if self.basis.shape[1] == 2 else np.ones((1, 1))
        along = self.basis @ turns
        beyond = np.abs(self.walk.step @ along) - tolerance * (self.walk.allowed @ np.abs(along))
        return max(float(beyond.max()), 0.0)

    def pvalue(self, statistic: float) -> float:
        """By Hotelling's law, with the walk's degrees of freedom."""
        rank, freedom = self.basis.shape[1], max(self.walk.freedom, 3.0)
        if not rank:
            return 1.0
        left = freedom - rank + 1
        if not np.isfinite(freedom):
            return float(special.chdtrc(rank, statistic**2))
        return float(special.fdtrc(rank, left, statistic**2 * left / (freedom * rank)))

    def drawn(self, steps: FloatArray) -> FloatArray:
        """P-values of draws (draws, C) from the law of the steps."""
        if not self.basis.size:
            return np.ones(len(steps))
        return np.asarray(special.chdtrc(self.basis.shape[1], np.sum((steps @ self.basis) ** 2, axis=1)))


# ---- bands

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


@dataclass(frozen=True, slots=True, eq=False)
class Judgment:
    """How the points of a band are judged together."""

    adjust: Adjustment
    alpha: float
    tolerance: float | None
    draws: int
    bounds: tuple[float, float] = (-np.inf, np.inf)  # where a difference can lie
    test: Test = "points"

    def band(
        self,
        moments: VoteMoments,
        pair: Pair,
        average: PairContrast,
        robust: PairContrast | None,
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
        overall = multiplicity.smallest(adjusted)
        if walk is not None:
            overall = self._together(moments, pair, average, walk, usable, overall, both)
        center, wide, freedom = difference, se, df
        if robust is not None:
            second, freedom = robust.law(moments, pair)
            wide = np.where(usable, robust.errors(second), np.nan)
            center = np.where(usable, robust.estimate, np.nan)
            _, critical = self._adjusted(score, _correlation(second, usable), pvalue, band_draws)
        half = tails.t_as_rare(critical, freedom) * wide
        one_sided = tails.t_as_rare(float(tails.normal_isf(self.alpha, sides="one")), df) * se
        ends = (center - half, center + half, difference - one_sided, difference + one_sided)
        low, high, pointwise_low, pointwise_high = (np.clip(end, *self.bounds) for end in ends)
        shown = np.clip(difference, *self.bounds)
        return Band(shown, se, low, high, pointwise_low, pointwise_high, pvalue, adjusted, overall)

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
        moments: VoteMoments,
        pair: Pair,
        average: PairContrast,
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
