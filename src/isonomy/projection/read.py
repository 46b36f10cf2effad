"""Reading rows: as arrays, or by grouped passes if an engine holds them and the distance is an expression of columns.

By passes, counting in bins takes the place of sorting, and no row is collected except those that a plan lists. One pass
counts the cells, one bins the distances; each round of the program is one more pass (see `program.bins`); one pass sums
the kernel, one counts ties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, EmptyFrame, MissingValues, NotBinary, NotEnoughData
from isonomy.frames import COUNT, Sample, aggregate, collect
from isonomy.frames.adapt import Lazy
from isonomy.frames.expressions import Expression, either, flag, levels, number
from isonomy.frames.sums import number_rows
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.projection.program.bins import BinnedRows, DistanceBins
from isonomy.projection.program.criteria import Coding, total
from isonomy.projection.program.distances import AGREEMENT, refuse_wrong_side
from isonomy.projection.program.rows import (
    KERNEL_REACH,
    PLACES,
    Boundary,
    DesignedRows,
    MeasuredArrays,
    Pool,
    Segments,
    fractions,
    mean_tie,
    robust,
    smooth,
)

if TYPE_CHECKING:
    from isonomy.projection.project import ProjectPlan

PLAN_ROWS = 10_000  # rows listed in a plan, nearest first
FETCH = 4 * PLAN_ROWS  # rows fetched for a plan, about
TRACE = 1e-9  # a smaller share of a row is rounding, not a move


class RowsInMemory(MeasuredArrays):
    """Rows as arrays."""

    def __init__(self, plan: ProjectPlan) -> None:
        source = plan.source
        values = {} if plan.signed is None else {"distance": plan.signed}
        if not source.lazy:  # numbered before rows are left out, so that a plan can name them
            name = source.fresh("row number")
            source = source.derived(number_rows(source.lines, name, source.backend))
            values["row"] = number(name)
        sample = source.rows(replace(plan.request, values=values)).weighing()
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
        coding = Coding(sample, plan.u, source.count)
        cell, cells = coding.lines, coding.cells
        design = None if sample.design is None else DesignedRows(sample.design, cell)
        super().__init__(np.abs(signed), cell, cells, sample.weight, design)
        if plan.cost.signed:
            # The spread gives the scale on which a distance of the wrong sign may be rounding.
            across = cells.side[cell] * signed < -AGREEMENT * self.spread
            refuse_wrong_side(float(mass[across].sum()), signed=True)

    def movers(self, moved: FloatArray) -> dict[str, Any]:
        """The rows that flip, nearest first."""
        share = fractions(self.distance, self.cell, moved, self.weight)
        rows, complete = nearest(self.distance, share)
        place = np.full(rows.size, -1) if self._row is None else self._row[rows].astype(np.intp)
        if self._features is None:
            # The columns behind an expression were not read; the listed rows are looked up by their numbers.
            start = collect(self._lines.select(*map(number, self._cost.columns)))[place].to_numpy()
        else:
            start = self._features[rows]
        columns = {"row": place, "cell": self.cell[rows], "distance": self.distance[rows], "fraction": share[rows]}
        return {**columns, "start": start, "complete": complete}


class RowsByPasses:
    """Rows that an engine holds, with a distance that is an expression of columns."""

    def __init__(self, plan: ProjectPlan) -> None:
        assert plan.signed is not None
        self._source, self._plan, self._distance = plan.source, plan, plan.signed.abs()
        sample = plan.source.cells(plan.first)
        self.dropped = sample.dropped
        self._coding = Coding(sample, plan.u, plan.source.count)
        cell, self.cells = self._coding.lines, self._coding.cells
        self.sample = None if sample.design is None else DesignedRows(sample.design, cell)
        sums = {name: total(cell, value, self.cells.count.size) for name, value in sample.values.items()}
        across = float(sums["across"].sum())
        if not plan.cost.signed:
            refuse_wrong_side(across, signed=False)
        finite = max(float((self.cells.count - sums["infinite"]).sum()), 1.0)
        mean = float((self.cells.side * sums["first"]).sum() / finite)
        square = float(sums["second"].sum() / finite)
        self._rows = BinnedRows(self._binned, self.cells.side, float(sums["first"].sum() / finite))
        self._deviation = float(np.sqrt(max(0.0, square - mean * mean))) if square < np.inf else np.inf
        if across and plan.cost.signed:
            # The spread gives the scale on which some of them may be rounding.
            beyond = self._sums({"across": flag(plan.across(AGREEMENT * self.spread))})
            refuse_wrong_side(float(beyond["across"].sum()), signed=True)

    @property
    def spread(self) -> float:
        """Robust spread of the signed distance. A program that is solved first has located the quartiles."""
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
        coarse = self._rows.coarse()
        free = total(coarse.group, np.where(coarse.high == 0, coarse.count, 0.0), self.cells.count.size)
        tie = mean_tie(float(ties["square"].sum()), float(ties["total"].sum()))
        return Boundary(sums["kernel"], sums["near"], free, tie)

    def pool(self, vectors: FloatArray) -> Pool:
        """Segments are bins of a grouped pass."""
        return self._rows

    def smoothed(self) -> MeasuredArrays | None:
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
            return {**columns, "start": np.empty((0, len(self._plan.features))), "complete": True}
        plan = self._plan
        features = {role: number(column) for role, column in plan.features.items()}
        request = replace(plan.request, numeric={}, values={"distance": self._distance, **features})
        scale = None
        if self.sample is not None:  # weights of the rows that are fetched, on the scale of all
            weighed = self._source.weight * self._source.number
            request = replace(request, values={**request.values, "mass": weighed})
            scale = self.cells.rows / float(collect(aggregate(self._complete(), {}, {"mass": weighed}))["mass"].sum())
        goal = float(PLAN_ROWS)
        while True:
            radius = self._rows.radius(moved, min(goal, mass), FETCH)
            rows = self._source.filter(self._distance <= radius).rows(request)
            cell = self._coding.locate(rows)
            distance = rows.columns["distance"].astype(float)
            share = fractions(distance, cell, moved, rows.weight if scale is None else rows.columns["mass"] * scale)
            listed, complete = nearest(distance, share)
            if listed.size >= PLAN_ROWS or goal >= mass:
                break
            goal *= 4.0  # lines that stand for several rows: more of them are needed
        start = np.column_stack([rows.columns[role][listed] for role in features])
        columns = {"row": np.full(listed.size, -1), "cell": cell[listed], "distance": distance[listed]}
        columns |= {"fraction": share[listed], "start": start}
        return {**columns, "complete": complete and goal >= mass}

    def _complete(self) -> Lazy:
        """The rows that the passes use: without those dropped because a value is missing."""
        plan, frame = self._plan, self._source.frame
        if self.dropped:
            needed = [number(column) for column in (*plan.request.binary.values(), *plan.request.numeric.values())]
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
        """One pass, over the rows that meet the condition ``where``, which costs less than keying the others.

        With weights it is over all rows: weights are scaled to sum to the rows, and those of a part would be rescaled.
        """
        source = self._source if where is None or self.sample is not None else self._source.filter(where)
        request = self._plan.request
        numeric = request.numeric if self.dropped else {}  # the first pass found nothing missing
        sums = source.cells(replace(request, numeric=numeric, keys={**request.keys, **keys}, values=values))
        return sums, self._coding.locate(sums)


def nearest(distance: FloatArray, share: FloatArray) -> tuple[IntArray, bool]:
    """Places of the rows that flip, in whole or in part, nearest first, and whether all of them are listed."""
    rows = np.flatnonzero(share > TRACE)
    return rows[np.argsort(distance[rows], kind="stable")[:PLAN_ROWS]], rows.size <= PLAN_ROWS


def infer_threshold(plan: ProjectPlan) -> float:
    """The threshold behind the decisions: halfway between the highest score refused and the lowest selected."""
    ends = plan.source.extremes(nw.col(plan.score or ""), {"decision": number(plan.prediction)}).to_dicts()
    scores = {end["decision"]: end for end in ends if end["decision"] is not None}
    if not scores.keys() <= {0, 1}:
        raise NotBinary(
            f"prediction: column {plan.prediction!r} has values that are neither 0 nor 1. Recode the column."
        )
    if len(scores) < 2:
        raise NotEnoughData(
            "prediction: every row has the same decision; there is no boundary to infer. Give threshold."
        )
    refused, selected = scores[0]["high"], scores[1]["low"]
    if refused > selected:
        raise DataError(
            "threshold: none was given, and no one threshold separates the decisions: some rows are selected whose "
            "scores are below those of rows that are not. Give the threshold, or a distance column."
        )
    return float(refused + selected) / 2


def refuse_levels_without_factor(plan: ProjectPlan) -> None:
    """Raise if `PerGroup` has no factor for some levels: they were forgotten, and are not missing."""
    for layer in plan.prices:
        level, factor = nw.col(layer.column), levels(layer.column, layer.factors)
        without = plan.source.filter(factor.is_null() & ~level.is_null()).sums({"level": level}, {})
        if len(without):
            names = ", ".join(sorted(map(repr, without["level"].to_list()))[:10])
            raise MissingValues(
                f"factors: {without[COUNT].sum():,.0f} rows have a level of {layer.column!r} without a factor: "
                f"{names}. Given: {', '.join(map(repr, layer.factors))}. Give one for each level."
            )
