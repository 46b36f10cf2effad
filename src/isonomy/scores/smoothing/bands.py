"""Are two curves equal? Differences, bands and p-values over the grid, alone and with the cumulative walk and trend.

Statistics are judged by Student's law and turned into normal scores. Their joint law is normal with the correlation of
the sums by user; maxima over the grid and ranges of the walk are judged by the same draws from it. No row is resampled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import special

from isonomy.inference import multiplicity
from isonomy.inference.effect import Hypothesis, Wald
from isonomy.inference.multiplicity import beyond_rounding, normal_draws, sup_t
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.scores.smoothing.contrasts import PairContrast, Pooled, enough, welch
from isonomy.scores.smoothing.moments import Pair, VoteMoments

TINY = np.finfo(float).tiny

# ---- walks

CHECKPOINTS = 40  # score intervals of the cumulative test


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """Sums of (1_g - share(S)) (Y - pooled(S)) over the rows of two groups in each of some score intervals.

    The statistic is the range of their cumulative sums (Kuiper's statistic). With a tolerance, what a difference of
    that size could add to a stretch is subtracted from the stretch; the law without any difference then bounds the law
    of the statistic.
    """

    step: FloatArray  # (C,)
    allowed: FloatArray  # (C,): what a difference of 1 would add
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, C) each
    known: bool  # whether there are enough events and users, and a variance
    freedom: float = np.inf  # degrees of freedom of the whole sum
    least: float = 0.0  # sum of the steps' variances, if outcomes of 0 and 1 had the pooled curve's chances

    def factor(self, covariance: FloatArray) -> float:
        """The factor on the steps' covariance, which is small where events are few by chance."""
        return max(1.0, self.least / max(float(np.trace(covariance)), TINY))

    def statistic(self, tolerance: float | None) -> float:
        """The largest sum over a stretch of scores, beyond what the tolerance allows."""
        if tolerance is None:
            return float(span(np.cumsum(self.step)[None, :])[0])
        path, most = (np.concatenate([[0.0], np.cumsum(values)]) for values in (self.step, self.allowed))
        apart, margin = np.abs(path[:, None] - path[None, :]), np.abs(most[:, None] - most[None, :])
        return max(float((apart - tolerance * margin).max()), 0.0)

    def bound(self, statistic: float, covariance: FloatArray) -> float:
        """An upper bound of the p-value, for statistics that draws cannot resolve: the sum over all stretches."""
        path = np.zeros((len(covariance) + 1, len(covariance) + 1))
        path[1:, 1:] = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
        a, b = np.triu_indices(len(path), 1)
        variance = np.maximum(path[a, a] + path[b, b] - 2 * path[a, b], TINY)
        return min(float(np.sum(tails.normal_sf(statistic / np.sqrt(variance)))), 1.0)


def walk(moments: VoteMoments, pair: Pair, pooled: Pooled, within: BoolArray | None = None) -> Walk:
    """The walk of two groups, at intervals with equal shares of their votes. ``within``: at these sites only."""
    chosen = list(pair)
    weight, total = moments.weight[chosen], moments.total[chosen]
    if within is not None:
        pooled = replace(pooled, common=within if pooled.common is None else pooled.common & within)
    member = pooled.membership
    cell = intervals(weight.sum(axis=0) * (1.0 if within is None else within), CHECKPOINTS)
    inside = (cell[:, None] == np.arange(CHECKPOINTS)).astype(np.float64)
    residual = (member * (total - weight * pooled.outcome)).sum(axis=0)
    slopes = member[:, :, None] * inside
    functionals = [np.stack([-slope * pooled.outcome[:, None], slope]) for slope in slopes]
    counted = np.ones(len(cell)) if pooled.common is None else pooled.common.astype(np.float64)
    effective = np.concatenate([moments.effective(g, counted[:, None]) for g in pair])
    mean = np.full(2, (total @ counted).sum() / max((weight @ counted).sum(), TINY))
    variances = [moments.cross(g, f, g, f) for g, f in zip(pair, functionals, strict=True)]
    second = sum(float(np.trace(part)) for part in variances)
    between = 2 * float(np.trace(moments.cross(pair[0], functionals[0], pair[1], functionals[1])))
    known = enough(effective, mean, binary=moments.binary).all() and np.isfinite(
        beyond_rounding(second + between, second)
    )
    freedom = float(welch(*(np.array(part.sum()) for part in variances), *effective))
    least = 0.0
    if moments.binary and moments.diagonal is not None:  # squares of users' votes say less about how their rows vary
        chance = np.maximum(pooled.outcome * (1 - pooled.outcome), 0.0)
        least = float(np.sum(moments.square[chosen] * member**2 @ chance))
    sums = residual @ inside, (weight * member**2).sum(axis=0) @ inside
    return Walk(*sums, (functionals[0], functionals[1]), bool(known), freedom, least)


def intervals(weight: FloatArray, size: int) -> IntArray:
    """The interval of each site, of at most ``size`` with about equal votes."""
    share = (np.cumsum(weight) - weight / 2) / max(float(weight.sum()), TINY)
    return np.minimum((size * share).astype(np.intp), size - 1)


def span(path: FloatArray) -> FloatArray:
    """The range of each path (paths, steps), which begins at zero."""
    return np.asarray(np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0))


# ---- trends

_DIRECTIONS = 180  # in half a turn: with a tolerance, the largest over directions has no closed form


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """The steps of a walk summed along directions in the plane of a level and a line, each with a variance of 1."""

    walk: Walk
    basis: FloatArray  # (C, 2), or fewer: what each step adds to uncorrelated numbers with a variance of 1

    @classmethod
    def fit(cls, walk: Walk, covariance: FloatArray) -> Trend:
        """``covariance``: of the walk's steps. If all rows have one score, there is no line."""
        place = np.arange(walk.step.size) / walk.step.size
        center = walk.allowed @ place / max(float(walk.allowed.sum()), TINY)
        lines = np.column_stack([np.ones(place.size), place - center])
        variance = lines.T @ covariance @ lines
        scale = np.sqrt(np.maximum(np.diagonal(variance), TINY))
        values, vectors = np.linalg.eigh(variance / scale[:, None] / scale[None, :])
        positive = values > 1e-8
        return cls(walk, lines / scale @ (vectors[:, positive] / np.sqrt(values[positive])))

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
        if not np.isfinite(freedom):
            return float(special.chdtrc(rank, statistic**2))
        left = freedom - rank + 1
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
    ) -> dict[str, Any]:
        """The columns of the difference at each point, NaN where unsupported, and ``pair_pvalue`` for all points.

        ``average`` is tested and estimates the difference; the band is that of ``robust``, or of the average if it is
        None. ``walk``: judged with the points, or it or its trend instead of them. The pointwise interval is that of
        two one-sided tests at alpha.
        """
        covariance, effect = average.law(moments, pair)
        usable = usable & np.isfinite(np.diagonal(covariance))
        effect = _where(usable, effect)
        score, pvalue = judge(effect, self.tolerance)
        points, band_draws, both = rng.spawn(3)
        adjusted, critical = self._adjusted(score, _correlation(covariance, usable), pvalue, points)
        overall = multiplicity.smallest(adjusted)
        if walk is not None:
            overall = self._joint(moments, pair, average, walk, usable, overall, both)
        banded = effect
        if robust is not None:
            second, banded = robust.law(moments, pair)
            banded = _where(usable, banded)
            _, critical = self._adjusted(score, _correlation(second, usable), pvalue, band_draws)
        pointwise = effect.band(tails.normal_isf(self.alpha, sides="one"))
        ends = (effect.value, *banded.band(critical), *pointwise)
        names = ("disparity", "ci_low", "ci_high", "pointwise_low", "pointwise_high")
        columns: dict[str, Any] = {n: np.clip(end, *self.bounds) for n, end in zip(names, ends, strict=True)}
        tests = {"pvalues": pvalue, "adjusted_pvalue": adjusted, "pair_pvalue": overall}
        return columns | {"se": effect.standard_error} | tests

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

    def _joint(
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
        range_pvalue = 1.0
        if largest > 0:
            range_pvalue = min(float(resampling.resampled_pvalues(largest, ascending)), walk.bound(largest, steps))
        if self.test == "walk":
            return range_pvalue
        trend = Trend.fit(walk, steps)
        pvalues = [range_pvalue, trend.pvalue(trend.statistic(self.tolerance))]
        if self.test == "trend":
            return pvalues[1]
        drawn = [resampling.resampled_pvalues(ranges, ascending), trend.drawn(z[:, many:] * scale[many:])]
        if many:
            maxima = np.abs(z[:, :many]).max(axis=1)
            pvalues.append(points)
            drawn.append(resampling.resampled_pvalues(maxima, np.sort(maxima)))
        smallest = min(pvalues)
        bound = min(1.0, len(pvalues) * smallest)  # Bonferroni
        if self.adjust != "sup-t":
            return bound
        simulated = resampling.pvalue(int((np.min(drawn, axis=0) <= smallest * (1 + 1e-12)).sum()), self.draws)
        return min(float(simulated), bound)  # the bound takes over where draws cannot resolve the p-value


def _where(usable: BoolArray, effect: Wald) -> Wald:
    value, error = (np.where(usable, numbers, np.nan) for numbers in (effect.value, effect.standard_error))
    return Wald(value, error, effect.df)


def _correlation(covariance: FloatArray, usable: BoolArray) -> FloatArray:
    scale = np.sqrt(np.where(usable, np.diagonal(covariance), np.nan))
    return np.asarray(covariance / scale[:, None] / scale[None, :])


def correlations(covariance: FloatArray, first: int = 0) -> tuple[FloatArray, FloatArray]:
    """Correlations and standard deviations; 0 where a variance is only rounding compared with others of its kind.

    That happens where every outcome in a stretch of scores is the same. The numbers up to ``first`` are of one kind,
    the rest of another. The tolerance of a square root of correlations suits both kinds.
    """
    variance = np.diagonal(covariance)
    most = np.concatenate([np.full(part.size, part.max(initial=0.0)) for part in np.split(variance, [first])])
    scale = np.sqrt(np.where(variance > 1e-12 * most, variance, 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(covariance * inverse[:, None] * inverse[None, :]), scale


def normal_score(t: FloatArray, df: FloatArray | float) -> FloatArray:
    """The normal quantile with the same tail as ``t`` under Student's law, with the sign of ``t``."""
    t, df = np.broadcast_arrays(t, df)
    rare = special.stdtr(np.where(np.isfinite(df), df, 1.0), -np.abs(t))
    with np.errstate(invalid="ignore"):
        # Beyond the range of doubles the statistic itself is kept: its p-value is 0 either way.
        score = np.where(np.isfinite(df) & (rare > 0), -special.ndtri(rare), np.abs(t))
    return np.asarray(np.sign(t) * score)


def judge(effect: Wald, tolerance: float | None) -> tuple[FloatArray, FloatArray]:
    """Normal score and p-value of each difference, against "none" or "at most the tolerance, in either direction"."""
    null = Hypothesis(0.0, 0.0, "two-sided") if tolerance is None else Hypothesis(-tolerance, tolerance, "outside")
    statistic, pvalue = effect.test(null)
    return normal_score(np.sign(effect.value) * np.sqrt(statistic), effect.df), pvalue
