"""Rows and their distances to the decision boundary: segments for the program, sums near the boundary, lattices.

Within a class (a cell) every row changes the moment by the same vector, so the nearest rows flip first, and the number
that flips is all there is to know. Rows in memory are sorted once and held in *segments* of neighboring distances;
`reading` does the same by grouped passes.

Scores on a lattice (rounded, or counted in points) have no density. They are spread over the steps of the lattice: the
rows at one place are laid out evenly from halfway to the place before to halfway to the next. Each side of the boundary
begins where its first step does, so it does not matter whether the threshold is on the lattice or between two places.
Steps must be equal and no place near the boundary heaped: leaves of trees and preferred round numbers do not form such
a lattice. Nothing is drawn, and the cost depends on the number of places, not of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

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

    @property
    def exact(self) -> bool:
        """True for segments made of single distances, whose ends are one array."""
        return self.low is self.high

    def where(self, mask: BoolArray | IntArray) -> Segments:
        """The segments for which ``mask`` holds, or those at the places it gives."""
        return Segments(*(getattr(self, name)[mask] for name in self.__slots__))

    def __add__(self, other: Segments) -> Segments:
        return Segments(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


class Pool(Protocol):
    """Rows behind segments: arrays in memory, or passes over a lazy engine. Rows with infinite distance are out."""

    def coarse(self) -> Segments:
        """All rows, in a few segments."""
        ...

    def split(self, cut: Segments) -> Segments:
        """The same rows as those of ``cut``, in finer segments."""
        ...


class SortedRows:
    """Rows in memory, sorted by distance within their class."""

    def __init__(self, distance: FloatArray, group: IntArray, classes: int, weight: FloatArray | None = None) -> None:
        usable = np.where(np.isfinite(distance), group, -1)
        rows = Ragged.from_codes(usable, classes, distance, weights=weight)
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
        self._total = self._distance if self._weight is None else self._distance * self._weight
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
        pieces = [
            self._between_ties(np.unique(np.linspace(a, b, self._pieces + 1).astype(np.intp)))
            for a, b in zip(starts, stops, strict=True)
        ]
        if not pieces:  # no row can move
            none = np.empty(0)
            return Segments(groups, none, none, none, none)
        begin = np.concatenate([edges[:-1] for edges in pieces])
        end = np.concatenate([edges[1:] for edges in pieces])
        group = np.repeat(groups, [edges.size - 1 for edges in pieces])
        low, high = self._distance[begin], self._distance[end - 1]
        mass = (end - begin).astype(float) if self._weight is None else _sums(self._weight, begin, end)
        mean = _sums(self._total, begin, end) / mass
        return Segments(group, mass, np.where(low == high, low, np.clip(mean, low, high)), low, high)

    def _between_ties(self, edges: IntArray) -> IntArray:
        """Move inner edges to the start of a run of equal distances, so that a tie is never in two segments."""
        part = self._distance[edges[0] : edges[-1]]
        inner = edges[0] + np.searchsorted(part, self._distance[edges[1:-1]], "left")
        # The end of the first run as well: a long tie at the start would otherwise never come apart.
        after = edges[0] + np.searchsorted(part, part[0], "right")
        return np.unique(np.concatenate([edges[:1], [after], inner, edges[-1:]])).astype(np.intp)


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


def _sums(values: FloatArray, begin: IntArray, end: IntArray) -> FloatArray:
    """Sum of ``values[begin:end]`` for each pair."""
    # reduceat on interleaved begins and ends; the sums between the pairs are thrown away.
    padded = np.append(values, 0.0)
    return np.asarray(np.add.reduceat(padded, np.column_stack([begin, end]).ravel())[::2], dtype=float)


# ---- what inference needs of the rows


@dataclass(frozen=True, slots=True, eq=False)
class DesignedRows:
    """Lines (rows, or cells of a pass) with weights or clusters, and the cell of each line."""

    design: Design
    cell: IntArray

    @property
    def size(self) -> float:
        """The effective number of rows, or clusters, of all lines."""
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
        """The effective number of rows, or clusters, of each of several sets of cells; 0 for an empty set."""
        lines = members[self.cell]
        worth = designs.spread(self.design, designs.Influence.of(np.zeros(lines.shape), lines)).effective
        return np.where(lines.any(axis=0), np.nan_to_num(worth), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What lies near the boundary, with one bandwidth."""

    kernel: FloatArray  # (cells,): sum of the Gaussian kernel of distance / bandwidth
    near: FloatArray  # (cells,): rows within one bandwidth
    tie: float  # number of other rows with which a row within one bandwidth shares its exact distance, on average


class Measured(Protocol):
    """Rows and their distances, in memory or in an engine."""

    cells: DecisionCells
    sample: DesignedRows | None  # where rows have weights or clusters

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
        """The rows of a lattice spread over its steps; None if they are not on a lattice."""
        ...


class MeasuredArrays:
    """Distances and cells of rows, as arrays."""

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
        number = inside
        if self.sample is not None and self.sample.cell is self.cell:  # lines are rows, not parts of a lattice
            number = self.sample.design.rows[near]
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
        """The rows of a lattice spread over its steps; None if they are not on a lattice."""
        order = np.lexsort((self.distance, self.cell))
        cell, distance = self.cell[order], self.distance[order]
        first = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (distance[1:] != distance[:-1])))
        mass = np.ones(order.size) if self.weight is None else self.weight[order]
        return smooth(self.cells, cell[first], distance[first], np.add.reduceat(mass, first), self.sample)


class Remembered:
    """Rows whose answers are kept: a tolerance curve asks for the same sums and the same pool many times."""

    def __init__(self, rows: Measured) -> None:
        self._rows, self.boundary, self.smoothed = rows, cache(rows.boundary), cache(self._lattice)
        self._pools: dict[bytes, Pool] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def pool(self, vectors: FloatArray) -> Pool:
        """The rows behind the program."""
        key = vectors.tobytes()
        if key not in self._pools:
            self._pools[key] = self._rows.pool(vectors)
        return self._pools[key]

    def _lattice(self) -> Remembered | None:
        rows = self._rows.smoothed()
        return None if rows is None else Remembered(rows)


def tie(square: float, mass: float) -> float:
    """Mean number of other rows with the same value."""
    return square / mass - 1.0 if mass > 0 else 0.0


def robust(deviation: float, low: float, high: float) -> float:
    """The smaller of the standard deviation and its normal value by the quartiles, so that far rows do not inflate it.

    Quartiles coincide where half of the rows are tied; the width is then the standard deviation.
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


# ---- lattices


def smooth(
    cells: DecisionCells, cell: IntArray, distance: FloatArray, count: FloatArray, sample: DesignedRows | None = None
) -> MeasuredArrays | None:
    """The rows of a lattice spread over its steps, given the number of each cell at each place."""
    parts = spread_out(cells, cell, distance, count)
    return None if parts is None else MeasuredArrays(parts[0], parts[1], cells, parts[2], sample)


def spread_out(
    cells: DecisionCells, cell: IntArray, distance: FloatArray, count: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray] | None:
    """Distance, cell and mass of the parts that the places are cut into; None if there is no lattice.

    One entry per cell and place in ``cell``, ``distance`` and ``count``. Rows that cannot move stay as they are.
    """
    finite = np.isfinite(distance)
    start, width = distance.copy(), np.zeros(distance.size)
    alone, steps, masses = 0.0, [], []
    for decision in (0, 1):
        side = np.flatnonzero(finite & (cells.selected[cell] == decision))
        place, near = _places(distance[side])
        if not LEAST <= place.size <= PLACES:
            return None
        rows = total(near, count[side], place.size)
        alone += float(rows[rows < 2].sum())
        middle = (place[1:] + place[:-1]) / 2
        steps += [*np.diff(place)[: LEAST - 1], float(np.median(np.diff(place)))]
        masses.append(rows)
        ends = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
        start[side], width[side] = (ends[:-1] - ends[0])[near], np.diff(ends)[near]
    # The steps at the boundary must be those of everywhere, on both sides: leaves of a tree are not.
    equal = np.ptp(steps) <= 0.01 * max(steps)
    # Counts must rise and fall smoothly across the boundary, up to chance: scores heaped on round numbers do not.
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
    return laid, cell[which], (count / parts)[which]


def _places(distance: FloatArray) -> tuple[FloatArray, IntArray]:
    """The distinct distances, those apart by rounding as one, and which of them each is."""
    value, inverse = np.unique(distance, return_inverse=True)
    if not value.size:
        return value, inverse
    new: BoolArray = np.append(True, np.diff(value) > ROUNDING * (value[-1] - value[0]))
    return value[new], (np.cumsum(new) - 1)[inverse.ravel()]
