"""Disjoint groups whose means a null fixes but for one common shift: the minimum over θ of Σ T_j(θ + ε_j).

T_j is convex, and its derivative -2 n_j λ_j, so the minimum is where Σ n_j λ_j crosses zero. Rows that are all equal
leave one θ, as a known reference does. Many such problems are solved at once, which is what makes resampling them
affordable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.means import Means
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import roots
from isonomy.numerics.status import Status


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """Problems in lines, groups in columns: places in ``groups``, which of them count, and the ε_j of the columns."""

    groups: Means
    place: IntArray
    counts: BoolArray
    shift: FloatArray

    @property
    def centre(self) -> FloatArray:
        """The common shift that fits best if all variances are equal."""
        n = np.where(self.counts, self.groups.n[self.place], 0.0)
        fits = np.where(self.counts, self.groups.mean[self.place] - self.shift, 0.0)
        return (n * fits).sum(axis=1) / n.sum(axis=1)

    @property
    def df(self) -> IntArray:
        """Groups less the shift; 0 where no row differs from the null."""
        away = self.groups.mean[self.place] - self.shift - self.centre[:, None]
        moving = (self.groups.variance[self.place] + away**2 > 0) & self.counts
        # A group whose rows all equal the centre counts: it says what θ is.
        return np.where(moving.any(axis=1), np.maximum(self.counts.sum(axis=1) - 1, 0), 0)

    def solve(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.object_]]:
        """T, θ and the status of each problem."""
        groups, df = self.groups, self.df
        low = np.where(self.counts, groups.low[self.place] - self.shift, -np.inf).max(axis=1)
        high = np.where(self.counts, groups.high[self.place] - self.shift, np.inf).min(axis=1)
        theta = np.where(df > 0, np.nan, self.centre)
        statistic = np.where(df > 0, np.inf, 0.0)
        # Neither np.where nor np.full, which make plain strings of an enum's members.
        status = np.empty(df.shape, dtype=object)
        status[:] = Status.OK
        pinned = np.flatnonzero((df > 0) & (low == high))
        at_end = self._total(low[pinned], pinned)
        statistic[pinned], theta[pinned] = at_end, np.where(np.isfinite(at_end), low[pinned], np.nan)
        open_ = np.flatnonzero((df > 0) & (low < high))
        found = roots(
            lambda x, active: self._slope(x, open_[active]),
            low[open_],
            high[open_],
            x0=self.centre[open_],
            direction="decreasing",
        )
        theta[open_], statistic[open_] = found.x, self._total(found.x, open_)
        # Without a root the minimum is at an end, which 0/1 rows may reach.
        status[open_] = np.where(found.status == Status.INFEASIBLE, status[open_], found.status)
        status[np.isinf(statistic)] = Status.OUTSIDE_RANGE
        return statistic, theta, status

    def _total(self, theta: FloatArray, index: IntArray) -> FloatArray:
        """Σ T_j(θ + ε_j)."""
        place = self.place[index]
        low, high = self.groups.low[place], self.groups.high[place]
        # Rows that are all equal allow one θ, and adding their ε_j back may miss it by rounding.
        means = np.where((low == high) & (low - self.shift == theta[:, None]), low, theta[:, None] + self.shift)
        alone = self.groups.statistic(means.ravel(), place.ravel()).reshape(place.shape)
        return np.where(self.counts[index], alone, 0.0).sum(axis=1)

    def _slope(self, theta: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Σ n_j λ_j and its derivative."""
        place, counts = self.place[index], self.counts[index]
        point = self.groups.locate((theta[:, None] + self.shift).ravel(), place.ravel())
        n = self.groups.n[place]
        pull = n * point.multiplier.reshape(place.shape)
        bend = n * (point.dmultiplier / point.dmean).reshape(place.shape)
        return np.where(counts, pull, 0.0).sum(axis=1), np.where(counts, bend, 0.0).sum(axis=1)
