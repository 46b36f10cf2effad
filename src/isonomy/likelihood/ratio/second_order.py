"""Whether a joint test needs a small-sample correction, by the second-order term of its statistic.

The mean of T over its degrees of freedom is about 1 + A, A the mean over groups of a/n (`correction`): T is chi-square
times 1 + A, so a nominal level becomes P(χ² > critical / (1 + A)). Many degrees of freedom make a small A matter.
"""

from __future__ import annotations

import numpy as np

from isonomy.likelihood.ratio.correction import Adjusted, Corrected, bartlett_constant, joint_factor
from isonomy.likelihood.ratio.disparity import FromKnown, Likelihood, OnScale, Rescaled
from isonomy.likelihood.ratio.euclid import Euclidean
from isonomy.likelihood.ratio.joint import Joint
from isonomy.likelihood.ratio.means import Binary, Means, Real, Tilted
from isonomy.likelihood.ratio.profile import Kind, OfProfile, Profile, natural
from isonomy.likelihood.ratio.region import Region
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf, normal_isf

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
