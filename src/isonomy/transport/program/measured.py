"""Rows and how far each is from the boundary: what inference asks of them, and the answers from arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.transport.program.cells import Cells, total
from isonomy.transport.program.segments import Pool, SingleRows, SortedRows

QUARTILES = (0.25, 0.75)
NORMAL_IQR = 1.3489795003921634  # distance between the quartiles of a standard normal
VANISHED = 39.0  # bandwidths beyond which the Gaussian kernel is 0 in double precision


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What lies near the boundary, with one bandwidth."""

    kernel: FloatArray  # (cells,): sum of the Gaussian kernel of distance / bandwidth
    near: FloatArray  # (cells,): rows within one bandwidth
    tie: float  # how many other rows a row within one bandwidth shares its exact distance with, on average


class Measured(Protocol):
    """Rows and their distances, wherever they are held."""

    cells: Cells
    spread: float  # of the signed distance, over the rows that can move: min(sd, IQR / 1.349)

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        ...

    def pool(self, vectors: FloatArray) -> Pool:
        """The rows behind the program."""
        ...


class MeasuredArrays:
    """Distances and cells of rows, as arrays."""

    def __init__(self, distance: FloatArray, cell: IntArray, cells: Cells, weight: FloatArray | None = None) -> None:
        self.cells, self.distance, self.cell, self.weight = cells, distance, cell, weight
        self.signed = cells.side[cell] * distance
        finite = np.isfinite(distance)
        self.spread = _spread(self.signed[finite], None if weight is None else weight[finite])

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        weight, size = self.weight, self.cells.count.size
        near = self.distance <= bandwidth
        reached = np.flatnonzero(self.distance < VANISHED * bandwidth)
        density = np.exp(-0.5 * (self.distance[reached] / bandwidth) ** 2) / np.sqrt(2 * np.pi)
        kernel = total(self.cell[reached], density if weight is None else density * weight[reached], size)
        inside = None if weight is None else weight[near]
        _, place = np.unique(self.signed[near], return_inverse=True)
        same = np.bincount(place, inside)
        rows = total(self.cell[near], inside, size)
        return Boundary(kernel, rows, tie(float((same**2.0).sum()), float(same.sum())))

    def pool(self, vectors: FloatArray) -> Pool:
        """Sorted within cells; one moment needs no more than the rows. Cells that change no moment are left out."""
        size = self.cells.count.size
        if vectors.shape[1] == 1:
            return SingleRows(self.distance, self.cell, self.weight)
        useful = np.where(vectors.any(axis=1), np.arange(size), -1)
        return SortedRows(self.distance, useful[self.cell], size, self.weight)


def tie(square: float, mass: float) -> float:
    """Mean number of other rows with the same value."""
    return square / mass - 1.0 if mass > 0 else 0.0


def robust(deviation: float, low: float, high: float) -> float:
    """The smaller of the standard deviation and its normal value by the quartiles, so that far rows do not blow it up.

    Quartiles that coincide say that half of the rows are tied, not that there is no width.
    """
    between = (high - low) / NORMAL_IQR
    return min(deviation, between) if between > 0 else deviation


def _spread(value: FloatArray, weight: FloatArray | None) -> float:
    if not value.size:
        return 0.0
    mean = np.average(value, weights=weight)
    with np.errstate(over="ignore"):
        deviation = float(np.sqrt(np.average((value - mean) ** 2, weights=weight)))
    # The least values with a quarter and three quarters of the mass up to them: a row counted twice is two rows.
    low, high = np.quantile(value, QUARTILES, weights=weight, method="inverted_cdf")
    return robust(deviation, float(low), float(high))
