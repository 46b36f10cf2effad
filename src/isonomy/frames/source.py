"""A table opened for auditing: what is in it, and the grouped passes already made over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals as nw

from isonomy.errors import EmptyFrame, UnknownColumn, UsageError, WrongType, choose
from isonomy.frames.adapt import Adapted, adapt
from isonomy.frames.checks import (
    COMPLETE,
    check_types,
    checked,
    coded,
    complete,
    flag,
    missing_name,
    refuse_bad_counts,
)
from isonomy.frames.groups import Grouping, grouping, partitions
from isonomy.frames.request import Request, Rows, Tally
from isonomy.frames.sums import COUNT, Sums, aggregate, collect, in_order, missing, plain_keys

if TYPE_CHECKING:
    import polars as pl

_BAD_COUNT = "__bad_count"


class Source:
    """A table opened for auditing. It remembers the sums it was asked for, so that tests can share passes.

    ``frame`` is the narwhals frame, for the few computations that are more than a grouped sum.
    """

    def __init__(
        self, adapted: Adapted, *, count: str | None, missing: str = "raise", missing_group: str = "raise"
    ) -> None:
        self.frame: Any = adapted.frame
        self.backend = adapted.backend
        self.lazy = adapted.lazy
        self.missing = choose("missing", missing, ("raise", "drop"))
        self.missing_group = choose("missing_group", missing_group, ("raise", "level", "drop"))
        self.count = count
        self._sums: dict[tuple[str, ...], pl.DataFrame] = {}
        if count is not None:
            self.require(count=count)
            if not self.schema[count].is_numeric():
                raise WrongType(f"count: column {count!r} is {self.schema[count]}; counts are whole numbers.")

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Column names and narwhals types."""
        return dict(self.frame.collect_schema())

    def require(self, **columns: str | None) -> None:
        """Raise unless every named column exists. The keyword is the argument named in the error."""
        for argument, column in columns.items():
            if column is not None and (not isinstance(column, str) or column not in self.schema):
                raise UnknownColumn(argument, column, self.schema)

    def grouping(self, groups: object, depth: int = 1) -> Grouping:
        """Resolve what the caller wrote under ``groups`` against the schema; no row is read."""
        return grouping(self.schema, groups, depth)

    def filter(self, condition: nw.Expr) -> Source:
        """The same table, restricted to the rows for which ``condition`` holds."""
        return Source(
            Adapted(self.frame.filter(condition), self.backend, self.lazy),
            count=self.count,
            missing=self.missing,
            missing_group=self.missing_group,
        )

    def sums(self, request: Sums) -> pl.DataFrame:
        """One grouped pass (or the remembered one): keys, `COUNT` and values, cells in canonical order.

        Everything is weighted by the ``count`` column where there is one.
        """
        import polars as pl

        known = self._sums.get(request.identity)
        asked = {name: f"{name}={expr!r}" for name, expr in request.values.items()}
        absent = {asked[n]: e for n, e in request.values.items() if known is None or asked[n] not in known.columns}
        if known is None or absent:
            fresh = self._pass(request.keys, absent)
            known = fresh if known is None else known.hstack(fresh.select(list(absent)))
            self._sums[request.identity] = known
        return known.select(*request.keys, COUNT, *(pl.col(column).alias(name) for name, column in asked.items()))

    def _pass(self, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr]) -> pl.DataFrame:
        if self.count is None:
            return in_order(collect(aggregate(self.frame, keys, values)), list(keys))
        column = nw.col(self.count)
        number = column.cast(nw.Float64)
        weighted = {name: expr.cast(nw.Float64) * number for name, expr in values.items()}
        bad = missing(column, self.schema[self.count]) | (number < 0) | (number != number.floor())
        checked = {**weighted, "__counts": number, _BAD_COUNT: flag(bad)}
        cells = in_order(collect(aggregate(self.frame, keys, checked)), list(keys))
        refuse_bad_counts(self.count, float(cells[_BAD_COUNT].sum()))
        # A line that stands for no row is not there: the rows it stands for would not be either.
        return cells.drop(COUNT, _BAD_COUNT).rename({"__counts": COUNT}).filter(_positive(COUNT))

    def prefetch(self, requests: Iterable[Request]) -> None:
        """Make the passes that ``requests`` will need, one for all requests with equal keys."""
        merged: dict[tuple[str, ...], Sums] = {}
        for request in requests:
            sums = self._plan(request)
            other = merged.get(sums.identity)
            merged[sums.identity] = Sums(sums.keys, {**other.values, **sums.values}) if other else sums
        for sums in merged.values():
            self.sums(sums)

    def tally(self, request: Request) -> Tally:
        """Sums over the finest cells, with the values checked in the same pass."""
        cells, dropped = self._complete(request, self.sums(self._plan(request)))
        return Tally(
            count=cells[COUNT].to_numpy(),
            keys={name: cells[name].to_numpy() for name in (*request.binary, *request.keys)},
            values={name: cells[name].to_numpy() for name in request.values},
            partitions=() if request.grouping is None else partitions(request.grouping, cells),
            dropped=dropped,
        )

    def rows(self, request: Request) -> Rows:
        """The requested columns row by row, checked as in `tally`. Lines whose ``count`` is 0 are left out."""
        import polars as pl

        plan = self._plan(request)
        columns = dict(plan.keys) | dict(plan.values)
        columns |= {role: checked(self.schema, column)[0].cast(nw.Float64) for role, column in request.numeric.items()}
        columns[COUNT] = nw.lit(1.0) if self.count is None else nw.col(self.count).cast(nw.Float64)
        table = collect(self.frame.select(*(expr.alias(name) for name, expr in columns.items())))
        if self.count is not None:
            counts = table[COUNT]
            bad = counts.is_null() | ~counts.is_finite() | (counts < 0) | (counts != counts.floor())
            refuse_bad_counts(self.count, float(bad.sum()))
            table = table.filter(_positive(COUNT))
        counted = [missing_name(role) for role in request.numeric]
        table = table.with_columns(pl.col(name) * pl.col(COUNT) for name in counted)
        table, dropped = self._complete(request, table)
        names = dict.fromkeys((*request.binary, *request.keys, *request.numeric, *request.values))
        return Rows(
            columns={name: table[name].to_numpy() for name in names},
            weight=None if self.count is None else table[COUNT].to_numpy(),
            partitions=()
            if request.grouping is None
            else partitions(request.grouping, plain_keys(table, list(request.grouping.keys))),
            dropped=dropped,
            size=len(table),
        )

    def _plan(self, request: Request) -> Sums:
        """The pass behind a request: its own keys and values, and the checks that ride along."""
        check_types(self.schema, request, self.frame)
        keys: dict[str, nw.Expr] = dict(request.grouping.keys) if request.grouping else {}
        keys |= {role: coded(*checked(self.schema, column)) for role, column in request.binary.items()}
        keys |= dict(request.keys)
        values = dict(request.values)
        if request.numeric:
            gone = {role: missing(*checked(self.schema, column)) for role, column in request.numeric.items()}
            keys[COMPLETE] = ~nw.any_horizontal(*gone.values(), ignore_nulls=True)
            values |= {missing_name(role): flag(condition) for role, condition in gone.items()}
        return Sums(keys, values)

    def _complete(self, request: Request, cells: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
        if not len(cells):
            raise EmptyFrame("data: the table has no rows.")
        return complete(request, cells, missing=self.missing, missing_group=self.missing_group)


def open_source(
    data: object, *, count: str | None = None, missing: str = "raise", missing_group: str = "raise"
) -> Source:
    """Open any supported table. A `Source` passes through, so that an audit can share one."""
    if isinstance(data, Source):
        given = (count, missing, missing_group)
        if given not in ((None, "raise", "raise"), (data.count, data.missing, data.missing_group)):
            raise UsageError("count, missing, missing_group: set them where the source is opened.")
        return data
    return Source(adapt(data), count=count, missing=missing, missing_group=missing_group)


def _positive(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column) > 0
