"""Small samples: Bartlett's correction and adjusted empirical likelihood.

Bartlett    The mean of T is 1 + a/n + O(1/n²) with a = μ4/(2 μ2²) - μ3²/(3 μ2³) (Owen 2001, section 2.6; the reference
            known). Dividing T by 1 + a/n brings the coverage error from O(1/n) to O(1/n²). When the reference is
            estimated too, the mean of T is taken from resamples: T* at the sample's own disparity.
Adjusted    Chen, Variyath and Abraham (2008): one more row at m - c (mean - m), c = max(1, log(n)/2). T is finite at
            every m, and bounded, so that an interval can have no end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import xlog1py

from isonomy.likelihood.means import Binary, Means, Real, Tilted
from isonomy.likelihood.profile import Kind, OfProfile, Profile
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.roots import roots


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
    assert problem.other is not None
    assert problem.other_index is not None
    n = round(float(problem.own.n[problem.own_index[j]]))
    m = round(float(problem.other.n[problem.other_index[j]]))
    sizes = np.full(resamples, n)
    if problem.kind is Kind.NESTED:
        sizes = np.clip(rng.binomial(n + m, n / (n + m), size=resamples), 1, n + m - 1)
    own = _resampled(problem.own, problem.own_index[j], sizes, rng)
    other = _resampled(problem.other, problem.other_index[j], n + m - sizes, rng)
    every = np.arange(resamples)
    again = Profile(problem.kind, own, every, other=other, other_index=every)
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
class Adjusted(OfProfile):
    """Adjusted empirical likelihood against a known reference (``problem.kind`` is fixed)."""

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T with the additional row."""
        index = np.arange(self.problem.own_index.size)
        return self._at(np.broadcast_to(np.asarray(disparity, dtype=float), index.shape), index)

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``; an end is infinite when T never reaches it."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.problem.own_index.shape)
        return self._end(level, -1.0), self._end(level, 1.0)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        estimate, error = self.disparity, self.standard_error
        wanted = np.sqrt(level)
        reached = self._limit() > level

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            step = 1e-5
            here = np.sqrt(self._at(estimate[active] + sign * x * error[active], active))
            near = np.sqrt(self._at(estimate[active] + sign * (x + step) * error[active], active))
            return here - wanted[active], (near - here) / step

        far = np.where(reached, np.inf, 0.0)
        found = roots(gap, np.zeros(wanted.size), far, x0=wanted, rtol=1e-11, direction="increasing")
        return np.where(reached & found.ok, estimate + sign * found.x * error, sign * np.inf)

    def _limit(self) -> FloatArray:
        """T as the tested mean goes to infinity: n rows at -1 and one at c."""
        n = self.problem.own.n[self.problem.own_index]
        c = _weight(n)
        return 2.0 * (n * np.log(n * (c + 1.0) / (c * (n + 1.0))) + np.log((c + 1.0) / (n + 1.0)))

    def _at(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """Solve Σ z/(1 + λz) = 0 over the group's rows and the additional one."""
        problem = self.problem
        assert problem.theta is not None
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
            found = roots(gap, low, high, x0=np.zeros(index.size), direction="decreasing")
            log = _tilted(problem.own, group, target, found.x)[2] + np.log1p(found.x * extra)
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
        return n * (p * up + (1.0 - p) * down), n * (p * up**2 + (1.0 - p) * down**2), n * log
    assert isinstance(means, Real)
    # 1 + λ(x - t) = b (1 + w x') with b = 1 + λ(mean - t), w = λ/b: the sums of `means` serve here too.
    gap = p - target
    b = 1.0 + lam * gap
    w = lam / b
    sums = means.sums(w, group)
    h = 1.0 - w * sums.q
    first = (sums.q + gap * h) / b
    flat = h - w * (sums.q - w * sums.s)
    second = (sums.s + 2.0 * gap * (sums.q - w * sums.s) + gap**2 * flat) / b**2
    return n * first, n * second, n * (sums.log + np.log(b))
