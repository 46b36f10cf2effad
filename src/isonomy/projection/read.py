"""Reading rows: as arrays, or by grouped passes if an engine holds them and the distance is an expression of columns.

By passes, counting in bins takes the place of sorting, and no row is collected except those that a plan lists. One pass
counts the cells, one bins the distances; each round of the program is one more pass (see `program.solve.BinnedRows`);
one pass sums the kernel, one counts ties.

Scores on a lattice (rounded, or counted in points) have no density. They are spread over the steps of the lattice: the
rows at one place are laid out evenly from halfway to the place before to halfway to the next. Each side of the boundary
begins where its first step does, so it does not matter whether the threshold is on the lattice or between two places.
Steps must be equal, and no place near the boundary may be heaped: leaves of trees and preferred round numbers do not
form such a lattice. Nothing is drawn, and the cost depends on the number of places, not of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, EmptyFrame, MissingValues, NotBinary, NotEnoughData, UsageError
from isonomy.frames import COUNT, Request, Sample, Source, aggregate, collect
from isonomy.frames.adapt import Lazy, as_column
from isonomy.frames.design import Design
from isonomy.frames.expressions import Expression, constant, either, flag, levels, number
from isonomy.frames.sums import number_rows
from isonomy.inference import designs
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.projection.program import solve
from isonomy.projection.program.criteria import DecisionCells, total
from isonomy.projection.program.distances import AGREEMENT, Distance, refuse_wrong_side

if TYPE_CHECKING:
    from isonomy.projection.project import ProjectPlan

PLAN_ROWS = 10_000  # rows listed in a plan, nearest first
FETCH = 4 * PLAN_ROWS  # rows fetched for a plan, about
TRACE = 1e-9  # a smaller share of a row is rounding, not a move
NORMAL_IQR = 1.3489795003921634  # distance between the quartiles of a standard normal
KERNEL_REACH = 9.0  # bandwidths beyond which the Gaussian kernel is less than a last digit of its value at 0

PLACES = 2**16  # a lattice has at most this many places
PARTS = 2**20  # parts that all places together are cut into, about
LEAST = 3  # places on either side of the boundary that a lattice needs
SHARED = 0.9  # share of the rows at a place with other rows that a lattice needs
AROUND = 5  # places on either side that are checked for heaps
UNEVEN, CHANCE = 0.25, 3.5  # curvature of their counts that does not matter, relative, and in standard deviations
ROUNDING = 1e-9  # places this close (in units of the spread) are one

_NOWHERE, _REST, _ZERO = -1.0, -2.0, -3.0  # codes of rows in no bin, beyond the last, and on the boundary


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


@dataclass(eq=False)
class MeasuredArrays:
    """Distances and cells of rows, as arrays; ``sample`` if rows have weights or clusters."""

    distance: FloatArray
    cell: IntArray
    cells: DecisionCells
    weight: FloatArray | None = None
    sample: DesignedRows | None = None

    @cached_property
    def signed(self) -> FloatArray:
        return self.cells.side[self.cell] * self.distance

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
        low, high = np.quantile(value, solve.QUARTILES, weights=weight, method="inverted_cdf")
        return robust(deviation, float(low), float(high))

    def boundary(self, bandwidth: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """For each cell: the sum of the Gaussian kernel of distance / bandwidth, the rows within one bandwidth, and the
        rows at distance 0, which move free. Last, the number of other rows with which a row within one bandwidth shares
        its exact distance, on average.
        """
        weight, size, near = self.weight, self.cells.count.size, self.distance <= bandwidth
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
        tie = float(same @ same / same.sum() - 1.0) if same.any() else 0.0
        return kernel, total(self.cell[near], inside, size), free, tie

    def pool(self, vectors: FloatArray) -> solve.Pool:
        """Sorted within cells; one moment needs no more than the rows. Cells that change no moment are left out."""
        if vectors.shape[1] == 1:
            return solve.SingleRows(self.distance, self.cell, self.weight)
        useful = np.where(vectors.any(axis=1), np.arange(len(vectors)), -1)
        return solve.SortedRows(self.distance, useful[self.cell], len(vectors), self.weight)

    def smoothed(self) -> MeasuredArrays | None:
        """The rows of a lattice spread over its steps; None if they are not on a lattice."""
        order = np.lexsort((self.distance, self.cell))
        cell, distance = self.cell[order], self.distance[order]
        first = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (distance[1:] != distance[:-1])))
        mass = np.ones(order.size) if self.weight is None else self.weight[order]
        return smooth(self.cells, cell[first], distance[first], np.add.reduceat(mass, first), self.sample)


def robust(deviation: float, low: float, high: float) -> float:
    """The smaller of the standard deviation and its normal value by the quartiles, so that far rows do not inflate it.

    Quartiles coincide where half of the rows are tied; the width is then the standard deviation.
    """
    between = (high - low) / NORMAL_IQR
    return min(deviation, between) if between > 0 else deviation


class RowsInMemory(MeasuredArrays):
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
        cells = DecisionCells(sample, plan.u, source.count)
        design = None if sample.design is None else DesignedRows(sample.design, cells.lines)
        super().__init__(np.abs(signed), cells.lines, cells, sample.weight, design)
        if plan.cost.signed:
            # The spread gives the scale on which a distance of the wrong sign may be rounding.
            across = cells.side[cells.lines] * signed < -AGREEMENT * self.spread
            refuse_wrong_side(float(mass[across].sum()), signed=True)

    def movers(self, moved: FloatArray) -> dict[str, Any]:
        rows, columns = list_moves(self.distance, self.cell, moved, self.weight)
        place = np.full(rows.size, -1) if self._row is None else self._row[rows].astype(np.intp)
        if self._features is None:
            # The columns behind an expression were not read; the listed rows are looked up by their numbers.
            start = collect(self._lines.select(*map(number, self._cost.columns)))[place].to_numpy()
        else:
            start = self._features[rows]
        return {**columns, "row": place, "start": start}


class RowsByPasses:
    """Rows that an engine holds, with a distance that is an expression of columns."""

    def __init__(self, plan: ProjectPlan) -> None:
        assert plan.signed is not None
        self._source, self._plan, self._distance = plan.source, plan, plan.signed.abs()
        sample = plan.source.cells(plan.first)
        self.dropped = sample.dropped
        self.cells = DecisionCells(sample, plan.u, plan.source.count)
        cell = self.cells.lines
        self.sample = None if sample.design is None else DesignedRows(sample.design, cell)
        sums = {name: total(cell, value, self.cells.count.size) for name, value in sample.values.items()}
        across = float(sums["across"].sum())
        if not plan.cost.signed:
            refuse_wrong_side(across, signed=False)
        finite = max(float((self.cells.count - sums["infinite"]).sum()), 1.0)
        mean = float((self.cells.side * sums["first"]).sum() / finite)
        square = float(sums["second"].sum() / finite)
        self._rows = solve.BinnedRows(self._binned, self.cells.side, float(sums["first"].sum() / finite))
        self._deviation = float(np.sqrt(max(0.0, square - mean * mean))) if square < np.inf else np.inf
        if across and plan.cost.signed:
            # The spread gives the scale on which some of them may be rounding.
            beyond = self._sums({"across": flag(plan.across(AGREEMENT * self.spread))})
            refuse_wrong_side(float(beyond["across"].sum()), signed=True)

    @property
    def spread(self) -> float:
        """Robust spread of the signed distance. A program that is solved first has located the quartiles."""
        return robust(self._deviation, *self._rows.quartiles)

    def boundary(self, bandwidth: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """As `MeasuredArrays.boundary`: one pass for the kernel sums, one for the ties."""
        distance = self._distance
        scaled = distance * (1.0 / bandwidth)
        kernel = (scaled * scaled * -0.5).exp() * float(1 / np.sqrt(2 * np.pi))
        kernel = either(scaled < KERNEL_REACH, kernel, 0.0)
        sums = self._sums({"kernel": kernel, "near": flag(distance <= bandwidth)}, scaled < KERNEL_REACH)
        # One value on both sides of the boundary, where 0 and -0 are the same place.
        value = either(number(self._plan.prediction) == 1.0, distance, either(distance > 0, -distance, 0.0))
        inside = self._complete().filter(distance <= bandwidth)
        rows = number("rows")
        same = aggregate(inside, {"value": value}, {"rows": self._source.number})
        ties = collect(aggregate(same, {}, {"square": rows * rows, "total": rows}))
        square, every = float(ties["square"].sum()), float(ties["total"].sum())
        coarse = self._rows.coarse
        free = total(coarse.group, np.where(coarse.high == 0, coarse.count, 0.0), self.cells.count.size)
        return sums["kernel"], sums["near"], free, square / every - 1.0 if every > 0 else 0.0

    def pool(self, vectors: FloatArray) -> solve.Pool:
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
        features = {role: number(column) for role, column in self._plan.features.items()}
        mass = float(moved.sum()) if np.isfinite(moved).all() else 0.0
        if not mass > 0:
            rows, columns = list_moves(np.empty(0), np.empty(0, dtype=np.intp), moved, None)
            return {**columns, "row": rows, "start": np.empty((0, len(features)))}
        request = replace(self._plan.request, numeric={}, values={"distance": self._distance, **features})
        scale = None
        if self.sample is not None:  # weights of the rows that are fetched, on the scale of all
            weighed = self._source.weight * self._source.number
            request = replace(request, values={**request.values, "mass": weighed})
            scale = self.cells.rows / float(collect(aggregate(self._complete(), {}, {"mass": weighed}))["mass"].sum())
        goal = float(PLAN_ROWS)
        while True:
            radius = self._rows.radius(moved, min(goal, mass), FETCH)
            sample = self._source.filter(self._distance <= radius).rows(request)
            weight = sample.weight if scale is None else sample.columns["mass"] * scale
            distance = sample.columns["distance"].astype(float)
            rows, columns = list_moves(distance, self.cells.locate(sample), moved, weight)
            if rows.size >= PLAN_ROWS or goal >= mass:
                break
            goal *= 4.0  # lines that stand for several rows: more of them are needed
        columns["complete"] = columns["complete"] and goal >= mass
        start = np.column_stack([sample.columns[role][rows] for role in features])
        return {**columns, "row": np.full(rows.size, -1), "start": start}

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

    def _binned(
        self, low: FloatArray, high: FloatArray, origin: FloatArray, by_value: BoolArray, *, rest: bool, zeros: bool
    ) -> solve.Segments:
        """Count and sum the distances in each interval from ``low`` to ``high``, in bins counted from ``origin``.

        An interval ``by_value`` is not cut: its rows are grouped by their distance. ``rest``: with one bin for all that
        is beyond the intervals. ``zeros``: rows on the boundary are a segment of their own, in the first pass; no bin
        holds them.
        """
        distance, where = self._distance, None
        code, value = constant(_NOWHERE), constant(0.0)
        if rest:
            code = either((distance >= float(high.max())) & distance.is_finite(), _REST, code)
        inside = [(distance >= a) & (distance < b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        for i, within in enumerate(inside):
            start, single, first = float(origin[i]), bool(by_value[i]), float(i * solve.PIECES)
            piece = ((distance - start) * (solve.PIECES / (float(high[i]) - start))).floor().clip(
                0, solve.PIECES - 1
            ) + first
            code = either(within, first if single else piece, code)
            value = either(within, distance if single else 0.0, value)
        keys = {"bin": either(distance == 0, _ZERO if zeros else _NOWHERE, code)}
        if by_value.any():
            keys["value"] = value
        if not (rest or zeros):
            where = reduce(or_, inside)
        sums, cell = self._pass(keys, {"total": either(distance.is_finite(), distance, 0.0)}, where)
        expected = self.cells.count
        if zeros and not np.allclose(total(cell, sums.mass, expected.size), expected, rtol=1e-9, atol=0.5):
            raise DataError("data: the table changed between two passes; audit a copy that does not change.")
        bins = sums.columns["bin"].astype(np.intp)
        binned = bins != _NOWHERE
        bins, count = bins[binned], sums.mass[binned]
        interval, place = np.divmod(np.maximum(bins, 0), solve.PIECES)
        width = np.where(by_value, 0.0, (high - origin) / solve.PIECES)[interval]
        kind = np.clip(-1 - bins, 0, 2)
        begin = np.choose(kind, [origin[interval] + place * width, high.max(), 0.0])
        stop = np.choose(kind, [begin + width, np.inf, 0.0])
        if by_value.any():
            single_value, exact = by_value[interval] & (bins >= 0), sums.columns["value"][binned].astype(float)
            begin, stop = np.where(single_value, exact, begin), np.where(single_value, exact, stop)
        mean = np.clip(sums.values["total"][binned] / count, begin, stop)
        return solve.Segments(cell[binned], count, mean, begin, stop)

    def _sums(self, values: Mapping[str, Expression], where: Expression | None = None) -> Mapping[str, FloatArray]:
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
        return sums, self.cells.locate(sums)


Rows = MeasuredArrays | RowsByPasses


def list_moves(
    distance: FloatArray, cell: IntArray, moved: FloatArray, weight: FloatArray | None
) -> tuple[IntArray, dict[str, Any]]:
    """The places of the rows that flip, in whole or in part, nearest first, and what a plan says about them."""
    share = solve.fractions(distance, cell, moved, weight)
    rows = np.flatnonzero(share > TRACE)
    listed = rows[np.argsort(distance[rows], kind="stable")[:PLAN_ROWS]]
    columns = {"cell": cell[listed], "distance": distance[listed], "fraction": share[listed]}
    return listed, {**columns, "complete": rows.size <= PLAN_ROWS}


def with_decisions(source: Source, cost: Distance) -> tuple[Source, str]:
    """The table with the decisions of a model as a column, and the name of that column."""
    name, signed = source.fresh("decision"), cost.expression()
    source.require(**{f"model: feature {column!r}": column for column in cost.columns})
    source.check(Request(numeric={f"feature {column!r}": column for column in cost.columns}))
    if signed is not None:
        return source.with_role(name, (signed >= 0).cast(nw.Float64)), name
    if source.lazy:
        raise UsageError(
            "model: its decisions cannot be computed inside an engine or a file; add them as a column and name it as "
            "prediction, or collect the rows first."
        )
    features = collect(source.lines.select(*map(number, cost.columns))).to_numpy()
    decisions, complete = np.full(len(features), np.nan), np.isfinite(features).all(axis=1)
    if complete.any():
        decisions[complete] = cost.selects(features[complete])
    frame = source.lines.to_native().with_columns(as_column(name, decisions).fill_nan(None))
    return source.derived(nw.from_native(frame), [name]), name


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
    price = plan.price
    if price is None:
        return
    level, factor = nw.col(price.column), levels(price.column, price.factors)
    without = plan.source.filter(factor.is_null() & ~level.is_null()).sums({"level": level}, {})
    if len(without):
        names = ", ".join(sorted(map(repr, without["level"].to_list()))[:10])
        raise MissingValues(
            f"factors: {without[COUNT].sum():,.0f} rows have a level of {price.column!r} without a factor: {names}. "
            f"Given: {', '.join(map(repr, price.factors))}. Give one for each level."
        )


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
    parts = np.where(finite, np.clip(count, 1, max(1, PARTS // distance.size)), 1).astype(np.intp)
    which = np.repeat(np.arange(distance.size), parts)
    number = np.arange(which.size) - np.repeat(np.cumsum(parts) - parts, parts)
    with np.errstate(invalid="ignore"):
        laid = start[which] + width[which] * (number + 0.5) / parts[which]
    return MeasuredArrays(laid, cell[which], cells, (count / parts)[which], sample)
