"""Two groups compared: local polynomials of their outcomes, differences with bands, and the order of scores.

Statistics are judged by Student's law and turned into normal scores. Their joint law is normal with the correlation of
the sums by user; maxima over the grid and ranges of the walk are judged by the same draws from it. No row is resampled.

The order of scores: mean outcomes in disjoint intervals of the score are compared. If outcomes rise with the score and
are equal across groups, the mean of any group over a lower interval is at most that of any other over a higher one,
whatever the densities of their scores and however steep the curve. Nothing is smoothed, so nothing is biased.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement, permutations
from typing import Any, Literal

import numpy as np
from scipy import special

from isonomy.inference import multiplicity
from isonomy.inference.effect import Hypothesis, Wald, too_skewed
from isonomy.inference.multiplicity import beyond_rounding, normal_draws, sup_t
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.scores.smoothing.kernels import (
    BINS,
    Bandwidth,
    Smoother,
    kernel,
    local_linear,
    local_polynomial,
    polynomial,
    power_sums,
)
from isonomy.scores.smoothing.moments import Pair, VoteMoments

TINY = np.finfo(float).tiny

# ---- curves

EVENTS = 10.0  # a point is supported from this many effective events and non-events in every compared group
EFFECTIVE = 30.0  # the same for outcomes that are not 0/1: effective users


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """Local polynomials of the outcomes of all groups around each point."""

    moments: VoteMoments
    smoother: Smoother
    beta: FloatArray  # (degree + 1, G, J): the local polynomial in u; beta[0] is the curve
    inverse: FloatArray  # (G, J, degree + 1, degree + 1): inverse Gram matrices
    mean: FloatArray  # (G, J): Nadaraya-Watson mean of the outcome
    mass: FloatArray  # (G, J): sum of w K

    @cached_property
    def errors(self) -> FloatArray:
        u = self.smoother.scaled(self.moments.site)
        lever, variances = np.moveaxis(self.inverse[..., 0, :], -1, 0), []
        for g in range(self.moments.size):
            slope = kernel(u, self.smoother.kernel) * polynomial(lever[:, g], u)
            functional = np.stack([-slope * polynomial(self.beta[:, g], u), slope])
            variances.append(np.diagonal(self.moments.cross(g, functional, g, functional)))
        return np.sqrt(variances)

    @cached_property
    def users(self) -> FloatArray:
        """Effective number of users under the kernel (G, J)."""
        inside = kernel(self.smoother.scaled(self.moments.site), self.smoother.kernel)
        return np.stack([self.moments.effective(g, inside) for g in range(self.moments.size)])

    @cached_property
    def effective(self) -> FloatArray:
        """Effective number of users within a bandwidth (G, J), see `users_near`."""
        return users_near(self.moments, range(self.moments.size), self.smoother)


def fit_curves(moments: VoteMoments, smoother: Smoother) -> GroupCurves:
    powers = smoother.powers(smoother.scaled(moments.site))
    power, outcome = power_sums(powers, moments.weight, moments.total)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = outcome[0] / power[0]
    return GroupCurves(moments, smoother, *local_polynomial(power, outcome), mean, power[0])


def users_near(
    moments: VoteMoments, groups: Iterable[int], smoother: Smoother, common: BoolArray | None = None
) -> FloatArray:
    """Effective users of each group within a bandwidth of each point.

    At most twice the number within half a bandwidth, so that rows at the far ends do not stand for an empty middle.
    ``common``: count only rows at these sites.
    """
    distance = np.abs(smoother.scaled(moments.site))
    counted = np.ones(len(distance), dtype=bool) if common is None else common
    inside = np.hstack([(distance <= reach) & counted[:, None] for reach in (1.0, 0.5)]).astype(np.float64)
    halves = [moments.effective(g, inside).reshape(2, -1) for g in groups]
    return np.stack([np.minimum(whole, 2 * half) for whole, half in halves])


def enough(effective: FloatArray, mean: FloatArray, *, binary: bool) -> BoolArray:
    """Whether there are enough users for a normal law, by the number of events (or non-events, if fewer) they imply.

    ``mean``: the mean outcome, which is the rate of events for 0/1 outcomes.
    """
    if not binary:
        return effective >= EFFECTIVE
    return effective * np.nan_to_num(np.minimum(mean, 1 - mean)) >= EVENTS


# ---- contrasts

# Bandwidth of the pooled curve and of the groups' shares, as a fraction of the bandwidth of the comparison. At one
# half, a curve with kinks keeps a bias that shows where the scores of one group lie between those of the other.
POOLED = 0.3
RESIDUAL = 0.5  # for the method that smooths residuals alone
MOST_LEVERAGE = 0.9
NEAR = 1 / 8  # of a bandwidth: rows of two groups that are nearer than this have a score in common
NEIGHBORS = 3.0  # rows of either group that must be that near


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Two groups pooled, at each site: the expected outcome, and the share of the first group.

    ``common``: sites near which both groups have rows. Nothing is compared elsewhere: a smooth share would compare rows
    of one group with rows of the other at different scores, and a steep curve would look like a difference.
    """

    outcome: FloatArray
    share: FloatArray
    common: BoolArray = field(default_factory=lambda: np.ones(BINS, dtype=bool))

    @property
    def membership(self) -> FloatArray:
        """(2, BINS): 1_g - share, for rows of the first group and of the second; 0 where scores are not common."""
        return np.stack([1 - self.share, -self.share]) * self.common


def pool(moments: VoteMoments, pair: Pair, bandwidth: Bandwidth, part: float = POOLED) -> Pooled:
    """The outcome curve of two groups pooled, and the share of the first: local-linear at a ``part`` of the width."""
    chosen, centers, site = list(pair), moments.axis.bins.centers, moments.site
    weight, total = moments.weight[chosen], moments.total[chosen]
    totals = np.stack([total.sum(axis=0), weight[0]])
    curves = local_linear(bandwidth.axis, weight.sum(axis=0), totals, part * bandwidth.widths(centers))
    common = common_sites(weight, moments.square[chosen], site, bandwidth.widths(site))
    return Pooled(np.interp(site, centers, curves[0]), np.interp(site, centers, np.clip(curves[1], 0, 1)), common)


def common_sites(weight: FloatArray, square: FloatArray, site: FloatArray, width: FloatArray) -> BoolArray:
    """Sites at which every group has some rows within an eighth of the bandwidth ``width``.

    ``weight``, ``square``: votes and squared votes (groups, BINS); rows are counted as (sum of w)^2 / sum of w^2.
    """
    reach = NEAR * width
    first, last = np.searchsorted(site, site - reach), np.searchsorted(site, site + reach, side="right")
    votes, squares = (np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0))) for values in (weight, square))
    votes, squares = votes[:, last] - votes[:, first], squares[:, last] - squares[:, first]
    # Equal votes are a tie, which rounding must not decide.
    return np.asarray(np.all((votes > 0) & (votes**2 >= NEIGHBORS * squares * (1.0 - 1e-9)), axis=0))


def supported(moments: VoteMoments, pair: Pair, pooled: Pooled, smoother: Smoother, fit: GroupCurves) -> BoolArray:
    """Points near which both groups have enough users at common scores, given the pair's rate of events."""
    chosen = list(pair)
    effective = users_near(moments, pair, smoother, pooled.common)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.nansum(fit.mean[chosen] * fit.mass[chosen], axis=0) / fit.mass[chosen].sum(axis=0)
    return np.asarray(np.all(enough(effective, mean, binary=moments.binary), axis=0))


def covariances(moments: VoteMoments, pair: Pair, functionals: Sequence[FloatArray]) -> FloatArray:
    """Of functionals of either group (2, BINS, P): within the first, within the second, and between them (3, P, P)."""
    (i, j), (first, second) = pair, functionals
    within = moments.cross(i, first, i, first), moments.cross(j, second, j, second)
    return np.stack([*within, moments.cross(i, first, j, second)])


@dataclass(frozen=True, slots=True, eq=False)
class PairContrast:
    """The first group minus the second at each point, the functionals of their votes, and degrees of freedom."""

    estimate: FloatArray  # (J,)
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, J) each
    freedom: FloatArray  # (2, J): of the part of the variance that comes from either group
    least: FloatArray | float = 0.0  # (J,): the variance if outcomes of 0 and 1 had the pooled curve's chances

    def law(
        self,
        moments: VoteMoments,
        pair: Pair,
        usable: BoolArray | None = None,
        alpha: float = 0.05,
        sums: FloatArray | None = None,
    ) -> tuple[FloatArray, Wald]:
        """Covariance (J, J), NaN where only rounding is left of a variance, and the differences with their errors.

        A variance from few events is small where they are few by chance, so standard errors have a floor. All numbers
        are NaN at points that are not ``usable``. A difference that is too skewed for any law at ``alpha`` has neither
        a variance nor a standard error. ``sums``: `covariances`, if they are known.
        """
        *variances, between = covariances(moments, pair, self.functionals) if sums is None else sums
        parts = variances[0] + variances[1]
        covariance = parts + between + between.T
        known = np.isfinite(beyond_rounding(np.diagonal(covariance), np.diagonal(parts)))
        known = known if usable is None else known & usable
        estimate = self.estimate if usable is None else np.where(known, self.estimate, np.nan)
        known = known & ~skewed(moments, pair, self.functionals, alpha)
        covariance = np.where(known[:, None] & known[None, :], covariance, np.nan)
        freedom = welch(*(np.diagonal(part) for part in variances), *self.freedom)
        errors = np.sqrt(np.maximum(np.diagonal(covariance), self.least))
        return covariance, Wald(estimate, errors, freedom)


# Near a score, means of skewed outcomes need this many times as many people as means of whole groups, by the skewness
# of both groups pooled. By simulation: 2,000 against 20,000 lognormal rows are too few. Near a score a single group's
# skewness is known too badly for more than the usual limit, which protects a skewed group beside one that is not.
WIDER = 10.0


def skewed(moments: VoteMoments, pair: Pair, functionals: Sequence[FloatArray], alpha: float) -> BoolArray:
    """Which of the differences (P,) are too skewed for any law at ``alpha``; none of 0/1 outcomes.

    Judged by each group's votes, and by the skewness of both groups pooled: the votes of a small group without an
    outlier do not show how skewed outcomes are.
    """
    if moments.binary:
        return np.zeros(functionals[0].shape[-1], dtype=bool)
    lever = np.sum([np.abs(f[1]) for f in functionals], axis=0)
    plain, null, pooled = np.zeros((3, 2, lever.shape[-1]))
    votes = np.zeros_like(pooled)
    for g, f in zip(pair, functionals, strict=True):
        alone = np.stack([f[1], np.zeros_like(f[1])])  # the votes, without outcomes
        ratio = np.divide(lever, f[1], out=np.zeros_like(lever), where=f[1] != 0)
        for sums, functional in ((plain, f), (null, alone), (pooled, f * ratio), (votes, alone * ratio)):
            sums += np.stack([moments.third(g, functional), np.diagonal(moments.cross(g, functional, g, functional))])
    with np.errstate(divide="ignore", invalid="ignore"):
        null *= np.nan_to_num(pooled / votes)
    return too_skewed(plain[0], plain[1], alpha) | too_skewed(WIDER**0.5 * null[0], null[1], alpha)


def orthogonal(moments: VoteMoments, pair: Pair, pooled: Pooled, smoother: Smoother) -> PairContrast:
    """Y - f(S) regressed, near each point, on (1_g - share(S)) times a polynomial: the difference of the two curves.

    Both the pooled curve f and the share are partialled out, so errors of either enter only as products with errors of
    the other: where outcomes are equal, different scores do not bias the difference. Degree 0 averages the difference
    over a bandwidth; degree 2 corrects a local line for its bias (Calonico, Cattaneo and Farrell 2018, with equal
    bandwidths). Residuals are divided by the root of 1 - leverage (HC2).
    """
    chosen = list(pair)
    weight, square = moments.weight[chosen], moments.square[chosen]
    member = pooled.membership
    residual = member * (moments.total[chosen] - weight * pooled.outcome)
    u = smoother.scaled(moments.site)
    powers = smoother.powers(u)
    beta, inverse = local_polynomial(*power_sums(powers, (weight * member**2).sum(axis=0), residual.sum(axis=0)))
    rows = [polynomial(np.moveaxis(inverse[..., p, :], -1, 0), u) for p in range(smoother.degree + 1)]
    lever, hat = powers[0] * rows[0], powers[0] * polynomial(np.stack(rows), u)  # K (1, u, ...) inverse (1, u, ...)'
    value = polynomial(beta, u)
    chance = pooled.outcome * (1 - pooled.outcome) if moments.binary else np.zeros(len(u))
    functionals, freedom, least = [], [], np.zeros(smoother.points.size)
    for a, w, q in zip(member[:, :, None], weight[:, :, None], square[:, :, None], strict=True):
        usual = np.divide(q, w, out=np.zeros_like(q), where=w > 0)  # the usual vote at a site
        leverage = np.clip(a**2 * usual * hat, 0, MOST_LEVERAGE)
        slope = a * lever / np.sqrt(1 - leverage)
        functionals.append(np.stack([-slope * (pooled.outcome[:, None] + a * value), slope]))
        part = slope**2 * q
        least += np.maximum(chance, 0) @ part
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom.append(part.sum(axis=0) ** 2 / np.nan_to_num(part**2 * usual / w).sum(axis=0))
    return PairContrast(beta[0], (functionals[0], functionals[1]), np.stack(freedom), least)


def means(
    moments: VoteMoments, pair: Pair, pooled: Pooled | None, smoother: Smoother, effective: FloatArray
) -> PairContrast:
    """Kernel means of outcomes, or of residuals from the pooled curve, of the first group minus those of the second.

    ``effective``: effective users (2, J). Residuals of both groups add up to less than the difference of their curves,
    so they are divided by what a difference of 1 would add up to. Without a pooled curve this is the paper's
    Nadaraya-Watson comparison, judged by the normal law.
    """
    k = kernel(smoother.scaled(moments.site), smoother.kernel)
    base = np.zeros(len(k)) if pooled is None else pooled.outcome
    unit, difference, functionals = np.ones(k.shape[1]), np.zeros(k.shape[1]), []
    with np.errstate(divide="ignore", invalid="ignore"):
        if pooled is not None:
            shares = zip(pair, (1 - pooled.share, pooled.share), strict=True)
            unit = np.sum([(moments.weight[g] * share) @ k / (moments.weight[g] @ k) for g, share in shares], axis=0)
        for g, sign in zip(pair, (1.0, -1.0), strict=True):
            mass = moments.weight[g] @ k
            gap = (moments.total[g] - moments.weight[g] * base) @ k / mass
            slope = np.nan_to_num(sign * k / mass / unit)
            functionals.append(np.stack([-slope * np.nan_to_num(base[:, None] + gap), slope]))
            difference = difference + sign * gap / unit
    freedom = np.full_like(effective, np.inf) if pooled is None else effective
    return PairContrast(difference, (functionals[0], functionals[1]), freedom)


def welch(v: FloatArray, w: FloatArray, n: FloatArray, m: FloatArray) -> FloatArray:
    """Degrees of freedom of a difference, from the variance and the effective users of each side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = v**2 / np.maximum(n - 1, 1.0) + w**2 / np.maximum(m - 1, 1.0)
        return np.where(parts > 0, (v + w) ** 2 / parts, np.inf)


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
    known: bool  # whether there are enough events and users, a variance, and little enough skewness
    freedom: float = np.inf  # degrees of freedom of the whole sum
    least: float = 0.0  # sum of the steps' variances, if outcomes of 0 and 1 had the pooled curve's chances

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


def walk(
    moments: VoteMoments, pair: Pair, pooled: Pooled, within: BoolArray | None = None, alpha: float = 0.05
) -> Walk:
    """The walk of two groups, at intervals with equal shares of their votes. ``within``: at these sites only."""
    chosen = list(pair)
    weight, total = moments.weight[chosen], moments.total[chosen]
    if within is not None:
        pooled = replace(pooled, common=pooled.common & within)
    member = pooled.membership
    cell = intervals(weight.sum(axis=0) * (1.0 if within is None else within), CHECKPOINTS)
    inside = (cell[:, None] == np.arange(CHECKPOINTS)).astype(np.float64)
    step = (member * (total - weight * pooled.outcome)).sum(axis=0) @ inside
    first, second = (np.stack([-slope * pooled.outcome[:, None], slope]) for slope in member[:, :, None] * inside)
    counted = pooled.common.astype(np.float64)
    effective = np.stack([moments.effective(g, counted[:, None]) for g in pair])
    mean = (total @ counted).sum() / max((weight @ counted).sum(), TINY)
    whole = first.sum(axis=-1, keepdims=True), second.sum(axis=-1, keepdims=True)
    _, law = PairContrast(np.array([step.sum()]), whole, effective).law(moments, pair, alpha=alpha)
    known = enough(effective, mean, binary=moments.binary).all() and np.isfinite(law.standard_error).all()
    least = 0.0
    if moments.binary and moments.diagonal is not None:  # squares of users' votes say less about how their rows vary
        chance = np.maximum(pooled.outcome * (1 - pooled.outcome), 0.0)
        least = float(np.sum(moments.square[chosen] * member**2 @ chance))
    allowed = (weight * member**2).sum(axis=0) @ inside
    return Walk(step, allowed, (first, second), bool(known), float(np.asarray(law.df).item()), least)


def intervals(weight: FloatArray, size: int) -> IntArray:
    """The interval of each site, of at most ``size`` with about equal votes."""
    share = (np.cumsum(weight) - weight / 2) / max(float(weight.sum()), TINY)
    return np.minimum((size * share).astype(np.intp), size - 1)


def span(path: FloatArray) -> FloatArray:
    """The range of each path (paths, steps), which begins at zero."""
    return np.asarray(np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0))


# ---- trends

_DIRECTIONS = 180  # in half a turn: with a tolerance, the largest over directions has no closed form


def trend_test(
    walk: Walk, covariance: FloatArray, tolerance: float | None, drawn: FloatArray
) -> tuple[float, FloatArray]:
    """The walk's steps summed along all directions in the plane of a level and a line, each with a variance of 1.

    The p-value of the largest sum, beyond what the tolerance allows, by Hotelling's law with the walk's degrees of
    freedom; and those of draws (draws, C) from the law of the steps, whose ``covariance`` is given.
    """
    place = np.arange(walk.step.size) / walk.step.size
    center = walk.allowed @ place / max(float(walk.allowed.sum()), TINY)
    lines = np.column_stack([np.ones(place.size), place - center])
    variance = lines.T @ covariance @ lines
    scale = np.sqrt(np.maximum(np.diagonal(variance), TINY))
    values, vectors = np.linalg.eigh(variance / scale[:, None] / scale[None, :])
    positive = values > 1e-8  # if all rows have one score, there is no line
    # What each step adds to uncorrelated numbers with a variance of 1: (C, 2), or fewer.
    basis = lines / scale @ (vectors[:, positive] / np.sqrt(values[positive]))
    rank, freedom = basis.shape[1], max(walk.freedom, 3.0)
    if not rank:
        return 1.0, np.ones(len(drawn))
    if tolerance is None:
        square = float(np.sum((walk.step @ basis) ** 2))
    else:
        angle = np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        along = basis @ (np.stack([np.cos(angle), np.sin(angle)]) if rank == 2 else np.ones((1, 1)))
        beyond = np.abs(walk.step @ along) - tolerance * (walk.allowed @ np.abs(along))
        square = max(float(beyond.max()), 0.0) ** 2
    if not np.isfinite(freedom):
        pvalue = special.chdtrc(rank, square)
    else:
        left = freedom - rank + 1
        pvalue = special.fdtrc(rank, left, square * left / (freedom * rank))
    return float(pvalue), np.asarray(special.chdtrc(rank, np.sum((drawn @ basis) ** 2, axis=1)))


# ---- bands

# Differences at neighboring scores are almost one number, and the square root of their correlation, which is singular
# up to rounding, moves by 1e-11 with the order in which a processor adds. This much variance for each alone
# determines it.
SEPARATE = 1e-6
Adjustment = Literal["sup-t", "bonferroni", "holm", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class Judgment:
    kind: str  # the plain value of ``method``
    adjust: Adjustment
    alpha: float
    tolerance: float | None
    draws: int

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
        """The columns of the difference at each point, NaN where unsupported; ``pair_pvalue`` is that of all points.

        ``average`` is tested and estimates the difference; the band is that of ``robust``, or of the average if it is
        None. ``walk``: judged with the points, or it or its trend instead of them. The pointwise interval is that of
        two one-sided tests at alpha.
        """
        together = [part.functionals for part in (average, robust, walk) if part is not None]
        sums = covariances(moments, pair, [np.concatenate(f, axis=-1) for f in zip(*together, strict=True)])
        points = usable.size
        covariance, effect = average.law(moments, pair, usable, self.alpha, sums[:, :points, :points])
        usable = np.isfinite(np.diagonal(covariance))
        score, pvalue = judge(effect, self.tolerance)
        point_draws, band_draws, both = rng.spawn(3)
        adjusted, critical = self._adjusted(score, covariance, pvalue, point_draws)
        overall = multiplicity.smallest(adjusted)
        if walk is not None:
            furthest = float(np.nanmax(np.abs(score), initial=0.0))
            joined = np.append(np.flatnonzero(usable), np.arange(len(sums[0]) - walk.step.size, len(sums[0])))
            whole = (sums.sum(axis=0) + sums[2].T)[np.ix_(joined, joined)]
            overall = self._joint(whole, walk, overall, furthest, both)
        banded = effect
        if robust is not None:
            place = slice(points, 2 * points)
            second, banded = robust.law(moments, pair, usable, self.alpha, sums[:, place, place])
            _, critical = self._adjusted(score, second, pvalue, band_draws)
        # Where the difference is too skewed for any law, it may be anything.
        unlimited = np.isfinite(effect.value) & np.isnan(effect.standard_error)
        pointwise = effect.band(tails.normal_isf(self.alpha, sides="one"))
        pointwise = np.where(unlimited, -np.inf, pointwise[0]), np.where(unlimited, np.inf, pointwise[1])
        ends = (effect.value, *banded.band(critical), *pointwise)
        names = ("disparity", "ci_low", "ci_high", "pointwise_low", "pointwise_high")
        bounds = (-1.0, 1.0) if moments.binary else (-np.inf, np.inf)
        columns: dict[str, Any] = {n: np.clip(end, *bounds) for n, end in zip(names, ends, strict=True)}
        tests = {"pvalues": pvalue, "adjusted_pvalue": adjusted, "pair_pvalue": np.full(points, overall)}
        return columns | {"se": effect.standard_error} | tests

    def _adjusted(
        self, score: FloatArray, covariance: FloatArray, pvalue: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, float]:
        """P-values adjusted for the number of points, and the critical value of their normal scores."""
        points = int(np.isfinite(score).sum())
        if self.adjust == "none" or not points:
            return pvalue, float(tails.normal_isf(self.alpha))
        if self.adjust != "sup-t":
            # Holm's band is Bonferroni's: only its p-values are smaller.
            return multiplicity.adjust(pvalue, self.adjust), float(tails.normal_isf(self.alpha / points))
        scale = np.sqrt(np.diagonal(covariance))
        correlation = covariance / scale[:, None] / scale[None, :] + SEPARATE * np.identity(scale.size)
        law = sup_t(correlation, alpha=self.alpha, draws=self.draws, rng=rng)
        # Bonferroni bounds the exact sup-t p-value from above; it takes over where draws cannot resolve it.
        return np.fmin(law.adjusted(score), multiplicity.adjust(pvalue, "bonferroni")), law.critical

    def _joint(
        self, covariance: FloatArray, walk: Walk, points: float, furthest: float, rng: np.random.Generator
    ) -> float:
        """P-value of the walk, or of its trend; or of the smallest of points, walk and trend, by their joint law.

        ``covariance``: of the usable points, then of the steps.
        """
        if not walk.known:
            return points if self.kind == "omnibus" else np.nan
        many = len(covariance) - walk.step.size
        correlation, scale = correlations(covariance, many)
        # The covariance of the steps is small where events are few by chance.
        factor = max(1.0, walk.least / max(float(np.trace(covariance[many:, many:])), TINY))
        steps, scale[many:] = covariance[many:, many:] * factor, scale[many:] * np.sqrt(factor)
        z = normal_draws(correlation, self.draws, rng)
        ranges = span(np.cumsum(z[:, many:] * scale[many:], axis=1))
        largest = walk.statistic(self.tolerance) * (1 - 1e-12)
        ascending = np.sort(ranges)
        range_pvalue = 1.0
        if largest > 0:
            range_pvalue = min(float(resampling.resampled_pvalues(largest, ascending)), walk.bound(largest, steps))
        if self.kind == "cumulative":
            return range_pvalue
        trend_pvalue, trends = trend_test(walk, steps, self.tolerance, z[:, many:] * scale[many:])
        if self.kind == "trend":
            return trend_pvalue
        pvalues, drawn = [range_pvalue, trend_pvalue], [resampling.drawn_pvalues(ranges, largest), trends]
        if many:
            maxima = np.abs(z[:, :many]).max(axis=1)
            pvalues.append(points)
            drawn.append(resampling.drawn_pvalues(maxima, furthest))
        smallest = min(pvalues)
        bound = min(1.0, len(pvalues) * smallest)  # Bonferroni
        if self.adjust != "sup-t":
            return bound
        simulated = resampling.pvalue(int((np.min(drawn, axis=0) <= smallest * (1 + 1e-12)).sum()), self.draws)
        return min(float(simulated), bound)  # the bound takes over where draws cannot resolve the p-value


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


# ---- orders

INTERVALS = 10  # of the score, with equal votes


def interval_means(moments: VoteMoments, within: BoolArray | None = None) -> dict[str, FloatArray]:
    """Mean outcomes over intervals that hold about equal shares of all votes. ``within``: of these sites only.

    The mean ``score`` of each interval (C,); of each group and interval (G, C) the mean outcome, the effective users,
    and whether there are enough; and the ``covariance`` (G C, G C) of the means.
    """
    counted = np.ones(BINS, dtype=bool) if within is None else within
    votes = moments.weight.sum(axis=0) * counted
    cell = intervals(votes, INTERVALS)
    inside = ((cell[:, None] == np.unique(cell[votes > 0])) & counted[:, None]).astype(np.float64)
    weight, total = moments.weight @ inside, moments.total @ inside
    with np.errstate(divide="ignore", invalid="ignore"):
        value = total / weight
        slope = np.nan_to_num(inside / weight[:, None, :])
    functionals = np.stack([-slope * np.nan_to_num(value)[:, None, :], slope], axis=1)
    groups, many = weight.shape
    covariance = np.zeros((groups, many, groups, many))
    for a, b in combinations_with_replacement(range(groups), 2):
        covariance[a, :, b] = moments.cross(a, functionals[a], b, functionals[b])
        covariance[b, :, a] = covariance[a, :, b].T
    effective = np.stack([moments.effective(g, inside) for g in range(groups)])
    pooled = np.broadcast_to(total.sum(axis=0) / weight.sum(axis=0), value.shape)
    return {
        "score": moments.place @ inside / (votes @ inside),
        "value": value,
        "effective": effective,
        "covariance": covariance.reshape(groups * many, groups * many),
        "supported": enough(effective, pooled, binary=moments.binary),
        "shape": _interval_shapes(moments, functionals),
    }


def _interval_shapes(moments: VoteMoments, functionals: FloatArray) -> FloatArray:
    """Third and second central moments of the means (2, 2, G, C): by each group's votes, and if all are equally skewed.

    Zeros if outcomes are 0 and 1, which are judged by their events.
    """
    if moments.binary:
        return np.zeros((2, 2, len(functionals), functionals.shape[-1]))

    def shapes(parts: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):  # a group may have no votes in an interval
            sums = [(moments.third(g, f), np.diagonal(moments.cross(g, f, g, f))) for g, f in enumerate(parts)]
        return np.nan_to_num(np.moveaxis(np.array(sums), 1, 0))

    slope = functionals[:, 1]
    votes = np.stack([slope, np.zeros_like(slope)], axis=1)
    size = slope.max(axis=1)[:, None, None]  # 1 / votes
    size = np.where(size > 0, size, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = shapes(functionals / size).sum(axis=1) / shapes(votes / size).sum(axis=1)
    return np.stack([shapes(functionals), shapes(votes) * np.nan_to_num(pooled)[:, None]])


def ordering(
    means: Mapping[str, FloatArray],
    labels: Sequence[str],
    tolerance: float | None,
    alpha: float,
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Definition 2's second part: the largest (mean_g(I) - mean_h(J) - tolerance) / se over intervals I < J, g != h.

    One-sided, judged as if all means were equal (or reversed by the tolerance), the hardest case of the null. The worst
    reversal is ``better`` around ``score`` against ``worse`` around ``higher_score``. All reversals are at most
    ``limit``, by one-sided limits; minus infinity if there can be none.
    """
    unknown: dict[str, Any] = dict.fromkeys(("pvalue", "limit", "score", "higher_score", "difference"), np.nan)
    unknown |= {"better": "", "worse": ""}
    groups, many = means["value"].shape
    if many < 2:
        return unknown | {"limit": -np.inf}
    low, high = np.triu_indices(many, 1)
    pairs = np.array(list(permutations(range(groups), 2)))
    a, b = ((pairs[:, k, None] * many + which).ravel() for k, which in enumerate((low, high)))
    covariance, variance = means["covariance"], np.diagonal(means["covariance"])
    parts = variance[a] + variance[b]
    se = np.sqrt(beyond_rounding(parts - 2 * covariance[a, b], parts))
    value, effective, supported = (means[name].ravel() for name in ("value", "effective", "supported"))
    usable = supported[a] & supported[b] & np.isfinite(se)
    for wider, (third, second) in zip((1.0, WIDER), means["shape"].reshape(2, 2, -1), strict=True):
        wide, tests = wider**0.5 * (third[a] - third[b]), int(usable.sum())
        usable &= ~too_skewed(wide, second[a] + second[b], alpha, tests)
    a, b, se = a[usable], b[usable], se[usable]
    if not a.size:
        return unknown
    effect = Wald(value[a] - value[b], se, welch(variance[a], variance[b], effective[a], effective[b]))
    t = normal_score(effect.root(tolerance or 0.0), effect.df)
    worst = int(np.argmax(t))
    used, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    correlation, scale = correlations(covariance[np.ix_(used, used)])
    z = normal_draws(correlation, draws, rng) * scale
    first, second = np.split(places, 2)
    exceeding = 0
    for start in range(0, draws, 250):  # draws x contrasts would be large for many groups
        block = z[start : start + 250]
        exceeding += int(((block[:, first] - block[:, second]) / se >= t[worst]).any(axis=1).sum())
    bound = float(tails.normal_sf(t[worst], sides="one")) * t.size
    limit = float(effect.band(tails.normal_isf(alpha, sides="one"))[1].max())
    (g, lower), (h, upper) = (divmod(int(which[worst]), many) for which in (a, b))
    return {
        "pvalue": min(float(resampling.pvalue(exceeding, draws)), 1.0, bound),
        "limit": limit,
        "better": labels[g],
        "worse": labels[h],
        "score": float(means["score"][lower]),
        "higher_score": float(means["score"][upper]),
        "difference": float(effect.value[worst]),
    }
