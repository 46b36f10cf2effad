"""Rows in: sorted in memory, or counted by grouped passes where an engine holds them and the distance is an expression.

By passes no row is collected but those that a plan lists. One pass counts, one bins; each round of the program is one
more, which finds the quartiles too; one sums the kernel, one looks for ties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import narwhals as nw
import numpy as np

from isonomy.errors import BadCount, DataError, EmptyFrame, MissingValues, NotBinary, NotEnoughData
from isonomy.frames import COUNT, Cells, Partition, Pass, Request, Rows, Source, aggregate, collect
from isonomy.frames.adapt import Lazy
from isonomy.frames.checks import flag
from isonomy.frames.expressions import either, levels, number
from isonomy.frames.sums import number_rows
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.transport import wording
from isonomy.transport.plan import Plan
from isonomy.transport.program.bins import BinnedRows, Bins
from isonomy.transport.program.cells import Attribute, Coding, total
from isonomy.transport.program.distances import Distance, PerGroup, Score
from isonomy.transport.program.lattice import PLACES
from isonomy.transport.program.measured import (
    KERNEL_REACH,
    Boundary,
    Measured,
    MeasuredArrays,
    Sample,
    robust,
    smooth,
    tie,
)
from isonomy.transport.program.segments import Pool, Segments, fractions

PLAN_ROWS = 10_000  # rows listed in a plan, nearest first
FETCH = 4 * PLAN_ROWS  # rows fetched for a plan, about
TRACE = 1e-9  # a smaller share of a row is rounding, not a move
COUNTABLE = 2.0**53  # rows that floats tell apart
AGREEMENT = 1e-6  # a row this close to the boundary (in units of the spread) may be on either side of it


@dataclass(frozen=True, slots=True, eq=False)
class Movers:
    """Rows that flip, nearest first: where they are, their cell, distance, the share that flips, where they go."""

    row: IntArray  # position in the data, -1 where an engine has no order
    cell: IntArray
    distance: FloatArray
    fraction: FloatArray
    start: FloatArray  # (rows, features) as they are; no columns where the distance knows no points
    end: FloatArray  # (rows, features) on the boundary
    complete: bool  # False where only the nearest are listed


class Tally(Measured, Protocol):
    """What the rows say: cells, distances near the boundary and in segments, and the rows that would move."""

    dropped: Mapping[str, int]

    def movers(self, moved: FloatArray) -> Movers:
        """The rows that flip when ``moved`` rows of each cell do."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Who would have to move, not yet looked up: rows are listed only when they are asked for."""

    source: Source
    plan: Plan
    count: FloatArray  # (cells,)
    moved: FloatArray  # (cells,)

    def __call__(self) -> Movers:
        """Read the table again, and list."""
        rows = tally(self.source, self.plan)
        if not np.array_equal(rows.cells.count, self.count):
            raise DataError("data: the table changed since it was tested; project it again before asking for the plan.")
        return rows.movers(self.moved)


def tally(source: Source, plan: Plan) -> Tally:
    """Open the rows, in memory or by passes."""
    if plan.inferred:
        (score,) = plan.distance.columns
        plan = replace(plan, distance=Score(score, _threshold(source, plan.prediction, score)), inferred=False)
    try:
        return TallyByPasses(source, plan) if plan.by_passes else TallyInMemory(source, plan)
    except MissingValues:
        _refuse_levels_without_factor(source, plan.distance)
        raise


class TallyInMemory(MeasuredArrays):
    """Arrays of just the columns needed, because the program sorts distances."""

    def __init__(self, source: Source, plan: Plan) -> None:
        self._plan, self._source, self._features = plan, source, None
        values = {} if plan.distance.expression() is None else {"distance": plan.signed}
        if not source.lazy:  # numbered before rows are left out, so that a plan can name them
            name = source.fresh("row number")
            self._source = source.derived(number_rows(source.lines, name, source.backend))
            values["row"] = nw.col(name)
        rows = self._source.rows(Request(plan.grouping, plan.binary, plan.numeric, plan.keys, values)).weighing()
        self.dropped, self._row = rows.dropped, rows.columns.get("row")
        if "distance" in values:
            signed = rows.columns["distance"].astype(float)
        else:
            self._features = np.column_stack([rows.columns[role] for role in plan.features])
            signed = np.asarray(plan.distance.evaluate(self._features) * rows.columns.get("factors", 1.0), dtype=float)
        mass = np.ones(signed.size) if rows.weight is None else rows.weight
        if not plan.distance.signed:
            _refuse(float(mass[signed < 0].sum()), wording.negative)
        coding = _coding(plan, rows)
        cell, codes = coding.dense(_codes(coding, plan, rows.partitions, rows.columns))
        number = None if rows.design is None else total(cell, rows.count, codes.size)
        cells = coding.cells(codes, total(cell, rows.weight, codes.size), number)
        _refuse_uncountable(source, cells.rows)
        sample = None if rows.design is None else Sample(rows.design, cell)
        super().__init__(np.abs(signed), cell, cells, rows.weight, sample)
        if plan.distance.signed:
            # Only now is the scale known on which a distance of the wrong sign may be rounding.
            across = cells.side[cell] * signed < -AGREEMENT * self.spread
            _refuse(float(mass[across].sum()), wording.disagreement)

    def movers(self, moved: FloatArray) -> Movers:
        """The rows that flip, nearest first."""
        share = fractions(self.distance, self.cell, moved, self.weight)
        rows, complete = _nearest(self.distance, share)
        number = np.full(rows.size, -1) if self._row is None else self._row[rows].astype(np.intp)
        if self._features is None:
            # Expressions leave their columns where they are; a table with an order can be asked for the listed rows.
            columns = [nw.col(column).cast(nw.Float64) for column in self._plan.distance.columns]
            start = collect(self._source.lines.select(*columns))[number].to_numpy()
        else:
            start = self._features[rows]
        return Movers(
            number, self.cell[rows], self.distance[rows], share[rows], *_points(self._plan.distance, start), complete
        )


class TallyByPasses:
    """Rows that an engine holds: grouped passes only."""

    def __init__(self, source: Source, plan: Plan) -> None:
        self._source, self._plan = source, plan
        self._distance = plan.signed.abs()
        cells = source.cells(plan.first)
        self.dropped = cells.dropped
        self._coding = _coding(plan, cells)
        cell, self._codes = self._coding.dense(_codes(self._coding, plan, cells.partitions, cells.keys))
        size = self._codes.size
        sums = {name: total(cell, value, size) for name, value in cells.values.items()}
        number = None if cells.design is None else total(cell, cells.count, size)
        self.cells = self._coding.cells(self._codes, total(cell, cells.mass, size), number)
        self.sample = None if cells.design is None else Sample(cells.design, cell)
        _refuse_uncountable(source, self.cells.rows)
        across = float(sums["across"].sum())
        if not plan.distance.signed:
            _refuse(across, wording.negative)
        finite = max(float((self.cells.count - sums["infinite"]).sum()), 1.0)
        mean = float((self.cells.side * sums["first"]).sum() / finite)
        square = float(sums["second"].sum() / finite)
        self._rows = BinnedRows(self._binned, self.cells.side, float(sums["first"].sum() / finite))
        self._deviation = float(np.sqrt(max(0.0, square - mean * mean))) if square < np.inf else np.inf
        if across and plan.distance.signed:
            # Only now is the scale known on which some of them may be rounding.
            beyond = self._sums({"across": flag(plan.across(AGREEMENT * self.spread))})
            _refuse(float(beyond["across"].sum()), wording.disagreement)

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
        inside = self._kept().filter(distance <= bandwidth)
        rows = nw.col("rows")
        same = aggregate(inside, {"value": value}, {"rows": self._source.number})
        ties = collect(aggregate(same, {}, {"square": rows * rows, "total": rows}))
        return Boundary(sums["kernel"], sums["near"], tie(float(ties["square"].sum()), float(ties["total"].sum())))

    def pool(self, vectors: FloatArray) -> Pool:
        """Segments are bins of a grouped pass."""
        return self._rows

    def smoothed(self) -> Measured | None:
        """One pass counts the places of a lattice, one the rows at each."""
        places = aggregate(self._kept(), {"value": self._distance}, {})
        if not 0 < float(collect(aggregate(places, {}, {}))[COUNT].sum()) <= PLACES:
            return None
        sums, cell = self._pass({"value": self._distance}, {})
        return smooth(self.cells, cell, sums.keys["value"].astype(float), sums.mass, self.sample)

    def movers(self, moved: FloatArray) -> Movers:
        """The rows that flip, nearest first; an engine has no row numbers."""
        mass = float(moved.sum()) if np.isfinite(moved).all() else 0.0
        if not mass > 0:
            no_row, no_number, no_point = np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, 0))
            return Movers(no_row, no_row, no_number, no_number, no_point, no_point, complete=True)
        plan = self._plan
        features = {role: nw.col(column).cast(nw.Float64) for role, column in plan.features.items()}
        request = Request(plan.grouping, plan.binary, keys=plan.keys, values={"distance": self._distance, **features})
        scale = None
        if self.sample is not None:  # weights of the rows that are fetched, on the scale of all
            weighed = self._source.weight * self._source.number
            request = replace(request, values={**request.values, "mass": weighed})
            scale = self.cells.rows / float(collect(aggregate(self._kept(), {}, {"mass": weighed}))["mass"].sum())
        goal = float(PLAN_ROWS)
        while True:
            radius = self._rows.radius(moved, min(goal, mass), FETCH)
            rows = self._source.filter(self._distance <= radius).rows(request)
            cell = self._cell(rows.partitions, rows.columns)
            distance = rows.columns["distance"].astype(float)
            share = fractions(distance, cell, moved, rows.weight if scale is None else rows.columns["mass"] * scale)
            listed, complete = _nearest(distance, share)
            if listed.size >= PLAN_ROWS or goal >= mass:
                break
            goal *= 4.0  # lines that stand for several rows: more of them are needed
        start = np.column_stack([rows.columns[role][listed] for role in features])
        nowhere = np.full(listed.size, -1)
        ends = _points(plan.distance, start)
        return Movers(nowhere, cell[listed], distance[listed], share[listed], *ends, complete and goal >= mass)

    def _kept(self) -> Lazy:
        """The rows that the passes keep: without those dropped for what is missing in them."""
        plan, kept = self._plan, self._source.frame
        if self.dropped:
            needed = [nw.col(column) for column in plan.binary.values()]
            needed += [nw.col(x) if isinstance(x, str) else x for x in plan.numeric.values()]
            if plan.grouping is not None and self._source.missing_group == "drop":
                needed += plan.grouping.keys.values()
            for expression in needed:
                kept = kept.filter(~expression.is_null())
        return kept

    def _binned(self, bins: Bins) -> Segments:
        """Count and sum the distances in each bin, cell by cell."""
        finite = either(self._distance.is_finite(), self._distance, 0.0)
        sums, cell = self._pass(bins.keys(self._distance), {"total": finite}, bins.inside(self._distance))
        every = self.cells.count
        if bins.zeros and not np.allclose(total(cell, sums.mass, every.size), every, rtol=1e-9, atol=0.5):
            raise DataError("data: the table changed between two passes; audit a copy that does not change.")
        return bins.segments(cell, sums.mass, sums.values["total"], sums.keys)

    def _sums(self, values: Mapping[str, nw.Expr], where: nw.Expr | None = None) -> Mapping[str, FloatArray]:
        """Sums over each cell."""
        try:
            sums, cell = self._pass({}, values, where)
        except EmptyFrame:  # nobody is there
            return {name: np.zeros(self.cells.count.size) for name in values}
        return {name: total(cell, value, self.cells.count.size) for name, value in sums.values.items()}

    def _pass(
        self, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr], where: nw.Expr | None = None
    ) -> tuple[Cells, IntArray]:
        """One pass; over the rows ``where`` a condition holds, which costs less than to sort the others apart.

        Weights are scaled to sum to the rows: those of a part would be scaled by themselves.
        """
        source = self._source if where is None or self.sample is not None else self._source.filter(where)
        first = self._plan.first
        numeric = first.numeric if self.dropped else {}  # the first pass found nothing missing
        sums = source.cells(replace(first, numeric=numeric, keys={**self._plan.keys, **keys}, values=values))
        return sums, self._cell(sums.partitions, sums.keys)

    def _cell(self, partitions: tuple[Partition, ...], columns: Mapping[str, AnyArray]) -> IntArray:
        codes = _codes(self._coding, self._plan, partitions, columns)
        return np.searchsorted(self._codes, codes).astype(np.intp)


def _coding(plan: Plan, rows: Cells | Rows) -> Coding:
    """How rows, or the lines of a pass, are told apart."""
    columns = rows.keys if isinstance(rows, Cells) else rows.columns
    attributes = [
        Attribute(p.dimensions[0], tuple(g.items[0][1] for g in p.groups), tuple(g.label for g in p.groups))
        for p in rows.partitions
    ]
    u = tuple(np.unique(columns[name]) for name in plan.keys)
    return Coding(tuple(attributes), plan.outcome is not None, tuple(plan.u), u)


def _codes(coding: Coding, plan: Plan, partitions: tuple[Partition, ...], columns: Mapping[str, AnyArray]) -> IntArray:
    """The code of each row, by the groups it names: a filtered table may lack some groups."""
    levels = []
    for attribute, partition in zip(coding.attributes, partitions, strict=True):
        place = {label: i for i, label in enumerate(attribute.labels)}
        levels.append(np.array([*(place[group.label] for group in partition.groups), -1])[partition.codes])
    return coding.code(levels, [columns[role] for role in plan.binary], [columns[name] for name in plan.keys])


def _nearest(distance: FloatArray, share: FloatArray) -> tuple[IntArray, bool]:
    """Places of the rows of which a share flips, nearest first, and whether they are all listed."""
    rows = np.flatnonzero(share > TRACE)
    return rows[np.argsort(distance[rows], kind="stable")[:PLAN_ROWS]], rows.size <= PLAN_ROWS


def _points(distance: Distance, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where rows are and where they would go; no columns where the distance does not know."""
    end, unknown = distance.move(start), np.empty((len(start), 0))
    return (unknown, unknown) if end is None else (start, end)


def _threshold(source: Source, prediction: str, score: str) -> float:
    """The threshold behind the decisions: halfway between the highest score refused and the lowest selected."""
    ends = source.extremes(nw.col(score), {"decision": number(prediction)}).to_dicts()
    scores = {end["decision"]: end for end in ends if end["decision"] is not None}
    if not scores.keys() <= {0, 1}:
        raise NotBinary(f"prediction: column {prediction!r} has values that are neither 0 nor 1. Recode the column.")
    if len(scores) < 2:
        raise NotEnoughData(
            "prediction: every row has the same decision; there is no boundary to infer. Give threshold."
        )
    refused, selected = scores[0]["high"], scores[1]["low"]
    if refused > selected:
        raise DataError(wording.NO_THRESHOLD)
    return float(refused + selected) / 2


def _refuse_levels_without_factor(source: Source, distance: Distance) -> None:
    """Raise about the levels that `PerGroup` was told no factor for: they are forgotten, not missing."""
    while isinstance(distance, PerGroup):
        column, factor = nw.col(distance.column), levels(distance.column, distance.factors)
        without = source.filter(factor.is_null() & ~column.is_null()).sums(Pass({"level": column}, {}))
        if len(without):
            names = ", ".join(sorted(map(repr, without["level"].to_list()))[:10])
            known = ", ".join(map(repr, distance.factors))
            raise MissingValues(
                f"factors: {without[COUNT].sum():,.0f} rows have a level of {distance.column!r} without a factor: "
                f"{names}. Given: {known}. Give one for each level."
            )
        distance = distance.distance


def _refuse_uncountable(source: Source, rows: float) -> None:
    if rows > COUNTABLE:
        raise BadCount(
            f"count: column {source.count!r} adds up to {rows:.3g} rows; more than {COUNTABLE:.2g} cannot be "
            "counted one by one. If it holds weights, they are not counts."
        )


def _refuse(rows: float, message: Callable[[float], str]) -> None:
    """Raise about rows whose distance is below 0, or whose decision is not on their side of the boundary."""
    if rows:
        raise DataError(message(rows))
