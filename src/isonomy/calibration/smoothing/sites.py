"""Pieces of the rows in memory, and how sums by user are taken over them.

Sums by user are sparse products: a matrix of users x sites, times functions of the score at the sites. The sites are
the rows themselves, or knots on the score axis between which functions are interpolated by cubic polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from isonomy.calibration.smoothing.kernels import polynomial
from isonomy.calibration.smoothing.sums import Fit, Smoother
from isonomy.numerics.arrays import FloatArray, IntArray

NODES = 4
STEP = 0.01  # between knots, in bandwidths; the interpolation's error is at most 0.07 STEP^4 = 7e-10 of the peak
MOST_KNOTS = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows ``start`` to ``stop`` of one group; ``first`` is where each of its users begins (None: no users)."""

    group: int
    start: int
    stop: int
    first: IntArray | None

    @property
    def rows(self) -> slice:
        """Which rows these are."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class Knots:
    """Equally spaced scores; a function of the score is the cubic through the four around it."""

    start: float
    step: float
    size: int

    @classmethod
    def of(cls, smoother: Smoother, low: float, high: float) -> Knots | None:
        """Knots fine enough for the narrowest kernel; None if they would be too many."""
        step = STEP * float(smoother.width.min())
        size = int((high - low) / step) + NODES + 2
        return cls(low - 1.5 * step, step, size) if size <= MOST_KNOTS else None

    @property
    def scores(self) -> FloatArray:
        """Where they are."""
        return self.start + self.step * np.arange(self.size, dtype=np.float64)

    def weights(self, score: FloatArray) -> tuple[NDArray[np.int32], FloatArray]:
        """The first of the four knots around each score, and the cubic's weight of each of them."""
        position = (score - self.start) * (1.0 / self.step)
        left = np.floor(position)
        t = position - left
        a, b, c = t + 1, t - 1, t - 2
        ta, bc = t * a, b * c
        weight = np.empty((score.size, NODES))
        weight[:, 0] = t * bc * (-1 / 6)
        weight[:, 1] = a * bc * (1 / 2)
        weight[:, 2] = ta * c * (-1 / 2)
        weight[:, 3] = ta * b * (1 / 6)
        return left.astype(np.int32) - 1, weight


@dataclass(frozen=True, slots=True, eq=False)
class Adder:
    """Adds functions of the score over the rows of each user, times the rows' votes and a column."""

    first: IntArray  # where each user begins
    indices: NDArray[np.int32]
    weight: FloatArray  # (rows, 1 or NODES): votes times the weights of the sites
    sites: int

    def spread(self, columns: FloatArray) -> FloatArray:
        """Sums at each site of the rows' votes times ``columns`` (rows, k)."""
        rows, each = self.weight.shape
        ends = np.arange(rows + 1, dtype=np.int32) * each
        table = sparse.csr_array((self.weight.ravel(), self.indices, ends), shape=(rows, self.sites), copy=False)
        return np.asarray(table.T @ columns, dtype=np.float64)

    def below(self, column: FloatArray) -> Adder:
        """Rows with 1 in ``column`` find their sites in a second table, below the first."""
        rows, each = self.weight.shape
        moved = self.indices.reshape(rows, each) + (self.sites * column.astype(np.int32))[:, None]
        return replace(self, indices=moved.ravel(), sites=2 * self.sites)

    def __call__(self, values: FloatArray, column: FloatArray | None = None) -> FloatArray:
        """Sums by user of ``values`` (sites, points) times ``column`` (rows)."""
        weight = self.weight if column is None else self.weight * column[:, None]
        ends = (np.append(self.first, len(weight)) * weight.shape[1]).astype(np.int32)
        table = sparse.csr_array((weight.ravel(), self.indices, ends), shape=(self.first.size, self.sites), copy=False)
        return np.asarray(table @ values, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """At each site and grid point: K, and a row's influence on the curve, which is linear in its outcome."""

    kernel: FloatArray
    at_zero: FloatArray  # with the outcome 0
    at_either: FloatArray  # with the outcome 0, and below that with the outcome 1
    slope: FloatArray  # what a unit of the outcome adds

    @classmethod
    def of(cls, smoother: Smoother, fit: Fit, g: int, score: FloatArray) -> Influence:
        """For group ``g``, at the scores of the sites."""
        u = smoother.scaled(score)
        k = smoother.weigh(u)
        if not smoother.curves:
            none = np.empty((0, smoother.points.size))
            return cls(k, none, none, none)
        slope = k * polynomial(fit.lever[:, g], u)
        at_zero = -slope * polynomial(fit.beta[:, g], u)
        return cls(k, at_zero, np.vstack([at_zero, at_zero + slope]), slope)

    def curves(self, add: Adder, outcome: FloatArray, binary: bool) -> FloatArray:
        """Sums by user of the influences on the curves."""
        if binary:
            return add.below(outcome)(self.at_either)
        return add(self.at_zero) + add(self.slope, outcome)
