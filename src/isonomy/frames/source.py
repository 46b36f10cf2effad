"""A table opened for auditing: its columns, and the grouped passes already made over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, reduce
from itertools import count as count_up
from operator import and_
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy import options
from isonomy.errors import BadWeight, ComputedName, DataError, EmptyFrame, UnknownColumn, UsageError, WrongType
from isonomy.frames.adapt import Input, Lazy, adapt, first_line
from isonomy.frames.design import (
    CELL,
    CLUSTER,
    FOURTH,
    MASS,
    SECOND,
    Block,
    block_of,
    designed,
    masses_by,
    number_of_parts,
    refuse_cluster,
    smallest_type,
)
from isonomy.frames.expressions import Schema, flag, missing
from isonomy.frames.groups import NOTHING, ROW_COUNT, Grouping, Labels, Partition, grouping, key_name, partitions
from isonomy.frames.request import (
    COMPLETE,
    Request,
    Sample,
    binary_code,
    check_types,
    complete,
    name_of,
    refuse_bad_counts,
    refuse_nested,
    role_expression,
)
from isonomy.frames.sums import (
    COUNT,
    Pass,
    aggregate,
    collect,
    extremes,
    identity,
    in_order,
    number_rows,
    plain_keys,
    split,
)
from isonomy.numerics.arrays import AnyArray, FloatArray

if TYPE_CHECKING:
    import polars as pl


SAMPLE = 5_000  # lines read to decide whether counts are a survey's weights


@dataclass(frozen=True, slots=True)
class Reading:
    """How a table is read: what its rows stand for, and how missing values are treated."""

    count: str | None = None
    weight: str | None = None
    cluster: str | None = None
    missing: options.Missing = "raise"
    missing_group: options.MissingGroup = "raise"


class Source:
    """A table opened for auditing. It keeps the sums it has made, so that tests can share passes.

    ``frame`` is the narwhals frame, for computations other than grouped sums.
    """

    def __init__(
        self, origin: Input, reading: Reading, labels: Labels = NOTHING, computed: frozenset[str] = frozenset()
    ) -> None:
        self.frame = origin.frame
        self.lines = origin.frame  # including lines that stand for no row: a plan numbers them all
        self.backend = origin.backend
        self.lazy = origin.lazy
        self._bytes = origin.bytes
        self.reading = reading
        self.count, self.cluster = reading.count, reading.cluster
        self.missing, self.missing_group = reading.missing, reading.missing_group
        self._with: dict[tuple[str, str], tuple[nw.Expr, Source]] = {}
        self._computed = computed  # columns of `with_role`
        self.labels = labels
        self._passes: dict[tuple[tuple[str, str], ...], tuple[Pass, pl.DataFrame]] = {}
        self._rolled: tuple[Grouping, pl.DataFrame, tuple[Partition, ...]] | None = None
        self.require(count=reading.count, weight=reading.weight, cluster=reading.cluster)
        for argument, column in (("count", reading.count), ("weight", reading.weight)):
            if column is not None and not self.schema[column].is_numeric():
                kind = "counts are whole numbers" if argument == "count" else "weights are numbers"
                raise WrongType(f"{argument}: column {column!r} is {self.schema[column]}; {kind}.")
        refuse_nested(self.schema, "cluster", reading.cluster)
        if (count := reading.count) is not None:
            # A line that stands for no row is as if it were absent.
            self.frame = self.frame.filter((nw.col(count) != 0) | nw.col(count).is_null())

    @property
    def in_process(self) -> bool:
        """Whether polars holds the rows, in the memory of this process."""
        return self.frame.implementation.is_polars()

    @cached_property
    def schema(self) -> Schema:
        """Column names and narwhals types."""
        columns = self.frame.collect_schema().items()
        return {ComputedName(name) if name in self._computed else name: dtype for name, dtype in columns}

    def require(self, **columns: str | None) -> None:
        """Raise unless every named column exists. The keyword is the argument named in the error."""
        for argument, column in columns.items():
            if column is not None and (not isinstance(column, str) or column not in self.schema):
                raise UnknownColumn(argument, column, self.schema)

    def grouping(self, groups: object, depth: int = 1, *, argument: str = "groups") -> Grouping:
        """Resolve the argument ``groups`` against the schema; no row is read."""
        resolved = grouping(self.schema, groups, depth, argument=argument)
        for dimension in resolved.dimensions:
            if dimension.condition:
                self.check_expression(f"where({dimension.name!r})", dimension.key, boolean=True)
        return resolved

    def check(self, request: Request) -> None:
        """Raise unless the columns of a request exist and have the types it needs. Reads no row."""
        check_types(self.schema, request, self.frame)

    def check_expression(self, argument: str, expr: nw.Expr, *, boolean: bool = False) -> None:
        """Raise unless the engine can evaluate ``expr`` to numbers (to true or false, if ``boolean``). Reads no row."""
        try:
            dtype = self.frame.head(0).select(expr.alias("value")).collect_schema()["value"]
        except Exception as error:  # every engine has its own errors
            columns = ", ".join(self.schema)
            raise UsageError(f"{argument}: cannot be evaluated: {first_line(error)} Columns: {columns}.") from error
        if boolean and dtype != nw.Boolean:
            raise UsageError(f'{argument}: the expression gives {dtype}; give a condition such as iso.col("age") < 25.')
        if not boolean and not (dtype.is_numeric() or dtype == nw.Boolean):
            raise UsageError(f"{argument}: the expression gives {dtype}; give numbers.")

    def derived(self, frame: Lazy, computed: Iterable[str] = ()) -> Source:
        """Another frame under the same options, with rows left out or columns added."""
        origin = Input(frame, self.backend, self.lazy, self._bytes)
        return Source(origin, self.reading, self.labels, self._computed.union(computed))

    def reread(self, **reading: Any) -> Source:
        """The same table under other options."""
        origin = Input(self.frame, self.backend, self.lazy, self._bytes)
        return Source(origin, replace(self.reading, **reading), self.labels, self._computed)

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
        """The same table, restricted to the rows in which ``condition`` holds."""
        return self.derived(self.frame.filter(condition))

    def narrowed(self, columns: Iterable[str], condition: nw.Expr | None, *, hold: bool) -> Source:
        """The named columns of the rows that meet ``condition``; ``hold`` reads them into memory."""
        rows = self.frame if condition is None else self.frame.filter(condition)
        wanted = set(columns)
        chosen = rows.select(*(name for name in self.schema if name in wanted))
        data = collect(chosen) if hold else chosen.to_native()
        return Source(adapt(data), self.reading, self.labels)

    def head(self, rows: int) -> pl.DataFrame:
        """The first rows, in memory."""
        return collect(self.frame.head(rows))

    def distinct(self, column: str, rows: int) -> tuple[int, int]:
        """The number of distinct values of a column among the first rows, and the number of those rows."""
        values = aggregate(self.frame.head(rows), {"value": nw.col(column)}, {})
        counts = collect(aggregate(values, {}, {"rows": nw.col(COUNT)}))
        return (round(float(counts[COUNT][0])), round(float(counts["rows"][0]))) if len(counts) else (0, 0)

    def with_columns(self, columns: Mapping[str, nw.Expr]) -> Source:
        """The same table with further columns computed from its own."""
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
        """The number of rows of each line."""
        return nw.lit(1.0) if self.count is None else nw.col(self.count).cast(nw.Float64)

    @property
    def weight(self) -> nw.Expr:
        """The weight of each of a line's rows, as in the column."""
        column = self.reading.weight
        return nw.lit(1.0) if column is None else nw.col(column).cast(nw.Float64)

    @cached_property
    def like_weights(self) -> bool:
        """Whether the counts look like a survey's weights: many distinct, large numbers among the first lines."""
        if self.count is None:
            return False
        counts = collect(self.frame.select(nw.col(self.count).cast(nw.Float64)).head(SAMPLE))[self.count]
        mean = counts.mean()
        return len(counts) >= SAMPLE // 5 and counts.n_unique() >= 100 and isinstance(mean, float) and mean >= 10

    @property
    def designed(self) -> bool:
        """Whether rows have weights or clusters."""
        return self.reading.weight is not None or self.cluster is not None

    def sums(self, request: Pass) -> pl.DataFrame:
        """One grouped pass, or the stored one: keys, `COUNT` and values, cells in canonical order.

        Everything is multiplied by the ``count`` column, if there is one.
        """
        import polars as pl

        stored, known = self._passes.get(request.identity, (Pass(request.keys, {}), None))
        needed = {name: identity(expr) for name, expr in request.values.items()}
        absent = {needed[n]: e for n, e in request.values.items() if needed[n] not in stored.values}
        if known is None or absent:
            fresh = self._pass(request.keys, absent)
            if known is not None:
                same = [*request.keys, COUNT]
                if not fresh.select(same).equals(known.select(same)):
                    raise DataError("data: the table changed between two passes; audit a copy that does not change.")
                fresh = known.hstack(fresh.select(list(absent)))
            known = fresh
            # The expressions are stored with their sums: an identity may be an object's id.
            self._passes[request.identity] = (Pass(stored.keys, {**stored.values, **absent}), known)
        return known.select(*request.keys, COUNT, *(pl.col(column).alias(name) for name, column in needed.items()))

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
        """The smallest and the largest finite value of ``column`` for each combination of ``keys``: low and high."""
        return extremes(self.frame, column, keys)

    def prefetch(self, requests: Iterable[Request], tell: Callable[[int, int], None] | None = None) -> None:
        """Make the passes that ``requests`` will need, one for all requests with equal keys.

        ``tell`` is called with the number of each pass, from 1 up, and the number of passes.
        """
        merged: dict[tuple[tuple[str, str], ...], Pass] = {}
        for request in requests:
            single = self._plan(request)
            known = merged.setdefault(single.identity, Pass(single.keys, {}))
            named = {identity(expr): expr for expr in single.values.values()}
            merged[single.identity] = Pass(single.keys, {**known.values, **named})
        for number, shared in enumerate(merged.values(), start=1):
            if tell is not None:
                tell(number, len(merged))
            self.sums(shared)

    def cells(self, request: Request, shared: Request | None = None, apart: Sequence[nw.Expr] = ()) -> Sample:
        """Sums over the finest cells, with the values checked in the same pass.

        ``shared`` is a request with further 0/1 columns, whose pass is made instead; missing values in those columns do
        not matter here. ``apart`` are conditions, one of which each cell meets, for one pass each: polars buffers all
        rows when there are many cells, and separate passes need less memory.
        """
        import polars as pl

        full = self._with_design(request)
        plan = self._plan(full if shared is None or self.designed else self._with_design(shared))
        if apart:
            table = pl.concat([self.filter(part).sums(plan) for part in apart], how="vertical_relaxed")
            table = in_order(table, list(plan.keys))
        else:
            table = self.sums(plan)
        cells, dropped = self._complete(full, table)
        design = None
        if self.designed:
            count = cells[COUNT].to_numpy()
            parts = None if self.cluster is None else partial(self._clusters, plan.keys, cells)
            masses = self._masses(cells)
            design = designed(count, masses, parts)
            scaled = [name_of("value", name) for name in request.values]
            cells = cells.with_columns(pl.col(scaled) * (count.sum() / masses[MASS].sum()))
        keys = {role: cells[name_of("role", role)].to_numpy() for role in request.binary}
        return Sample(
            columns=keys | {name: cells[name_of("key", name)].to_numpy() for name in request.keys},
            count=cells[COUNT].to_numpy(),
            size=len(cells),
            values={name: cells[name_of("value", name)].to_numpy() for name in request.values},
            partitions=self._partitions(request, cells) if shared is None else self._shared(request, cells),
            dropped=dropped,
            design=design,
        )

    def _masses(self, lines: pl.DataFrame) -> dict[str, FloatArray]:
        """The sums of powers of the weights of each line's rows; raises for negative weights."""
        if (column := self.reading.weight) is None:
            return dict.fromkeys((MASS, SECOND, FOURTH), lines[COUNT].to_numpy())
        if n := float(lines[name_of("design", "bad")].sum()):
            raise BadWeight(
                f"weight: column {column!r} has {n:,.0f} rows with a negative weight; weights are 0 or more."
            )
        return {power: lines[name_of("design", power)].to_numpy() for power in (MASS, SECOND, FOURTH)}

    def _clusters(self, keys: Mapping[str, nw.Expr], cells: pl.DataFrame, scale: float) -> Iterator[Block]:
        """Masses by cluster and cell, in parts that fit into memory."""
        import polars as pl

        assert self.cluster is not None
        parts = number_of_parts(float(cells[COUNT].sum())) if self.lazy else 1
        numbers = np.arange(len(cells), dtype=smallest_type(len(cells)))
        place = cells.select(list(keys)).with_columns(pl.Series(CELL, numbers))
        mass = None if self.count is None and self.reading.weight is None else self.weight * self.number
        for frame in split(self.frame, self.cluster, parts) if parts > 1 else [self.frame]:
            table = masses_by(frame, nw.col(self.cluster), keys, mass, place)
            masses = table[MASS].to_numpy() * scale if MASS in table.columns else None
            yield block_of(table[CLUSTER], table[CELL].to_numpy(), masses, len(cells))

    def rows(self, request: Request) -> Sample:
        """The requested columns row by row, checked as in `cells`. Lines whose ``count`` is 0 are left out."""
        import polars as pl

        full = self._with_design(request)
        plan = self._plan(full)
        numbers = {name_of("number", r): role_expression(self.schema, c)[0] for r, c in request.numeric.items()}
        # Values are weighted in sums only: here each row keeps its own.
        values = {name_of("value", name): expr for name, expr in request.values.items()}
        columns = {**plan.keys, **plan.values, **values} | {name: e.cast(nw.Float64) for name, e in numbers.items()}
        columns[COUNT] = self.number
        if self.cluster is not None:
            columns[CLUSTER] = nw.col(self.cluster)
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
        counted = [name for name in columns if name.startswith(("missing ", "outside ", "design "))]
        table, dropped = self._complete(full, table.with_columns(pl.col(name) * pl.col(COUNT) for name in counted))
        design = None
        if self.designed:
            masses = self._masses(table)
            parts = None if self.cluster is None else partial(_single, table[CLUSTER], masses[MASS])
            design = designed(table[COUNT].to_numpy(), masses, parts)
        kinds = {"role": request.binary, "key": request.keys, "number": request.numeric, "value": request.values}
        return Sample(
            columns={name: _held(table[name_of(kind, name)]) for kind, names in kinds.items() for name in names},
            count=None if self.count is None else table[COUNT].to_numpy(),
            partitions=self._partitions(request, table),
            dropped=dropped,
            size=len(table),
            design=design,
        )

    def _with_design(self, request: Request) -> Request:
        """The request with the columns of the design."""
        if request.grouping is not None:
            refuse_cluster(self.cluster, {dimension.name for dimension in request.grouping.dimensions})
        weight, cluster = self.reading.weight, self.cluster
        return replace(
            request,
            numeric=request.numeric if weight is None else {**request.numeric, "weight": weight},
            labels=request.labels if cluster is None else {**request.labels, "cluster": cluster},
        )

    def _partitions(self, request: Request, cells: pl.DataFrame) -> tuple[Partition, ...]:
        """The groups of the cells (or rows), under the readers' names."""
        rolled = () if request.grouping is None else partitions(request.grouping, cells)
        if self.labels is NOTHING:
            return rolled
        times = Counter(self.labels.columns.values())
        words = {name: word for name, word in self.labels.columns.items() if times[word] == 1}
        return tuple(
            replace(
                part,
                groups=self.labels.named(part.groups),
                titles=tuple(words.get(name, name) for name in part.dimensions),
            )
            for part in rolled
        )

    def _shared(self, request: Request, cells: pl.DataFrame) -> tuple[Partition, ...]:
        """The same for requests that share a pass: they have the same groups, unless a cell was left out."""
        if request.grouping is None:
            return ()
        keys = cells.select([key_name(dimension.name) for dimension in request.grouping.every])
        if self._rolled is None or self._rolled[0] is not request.grouping or not self._rolled[1].equals(keys):
            self._rolled = (request.grouping, keys, self._partitions(request, cells))
        return self._rolled[2]

    def _plan(self, request: Request) -> Pass:
        """The pass for a request: its keys and values, and those of the checks."""
        self.check(request)
        keys = {key_name(name): key for name, key in request.grouping.keys.items()} if request.grouping else {}
        for role, column in request.binary.items():
            few = isinstance(column, str) and column in self._bytes
            keys[name_of("role", role)] = binary_code(*role_expression(self.schema, column), few=few)
        keys |= {name_of("key", name): expr for name, expr in request.keys.items()}
        plain = self.reading.weight is None
        values = {
            name_of("value", name): expr if plain else expr.cast(nw.Float64) * self.weight
            for name, expr in request.values.items()
        }
        if not plain:
            square, known = self.weight * self.weight, ~missing(self.weight, nw.Float64())
            # 0 where a weight is missing: such a row is not complete, and is left out.
            for power, value in {MASS: self.weight, SECOND: square, FOURTH: square * square}.items():
                values[name_of("design", power)] = nw.when(known).then(value).otherwise(0.0)
            values[name_of("design", "bad")] = flag(self.weight < 0)
        if request.needed:
            absences = {role: missing(*role_expression(self.schema, c)) for role, c in request.needed.items()}
            keys[COMPLETE] = ~nw.any_horizontal(*absences.values(), ignore_nulls=True)
            values |= {name_of("missing", role): flag(condition) for role, condition in absences.items()}
        for role in request.probabilities:
            number = role_expression(self.schema, request.numeric[role])[0]
            values[name_of("outside", role)] = flag((number < 0) | (number > 1))
        return Pass(keys, values)

    def _complete(self, request: Request, cells: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
        if not len(cells):
            raise EmptyFrame("data: the table has no rows.")
        return complete(request, cells, missing=self.missing, missing_group=self.missing_group)


def _held(values: pl.Series) -> AnyArray:
    """The column as a numpy array; 128-bit integers, which are only compared, become ranks."""
    import polars as pl

    return (values.rank("dense") if values.dtype in (pl.Int128, pl.UInt128) else values).to_numpy()


def _single(cluster: pl.Series, mass: FloatArray, scale: float) -> Iterator[Block]:
    """Rows as lines of their own."""
    yield block_of(cluster, np.arange(len(cluster)), mass * scale, len(cluster))


@options.checked
def open_source(
    data: object,
    *,
    count: str | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    missing: options.Missing = "raise",
    missing_group: options.MissingGroup = "raise",
    labels: Labels = NOTHING,
) -> Source:
    """Open any supported table. A `Source` is returned as it is, so that an audit can share one.

    ``labels``: the words that results use for columns, values, groups and metrics.
    """
    reading = Reading(count, weight, cluster, missing, missing_group)
    if not isinstance(data, Source):
        return Source(adapt(data), reading, labels)
    if reading not in (Reading(), data.reading):
        raise UsageError(f"{', '.join(field.name for field in fields(Reading))}: set them where the source is opened.")
    return data
