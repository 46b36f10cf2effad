"""Rows held by an engine: grouped passes only, no row is collected but those a plan lists.

One pass counts, one or two find the quartiles, one sums the kernel, one looks for ties; then each round of the program
is one more pass, which splits the segments that the dual solution cuts into bins. A bin that holds few rows comes apart
by value, so the rounds end at the same segments, and at the same solution, as sorting would.

Ends of bins are multiples of powers of two. Then ``(distance - low) * pieces / width`` has no rounding error, and no
row is on one side of an end when it is counted and on the other when it is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.frames import Partition, Request, Source, aggregate, collect
from isonomy.transport.program import SLACK, Pool, Segments, fractions, total
from isonomy.transport.table import (
    AGREEMENT,
    PLAN_ROWS,
    TRACE,
    Boundary,
    FloatArray,
    IntArray,
    Movers,
    Options,
    cell_codes,
    make_cells,
    points,
    refuse_disagreement,
    refuse_negative,
    tie,
)
from isonomy.transport.width import QUARTILES, robust

PIECES = 256  # bins a pass cuts an interval into: a power of two
SPAN = 8.0  # the first pass bins distances up to this many times their mean; the rest is one segment
LINES = 2**14  # rows of an interval that is grouped by value instead of cut
# An interval this narrow holds ties, whatever its rows: relative to the first bins and to the distance itself.
NARROW, CLOSE = 2.0**-16, 2.0**-24
LEAST = 2.0**-900  # finer bins could not be counted
FETCH = 4 * PLAN_ROWS  # rows fetched for a plan, about


class Passes:
    """A lazy engine: grouped passes only."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source, self._options = source, options
        tally = source.cells(counting(options))
        self._sizes: tuple[int, ...]
        code, self._sizes = cell_codes(tally.partitions, tally.keys, options)
        self._found, cell = np.unique(code, return_inverse=True)
        size = self._found.size
        sums = {name: total(cell, value, size) for name, value in tally.values.items()}
        self.dropped = tally.dropped
        self._u = [np.unique(tally.keys[name]) for name in options.keys]
        count = total(cell, tally.count, size)
        self.cells = make_cells(self._found, self._sizes, tally.partitions, options, count, tally.keys)
        if not options.distance.signed:
            refuse_negative(float(sums["below"].sum()))
        finite = max(float((count - sums["infinite"]).sum()), 1.0)
        mean = float((self._side * sums["first"]).sum() / finite)
        square = float(sums["second"].sum() / finite)
        self._rows_in: dict[tuple[float, float], float] = {}
        self._coarse = self._first_bins(float(sums["first"].sum() / finite))
        deviation = float(np.sqrt(max(0.0, square - mean * mean))) if square < np.inf else np.inf
        self.spread = robust(deviation, *self._quartiles())
        if options.distance.signed and self._disagreeing(sums):
            # Only now is the scale known on which some of them may be rounding.
            slack = AGREEMENT * self.spread
            signed = _signed(options)
            beyond, cell = self._pass({}, {"below": _flag(signed < -slack), "above": _flag(signed > slack)})
            refuse_disagreement(self._disagreeing({n: total(cell, v, size) for n, v in beyond.values.items()}))

    @property
    def _side(self) -> FloatArray:
        """Of each cell: 1 where the decision is 1, else -1."""
        return np.where(self.cells.selected == 1, 1.0, -1.0)

    def _disagreeing(self, sums: Mapping[str, FloatArray]) -> float:
        """Rows on the other side of the boundary than their decision says."""
        selected = self.cells.selected == 1
        return float(sums["below"][selected].sum() + sums["above"][~selected].sum())

    def boundary(self, bandwidth: float) -> Boundary:
        """One pass for the kernel sums, one for the ties."""
        distance = _signed(self._options).abs()
        scaled = distance * (1.0 / bandwidth)
        near = _flag(distance <= bandwidth)
        kernel = (scaled * scaled * -0.5).exp() * float(1 / np.sqrt(2 * np.pi))
        kernel = nw.when(scaled < 39.0).then(kernel).otherwise(nw.lit(0.0))
        sums, cell = self._pass({}, {"kernel": kernel, "near": near})
        inside = self._kept().filter(distance <= bandwidth)
        weight = nw.lit(1.0) if self._source.count is None else nw.col(self._source.count).cast(nw.Float64)
        # One value on both sides of the boundary, where 0 and -0 are the same place.
        selected = nw.col(self._options.prediction).cast(nw.Float64) == 1.0
        refused = nw.when(distance > 0).then(-distance).otherwise(nw.lit(0.0))
        values = aggregate(inside, {"value": nw.when(selected).then(distance).otherwise(refused)}, {"rows": weight})
        rows = nw.col("rows")
        same = collect(aggregate(values, {}, {"square": rows * rows, "total": rows}))
        size = self.cells.count.size
        return Boundary(
            total(cell, sums.values["kernel"], size),
            total(cell, sums.values["near"], size),
            tie(float(same["square"].sum()), float(same["total"].sum())),
        )

    def _kept(self) -> Any:
        """The rows that the passes keep: without those dropped for what is missing in them."""
        kept, options = self._source.frame, self._options
        if self.dropped:
            needed = [nw.col(column) for column in options.binary.values()]
            needed += [nw.col(x) if isinstance(x, str) else x for x in options.numeric.values()]
            if options.grouping is not None and self._source.missing_group == "drop":
                needed += options.grouping.keys.values()
            for expression in needed:
                kept = kept.filter(~expression.is_null())
        return kept

    def pool(self, vectors: FloatArray) -> Pool:
        """Segments are bins of a grouped pass."""
        return self

    def coarse(self) -> Segments:
        """Equal bins out to a few times the mean, finer where the quartiles are, and one for the rest."""
        return self._coarse

    def split(self, cut: Segments) -> Segments:
        """The same rows in finer bins, or by value: one pass for all segments that were cut."""
        # The rest has no end: its first part is cut in bins as wide as all that came before.
        low = np.where(np.isinf(cut.high), 0.0, cut.low)
        high = np.where(np.isinf(cut.high), cut.low * PIECES, cut.high)
        width = high - low
        few = np.array([self._rows_in[ends] <= LINES for ends in zip(cut.low, cut.high, strict=True)])
        few |= width <= np.maximum(self._width * NARROW, low * CLOSE)
        low, high = np.where(few, cut.low, low), np.where(few, cut.high, high)
        # Intervals of different cells are nested or apart; the narrower comes later, and the later one holds the row.
        found = _closed({(float(a), float(b)): bool(f) for a, b, f in zip(low, high, few, strict=True)})
        intervals = sorted(found, key=lambda ab: (ab[0] - ab[1], ab[0]))
        bins = self._bins(intervals, [found[ends] for ends in intervals], rest=bool(np.isinf(cut.high[~few]).any()))
        # The pass bins every cell; keep what belongs to the segments asked about.
        wanted = np.zeros(bins.group.size, dtype=bool)
        for group, start, stop in zip(cut.group, cut.low, cut.high, strict=True):
            wanted |= (bins.group == group) & (bins.low >= start) & (bins.high <= stop) & (bins.low < stop)
        return bins.where(wanted)

    def movers(self, moved: FloatArray, reach: FloatArray) -> Movers:
        """The rows that flip, nearest first; an engine has no row numbers."""
        mass = float(moved.sum()) if np.isfinite(moved).all() else 0.0
        if not mass > 0:
            no_row, no_number, no_point = np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, 0))
            return Movers(no_row, no_row, no_number, no_number, no_point, no_point, complete=True)
        features = {role: nw.col(column).cast(nw.Float64) for role, column in self._options.features.items()}
        values = {"d": _signed(self._options), **features}
        request = Request(self._options.grouping, self._options.binary, keys=self._options.keys, values=values)
        goal = float(PLAN_ROWS)
        while True:
            radius = self._radius(moved, min(goal, mass))
            rows = self._source.filter(_signed(self._options).abs() <= radius).rows(request)
            cell = self._cell_of(rows.partitions, rows.columns)
            distance = np.abs(rows.columns["d"])
            share = fractions(distance, cell, moved, rows.weight)
            listed = np.flatnonzero(share > TRACE)
            if listed.size >= PLAN_ROWS or goal >= mass:
                break
            goal *= 4.0  # lines that stand for several rows: more of them are needed
        complete = goal >= mass and listed.size <= PLAN_ROWS
        listed = listed[np.argsort(distance[listed], kind="stable")[:PLAN_ROWS]]
        start, end = points(self._options.distance, np.column_stack([rows.columns[x][listed] for x in features]))
        return Movers(np.full(listed.size, -1), cell[listed], distance[listed], share[listed], start, end, complete)

    def _radius(self, moved: FloatArray, goal: float) -> float:
        """A distance within which ``goal`` rows flip, and not many more rows are."""
        segments = self._coarse
        while True:
            order = np.lexsort((segments.low, segments.group))
            segments = segments.where(order)
            begins = np.searchsorted(segments.group, segments.group)
            before = np.append(0.0, np.cumsum(segments.count))
            before = before[:-1] - before[begins]
            flips = np.clip(moved[segments.group] - before, 0.0, segments.count)
            outward = np.argsort(segments.high, kind="stable")
            at = int(np.searchsorted(np.cumsum(flips[outward]), goal * (1 - SLACK)))
            radius = float(segments.high[outward[min(at, outward.size - 1)]])
            edge = (segments.low < radius) & (segments.high >= radius)
            if segments.count[segments.high <= radius].sum() <= FETCH or not edge.any():
                return radius
            segments = segments.where(~edge) + self.split(segments.where(edge))

    def _first_bins(self, size: float) -> Segments:
        """Equal bins out to `SPAN` times ``size``, and one for the rest."""
        end = float(2.0 ** np.clip(np.ceil(np.log2(SPAN * size)), -900, 1000)) if size else 1.0
        self._width = end / PIECES
        return self._bins([(0.0, end)], [False], rest=True, zeros=True)

    def _quartiles(self) -> tuple[float, float]:
        """The least signed distances with a quarter and three quarters of the rows up to them."""
        bins = self._coarse
        if not bins.count.size:
            return 0.0, 0.0
        while True:
            selected = self._side[bins.group] > 0
            low, high = np.where(selected, bins.low, -bins.high), np.where(selected, bins.high, -bins.low)
            order = np.argsort(low, kind="stable")
            reached = np.cumsum(bins.count[order])
            at = [order[int(np.searchsorted(reached, q * reached[-1]))] for q in QUARTILES]
            cut = np.isin(low, low[at]) & np.isin(high, high[at]) & (low < high)
            if not cut.any():
                return float(low[at[0]]), float(low[at[1]])
            # Quartiles in the first bin: it is wide only because some rows are far. The program starts finer, too.
            coarse = bins is self._coarse and bool((bins.low[cut] == 0.0).all()) and self._width > LEAST
            bins = bins.where(~cut) + self.split(bins.where(cut))
            if coarse:
                self._coarse, self._width = bins, self._width / PIECES

    def _bins(
        self, intervals: list[tuple[float, float]], by_value: list[bool], *, rest: bool, zeros: bool = False
    ) -> Segments:
        """Count and sum the distances in `PIECES` bins of each interval, or at each value in it, cell by cell.

        Rows on the boundary are a segment of their own from the first pass on (``zeros``): no bin holds them.
        """
        distance = _signed(self._options).abs()
        end = max(high for _, high in intervals)
        code: Any = nw.lit(-1.0)
        value: Any = nw.lit(0.0)
        if rest:
            code = nw.when((distance >= end) & distance.is_finite()).then(nw.lit(-2.0)).otherwise(code)
        for i, ((low, high), each) in enumerate(zip(intervals, by_value, strict=True)):
            inside = (distance >= low) & (distance < high)
            piece_of = nw.lit(0.0) if each else ((distance - low) * (PIECES / (high - low))).floor()
            code = nw.when(inside).then(piece_of.clip(0, PIECES - 1) + float(i * PIECES)).otherwise(code)
            value = nw.when(inside).then(distance if each else nw.lit(0.0)).otherwise(value)
        code = nw.when(distance == 0).then(nw.lit(-3.0 if zeros else -1.0)).otherwise(code)
        finite = nw.when(distance.is_finite()).then(distance).otherwise(nw.lit(0.0))
        keys = {"bin": code, "value": value} if any(by_value) else {"bin": code}
        sums, cell = self._pass(keys, {"total": finite})
        place = sums.keys["bin"].astype(np.intp)
        keep = place != -1
        place, cell = place[keep], cell[keep]
        count, mass = sums.count[keep], sums.values["total"][keep]
        lows, highs = np.array(intervals).T
        at, piece = np.divmod(np.maximum(place, 0), PIECES)
        width = np.where(by_value, 0.0, (highs - lows) / PIECES)[at]
        begin = np.choose(np.clip(-1 - place, 0, 2), [lows[at] + piece * width, end, 0.0])
        stop = np.choose(np.clip(-1 - place, 0, 2), [begin + width, np.inf, 0.0])
        cost = np.clip(mass / count, begin, stop)
        if any(by_value):
            single = np.array(by_value)[at] & (place >= 0)
            exact = sums.keys["value"][keep].astype(float)
            begin, stop, cost = (np.where(single, exact, other) for other in (begin, stop, cost))
        ends, place = np.unique(np.column_stack([begin, stop])[begin < stop], axis=0, return_inverse=True)
        rows = total(place.ravel(), count[begin < stop], len(ends))
        self._rows_in |= {(a, b): n for (a, b), n in zip(ends.tolist(), rows.tolist(), strict=True)}
        return Segments(cell, count, cost, begin, stop)

    def _pass(self, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr]) -> tuple[Any, IntArray]:
        base = counting(self._options)
        request = Request(base.grouping, base.binary, base.numeric, {**base.keys, **keys}, values)
        sums = self._source.cells(request)
        return sums, self._cell_of(sums.partitions, sums.keys)

    def _cell_of(self, partitions: tuple[Partition, ...], columns: Mapping[str, Any]) -> IntArray:
        """The cell of each line, by the groups it names: a filtered table may lack some groups."""
        places = []
        for mine, theirs in zip(self.cells.groups, partitions, strict=True):
            at = {group.label: i for i, group in enumerate(mine)}
            lookup = np.array([at[group.label] for group in theirs.groups] + [-1], dtype=np.intp)
            places.append(Partition(theirs.dimensions, mine, lookup[theirs.codes]))
        code, _ = cell_codes(tuple(places), columns, self._options, self._u)
        return np.searchsorted(self._found, code).astype(np.intp)


def counting(options: Options) -> Request:
    """The first pass of a lazy engine: cells, and sums of the distance and its square."""
    signed = _signed(options)
    infinite = signed.abs() == np.inf
    finite = nw.when(infinite).then(nw.lit(0.0)).otherwise(signed)
    return Request(
        grouping=options.grouping,
        binary=options.binary,
        numeric=options.numeric,
        keys=options.keys,
        values={
            "first": finite.abs(),
            "second": finite * finite,
            "infinite": _flag(infinite),
            "below": _flag(signed < 0),
            "above": _flag(signed > 0),
        },
    )


def _closed(intervals: dict[tuple[float, float], bool]) -> dict[tuple[float, float], bool]:
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


def _signed(options: Options) -> nw.Expr:
    signed = options.signed
    assert signed is not None
    return signed


def _flag(condition: nw.Expr) -> nw.Expr:
    """1 where the condition holds, else 0."""
    return nw.when(condition).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
