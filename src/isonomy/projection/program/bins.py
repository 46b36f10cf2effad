"""Distances counted in bins by grouped passes, which take the place of sorting.

Each round of the program is one pass that splits the segments that the dual solution cuts, and with them the bins that
hold the quartiles. A bin with few rows comes apart by value, so the rounds end at the same segments, and at the same
solution, as sorting would.

Ends of bins are multiples of powers of two. Then ``(distance - low) * pieces / width`` has no rounding error, and no
row is on one side of an end when it is counted and on the other when it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from isonomy.frames.expressions import Expression, constant, either
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.projection.program.criteria import total
from isonomy.projection.program.rows import QUARTILES, Segments
from isonomy.projection.program.solve import ROUNDS, SLACK

PIECES = 256  # bins a pass cuts an interval into: a power of two
SPAN = 8.0  # the first pass bins distances up to this many times their mean; the rest is one segment
LINES = 2**14  # rows of an interval that is grouped by value instead of cut
# An interval this narrow holds ties, however many rows: relative to the first bins and to the distance itself.
NARROW, CLOSE = 2.0**-16, 2.0**-24
LEAST = 2.0**-900  # finer bins could not be counted
_NOWHERE, _REST, _ZERO = -1.0, -2.0, -3.0  # codes of rows in no bin, beyond the last, and on the boundary


@dataclass(frozen=True, slots=True, eq=False)
class DistanceBins:
    """How one pass sorts distances: each interval, from ``low`` to ``high``, in `PIECES` bins counted from ``origin``.

    An interval ``by_value`` is not cut: its rows are grouped by their distance. Rows on the boundary are a segment of
    their own from the first pass on (``zeros``): no bin holds them.
    """

    low: FloatArray
    high: FloatArray
    origin: FloatArray
    by_value: BoolArray
    rest: bool = False  # with one bin for all that is beyond the intervals
    zeros: bool = False

    def keys(self, distance: Expression) -> dict[str, Expression]:
        """What the pass groups by."""
        code, value = constant(_NOWHERE), constant(0.0)
        if self.rest:
            code = either((distance >= float(self.high.max())) & distance.is_finite(), _REST, code)
        intervals = zip(*(column.tolist() for column in (self.low, self.high, self.origin, self.by_value)), strict=True)
        for i, (low, high, origin, single) in enumerate(intervals):
            inside, first = (distance >= low) & (distance < high), float(i * PIECES)
            piece = ((distance - origin) * (PIECES / (high - origin))).floor().clip(0, PIECES - 1) + first
            code = either(inside, first if single else piece, code)
            value = either(inside, distance if single else 0.0, value)
        code = either(distance == 0, _ZERO if self.zeros else _NOWHERE, code)
        return {"bin": code, "value": value} if self.by_value.any() else {"bin": code}

    def inside(self, distance: Expression) -> Expression | None:
        """The rows that the pass needs; None for all."""
        if self.rest or self.zeros:
            return None
        return reduce(or_, ((distance >= a) & (distance < b) for a, b in zip(self.low, self.high, strict=True)))

    def segments(self, cell: IntArray, count: FloatArray, mass: FloatArray, keys: Mapping[str, AnyArray]) -> Segments:
        """The segments behind the pass, given its counts and the sums of the distances."""
        code = keys["bin"].astype(np.intp)
        binned = code != _NOWHERE
        code, cell, count = code[binned], cell[binned], count[binned]
        interval, piece = np.divmod(np.maximum(code, 0), PIECES)
        width = np.where(self.by_value, 0.0, (self.high - self.origin) / PIECES)[interval]
        kind = np.clip(-1 - code, 0, 2)
        begin = np.choose(kind, [self.origin[interval] + piece * width, self.high.max(), 0.0])
        stop = np.choose(kind, [begin + width, np.inf, 0.0])
        if self.by_value.any():
            single, exact = self.by_value[interval] & (code >= 0), keys["value"][binned].astype(float)
            begin, stop = np.where(single, exact, begin), np.where(single, exact, stop)
        return Segments(cell, count, np.clip(mass[binned] / count, begin, stop), begin, stop)


class BinnedRows:
    """The rows behind a program, by passes: ``count`` makes one, ``side`` is each cell's, ``mean`` their distance.

    All cells share one partition of the distances: a bin that is split for one cell is split for all of them, and
    ``_finest`` holds the segments of the partition as it is by now.
    """

    def __init__(self, count: Callable[[DistanceBins], Segments], side: FloatArray, mean: float) -> None:
        self._count, self._side = count, side
        end = float(2.0 ** np.clip(np.ceil(np.log2(SPAN * mean)), -900, 1000)) if mean else 1.0
        self._width, zero = end / PIECES, np.zeros(1)
        self._finest = count(DistanceBins(zero, np.array([end]), zero, zero > 0, rest=True, zeros=True))
        self._coarse = self._finest
        while self._width > LEAST:
            _, bins = self._quartiles()
            if not bins.count.size or bins.low.any():
                break
            # Both quartiles are in the bin at the boundary, which is wide only because some rows are far. The program
            # starts finer, too.
            self._refine(bins)
            self._coarse, self._width = self._finest, self._width / PIECES

    @property
    def quartiles(self) -> tuple[float, float]:
        """The least signed distances with a quarter and three quarters of the rows up to them."""
        for _ in range(ROUNDS):
            ends, bins = self._quartiles()
            if not bins.count.size:
                break
            self._refine(bins)
        return ends

    def coarse(self) -> Segments:
        """Equal bins out to a few times the mean, finer where all rows are near the boundary, and one for the rest."""
        return self._coarse

    def split(self, cut: Segments) -> Segments:
        """The rows of ``cut`` in finer bins, or by value; the same pass splits the bins that may hold the quartiles."""
        self._refine(cut + self._quartiles()[1])
        # Each bin with the last segment of ``cut`` that begins at or before it, in the same cell.
        bins = self._finest.where(self._finest.high > 0)
        lows = np.unique(np.append(bins.low, cut.low))
        cut = cut.where(np.lexsort((cut.low, cut.group)))
        begin, place = (part.group * lows.size + np.searchsorted(lows, part.low) for part in (cut, bins))
        last = np.searchsorted(begin, place, "right") - 1
        return bins.where((last >= 0) & (cut.group[last] == bins.group) & (bins.low < cut.high[last]))

    def radius(self, moved: FloatArray, goal: float, most: float) -> float:
        """A distance within which ``goal`` rows flip, and not many more than ``most`` rows lie."""
        segments, radius = self._coarse, 0.0
        for _ in range(ROUNDS):
            segments = segments.where(np.lexsort((segments.low, segments.group)))
            begins = np.searchsorted(segments.group, segments.group)
            before = np.append(0.0, np.cumsum(segments.count))
            before = before[:-1] - before[begins]
            flips = np.clip(moved[segments.group] - before, 0.0, segments.count)
            outward = np.argsort(segments.high, kind="stable")
            last = int(np.searchsorted(np.cumsum(flips[outward]), goal * (1 - SLACK)))
            radius = float(segments.high[outward[min(last, outward.size - 1)]])
            edge = (segments.low < radius) & (segments.high >= radius)
            if segments.count[segments.high <= radius].sum() <= most or not edge.any():
                return radius
            segments = segments.where(~edge) + self.split(segments.where(edge))
        return radius

    def _quartiles(self) -> tuple[tuple[float, float], Segments]:
        """The quartiles of the signed distance as far as they are known, and the bins to split until they are."""
        bins = self._finest
        if not bins.count.size:
            return (0.0, 0.0), bins
        selected = self._side[bins.group] > 0
        low, high = np.where(selected, bins.low, -bins.high), np.where(selected, bins.high, -bins.low)
        order = np.argsort(low, kind="stable")
        reached = np.cumsum(bins.count[order])
        quarters = [order[int(np.searchsorted(reached, q * reached[-1]))] for q in QUARTILES]
        cut = np.isin(low, low[quarters]) & np.isin(high, high[quarters]) & (low < high)
        return (float(low[quarters[0]]), float(low[quarters[1]])), bins.where(cut)

    def _refine(self, cut: Segments) -> None:
        """One pass that splits the bins of ``cut``, except those that are split already."""
        wide = self._finest.low < self._finest.high
        starts, first, place = np.unique(self._finest.low[wide], return_index=True, return_inverse=True)
        stops, rows = self._finest.high[wide][first], total(place, self._finest.count[wide], starts.size)
        chosen = np.isin(starts, cut.low) & np.isin(stops, cut.high)
        low, high = starts[chosen], stops[chosen]
        if not low.size:
            return
        by_value = (rows[chosen] <= LINES) | (high - low <= np.maximum(self._width * NARROW, low * CLOSE))
        # The rest has no end: its first part is cut in bins as wide as all that came before.
        rest = np.isinf(high) & ~by_value
        origin, high = np.where(rest, 0.0, low), np.where(rest, low * PIECES, high)
        finer = self._count(DistanceBins(low, high, origin, by_value, rest=bool(rest.any())))
        self._finest = self._finest.where(~(wide & np.isin(self._finest.low, low))) + finer
