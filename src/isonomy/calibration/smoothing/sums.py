"""What is summed over the rows: kernel sums at each score, first by group, then by user.

Two passes, the same for rows in memory and rows in an engine:

1. *Totals* by group and grid point: sums of K v^k and K v^k Y, where v = (S - s)/h, and of K times the marks of the
   comparison. They give the curves (local polynomials) and the gap of each group.
2. *Products*: with the estimates known, every row has an influence on each of them. Influences are added up within a
   user, and products of user sums are added up within and between groups: the cluster sandwich.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isonomy.calibration.smoothing.axis import Curve
from isonomy.calibration.smoothing.kernels import Kernel, kernel
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

EVENTS = 10.0  # a point is supported from this many effective events and non-events in every compared group
EFFECTIVE = 30.0  # the same for outcomes that are not 0/1: effective users


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """What the comparison smooths instead of the outcome: (Y - outcome(S)), times (1_g - share(S)) if there is one.

    ``outcome`` is the pooled curve. ``share`` is the share of the first of two groups at each score, and makes the
    statistic orthogonal: errors of the pooled curve then enter only as products with errors of the share. A mark then
    has a denominator, share (1 - share), and the sign that makes the difference of the two groups' gaps their common
    numerator.
    """

    outcome: Curve
    share: Curve | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Smoother:
    """Where and how to smooth."""

    points: FloatArray
    width: FloatArray
    degree: int = 1  # of the local polynomial; 0 is Nadaraya-Watson
    kernel: Kernel = "gaussian"
    marks: Marks | None = None
    curves: bool = True  # whether the influences of the curves are wanted

    @property
    def shared(self) -> bool:
        """Whether marks have a denominator."""
        return self.marks is not None and self.marks.share is not None

    def scaled(self, score: FloatArray) -> FloatArray:
        """(S - s_j) / h_j for each score (first axis) and grid point."""
        return (score[:, None] - self.points) * (1.0 / self.width)

    def weigh(self, u: FloatArray) -> FloatArray:
        """K(u)."""
        return kernel(u, self.kernel)


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """First pass: sums by group (first axis) and grid point (second)."""

    power: FloatArray  # (2 degree + 1, G, J): sums of w K v^k
    outcome: FloatArray  # (degree + 1, G, J): sums of w K v^k Y
    mark: FloatArray | None  # (G, J): sums of w K mark, where there are marks
    divisor: FloatArray | None  # (G, J): sums of w K denominator, where marks have one


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Curves and gaps, and the coefficients of each row's influence on them."""

    beta: FloatArray  # (degree + 1, G, J): the local polynomial in v; beta[0] is the curve
    lever: FloatArray  # (degree + 1, G, J): first row of the inverse of the weighted Gram matrix
    mean: FloatArray  # (G, J): Nadaraya-Watson mean of the outcome
    gap: FloatArray  # (G, J): smoothed mark; two groups are compared by the difference of their gaps
    centre: FloatArray  # (G, J): what is taken off a row's mark (times its denominator) in its influence
    divisor: FloatArray  # (G, J)
    mass: FloatArray  # (G, J): sum of w K


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Second pass: covariances of the gaps and of the curves, and the effective number of users behind each."""

    gap: FloatArray  # (G, G, J, J)
    curve: FloatArray  # (G, G, J, J); empty unless curves are wanted
    square: FloatArray  # (G, J): sum over users of (sum of w K)^2


class KernelSums(Protocol):
    """Sums over the rows of some groups, on request: held in memory, or asked of an engine."""

    def pair(self, first: int, second: int) -> KernelSums:
        """The rows of two groups, as groups 0 and 1. Votes stay: a user's rows elsewhere still count in n_m."""

    def histogram(self) -> tuple[FloatArray, FloatArray]:
        """Votes, and votes times outcomes, by group and bin of the axis."""

    def totals(self, smoother: Smoother) -> Totals:
        """First pass."""

    def products(self, smoother: Smoother, fit: Fit) -> Products:
        """Second pass."""

    def increments(self, marks: Marks, cell: IntArray, cells: int) -> tuple[FloatArray, FloatArray, float]:
        """Sums of the marks in each of ``cells`` score intervals (``cell`` maps a bin to its interval), the sums of
        products over users, and the sum of squares over rows. For the cumulative test."""

    def ranked(self, unit: bool) -> FloatArray:
        """ECE and AUC of everybody, then of each group. ``unit``: scores lie in [0, 1]."""


def solve(smoother: Smoother, totals: Totals) -> Fit:
    """Local polynomials by weighted least squares, and the gaps."""
    index = np.arange(smoother.degree + 1)
    gram = np.moveaxis(totals.power[index[:, None] + index[None, :]], (0, 1), (-2, -1))
    scale = np.maximum(totals.power[0], np.finfo(float).tiny)[..., None, None]
    # Far from any data the Gram matrix is zero; the points are unsupported, and the numbers are replaced by NaN there.
    inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
    beta = np.moveaxis((inverse @ np.moveaxis(totals.outcome, 0, -1)[..., None])[..., 0], -1, 0)
    mass = totals.power[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = totals.outcome[0] / mass
        if totals.mark is None:
            gap, centre, divisor = mean, mean, mass
        elif totals.divisor is None:
            gap = totals.mark / mass
            centre, divisor = gap, mass
        else:
            divisor = np.broadcast_to(totals.divisor.sum(axis=0), mass.shape)
            sign = np.array([1.0, -1.0])[:, None]
            gap = sign * totals.mark / divisor
            centre = np.broadcast_to(totals.mark.sum(axis=0) / divisor[0], mass.shape)
            divisor = sign * divisor
    return Fit(beta, np.moveaxis(inverse[..., 0, :], -1, 0), mean, gap, centre, divisor, mass)


def support(fit: Fit, products: Products, *, binary: bool) -> tuple[FloatArray, BoolArray]:
    """Effective users behind each point, and whether they are enough for a normal law.

    Effective n times min(f, 1 - f) is the expected number of events (or of non-events, if fewer). Effective n is
    (sum of w K)^2 / sum of (w K)^2, and at most sqrt(2) sum of w K, which equals it where scores are spread evenly:
    users several bandwidths away, in a group with nobody near, would otherwise count in full, all being equally far.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.minimum(np.nan_to_num(fit.mass**2 / products.square), np.sqrt(2) * fit.mass)
    if not binary:
        return effective, effective >= EFFECTIVE
    rarer = np.nan_to_num(np.minimum(fit.mean, 1 - fit.mean))
    return effective, effective * rarer >= EVENTS
