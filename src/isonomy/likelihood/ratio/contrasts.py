"""No difference between groups, tested by the covariance of several contrasts at once.

Comparisons within strata, and metrics that are no mean over rows, have no joint likelihood. Under the hypothesis their
contrasts d have the mean 0 and a covariance V, and T = d' V⁺ d is chi-square with as many degrees of freedom as V has
directions. Only no difference can be asked of it: elsewhere V would be another.

Where V rests on the groups' own variances, each from few rows, T is too large, the more so the more groups there are
and the heavier their tails. Welch's (1951) F allows for it, with the degrees of freedom of each variance that the
fourth moment of its influence values says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.errors import UsageError
from isonomy.likelihood.ratio.joint import Joint
from isonomy.likelihood.ratio.links import LINKS
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf

# Directions of contrasts, each in its own standard errors, with less variance than this are fixed by others.
FIXED = 1e-8


def quadratic(contrasts: FloatArray, covariance: FloatArray) -> tuple[float, int]:
    """T, and its degrees of freedom; contrasts without variance say nothing."""
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    known = error > 0
    scaled = (contrasts / np.where(known, error, 1.0))[known]
    variance, directions = np.linalg.eigh((covariance / np.outer(error, error).clip(1e-300))[np.ix_(known, known)])
    free = variance > FIXED
    return float(((directions[:, free].T @ scaled) ** 2 / variance[free]).sum()), int(free.sum())


def welch(statistic: float, df: int, variance: FloatArray, freedom: FloatArray) -> float:
    """The p-value of T, which compares groups whose estimates have these variances with these degrees of freedom.

    Welch, B. L. (1951). On the comparison of several mean values: an alternative approach. Biometrika 38, 330-336.
    """
    precision = 1.0 / variance
    error = float(((1.0 - precision / precision.sum()) ** 2 / freedom).sum())
    square = (df + 1.0) ** 2 - 1.0
    return float(special.fdtrc(df, square / (3.0 * error), statistic / df / (1.0 + 2.0 * (df - 1.0) / square * error)))


@dataclass(frozen=True, slots=True, eq=False)
class NoDifference:
    """What a joint test that can only ask about no difference keeps: its statistic, as far out as a chi-square is."""

    groups: int
    statistic: float
    df: int
    scale: str

    def test(self, disparities: npt.ArrayLike) -> Joint:
        """The statistic and its degrees of freedom at no difference."""
        if (np.asarray(disparities, dtype=float) != LINKS[self.scale].equal).any():
            raise UsageError(
                f"disparities: only no difference ({LINKS[self.scale].equal:g}) can be asked of this joint test, saw "
                f"{disparities!r}; the intervals of `to_frame` hold for all groups together."
            )
        return Joint(self.statistic, self.df, np.empty(0), Status.OK)

    def critical(self, alpha: float, df: int) -> float:
        """What the statistic is held against."""
        return float(chi2_isf(alpha, df))
