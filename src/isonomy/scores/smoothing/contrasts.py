"""Local polynomials of groups, from sums at the sites, and two groups compared at each point of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.scores.smoothing.kernels import Kernel, kernel, polynomial
from isonomy.scores.smoothing.moments import VoteMoments

# ---- sums

EVENTS = 10.0  # a point is supported from this many effective events and non-events in every compared group
EFFECTIVE = 30.0  # the same for outcomes that are not 0/1: effective users


@dataclass(frozen=True, slots=True, eq=False)
class Smoother:
    """Where and how to smooth."""

    points: FloatArray
    width: FloatArray
    degree: int = 1  # of the local polynomial; 0 is Nadaraya-Watson
    kernel: Kernel = "gaussian"

    def scaled(self, score: FloatArray) -> FloatArray:
        """(S - s_j) / h_j for each score (first axis) and grid point."""
        return (score[:, None] - self.points) * (1.0 / self.width)

    def weigh(self, u: FloatArray) -> FloatArray:
        """K(u)."""
        return kernel(u, self.kernel)

    def powers(self, u: FloatArray) -> list[FloatArray]:
        """K(u) u^k, k up to twice the degree."""
        powers = [self.weigh(u)]
        for _ in range(2 * self.degree):
            powers.append(powers[-1] * u)
        return powers


@dataclass(frozen=True, slots=True, eq=False)
class GroupCurves:
    """Curves of all groups, and the functionals of the votes that they are."""

    beta: FloatArray  # (degree + 1, G, J): the local polynomial in u; beta[0] is the curve
    mean: FloatArray  # (G, J): Nadaraya-Watson mean of the outcome
    mass: FloatArray  # (G, J): sum of w K
    users: FloatArray  # (G, J): effective number of users under the kernel, (sum of w K)^2 / sum of (w K)^2
    effective: FloatArray  # (G, J): the same of users within a bandwidth, see `users_near`
    functionals: tuple[FloatArray, ...]  # of each group, (2, BINS, J)

    def covariance(self, moments: VoteMoments, a: int, b: int) -> FloatArray:
        """Covariance (J, J) of the curves of two groups."""
        return moments.cross(a, self.functionals[a], b, self.functionals[b])

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.functionals)

    def errors(self, moments: VoteMoments) -> FloatArray:
        """Standard errors (G, J)."""
        return np.sqrt([np.diagonal(self.covariance(moments, g, g)) for g in range(self.groups)])


def fit_curves(moments: VoteMoments, smoother: Smoother) -> GroupCurves:
    """Local polynomials by weighted least squares."""
    u = smoother.scaled(moments.site)
    powers = smoother.powers(u)
    k = powers[0]
    beta, inverse, mass = local_polynomial(powers, moments.weight, moments.total)
    lever = np.moveaxis(inverse[..., 0, :], -1, 0)
    none = np.zeros_like(k)
    functionals, users = [], np.empty(mass.shape)
    for g in range(moments.size):
        slope = k * polynomial(lever[:, g], u)
        functionals.append(np.stack([-slope * polynomial(beta[:, g], u), slope]))
        mine = np.stack([k, none])
        with np.errstate(divide="ignore", invalid="ignore"):
            users[g] = np.nan_to_num(mass[g] ** 2 / np.diagonal(moments.cross(g, mine, g, mine)))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (moments.total @ k) / mass
    near = users_near(moments, range(moments.size), smoother)
    return GroupCurves(beta, mean, mass, users, near, tuple(functionals))


def users_near(
    moments: VoteMoments, groups: Iterable[int], smoother: Smoother, common: BoolArray | None = None
) -> FloatArray:
    """Effective users (sum of w)^2 / sum of w^2 of each group within a bandwidth of each point.

    At most twice those within half of it, so that rows at the far ends do not stand for a middle that is empty.
    ``common``: of rows at these sites alone.
    """
    distance = np.abs(smoother.scaled(moments.site))
    held = np.ones(len(distance), dtype=bool) if common is None else common
    inside = np.hstack([(distance <= reach) & held[:, None] for reach in (1.0, 0.5)]).astype(np.float64)
    ones = np.stack([inside, np.zeros_like(inside)])
    effective = []
    for g in groups:
        squares = np.diagonal(moments.cross(g, ones, g, ones))
        votes = moments.weight[g] @ inside
        users = np.divide(votes**2, squares, out=np.zeros(votes.size), where=squares > 0)
        whole, half = users.reshape(2, -1)
        effective.append(np.minimum(whole, 2 * half))
    return np.stack(effective)


def local_polynomial(
    powers: Sequence[FloatArray], weight: FloatArray, total: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The one local polynomial: coefficients (first axis), inverse Gram matrices (last two axes), and kernel masses.

    ``powers``: K u^k at the sites (first axis) around each point, k up to twice the degree; ``weight``, ``total``:
    votes, and votes times outcomes, at the sites (last axis). `kernels.local_line` is the closed form for the values of
    lines, with the local mean where scores are too few for a slope.
    """
    power = np.stack([weight @ p for p in powers])
    outcome = np.stack([total @ p for p in powers[: len(powers) // 2 + 1]])
    index = np.arange(len(outcome))
    gram = np.moveaxis(power[index[:, None] + index[None, :]], (0, 1), (-2, -1))
    scale = np.maximum(power[0], np.finfo(float).tiny)[..., None, None]
    # Far from any data the Gram matrix is zero; the points are unsupported, and the numbers are replaced by NaN there.
    inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
    beta = np.moveaxis((inverse @ np.moveaxis(outcome, 0, -1)[..., None])[..., 0], -1, 0)
    return beta, inverse, power[0]


def enough(effective: FloatArray, mean: FloatArray, *, binary: bool) -> BoolArray:
    """Whether there are enough users for a normal law, by the number of events (or non-events, if fewer) they imply.

    ``mean``: the mean outcome, which is the rate of events for 0/1 outcomes.
    """
    if not binary:
        return effective >= EFFECTIVE
    return effective * np.nan_to_num(np.minimum(mean, 1 - mean)) >= EVENTS


# ---- contrasts

MOST_LEVERAGE = 0.9
NEAR = 1 / 8  # of a bandwidth: rows of two groups nearer than this have a score in common
NEIGHBORS = 3.0  # so many of either group
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Of two groups together, at each site: the expected outcome, and the share of the first group.

    ``common``: sites near which both groups have rows. Elsewhere nothing is compared: a smooth share would have rows of
    one group stand beside rows of the other at other scores, and a steep curve would pass for a difference.
    """

    outcome: FloatArray
    share: FloatArray
    common: BoolArray | None = None

    @property
    def membership(self) -> FloatArray:
        """(2, BINS): 1_g - share, for rows of the first group and of the second; 0 where scores are not common."""
        member = np.stack([1 - self.share, -self.share])
        return member if self.common is None else member * self.common


def common_sites(weight: FloatArray, square: FloatArray, site: FloatArray, width: FloatArray) -> BoolArray:
    """Sites at which every group has some rows within an eighth of the bandwidth ``width``.

    ``weight``, ``square``: votes and squared votes (groups, BINS); rows are counted as (sum of w)^2 / sum of w^2.
    """
    reach = NEAR * width
    first, last = np.searchsorted(site, site - reach), np.searchsorted(site, site + reach, side="right")
    votes, squares = (np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0))) for values in (weight, square))
    votes, squares = votes[:, last] - votes[:, first], squares[:, last] - squares[:, first]
    return np.asarray(np.all((votes > 0) & (votes**2 >= NEIGHBORS * squares), axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class PairContrast:
    """The first group minus the second at each point, the functionals of their votes, and degrees of freedom."""

    estimate: FloatArray  # (J,)
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, J) each
    freedom: FloatArray  # (2, J): of the part of the variance that comes from either group
    least: FloatArray | float = 0.0  # (J,): the variance if outcomes of 0 and 1 had the pooled curve's chances

    def errors(self, covariance: FloatArray) -> FloatArray:
        """Standard errors. A variance from few events is small where they are few by chance: it has a floor."""
        return np.sqrt(np.maximum(np.diagonal(covariance), self.least))

    def law(self, moments: VoteMoments, pair: Pair) -> tuple[FloatArray, FloatArray]:
        """Covariance (J, J), NaN where all that is left of a variance is rounding; degrees of freedom, after Welch."""
        (i, j), (first, second) = pair, self.functionals
        own = [moments.cross(g, f, g, f) for g, f in zip(pair, self.functionals, strict=True)]
        between = moments.cross(i, first, j, second)
        parts = own[0] + own[1]
        covariance = parts + between + between.T
        known = np.isfinite(beyond_rounding(np.diagonal(covariance), np.diagonal(parts)))
        covariance = np.where(known[:, None] & known[None, :], covariance, np.nan)
        return covariance, welch(*(np.diagonal(part) for part in own), *self.freedom)


def orthogonal(moments: VoteMoments, pair: Pair, pooled: Pooled, smoother: Smoother, *, binary: bool) -> PairContrast:
    """Y - f(S) regressed, near each point, on (1_g - share(S)) times a polynomial: the difference of the two curves.

    Both the pooled curve f and the share are taken out, so that errors of either enter only as products with errors of
    the other: where outcomes are equal the difference has no bias from scores that differ. Degree 0 averages the
    difference over a bandwidth; degree 2 corrects a local line for its bias (Calonico, Cattaneo and Farrell 2018, with
    equal bandwidths). Residuals are divided by the root of 1 - leverage (HC2).
    """
    chosen = list(pair)
    weight, square = moments.weight[chosen], moments.square[chosen]
    member = pooled.membership
    residual = member * (moments.total[chosen] - weight * pooled.outcome)
    u = smoother.scaled(moments.site)
    powers = smoother.powers(u)
    k = powers[0]
    spread, right = (weight * member**2).sum(axis=0), residual.sum(axis=0)
    beta, inverse, _ = local_polynomial(powers, spread, right)
    lever = k * polynomial(np.moveaxis(inverse[..., 0, :], -1, 0), u)
    value = polynomial(beta, u)
    rows = [polynomial(np.moveaxis(inverse[..., p, :], -1, 0), u) for p in range(smoother.degree + 1)]
    hat = k * polynomial(np.stack(rows), u)  # k times (1, u, ...) inverse (1, u, ...)'
    chance = pooled.outcome * (1 - pooled.outcome) if binary else np.zeros(len(u))
    functionals, freedom, least = [], [], np.zeros(smoother.points.size)
    for a, w, q in zip(member[:, :, None], weight[:, :, None], square[:, :, None], strict=True):
        each = np.divide(q, w, out=np.zeros_like(q), where=w > 0)  # the usual vote at a site
        leverage = np.clip(a**2 * each * hat, 0, MOST_LEVERAGE)
        slope = a * lever / np.sqrt(1 - leverage)
        functionals.append(np.stack([-slope * (pooled.outcome[:, None] + a * value), slope]))
        part = slope**2 * q
        least += np.maximum(chance, 0) @ part
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom.append(part.sum(axis=0) ** 2 / np.nan_to_num(part**2 * each / w).sum(axis=0))
    return PairContrast(beta[0], (functionals[0], functionals[1]), np.stack(freedom), least)


def means(
    moments: VoteMoments, pair: Pair, pooled: Pooled | None, smoother: Smoother, effective: FloatArray
) -> PairContrast:
    """Kernel means of outcomes, or of residuals from the pooled curve, of one group minus those of the other.

    ``effective``: effective users (2, J). Residuals of both groups add up to less than the difference of their curves,
    and are divided by what a difference of 1 would add up to. Without a pooled curve this is the paper's
    Nadaraya-Watson comparison, judged by the normal law.
    """
    k = smoother.weigh(smoother.scaled(moments.site))
    base = np.zeros(len(k)) if pooled is None else pooled.outcome
    unit = np.ones(k.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        if pooled is not None:
            shares = zip(pair, (1 - pooled.share, pooled.share), strict=True)
            parts = [(moments.weight[g] * share) @ k / (moments.weight[g] @ k) for g, share in shares]
            unit = parts[0] + parts[1]
        gaps, functionals = [], []
        for g, sign in zip(pair, (1.0, -1.0), strict=True):
            mass = moments.weight[g] @ k
            gap = (moments.total[g] - moments.weight[g] * base) @ k / mass
            slope = np.nan_to_num(sign * k / mass / unit)
            functionals.append(np.stack([-slope * np.nan_to_num(base[:, None] + gap), slope]))
            gaps.append(sign * gap / unit)
    freedom = np.full_like(effective, np.inf) if pooled is None else effective
    return PairContrast(gaps[0] + gaps[1], (functionals[0], functionals[1]), freedom)


def welch(v: FloatArray, w: FloatArray, n: FloatArray, m: FloatArray) -> FloatArray:
    """Degrees of freedom of a difference, from the variance and the effective users of each side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = v**2 / np.maximum(n - 1, 1.0) + w**2 / np.maximum(m - 1, 1.0)
        return np.where(parts > 0, (v + w) ** 2 / parts, np.inf)
