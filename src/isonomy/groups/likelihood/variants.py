"""Other likelihoods of the same comparisons: Euclidean, Bartlett-corrected, adjusted; and estimates too skewed for any.

Euclidean   T = n ḡ'S⁻¹ḡ with S centered over all n rows equals Tu / (1 - Tu/n), where Tu = (Σg)'(Σgg')⁻¹(Σg). It needs
            two moments per group. With u = Σz and v = Σz² of a block of rows in which one function is not zero:

            fixed      Tu = u_G² / v_G, z = M - θ - ε.
            disjoint   Tu = min over θ of u_G²/v_G + u_R²/v_R.
            nested     the group's function and the population's share the group's rows. Once the first is subtracted
                       from the second, rows of the group carry (M - θ - ε, ε) and the others (0, M - θ): Σgg' is 2 x 2,
                       and the minimum over θ is scalar.

            On the scale of a link, ε is the distance from θ at which the disparity δ puts the group's mean: it depends
            on θ.
Bartlett    The mean of T is 1 + a/n + O(1/n²) with a = μ4/(2 μ2²) - μ3²/(3 μ2³) (Owen 2001, section 2.6; the reference
            known). Dividing T by 1 + a/n reduces the coverage error from O(1/n) to O(1/n²). If the reference is
            estimated too, the mean of T comes from resamples: T* at the sample's disparity.
Adjusted    Chen, Variyath and Abraham (2008): one more row at m - c (mean - m), c = max(1, log(n)/2). T is finite at
            every m, and bounded, so an interval can be unbounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import xlog1py

from isonomy.groups.likelihood.means import Binary, Means, Real, Tilted
from isonomy.groups.likelihood.profile import IDENTITY, Kind, OnScale, ProfileLikelihood, Variant, linked, natural
from isonomy.inference.effect import Effect, Limits, Rescaled
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.roots import roots
from isonomy.numerics.tails import normal_isf

# Grid points of the search for the minimum over θ, and golden-section steps after it (each gains a factor 0.618).
GRID, SECTIONS, GOLDEN = 65, 32, (np.sqrt(5.0) - 1.0) / 2.0
# How far beyond the fitting values the search goes if the group is nested, relative to their distance.
BEYOND = 4.0
# Distances from a block's fitting θ, as shares of the range, of more points where Tu is steeper than the grid.
CLOSER = 4.0 ** -np.arange(24.0)
# A block's mean and a θ that should meet it may differ by this relative rounding error.
ROUNDING = 8.0 * float(np.finfo(float).eps)
# The standard errors, and the log ratio, beyond which T is not searched for a level.
FAR, FARTHEST = 1e5, 10.0
# Rows, in squared skewnesses, below which an estimate is too skewed for any verdict. By simulation, the smallest number
# that holds 0.05 at the edge of a tolerance for lognormal, gamma and exponential metrics in groups of 20 to 500 rows.
SKEWED = 30.0
# A level shared by many tests lies further out in the tail, where skewness matters more: rows grow with this power of
# the quantile. It holds 0.05 where it was chosen: 5, 40 and 200 simulated exponential, squared normal and gamma groups.
FURTHER = 2.5


@dataclass(frozen=True, slots=True, eq=False)
class Euclidean(Variant):
    """The Euclidean likelihood of each problem; ``rows`` is n, all rows of the audit."""

    rows: float

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        index = np.arange(self.problem.group.size)
        uncentered = self._least(np.broadcast_to(np.asarray(disparity, dtype=float), index.shape), index)[0]
        with np.errstate(divide="ignore"):
            return np.where(uncentered < self.rows, uncentered / (1.0 - uncentered / self.rows), np.inf)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.problem.group.shape)
        return self._end(level, -1.0), self._end(level, 1.0)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T = c, which is where Tu = c / (1 + c/n); infinite if it never is."""
        estimate, error, target = self.value, self.standard_error, np.sqrt(level / (1.0 + level / self.rows))

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            here = estimate[active] + sign * x * error[active]
            height, theta = self._least(here, active)
            # By the envelope theorem θ may stay where it is while the disparity moves.
            step = 1e-4 * error[active]
            change = self._uncentered(here + step, theta, active) - self._uncentered(here - step, theta, active)
            root = np.sqrt(height)
            with np.errstate(divide="ignore", invalid="ignore"):
                return root - target[active], sign * change / (2.0 * step) * error[active] / (2.0 * root)

        far = np.full(target.size, FAR)
        if self.problem.link is not IDENTITY:
            far = np.minimum(far, FARTHEST / error)
        reached = gap(far, np.arange(target.size))[0] > 0
        end = self.outward(gap, target, np.where(reached, far, 0.0), sign)
        # Two constant blocks of rows have no second moment that could measure a disparity.
        return np.where(error > 0, end, np.nan)

    def _least(self, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu over θ, and the minimizing θ.

        It lies between the values that fit the reference and the group perfectly, unless the group is nested. A θ
        beyond them then inflates the second moments, so the search goes further.
        """
        problem = self.problem
        if problem.kind is Kind.FIXED:
            return self._uncentered(disparity, problem.theta[index], index), problem.theta[index]
        groups, other = natural(problem.groups), natural(problem.other)
        group, partner = problem.group[index], problem.partner[index]
        fits = problem.reference[index], problem.link.moved(groups.mean[group], -disparity)
        low, high = np.minimum(*fits), np.maximum(*fits)
        if problem.kind is Kind.NESTED:
            low, high = low - BEYOND * (high - low), high + BEYOND * (high - low)
        if problem.link is not IDENTITY:  # a reference is a mean of rows, and a ratio to anything else is meaningless
            least = np.minimum(groups.low[group], other.low[partner])
            most = np.maximum(groups.high[group], other.high[partner])
            low, high = np.clip(low, least, most), np.clip(high, least, most)
        grid = low + np.linspace(0.0, 1.0, GRID)[:, None] * (high - low)
        # Tu varies on the scale of the blocks' standard deviations, and jumps where all rows of a block are equal.
        spread = np.minimum(groups.variance[group], other.variance[partner])
        steep = ((high - low) / (GRID - 1)) ** 2 > 0.25 * spread
        least, theta = np.empty(index.size), np.empty(index.size)
        smooth, hard = np.flatnonzero(~steep), np.flatnonzero(steep)
        least[smooth], theta[smooth] = self._lowest(grid[:, smooth], disparity[smooth], index[smooth])
        if hard.size:
            around = self._meeting(disparity[hard], index[hard])[:, None]
            offset = CLOSER[:, None] * (high - low)[hard]
            near = np.concatenate([around - offset, around, around + offset], axis=1).reshape(-1, hard.size)
            points = np.sort(np.concatenate([grid[:, hard], near]), axis=0)
            least[hard], theta[hard] = self._lowest(points, disparity[hard], index[hard])
        return least, theta

    def _meeting(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """The θ at which one of the functions sums to zero, one problem per column: Tu may dip there."""
        problem = self.problem
        group, partner = problem.group[index], problem.partner[index]
        groups, rest = natural(problem.groups), natural(problem.other)
        mean, other = problem.link.moved(groups.mean[group], -disparity), rest.mean[partner]
        if problem.kind is Kind.DISJOINT:
            return np.stack([mean, other])
        # Nested: the second function is m (other - θ) + n ε v / (v + (mean - θ)²) once the first is subtracted.
        ratio, variance, theta = groups.n[group] / rest.n[partner], groups.variance[group], other
        for _ in range(3):
            with np.errstate(invalid="ignore"):
                share = np.where(variance > 0, variance / (variance + (mean - theta) ** 2), 0.0)
            theta = other + ratio * self._shift(disparity, theta) * share
        return np.stack([mean, other, theta])

    def _lowest(self, points: FloatArray, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu near the best of ``points`` (sorted, one problem per column), or that point itself."""
        values = np.stack([self._uncentered(disparity, theta, index) for theta in points])
        best, every = np.argmin(values, axis=0), np.arange(index.size)
        left, right = points[np.maximum(best - 1, 0), every], points[np.minimum(best + 1, len(points) - 1), every]
        for _ in range(SECTIONS):
            inner, outer = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
            lower = self._uncentered(disparity, inner, index) <= self._uncentered(disparity, outer, index)
            left, right = np.where(lower, left, inner), np.where(lower, outer, right)
        middle = 0.5 * (left + right)
        refined, nearest = self._uncentered(disparity, middle, index), values[best, every]
        # The dip at the mean of equal rows has no width: it contains that point alone.
        return np.minimum(refined, nearest), np.where(refined <= nearest, middle, points[best, every])

    def _shift(self, disparity: FloatArray, theta: FloatArray) -> FloatArray:
        """The distance from θ at which a disparity puts the group's mean."""
        link = self.problem.link
        return disparity if link is IDENTITY else link.moved(theta, disparity) - theta

    def _uncentered(self, disparity: FloatArray, theta: FloatArray, index: IntArray) -> FloatArray:
        problem = self.problem
        group = problem.group[index]
        groups, other = natural(problem.groups), natural(problem.other)
        mean, shift = groups.mean[group], self._shift(disparity, theta)
        n, gap = groups.n[group], mean - theta - shift
        gap = np.where(np.abs(gap) <= ROUNDING * (np.abs(mean) + np.abs(theta) + np.abs(shift)), 0.0, gap)
        first, second = n * gap, n * (groups.variance[group] + gap**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(first == 0, 0.0, first**2 / second)
            if problem.kind is Kind.FIXED:
                return alone
            partner = problem.partner[index]
            m, rest = other.n[partner], other.mean[partner] - theta
            total, square = m * rest, m * (other.variance[partner] + rest**2)
            if problem.kind is Kind.DISJOINT:
                return alone + np.where(total == 0, 0.0, total**2 / square)
            # (u1, u2) and the 2 x 2 second moments of the nested case.
            total, square = total + n * shift, square + n * shift**2
            cross = first * shift
            left = total - np.where(cross == 0, 0.0, cross / second * first)
            remaining = square - np.where(cross == 0, 0.0, cross**2 / second)
            return alone + np.where(left == 0, 0.0, left**2 / remaining)


@dataclass(frozen=True, slots=True, eq=False)
class Corrected(Variant):
    """A likelihood with T divided by Bartlett's ``factor``, one per problem; T is not divided where that is NaN."""

    factor: FloatArray

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        return self.problem.statistic(disparity) / np.where(np.isnan(self.factor), 1.0, self.factor)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        return self.problem.interval(np.asarray(critical) * np.where(np.isnan(self.factor), 1.0, self.factor))


def bartlett_constant(means: Means, index: IntArray) -> FloatArray:
    """a = μ4/(2 μ2²) - μ3²/(3 μ2³) of each group; 0 for a group without variance."""
    v = means.variance[index]
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(means, Binary):
            # For 0/1 rows μ3²/μ2³ = 1/v - 4 and μ4/μ2² = 1/v - 3, v = p(1-p).
            return np.where(v > 0, 1.0 / (6.0 * v) - 1.0 / 6.0, 0.0)
        assert isinstance(means, Real)
        m2, m3, m4 = (means.moments.central(k)[index] for k in (2, 3, 4))
        return np.where(m2 > 0, m4 / (2.0 * m2**2) - m3**2 / (3.0 * m2**3), 0.0)


def bartlett_factor(problem: ProfileLikelihood, resamples: int, rng: np.random.Generator) -> FloatArray:
    """The mean of T: in closed form for a known reference, by resampling otherwise (NaN if that fails)."""
    if problem.kind is Kind.FIXED:
        return 1.0 + bartlett_constant(problem.groups, problem.group) / problem.groups.n[problem.group]
    factors, every, link = [], np.arange(resamples), problem.link
    for i, j, disparity in zip(problem.group, problem.partner, problem.value, strict=True):
        n, m = round(float(problem.groups.n[i])), round(float(problem.other.n[j]))
        sizes = np.full(resamples, n)
        if problem.kind is Kind.NESTED:
            sizes = np.clip(rng.binomial(n + m, n / (n + m), size=resamples), 1, n + m - 1)
        group = _resampled(natural(problem.groups), i, sizes, rng)
        other = _resampled(natural(problem.other), j, n + m - sizes, rng)
        again = ProfileLikelihood(problem.kind, linked(group, link), every, other=linked(other, link), partner=every)
        statistic = again.statistic(disparity)
        usable = (group.variance > 0) & (other.variance > 0) & np.isfinite(statistic)
        factors.append(mean_of_usable(statistic[usable], resamples))
    return np.array(factors)


def mean_of_usable(statistic: npt.ArrayLike, resamples: int) -> float:
    """The mean over the usable resamples; NaN if these are fewer than half."""
    usable = np.asarray(statistic, dtype=float)
    return float(np.mean(usable)) if usable.size >= (resamples + 1) // 2 else np.nan


def _resampled(means: Means, group: int, sizes: IntArray, rng: np.random.Generator) -> Means:
    """Resamples of one group, each as a group of its own."""
    if isinstance(means, Binary):
        return Binary(sizes, rng.binomial(sizes, means.mean[group]))
    assert isinstance(means, Tilted)
    values, weights = means.values(group)
    # Row by row and sorted: neither the order of the lines nor the rows per line may change the draws.
    rows = np.sort(values if weights is None else np.repeat(values, weights.astype(np.intp)))
    picked = rng.choice(rows, size=int(sizes.sum()))
    return Real(Ragged.from_codes(np.repeat(np.arange(sizes.size), sizes), sizes.size, picked))


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted(Variant):
    """Adjusted empirical likelihood against a known reference (``problem.kind`` is fixed)."""

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        index = np.arange(self.problem.group.size)
        return self._tested(np.broadcast_to(np.asarray(disparity, dtype=float), index.shape), index)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.problem.group.shape)
        return self._end(level, -1.0), self._end(level, 1.0)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T reaches ``level``; infinite if it never does."""
        estimate, error, target, step = self.value, self.standard_error, np.sqrt(level), 1e-5

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            here, near = (
                np.sqrt(self._tested(estimate[active] + sign * distance * error[active], active))
                for distance in (x, x + step)
            )
            return here - target[active], (near - here) / step

        # T as the tested mean goes to infinity: n rows at -1 and one at c.
        n = self.problem.groups.n[self.problem.group]
        c = np.maximum(1.0, np.log(n) / 2.0)
        limit = 2.0 * (n * np.log(n * (c + 1.0) / (c * (n + 1.0))) + np.log((c + 1.0) / (n + 1.0)))
        return self.outward(gap, target, np.where(limit > level, np.inf, 0.0), sign)

    def _tested(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """Solve Σ z/(1 + λz) = 0 over the group's rows and the additional one."""
        groups, group = self.problem.groups, self.problem.group[index]
        target = self.problem.theta[index] + disparity
        n, mean = groups.n[group], groups.mean[group]
        extra = -np.maximum(1.0, np.log(n) / 2.0) * (mean - target)
        # The range of the rows: a 0/1 group without ones reaches no further than 0.
        lowest = np.where(mean == groups.high[group], mean, groups.low[group])
        highest = np.where(mean == groups.low[group], mean, groups.high[group])
        lower, upper = np.minimum(lowest - target, extra), np.maximum(highest - target, extra)

        def gap(lam: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            first, second, _ = _tilted(groups, group[active], target[active], lam)
            more = extra[active] / (1.0 + lam * extra[active])
            return first + more, -(second + more**2)

        moves = mean != target
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.where(moves, -1.0 / upper, 0.0), np.where(moves, -1.0 / lower, 0.0)
            solution = roots(gap, low, high, x0=np.zeros(index.size), direction="decreasing")
            log = _tilted(groups, group, target, solution.x)[2] + np.log1p(solution.x * extra)
        return np.where(moves, np.maximum(2.0 * log, 0.0), 0.0)


def _tilted(
    means: Means, group: IntArray, target: FloatArray, lam: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ z/(1+λz), Σ (z/(1+λz))² and Σ log(1+λz) over each group's rows, z = row - target."""
    n, p = means.n[group], means.mean[group]
    if isinstance(means, Binary):
        above, below = 1.0 - target, -target
        up, down = above / (1.0 + lam * above), below / (1.0 + lam * below)
        log = xlog1py(p, lam * above) + xlog1py(1.0 - p, lam * below)
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


def plugged(effect: Effect) -> Effect | None:
    """The same problems with the estimated reference taken as known; None if that takes another pass over the rows."""
    if isinstance(effect, ProfileLikelihood):
        return effect.plugged()
    if isinstance(effect, OnScale) and isinstance(problem := effect.inner, ProfileLikelihood):
        # Odds in the whole are a ratio of other groups (`odds_in_whole`).
        return OnScale.report(problem.plugged(), effect.link) if problem.link is effect.link else None
    if isinstance(effect, Euclidean):
        return replace(effect, problem=effect.problem.plugged())
    if isinstance(effect, Corrected):
        problem = effect.problem.plugged()
        return Corrected(
            problem, 1.0 + bartlett_constant(problem.groups, problem.group) / problem.groups.n[problem.group]
        )
    return None


def lopsided(effect: Effect, alpha: float = 0.05, tests: int = 1) -> BoolArray:
    """Which disparities have too few rows, for so skewed a metric, for any verdict at ``alpha`` over all ``tests``.

    The criterion is the squared skewness of the disparity's estimate, with both sides added up: equal groups err by as
    much as their means do. A group counts as at least as skewed as all groups together, since few rows seldom show how
    far the tail reaches. False where the rows are not available: references that overlap a group in part or bring
    influence values, and comparisons with the best group or within strata.
    """
    inner = effect
    while isinstance(inner, (Rescaled, OnScale, Variant)):
        inner = inner.problem if isinstance(inner, Variant) else inner.inner
    if not isinstance(inner, ProfileLikelihood) or not isinstance(rows := natural(inner.groups), Real):
        return np.zeros(effect.value.shape, dtype=bool)
    groups = np.unique(inner.group)
    second, third = (rows.moments.central(k)[groups] for k in (2, 3))
    with np.errstate(invalid="ignore", divide="ignore"):
        common = float(np.nan_to_num(abs(rows.n[groups] @ third) / (rows.n[groups] @ second**1.5)))
        third, variance = _third_moment(rows, inner.group, common)
        if inner.kind is not Kind.FIXED:
            other = _third_moment(natural(inner.other), inner.partner, common)
            third, variance = third + other[0], variance + other[1]
        further = float(normal_isf(alpha / max(tests, 1)) / normal_isf(alpha)) ** FURTHER
        return np.asarray(SKEWED * further * third**2 > variance**3)


def _third_moment(means: Means, index: IntArray, skewness: float) -> tuple[FloatArray, FloatArray]:
    """The absolute third moment and the variance of each group's mean, for rows with at least this ``skewness``."""
    assert isinstance(means, Tilted)
    third = means.moments.central(3)[index]
    for i in np.flatnonzero(~means.moments.usable[index] & (means.n[index] > 0)):
        values, weights = means.values(int(index[i]))
        third[i] = np.average((values - means.mean[index[i]]) ** 3, weights=weights)
    third = np.maximum(np.abs(third), skewness * means.variance[index] ** 1.5)
    return third / means.n[index] ** 2, means.variance[index] / means.n[index]
