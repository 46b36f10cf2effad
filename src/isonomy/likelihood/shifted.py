"""Disjoint groups whose means a null fixes but for one common shift: the minimum over θ of Σ T_j(θ + ε_j).

T_j is convex, and its derivative -2 n_j λ_j, so the minimum is where Σ n_j λ_j crosses zero. Many such problems are
solved at once, which is what makes resampling them affordable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.means import Means
from isonomy.numerics.roots import roots
from isonomy.numerics.status import Status

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


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
        """Groups with a second moment about the null, less the shift."""
        away = self.groups.mean[self.place] - self.shift - self.centre[:, None]
        moving = self.groups.variance[self.place] + away**2 > 0
        return np.maximum((moving & self.counts).sum(axis=1) - 1, 0)

    def solve(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.object_]]:
        """T, θ and the status of each problem."""
        groups, df = self.groups, self.df
        low = np.where(self.counts, groups.low[self.place] - self.shift, -np.inf).max(axis=1)
        high = np.where(self.counts, groups.high[self.place] - self.shift, np.inf).min(axis=1)
        theta = np.where(df > 0, np.nan, self.centre)
        statistic = np.where(df > 0, np.inf, 0.0)
        status = np.where(df > 0, Status.OUTSIDE_RANGE, Status.OK).astype(object)
        open_ = np.flatnonzero((df > 0) & (low < high))
        found = roots(
            lambda x, active: self._slope(x, open_[active]),
            low[open_],
            high[open_],
            x0=self.centre[open_],
            direction="decreasing",
        )
        theta[open_], status[open_] = found.x, found.status
        alone = groups.statistic((found.x[:, None] + self.shift).ravel(), self.place[open_].ravel())
        statistic[open_] = np.where(self.counts[open_], alone.reshape(-1, self.shift.size), 0.0).sum(axis=1)
        return statistic, theta, status

    def _slope(self, theta: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Σ n_j λ_j and its derivative."""
        place, counts = self.place[index], self.counts[index]
        point = self.groups.locate((theta[:, None] + self.shift).ravel(), place.ravel())
        n = self.groups.n[place]
        pull = n * point.multiplier.reshape(place.shape)
        bend = n * (point.dmultiplier / point.dmean).reshape(place.shape)
        return np.where(counts, pull, 0.0).sum(axis=1), np.where(counts, bend, 0.0).sum(axis=1)
