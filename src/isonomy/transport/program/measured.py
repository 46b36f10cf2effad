"""Rows and how far each is from the boundary: what inference asks of them, and the answers from arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from isonomy.frames.design import Design
from isonomy.inference import designs
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.transport.program.cells import Cells, total
from isonomy.transport.program.lattice import spread_out
from isonomy.transport.program.segments import Pool, SingleRows, SortedRows

T = TypeVar("T")
QUARTILES = (0.25, 0.75)
NORMAL_IQR = 1.3489795003921634  # distance between the quartiles of a standard normal
KERNEL_REACH = 9.0  # bandwidths beyond which the Gaussian kernel is less than a last digit of its value at 0


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """How lines (rows, or cells of a pass) with weights or clusters stand for people, and the cell of each line."""

    design: Design
    cell: IntArray

    @property
    def size(self) -> float:
        """How many rows, or clusters, of equal mass they all are worth."""
        return float(self.effective(np.ones((int(self.cell.max()) + 1, 1), dtype=bool))[0])

    def covariance(self, influence: FloatArray, rows: float) -> FloatArray:
        """Of sqrt(rows) times the moments, given what a unit of mass in each cell adds to rows times each."""
        return rows * designs.covariance(self.design, designs.Influence.of(influence[self.cell] / rows))

    def df(self, influence: FloatArray) -> float:
        """Degrees of freedom of the variances: the fewest of all moments."""
        spread = designs.spread(self.design, designs.Influence.of(influence[self.cell]))
        with np.errstate(all="ignore"):
            return max(float(np.nanmin(spread.second**2 / spread.fourth - 1.0, initial=np.inf)), 1e-3)

    def effective(self, members: BoolArray) -> FloatArray:
        """How many rows, or clusters, of equal mass each of several sets of cells is worth; 0 for an empty set."""
        lines = members[self.cell]
        worth = designs.spread(self.design, designs.Influence.of(np.zeros(lines.shape), lines)).effective
        return np.where(lines.any(axis=0), np.nan_to_num(worth), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What lies near the boundary, with one bandwidth."""

    kernel: FloatArray  # (cells,): sum of the Gaussian kernel of distance / bandwidth
    near: FloatArray  # (cells,): rows within one bandwidth
    tie: float  # how many other rows a row within one bandwidth shares its exact distance with, on average


class Measured(Protocol):
    """Rows and their distances, wherever they are held."""

    cells: Cells
    sample: Sample | None  # where rows have weights or clusters

    @property
    def spread(self) -> float:
        """Of the signed distance, over the rows that can move: min(sd, IQR / 1.349)."""
        ...

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        ...

    def pool(self, vectors: FloatArray) -> Pool:
        """The rows behind the program."""
        ...

    def smoothed(self) -> Measured | None:
        """The rows of a lattice spread over its steps; None where they are on none."""
        ...


class MeasuredArrays:
    """Distances and cells of rows, as arrays."""

    def __init__(
        self,
        distance: FloatArray,
        cell: IntArray,
        cells: Cells,
        weight: FloatArray | None = None,
        sample: Sample | None = None,
    ) -> None:
        self.cells, self.distance, self.cell, self.weight, self.sample = cells, distance, cell, weight, sample
        self.signed = cells.side[cell] * distance
        finite = np.isfinite(distance)
        self.spread = _spread(self.signed[finite], None if weight is None else weight[finite])

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        weight, size = self.weight, self.cells.count.size
        near = self.distance <= bandwidth
        reached = np.flatnonzero(self.distance < KERNEL_REACH * bandwidth)
        density = np.exp(-0.5 * (self.distance[reached] / bandwidth) ** 2) / np.sqrt(2 * np.pi)
        kernel = total(self.cell[reached], density if weight is None else density * weight[reached], size)
        inside = None if weight is None else weight[near]
        exact = self.sample is not None and self.sample.cell is self.cell  # lines are rows, not parts of a lattice
        number = self.sample.design.rows[near] if exact and self.sample is not None else inside
        _, place = np.unique(self.signed[near], return_inverse=True)
        same = np.bincount(place, number)
        rows = total(self.cell[near], inside, size)
        return Boundary(kernel, rows, tie(float((same**2.0).sum()), float(same.sum())))

    def pool(self, vectors: FloatArray) -> Pool:
        """Sorted within cells; one moment needs no more than the rows. Cells that change no moment are left out."""
        size = self.cells.count.size
        if vectors.shape[1] == 1:
            return SingleRows(self.distance, self.cell, self.weight)
        useful = np.where(vectors.any(axis=1), np.arange(size), -1)
        return SortedRows(self.distance, useful[self.cell], size, self.weight)

    def smoothed(self) -> Measured | None:
        """The same for the places of each cell, wherever the rows are held."""
        order = np.lexsort((self.distance, self.cell))
        cell, distance = self.cell[order], self.distance[order]
        first = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (distance[1:] != distance[:-1])))
        mass = np.ones(order.size) if self.weight is None else self.weight[order]
        return smooth(self.cells, cell[first], distance[first], np.add.reduceat(mass, first), self.sample)


class Remembered:
    """Rows that are asked the same again and again: what was counted or sorted once is kept."""

    def __init__(self, rows: Measured) -> None:
        self._rows, self._known = rows, dict[tuple[object, ...], Any]()
        self.cells, self.sample = rows.cells, rows.sample

    @property
    def spread(self) -> float:
        """Of the signed distance, over the rows that can move."""
        return self._once(("spread",), lambda: self._rows.spread)

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        return self._once(("boundary", bandwidth), lambda: self._rows.boundary(bandwidth))

    def pool(self, vectors: FloatArray) -> Pool:
        """The rows behind the program."""
        return self._once(("pool", vectors.tobytes()), lambda: self._rows.pool(vectors))

    def smoothed(self) -> Measured | None:
        """The rows of a lattice spread over its steps."""
        return self._once(("smoothed",), lambda: None if (s := self._rows.smoothed()) is None else Remembered(s))

    def _once(self, key: tuple[object, ...], ask: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = ask()
        answer: T = self._known[key]
        return answer


def smooth(
    cells: Cells, cell: IntArray, distance: FloatArray, count: FloatArray, sample: Sample | None = None
) -> MeasuredArrays | None:
    """The rows of a lattice spread over its steps, given how many of each cell are at each place."""
    parts = spread_out(cells, cell, distance, count)
    return None if parts is None else MeasuredArrays(parts[0], parts[1], cells, parts[2], sample)


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
