"""Small samples: Bartlett's correction and adjusted empirical likelihood.

Bartlett    The mean of T is 1 + a/n + O(1/n²) with a = μ4/(2 μ2²) - μ3²/(3 μ2³) (Owen 2001, section 2.6; the reference
            known). Dividing T by 1 + a/n brings the coverage error from O(1/n) to O(1/n²). When the reference is
            estimated too, the mean of T is taken from resamples: T* at the sample's own disparity.
Adjusted    Chen, Variyath and Abraham (2008): one more row at m - c (mean - m), c = max(1, log(n)/2). T is finite at
            every m, and bounded, so that an interval can have no end.

A joint test's factor is the mean of T over its degrees of freedom. At the estimates the rank of the estimating
functions is another one where, as against the population, it depends on the disparities. So the rows are made to meet
the tested null first, and each resample is tested at that null.

Whether a joint test needs a small-sample correction, by the second-order term of its statistic.

The mean of T over its degrees of freedom is about 1 + A, A the mean over groups of a/n (`correction`): T is chi-square
times 1 + A, so a nominal level becomes P(χ² > critical / (1 + A)). Many degrees of freedom make a small A matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import xlog1py

from isonomy.groups.likelihood.disparity import FromKnown, Likelihood, OnScale, Rescaled, reported
from isonomy.groups.likelihood.euclid import Euclidean
from isonomy.groups.likelihood.joint import Joint
from isonomy.groups.likelihood.lines import Lines
from isonomy.groups.likelihood.means import Binary, Means, Real, Tilted
from isonomy.groups.likelihood.profile import Inverted, Kind, OfProfile, Profile, linked, natural
from isonomy.groups.likelihood.region import Region
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.roots import roots
from isonomy.numerics.tails import chi2_isf, chi2_sf, normal_isf

# Lines of all resamples of a joint test that are held at once.
BLOCK = 2_000_000


def bartlett_constant(means: Means, index: IntArray) -> FloatArray:
    """a = μ4/(2 μ2²) - μ3²/(3 μ2³) of each group; 0 for a group without variance."""
    if isinstance(means, Binary):
        # For 0/1 rows μ3²/μ2³ = 1/v - 4 and μ4/μ2² = 1/v - 3, v = p(1-p).
        v = means.variance[index]
        with np.errstate(divide="ignore"):
            return np.where(v > 0, 1.0 / (6.0 * v) - 1.0 / 6.0, 0.0)
    assert isinstance(means, Real)
    m2, m3, m4 = (means.moments.central(k)[index] for k in (2, 3, 4))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(m2 > 0, m4 / (2.0 * m2**2) - m3**2 / (3.0 * m2**3), 0.0)


def known_factor(problem: Profile) -> FloatArray:
    """1 + a/n, for a known reference."""
    return 1.0 + bartlett_constant(problem.own, problem.own_index) / problem.own.n[problem.own_index]


def bartlett_factor(problem: Profile, resamples: int, rng: np.random.Generator) -> FloatArray:
    """What T is divided by: closed form when the reference is known, by resampling otherwise (NaN if that fails)."""
    if problem.kind is Kind.FIXED:
        return known_factor(problem)
    return np.array([_resampled_mean(problem, j, resamples, rng) for j in range(problem.own_index.size)])


def _resampled_mean(problem: Profile, j: int, resamples: int, rng: np.random.Generator) -> float:
    """The mean of T* at the sample's disparity over resamples in which it is finite."""
    n = round(float(problem.own.n[problem.own_index[j]]))
    m = round(float(problem.other.n[problem.other_index[j]]))
    sizes = np.full(resamples, n)
    if problem.kind is Kind.NESTED:
        sizes = np.clip(rng.binomial(n + m, n / (n + m), size=resamples), 1, n + m - 1)
    own = _resampled(natural(problem.own), problem.own_index[j], sizes, rng)
    other = _resampled(natural(problem.other), problem.other_index[j], n + m - sizes, rng)
    every = np.arange(resamples)
    link = problem.link
    again = Profile(problem.kind, linked(own, link), every, other=linked(other, link), other_index=every)
    usable = (own.variance > 0) & (other.variance > 0)
    statistic = again.statistic(problem.disparity[j])
    statistic = statistic[usable & np.isfinite(statistic)]
    return mean_of_usable(statistic, resamples)


def mean_of_usable(statistic: npt.ArrayLike, resamples: int) -> float:
    """The mean over the resamples that could be used; NaN if they are fewer than half, and say nothing about it."""
    usable = np.asarray(statistic, dtype=float)
    return float(np.mean(usable)) if usable.size >= (resamples + 1) // 2 else np.nan


def _resampled(means: Means, group: int, sizes: IntArray, rng: np.random.Generator) -> Means:
    """Resamples of one group, each as a group of its own."""
    if isinstance(means, Binary):
        return Binary(sizes, rng.binomial(sizes, means.mean[group]))
    assert isinstance(means, Tilted)
    values, weights = means.values(group)
    # Row by row and in order: neither the order of the lines nor how many rows one stands for changes the draws.
    rows = np.sort(values if weights is None else np.repeat(values, weights.astype(np.intp)))
    picked = rng.choice(rows, size=int(sizes.sum()))
    return Real(Ragged.from_codes(np.repeat(np.arange(sizes.size), sizes), sizes.size, picked))


@dataclass(frozen=True, slots=True, eq=False)
class Corrected(OfProfile):
    """A likelihood whose T is divided by ``factor``, one per problem; T stays as it is where the factor is NaN."""

    factor: FloatArray

    @property
    def divisor(self) -> FloatArray:
        """The factor, 1 where it could not be had."""
        return np.where(np.isnan(self.factor), 1.0, self.factor)

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T divided by the factor."""
        return self.problem.statistic(disparity) / self.divisor

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities whose corrected T is at most ``critical``."""
        return self.problem.interval(np.asarray(critical) * self.divisor)


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted(Inverted):
    """Adjusted empirical likelihood against a known reference (``problem.kind`` is fixed)."""

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T with the additional row."""
        index = np.arange(self.problem.own_index.size)
        return self._at(np.broadcast_to(np.asarray(disparity, dtype=float), index.shape), index)

    def end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T reaches ``level``; infinite where it never does."""
        estimate, error, wanted = self.disparity, self.standard_error, np.sqrt(level)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            step = 1e-5
            here = np.sqrt(self._at(estimate[active] + sign * x * error[active], active))
            near = np.sqrt(self._at(estimate[active] + sign * (x + step) * error[active], active))
            return here - wanted[active], (near - here) / step

        return self.outward(gap, wanted, np.where(self._limit() > level, np.inf, 0.0), sign)

    def _limit(self) -> FloatArray:
        """T as the tested mean goes to infinity: n rows at -1 and one at c."""
        n = self.problem.own.n[self.problem.own_index]
        c = _weight(n)
        return 2.0 * (n * np.log(n * (c + 1.0) / (c * (n + 1.0))) + np.log((c + 1.0) / (n + 1.0)))

    def _at(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """Solve Σ z/(1 + λz) = 0 over the group's rows and the additional one."""
        problem = self.problem
        group = problem.own_index[index]
        target = problem.theta[index] + disparity
        n, mean = problem.own.n[group], problem.own.mean[group]
        extra = -_weight(n) * (mean - target)
        # The rows' own range: a 0/1 group without ones reaches no further than 0.
        lowest = np.where(mean == problem.own.high[group], mean, problem.own.low[group])
        highest = np.where(mean == problem.own.low[group], mean, problem.own.high[group])
        lower, upper = np.minimum(lowest - target, extra), np.maximum(highest - target, extra)

        def gap(lam: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            first, second, _ = _tilted(problem.own, group[active], target[active], lam)
            more = extra[active] / (1.0 + lam * extra[active])
            return first + more, -(second + more**2)

        moves = mean != target
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.where(moves, -1.0 / upper, 0.0), np.where(moves, -1.0 / lower, 0.0)
            solution = roots(gap, low, high, x0=np.zeros(index.size), direction="decreasing")
            log = _tilted(problem.own, group, target, solution.x)[2] + np.log1p(solution.x * extra)
        return np.where(moves, np.maximum(2.0 * log, 0.0), 0.0)


def _weight(n: FloatArray) -> FloatArray:
    return np.maximum(1.0, np.log(n) / 2.0)


def _tilted(
    means: Means, group: IntArray, target: FloatArray, lam: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ z/(1+λz), Σ (z/(1+λz))² and Σ log(1+λz) over each group's rows, z = row - target."""
    n, p = means.n[group], means.mean[group]
    if isinstance(means, Binary):
        one, zero = 1.0 - target, -target
        up, down = one / (1.0 + lam * one), zero / (1.0 + lam * zero)
        log = xlog1py(p, lam * one) + xlog1py(1.0 - p, lam * zero)
        return (n * (p * up + (1.0 - p) * down), n * (p * up**2 + (1.0 - p) * down**2), n * log)
    assert isinstance(means, Real)
    # 1 + λ(x - t) = b (1 + w x') with b = 1 + λ(mean - t), w = λ/b: the sums of `means` serve here too.
    gap = p - target
    b = 1.0 + lam * gap
    w = lam / b
    q, s, log = means.sums(w, group)
    h = 1.0 - w * q
    flat = h - w * (q - w * s)
    second = (s + 2.0 * gap * (q - w * s) + gap**2 * flat) / b**2
    return n * (q + gap * h) / b, n * second, n * (log + np.log(b))


def plugged(likelihood: Likelihood) -> Likelihood | None:
    """The same problems with the estimated reference taken as known; None if that takes another look at the rows."""
    if isinstance(likelihood, Profile):
        return likelihood.plugged()
    if isinstance(likelihood, OnScale) and isinstance(problem := likelihood.inner, Profile):
        # Odds in the whole are asked about as a ratio of other groups (`odds_in_whole`).
        return reported(problem.plugged(), likelihood.link) if problem.link is likelihood.link else None
    if isinstance(likelihood, Euclidean):
        return replace(likelihood, problem=likelihood.problem.plugged())
    if isinstance(likelihood, Corrected):
        return Corrected(problem := likelihood.problem.plugged(), known_factor(problem))
    return None


def joint_factor(region: Region, joint: Joint, target: FloatArray, resamples: int, rng: np.random.Generator) -> float:
    """What a joint T is divided by: the mean of T over its degrees of freedom under the null, NaN if it cannot be had.

    In closed form for known references of disjoint groups, by resampling otherwise.
    """
    if not joint.df:
        return 1.0
    if region.theta is not None and region.disjoint:
        groups, every = region.group_means(region.single), np.arange(region.groups)
        return 1.0 + float(np.mean(bartlett_constant(groups, every) / groups.n[every]))
    return null_mean(region, joint, target, resamples, rng)


def null_mean(region: Region, joint: Joint, target: FloatArray, resamples: int, rng: np.random.Generator) -> float:
    """The mean of T over its degrees of freedom when ``target`` holds; NaN if it cannot be had."""
    if joint.scale is None or joint.move is None:
        return np.nan
    pattern, lines = region.lines.collapsed(region.pattern)
    centred = met(replace(region, pattern=pattern, lines=lines), joint.scale, joint.move)
    mass, inner = centred.lines.mass, region.inner(target)
    rows, chance = round(float(mass.sum())), mass / mass.sum()
    usable: list[float] = []
    step = max(1, BLOCK // chance.size)
    for start in range(0, resamples, step):
        counts = rng.multinomial(rows, chance, size=min(step, resamples - start)).astype(float)
        for statistic, df in _tested(centred, counts, inner):
            if df == joint.df and np.isfinite(statistic):
                usable.append(statistic)
    return mean_of_usable(usable, resamples) / joint.df


def met(region: Region, scale: FloatArray, move: FloatArray) -> Region:
    """The region with rows that meet a null exactly: reweighted (0/1), or moved pattern by pattern (any other)."""
    lines = region.lines
    if lines.binary and lines.influence is None:
        data = region.patterns
        filled = np.flatnonzero(data.n > 0)
        ones = np.clip((data.first[0, filled] / data.n[filled]) + move[0, filled], 0.0, 1.0)
        weight = (data.n * scale)[filled, None] * np.column_stack([1.0 - ones, ones])
        value = np.tile([0.0, 1.0], filled.size)
        return replace(region, pattern=np.repeat(filled, 2), lines=Lines(True, value, weight.ravel()))
    influence = None if lines.influence is None else lines.influence + move[1, region.pattern]
    value = lines.value + move[0, region.pattern]
    return replace(region, lines=Lines(lines.binary, value, lines.mass * scale[region.pattern], influence))


def _tested(region: Region, counts: FloatArray, target: FloatArray) -> list[tuple[float, int]]:
    """T and its degrees of freedom in each resample, a row of ``counts``."""
    which, line = np.nonzero(counts)
    if region.quick(target):
        problem = region.shifted(target, which, line, counts[which, line], counts.shape[0])
        return list(zip(problem.solve()[0].tolist(), problem.df.tolist(), strict=True))
    tests = []
    lines = region.lines
    for resample in counts:
        keep = resample > 0
        influence = None if lines.influence is None else lines.influence[keep]
        drawn = Lines(lines.binary, lines.value[keep], resample[keep], influence)
        joint = replace(region, pattern=region.pattern[keep], lines=drawn).solve(target)
        tests.append((joint.statistic, joint.df))
    return tests


# A level that would be missed by more than this factor calls for the correction.
MISSED = 1.1
# Rows, in squared skewnesses, below which an estimate is too skewed for any verdict on it. By simulation the least that
# holds 0.05 at the edge of a tolerance for lognormal, gamma and exponential metrics in groups of 20 to 500 rows.
SKEWED = 30.0
# A level shared by many tests lies further out in the tail, where skewness tells more: rows by this power of its
# quantile. It holds 0.05 where it was chosen: 5, 40 and 200 simulated exponential, squared normal and gamma groups.
FURTHER = 2.5
# Lines of all resamples together, and the fewest resamples that are worth drawing: above that, the closed form.
LINES, FEWEST = 20_000_000, 100
# Overlapping groups are solved one resample at a time: so many, and only where the p-value may turn on them.
SLOW, SETTLED = 200, 1e-6


def excess(region: Region) -> float:
    """A: the mean over the tested groups of a/n."""
    terms = []
    for column in region.slots.T:
        groups = np.unique(column[column >= 0])
        means = region.lines.means(column[region.pattern], region.groups)
        if isinstance(means, Binary):
            # No group's true rate is 0 or 1 where others' are not: half a row more on each side.
            means = Binary(means.n + 1.0, means.ones + 0.5)
        terms.append(bartlett_constant(means, groups) / means.n[groups])
    every = np.concatenate(terms) if terms else np.zeros(0)
    return float(every.mean()) if every.size else 0.0


def skewness(means: Means, index: IntArray) -> FloatArray:
    """The squared skewness of each group's mean: that of its rows, over their number; 0 for 0/1 rows.

    Rates have tests of their own for few events.
    """
    if not isinstance(means, Real):
        return np.zeros(index.size)
    m2, m3 = (means.moments.central(k)[index] for k in (2, 3))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(m2 > 0, m3**2 / m2**3 / means.n[index], 0.0)


def lopsided(likelihood: Likelihood, alpha: float = 0.05, tests: int = 1) -> BoolArray:
    """Which disparities rest on too few rows, for so skewed a metric, for any verdict at ``alpha`` over all ``tests``.

    By the squared skewness of the disparity's estimate, that of both sides added up: equal groups err by as much as
    their own means do. A group's rows are as skewed as all groups' together at least, since few of them seldom show
    how far the tail reaches. False where the rows are not at hand: references that overlap a group in part or bring
    influence values, and comparisons with the best group or within strata.
    """
    inner: object = likelihood
    while isinstance(inner, (Rescaled, OnScale, FromKnown, Corrected, Adjusted, Euclidean)):
        inner = inner.problem if isinstance(inner, OfProfile) else inner.inner
    if not isinstance(inner, Profile):
        return np.zeros(likelihood.disparity.shape, dtype=bool)
    own = natural(inner.own)
    if not isinstance(own, Real):
        return np.zeros(inner.own_index.shape, dtype=bool)
    least = _common(own, inner.own_index)
    third, variance = _third(own, inner.own_index, least)
    if inner.kind is not Kind.FIXED:
        other = _third(natural(inner.other), inner.other_index, least)
        third, variance = third + other[0], variance + other[1]
    away = float(normal_isf(alpha / max(tests, 1)) / normal_isf(alpha)) ** FURTHER
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(SKEWED * away * third**2 > variance**3)


def _common(means: Real, index: IntArray) -> float:
    """The skewness of the rows of all groups about their own means."""
    groups = np.unique(index)
    second, third = (means.moments.central(k)[groups] for k in (2, 3))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.nan_to_num(abs(means.n[groups] @ third) / (means.n[groups] @ second**1.5)))


def _third(means: Means, index: IntArray, least: float) -> tuple[FloatArray, FloatArray]:
    """The size of the third moment, and the variance, of each group's mean; of a skewness that is at least so large."""
    assert isinstance(means, Tilted)
    third = means.moments.central(3)[index]
    for i in np.flatnonzero(~means.moments.usable[index] & (means.n[index] > 0)):
        values, weights = means.values(int(index[i]))
        third[i] = np.average((values - means.mean[index[i]]) ** 3, weights=weights)
    third = np.maximum(np.abs(third), least * means.variance[index] ** 1.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        return third / means.n[index] ** 2, means.variance[index] / means.n[index]


def needed(region: Region, joint: Joint, alpha: float) -> bool:
    """Whether the nominal level would be missed without a correction."""
    if not joint.df:
        return False
    level = chi2_sf(float(chi2_isf(alpha, joint.df)) / (1.0 + excess(region)), joint.df)
    return bool(level > MISSED * alpha)


def factor(
    region: Region, joint: Joint, target: FloatArray, alpha: float, resamples: int, rng: np.random.Generator
) -> float:
    """What T is divided by where the correction is needed, else 1; NaN if it is needed and cannot be had."""
    if not needed(region, joint, alpha):
        return 1.0
    closed = 1.0 + excess(region)
    if region.theta is not None and region.disjoint and _skewed(region):
        return np.nan
    number = min(resamples, max(LINES // max(region.pattern.size, 1), 1))
    plain, corrected = (float(chi2_sf(joint.statistic / by, joint.df)) for by in (1.0, closed))
    if not np.isfinite(joint.statistic) or number < FEWEST:
        return closed
    if not region.quick(region.inner(target)) and region.theta is None:
        if plain > alpha or corrected < SETTLED:
            return closed
        number = min(number, SLOW)
    if region.theta is not None and not region.disjoint:
        number = min(number, SLOW)
    return joint_factor(region, joint, target, number, rng)


def _skewed(region: Region) -> bool:
    """Whether the groups' means are too skewed, on average, for a factor to make up for it.

    Against each other skewed groups err in the same direction, which resamples account for; not against a number.
    """
    means = region.group_means(region.single)
    return bool(SKEWED * skewness(means, np.arange(region.groups)).mean() > 1)
