"""Every aggregation in isonomy goes through `aggregate`, because plain expressions can be silently wrong.

Summands are computed first and cast to Float64, and only ``col.sum()`` stands inside ``agg``. Why:

* a ``when/then`` sum inside ``agg`` ignores its condition on pandas and pyarrow, with no error;
* dozens of expressions inside ``agg`` take minutes on pandas;
* a float32 sum of twenty million 0.1's is off by 9 %;
* DuckDB sums integers to Decimal, Spark cannot sum booleans.

Besides sums: extremes by key, parts of the rows by a hash, codes of a column, and work on the rows of Spark's workers.
The workers import this package, so it has to be installed there; every other question asks Spark for sums alone.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, UsageError, WrongType
from isonomy.frames.adapt import Lazy, first_line
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Entries = tuple[IntArray, FloatArray]  # places of an array, and the numbers to add there
Work = Callable[[Mapping[str, AnyArray]], Iterable[Entries]]

COUNT = "__count"
# Their errors concern the table, not this package; polars raises one for a type that it lacks.
ENGINES = ("duckdb", "_duckdb", "pyspark", "py4j", "ibis", "polars")
PART_ROWS = 2**20  # rows of one part: a Spark worker holds their columns
SENT = 2_000_000  # the most rows that Spark's workers send to the driver for one question
_PLACE, _VALUE = "place", "value"


def identity(expr: str | nw.Expr) -> str:
    """Text that is equal only for equal expressions, including the values inside them and their types.

    (The printed form is not enough: it prints 1 and "1" alike and abbreviates arrays.) An expression with a function
    inside is equal to itself only; whoever stores its identity keeps the expression too, so that its id is not reused.
    """
    try:
        return hashlib.sha256(pickle.dumps(expr)).hexdigest()
    except Exception:
        return f"object {id(expr)}"


def aggregate(frame: Lazy, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr]) -> Lazy:
    """Group ``frame`` by ``keys`` and sum ``values``, without collecting; the number of rows is `COUNT`.

    Keys and values map a name to an expression. Aggregations can be nested: the result is a frame again.
    """
    by = {f"__k{i}": key for i, key in enumerate(keys.values())}
    summed = {f"__v{i}": value.cast(nw.Float64) for i, value in enumerate(values.values())}
    # ``with_columns`` first: a selection of literals alone would have one row.
    computed = frame
    if by or summed:
        computed = frame.with_columns(*(expr.alias(name) for name, expr in (by | summed).items()))
    sums = (nw.len().alias(COUNT), *(nw.col(name).sum() for name in summed))
    if by:
        grouped = computed.select(*by, *summed).group_by(list(by)).agg(*sums)
    else:  # do not group by a constant: polars would buffer every row. An empty table yields no cells, as with keys.
        grouped = computed.select(*sums).filter(nw.col(COUNT) > 0)
    return grouped.select(
        *(nw.col(place).alias(name) for place, name in zip(by, keys, strict=True)),
        nw.col(COUNT).cast(nw.Float64),
        *(nw.col(place).cast(nw.Float64).alias(name) for place, name in zip(summed, values, strict=True)),
    )


def collect(frame: Lazy) -> pl.DataFrame:
    """Bring a (small) frame into memory as polars, whatever engine holds it."""
    import polars as pl

    if not frame.implementation.is_polars():
        try:
            return frame.collect(backend="polars").to_native()
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ENGINES:
                raise
            raise DataError(f"data: the engine cannot read the table: {first_line(error)}") from error
    native: pl.LazyFrame = frame.to_native()
    try:
        return native.collect(engine="streaming")
    except (pl.exceptions.SchemaError, pl.exceptions.ColumnNotFoundError) as error:
        same = "Files of one table need the same columns and types."
        raise DataError(f"data: the table cannot be read: {first_line(error)}. {same}") from error
    except MemoryError:
        raise
    except Exception as error:  # from polars, or from the caller's own function in a lazy frame
        raise DataError(f"data: the table cannot be read: {first_line(error)}") from error
    except pl.exceptions.PanicException as error:  # not an Exception: a damaged file
        raise DataError("data: the table cannot be read: a file is damaged, or changed while it was read.") from error


def collect_rows(frame: Lazy) -> pl.DataFrame:
    """The rows themselves, for a question that sums cannot answer; Spark's workers send a limited number."""
    if not has_workers(frame):
        return collect(frame)
    table = collect(frame.head(SENT + 1))
    if len(table) > SENT:
        raise UsageError(
            f"data: this question needs the rows themselves, of which Spark's workers send at most {SENT:,}. Ask about "
            "a part of the rows, or give the path of parquet files with them."
        )
    return table


def extremes(frame: Lazy, value: nw.Expr, keys: Mapping[str, nw.Expr]) -> pl.DataFrame:
    named = {f"key {i}": key for i, key in enumerate(keys.values())}
    columns = {"value": value.cast(nw.Float64), **named}
    finite = frame.select(*(expr.alias(name) for name, expr in columns.items())).filter(nw.col("value").is_finite())
    ends = (nw.col("value").min().alias("low"), nw.col("value").max().alias("high"))
    table = collect(finite.group_by(*named).agg(*ends) if named else finite.select(*ends))
    return in_order(table.rename(dict(zip(named, keys, strict=True))), list(keys))


def number_rows(frame: Lazy, name: str, backend: str) -> Lazy:
    native = frame.to_native()
    kind = frame.implementation
    if kind.is_polars():
        return nw.from_native(native.with_row_index(name))
    if kind.is_duckdb():
        quoted = name.replace('"', '""')
        return nw.from_native(native.project(f'*, row_number() over () - 1 as "{quoted}"'))
    if kind.is_pyspark():
        from pyspark.sql import functions

        return nw.from_native(native.withColumn(name, functions.monotonically_increasing_id()))
    if kind.is_ibis():
        import ibis

        return nw.from_native(native.mutate(ibis.row_number().name(name)))
    raise UsageError(
        f"data: rows of {backend} cannot be numbered, as a random split requires; pass the table in another form."
    )


def plain_keys(cells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return cells.with_columns(*map(_plain, cells.select(list(keys))))


def in_order(cells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return plain_keys(cells, keys).sort(list(keys), nulls_last=True) if keys else cells


def _plain(key: pl.Series) -> pl.Series:
    """One type for each kind of value: text, Int64, Float64, Boolean, dates. Whole floats become integers again.

    (Pandas turns integers into floats when one is missing; labels must not depend on that.)
    """
    import polars as pl

    kind = key.dtype
    if kind == pl.Object:
        raise WrongType("data: a column holds objects; use text, numbers, booleans or dates.")
    if isinstance(kind, (pl.Categorical, pl.Enum)):
        return key.cast(pl.String)
    if kind.is_integer():
        return key if kind in (pl.UInt64, pl.Int128) and len(key) and key.max() > 2**62 else key.cast(pl.Int64)  # type: ignore[operator]
    if kind.is_numeric():
        numbers = key.cast(pl.Float64).fill_nan(None)
        if kind.is_decimal() and numbers.n_unique() < key.n_unique():
            return key  # Float64 would merge distinct groups
        whole = numbers.drop_nulls()
        if len(whole) and bool((whole == whole.floor()).all()) and bool((whole.abs() < 2**53).all()):
            return numbers.cast(pl.Int64)
        return numbers
    return key


def code_column(column: pl.Series) -> tuple[IntArray, int]:
    """A code from 0 up for each line, equal for equal values and largest for null; and the number of codes.

    Codes need not be in the order of the values, and some may stand for no value: integers that are dense enough are
    their own codes.
    """
    import polars as pl

    if column.dtype in (pl.Int128, pl.UInt128):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical)
    if isinstance(column.dtype, (pl.Categorical, pl.Enum)):
        column = column.to_physical()
    low, span, dense = 1, 0, False
    if column.dtype.is_integer() and column.null_count() < len(column):
        low = int(column.min())  # type: ignore[arg-type]
        span = int(column.max()) - low + 1  # type: ignore[arg-type]
        dense = span <= 4 * len(column) + 1024
    if not dense:
        column = column.rank("dense")
        low, span = 1, int(column.max() or 0)  # type: ignore[arg-type]
    values = column.fill_null(low).to_numpy()
    kind = np.int32 if span < 2**31 - 1 else np.int64
    codes = np.subtract(values, values.dtype.type(low), dtype=kind, casting="unsafe")
    if nulls := column.null_count():
        codes[column.is_null().to_numpy()] = span
    return codes, span + bool(nulls)


def code_array(values: AnyArray) -> tuple[IntArray, BoolArray | None]:
    """The codes of an array's values, and which of them are known (None: all)."""
    import polars as pl

    column = pl.Series(values, strict=False)
    if column.dtype == pl.Object:  # decimals, for example
        column = pl.Series([None if value is None else str(value) for value in values.tolist()])
    if column.dtype.is_float():
        column = column.fill_nan(None)
    known = column.is_not_null().to_numpy()
    return code_column(column)[0].astype(np.intp), None if known.all() else known


def sums_at(
    frame: Lazy, keys: Mapping[str, tuple[nw.Expr, int]], values: Mapping[str, nw.Expr]
) -> dict[str, FloatArray]:
    """Sums by keys that are whole numbers from 0 up, as arrays with one axis per key; COUNT is among them.

    ``keys`` has the expression of each key and the number of its values; sums are 0 where no row has them.
    """
    table = collect(aggregate(frame, {name: key for name, (key, _) in keys.items()}, values))
    place = tuple(table[name].to_numpy().astype(np.intp) for name in keys)
    arrays = {}
    for name in (COUNT, *values):
        arrays[name] = np.zeros([size for _, size in keys.values()])
        if len(table):
            arrays[name][place if place else ...] = table[name].to_numpy() if place else table[name][0]
    return arrays


def count_persons(frame: Lazy, person: str, group: str, size: int) -> tuple[FloatArray, int]:
    """The number of persons in each of ``size`` groups, and the number of persons in several."""
    pairs = aggregate(frame, {"person": nw.col(person), "group": nw.col(group)}, {})
    persons = sums_at(pairs, {"group": (nw.col("group"), size)}, {})[COUNT]
    several = aggregate(pairs, {"person": nw.col("person")}, {}).filter(nw.col(COUNT) > 1)
    return persons, round(float(sums_at(several, {}, {})[COUNT]))


def ends_at(frame: Lazy, key: nw.Expr, size: int, value: nw.Expr) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest ``value`` for each ``key``, a whole number below ``size``; NaN without a row."""
    table = extremes(frame, value, {"key": key})
    ends = np.full((2, size), np.nan)
    ends[:, table["key"].to_numpy().astype(np.intp)] = table["low"].to_numpy(), table["high"].to_numpy()
    return ends[0], ends[1]


def off_binary(column: str) -> nw.Expr:
    """(y (1 - y))^2, positive unless y is 0 or 1; its sum is 0 only if all values are 0 or 1."""
    y = nw.col(column).cast(nw.Float64)
    return (y * (1.0 - y)) * (y * (1.0 - y))


def split(frame: Lazy, column: str, parts: int) -> list[Lazy]:
    """The rows in parts of about equal size, by a hash of one column: rows with equal values are in one part."""
    native, engine = frame.to_native(), frame.implementation
    conditions: list[Any]
    if engine.is_polars():
        import polars as pl

        conditions = [pl.col(column).hash() % parts == k for k in range(parts)]
    elif engine.is_duckdb():
        quoted = column.replace('"', '""')
        conditions = [f'hash("{quoted}") % {parts} = {k}' for k in range(parts)]
    elif engine.is_pyspark():
        from pyspark.sql import functions

        conditions = [functions.pmod(functions.hash(column), functions.lit(parts)) == k for k in range(parts)]
    else:
        conditions = [(native[column].hash() % parts + parts) % parts == k for k in range(parts)]
    return [nw.from_native(native.filter(condition)) for condition in conditions]


def has_workers(frame: Lazy) -> bool:
    return frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect()


def summed_parts(frame: Lazy, key: str | None, rows: int, work: Work) -> Entries:
    """The results of ``work`` on each part of the rows, on Spark's workers, added up by place; places in order.

    ``work`` is a function that workers can import, with its arguments bound; it takes the columns of ``frame`` as
    arrays. Rows with equal values of the column ``key`` are in one part; ``rows`` is about how many rows there are.
    """
    native = frame.to_native()
    if key is not None:
        native = native.repartition(math.ceil(rows / PART_ROWS), key)
    parts = nw.from_native(native.mapInArrow(partial(_entries, work), f"{_PLACE} long, {_VALUE} double"))
    try:
        table = collect(aggregate(parts, {_PLACE: nw.col(_PLACE)}, {_VALUE: nw.col(_VALUE)}))
    except DataError as error:
        if "No module named 'isonomy'" in str(error.__cause__):
            raise UsageError(
                "data: Spark's workers cannot import isonomy, which this test needs there; install it on them."
            ) from error
        raise
    table = table.sort(_PLACE)
    return table[_PLACE].to_numpy(), table[_VALUE].to_numpy()


def _entries(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import polars as pl
    import pyarrow as pa

    held = list(batches)
    if not sum(batch.num_rows for batch in held):
        return
    table = pl.from_arrow(pa.Table.from_batches(held))
    assert isinstance(table, pl.DataFrame)
    held.clear()
    for place, value in work({name: table[name].rechunk().to_numpy() for name in table.columns}):
        yield pa.RecordBatch.from_arrays(
            [pa.array(place.astype(np.int64)), pa.array(value.astype(np.float64))], names=[_PLACE, _VALUE]
        )
