"""Rows in: as arrays, or by grouped passes where an engine holds them and the distance is an expression of columns.

By passes, counting in bins takes the place of sorting, and no row is collected except those that a plan lists. One pass
counts the cells, one bins the distances; each round of the program is one more pass, which splits the segments that the
dual solution cuts, and the bins that hold the quartiles with them; one pass sums the kernel, one counts ties. A bin
with few rows comes apart by value, so the rounds end at the same segments, and at the same solution, as sorting would.

Ends of bins are multiples of powers of two. Then ``(distance - low) * pieces / width`` has no rounding error, and no
row is on one side of an end when it is counted and on the other when it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.errors import DataError, EmptyFrame
from isonomy.frames import COUNT, Request, Sample, aggregate, collect
from isonomy.frames.adapt import Lazy
from isonomy.frames.checks import flag
from isonomy.frames.expressions import Expression, constant, either, number
from isonomy.frames.sums import number_rows
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.projection.program.criteria import Coding, refuse_uncountable, total
from isonomy.projection.program.distances import AGREEMENT, refuse_wrong_side
from isonomy.projection.program.rows import (
    KERNEL_REACH,
    PLACES,
    QUARTILES,
    Boundary,
    DesignedRows,
    Measured,
    MeasuredArrays,
    Pool,
    Segments,
    fractions,
    robust,
    smooth,
    tie,
)
from isonomy.projection.program.solve import ROUNDS, SLACK

if TYPE_CHECKING:
    from isonomy.projection.project import ProjectPlan

PLAN_ROWS = 10_000  # rows listed in a plan, nearest first
FETCH = 4 * PLAN_ROWS  # rows fetched for a plan, about
TRACE = 1e-9  # a smaller share of a row is rounding, not a move

PIECES = 256  # bins a pass cuts an interval into: a power of two
SPAN = 8.0  # the first pass bins distances up to this many times their mean; the rest is one segment
LINES = 2**14  # rows of an interval that is grouped by value instead of cut
# An interval this narrow holds ties, whatever its rows: relative to the first bins and to the distance itself.
NARROW, CLOSE = 2.0**-16, 2.0**-24
LEAST = 2.0**-900  # finer bins could not be counted
_NOWHERE, _REST, _ZERO = -1.0, -2.0, -3.0  # codes of rows in no bin, beyond the last, and on the boundary
Interval = tuple[float, float]


class RowsInMemory(MeasuredArrays):
    """Rows as arrays."""

    def __init__(self, plan: ProjectPlan) -> None:
        source = plan.source
        values = {} if plan.cost.expression() is None else {"distance": plan.signed}
        if not source.lazy:  # numbered before rows are left out, so that a plan can name them
            name = source.fresh("row number")
            source = source.derived(number_rows(source.lines, name, source.backend))
            values["row"] = number(name)
        sample = source.rows(Request(plan.grouping, plan.binary, plan.numeric, plan.keys, values)).weighing()
        self.dropped, self._lines, self._cost = sample.dropped, source.lines, plan.cost
        self._row, self._features = sample.columns.get("row"), None
        if "distance" in values:
            signed = sample.columns["distance"].astype(float)
        else:
            self._features = np.column_stack([sample.columns[role] for role in plan.features])
            factor = sample.columns.get("factors", 1.0)
            signed = np.asarray(plan.cost.evaluate(self._features) * factor, dtype=float)
        mass = np.ones(signed.size) if sample.weight is None else sample.weight
        if not plan.cost.signed:
            refuse_wrong_side(float(mass[signed < 0].sum()), signed=False)
        coding = Coding(sample, plan.u)
        cell, codes = coding.dense(coding.code(sample))
        count = None if sample.design is None else total(cell, sample.count, codes.size)
        cells = coding.cells(codes, total(cell, sample.weight, codes.size), count)
        refuse_uncountable(source.count, cells.rows)
        design = None if sample.design is None else DesignedRows(sample.design, cell)
        super().__init__(np.abs(signed), cell, cells, sample.weight, design)
        if plan.cost.signed:
            # Only now is the scale known on which a distance of the wrong sign may be rounding.
            across = cells.side[cell] * signed < -AGREEMENT * self.spread
            refuse_wrong_side(float(mass[across].sum()), signed=True)

    def movers(self, moved: FloatArray) -> dict[str, Any]:
        """The rows that flip, nearest first."""
        share = fractions(self.distance, self.cell, moved, self.weight)
        rows, complete = nearest(self.distance, share)
        place = np.full(rows.size, -1) if self._row is None else self._row[rows].astype(np.intp)
        if self._features is None:
            # Expressions leave their columns where they are; a table with an order can be asked for the listed rows.
            start = collect(self._lines.select(*map(number, self._cost.columns)))[place].to_numpy()
        else:
            start = self._features[rows]
        ends = dict(zip(("start", "end"), self._cost.ends(start), strict=True))
        columns = {"row": place, "cell": self.cell[rows], "distance": self.distance[rows], "fraction": share[rows]}
        return {**columns, **ends, "complete": complete}


class RowsByPasses:
    """Rows that an engine holds, with a distance that is an expression of columns."""

    def __init__(self, plan: ProjectPlan) -> None:
        self._source, self._plan = plan.source, plan
        self._distance = plan.signed.abs()
        sample = plan.source.cells(plan.first)
        self.dropped = sample.dropped
        self._coding = Coding(sample, plan.u)
        cell, self._codes = self._coding.dense(self._coding.code(sample))
        size = self._codes.size
        sums = {name: total(cell, value, size) for name, value in sample.values.items()}
        rows = None if sample.design is None else total(cell, sample.count, size)
        self.cells = self._coding.cells(self._codes, total(cell, sample.mass, size), rows)
        self.sample = None if sample.design is None else DesignedRows(sample.design, cell)
        refuse_uncountable(plan.source.count, self.cells.rows)
        across = float(sums["across"].sum())
        if not plan.cost.signed:
            refuse_wrong_side(across, signed=False)
        finite = max(float((self.cells.count - sums["infinite"]).sum()), 1.0)
        mean = float((self.cells.side * sums["first"]).sum() / finite)
        square = float(sums["second"].sum() / finite)
        self._rows = BinnedRows(self._binned, self.cells.side, float(sums["first"].sum() / finite))
        self._deviation = float(np.sqrt(max(0.0, square - mean * mean))) if square < np.inf else np.inf
        if across and plan.cost.signed:
            # Only now is the scale known on which some of them may be rounding.
            beyond = self._sums({"across": flag(plan.across(AGREEMENT * self.spread))})
            refuse_wrong_side(float(beyond["across"].sum()), signed=True)

    @property
    def spread(self) -> float:
        """Of the signed distance; the quartiles are split with the first segments of the program, if it comes first."""
        return robust(self._deviation, *self._rows.quartiles)

    def boundary(self, bandwidth: float) -> Boundary:
        """One pass for the kernel sums, one for the ties."""
        distance = self._distance
        scaled = distance * (1.0 / bandwidth)
        kernel = (scaled * scaled * -0.5).exp() * float(1 / np.sqrt(2 * np.pi))
        kernel = either(scaled < KERNEL_REACH, kernel, 0.0)
        sums = self._sums({"kernel": kernel, "near": flag(distance <= bandwidth)}, scaled < KERNEL_REACH)
        # One value on both sides of the boundary, where 0 and -0 are the same place.
        value = either(number(self._plan.prediction) == 1.0, distance, either(distance > 0, -distance, 0.0))
        inside = self._complete().filter(distance <= bandwidth)
        same = aggregate(inside, {"value": value}, {"rows": self._source.number})
        rows = number("rows")
        ties = collect(aggregate(same, {}, {"square": rows * rows, "total": rows}))
        return Boundary(sums["kernel"], sums["near"], tie(float(ties["square"].sum()), float(ties["total"].sum())))

    def pool(self, vectors: FloatArray) -> Pool:
        """Segments are bins of a grouped pass."""
        return self._rows

    def smoothed(self) -> Measured | None:
        """One pass counts the places of a lattice, one the rows at each."""
        places = aggregate(self._complete(), {"value": self._distance}, {})
        if not 0 < float(collect(aggregate(places, {}, {}))[COUNT].sum()) <= PLACES:
            return None
        sums, cell = self._pass({"value": self._distance}, {})
        return smooth(self.cells, cell, sums.columns["value"].astype(float), sums.mass, self.sample)

    def movers(self, moved: FloatArray) -> dict[str, Any]:
        """The rows that flip, nearest first; an engine has no row numbers."""
        mass = float(moved.sum()) if np.isfinite(moved).all() else 0.0
        none = np.empty(0, dtype=np.intp)
        if not mass > 0:
            columns = {"row": none, "cell": none, "distance": np.empty(0), "fraction": np.empty(0)}
            return {**columns, "start": np.empty((0, 0)), "end": np.empty((0, 0)), "complete": True}
        plan = self._plan
        features = {role: number(column) for role, column in plan.features.items()}
        request = Request(plan.grouping, plan.binary, keys=plan.keys, values={"distance": self._distance, **features})
        scale = None
        if self.sample is not None:  # weights of the rows that are fetched, on the scale of all
            weighed = self._source.weight * self._source.number
            request = replace(request, values={**request.values, "mass": weighed})
            scale = self.cells.rows / float(collect(aggregate(self._complete(), {}, {"mass": weighed}))["mass"].sum())
        goal = float(PLAN_ROWS)
        while True:
            radius = self._rows.radius(moved, min(goal, mass), FETCH)
            rows = self._source.filter(self._distance <= radius).rows(request)
            cell = np.searchsorted(self._codes, self._coding.code(rows)).astype(np.intp)
            distance = rows.columns["distance"].astype(float)
            share = fractions(distance, cell, moved, rows.weight if scale is None else rows.columns["mass"] * scale)
            listed, complete = nearest(distance, share)
            if listed.size >= PLAN_ROWS or goal >= mass:
                break
            goal *= 4.0  # lines that stand for several rows: more of them are needed
        start, end = plan.cost.ends(np.column_stack([rows.columns[role][listed] for role in features]))
        columns = {"row": np.full(listed.size, -1), "cell": cell[listed], "distance": distance[listed]}
        columns |= {"fraction": share[listed], "start": start, "end": end}
        return {**columns, "complete": complete and goal >= mass}

    def _complete(self) -> Lazy:
        """The rows that the passes use: without those dropped because a value is missing."""
        plan, frame = self._plan, self._source.frame
        if self.dropped:
            needed = [number(column) for column in (*plan.binary.values(), *plan.numeric.values())]
            if plan.grouping is not None and self._source.missing_group == "drop":
                needed += plan.grouping.keys.values()
            for expression in needed:
                frame = frame.filter(~expression.is_null())
        return frame

    def _binned(self, bins: DistanceBins) -> Segments:
        """Count and sum the distances in each bin, cell by cell."""
        finite = either(self._distance.is_finite(), self._distance, 0.0)
        sums, cell = self._pass(bins.keys(self._distance), {"total": finite}, bins.inside(self._distance))
        every = self.cells.count
        if bins.zeros and not np.allclose(total(cell, sums.mass, every.size), every, rtol=1e-9, atol=0.5):
            raise DataError("data: the table changed between two passes; audit a copy that does not change.")
        return bins.segments(cell, sums.mass, sums.values["total"], sums.columns)

    def _sums(self, values: Mapping[str, Expression], where: Expression | None = None) -> Mapping[str, FloatArray]:
        """Sums over each cell."""
        try:
            sums, cell = self._pass({}, values, where)
        except EmptyFrame:  # nobody is there
            return {name: np.zeros(self.cells.count.size) for name in values}
        return {name: total(cell, value, self.cells.count.size) for name, value in sums.values.items()}

    def _pass(
        self, keys: Mapping[str, Expression], values: Mapping[str, Expression], where: Expression | None = None
    ) -> tuple[Sample, IntArray]:
        """One pass; over the rows ``where`` a condition holds, which costs less than to sort the others apart.

        Weights are scaled to sum to the rows: those of a part would be scaled by themselves.
        """
        source = self._source if where is None or self.sample is not None else self._source.filter(where)
        first = self._plan.first
        numeric = first.numeric if self.dropped else {}  # the first pass found nothing missing
        sums = source.cells(replace(first, numeric=numeric, keys={**self._plan.keys, **keys}, values=values))
        return sums, np.searchsorted(self._codes, self._coding.code(sums)).astype(np.intp)


def nearest(distance: FloatArray, share: FloatArray) -> tuple[IntArray, bool]:
    """Places of the rows of which a share flips, nearest first, and whether all of them are listed."""
    rows = np.flatnonzero(share > TRACE)
    return rows[np.argsort(distance[rows], kind="stable")[:PLAN_ROWS]], rows.size <= PLAN_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class DistanceBins:
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

    def __init__(self, count: Callable[[DistanceBins], Segments], side: FloatArray, mean: float) -> None:
        self._make_pass = count
        self._rows_in: dict[Interval, float] = {}
        end = float(2.0 ** np.clip(np.ceil(np.log2(SPAN * mean)), -900, 1000)) if mean else 1.0
        self._width = end / PIECES
        self._coarse = self._count(DistanceBins([(0.0, end)], [False], rest=True, zeros=True))
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
        bins = self._count(DistanceBins(intervals, [closed[ends] for ends in intervals], rest=rest))
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

    def _count(self, bins: DistanceBins) -> Segments:
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
