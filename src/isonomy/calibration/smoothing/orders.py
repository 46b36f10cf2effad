"""All groups and points at once: the joint test of every pair, the order of scores, and cumulative differences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from isonomy.calibration.smoothing.axis import BINS
from isonomy.calibration.smoothing.bands import Smoothed, normal_score
from isonomy.calibration.smoothing.sums import KernelSums, Marks
from isonomy.inference.simultaneous import beyond_rounding, normal_draws
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

CHECKPOINTS = 40  # score intervals of the cumulative test
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The worst reversal: ``better`` at the lower score ``at`` against ``worse`` at the higher score ``above``."""

    pvalue: float
    statistic: float = NAN
    difference: float = NAN
    better: int = -1
    worse: int = -1
    at: float = NAN
    above: float = NAN


@dataclass(frozen=True, slots=True, eq=False)
class _Contrasts:
    """Differences between points ``a`` and ``b`` of all curves laid end to end, those that have a variance."""

    a: IntArray
    b: IntArray
    se: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, covariance: FloatArray, a: IntArray, b: IntArray, supported: BoolArray) -> _Contrasts:
        """From a covariance (G, G, J, J); ``supported``: which of the differences are to be looked at."""
        size = covariance.shape[0] * covariance.shape[2]
        flat = np.transpose(covariance, (0, 2, 1, 3)).reshape(size, size)
        parts = flat[a, a] + flat[b, b]
        se = np.sqrt(beyond_rounding(parts - 2 * flat[a, b], parts))
        usable = supported & np.isfinite(se)
        return cls(a[usable], b[usable], se[usable], flat)

    def scores(self, smoothed: Smoothed, values: FloatArray, covariance: FloatArray) -> FloatArray:
        """Normal scores of the differences of ``values`` (G, J)."""
        points, flat = values.shape[1], values.ravel()
        df = smoothed.freedom(np.divmod(self.a, points), np.divmod(self.b, points), covariance)
        return normal_score((flat[self.a] - flat[self.b]) / self.se, df)

    def draws(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the points that the differences use; the others stay zero."""
        used = np.union1d(self.a, self.b)
        z = np.zeros((draws, self.covariance.shape[0]))
        own = self.covariance[np.ix_(used, used)]
        # On the scale of correlations: the square root's tolerance is relative to the largest eigenvalue.
        se = np.sqrt(np.maximum(np.diagonal(own), np.finfo(float).tiny))
        z[:, used] = normal_draws(own / se[:, None] / se[None, :], draws, rng) * se
        return z


def joint_pvalue(smoothed: Smoothed, draws: int, rng: np.random.Generator) -> float:
    """P-value of "all groups' curves are equal", from every pair and point at once."""
    groups, points = smoothed.gap.shape
    first, second = np.triu_indices(groups, 1)
    both = smoothed.supported[first] & smoothed.supported[second]
    a, b = (which[:, None] * points + np.arange(points) for which in (first, second))
    pairs = _Contrasts.of(smoothed.gap_covariance, a.ravel(), b.ravel(), both.ravel())
    if not pairs.a.size:
        return NAN
    largest = float(np.max(np.abs(pairs.scores(smoothed, smoothed.gap, smoothed.gap_covariance))))
    z = pairs.draws(draws, rng)
    maxima = np.max(np.abs(z[:, pairs.a] - z[:, pairs.b]) / pairs.se, axis=1)
    simulated = float(resampling.pvalue(int((maxima >= largest).sum()), draws))
    return min(simulated, float(tails.normal_sf(largest)) * pairs.a.size, 1.0)


def ordering(smoothed: Smoothed, grid: FloatArray, draws: int, rng: np.random.Generator) -> Order:
    """Definition 2's second part: the largest (f_g(s') - f_h(s)) / se over s' < s and g != h, one-sided.

    Judged as if all the curves were one flat curve, the hardest case of the null for this test.
    """
    groups, points = smoothed.curve.shape
    low, high = np.triu_indices(points, 1)
    pairs = np.array(list(permutations(range(groups), 2)))
    a = (pairs[:, :1] * points + low).ravel()
    b = (pairs[:, 1:] * points + high).ravel()
    supported = smoothed.supported.ravel()
    reversals = _Contrasts.of(smoothed.covariance, a, b, supported[a] & supported[b])
    if not reversals.a.size:
        return Order(NAN)
    t = reversals.scores(smoothed, smoothed.curve, smoothed.covariance)
    worst = int(np.argmax(t))
    z = reversals.draws(draws, rng)
    exceeding = 0
    for start in range(0, draws, 250):  # draws x contrasts would be large for many groups
        block = z[start : start + 250]
        exceeding += int(((block[:, reversals.a] - block[:, reversals.b]) / reversals.se >= t[worst]).any(axis=1).sum())
    simulated = float(resampling.pvalue(exceeding, draws))
    pvalue = min(simulated, float(tails.normal_sf(t[worst], sides="one")) * t.size, 1.0)
    (g, s), (h, above) = (divmod(int(which[worst]), points) for which in (reversals.a, reversals.b))
    difference = float(smoothed.curve[g, s] - smoothed.curve[h, above])
    return Order(pvalue, float(t[worst]), difference, g, h, float(grid[s]), float(grid[above]))


def cumulative(
    sums: KernelSums, marks: Marks, weight: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Statistic and p-value of cumulative differences in score order, for two groups.

    F(t) adds (1_g - share(S)) (Y - pooled(S)) over rows with S <= t, with the rows' votes. Under the null it stays near
    zero; the statistic is its range (Kuiper), judged by draws with the covariance of the sums by user. ``weight``:
    votes by group and bin of the axis.
    """
    both = weight.sum(axis=0)
    cell = np.minimum((CHECKPOINTS * (np.cumsum(both) - both / 2) / both.sum()).astype(np.intp), CHECKPOINTS - 1)
    step, second, squares = sums.increments(marks, np.broadcast_to(cell, (BINS,)), CHECKPOINTS)
    statistic = _range(np.cumsum(step)[None, :])[0]
    if np.isnan(beyond_rounding(np.trace(second), squares)):
        return NAN, NAN
    walk = np.cumsum(np.cumsum(second, axis=0), axis=1)
    law = _range(normal_draws(walk, draws, rng))
    scale = float(np.sqrt(walk.diagonal().max()))
    exceeding = int((law >= statistic * (1 - 1e-12)).sum())
    return float(statistic / scale), float(resampling.pvalue(exceeding, draws))


def _range(path: FloatArray) -> FloatArray:
    return np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0)
