"""Curves of groups by local polynomials, from sums at the sites, and which points are supported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isonomy.calibration.smoothing.kernels import Kernel, kernel, polynomial
from isonomy.calibration.smoothing.moments import Moments
from isonomy.numerics.arrays import BoolArray, FloatArray

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
class Fit:
    """Curves of all groups, and the functionals of the votes that they are."""

    beta: FloatArray  # (degree + 1, G, J): the local polynomial in u; beta[0] is the curve
    mean: FloatArray  # (G, J): Nadaraya-Watson mean of the outcome
    mass: FloatArray  # (G, J): sum of w K
    users: FloatArray  # (G, J): effective number of users under the kernel, (sum of w K)^2 / sum of (w K)^2
    effective: FloatArray  # (G, J): the same of users within a bandwidth, see `users_near`
    functionals: tuple[FloatArray, ...]  # of each group, (2, BINS, J)

    def covariance(self, moments: Moments, a: int, b: int) -> FloatArray:
        """Covariance (J, J) of the curves of two groups."""
        return moments.cross(a, self.functionals[a], b, self.functionals[b])

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.functionals)

    def errors(self, moments: Moments) -> FloatArray:
        """Standard errors (G, J)."""
        return np.sqrt([np.diagonal(self.covariance(moments, g, g)) for g in range(self.groups)])


def fit_curves(moments: Moments, smoother: Smoother) -> Fit:
    """Local polynomials by weighted least squares."""
    u = smoother.scaled(moments.site)
    powers = smoother.powers(u)
    k = powers[0]
    power = np.stack([moments.weight @ p for p in powers])
    outcome = np.stack([moments.total @ p for p in powers[: smoother.degree + 1]])
    beta, inverse = solve(power, outcome)
    lever = np.moveaxis(inverse[..., 0, :], -1, 0)
    none = np.zeros_like(k)
    functionals, users = [], np.empty(power[0].shape)
    for g in range(moments.size):
        slope = k * polynomial(lever[:, g], u)
        functionals.append(np.stack([-slope * polynomial(beta[:, g], u), slope]))
        mine = np.stack([k, none])
        with np.errstate(divide="ignore", invalid="ignore"):
            users[g] = np.nan_to_num(power[0, g] ** 2 / np.diagonal(moments.cross(g, mine, g, mine)))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = outcome[0] / power[0]
    near = users_near(moments, range(moments.size), smoother)
    return Fit(beta, mean, power[0], users, near, tuple(functionals))


def users_near(
    moments: Moments, groups: Iterable[int], smoother: Smoother, common: BoolArray | None = None
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


def solve(power: FloatArray, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients of weighted least squares, along the first axis, and the inverse of the Gram matrix, last two axes.

    ``power``: sums of w K u^k, ``outcome``: of w K u^k Y, the powers along the first axis.
    """
    index = np.arange(len(outcome))
    gram = np.moveaxis(power[index[:, None] + index[None, :]], (0, 1), (-2, -1))
    scale = np.maximum(power[0], np.finfo(float).tiny)[..., None, None]
    # Far from any data the Gram matrix is zero; the points are unsupported, and the numbers are replaced by NaN there.
    inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
    beta = np.moveaxis((inverse @ np.moveaxis(outcome, 0, -1)[..., None])[..., 0], -1, 0)
    return beta, inverse


def enough(effective: FloatArray, mean: FloatArray, *, binary: bool) -> BoolArray:
    """Whether users are enough for a normal law: by the events (or non-events, if fewer) expected of them.

    ``mean``: the rate of events, which is 0/1 outcomes' mean.
    """
    if not binary:
        return effective >= EFFECTIVE
    return effective * np.nan_to_num(np.minimum(mean, 1 - mean)) >= EVENTS
