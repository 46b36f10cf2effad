"""Rows behind the program: neighbouring rows of one class held together in segments.

Within a class every row changes the moment by the same vector, so the nearest rows flip first, and how many of them do
is all there is to know. Rows in memory are sorted once; `bins` does the same by grouped passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged

SEGMENTS = 256  # segments of the first round, over all classes: few enough that the small program takes milliseconds


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Neighbouring rows of one class held together: their number, mean distance, and range of distances."""

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
            np.unique(np.linspace(a, b, self._pieces + 1).astype(np.intp)) for a, b in zip(starts, stops, strict=True)
        ]
        if not pieces:  # no row can move
            none = np.empty(0)
            return Segments(groups, none, none, none, none)
        pieces = [self._between_ties(edges) for edges in pieces]
        begin = np.concatenate([edges[:-1] for edges in pieces])
        end = np.concatenate([edges[1:] for edges in pieces])
        group = np.repeat(groups, [edges.size - 1 for edges in pieces])
        low, high = self._distance[begin], self._distance[end - 1]
        mass = _sums(self._weight, begin, end)
        total = _sums(self._total, begin, end)
        return Segments(group, mass, np.where(low == high, low, np.clip(total / mass, low, high)), low, high)

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
        self._all = (distance, group, weight)

    def coarse(self) -> Segments:
        """Every row by itself."""
        distance, group, weight = self._all
        mass = np.broadcast_to(1.0, distance.shape) if weight is None else weight
        return Segments(group, mass, distance, distance, distance)

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


def _sums(values: FloatArray | None, begin: IntArray, end: IntArray) -> FloatArray:
    """Sum of ``values[begin:end]`` for each pair; the number of rows when there are no values."""
    if values is None:
        return (end - begin).astype(float)
    # reduceat on interleaved begins and ends; the sums between the pairs are thrown away.
    padded = np.append(values, 0.0)
    return np.asarray(np.add.reduceat(padded, np.column_stack([begin, end]).ravel())[::2], dtype=float)
