"""The same kernel sums as `memory`, asked of an engine: no row leaves polars, DuckDB, Spark or a warehouse.

Rows are added up by user, then by group, in nested grouped sums. Per-bin numbers (the pooled curve) are joined from a
small table made in the engine's own session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.calibration.plan import Fit, Marks, Plan, Products, Totals, polynomial
from isonomy.calibration.smoothing import BINS, Axis
from isonomy.frames import COUNT, aggregate, collect
from isonomy.numerics.arrays import FloatArray

SCORE, OUTCOME, VOTE, LINES, GROUP, USER = "__s", "__y", "__w", "__c", "__g", "__u"
_MARK, _DENOMINATOR, _CELL, _OTHER = "__m", "__q", "__cell", "__other"


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """A lazy frame with the columns named above; groups are coded 0 upwards. ``clustered``: it has users."""

    frame: Any
    size: int
    clustered: bool
    spanning: bool  # whether a user appears in several groups
    axis: Axis

    def pair(self, first: int, second: int) -> Engine:
        """The rows of two groups, as groups 0 and 1."""
        if self.size == 2 and (first, second) == (0, 1):
            return self
        group = nw.col(GROUP)
        kept = self.frame.filter((group == first) | (group == second))
        code = nw.when(group == first).then(nw.lit(0)).otherwise(nw.lit(1))
        return replace(self, frame=kept.with_columns(code.alias(GROUP)), size=2)

    def histogram(self) -> tuple[FloatArray, FloatArray]:
        """Votes, and votes times outcomes, by group and bin of the axis."""
        vote = nw.col(VOTE)
        values = {"weight": vote, "outcome": vote * nw.col(OUTCOME)}
        keys = {"group": nw.col(GROUP), "bin": self.axis.bin(nw.col(SCORE))}
        cells = collect(aggregate(self.frame, keys, values))
        at = cells["group"].to_numpy().astype(np.intp), cells["bin"].to_numpy().astype(np.intp)
        found = np.zeros((2, self.size, BINS))
        found[0][at], found[1][at] = cells["weight"].to_numpy(), cells["outcome"].to_numpy()
        return found[0], found[1]

    def totals(self, plan: Plan) -> Totals:
        """First pass; see `plan`."""
        d, points = plan.degree, plan.points.size
        frame = self._weighted(self._marked(plan.marks), plan)
        y = nw.col(OUTCOME)
        values: dict[str, nw.Expr] = {}
        for j in range(points):
            term, u = nw.col(f"k{j}"), plan.scaled(nw.col(SCORE), j)
            if plan.marks is not None:
                values[f"m{j}"] = term * nw.col(_MARK)
                if plan.marks.share is not None:
                    values[f"q{j}"] = term * nw.col(_DENOMINATOR)
            for power in range(2 * d + 1):
                values[f"p{power}_{j}"] = term
                if power <= d:
                    values[f"y{power}_{j}"] = term * y
                term = term * u
        cells = collect(aggregate(frame, {"group": nw.col(GROUP)}, values))
        groups = cells["group"].to_numpy().astype(np.intp)

        def table(prefix: str) -> FloatArray:
            found = np.zeros((self.size, points))
            for j in range(points):
                found[groups, j] = cells[f"{prefix}{j}"].to_numpy()
            return found

        powers = np.stack([table(f"p{k}_") for k in range(2 * d + 1)])
        outcome = np.stack([table(f"y{k}_") for k in range(d + 1)])
        mark = np.empty(0) if plan.marks is None else table("m")
        shared = plan.marks is not None and plan.marks.share is not None
        return Totals(powers, outcome, mark, table("q") if shared else None)

    def products(self, plan: Plan, fit: Fit) -> Products:
        """Second pass; see `plan`. One query a group, and one a pair of groups that share users."""
        points, kinds = plan.points.size, (("e", "f") if plan.curves else ("e",))
        second = np.zeros((len(kinds), self.size, self.size, points, points))
        square = np.zeros((self.size, points))
        influences = [self._influences(plan, fit, g) for g in range(self.size)]
        pairs = list(combinations_with_replacement(range(points), 2))
        for g, by_user in enumerate(influences):
            values = {f"{kind}{i}_{j}": nw.col(f"{kind}{i}") * nw.col(f"{kind}{j}") for kind in kinds for i, j in pairs}
            values |= {f"n{j}": nw.col(f"n{j}") * nw.col(f"n{j}") for j in range(points)}
            sums = _one(aggregate(by_user, {}, values))
            for k, kind in enumerate(kinds):
                for i, j in pairs:
                    second[k, g, g, i, j] = second[k, g, g, j, i] = sums.get(f"{kind}{i}_{j}", 0.0)
            square[g] = [sums.get(f"n{j}", 0.0) for j in range(points)]
        for a, b in combinations(range(self.size), 2) if self.spanning else ():
            both = influences[a].join(influences[b], on="user", how="inner", suffix=_OTHER)
            every = [(kind, i, j) for kind in kinds for i in range(points) for j in range(points)]
            values = {f"{k}{i}_{j}": nw.col(f"{k}{i}") * nw.col(f"{k}{j}{_OTHER}") for k, i, j in every}
            sums = _one(aggregate(both, {}, values))
            for kind, i, j in every:
                product = sums.get(f"{kind}{i}_{j}", 0.0)
                second[kinds.index(kind), a, b, i, j] = second[kinds.index(kind), b, a, j, i] = product
        return Products(second[0], second[1] if plan.curves else np.empty(0), square)

    def increments(self, marks: Marks, cell: NDArray[np.intp], cells: int) -> tuple[FloatArray, FloatArray]:
        """Sums of the marks in each score interval, and the sums of products over users; see `memory`."""
        frame = self._marked(marks).with_columns(self.axis.bin(nw.col(SCORE)).alias("bin"))
        small = beside(frame, {"bin": np.arange(BINS, dtype=np.float64), _CELL: cell.astype(np.float64)})
        frame = frame.join(small, on="bin", how="inner")
        value = nw.col(VOTE) * nw.col(_MARK)
        keys = {"cell": nw.col(_CELL)}
        if not self.clustered:
            sums = collect(aggregate(frame, keys, {"v": value, "vv": value * value / nw.col(LINES)}))
            total, second = np.zeros(cells), np.zeros((cells, cells))
            at = sums["cell"].to_numpy().astype(np.intp)
            total[at], second[at, at] = sums["v"].to_numpy(), sums["vv"].to_numpy()
            return total, second
        by_user: Any = aggregate(frame, {"user": nw.col(USER)} | keys, {"v": value}).drop(COUNT)
        total, second = np.zeros(cells), np.zeros((cells, cells))
        first = collect(aggregate(by_user, keys | {"cell": nw.col("cell")}, {"v": nw.col("v")}))
        total[first["cell"].to_numpy().astype(np.intp)] = first["v"].to_numpy()
        both = by_user.join(by_user, on="user", how="inner", suffix=_OTHER)
        product = nw.col("v") * nw.col(f"v{_OTHER}")
        sums = collect(aggregate(both, {"a": nw.col("cell"), "b": nw.col(f"cell{_OTHER}")}, {"v": product}))
        places = sums["a"].to_numpy().astype(np.intp), sums["b"].to_numpy().astype(np.intp)
        second[places] = sums["v"].to_numpy()
        return total, second

    def _weighted(self, frame: Any, plan: Plan) -> Any:
        """Add the vote times the kernel at each grid point as columns: an engine then computes each once."""
        return frame.with_columns(
            (nw.col(VOTE) * plan.weigh(plan.scaled(nw.col(SCORE), j))).alias(f"k{j}") for j in range(plan.points.size)
        )

    def _marked(self, marks: Marks | None) -> Any:
        """Add the mark and its denominator; the curves are joined piece by piece."""
        if marks is None:
            return self.frame
        score, columns = nw.col(SCORE), {}
        for name, curve in marks.curves.items():
            columns[f"{name}_intercept"], columns[f"{name}_slope"] = curve.pieces
        centres = self.axis.centres
        small = beside(self.frame, {"piece": np.arange(BINS - 1, dtype=np.float64)} | columns)
        placed = self.frame.with_columns(marks.outcome.position(score).alias("piece"))
        joined = placed.join(small, on="piece", how="inner")
        inside = score.clip(float(centres[0]), float(centres[-1]))
        at = {n: nw.col(f"{n}_intercept") + nw.col(f"{n}_slope") * inside for n in marks.curves}
        first, denominator = marks.row(nw.col(OUTCOME), 0, at)
        other, _ = marks.row(nw.col(OUTCOME), 1, at)
        mark = first if denominator is None else nw.when(nw.col(GROUP) == 0).then(first).otherwise(other)
        added = [mark.alias(_MARK)] + ([] if denominator is None else [denominator.alias(_DENOMINATOR)])
        return joined.with_columns(*added)

    def _influences(self, plan: Plan, fit: Fit, g: int) -> Any:
        """One line a user of group ``g`` (a row, if there are no users): its influence on every number."""
        own = self._marked(plan.marks).filter(nw.col(GROUP) == g)
        frame = self._weighted(own, plan)
        y = nw.col(OUTCOME)
        # A line that stands for c rows is c independent rows, not one row of weight c.
        root: Any = 1.0 if self.clustered else 1.0 / nw.col(LINES).sqrt()
        values: dict[str, nw.Expr] = {}
        for j in range(plan.points.size):
            k, u = nw.col(f"k{j}") * root, plan.scaled(nw.col(SCORE), j)
            centre, divisor = float(fit.centre[g, j]), float(fit.divisor[g, j])
            mark = y if plan.marks is None else nw.col(_MARK)
            shared = plan.marks is not None and plan.marks.share is not None
            off: Any = nw.col(_DENOMINATOR) * centre if shared else centre
            values[f"e{j}"] = k * (mark - off) * (1.0 / divisor if divisor else float("nan"))
            values[f"n{j}"] = k
            if plan.curves:
                lever, value = (polynomial(c[:, g, j].tolist(), u) for c in (fit.lever, fit.beta))
                values[f"f{j}"] = k * lever * (y - value)
        if self.clustered:
            return aggregate(frame, {"user": nw.col(USER)}, values).drop(COUNT)
        return frame.select(*(expr.alias(name) for name, expr in values.items()))


def beside(frame: Any, columns: dict[str, FloatArray]) -> Any:
    """A small table of numbers in the same session as ``frame``, to be joined to it."""
    import polars as pl

    small = pl.DataFrame(columns)
    engine = frame.implementation
    if engine.is_polars():
        return nw.from_native(small.lazy())
    native = frame.to_native()
    if engine.is_duckdb():
        small = small.to_arrow()
        return nw.from_native(native.query("_", "select * from small"))
    if engine.is_pyspark():
        return nw.from_native(native.sparkSession.createDataFrame(small.rows(), small.columns))
    import ibis

    return nw.from_native(ibis.memtable(small.to_arrow()))


def _one(frame: Any) -> dict[str, float]:
    """The single line of an ungrouped sum; nothing if there was no row."""
    rows = collect(frame).to_dicts()
    return rows[0] if rows else {}
