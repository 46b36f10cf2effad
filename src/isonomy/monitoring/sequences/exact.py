"""The exact alternative: the conditional likelihood of an odds ratio on a grid.

Given the margins of a stratum, the cases of the group have Fisher's noncentral hypergeometric law, which depends on the
odds ratio alone. With l_j the log likelihood to date at the grid point theta_j, and normal weights omega_j,

    E(theta_i) = sum_j omega_j exp(l_j - l_i)

is an e-value at any look, for any sizes, if the odds ratio is the same in all strata.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from isonomy.monitoring.sequences.strata import sum_strata
from isonomy.numerics.arrays import FloatArray

GRID = np.linspace(-4.0, 4.0, 161)  # log odds ratios
STEP = 0.05
LEAST_PRIOR = 0.5
REACH, LEAST_REACH = 12.0, 30.0  # of the window around the mode, in standard deviations and in cases


def log_likelihood(n1: float, s1: float, n0: float, s0: float) -> FloatArray:
    """log P(s1 | margins, theta) at every grid point; 0 if the margins leave no choice."""
    cases = s1 + s0
    low, high = max(0.0, cases - n0), min(n1, cases)
    if low == high:
        return np.zeros(GRID.size)
    odds = np.exp(GRID)
    # The mode solves x (n0 - cases + x) = odds (n1 - x) (cases - x).
    a, b, c = 1.0 - odds, n0 - cases + odds * (n1 + cases), -odds * n1 * cases
    mode = np.clip(-2.0 * c / (b + np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))), low, high)
    cells = np.stack([mode, n1 - mode, cases - mode, n0 - cases + mode])
    deviation = 1.0 / np.sqrt((1.0 / np.maximum(cells, 0.5)).sum(axis=0))
    reach = np.maximum(REACH * deviation, LEAST_REACH)
    first, last = np.maximum(np.floor(mode - reach), low), np.minimum(np.ceil(mode + reach), high)
    x = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None])
    fresh = np.diff(x, axis=1, prepend=-1.0) > 0  # the last point of a short window is repeated

    def term(x: FloatArray) -> FloatArray:
        return -(gammaln(x + 1) + gammaln(n1 - x + 1) + gammaln(cases - x + 1) + gammaln(n0 - cases + x + 1))

    total = logsumexp(np.where(fresh, term(x) + GRID[:, None] * x, -np.inf), axis=1)
    return np.asarray(term(np.asarray(s1)) + GRID * s1 - total)


class ExactSequence:
    """Odds ratios to date; as `isonomy.monitoring.sequences.score.Sequence`, two-sided."""

    def __init__(self, strata: FloatArray, prior: float) -> None:
        self.sums = sum_strata(strata)
        likelihoods = np.zeros((*strata.shape[:2], GRID.size))
        for t, j in zip(*np.nonzero(strata[..., 0, 0]), strict=True):
            likelihoods[t, j] = log_likelihood(*strata[t, j].ravel().tolist())
        self.likelihoods = np.cumsum(likelihoods, axis=0)
        log_weights = -(GRID**2) / (2.0 * prior**2)
        mixture = logsumexp(self.likelihoods + log_weights - logsumexp(log_weights), axis=-1, keepdims=True)
        self.grid = np.asarray(mixture - self.likelihoods)  # log E at every grid point
        (n1, s1), (n0, s0) = np.moveaxis(strata, (2, 3), (0, 1))
        total = np.where(n1 + n0 > 0, n1 + n0, 1.0)
        top, bottom = (np.cumsum(x / total, axis=0) for x in (s1 * (n0 - s0), s0 * (n1 - s1)))
        with np.errstate(all="ignore"):  # the common odds ratio of Mantel and Haenszel
            self.value = np.where(bottom > 0, top / bottom, np.nan)
        self.information = np.where(np.cumsum(n1, axis=0) > 0, 1.0, np.nan)  # known where there is a stratum

    def evidence(self, low: FloatArray, high: FloatArray, prior: FloatArray, side: str = "two-sided") -> FloatArray:
        """The logarithm of the smallest e-value at the grid points from ``low`` to ``high``."""
        first, last = (np.log(np.broadcast_to(end, self.value.shape))[..., None] for end in (low, high))
        null = (first - STEP / 2 <= GRID) & (last + STEP / 2 >= GRID)
        return np.asarray(np.where(null, self.grid, np.inf).min(axis=-1))

    def least_evidence(self, prior: FloatArray, side: str = "two-sided") -> FloatArray:
        return np.asarray(self.grid.min(axis=-1))

    def interval(
        self, prior: FloatArray, alpha: FloatArray | float, side: str = "two-sided"
    ) -> tuple[FloatArray, FloatArray]:
        """The odds ratios that are not rejected, with one grid step added at each end; 0 or infinite at its edges."""
        with np.errstate(divide="ignore"):
            left = self.grid < -np.log(np.broadcast_to(alpha, self.value.shape))[..., None]
        first, last = left.argmax(axis=-1), GRID.size - 1 - left[..., ::-1].argmax(axis=-1)
        low = np.where(first == 0, 0.0, np.exp(GRID[first] - STEP))
        high = np.where(last == GRID.size - 1, np.inf, np.exp(GRID[last] + STEP))
        return np.where(np.isnan(self.information), np.nan, low), np.where(np.isnan(self.information), np.nan, high)
