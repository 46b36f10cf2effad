"""Rows and their distances to the decision boundary: segments for the program, sums near the boundary, lattices.

Within a class (a cell) every row changes the moment by the same vector, so the nearest rows flip first, and the number
that flips is all there is to know. Rows in memory are sorted once and held in *segments* of neighboring distances;
`bins` does the same by grouped passes.

Scores on a lattice (rounded, or counted in points) have no density. They are spread over the steps of the lattice: the
rows at one place are laid out evenly from halfway to the place before to halfway to the next. Each side of the boundary
begins where its first step does, so it does not matter whether the threshold is on the lattice or between two places.
Steps must be equal, and no place near the boundary may be heaped: leaves of trees and preferred round numbers do not
form such a lattice. Nothing is drawn, and the cost depends on the number of places, not of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from isonomy.frames.design import Design
from isonomy.inference import designs
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.projection.program.criteria import DecisionCells, total

SEGMENTS = 256  # segments of the first round, over all classes: few enough that the small program takes milliseconds
QUARTILES = (0.25, 0.75)
NORMAL_IQR = 1.3489795003921634  # distance between the quartiles of a standard normal
KERNEL_REACH = 9.0  # bandwidths beyond which the Gaussian kernel is less than a last digit of its value at 0

PLACES = 2**16  # a lattice has at most this many places
PIECES = 2**20  # parts that all places together are cut into, about
LEAST = 3  # places on either side of the boundary that a lattice needs
SHARED = 0.9  # share of the rows at a place with other rows that a lattice needs
AROUND = 5  # places on either side that are checked for heaps
UNEVEN, CHANCE = 0.25, 3.5  # curvature of their counts that does not matter, relative, and in standard deviations
ROUNDING = 1e-9  # places this close (in units of the spread) are one


# ---- segments


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Neighboring rows of one class held together: their number, mean distance, and range of distances."""

    group: IntArray  # the class
    count: FloatArray
    cost: FloatArray
    low: FloatArray
    high: FloatArray

    def where(self, mask: BoolArray | IntArray) -> Segments:
        """The segments that a mask, or an array of places, selects."""
        return Segments(*(getattr(self, name)[mask] for name in self.__slots__))

    def __add__(self, other: Segments) -> Segments:
        return Segments(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


class Pool(Protocol):
    """Rows behind segments: arrays in memory, or passes over a lazy engine. Rows with infinite distance are out."""

    def coarse(self) -> Segments:
        """All rows, in a few segments."""

    def split(self, cut: Segments) -> Segments:
        """The same rows as those of ``cut``, in finer segments."""


class SortedRows:
    """Rows in memory, sorted by distance within their class."""

    def __init__(self, distance: FloatArray, group: IntArray, classes: int, weight: FloatArray | None = None) -> None:
        rows = Ragged.from_codes(np.where(np.isfinite(distance), group, -1), classes, distance, weights=weight)
        self._offsets = rows.offsets
        self._distance: FloatArray = rows.columns[0]
        self._weight = rows.weights
        for start, stop in zip(rows.offsets, rows.offsets[1:], strict=False):
            part = slice(start, stop)
            if self._weight is None:
                self._distance[part].sort()
            else:
                order = np.argsort(self._distance[part], kind="stable")
                self._distance[part] = self._distance[part][order]
                self._weight[part] = self._weight[part][order]
        self._pieces = max(8, SEGMENTS // max(1, classes))

    def coarse(self) -> Segments:
        """Each class in segments of equally many rows."""
        groups = np.flatnonzero(np.diff(self._offsets))
        return self._cut(groups, self._offsets[groups], self._offsets[groups + 1])

    def split(self, cut: Segments) -> Segments:
        """Each segment in smaller ones of equally many rows."""
        parts = [self._distance[self._offsets[g] : self._offsets[g + 1]] for g in cut.group]
        starts = [np.searchsorted(p, low, "left") for p, low in zip(parts, cut.low, strict=True)]
        stops = [np.searchsorted(p, high, "right") for p, high in zip(parts, cut.high, strict=True)]
        first = self._offsets[cut.group]
        return self._cut(cut.group, first + np.array(starts), first + np.array(stops))

    def _cut(self, groups: IntArray, starts: IntArray, stops: IntArray) -> Segments:
        pieces = []
        for start, stop in zip(starts, stops, strict=True):
            edges = np.unique(np.linspace(start, stop, self._pieces + 1).astype(np.intp))
            # Inner edges move to the start of a run of equal distances, so that a tie is never in two segments; the end
            # of the first run is an edge too, because a long tie at the start would otherwise never come apart.
            part = self._distance[start:stop]
            inner = start + np.searchsorted(part, self._distance[edges[1:-1]], "left")
            after = start + np.searchsorted(part, part[0], "right")
            pieces.append(np.unique(np.concatenate([[start, after, stop], inner])).astype(np.intp))
        if not pieces:  # no row can move
            none = np.empty(0)
            return Segments(groups, none, none, none, none)
        begin = np.concatenate([edges[:-1] for edges in pieces])
        end = np.concatenate([edges[1:] for edges in pieces])
        # Sums from each begin to its end, by reduceat over both; the sums in between are thrown away.
        ends, weight = np.column_stack([begin, end]).ravel(), self._weight
        weighted = self._distance if weight is None else self._distance * weight
        paid = np.add.reduceat(np.append(weighted, 0.0), ends)[::2]
        mass = (end - begin).astype(float) if weight is None else np.add.reduceat(np.append(weight, 0.0), ends)[::2]
        low, high = self._distance[begin], self._distance[end - 1]
        cost = np.where(low == high, low, np.clip(paid / mass, low, high))
        return Segments(np.repeat(groups, [edges.size - 1 for edges in pieces]), mass, cost, low, high)


class SingleRows:
    """Rows in memory, each its own segment: all that one moment needs."""

    def __init__(self, distance: FloatArray, group: IntArray, weight: FloatArray | None = None) -> None:
        mass = np.broadcast_to(1.0, distance.shape) if weight is None else weight
        self._all = Segments(group, mass, distance, distance, distance)

    def coarse(self) -> Segments:
        """Every row by itself."""
        return self._all

    def split(self, cut: Segments) -> Segments:
        """A row cannot be split."""
        return cut


def fractions(distance: FloatArray, group: IntArray, moved: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Share p_i of each row that flips, when ``moved`` rows of each class do and the nearest go first."""
    share = np.zeros(distance.size)
    for k in np.flatnonzero(moved > 0):
        rows = np.flatnonzero((group == k) & np.isfinite(distance))
        # A line stands for at least one row, or has a weight.
        least = 1.0 if weight is None else min(1.0, float(weight[rows].min(initial=1.0, where=weight[rows] > 0)))
        rows = rows[smallest(distance[rows], np.ceil(moved[k] / least))]
        rows = rows[np.argsort(distance[rows], kind="stable")]
        mass = np.ones(rows.size) if weight is None else weight[rows]
        before = np.cumsum(mass) - mass
        share[rows] = np.clip((moved[k] - before) / mass, 0.0, 1.0)
    return share


def smallest(values: FloatArray, number: float) -> IntArray:
    """Places of the ``number`` smallest values, and of all that tie with the last of them."""
    if number >= values.size // 2:
        return np.arange(values.size)
    last = int(number)
    return np.flatnonzero(values <= np.partition(values, last)[last])


# ---- what inference needs of the rows


@dataclass(frozen=True, slots=True, eq=False)
class DesignedRows:
    """Lines (rows, or cells of a pass) with weights or clusters, and the cell of each line."""

    design: Design
    cell: IntArray

    def covariance(self, influence: FloatArray, rows: float) -> FloatArray:
        """Covariance of sqrt(rows) times the moments, given the influence of a unit of mass in each cell."""
        return rows * designs.covariance(self.design, designs.Influence.from_values(influence[self.cell] / rows))

    def df(self, influence: FloatArray) -> float:
        """Degrees of freedom of the variances: the smallest over the moments."""
        spread = designs.spread(self.design, designs.Influence.from_values(influence[self.cell]))
        with np.errstate(all="ignore"):
            return max(float(np.nanmin(spread.second**2 / spread.fourth - 1.0, initial=np.inf)), 1e-3)

    def effective(self, members: BoolArray) -> FloatArray:
        """The effective number of rows, or clusters, of each of several sets of cells; 0 for an empty set."""
        lines = members[self.cell]
        worth = designs.spread(self.design, designs.Influence.from_values(np.zeros(lines.shape), lines)).effective
        return np.where(lines.any(axis=0), np.nan_to_num(worth), 0.0)


class Boundary(NamedTuple):
    """The rows near the boundary, for one bandwidth; arrays have one entry per cell."""

    kernel: FloatArray  # sum of the Gaussian kernel of distance / bandwidth
    near: FloatArray  # rows within one bandwidth
    free: FloatArray  # rows at distance 0, which move free
    tie: float  # number of other rows with which a row within one bandwidth shares its exact distance, on average


class MeasuredArrays:
    """Distances and cells of rows, as arrays; ``sample`` if rows have weights or clusters."""

    def __init__(
        self,
        distance: FloatArray,
        cell: IntArray,
        cells: DecisionCells,
        weight: FloatArray | None = None,
        sample: DesignedRows | None = None,
    ) -> None:
        self.cells, self.distance, self.cell, self.weight, self.sample = cells, distance, cell, weight, sample
        self.signed = cells.side[cell] * distance

    @cached_property
    def spread(self) -> float:
        """The robust spread of the signed distance, over the rows that can move."""
        finite = np.isfinite(self.distance)
        value, weight = self.signed[finite], None if self.weight is None else self.weight[finite]
        if not value.size:
            return 0.0
        mean = np.average(value, weights=weight)
        with np.errstate(over="ignore"):
            deviation = float(np.sqrt(np.average((value - mean) ** 2, weights=weight)))
        # The least values with a quarter and three quarters of the mass up to them: a row counted twice is two rows.
        low, high = np.quantile(value, QUARTILES, weights=weight, method="inverted_cdf")
        return robust(deviation, float(low), float(high))

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        weight, size = self.weight, self.cells.count.size
        near = self.distance <= bandwidth
        reached = np.flatnonzero(self.distance < KERNEL_REACH * bandwidth)
        density = np.exp(-0.5 * (self.distance[reached] / bandwidth) ** 2) / np.sqrt(2 * np.pi)
        kernel = total(self.cell[reached], density if weight is None else density * weight[reached], size)
        inside = None if weight is None else weight[near]
        number = inside
        if self.sample is not None and self.sample.cell is self.cell:  # lines are rows, not parts of a lattice
            number = self.sample.design.rows[near]
        _, place = np.unique(self.signed[near], return_inverse=True)
        same = np.bincount(place, number).astype(float)
        zero = self.distance == 0
        free = total(self.cell[zero], None if weight is None else weight[zero], size)
        return Boundary(kernel, total(self.cell[near], inside, size), free, mean_tie(same @ same, same.sum()))

    def pool(self, vectors: FloatArray) -> Pool:
        """Sorted within cells; one moment needs no more than the rows. Cells that change no moment are left out."""
        size = self.cells.count.size
        if vectors.shape[1] == 1:
            return SingleRows(self.distance, self.cell, self.weight)
        useful = np.where(vectors.any(axis=1), np.arange(size), -1)
        return SortedRows(self.distance, useful[self.cell], size, self.weight)

    def smoothed(self) -> MeasuredArrays | None:
        """The rows of a lattice spread over its steps; None if they are not on a lattice."""
        order = np.lexsort((self.distance, self.cell))
        cell, distance = self.cell[order], self.distance[order]
        first = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (distance[1:] != distance[:-1])))
        mass = np.ones(order.size) if self.weight is None else self.weight[order]
        return smooth(self.cells, cell[first], distance[first], np.add.reduceat(mass, first), self.sample)


def mean_tie(square: float, rows: float) -> float:
    """The mean number of other rows with the same value; ``square``: the sum of the squared numbers of equal rows."""
    return float(square / rows - 1.0) if rows > 0 else 0.0


def robust(deviation: float, low: float, high: float) -> float:
    """The smaller of the standard deviation and its normal value by the quartiles, so that far rows do not inflate it.

    Quartiles coincide where half of the rows are tied; the width is then the standard deviation.
    """
    between = (high - low) / NORMAL_IQR
    return min(deviation, between) if between > 0 else deviation


# ---- lattices


def smooth(
    cells: DecisionCells, cell: IntArray, distance: FloatArray, count: FloatArray, sample: DesignedRows | None = None
) -> MeasuredArrays | None:
    """The rows of a lattice spread over its steps, given the number of each cell at each place; None if there is none.

    One entry per cell and place in ``cell``, ``distance`` and ``count``. Rows that cannot move stay as they are.
    """
    finite = np.isfinite(distance)
    start, width = distance.copy(), np.zeros(distance.size)
    alone, steps, masses = 0.0, [], []
    for decision in (0, 1):
        side = np.flatnonzero(finite & (cells.selected[cell] == decision))
        value, inverse = np.unique(distance[side], return_inverse=True)
        if value.size < LEAST:
            return None
        # Distances that are apart by rounding are one place.
        new = np.append(True, np.diff(value) > ROUNDING * (value[-1] - value[0]))
        place, near = value[new], (np.cumsum(new) - 1)[inverse.ravel()]
        if not LEAST <= place.size <= PLACES:
            return None
        rows = total(near, count[side], place.size)
        alone += float(rows[rows < 2].sum())
        middle = (place[1:] + place[:-1]) / 2
        steps += [*np.diff(place)[: LEAST - 1], float(np.median(np.diff(place)))]
        masses.append(rows)
        ends = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
        start[side], width[side] = (ends[:-1] - ends[0])[near], np.diff(ends)[near]
    # The steps at the boundary must equal those elsewhere, on both sides; those of the leaves of a tree do not.
    equal = np.ptp(steps) <= 0.01 * max(steps)
    # Counts must change smoothly across the boundary, up to chance; those of scores heaped on round numbers do not.
    across = np.concatenate([masses[0][:AROUND][::-1], masses[1][:AROUND]])
    mean = float(across.mean())
    even = np.abs(np.diff(across, 2)).max() <= UNEVEN * mean + CHANCE * np.sqrt(6 * mean)
    if alone > (1 - SHARED) * float(count[finite].sum()) or not (equal and even):
        return None
    parts = np.where(finite, np.clip(count, 1, max(1, PIECES // distance.size)), 1).astype(np.intp)
    which = np.repeat(np.arange(distance.size), parts)
    number = np.arange(which.size) - np.repeat(np.cumsum(parts) - parts, parts)
    with np.errstate(invalid="ignore"):
        laid = start[which] + width[which] * (number + 0.5) / parts[which]
    return MeasuredArrays(laid, cell[which], cells, (count / parts)[which], sample)
