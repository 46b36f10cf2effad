"""Are two curves equal, and is the order right? Bands, p-values and ordering from sums by user.

Pure functions of a `Family`'s sums. The law of everything is normal with the covariance of the sums by user; maxima
over the grid are judged by draws from it, so no row is resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from isonomy.calibration.plan import Fit, Marks, Plan, Products, solve
from isonomy.calibration.smoothing import BINS, PERCENTS, Bandwidth, Curve, Floats, local_linear
from isonomy.calibration.tally import Family
from isonomy.numerics import multiplicity, resampling, tails
from isonomy.numerics.simultaneous import normal_draws, sup_t

METHODS = ("residual", "orthogonal", "nadaraya-watson", "cumulative")
ADJUSTMENTS = ("sup-t", "bonferroni", "holm", "none")
POOLED = 0.5  # bandwidth of the pooled curve, as a share of the comparison's
EVENTS = 10.0  # a point is supported from this many effective events and non-events in every compared group
EFFECTIVE = 30.0  # the same for outcomes that are not 0/1: effective users
CHECKPOINTS = 40  # score intervals of the cumulative test


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Curves of every group on the grid, with their covariance."""

    curve: Floats  # (G, J)
    covariance: Floats  # (G, G, J, J)
    effective: Floats  # (G, J): effective number of users
    supported: NDArray[np.bool_]  # (G, J)
    gap: Floats  # (G, J)
    gap_covariance: Floats  # (G, G, J, J)


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """One curve minus another at each grid point; NaN where it is unsupported."""

    difference: Floats
    se: Floats
    low: Floats
    high: Floats
    pvalue: Floats  # of each point alone
    adjusted: Floats  # of each point, adjusted for all of them
    overall: float  # of "equal everywhere"


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


def default_grid(family: Family, weight: Floats) -> Floats:
    """The paper's quantiles of the score; points in one bin of the axis are taken once."""
    points = family.axis.quantiles(weight, [percent / 100 for percent in PERCENTS])
    _, first = np.unique(family.axis.bin(points), return_index=True)
    return points[first]


def pooled(family: Family, bandwidth: Bandwidth, weight: Floats, total: Floats) -> Curve:
    """The curve of all groups together, local-linear at a smaller bandwidth."""
    width = POOLED * bandwidth.at(family.axis.centres)
    return local_linear(family.axis, weight.sum(axis=0), total.sum(axis=0), width)


def share(family: Family, bandwidth: Bandwidth, weight: Floats) -> Curve:
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
    return Smoothed(curve, covariance, effective, supported, fit.gap, products.gap)


def support(family: Family, fit: Fit, products: Products) -> tuple[Floats, NDArray[np.bool_]]:
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


def band(
    difference: Floats,
    covariance: Floats,
    supported: NDArray[np.bool_],
    *,
    adjust: str,
    alpha: float,
    draws: int,
    rng: np.random.Generator,
) -> Band:
    """Difference of two curves with a band and p-values over the supported points."""
    variance = np.where(supported, np.diagonal(covariance), np.nan)
    se = np.sqrt(np.where(variance > 0, variance, np.nan))
    usable = np.isfinite(se)
    shown = np.where(usable, difference, np.nan)
    pvalue = np.asarray(tails.normal_sf(shown / se))
    adjusted, critical = adjusted_pvalues(shown / se, covariance, pvalue, adjust, alpha, draws, rng)
    overall = float(np.nanmin(adjusted)) if usable.any() else float("nan")
    return Band(shown, se, shown - critical * se, shown + critical * se, pvalue, adjusted, overall)


def adjusted_pvalues(
    statistic: Floats,
    covariance: Floats,
    pvalue: Floats,
    adjust: str,
    alpha: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, float]:
    """P-values adjusted for the number of points, and the half-width of the band in standard errors."""
    points = int(np.isfinite(statistic).sum())
    if adjust == "none" or not points:
        return pvalue, float(tails.normal_isf(alpha))
    bonferroni = multiplicity.adjust(pvalue, "bonferroni")
    if adjust != "sup-t":
        # Holm's band is Bonferroni's: only its p-values are smaller.
        return multiplicity.adjust(pvalue, adjust), float(tails.normal_isf(alpha / points))
    se = np.sqrt(np.where(np.isfinite(statistic), np.diagonal(covariance), np.nan))
    law = sup_t(covariance / se[:, None] / se[None, :], alpha=alpha, draws=draws, rng=rng)
    # Bonferroni bounds the exact sup-t p-value from above; it takes over where draws cannot resolve it.
    return np.fmin(law.adjusted(statistic), bonferroni), law.critical


def pair_band(family: Family, found: Smoothed, i: int, j: int, **options: object) -> Band:
    """Group ``i`` minus group ``j``, from gaps smoothed together."""
    v = found.gap_covariance
    covariance = v[i, i] + v[j, j] - v[i, j] - v[j, i]
    both = found.supported[i] & found.supported[j]
    return band(found.gap[i] - found.gap[j], covariance, both, **options)  # type: ignore[arg-type]


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
    largest = float(np.max(np.abs(gap[a] - gap[b]) / se))
    z = _draws(covariance, draws, rng, np.union1d(a, b))
    maxima = np.max(np.abs(z[:, a] - z[:, b]) / se, axis=1)
    simulated = float(resampling.pvalue(int((maxima >= largest).sum()), draws))
    return min(simulated, float(tails.normal_sf(largest)) * a.size, 1.0)


def ordering(found: Smoothed, grid: Floats, draws: int, rng: np.random.Generator) -> Order:
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
    t = (curve[a] - curve[b]) / se
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
    family: Family, marks: Marks, weight: Floats, draws: int, rng: np.random.Generator
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


def _range(path: Floats) -> Floats:
    return np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0)


def _draws(covariance: Floats, draws: int, rng: np.random.Generator, used: NDArray[np.intp]) -> Floats:
    """Draws for the used coordinates; the others stay zero."""
    z = np.zeros((draws, covariance.shape[0]))
    own = covariance[np.ix_(used, used)]
    # On the scale of correlations: the square root's tolerance is relative to the largest eigenvalue.
    se = np.sqrt(np.maximum(np.diagonal(own), np.finfo(float).tiny))
    z[:, used] = normal_draws(own / se[:, None] / se[None, :], draws, rng) * se
    return z
