"""What is summed over the rows: kernel sums at each score, first by group, then by user.

Two passes, the same for rows in memory and rows in an engine:

1. *Totals* by group and grid point: sums of K v^k and K v^k Y, where v = (S - s)/h, and of K times the marks of the
   comparison. They give the curves (local polynomials) and the gap of each group.
2. *Products*: with the estimates known, every row has an influence on each of them. Influences are added up within a
   user, and products of user sums are added up within and between groups: the cluster sandwich.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.calibration.smoothing import Curve, kernel
from isonomy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """What the comparison smooths instead of the outcome: (Y - outcome(S)), times (1_g - share(S)) if there is one.

    ``outcome`` is the pooled curve. ``share`` is the share of the first of two groups at each score, and makes the
    statistic orthogonal: errors of the pooled curve then enter only as products with errors of the share.
    """

    outcome: Curve
    share: Curve | None = None

    @property
    def curves(self) -> dict[str, Curve]:
        """The curves that have to be evaluated at every row."""
        return {"outcome": self.outcome} | ({} if self.share is None else {"share": self.share})

    def row(self, y: Any, group: Any, at: dict[str, Any]) -> tuple[Any, Any]:
        """The mark and its denominator for rows of one group (number 0 or 1 in a pair); arrays or expressions."""
        residual = y - at["outcome"]
        if self.share is None:
            return residual, None
        share = at["share"]
        # The sign makes the difference of the two groups' gaps their common numerator.
        return ((1 - share) if group == 0 else -share) * residual, share * (1 - share)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Where and how to smooth."""

    points: FloatArray
    width: FloatArray
    degree: int = 1  # of the local polynomial; 0 is Nadaraya-Watson
    kernel: str = "gaussian"
    marks: Marks | None = None
    curves: bool = True  # whether the influences of the curves are wanted

    def scaled(self, score: Any, j: int) -> Any:
        """(S - s_j) / h_j for one grid point."""
        return (score - float(self.points[j])) * (1.0 / float(self.width[j]))

    def weigh(self, u: Any) -> Any:
        """K(u)."""
        return kernel(u, self.kernel)


def polynomial(coefficients: Sequence[Any] | FloatArray, u: Any) -> Any:
    """Value at ``u``, an array or an expression; constant term first."""
    value: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = u * value + coefficient
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """First pass: sums by group (first axis) and grid point (second)."""

    power: FloatArray  # (2 degree + 1, G, J): sums of w K v^k
    outcome: FloatArray  # (degree + 1, G, J): sums of w K v^k Y
    mark: FloatArray  # (G, J): sums of w K mark; empty without marks
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
    curve: FloatArray  # (G, G, J, J); empty unless the plan wants curves
    square: FloatArray  # (G, J): sum over users of (sum of w K)^2


def solve(plan: Plan, totals: Totals) -> Fit:
    """Local polynomials by weighted least squares, and the gaps."""
    d = plan.degree
    index = np.arange(d + 1)
    gram = np.moveaxis(totals.power[index[:, None] + index[None, :]], (0, 1), (-2, -1))
    scale = np.maximum(totals.power[0], np.finfo(float).tiny)[..., None, None]
    # Far from any data the Gram matrix is zero; the points are unsupported, and the numbers are replaced by NaN there.
    inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
    beta = np.moveaxis((inverse @ np.moveaxis(totals.outcome, 0, -1)[..., None])[..., 0], -1, 0)
    mass = totals.power[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = totals.outcome[0] / mass
        if not totals.mark.size:
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
