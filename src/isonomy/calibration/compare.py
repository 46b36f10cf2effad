"""Are two curves equal, and is the order right? Bands, p-values and ordering from sums by user.

Pure functions of a `Family`'s sums. Statistics are judged by Student's law with the effective number of users and
turned into normal scores; their joint law is normal with the correlation of the sums by user, and maxima over the grid
are judged by draws from it. No row is resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from isonomy.calibration.plan import Fit, Marks, Plan, Products, solve
from isonomy.calibration.smoothing import BINS, PERCENTS, Bandwidth, Curve, local_linear
from isonomy.calibration.tally import Family
from isonomy.inference import multiplicity
from isonomy.inference.simultaneous import normal_draws, sup_t
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import FloatArray

METHODS = ("residual", "orthogonal", "nadaraya-watson", "cumulative")
ADJUSTMENTS = ("sup-t", "bonferroni", "holm", "none")
POOLED = 0.5  # bandwidth of the pooled curve, as a share of the comparison's
EVENTS = 10.0  # a point is supported from this many effective events and non-events in every compared group
EFFECTIVE = 30.0  # the same for outcomes that are not 0/1: effective users
CHECKPOINTS = 40  # score intervals of the cumulative test


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Curves of every group on the grid, with their covariance."""

    curve: FloatArray  # (G, J)
    covariance: FloatArray  # (G, G, J, J)
    effective: FloatArray  # (G, J): effective number of users
    supported: NDArray[np.bool_]  # (G, J)
    gap: FloatArray  # (G, J)
    gap_covariance: FloatArray  # (G, G, J, J)
    student: bool = True  # whether statistics have Student's law with the effective users, or the normal one

    def freedom(self, a: tuple[Any, Any], b: tuple[Any, Any], covariance: FloatArray) -> FloatArray:
        """Degrees of freedom of a difference between points ``a`` and ``b`` (group, grid point), after Welch."""
        if not self.student:
            return np.full(np.shape(a[1]), np.inf)
        return welch(*((covariance[g, g, j, j], self.effective[g, j]) for g, j in (a, b)))


def welch(a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Degrees of freedom of a difference, from the variance and the effective users of each side."""
    (v, n), (w, m) = a, b
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((v + w) ** 2 / (v**2 / np.maximum(n - 1, 1.0) + w**2 / np.maximum(m - 1, 1.0)))


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
class Order:
    """The worst reversal: ``better`` at the lower score ``at`` against ``worse`` at the higher score ``above``."""

    pvalue: float
    statistic: float
    difference: float
    better: int
    worse: int
    at: float
    above: float


def default_grid(family: Family, weight: FloatArray) -> FloatArray:
    """The paper's quantiles of the score; points in one bin of the axis are taken once."""
    points = family.axis.quantiles(weight, [percent / 100 for percent in PERCENTS])
    _, first = np.unique(family.axis.bin(points), return_index=True)
    return points[first]


def pooled(family: Family, bandwidth: Bandwidth, weight: FloatArray, total: FloatArray) -> Curve:
    """The curve of all groups together, local-linear at a smaller bandwidth."""
    width = POOLED * bandwidth.at(family.axis.centres)
    return local_linear(family.axis, weight.sum(axis=0), total.sum(axis=0), width)


def share(family: Family, bandwidth: Bandwidth, weight: FloatArray) -> Curve:
    """The share of the first of two groups at each score."""
    width = POOLED * bandwidth.at(family.axis.centres)
    found = local_linear(family.axis, weight.sum(axis=0), weight[0], width)
    return Curve(family.axis, np.clip(found.values, 0.0, 1.0))


def smooth(family: Family, plan: Plan) -> Smoothed:
    """Both passes, then which points are supported."""
    totals = family.rows.totals(plan)
    fit = solve(plan, totals)
    products = family.rows.products(plan, fit)
    effective, supported = support(family, fit, products)
    curve, covariance = fit.beta[0], products.curve
    if not plan.curves:
        curve, covariance = fit.mean, np.empty(0)
    # The paper's method is kept as it is: normal, whatever the number of users.
    student = plan.marks is not None
    return Smoothed(curve, covariance, effective, supported, fit.gap, products.gap, student)


def support(family: Family, fit: Fit, products: Products) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Effective users behind each point, and whether they are enough for a normal law.

    Effective n times min(f, 1 - f) is the expected number of events (or of non-events, if fewer). Effective n is
    (sum of w K)^2 / sum of (w K)^2, and at most sqrt(2) sum of w K, which equals it where scores are spread evenly:
    users several bandwidths away, in a group with nobody near, would otherwise count in full, all being equally far.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.minimum(np.nan_to_num(fit.mass**2 / products.square), np.sqrt(2) * fit.mass)
    if not family.binary:
        return effective, effective >= EFFECTIVE
    rarer = np.nan_to_num(np.minimum(fit.mean, 1 - fit.mean))
    return effective, effective * rarer >= EVENTS


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
    found = -special.stdtrit(np.where(np.isfinite(df), df, 1.0), special.ndtr(-critical))
    return np.where(np.isfinite(df), found, critical)


def band(
    difference: FloatArray,
    covariance: FloatArray,
    df: FloatArray,
    supported: NDArray[np.bool_],
    *,
    adjust: str,
    alpha: float,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Band:
    """Difference of two curves with a band and p-values over the supported points."""
    variance = np.where(supported, np.diagonal(covariance), np.nan)
    se = np.sqrt(np.where(variance > 0, variance, np.nan))
    usable = np.isfinite(se)
    shown = np.where(usable, difference, np.nan)
    score, pvalue = beyond(shown, se, df, tolerance)
    adjusted, critical = adjusted_pvalues(score, covariance, pvalue, adjust, alpha, draws, rng)
    overall, statistic = float("nan"), float("nan")
    if usable.any():
        overall = float(np.nanmin(adjusted))
        statistic = float(np.nanmax(np.maximum(np.abs(shown) - (tolerance or 0.0), 0.0) / se))
    half = student_width(critical, df) * se
    return Band(shown, se, shown - half, shown + half, pvalue, adjusted, overall, statistic)


def adjusted_pvalues(
    score: FloatArray,
    covariance: FloatArray,
    pvalue: FloatArray,
    adjust: str,
    alpha: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """P-values adjusted for the number of points, and the critical value of their normal scores."""
    points = int(np.isfinite(score).sum())
    if adjust == "none" or not points:
        return pvalue, float(tails.normal_isf(alpha))
    bonferroni = multiplicity.adjust(pvalue, "bonferroni")
    if adjust != "sup-t":
        # Holm's band is Bonferroni's: only its p-values are smaller.
        return multiplicity.adjust(pvalue, adjust), float(tails.normal_isf(alpha / points))
    se = np.sqrt(np.where(np.isfinite(score), np.diagonal(covariance), np.nan))
    law = sup_t(covariance / se[:, None] / se[None, :], alpha=alpha, draws=draws, rng=rng)
    # Bonferroni bounds the exact sup-t p-value from above; it takes over where draws cannot resolve it.
    return np.fmin(law.adjusted(score), bonferroni), law.critical


def pair_band(found: Smoothed, i: int, j: int, per_unit: FloatArray | float = 1.0, **options: Any) -> Band:
    """Group ``i`` minus group ``j``, from gaps smoothed together. ``per_unit``: see `attenuation`."""
    v = found.gap_covariance
    unit = np.broadcast_to(per_unit, found.gap[i].shape)
    covariance = (v[i, i] + v[j, j] - v[i, j] - v[j, i]) / unit[:, None] / unit[None, :]
    both = found.supported[i] & found.supported[j]
    every = np.arange(both.size)
    df = found.freedom((i, every), (j, every), v)
    return band((found.gap[i] - found.gap[j]) / unit, covariance, df, both, **options)


def attenuation(family: Family, plan: Plan, share: Curve, weight: FloatArray) -> FloatArray:
    """What a difference of 1 between two groups' outcomes makes of the difference of their smoothed residuals.

    At a score the pooled curve lies between the groups' curves according to their shares, so the two residuals add up
    to the whole difference. Smoothing takes each over scores where its own group is frequent, where the pooled curve is
    nearer to it: together they come to less than the whole. Dividing by that leaves every p-value as it is.
    """
    axis = family.axis
    k = plan.weigh((axis.centres[None, :] - plan.points[:, None]) / plan.width[:, None])
    parts = (1 - share.values, share.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sum((k @ (weight[g] * part)) / (k @ weight[g]) for g, part in enumerate(parts)))


def joint_pvalue(found: Smoothed, draws: int, rng: np.random.Generator) -> float:
    """P-value of "all groups' curves are equal", from every pair and point at once."""
    groups, points = found.gap.shape
    covariance = np.transpose(found.gap_covariance, (0, 2, 1, 3)).reshape(groups * points, groups * points)
    first, second = np.triu_indices(groups, 1)
    both = found.supported[first] & found.supported[second]
    a = (first[:, None] * points + np.arange(points))[both]
    b = (second[:, None] * points + np.arange(points))[both]
    variance = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
    fine = variance > 0
    a, b, se = a[fine], b[fine], np.sqrt(variance[fine])
    if not a.size:
        return float("nan")
    gap = found.gap.ravel()
    df = found.freedom(np.divmod(a, points), np.divmod(b, points), found.gap_covariance)
    largest = float(np.max(np.abs(normal_score((gap[a] - gap[b]) / se, df))))
    z = _draws(covariance, draws, rng, np.union1d(a, b))
    maxima = np.max(np.abs(z[:, a] - z[:, b]) / se, axis=1)
    simulated = float(resampling.pvalue(int((maxima >= largest).sum()), draws))
    return min(simulated, float(tails.normal_sf(largest)) * a.size, 1.0)


def ordering(found: Smoothed, grid: FloatArray, draws: int, rng: np.random.Generator) -> Order:
    """Definition 2's second part: the largest (f_g(s') - f_h(s)) / se over s' < s and g != h, one-sided.

    Judged as if all the curves were one flat curve, the hardest case of the null for this test.
    """
    groups, points = found.curve.shape
    covariance = np.transpose(found.covariance, (0, 2, 1, 3)).reshape(groups * points, groups * points)
    low, high = np.triu_indices(points, 1)
    pairs = np.array(list(permutations(range(groups), 2)))
    a = (pairs[:, :1] * points + low).ravel()
    b = (pairs[:, 1:] * points + high).ravel()
    ok = found.supported.ravel()
    variance = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
    fine = ok[a] & ok[b] & (variance > 0)
    if not fine.any():
        nan = float("nan")
        return Order(nan, nan, nan, -1, -1, nan, nan)
    a, b, se = a[fine], b[fine], np.sqrt(variance[fine])
    curve = found.curve.ravel()
    df = found.freedom(np.divmod(a, points), np.divmod(b, points), found.covariance)
    t = normal_score((curve[a] - curve[b]) / se, df)
    worst = int(np.argmax(t))
    z = _draws(covariance, draws, rng, np.union1d(a, b))
    exceeding = 0
    for start in range(0, draws, 250):  # draws x contrasts would be large for many groups
        block = z[start : start + 250]
        exceeding += int(((block[:, a] - block[:, b]) / se >= t[worst]).any(axis=1).sum())
    simulated = float(resampling.pvalue(exceeding, draws))
    pvalue = min(simulated, float(tails.normal_sf(t[worst], sides="one")) * a.size, 1.0)
    (g, s), (h, above) = divmod(int(a[worst]), points), divmod(int(b[worst]), points)
    difference = float(curve[a[worst]] - curve[b[worst]])
    return Order(pvalue, float(t[worst]), difference, g, h, float(grid[s]), float(grid[above]))


def cumulative(
    family: Family, marks: Marks, weight: FloatArray, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Statistic and p-value of cumulative differences in score order, for two groups.

    F(t) adds (1_g - share(S)) (Y - pooled(S)) over rows with S <= t, with the rows' votes. Under the null it stays near
    zero; the statistic is its range (Kuiper), judged by draws with the covariance of the sums by user.
    """
    both = weight.sum(axis=0)
    cell = np.minimum((CHECKPOINTS * (np.cumsum(both) - both / 2) / both.sum()).astype(np.intp), CHECKPOINTS - 1)
    step, second = family.rows.increments(marks, np.broadcast_to(cell, (BINS,)), CHECKPOINTS)
    statistic = _range(np.cumsum(step)[None, :])[0]
    if not np.trace(second) > 0:
        return float("nan"), float("nan")
    walk = np.cumsum(np.cumsum(second, axis=0), axis=1)
    law = _range(normal_draws(walk, draws, rng))
    scale = float(np.sqrt(walk.diagonal().max()))
    exceeding = int((law >= statistic * (1 - 1e-12)).sum())
    return float(statistic / scale), float(resampling.pvalue(exceeding, draws))


def _range(path: FloatArray) -> FloatArray:
    return np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0)


def _draws(covariance: FloatArray, draws: int, rng: np.random.Generator, used: NDArray[np.intp]) -> FloatArray:
    """Draws for the used coordinates; the others stay zero."""
    z = np.zeros((draws, covariance.shape[0]))
    own = covariance[np.ix_(used, used)]
    # On the scale of correlations: the square root's tolerance is relative to the largest eigenvalue.
    se = np.sqrt(np.maximum(np.diagonal(own), np.finfo(float).tiny))
    z[:, used] = normal_draws(own / se[:, None] / se[None, :], draws, rng) * se
    return z
