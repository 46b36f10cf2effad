"""Simultaneous inference at many points: sup-t critical values and p-values.

Statistics t_1 ... t_p that are jointly normal with known correlation under the null have max |t_j| distributed as
the maximum of N(0, correlation). Its quantile is the critical value of a band that covers at all points at once,
never wider than Bonferroni's and much narrower when points are highly correlated (Montiel Olea and
Plagborg-Moller 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.inference.multiplicity import smallest
from isonomy.numerics import resampling
from isonomy.numerics.arrays import FloatArray

# Eigenvalues below this share of the largest are rounding (in a correlation made from sums) and set to 0.
RANK_TOLERANCE = 1e-10
BLOCK_BYTES = 2**26


@dataclass(frozen=True, slots=True, eq=False)
class SupT:
    """The law of the largest statistic: its ``critical`` value at ``alpha`` and the simulated ``maxima``, ascending.

    A statistic is significant when it is strictly above ``critical``; that is the same as `pvalue` <= alpha.
    """

    critical: float
    maxima: FloatArray
    alpha: float

    def pvalue(self, statistics: npt.ArrayLike) -> float:
        """The p-value of the largest statistic; NaN if every statistic is NaN."""
        return smallest(self.adjusted(statistics))

    def adjusted(self, statistics: npt.ArrayLike) -> FloatArray:
        """A p-value per point, adjusted for all of them: (1 + #{maxima >= statistic}) / (1 + draws)."""
        return resampling.resampled_pvalues(np.abs(np.asarray(statistics, dtype=float)), self.maxima)


def sup_t(correlation: npt.ArrayLike, *, alpha: float = 0.05, draws: int = 10_000, rng: np.random.Generator) -> SupT:
    """How large is the largest absolute value of many correlated normal statistics by chance?

    Parameters
    ----------
    correlation
        Points x points. May be singular. Points whose row is NaN (unsupported, no variance) are left out.
    draws
        Simulated maxima; the Monte Carlo error of a p-value p is sqrt(p (1 - p) / draws).

    Examples
    --------
    >>> law = sup_t(np.eye(3), alpha=0.05, draws=20_000, rng=np.random.default_rng(0))
    >>> round(law.critical, 1)  # exactly 2.39 for three independent points
    2.4
    >>> law.adjusted([0.0, 9.0]) < 0.05
    array([False,  True])
    """
    matrix = np.asarray(correlation, dtype=float)
    used = ~np.isnan(np.diagonal(matrix))
    if not used.any():
        return SupT(float("nan"), np.empty(0), alpha)
    factor = square_root(matrix[np.ix_(used, used)])
    maxima = np.empty(draws)
    block = max(1, BLOCK_BYTES // (16 * factor.shape[0]))
    for start in range(0, draws, block):
        rows = min(block, draws - start)
        z = rng.standard_normal((rows, factor.shape[0])) @ factor
        maxima[start : start + rows] = np.abs(z).max(axis=1)
    maxima.sort()
    # p <= alpha means at most k - 1 maxima reach the statistic, k = floor(alpha (draws + 1)): it lies above the
    # k-th largest. With too few draws for that no statistic is significant.
    k = int(np.floor(alpha * (draws + 1) + 1e-9))
    return SupT(float(maxima[-k]) if k > 0 else float("inf"), maxima, alpha)


def square_root(covariance: npt.ArrayLike) -> FloatArray:
    """The symmetric square root R of a covariance matrix: R R = covariance.

    Unlike a Cholesky factor it exists for singular matrices, and unlike raw eigenvectors it is continuous, so a
    difference in the last digit of the matrix (another engine's summation order) leaves the draws z @ R nearly unmoved.
    """
    matrix = np.asarray(covariance, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        raise UsageError(f"covariance: give a finite square matrix, saw shape {matrix.shape}.")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    largest = max(float(values[-1]), 0.0) if values.size else 0.0
    if values.size and values[0] < -1e-6 * max(largest, np.finfo(float).tiny):
        raise UsageError(
            "data: the covariance of its estimates is not positive semi-definite (smallest eigenvalue "
            f"{values[0]:.3g}); the numbers are too large, or hardly differ."
        )
    return (vectors * np.sqrt(np.where(values > RANK_TOLERANCE * largest, values, 0.0))) @ vectors.T


def beyond_rounding(variance: npt.ArrayLike, parts: npt.ArrayLike) -> FloatArray:
    """The variances of differences; NaN where only rounding is left of the ``parts`` they come from.

    Two estimates from the same rows do not differ and have no variance: there is nothing to test, although sums leave
    some last digits.

    Parameters
    ----------
    variance : array_like
        v + w - 2 c for two estimates with variances v and w and covariance c.
    parts : array_like
        v + w.

    Examples
    --------
    >>> beyond_rounding([0.5, 3e-17], [2.0, 2.0])
    array([0.5, nan])
    """
    left = np.asarray(variance, dtype=float)
    return np.where(left > RANK_TOLERANCE * np.asarray(parts, dtype=float), left, np.nan)


def normal_draws(covariance: npt.ArrayLike, draws: int, rng: np.random.Generator) -> FloatArray:
    """Draws (draws x points) from N(0, covariance), for statistics other than the plain maximum.

    >>> normal_draws([[1.0, 1.0], [1.0, 1.0]], 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    factor = square_root(covariance)
    return rng.standard_normal((draws, factor.shape[0])) @ factor
