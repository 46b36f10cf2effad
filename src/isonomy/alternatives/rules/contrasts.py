"""The questions a comparison is made of, each answered at every gain that could be required, by a normal law.

A gain g must exceed delta times a base c: a `Contrast`. |F1| < c is asked as two one-sided questions, u and v standard
errors from their boundaries, together: an `Equivalence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.rules.bootstrap import PvalueForm
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import t_sf


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """One question: does the ``gain`` exceed delta times the ``base``? With their variances and covariance.

    ``noise`` is what rounding leaves of a variance that is 0. ``identical``: both algorithms decide alike wherever it
    matters, so the gain is 0 and nothing was estimated.
    """

    gain: float
    base: float
    variance: float
    covariance: float
    base_variance: float
    noise: float
    rows: int
    identical: bool = False
    df: float = np.inf  # of the law: clusters less one

    def excess(self, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gain beyond delta times its base, and the variance of that."""
        variance = self.variance - 2 * delta * self.covariance + delta**2 * self.base_variance
        return self.gain - delta * self.base, variance

    def pvalue(self, delta: ArrayLike, form: PvalueForm = "add_one") -> FloatArray:
        """P(a standard normal is at least as large as the gain beyond delta times its base, in standard errors).

        Without any variance a gain that is large enough has 1 / (1 + rows): never 0 from rows alike.
        """
        excess, variance = self.excess(np.asarray(delta, dtype=float))
        certain = self.identical | (variance <= self.noise)
        pvalue = t_sf(excess / np.sqrt(np.where(certain, 1.0, variance)), self.df)
        tie = 1e-12 * (abs(self.gain) + abs(self.base))
        met = np.where(self.identical & (excess >= -tie), 0.0, np.where(excess > tie, 1 / (1 + self.rows), 1.0))
        return np.asarray(np.where(certain, met, pvalue), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Equivalence:
    """Is a gap F1 between -c and c, where c is what the status quo's leaves? Two questions, asked together.

    With u <= v the distances of F1 from both ends in standard errors and r < 0 their correlation, the p-value is

        P(u <= Z <= u + (v - u) / -r),    Z standard normal,

    in place of P(Z >= u): at the end that u is measured from, v - r u is independent of u, and given it all that
    rejects at this p-value or a smaller one lies between these two. So the level holds, wherever F1 and c are, and the
    power is never lower. For a c without error, r = -1, it is the uniformly most powerful unbiased test of
    equivalence. Nothing is shown unless c is shown to be above 0. ``step`` is half of the distance between values that
    F1 can take: an F1 that is 0 because rows are few is no evidence.
    """

    upper: Contrast
    lower: Contrast
    shared: float  # covariance of the two gains
    step: float

    def pvalue(self, delta: ArrayLike, form: PvalueForm = "add_one") -> FloatArray:
        """p-value at each delta."""
        d, df = np.asarray(delta, dtype=float), self.upper.df
        one_sided = np.maximum(self.upper.pvalue(d), self.lower.pvalue(d))
        (above, first), (below, second) = self.upper.excess(d), self.lower.excess(d)
        shared = self.shared - d * (self.upper.covariance + self.lower.covariance) + d**2 * self.upper.base_variance
        usable = (first > self.upper.noise) & (second > self.lower.noise) & (shared < 0)
        deviations = np.sqrt(np.where(usable, [first, second], 1.0))
        z = np.stack([above, below]) / deviations
        near, far = z.min(axis=0), z.max(axis=0)
        usable = usable & (near > 0)
        steps = self.step / deviations
        start, width = near - steps.max(axis=0), far - near + steps.sum(axis=0)
        correlation = np.where(usable, shared / deviations.prod(axis=0), -1.0)
        middle = (above + below) / np.sqrt(np.maximum(first + second + 2 * shared, 1e-300))
        between = t_sf(start, df) - t_sf(start - width / correlation, df)
        sharper = np.maximum(np.minimum(one_sided, between), t_sf(middle, df))
        return np.asarray(np.where(usable, np.minimum(one_sided, sharper), one_sided), dtype=float)
