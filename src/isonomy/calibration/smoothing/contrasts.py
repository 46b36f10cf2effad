"""Two groups compared at each point of a grid: differences that are linear in the votes of both, and their law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.calibration.smoothing.kernels import polynomial
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.sums import Smoother, solve
from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics.arrays import BoolArray, FloatArray

MOST_LEVERAGE = 0.9
NEAR = 1 / 8  # of a bandwidth: rows of two groups nearer than this have a score in common
NEIGHBOURS = 3.0  # so many of either group
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
    return np.asarray(np.all((votes > 0) & (votes**2 >= NEIGHBOURS * squares), axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """The first group minus the second at each point, the functionals of their votes, and degrees of freedom."""

    estimate: FloatArray  # (J,)
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, J) each
    freedom: FloatArray  # (2, J): of the part of the variance that comes from either group
    least: FloatArray | float = 0.0  # (J,): the variance if outcomes of 0 and 1 had the pooled curve's chances

    def errors(self, covariance: FloatArray) -> FloatArray:
        """Standard errors. A variance from few events is small where they are few by chance: it has a floor."""
        return np.sqrt(np.maximum(np.diagonal(covariance), self.least))

    def law(self, moments: Moments, pair: Pair) -> tuple[FloatArray, FloatArray]:
        """Covariance (J, J), NaN where all that is left of a variance is rounding; degrees of freedom, after Welch."""
        (i, j), (first, second) = pair, self.functionals
        own = [moments.cross(g, f, g, f) for g, f in zip(pair, self.functionals, strict=True)]
        between = moments.cross(i, first, j, second)
        parts = own[0] + own[1]
        covariance = parts + between + between.T
        known = np.isfinite(beyond_rounding(np.diagonal(covariance), np.diagonal(parts)))
        covariance = np.where(known[:, None] & known[None, :], covariance, np.nan)
        return covariance, welch(*(np.diagonal(part) for part in own), *self.freedom)


def orthogonal(moments: Moments, pair: Pair, pooled: Pooled, smoother: Smoother, *, binary: bool) -> Contrast:
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
    beta, inverse = solve(
        np.stack([spread @ power for power in powers]),
        np.stack([right @ power for power in powers[: smoother.degree + 1]]),
    )
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
    return Contrast(beta[0], (functionals[0], functionals[1]), np.stack(freedom), least)


def means(moments: Moments, pair: Pair, pooled: Pooled | None, smoother: Smoother, effective: FloatArray) -> Contrast:
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
    return Contrast(gaps[0] + gaps[1], (functionals[0], functionals[1]), freedom)


def welch(v: FloatArray, w: FloatArray, n: FloatArray, m: FloatArray) -> FloatArray:
    """Degrees of freedom of a difference, from the variance and the effective users of each side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = v**2 / np.maximum(n - 1, 1.0) + w**2 / np.maximum(m - 1, 1.0)
        return np.where(parts > 0, (v + w) ** 2 / parts, np.inf)
