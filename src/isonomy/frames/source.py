"""A table opened for auditing: what is in it, and the grouped passes already made over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import count as count_up
from typing import TYPE_CHECKING

import narwhals as nw

from isonomy import options
from isonomy.errors import DataError, EmptyFrame, UnknownColumn, UsageError, WrongType
from isonomy.frames.adapt import Adapted, Lazy, adapt, first_line
from isonomy.frames.checks import (
    COMPLETE,
    check_types,
    checked,
    coded,
    complete,
    flag,
    name_of,
    refuse_bad_counts,
)
from isonomy.frames.groups import Grouping, grouping, key_name, partitions
from isonomy.frames.request import Cells, Request, Rows
from isonomy.frames.sums import (
    COUNT,
    Pass,
    Schema,
    aggregate,
    collect,
    extremes,
    identity,
    in_order,
    missing,
    number_rows,
    plain_keys,
)

if TYPE_CHECKING:
    import polars as pl


class Source:
    """A table opened for auditing. It remembers the sums it was asked for, so that tests can share passes.

    ``frame`` is the narwhals frame, for the few computations that are more than a grouped sum.
    """

    def __init__(
        self,
        adapted: Adapted,
        *,
        count: str | None,
        missing: options.Missing = "raise",
        missing_group: options.MissingGroup = "raise",
    ) -> None:
        self.frame = adapted.frame
        self.lines = adapted.frame  # as given, those that stand for no row included: a plan numbers them all
        self.backend = adapted.backend
        self.lazy = adapted.lazy
        self._bytes = adapted.bytes
        self.missing: options.Missing = missing
        self.missing_group: options.MissingGroup = missing_group
        self.count = count
        self._passes: dict[tuple[tuple[str, str], ...], tuple[Pass, pl.DataFrame]] = {}
        if count is not None:
            self.require(count=count)
            if not self.schema[count].is_numeric():
                raise WrongType(f"count: column {count!r} is {self.schema[count]}; counts are whole numbers.")
            # A line that stands for no row is not there: the rows it stands for would not be either.
            self.frame = self.frame.filter((nw.col(count) != 0) | nw.col(count).is_null())

    @cached_property
    def schema(self) -> Schema:
        """Column names and narwhals types."""
        return dict(self.frame.collect_schema())

    def require(self, **columns: str | None) -> None:
        """Raise unless every named column exists. The keyword is the argument named in the error."""
        for argument, column in columns.items():
            if column is not None and (not isinstance(column, str) or column not in self.schema):
                raise UnknownColumn(argument, column, self.schema)

    def grouping(self, groups: object, depth: int = 1) -> Grouping:
        """Resolve what the caller wrote under ``groups`` against the schema; no row is read."""
        resolved = grouping(self.schema, groups, depth)
        for dimension in resolved.dimensions:
            if dimension.condition:
                self.check_expression(f"where({dimension.name!r})", dimension.key, boolean=True)
        return resolved

    def check_expression(self, argument: str, expr: nw.Expr, *, boolean: bool = False) -> None:
        """Raise unless the engine can evaluate ``expr`` to numbers (to true or false, if ``boolean``). Reads no row."""
        try:
            dtype = self.frame.head(0).select(expr.alias("value")).collect_schema()["value"]
        except Exception as error:  # each engine has errors of its own
            columns = ", ".join(self.schema)
            raise UsageError(f"{argument}: cannot be evaluated: {first_line(error)} Columns: {columns}.") from error
        if boolean and dtype != nw.Boolean:
            raise UsageError(f'{argument}: the expression gives {dtype}; give a condition such as iso.col("age") < 25.')
        if not boolean and not (dtype.is_numeric() or dtype == nw.Boolean):
            raise UsageError(f"{argument}: the expression gives {dtype}; give numbers.")

    def derived(self, frame: Lazy) -> Source:
        """Another frame under the same options: rows left out, or columns of ours added."""
        return Source(
            Adapted(frame, self.backend, self.lazy, self._bytes),
            count=self.count,
            missing=self.missing,
            missing_group=self.missing_group,
        )

    def filter(self, condition: nw.Expr) -> Source:
        """The same table, restricted to the rows for which ``condition`` holds."""
        return self.derived(self.frame.filter(condition))

    def narrowed(self, columns: Iterable[str], condition: nw.Expr | None, *, hold: bool) -> Source:
        """The rows that meet ``condition``, with the named columns alone; ``hold`` reads them into memory once."""
        kept = self.frame if condition is None else self.frame.filter(condition)
        wanted = set(columns)
        chosen = kept.select(*(name for name in self.schema if name in wanted))
        data = collect(chosen) if hold else chosen.to_native()
        return open_source(data, count=self.count, missing=self.missing, missing_group=self.missing_group)

    def head(self, rows: int) -> pl.DataFrame:
        """The first rows, in memory."""
        return collect(self.frame.head(rows))

    def with_columns(self, columns: Mapping[str, nw.Expr]) -> Source:
        """The same table with further columns computed from its own."""
        return self.derived(self.frame.with_columns(*(expr.alias(name) for name, expr in columns.items())))

    def numbered(self, name: str) -> Source:
        """The same table with a number for each row, from 0 in the order the engine holds them."""
        return self.derived(number_rows(self.frame, name, self.backend))

    def fresh(self, stem: str) -> str:
        """A name like ``stem`` with which no column of the table begins."""
        tries = (f"{stem}{'_' * i}" for i in count_up())
        return next(name for name in tries if not any(column.startswith(name) for column in self.schema))

    @property
    def weight(self) -> nw.Expr:
        """How many rows each line stands for."""
        return nw.lit(1.0) if self.count is None else nw.col(self.count).cast(nw.Float64)

    def sums(self, request: Pass) -> pl.DataFrame:
        """One grouped pass (or the remembered one): keys, `COUNT` and values, cells in canonical order.

        Everything is weighted by the ``count`` column where there is one.
        """
        import polars as pl

        remembered, known = self._passes.get(request.identity, (Pass(request.keys, {}), None))
        asked = {name: identity(expr) for name, expr in request.values.items()}
        absent = {asked[n]: e for n, e in request.values.items() if asked[n] not in remembered.values}
        if known is None or absent:
            fresh = self._pass(request.keys, absent)
            if known is not None:
                same = [*request.keys, COUNT]
                if not fresh.select(same).equals(known.select(same)):
                    raise DataError("data: the table changed between two passes; audit a copy that does not change.")
                fresh = known.hstack(fresh.select(list(absent)))
            known = fresh
            # The expressions are kept with their sums: an identity may be that of an object.
            kept = Pass(remembered.keys, {**remembered.values, **absent})
            self._passes[request.identity] = (kept, known)
        return known.select(*request.keys, COUNT, *(pl.col(column).alias(name) for name, column in asked.items()))

    def _pass(self, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr]) -> pl.DataFrame:
        if self.count is None:
            return in_order(collect(aggregate(self.frame, keys, values)), list(keys))
        column = nw.col(self.count)
        number = column.cast(nw.Float64)
        weighted = {name: expr.cast(nw.Float64) * number for name, expr in values.items()}
        bad = missing(column, self.schema[self.count]) | (number < 0) | (number != number.floor())
        checked = {**weighted, "counts": number, "bad counts": flag(bad)}
        cells = in_order(collect(aggregate(self.frame, keys, checked)), list(keys))
        refuse_bad_counts(self.count, float(cells["bad counts"].sum()))
        return cells.drop(COUNT, "bad counts").rename({"counts": COUNT})

    def extremes(self, column: nw.Expr, keys: Mapping[str, nw.Expr]) -> pl.DataFrame:
        """The least and the largest finite value of ``column`` for each combination of ``keys``: low and high."""
        return extremes(self.frame, column, keys)

    def prefetch(self, requests: Iterable[Request]) -> None:
        """Make the passes that ``requests`` will need, one for all requests with equal keys."""
        merged: dict[tuple[tuple[str, str], ...], Pass] = {}
        for request in requests:
            single = self._plan(request)
            known = merged.setdefault(single.identity, Pass(single.keys, {}))
            named = {identity(expr): expr for expr in single.values.values()}
            merged[single.identity] = Pass(single.keys, {**known.values, **named})
        for shared in merged.values():
            self.sums(shared)

    def cells(self, request: Request) -> Cells:
        """Sums over the finest cells, with the values checked in the same pass."""
        cells, dropped = self._complete(request, self.sums(self._plan(request)))
        keys = {role: cells[name_of("role", role)].to_numpy() for role in request.binary}
        return Cells(
            count=cells[COUNT].to_numpy(),
            keys=keys | {name: cells[name_of("key", name)].to_numpy() for name in request.keys},
            values={name: cells[name_of("value", name)].to_numpy() for name in request.values},
            partitions=() if request.grouping is None else partitions(request.grouping, cells),
            dropped=dropped,
        )

    def rows(self, request: Request) -> Rows:
        """The requested columns row by row, checked as in `cells`. Lines whose ``count`` is 0 are left out."""
        import polars as pl

        plan = self._plan(request)
        numbers = {name_of("number", r): checked(self.schema, c)[0] for r, c in request.numeric.items()}
        columns = dict(plan.keys) | dict(plan.values) | {name: e.cast(nw.Float64) for name, e in numbers.items()}
        columns[COUNT] = nw.lit(1.0) if self.count is None else nw.col(self.count).cast(nw.Float64)
        stem = self.fresh("column ")
        placed = {f"{stem}{i}": expr for i, expr in enumerate(columns.values())}
        # ``with_columns`` first: a selection of literals alone would have one row.
        wide = self.frame.with_columns(*(expr.alias(name) for name, expr in placed.items()))
        table = collect(wide.select(*placed)).rename(dict(zip(placed, columns, strict=True)))
        if self.count is not None:
            counts = table[COUNT]
            bad = counts.is_null() | ~counts.is_finite() | (counts < 0) | (counts != counts.floor())
            refuse_bad_counts(self.count, float(bad.sum()))
        table = plain_keys(table, [key_name(name) for name in request.grouping.keys] if request.grouping else [])
        counted = [name for name in columns if name.startswith(("missing ", "outside "))]
        table, dropped = self._complete(request, table.with_columns(pl.col(name) * pl.col(COUNT) for name in counted))
        kinds = {"role": request.binary, "key": request.keys, "number": request.numeric, "value": request.values}
        return Rows(
            columns={name: table[name_of(kind, name)].to_numpy() for kind, names in kinds.items() for name in names},
            weight=None if self.count is None else table[COUNT].to_numpy(),
            partitions=() if request.grouping is None else partitions(request.grouping, table),
            dropped=dropped,
            size=len(table),
        )

    def _plan(self, request: Request) -> Pass:
        """The pass behind a request: its own keys and values, and the checks that ride along."""
        check_types(self.schema, request, self.frame)
        keys = {key_name(name): key for name, key in request.grouping.keys.items()} if request.grouping else {}
        for role, column in request.binary.items():
            few = isinstance(column, str) and column in self._bytes
            keys[name_of("role", role)] = coded(*checked(self.schema, column), few=few)
        keys |= {name_of("key", name): expr for name, expr in request.keys.items()}
        values = {name_of("value", name): expr for name, expr in request.values.items()}
        if request.numeric:
            gone = {role: missing(*checked(self.schema, column)) for role, column in request.numeric.items()}
            keys[COMPLETE] = ~nw.any_horizontal(*gone.values(), ignore_nulls=True)
            values |= {name_of("missing", role): flag(condition) for role, condition in gone.items()}
        for role in request.probabilities:
            number = checked(self.schema, request.numeric[role])[0]
            values[name_of("outside", role)] = flag((number < 0) | (number > 1))
        return Pass(keys, values)

    def _complete(self, request: Request, cells: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
        if not len(cells):
            raise EmptyFrame("data: the table has no rows.")
        return complete(request, cells, missing=self.missing, missing_group=self.missing_group)


@options.checked
def open_source(
    data: object,
    *,
    count: str | None = None,
    missing: options.Missing = "raise",
    missing_group: options.MissingGroup = "raise",
) -> Source:
    """Open any supported table. A `Source` passes through, so that an audit can share one."""
    if isinstance(data, Source):
        given = (count, missing, missing_group)
        if given not in ((None, "raise", "raise"), (data.count, data.missing, data.missing_group)):
            raise UsageError("count, missing, missing_group: set them where the source is opened.")
        return data
    return Source(adapt(data), count=count, missing=missing, missing_group=missing_group)
