"""A table opened for auditing: what a test requests of its rows, and what it gets.

A `Request` names columns and expressions; a `Sample` has their sums over the finest cells, or the columns row by row.
A `Source` makes the grouped passes and keeps them, so that tests can share them.

Values are checked in the pass that counts them, so that nothing is dropped silently and nothing is read twice. A 0/1
column enters the pass as a code, so the cells themselves show its other values; a numeric column adds one sum, the
number of its missing values. `Source.complete` reads both off the collected cells. The columns of a pass are called
by their kind and role ("role outcome", "group sex"): the table may have a column with the role's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import count as count_up
from operator import and_
from typing import TYPE_CHECKING, Any, Unpack

import narwhals as nw
import numpy as np

from isonomy import errors, options
from isonomy.frames.adapt import Lazy, adapt, first_line, refuse_mixture
from isonomy.frames.design import (
    CELL,
    CLUSTER,
    FOURTH,
    MASS,
    SECOND,
    Block,
    Design,
    blocks,
    designed,
    masses_by,
    number_of_parts,
    smallest_type,
)
from isonomy.frames.expressions import LARGEST, DType, Schema, flag, is_text, missing
from isonomy.frames.groups import NOTHING, ROW_COUNT, Grouping, Labels, Partition, grouping, partitions, refuse_many
from isonomy.frames.sums import (
    COUNT,
    aggregate,
    collect,
    collect_rows,
    extremes,
    has_workers,
    identity,
    in_order,
    number_rows,
    plain_keys,
)
from isonomy.numerics.arrays import AnyArray, FloatArray

if TYPE_CHECKING:
    import polars as pl

Expressions = Mapping[str, nw.Expr]
Columns = Mapping[str, str | nw.Expr]

COMPLETE, BAD_COUNTS = "complete", "bad counts"
SAMPLE = 5_000  # lines read to see whether counts are a survey's weights, or a group column tells people apart
MANY = 4_000_000  # lines in which the values of such a column are counted


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What one test needs of the rows. Every mapping goes from a short role name.

    ``binary`` columns must hold 0 and 1 and become keys of the pass; ``numeric`` columns must be finite and may be
    used by the expressions in ``values``, which are summed; the expressions in ``keys`` are further keys; ``labels``
    are columns of any type that must have a value. ``binary`` and ``numeric`` name a column, or give an expression
    that is checked in the same way.
    """

    grouping: Grouping | None = None
    binary: Columns = field(default_factory=dict)
    numeric: Columns = field(default_factory=dict)
    keys: Expressions = field(default_factory=dict)
    values: Expressions = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    probabilities: tuple[str, ...] = ()  # numeric roles that must lie in [0, 1]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What comes back from the rows: the finest cells in canonical order, or single rows.

    A line is a cell or a row. ``columns`` has one entry per line: binary roles (0 and 1), keys and, for rows, numbers
    and values; ``values`` has the sums over the rows of each cell. ``count`` is the number of rows of each line
    (None: 1). With weights or clusters there is a ``design``, and ``values`` are weighted by its masses.
    """

    columns: Mapping[str, AnyArray]
    count: FloatArray | None
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]
    size: int
    values: Mapping[str, FloatArray] = field(default_factory=dict)
    design: Design | None = None

    @property
    def rows(self) -> int:
        """The number of rows used; a line of the ``count`` column counts as that many."""
        return self.size if self.count is None else round(float(self.count.sum()))

    @property
    def counts(self) -> FloatArray:
        return np.ones(self.size) if self.count is None else self.count

    @property
    def weight(self) -> FloatArray | None:
        """The weight of each line: its rows, or their weights scaled to sum to the rows; None: 1 each."""
        return self.count if self.design is None else self.design.mass

    @property
    def mass(self) -> FloatArray:
        return np.ones(self.size) if self.weight is None else self.weight

    def weighing(self) -> Sample:
        if self.design is None or bool((self.design.mass > 0).all()):
            return self
        lines = np.flatnonzero(self.design.mass > 0)
        return replace(
            self,
            columns={name: column[lines] for name, column in self.columns.items()},
            count=None if self.count is None else self.count[lines],
            partitions=tuple(replace(part, codes=part.codes[lines]) for part in self.partitions),
            size=lines.size,
            values={name: column[lines] for name, column in self.values.items()},
            design=self.design.restricted(lines),
        )


def binary_code(column: nw.Expr, dtype: DType, *, few: bool = False) -> nw.Expr:
    """0 and 1 as they are, null for missing, other numbers for anything else.

    The pass groups by it, so it must take few values; with ``few`` the column itself does.
    """
    if few or dtype == nw.Boolean:
        return column
    if dtype.is_unsigned_integer():
        return column.clip(upper_bound=2)
    if dtype.is_integer():
        return column.clip(-1, 2)  # one cheap operation; two codes stand for "other"
    number = column.cast(nw.Float64)
    one_or_other = nw.when(number == 1).then(nw.lit(1)).otherwise(nw.lit(2))
    zero_or_more = nw.when(number == 0).then(nw.lit(0)).otherwise(one_or_other)
    return nw.when(~missing(column, dtype)).then(zero_or_more)


def refuse_nested(schema: Schema, argument: str, column: str) -> None:
    """Raise if a column that identifies people or groups holds lists, structures or bytes."""
    if isinstance(schema[column], (nw.List, nw.Array, nw.Struct, nw.Binary)):
        raise errors.WrongType(f"{argument}: column {column!r} is {schema[column]}; use text, numbers or dates.")


LARGEST_COUNT = 2**53 - 1  # beyond it a float, and so a sum, loses the last digits


class Source:
    """A table opened for auditing. It keeps the sums it has made, so that tests can share passes.

    ``frame`` is the narwhals frame, for computations other than grouped sums; ``backend``, ``lazy`` and ``small`` are
    as `adapt` returns them; ``reading`` has all keywords about rows; ``computed`` are columns of `with_role`.
    """

    def __init__(
        self,
        frame: Lazy,
        backend: str,
        lazy: bool,
        small: frozenset[str],
        reading: options.RowOptions,
        labels: Labels = NOTHING,
        computed: frozenset[str] = frozenset(),
    ) -> None:
        self.frame = frame
        self.lines = frame  # including lines that stand for no row: a plan numbers them all
        self.backend, self.lazy, self._small = backend, lazy, small
        self.reading = reading
        self.count, self.cluster = reading["count"], reading["cluster"]
        self.missing, self.missing_group = reading["missing"], reading["missing_group"]
        self.designed = reading["weight"] is not None or self.cluster is not None
        self.labels, self._computed = labels, computed
        self._with: dict[tuple[str, str], tuple[nw.Expr, Source]] = {}
        # Keys, values by identity, and the sums. Expressions are stored: an identity may be an object's id.
        self._passes: dict[tuple[tuple[str, str], ...], tuple[Expressions, Expressions, pl.DataFrame]] = {}
        self._sampled: dict[str, nw.Expr] = {}  # group keys whose first rows were looked at
        self._rolled: tuple[Grouping, pl.DataFrame, tuple[Partition, ...]] | None = None
        self.require(count=self.count, weight=reading["weight"], cluster=self.cluster)
        for argument, column in (("count", self.count), ("weight", reading["weight"])):
            if column is not None and not self.schema[column].is_numeric():
                kind = "counts are whole numbers" if argument == "count" else "weights are numbers"
                raise errors.WrongType(f"{argument}: column {column!r} is {self.schema[column]}; {kind}.")
        if self.cluster is not None:
            refuse_nested(self.schema, "cluster", self.cluster)
        if self.count is not None:
            # A line that stands for no row is as if it were absent.
            self.frame = self.frame.filter((nw.col(self.count) != 0) | nw.col(self.count).is_null())

    @cached_property
    def schema(self) -> Schema:
        schema = dict(self.frame.collect_schema())
        if not self._computed:
            return schema
        return {errors.ComputedName(name) if name in self._computed else name: dtype for name, dtype in schema.items()}

    def require(self, **columns: str | None) -> None:
        """Raise unless every named column exists. The keyword is the argument named in the error."""
        for argument, column in columns.items():
            if column is not None and (not isinstance(column, str) or column not in self.schema):
                raise errors.UnknownColumn(argument, column, self.schema)

    def grouping(self, groups: object, depth: int = 1, *, argument: str = "groups") -> Grouping:
        resolved = grouping(self.schema, groups, depth, argument=argument)
        for dimension in resolved.dimensions:
            if dimension.condition:
                self.check_expression(f"where({dimension.name!r})", dimension.key, boolean=True)
        return resolved

    def check(self, request: Request) -> None:
        """Raise unless the columns of a request exist and have the types it needs. Reads no row."""
        for role, column in (*request.binary.items(), *request.numeric.items()):
            if isinstance(column, nw.Expr):
                continue
            if not isinstance(column, str) or column not in self.schema:
                raise errors.UnknownColumn(role, column, self.schema)
            dtype = self.schema[column]
            if dtype == nw.Object:
                self._refuse_objects(column)
            if not (dtype.is_numeric() or dtype == nw.Boolean):
                need = "0 and 1" if role in request.binary else "numbers"
                label = '; some functions also accept the value that counts as 1, such as positive="yes"'
                hint = f"Recode it first{label if role in request.binary and is_text(dtype) else ''}."
                raise errors.WrongType(f"{role}: column {column!r} is {dtype}; it must hold {need}. {hint}")
        named = [dimension.name for dimension in request.grouping.every] if request.grouping else []
        for column in (*named, *request.labels.values()):
            if self.schema.get(column) == nw.Object:
                self._refuse_objects(column)

    def _refuse_objects(self, column: str) -> None:
        values = collect(self.frame.select(column))[column].to_list()
        refuse_mixture(column, values)
        kind = type(next((value for value in values if value is not None), None)).__name__
        raise errors.WrongType(f"data: column {column!r} holds {kind} objects; use text, numbers, booleans or dates.")

    def check_expression(self, argument: str, expr: nw.Expr, *, boolean: bool = False) -> None:
        """Raise unless the engine can evaluate ``expr`` to numbers (to true or false, if ``boolean``). Reads no row."""
        try:
            dtype = self.frame.head(0).select(expr.alias("value")).collect_schema()["value"]
        except Exception as error:  # every engine has its own errors
            columns = ", ".join(self.schema)
            raise errors.UsageError(
                f"{argument}: cannot be evaluated: {first_line(error)} Columns: {columns}."
            ) from error
        if boolean and dtype != nw.Boolean:
            raise errors.UsageError(
                f'{argument}: the expression gives {dtype}; give a condition such as iso.col("age") < 25.'
            )
        if not boolean and not (dtype.is_numeric() or dtype == nw.Boolean):
            raise errors.UsageError(f"{argument}: the expression gives {dtype}; give numbers.")

    def derived(self, frame: Lazy, computed: Iterable[str] = ()) -> Source:
        """Another frame under the same options, with rows left out or columns added."""
        known = self._computed.union(computed)
        return Source(frame, self.backend, self.lazy, self._small, self.reading, self.labels, known)

    def reread(self, **reading: Unpack[options.RowOptions]) -> Source:
        changed: options.RowOptions = {**self.reading, **reading}
        return Source(self.frame, self.backend, self.lazy, self._small, changed, self.labels, self._computed)

    def complete_rows(
        self, numbers: Mapping[str, str], labels: Mapping[str, str] | None = None, grouping: Grouping | None = None
    ) -> Lazy:
        """The rows in which every named column has a value, with those columns under new names.

        Those of ``numbers`` become Float64, those of ``labels`` keep their type; `ROW_COUNT` is the weight of a line.
        A ``grouping`` adds the keys of its dimensions (``__d0``, ``__d1``, ...), for `with_groups`; rows without a
        group are left out if the source drops them.
        """
        labels = labels or {}
        absences = (missing(nw.col(column), self.schema[column]) for column in {**numbers, **labels}.values())
        keys = [] if grouping is None else list(grouping.keys.values())
        frame: Lazy = self.frame.filter(reduce(and_, (~absent for absent in absences))).select(
            *(nw.col(column).cast(nw.Float64).alias(name) for name, column in numbers.items()),
            *(nw.col(column).alias(name) for name, column in labels.items()),
            (self.number * self.weight).alias(ROW_COUNT),
            *(key.alias(f"__d{i}") for i, key in enumerate(keys)),
        )
        if self.missing_group == "drop":
            for i in range(len(keys)):
                frame = frame.filter(~nw.col(f"__d{i}").is_null())
        return frame

    def filter(self, condition: nw.Expr) -> Source:
        return self.derived(self.frame.filter(condition))

    def narrowed(self, columns: Iterable[str], condition: nw.Expr | None, *, hold: bool) -> Source:
        """The named columns of the rows that meet ``condition``; ``hold`` reads them into memory."""
        rows = self.frame if condition is None else self.frame.filter(condition)
        wanted = set(columns)
        chosen = rows.select(*(name for name in self.schema if name in wanted))
        data = collect(chosen) if hold else chosen.to_native()
        return Source(*adapt(data), self.reading, self.labels)

    def head(self, rows: int) -> pl.DataFrame:
        return collect(self.frame.head(rows))

    def distinct(self, column: str | nw.Expr, rows: int) -> tuple[int, int]:
        """The number of distinct values of a column among the first rows, and the number of those rows."""
        values = aggregate(self.frame.head(rows), {"value": nw.col(column) if isinstance(column, str) else column}, {})
        counts = collect(aggregate(values, {}, {"rows": nw.col(COUNT)}))
        return (round(float(counts[COUNT][0])), round(float(counts["rows"][0]))) if len(counts) else (0, 0)

    def with_columns(self, columns: Mapping[str, nw.Expr]) -> Source:
        return self.derived(self.frame.with_columns(*(expr.alias(name) for name, expr in columns.items())))

    def with_role(self, name: str, expr: nw.Expr) -> Source:
        """The same table with one further column; the same call returns the same source, with its sums."""
        key = (name, identity(expr))
        if key not in self._with:
            source = self.derived(self.frame.with_columns(expr.alias(name)), [name])
            self._with[key] = (expr, source)  # with the expression: an identity may be an object's id
        return self._with[key][1]

    def numbered(self, name: str) -> Source:
        """The same table with a number for each row, from 0 in the engine's order."""
        return self.derived(number_rows(self.frame, name, self.backend))

    def fresh(self, stem: str) -> str:
        """A name that starts with ``stem`` and is not a prefix of any column name."""
        tries = (f"{stem}{'_' * i}" for i in count_up())
        return next(name for name in tries if not any(column.startswith(name) for column in self.schema))

    @property
    def number(self) -> nw.Expr:
        return nw.lit(1.0) if self.count is None else nw.col(self.count).cast(nw.Float64)

    @property
    def weight(self) -> nw.Expr:
        column = self.reading["weight"]
        return nw.lit(1.0) if column is None else nw.col(column).cast(nw.Float64)

    @cached_property
    def like_weights(self) -> bool:
        """Whether the counts look like a survey's weights: many distinct, large numbers among the first lines."""
        if self.count is None:
            return False
        counts = collect(self.frame.select(nw.col(self.count).cast(nw.Float64)).head(SAMPLE))[self.count]
        mean = counts.mean()
        return len(counts) >= SAMPLE // 5 and counts.n_unique() >= 100 and isinstance(mean, float) and mean >= 10

    def sums(self, keys: Expressions, values: Expressions) -> pl.DataFrame:
        """One grouped pass, or the stored one: keys, `COUNT` and values, cells in canonical order.

        Everything is multiplied by the ``count`` column, if there is one.
        """
        place = tuple(zip(keys, map(identity, keys.values()), strict=True))
        _, stored, known = self._passes.get(place, ({}, {}, None))
        needed = dict(zip(values, map(identity, values.values()), strict=True))
        absent = {needed[name]: expr for name, expr in values.items() if needed[name] not in stored}
        if known is None or absent:
            self._refuse_identifiers(keys)
            counted: dict[str, nw.Expr] = dict(absent)
            if self.count is not None:
                counted = {name: expr.cast(nw.Float64) * self.number for name, expr in absent.items()}
                counted |= {"counts": self.number, BAD_COUNTS: self._bad_count}
            fresh = in_order(collect(aggregate(self.frame, keys, counted)), list(keys))
            if self.count is not None:
                fresh = self._check_counts(fresh.drop(COUNT).rename({"counts": COUNT}))
            if known is not None:
                same = [*keys, COUNT]
                if not fresh.select(same).equals(known.select(same)):
                    raise errors.DataError(
                        "data: the table changed between two passes; audit a copy that does not change."
                    )
                fresh = known.hstack(fresh.select(list(absent)))
            known = fresh
            self._passes[place] = (keys, {**stored, **absent}, known)
        return known.select(*keys, COUNT, **needed)

    @property
    def _bad_count(self) -> nw.Expr:
        assert self.count is not None
        absent, n = missing(nw.col(self.count), self.schema[self.count]), self.number
        return flag(absent | (n < 0) | (n > LARGEST_COUNT) | (n != n.floor()))

    def _check_counts(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The lines without `BAD_COUNTS`; raises if a row has a bad count."""
        if n := float(lines[BAD_COUNTS].sum()):
            raise errors.BadCount(
                f"count: column {self.count!r} has {n:,.0f} rows that are missing, negative, fractional or too large; "
                f"counts are whole numbers from 0 to {LARGEST_COUNT:,}."
            )
        if (total := float(lines[COUNT].sum())) > LARGEST_COUNT:
            raise errors.BadCount(
                f"count: column {self.count!r} adds up to {total:.2g} rows; at most {LARGEST_COUNT:,} can be counted. "
                "If it holds weights, they are not counts."
            )
        return lines.drop(BAD_COUNTS)

    def extremes(self, column: nw.Expr, keys: Expressions) -> pl.DataFrame:
        return extremes(self.frame, column, keys)

    def prefetch(self, requests: Iterable[Request], tell: Callable[[int, int], None] | None = None) -> None:
        """Make the passes that ``requests`` will need, one for all requests with equal keys.

        ``tell`` is called with the number of each pass, from 1 up, and the number of passes.
        """
        merged: dict[tuple[tuple[str, str], ...], tuple[Expressions, dict[str, nw.Expr]]] = {}
        for request in requests:
            keys, values = self._plan(request)
            place = tuple((name, identity(expr)) for name, expr in keys.items())
            merged.setdefault(place, (keys, {}))[1].update({identity(expr): expr for expr in values.values()})
        for number, shared in enumerate(merged.values(), start=1):
            if tell is not None:
                tell(number, len(merged))
            self.sums(*shared)

    def cells(self, request: Request, shared: Request | None = None, apart: Sequence[nw.Expr] = ()) -> Sample:
        """Sums over the finest cells, with the values checked in the same pass.

        ``shared`` is a request with further 0/1 columns, whose pass is made instead; missing values in those columns do
        not matter here. ``apart`` are conditions, one of which each cell meets, for one pass each: polars buffers all
        rows when there are many cells, and separate passes need less memory.
        """
        import polars as pl

        full = self._with_design(request)
        keys, values = self._plan(full if shared is None or self.designed else shared)
        if apart:
            table = pl.concat([self.filter(part).sums(keys, values) for part in apart], how="vertical_relaxed")
            table = in_order(table, list(keys))
        else:
            table = self.sums(keys, values)
        cells, dropped = self.complete(full, table)
        design = None
        if self.designed:
            count = cells[COUNT].to_numpy()
            parts = None if self.cluster is None else partial(self._clusters, keys, cells)
            masses = self._masses(cells)
            design = designed(count, masses, parts)
            scaled = [f"value {name}" for name in request.values]
            cells = cells.with_columns(pl.col(scaled) * (count.sum() / masses[MASS].sum()))
        columns = {role: cells[f"role {role}"].to_numpy() for role in request.binary}
        return Sample(
            columns=columns | {name: _plain_key(cells[f"key {name}"]) for name in request.keys},
            count=cells[COUNT].to_numpy(),
            size=len(cells),
            values={name: cells[f"value {name}"].to_numpy() for name in request.values},
            partitions=self._partitions(request.grouping, cells, shared=shared is not None),
            dropped=dropped,
            design=design,
        )

    def _refuse_identifiers(self, keys: Expressions) -> None:
        """Refuse a group column whose first rows show too many levels, before a pass holds them; Spark's workers do."""
        named: dict[str, nw.Expr] = {}
        for name, key in keys.items():
            if name.startswith("group ") and (known := identity(key)) not in self._sampled:
                named[name] = self._sampled[known] = key
        if named and not has_workers(self.frame):
            first = collect(self.frame.select(**named).head(SAMPLE))
            for name in first.columns:
                if first[name].n_unique() > SAMPLE // 2:
                    refuse_many("groups", name.removeprefix("group "), self.distinct(named[name], MANY)[0])

    def _masses(self, lines: pl.DataFrame) -> dict[str, FloatArray]:
        """The sums of powers of the weights of each line's rows; raises for negative weights."""
        if (column := self.reading["weight"]) is None:
            return dict.fromkeys((MASS, SECOND, FOURTH), lines[COUNT].to_numpy())
        if n := float(lines["design bad"].sum()):
            raise errors.BadWeight(
                f"weight: column {column!r} has {n:,.0f} rows with a negative weight; weights are 0 or more."
            )
        return {power: lines[f"design {power}"].to_numpy() for power in (MASS, SECOND, FOURTH)}

    def _clusters(self, keys: Expressions, cells: pl.DataFrame, scale: float) -> Iterator[Block]:
        """Masses by cluster and cell. An engine's rows are read in parts of whole clusters that fit into memory."""
        import polars as pl

        assert self.cluster is not None
        parts = number_of_parts(float(cells[COUNT].sum())) if self.lazy else 1
        numbers = np.arange(len(cells), dtype=smallest_type(len(cells)))
        place = cells.select(list(keys)).with_columns(pl.Series(CELL, numbers))
        mass = None if self.count is None and self.reading["weight"] is None else self.weight * self.number
        for table in masses_by(self.frame, parts, self.cluster, keys, mass, place):
            yield from blocks(table, scale, len(cells))

    def rows(self, request: Request) -> Sample:
        """The requested columns row by row, checked as in `cells`. Lines whose ``count`` is 0 are left out."""
        import polars as pl

        full = self._with_design(request)
        keys, checks = self._plan(full)
        numbers = {f"number {r}": self._role(c)[0].cast(nw.Float64) for r, c in request.numeric.items()}
        # Values are weighted in sums only: here each row keeps its own.
        values = {f"value {name}": expr for name, expr in request.values.items()}
        columns = {**keys, **checks, **values, **numbers, COUNT: self.number}
        if self.cluster is not None:
            columns[CLUSTER] = nw.col(self.cluster)
        if self.count is not None:
            columns[BAD_COUNTS] = self._bad_count
        stem = self.fresh("column ")
        placed = {f"{stem}{i}": expr for i, expr in enumerate(columns.values())}
        # ``with_columns`` first: a selection of literals alone would have one row.
        wide = self.frame.with_columns(*(expr.alias(name) for name, expr in placed.items()))
        table = collect_rows(wide.select(*placed)).rename(dict(zip(placed, columns, strict=True)))
        table = table if self.count is None else self._check_counts(table)
        table = plain_keys(table, [name for name in columns if name.startswith("group ")])
        counted = [name for name in columns if name.startswith(("missing ", "outside ", "design "))]
        table, dropped = self.complete(full, table.with_columns(pl.col(name) * pl.col(COUNT) for name in counted))
        design = None
        if self.designed:
            masses = self._masses(table)
            parts = None
            if self.cluster is not None:
                lines = {CLUSTER: table[CLUSTER], CELL: np.arange(len(table)), MASS: masses[MASS]}
                parts = partial(blocks, pl.DataFrame(lines), width=len(table))
            design = designed(table[COUNT].to_numpy(), masses, parts)
        kinds = {"role": request.binary, "key": request.keys, "number": request.numeric, "value": request.values}
        return Sample(
            columns={name: _held(table[f"{kind} {name}"]) for kind, names in kinds.items() for name in names},
            count=None if self.count is None else table[COUNT].to_numpy(),
            partitions=self._partitions(request.grouping, table),
            dropped=dropped,
            size=len(table),
            design=design,
        )

    def _with_design(self, request: Request) -> Request:
        for dimension in request.grouping.dimensions if request.grouping else ():
            if dimension.name == self.cluster:  # a group would be one cluster, whose mean has no spread to judge by
                raise errors.UsageError(
                    f"cluster: {self.cluster!r} is also a group; each group would be a single cluster, and nothing "
                    "could be tested. Name the column that says which rows belong together."
                )
        if not self.designed:
            return request
        weight, cluster = self.reading["weight"], self.cluster
        return replace(
            request,
            numeric=request.numeric if weight is None else {**request.numeric, "weight": weight},
            labels=request.labels if cluster is None else {**request.labels, "cluster": cluster},
        )

    def _partitions(
        self, grouping: Grouping | None, cells: pl.DataFrame, *, shared: bool = False
    ) -> tuple[Partition, ...]:
        """The groups of the cells (or rows), under the readers' names.

        Requests that share a pass have the same groups, unless a cell was left out: these are kept.
        """
        if grouping is None:
            return ()
        if shared:
            keys = cells.select(f"group {dimension.name}" for dimension in grouping.every)
            if self._rolled and self._rolled[0] is grouping and self._rolled[1].equals(keys):
                return self._rolled[2]
        rolled = partitions(grouping, cells)
        if self.labels is not NOTHING:
            times = Counter(self.labels.columns.values())
            words = {name: word for name, word in self.labels.columns.items() if times[word] == 1}
            rolled = tuple(
                replace(
                    part,
                    groups=self.labels.named(part.groups),
                    titles=tuple(words.get(name, name) for name in part.dimensions),
                )
                for part in rolled
            )
        if shared:
            self._rolled = (grouping, keys, rolled)
        return rolled

    def _role(self, column: str | nw.Expr) -> tuple[nw.Expr, DType]:
        """The expression behind a role and its type; an expression counts as a number."""
        if isinstance(column, str):
            return nw.col(column), self.schema[column]
        return column.cast(nw.Float64), nw.Float64()

    def _plan(self, request: Request) -> tuple[Expressions, Expressions]:
        self.check(request)
        keys: dict[str, nw.Expr] = {}
        values: dict[str, nw.Expr] = {}
        for dimension in request.grouping.every if request.grouping else ():
            keys[f"group {dimension.name}"] = dimension.key
        for role, column in request.binary.items():
            few = isinstance(column, str) and column in self._small
            keys[f"role {role}"] = binary_code(*self._role(column), few=few)
        for name, expr in request.keys.items():
            keys[f"key {name}"] = expr
        plain = self.reading["weight"] is None
        for name, expr in request.values.items():
            values[f"value {name}"] = expr if plain else expr.cast(nw.Float64) * self.weight
        if not plain:
            square, known = self.weight * self.weight, ~missing(self.weight, nw.Float64())
            # 0 where a weight is missing: such a row is not complete, and is left out.
            for power, value in {MASS: self.weight, SECOND: square, FOURTH: square * square}.items():
                values[f"design {power}"] = nw.when(known).then(value).otherwise(0.0)
            values["design bad"] = flag(self.weight < 0)
        if request.numeric or request.labels:
            needed = {**request.numeric, **request.labels}
            absences = {role: missing(*self._role(column)) for role, column in needed.items()}
            keys[COMPLETE] = ~nw.any_horizontal(*absences.values(), ignore_nulls=True)
            values |= {f"missing {role}": flag(condition) for role, condition in absences.items()}
        for role in request.probabilities:
            number = self._role(request.numeric[role])[0]
            values[f"outside {role}"] = flag((number < 0) | (number > 1))
        return keys, values

    def complete(self, request: Request, cells: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
        """Raise for missing and non-0/1 values, or drop and count those that the options allow to drop."""
        import polars as pl

        count = cells[COUNT].to_numpy()
        if count.sum() == 0:
            raise errors.EmptyFrame("data: the table has no rows.")
        dropped: dict[str, int] = {}
        keep = np.ones(len(cells), dtype=bool)
        for kind, columns in (("role", request.binary), ("missing", request.numeric), ("missing", request.labels)):
            for role, column in columns.items():
                name = f"column {column!r}" if isinstance(column, str) else "the expression"
                checked = cells[f"{kind} {role}"]
                if kind == "role":
                    nulls = checked.is_null().to_numpy()
                    other = (checked.cast(pl.Int16) * (1 - checked.cast(pl.Int16)) != 0).fill_null(False).to_numpy()
                    if n := count[other].sum():
                        raise errors.NotBinary(
                            f"{role}: {name} has {n:,.0f} rows that are neither 0 nor 1. "
                            "Recode the column, or choose a metric for numbers."
                        )
                    keep &= ~nulls
                n = float(count[nulls].sum() if kind == "role" else checked.sum())
                if n and self.missing == "raise":
                    raise errors.MissingValues(
                        f"{role}: {name} has {n:,.0f} rows with a null, NaN or infinite value "
                        f"(beyond {LARGEST:g} counts as infinite). "
                        'Fix them, or leave those rows out and have them counted, with missing="drop".'
                    )
                if n:
                    dropped[column if isinstance(column, str) else role] = round(n)
        for role in request.probabilities:
            if n := cells[f"outside {role}"].sum():
                column = request.numeric[role]
                raise errors.OutOfRange(
                    f"{role}: {f'column {column!r}' if isinstance(column, str) else 'the expression'} has {n:,.0f} "
                    "rows outside [0, 1]; probabilities are needed. "
                    "Rescale the column, or choose a metric for numbers such as mse."
                )
        if request.numeric or request.labels:
            keep &= cells[COMPLETE].to_numpy()
        for dimension in request.grouping.every if request.grouping else ():
            null = cells[f"group {dimension.name}"].is_null().to_numpy()
            n = count[null].sum()
            if n and self.missing_group == "raise":
                assert request.grouping is not None
                argument, kind = ("given", "stratum") if dimension in request.grouping.strata else ("groups", "group")
                raise errors.MissingGroups(
                    f'{argument}: {dimension.name!r} has {n:,.0f} rows with no value. Pass missing_group="level" to '
                    f'make them a {kind} of their own, or missing_group="drop" to leave them out and have them counted.'
                )
            if n and self.missing_group == "drop":
                dropped[dimension.name] = round(n)
                keep &= ~null
        if not count[keep].sum():
            raise errors.EmptyFrame("data: no row is left after dropping those with missing values.")
        if not keep.all():
            cells = cells.filter(pl.Series(keep))
        return cells.with_columns(pl.col(f"role {role}").cast(pl.Int8) for role in request.binary), dropped


def with_conditions(
    source: Source, arguments: Mapping[str, Any], forms: Mapping[str, str | None]
) -> tuple[Source, dict[str, Any]]:
    """The table with the conditions among the ``arguments`` as columns, and the arguments with the columns' names.

    If a column has "yes" and "no" instead of 1 and 0, a condition says which counts as 1: ``iso.col("deny") == "no"``.
    """
    named = dict(arguments)
    for argument, condition in arguments.items():
        if isinstance(condition, nw.Expr) and forms.get(argument) == "column":
            source.check_expression(argument, condition)
            named[argument] = argument if argument not in source.schema else source.fresh(f"{argument} ")
            source = source.with_role(named[argument], condition)
    return source, named


def _held(values: pl.Series) -> AnyArray:
    """The column as a numpy array; 128-bit integers, which are only compared, become ranks."""
    import polars as pl

    return (values.rank("dense") if values.dtype in (pl.Int128, pl.UInt128) else values).to_numpy()


def _plain_key(values: pl.Series) -> AnyArray:
    """The values of a key as a numpy array; 128-bit integers, which numpy lacks, as Python's."""
    import polars as pl

    return np.array(values.to_list(), object) if values.dtype in (pl.Int128, pl.UInt128) else values.to_numpy()


@options.checked
def open_source(data: object, *, labels: Labels = NOTHING, **rows: Unpack[options.RowOptions]) -> Source:
    """Open any supported table. A `Source` is returned as it is, so that an audit can share one.

    ``labels``: the words that results use for columns, values, groups and metrics.
    """
    reading: options.RowOptions = {**options.ROW_DEFAULTS, **rows}
    if not isinstance(data, Source):
        return Source(*adapt(data), reading, labels)
    if reading not in (options.ROW_DEFAULTS, data.reading):
        raise errors.UsageError(f"{', '.join(options.ROW_DEFAULTS)}: set them where the source is opened.")
    return data
