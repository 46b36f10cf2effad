"""Against the best: groups set beside the highest (or lowest) of all groups, which is itself unknown.

ρ_g is the least of the disparities of g from the others, and never above no difference: the best group's own is that.
Taking the largest mean in the data for the best would blame the runner-up and leave its error out. Multiple comparisons
with the best (Hsu 1984, 1996) count it:

ρ_g below r     is shown by any one of the k - 1 others: the smallest of their one-sided p-values, times k - 1;
ρ_g above r     needs every one of them: the largest of the one-sided p-values, as it is.

So one limit is the least of the others' lower limits, unadjusted, and the other the least of their upper limits at a
level divided by k - 1. As one statistic: T of the deciding pair below the estimate, and above it the T whose tail is k
- 1 times as large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.ratio.disparity import Likelihood
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf


@dataclass(frozen=True, slots=True, eq=False)
class AgainstBest:
    """The disparities of groups from the highest of all (``sign`` 1), or the lowest (-1), 0 meaning no difference.

    ``pairs`` are the disparities of each group from each other one, ``group`` (0 up, each with a pair at least) whose
    pair it is. On the scale of a link they are its δ.
    """

    pairs: Likelihood
    group: IntArray
    sign: float = 1.0

    @property
    def others(self) -> FloatArray:
        """With how many each group is compared."""
        return np.bincount(self.group).astype(float)

    @property
    def nearest(self) -> IntArray:
        """The pair that decides each group's disparity."""
        return self._least(self.sign * self.pairs.disparity)

    @property
    def disparity(self) -> FloatArray:
        """The estimates: no difference for the best group."""
        return self.sign * np.minimum(self.sign * self.pairs.disparity[self.nearest], 0.0)

    @property
    def standard_error(self) -> FloatArray:
        """That of the deciding pair."""
        return self.pairs.standard_error[self.nearest]

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``; infinite beyond no difference."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.others.shape)
        asked, estimate = self.sign * target, self.sign * self.disparity
        each = np.nan_to_num(self.pairs.statistic(target[self.group]), nan=0.0, posinf=np.inf)
        away = self.sign * self.pairs.disparity - asked[self.group]
        below, above = self._least(np.where(away < 0, -each, 0.0)), self._least(np.where(away > 0, each, 0.0))
        tail = chi2_sf(each[below], 1)
        shared = np.where(tail > 0, chi2_isf(np.minimum(1.0, self.others * tail), 1), each[below])
        statistic = np.where(asked > estimate, np.where(away[below] < 0, shared, 0.0), each[above])
        return np.where(asked > 0, np.inf, np.where(asked == estimate, 0.0, statistic))

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.others.shape)
        shared = chi2_isf(chi2_sf(level, 1) / self.others, 1)
        alone, together = (self.pairs.interval(each[self.group]) for each in (level, shared))
        near, far = (alone[0], together[1]) if self.sign > 0 else (-alone[1], -together[0])
        # Two groups without a single case say nothing of one another.
        low, high = np.where(np.isnan(near), -np.inf, near), np.where(np.isnan(far), np.inf, far)
        low, high = (np.minimum(end[self._least(end)], 0.0) for end in (low, high))
        return (low, high) if self.sign > 0 else (-high, -low)

    def _least(self, values: FloatArray) -> IntArray:
        """The place of each group's least value among the pairs."""
        order = np.lexsort((values, self.group))
        return order[np.flatnonzero(np.diff(self.group[order], prepend=-1))]


def every_pair(size: int) -> tuple[IntArray, IntArray]:
    """Each of ``size`` groups with each other one, pairs of one group together."""
    first, second = (part.ravel() for part in np.indices((size, size)))
    return first[first != second], second[first != second]


def widest(pairs: Likelihood, alpha: float, tests: int) -> tuple[int, float, float]:
    """The place of the pair with the largest gap, and an interval of the largest gap, which is one of several unknown.

    The gap is at least what some pair's interval shows, at a level shared by all ``tests`` of them, and at most what
    every pair's own interval allows.
    """
    least, most = gap_limits(pairs, alpha, tests)
    return int(np.nanargmax(np.abs(pairs.disparity))), max(float(np.nanmax(least)), 0.0), float(np.nanmax(most))


def gap_limits(pairs: Likelihood, alpha: float, tests: int) -> tuple[FloatArray, FloatArray]:
    """What each pair's interval shows of its gap at a level shared by ``tests`` of them, and what its own allows."""
    low, high = pairs.interval(chi2_isf(alpha, 1))
    most = np.maximum(-low, high)
    low, high = pairs.interval(chi2_isf(alpha / tests, 1))
    return np.maximum(low, -high), most
