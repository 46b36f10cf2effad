"""Rows held by an engine: grouped passes only, no row is collected but those a plan lists.

One pass counts, one sums the kernel, one looks for ties; then each round of the program is one more pass, which splits
the segments that the dual solution cuts into bins. Means of bins price a plan exactly wherever no bin is cut, so the
rounds end at the same solution as sorting would, to the last few digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.frames import Partition, Request, Source, aggregate, collect
from isonomy.transport.program import Pool, Segments, fractions, total
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

PIECES = 256  # bins a pass cuts an interval into
SPAN = 8.0  # the first pass bins distances up to this many root mean squares; the rest is one segment


class Passes:
    """A lazy engine: grouped passes only."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source, self._options = source, options
        tally = source.tally(counting(options))
        self._sizes: tuple[int, ...]
        code, self._sizes = cell_codes(tally.partitions, tally.keys, options)
        self._found, cell = np.unique(code, return_inverse=True)
        size = self._found.size
        sums = {name: total(cell, value, size) for name, value in tally.values.items()}
        self.dropped = tally.dropped
        self._u = [np.unique(tally.keys[name]) for name in options.keys]
        count = total(cell, tally.count, size)
        self.cells = make_cells(self._found, self._sizes, tally.partitions, options, count, tally.keys)
        side = np.where(self.cells.selected == 1, 1.0, -1.0)
        finite = count - sums["infinite"]
        mean = float((side * sums["first"]).sum() / max(finite.sum(), 1.0))
        self.spread = float(np.sqrt(max(0.0, sums["second"].sum() / max(finite.sum(), 1.0) - mean**2)))
        self._width = float(np.sqrt(sums["second"].sum() / max(finite.sum(), 1.0)))
        if not options.distance.signed:
            refuse_negative(float(sums["below"].sum()))
        elif self._disagreeing(sums):
            # Only now is the scale known on which some of them may be rounding.
            slack = AGREEMENT * self.spread
            signed = _signed(options)
            beyond, cell = self._pass({}, {"below": _flag(signed < -slack), "above": _flag(signed > slack)})
            refuse_disagreement(self._disagreeing({n: total(cell, v, size) for n, v in beyond.values.items()}))

    def _disagreeing(self, sums: Mapping[str, FloatArray]) -> float:
        """Rows on the other side of the boundary than their decision says."""
        selected = self.cells.selected == 1
        return float(sums["below"][selected].sum() + sums["above"][~selected].sum())

    def boundary(self, bandwidth: float) -> Boundary:
        """One pass for the kernel sums, one for the ties."""
        signed = _signed(self._options)
        scaled = signed * (1.0 / bandwidth)
        near = _flag(scaled.abs() <= 1.0)
        kernel = (scaled * scaled * -0.5).exp() * float(1 / np.sqrt(2 * np.pi))
        kernel = nw.when(scaled.abs() < 39.0).then(kernel).otherwise(nw.lit(0.0))
        sums, cell = self._pass({}, {"kernel": kernel, "near": near})
        inside = self._source.frame.filter(scaled.abs() <= 1.0)
        weight = nw.lit(1.0) if self._source.count is None else nw.col(self._source.count).cast(nw.Float64)
        side = nw.col(self._options.prediction).cast(nw.Float64)
        values = aggregate(inside, {"value": signed, "side": side}, {"rows": weight})
        rows = nw.col("rows")
        same = collect(aggregate(values, {}, {"square": rows * rows, "total": rows}))
        size = self.cells.count.size
        return Boundary(
            total(cell, sums.values["kernel"], size),
            total(cell, sums.values["near"], size),
            tie(float(same["square"].sum()), float(same["total"].sum())),
        )

    def pool(self, vectors: FloatArray) -> Pool:
        """Segments are bins of a grouped pass."""
        return self

    def coarse(self) -> Segments:
        """Equal bins out to a few root mean squares, and one for the rest."""
        width = self._width or 1.0
        return self._bins([(0.0, SPAN * width)], rest=True)

    def split(self, cut: Segments) -> Segments:
        """The same rows in finer bins: one pass for all segments that were cut."""
        ends = np.where(np.isinf(cut.high), 2 * cut.low * SPAN, cut.high)
        # Intervals of different cells are nested or apart; the narrower comes later, and the later one holds the row.
        found = {(float(a), float(b)) for a, b in zip(cut.low, ends, strict=True)}
        intervals = sorted(found, key=lambda ab: (ab[0] - ab[1], ab[0]))
        bins = self._bins(intervals, rest=bool(np.isinf(cut.high).any()))
        # The pass bins every cell; keep what belongs to the segments asked about.
        wanted = np.zeros(bins.group.size, dtype=bool)
        for group, low, high in zip(cut.group, cut.low, cut.high, strict=True):
            wanted |= (bins.group == group) & (bins.low >= low) & (bins.high <= high)
        return bins.where(wanted)

    def movers(self, moved: FloatArray, reach: FloatArray) -> Movers:
        """The rows that flip, nearest first; an engine has no row numbers."""
        flips = np.flatnonzero(moved > 0)
        if not flips.size:
            no_row, no_number, no_point = np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, 0))
            return Movers(no_row, no_row, no_number, no_number, no_point, no_point)
        furthest = float(reach[flips].max())
        # Beyond the listed number only the nearest are fetched; a density near constant at the boundary is enough.
        share = min(1.0, 4 * PLAN_ROWS / max(1.0, float(moved.sum())))
        near = self._source.filter(_signed(self._options).abs() <= furthest * share * (1 + 1e-12))
        features = {role: nw.col(column).cast(nw.Float64) for role, column in self._options.features.items()}
        values = {"d": _signed(self._options), **features}
        rows = near.rows(Request(self._options.grouping, self._options.binary, keys=self._options.keys, values=values))
        cell = self._cell_of(rows.partitions, rows.columns)
        distance = np.abs(rows.columns["d"])
        share_of = fractions(distance, cell, moved, rows.weight)
        listed = np.flatnonzero(share_of > TRACE)
        listed = listed[np.argsort(distance[listed], kind="stable")[:PLAN_ROWS]]
        start, end = points(self._options.distance, np.column_stack([rows.columns[x][listed] for x in features]))
        return Movers(np.full(listed.size, -1), cell[listed], distance[listed], share_of[listed], start, end)

    def _bins(self, intervals: list[tuple[float, float]], rest: bool) -> Segments:
        """Count and sum the distances in `PIECES` bins of each interval, cell by cell."""
        distance = _signed(self._options).abs()
        end = max(high for _, high in intervals)
        code: Any = nw.lit(-1.0)
        if rest:
            code = nw.when((distance >= end) & distance.is_finite()).then(nw.lit(-2.0)).otherwise(code)
        for i, (low, high) in enumerate(intervals):
            place = ((distance - low) * (PIECES / (high - low))).floor().clip(0, PIECES - 1) + float(i * PIECES)
            code = nw.when((distance >= low) & (distance < high)).then(place).otherwise(code)
        finite = nw.when(distance.is_finite()).then(distance).otherwise(nw.lit(0.0))
        sums, cell = self._pass({"bin": code}, {"total": finite})
        place = sums.keys["bin"].astype(np.intp)
        keep = place != -1
        place, cell = place[keep], cell[keep]
        count, mass = sums.count[keep], sums.values["total"][keep]
        lows, highs = np.array([low for low, _ in intervals]), np.array([high for _, high in intervals])
        at, piece = np.divmod(np.maximum(place, 0), PIECES)
        width = (highs - lows)[at] / PIECES
        begin = np.where(place == -2, end, lows[at] + piece * width)
        stop = np.where(place == -2, np.inf, np.where(piece == PIECES - 1, highs[at], lows[at] + (piece + 1) * width))
        return Segments(cell, count, np.clip(mass / count, begin, stop), begin, stop)

    def _pass(self, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr]) -> tuple[Any, IntArray]:
        base = counting(self._options)
        request = Request(base.grouping, base.binary, base.numeric, {**base.keys, **keys}, values)
        sums = self._source.tally(request)
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


def _signed(options: Options) -> nw.Expr:
    signed = options.signed
    assert signed is not None
    return signed


def _flag(condition: nw.Expr) -> nw.Expr:
    """1 where the condition holds, else 0."""
    return nw.when(condition).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
