"""Local polynomials of groups, from sums at the sites, and two groups compared at each point of a grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isonomy.inference.effect import Wald
from isonomy.inference.multiplicity import beyond_rounding
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.scores.smoothing.kernels import (
    Bandwidth,
    Smoother,
    local_linear,
    local_polynomial,
    polynomial,
    power_sums,
)
from isonomy.scores.smoothing.moments import Pair, VoteMoments

# ---- curves

EVENTS = 10.0  # a point is supported from this many effective events and non-events in every compared group
EFFECTIVE = 30.0  # the same for outcomes that are not 0/1: effective users


@dataclass(frozen=True, slots=True, eq=False)
class GroupCurves:
    """Curves of all groups, and the functionals of the votes that define them."""

    beta: FloatArray  # (degree + 1, G, J): the local polynomial in u; beta[0] is the curve
    mean: FloatArray  # (G, J): Nadaraya-Watson mean of the outcome
    mass: FloatArray  # (G, J): sum of w K
    users: FloatArray  # (G, J): effective number of users under the kernel
    effective: FloatArray  # (G, J): effective number of users within a bandwidth, see `users_near`
    functionals: tuple[FloatArray, ...]  # of each group, (2, BINS, J)

    def errors(self, moments: VoteMoments) -> FloatArray:
        """Standard errors (G, J)."""
        return np.sqrt([np.diagonal(moments.cross(g, f, g, f)) for g, f in enumerate(self.functionals)])


def fit_curves(moments: VoteMoments, smoother: Smoother) -> GroupCurves:
    """Local polynomials by weighted least squares."""
    u = smoother.scaled(moments.site)
    powers = smoother.powers(u)
    power, outcome = power_sums(powers, moments.weight, moments.total)
    beta, inverse = local_polynomial(power, outcome)
    lever = np.moveaxis(inverse[..., 0, :], -1, 0)
    functionals = []
    for g in range(moments.size):
        slope = powers[0] * polynomial(lever[:, g], u)
        functionals.append(np.stack([-slope * polynomial(beta[:, g], u), slope]))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = outcome[0] / power[0]
    users = np.stack([moments.effective(g, powers[0]) for g in range(moments.size)])
    near = users_near(moments, range(moments.size), smoother)
    return GroupCurves(beta, mean, power[0], users, near, tuple(functionals))


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
    common: BoolArray | None = None

    @property
    def membership(self) -> FloatArray:
        """(2, BINS): 1_g - share, for rows of the first group and of the second; 0 where scores are not common."""
        member = np.stack([1 - self.share, -self.share])
        return member if self.common is None else member * self.common


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
    return np.asarray(np.all((votes > 0) & (votes**2 >= NEIGHBORS * squares), axis=0))


def supported(moments: VoteMoments, pair: Pair, pooled: Pooled, smoother: Smoother, fit: GroupCurves) -> BoolArray:
    """Points near which both groups have enough users at common scores, given the pair's rate of events."""
    chosen = list(pair)
    effective = users_near(moments, pair, smoother, pooled.common)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.nansum(fit.mean[chosen] * fit.mass[chosen], axis=0) / fit.mass[chosen].sum(axis=0)
    return np.asarray(np.all(enough(effective, mean, binary=moments.binary), axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class PairContrast:
    """The first group minus the second at each point, the functionals of their votes, and degrees of freedom."""

    estimate: FloatArray  # (J,)
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, J) each
    freedom: FloatArray  # (2, J): of the part of the variance that comes from either group
    least: FloatArray | float = 0.0  # (J,): the variance if outcomes of 0 and 1 had the pooled curve's chances

    def law(self, moments: VoteMoments, pair: Pair) -> tuple[FloatArray, Wald]:
        """Covariance (J, J), NaN where only rounding is left of a variance, and the differences with their errors.

        A variance from few events is small where they are few by chance, so standard errors have a floor.
        """
        (i, j), (first, second) = pair, self.functionals
        variances = [moments.cross(g, f, g, f) for g, f in zip(pair, self.functionals, strict=True)]
        between = moments.cross(i, first, j, second)
        parts = variances[0] + variances[1]
        covariance = parts + between + between.T
        known = np.isfinite(beyond_rounding(np.diagonal(covariance), np.diagonal(parts)))
        covariance = np.where(known[:, None] & known[None, :], covariance, np.nan)
        freedom = welch(*(np.diagonal(part) for part in variances), *self.freedom)
        errors = np.sqrt(np.maximum(np.diagonal(covariance), self.least))
        return covariance, Wald(self.estimate, errors, freedom)


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
    k = smoother.weigh(smoother.scaled(moments.site))
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
