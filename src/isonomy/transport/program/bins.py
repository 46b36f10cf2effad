"""Rows that an engine holds, known by counting them in bins: what grouped passes do in place of sorting.

One pass bins them all; then each round of the program is one more pass, which splits the segments that the dual
solution cuts, and the bins that hold the quartiles with them. A bin that holds few rows comes apart by value, so the
rounds end at the same segments, and at the same solution, as sorting would.

Ends of bins are multiples of powers of two. Then ``(distance - low) * pieces / width`` has no rounding error, and no
row is on one side of an end when it is counted and on the other when it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from isonomy.frames.expressions import Expression, constant, either
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.transport.program.cells import total
from isonomy.transport.program.measured import QUARTILES
from isonomy.transport.program.segments import Segments
from isonomy.transport.program.solve import ROUNDS, SLACK

PIECES = 256  # bins a pass cuts an interval into: a power of two
SPAN = 8.0  # the first pass bins distances up to this many times their mean; the rest is one segment
LINES = 2**14  # rows of an interval that is grouped by value instead of cut
# An interval this narrow holds ties, whatever its rows: relative to the first bins and to the distance itself.
NARROW, CLOSE = 2.0**-16, 2.0**-24
LEAST = 2.0**-900  # finer bins could not be counted

_NOWHERE, _REST, _ZERO = -1.0, -2.0, -3.0  # codes of rows in no bin, beyond the last, and on the boundary
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """How one pass sorts distances: each interval in `PIECES` bins, or by value.

    Of nested intervals the later one holds the row. Rows on the boundary are a segment of their own from the first pass
    on (``zeros``): no bin holds them.
    """

    intervals: Sequence[Interval]
    by_value: Sequence[bool]
    rest: bool = False  # with one bin for all that is beyond the intervals
    zeros: bool = False

    def keys(self, distance: Expression) -> dict[str, Expression]:
        """What the pass groups by."""
        end = max(high for _, high in self.intervals)
        code, value = constant(_NOWHERE), constant(0.0)
        if self.rest:
            code = either((distance >= end) & distance.is_finite(), _REST, code)
        for i, ((low, high), each) in enumerate(zip(self.intervals, self.by_value, strict=True)):
            inside, first = (distance >= low) & (distance < high), float(i * PIECES)
            piece = ((distance - low) * (PIECES / (high - low))).floor().clip(0, PIECES - 1) + first
            code = either(inside, first if each else piece, code)
            value = either(inside, distance if each else 0.0, value)
        code = either(distance == 0, _ZERO if self.zeros else _NOWHERE, code)
        return {"bin": code, "value": value} if any(self.by_value) else {"bin": code}

    def inside(self, distance: Expression) -> Expression | None:
        """The rows that the pass is about; None where it is about all."""
        if self.rest or self.zeros:
            return None
        conditions = ((distance >= low) & (distance < high) for low, high in self.intervals)
        return reduce(or_, conditions)

    def segments(self, cell: IntArray, count: FloatArray, mass: FloatArray, keys: Mapping[str, AnyArray]) -> Segments:
        """The segments behind the pass, given its counts and the sums of the distances."""
        code = keys["bin"].astype(np.intp)
        keep = code != _NOWHERE
        code, cell, count = code[keep], cell[keep], count[keep]
        lows, highs = np.array(self.intervals).T
        at, piece = np.divmod(np.maximum(code, 0), PIECES)
        width = np.where(self.by_value, 0.0, (highs - lows) / PIECES)[at]
        kind = np.clip(-1 - code, 0, 2)
        begin = np.choose(kind, [lows[at] + piece * width, highs.max(), 0.0])
        stop = np.choose(kind, [begin + width, np.inf, 0.0])
        if any(self.by_value):
            single, exact = np.array(self.by_value)[at] & (code >= 0), keys["value"][keep].astype(float)
            begin, stop = np.where(single, exact, begin), np.where(single, exact, stop)
        return Segments(cell, count, np.clip(mass[keep] / count, begin, stop), begin, stop)


class BinnedRows:
    """The rows behind a program, by passes: ``count`` makes one, ``side`` is each cell's, ``mean`` their distance."""

    def __init__(self, count: Callable[[Bins], Segments], side: FloatArray, mean: float) -> None:
        self._make_pass = count
        self._rows_in: dict[Interval, float] = {}
        end = float(2.0 ** np.clip(np.ceil(np.log2(SPAN * mean)), -900, 1000)) if mean else 1.0
        self._width = end / PIECES
        self._coarse = self._count(Bins([(0.0, end)], [False], rest=True, zeros=True))
        self._quarters = Quarters(self._coarse, side)
        while self._quarters.in_first_bin and self._width > LEAST:
            # It is wide only because some rows are far. The program starts finer, too.
            self.split(None)
            self._coarse, self._width = self._quarters.bins, self._width / PIECES

    @property
    def quartiles(self) -> tuple[float, float]:
        """The least signed distances with a quarter and three quarters of the rows up to them."""
        for _ in range(ROUNDS):
            if self._quarters.cut is None:
                break
            self.split(None)
        return self._quarters.ends

    def coarse(self) -> Segments:
        """Equal bins out to a few times the mean, finer where all rows are near the boundary, and one for the rest."""
        return self._coarse

    def split(self, cut: Segments | None) -> Segments:
        """The rows of ``cut`` in finer bins, or by value; the same pass splits the bins that may hold the quartiles."""
        quarters = self._quarters.cut
        every = cut + quarters if cut is not None and quarters is not None else cut if quarters is None else quarters
        assert every is not None
        # The rest has no end: its first part is cut in bins as wide as all that came before.
        low = np.where(np.isinf(every.high), 0.0, every.low)
        high = np.where(np.isinf(every.high), every.low * PIECES, every.high)
        few = np.array([self._rows_in[ends] <= LINES for ends in zip(every.low, every.high, strict=True)])
        few |= high - low <= np.maximum(self._width * NARROW, low * CLOSE)
        low, high = np.where(few, every.low, low), np.where(few, every.high, high)
        # Intervals of different cells are nested or apart; the narrower comes later, and the later one holds the row.
        closed = _closed({(float(a), float(b)): bool(f) for a, b, f in zip(low, high, few, strict=True)})
        intervals = sorted(closed, key=lambda ab: (ab[0] - ab[1], ab[0]))
        rest = bool(np.isinf(every.high[~few]).any())
        bins = self._count(Bins(intervals, [closed[ends] for ends in intervals], rest=rest))
        if quarters is not None:
            self._quarters.split(_within(bins, quarters))
        return bins if cut is None else _within(bins, cut)

    def radius(self, moved: FloatArray, goal: float, most: float) -> float:
        """A distance within which ``goal`` rows flip, and not many more than ``most`` rows are."""
        segments, radius = self._coarse, 0.0
        for _ in range(ROUNDS):
            segments = segments.where(np.lexsort((segments.low, segments.group)))
            begins = np.searchsorted(segments.group, segments.group)
            before = np.append(0.0, np.cumsum(segments.count))
            before = before[:-1] - before[begins]
            flips = np.clip(moved[segments.group] - before, 0.0, segments.count)
            outward = np.argsort(segments.high, kind="stable")
            at = int(np.searchsorted(np.cumsum(flips[outward]), goal * (1 - SLACK)))
            radius = float(segments.high[outward[min(at, outward.size - 1)]])
            edge = (segments.low < radius) & (segments.high >= radius)
            if segments.count[segments.high <= radius].sum() <= most or not edge.any():
                return radius
            segments = segments.where(~edge) + self.split(segments.where(edge))
        return radius

    def _count(self, bins: Bins) -> Segments:
        """One pass; how many rows lie in each bin, over all cells, is remembered."""
        segments = self._make_pass(bins)
        wide = segments.where(segments.low < segments.high)
        ends, place = np.unique(np.column_stack([wide.low, wide.high]), axis=0, return_inverse=True)
        rows = total(place.ravel(), wide.count, len(ends))
        self._rows_in |= {(a, b): n for (a, b), n in zip(ends.tolist(), rows.tolist(), strict=True)}
        return segments


class Quarters:
    """Bins around the quartiles of the signed distance, of which ``side`` is each cell's sign."""

    def __init__(self, bins: Segments, side: FloatArray) -> None:
        self.bins, self._side = bins, side
        self.ends, self._cut = (0.0, 0.0), np.zeros(bins.count.size, dtype=bool)
        self._look()

    @property
    def cut(self) -> Segments | None:
        """The bins that have to be split before the quartiles are known."""
        return self.bins.where(self._cut) if self._cut.any() else None

    @property
    def in_first_bin(self) -> bool:
        """Whether both quartiles are in the bin at the boundary."""
        return bool(self._cut.any() and (self.bins.low[self._cut] == 0.0).all())

    def split(self, finer: Segments) -> None:
        """The same with ``finer`` bins in place of those that had to be split."""
        self.bins = self.bins.where(~self._cut) + finer
        self._look()

    def _look(self) -> None:
        bins = self.bins
        if not bins.count.size:
            return
        selected = self._side[bins.group] > 0
        low, high = np.where(selected, bins.low, -bins.high), np.where(selected, bins.high, -bins.low)
        order = np.argsort(low, kind="stable")
        reached = np.cumsum(bins.count[order])
        at = [order[int(np.searchsorted(reached, q * reached[-1]))] for q in QUARTILES]
        self.ends = float(low[at[0]]), float(low[at[1]])
        self._cut = np.isin(low, low[at]) & np.isin(high, high[at]) & (low < high)


def _within(bins: Segments, cut: Segments) -> Segments:
    """What belongs to the segments asked about, of a pass that bins every cell."""
    wanted: BoolArray = np.zeros(bins.group.size, dtype=bool)
    for group, start, stop in zip(cut.group, cut.low, cut.high, strict=True):
        wanted |= (bins.group == group) & (bins.low >= start) & (bins.high <= stop) & (bins.low < stop)
    return bins.where(wanted)


def _closed(intervals: dict[Interval, bool]) -> dict[Interval, bool]:
    """With every interval between two nested ones, so that no bin lacks the rows of a smaller one inside it."""
    closed = dict(intervals)
    for low, high in intervals:
        for (start, stop), each in intervals.items():
            width = (stop - start) / PIECES
            while not each and start <= low and high <= stop and width > high - low:
                begin = start + np.floor((low - start) / width) * width
                closed.setdefault((float(begin), float(begin + width)), False)
                width /= PIECES
    return closed
