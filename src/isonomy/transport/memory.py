"""Rows in memory: arrays of just the columns needed, because the program sorts distances."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.frames import Group, Request, Source, collect
from isonomy.transport.criteria import Cells
from isonomy.transport.program import Pool, SingleRows, SortedRows, fractions, total
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
    dense,
    make_cells,
    points,
    refuse_disagreement,
    refuse_negative,
    tie,
)
from isonomy.transport.width import spread_of


class Arrays:
    """Distances and cells of rows, as arrays: all that inference needs of them."""

    def __init__(self, distance: FloatArray, cell: IntArray, cells: Cells, weight: FloatArray | None = None) -> None:
        self.cells = cells
        self._distance, self._cell, self._weight = distance, cell, weight
        self._signed = np.where(cells.selected == 1, 1.0, -1.0)[cell] * distance
        finite = np.isfinite(distance)
        self.spread = spread_of(self._signed[finite], None if weight is None else weight[finite])

    @classmethod
    def of(cls, distance: FloatArray, decision: IntArray, outcome: IntArray, group: npt.NDArray[Any]) -> Arrays:
        """From plain columns with one grouping, for simulations that do without a table."""
        levels, code = np.unique(group, return_inverse=True)
        every = np.arange(4 * levels.size)
        cell = ((code * 2 + outcome) * 2 + decision).astype(np.intp)
        cells = Cells(
            count=total(cell, None, every.size),
            selected=every % 2,
            outcome=every // 2 % 2,
            codes=(every // 4,),
            groups=(tuple(Group.of({"group": level}) for level in levels.tolist()),),
            u=np.empty((every.size, 0)),
        )
        return cls(distance, cell, cells)

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        weight, size = self._weight, self.cells.count.size
        near = self._distance <= bandwidth
        # Beyond 39 bandwidths the Gaussian kernel is 0 in double precision.
        reached = np.flatnonzero(self._distance < 39 * bandwidth)
        density = np.exp(-0.5 * (self._distance[reached] / bandwidth) ** 2) / np.sqrt(2 * np.pi)
        mass = density if weight is None else density * weight[reached]
        kernel = total(self._cell[reached], mass, size)
        inside = None if weight is None else weight[near]
        rows = total(self._cell[near], inside, size)
        _, place = np.unique(self._signed[near], return_inverse=True)
        same = np.bincount(place, inside)
        return Boundary(kernel, rows, tie(float((same**2.0).sum()), float(same.sum())))

    def pool(self, vectors: FloatArray) -> Pool:
        """Sorted within cells; one moment needs no more than the rows. Cells that change no moment are left out."""
        size = self.cells.count.size
        if vectors.shape[1] == 1:
            return SingleRows(self._distance, self._cell, self._weight)
        useful = np.where(vectors.any(axis=1), np.arange(size), -1)
        return SortedRows(self._distance, useful[self._cell], size, self._weight)


class InMemory(Arrays):
    """A table whose needed columns are read into memory."""

    def __init__(self, source: Source, options: Options) -> None:
        self._options = options
        number = None if source.lazy else _unused("row number", source)
        self._source = source if number is None else _indexed(source, number)
        signed = options.signed
        values = {} if signed is None else {"__signed": signed}
        if number is not None:
            values["__row"] = nw.col(number)
        rows = self._source.rows(
            Request(
                grouping=options.grouping,
                binary=options.binary,
                numeric=options.numeric,
                keys=options.keys,
                values=values,
            )
        )
        self.dropped = rows.dropped
        self._row = rows.columns.get("__row")
        self._features = None
        if signed is None:
            self._features = np.column_stack([rows.columns[role] for role in options.features])
            seen = options.distance.evaluate(self._features) * rows.columns.get("factors", 1.0)
        else:
            seen = rows.columns["__signed"]
        seen = np.asarray(seen, dtype=float)
        mass = np.ones(seen.size) if rows.weight is None else rows.weight
        if not options.distance.signed:
            refuse_negative(float(mass[seen < 0].sum()))
        code, sizes = cell_codes(rows.partitions, rows.columns, options)
        cell, found = dense(code, int(np.prod(sizes, dtype=float)))
        count = total(cell, rows.weight, found.size)
        cells = make_cells(found, sizes, rows.partitions, options, count, rows.columns)
        super().__init__(np.abs(seen), cell, cells, rows.weight)
        if options.distance.signed:
            # Only now is the scale known on which a distance of the wrong sign may be rounding.
            across = np.where(rows.columns["prediction"] == 1, seen, -seen) < -AGREEMENT * self.spread
            refuse_disagreement(float(mass[across].sum()))

    def movers(self, moved: FloatArray, reach: FloatArray) -> Movers:
        """The rows that flip, nearest first."""
        share = fractions(self._distance, self._cell, moved, self._weight)
        rows = np.flatnonzero(share > TRACE)
        complete = rows.size <= PLAN_ROWS
        rows = rows[np.argsort(self._distance[rows], kind="stable")[:PLAN_ROWS]]
        start, end = self._points(rows)
        return Movers(
            row=np.full(rows.size, -1) if self._row is None else self._row[rows].astype(np.intp),
            cell=self._cell[rows],
            distance=self._distance[rows],
            fraction=share[rows],
            start=start,
            end=end,
            complete=complete,
        )

    def _points(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Where the rows are and where they would go; no columns where the distance does not know."""
        distance = self._options.distance
        if self._features is not None:
            return points(distance, self._features[rows])
        # Expressions leave their columns where they are; a table with an order can be asked for the listed rows.
        assert self._row is not None
        frame = collect(self._source.lines.select(*(nw.col(c).cast(nw.Float64) for c in distance.columns)))
        return points(distance, frame[self._row[rows].astype(np.intp)].to_numpy())


def _unused(name: str, source: Source) -> str:
    """``name``, or one like it that no column has."""
    while name in source.schema:
        name += "_"
    return name


def _indexed(source: Source, number: str) -> Source:
    """The same table with row numbers, so that a plan can name rows even after some were dropped."""
    from isonomy.frames.adapt import Adapted

    frame = source.lines.collect() if isinstance(source.lines, nw.LazyFrame) else source.lines
    numbered = frame.with_row_index(number)
    if numbered.implementation.is_polars():
        numbered = numbered.lazy()
    return Source(
        Adapted(numbered, source.backend, source.lazy),
        count=source.count,
        missing=source.missing,
        missing_group=source.missing_group,
    )
