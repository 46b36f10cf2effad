"""Every aggregation in isonomy goes through `aggregate`, because plain expressions can be silently wrong.

Summands are computed first and cast to Float64, and only ``col.sum()`` stands inside ``agg``. Why:

* a ``when/then`` sum inside ``agg`` ignores its condition on pandas and pyarrow, with no error;
* dozens of expressions inside ``agg`` take minutes on pandas;
* a float32 sum of twenty million 0.1's is off by 9 %;
* DuckDB sums integers to Decimal, Spark cannot sum booleans.

More than plain sums, asked of an engine: arrays of sums, extremes by key, and rows in parts by a hash.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, UsageError
from isonomy.frames.adapt import Lazy, first_line
from isonomy.numerics.arrays import FloatArray

if TYPE_CHECKING:
    import polars as pl

DType = nw.dtypes.DType
Schema = Mapping[str, DType]

COUNT = "__count"
ENGINES = ("duckdb", "_duckdb", "pyspark", "py4j", "ibis")  # whose errors are about the table, not about us
LARGEST = 1e70  # larger numbers count as infinite: no sum holds their fourth powers


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A grouped pass over the rows: group by ``keys``, sum ``values``. Both map a name to an expression."""

    keys: Mapping[str, nw.Expr]
    values: Mapping[str, nw.Expr]

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """Equal for requests that one pass can serve."""
        return tuple((name, identity(expr)) for name, expr in self.keys.items())


def identity(expr: nw.Expr) -> str:
    """Text that is equal only for equal expressions, the values inside them and their types included.

    (Their printed form is not enough: it prints 1 and "1" alike and abbreviates arrays.) An expression with a function
    inside is equal to itself alone; whoever remembers its identity keeps it, so that the number is not used again.
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
    else:  # no group by a constant: polars would hold every row; of no rows there is no line, as with keys
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
    unlike = pl.exceptions.SchemaError, pl.exceptions.ColumnNotFoundError
    try:
        return native.collect(engine="streaming")
    except unlike as error:
        same = "Files of one table need the same columns and types."
        raise DataError(f"data: the table cannot be read: {first_line(error)}. {same}") from error
    except MemoryError:
        raise
    except Exception as error:  # of polars, or of the caller's own function in a lazy frame
        raise DataError(f"data: the table cannot be read: {first_line(error)}") from error
    except pl.exceptions.PanicException as error:  # no Exception: polars met what no file should hold
        raise DataError("data: the table cannot be read: a file is damaged, or changed while it was read.") from error


def extremes(frame: Lazy, value: nw.Expr, keys: Mapping[str, nw.Expr]) -> pl.DataFrame:
    """The least and the largest finite ``value`` for each combination of ``keys``: low and high."""
    named = {f"key {i}": key for i, key in enumerate(keys.values())}
    columns = {"value": value.cast(nw.Float64), **named}
    kept = frame.select(*(expr.alias(name) for name, expr in columns.items())).filter(nw.col("value").is_finite())
    ends = (nw.col("value").min().alias("low"), nw.col("value").max().alias("high"))
    table = collect(kept.group_by(*named).agg(*ends) if named else kept.select(*ends))
    return in_order(table.rename(dict(zip(named, keys, strict=True))), list(keys))


def number_rows(frame: Lazy, name: str, backend: str) -> Lazy:
    """The frame with a number for each row, in the order the engine holds them."""
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
        f"data: rows of {backend} cannot be numbered for a random split; bring a split column, or another table."
    )


def missing(expr: nw.Expr, dtype: DType) -> nw.Expr:
    """Null, NaN or infinite. Never ``is_nan``: DuckDB misses NaN read from parquet that way."""
    if dtype.is_float():
        return expr.is_null() | ~(expr.abs() <= LARGEST)
    return expr.is_null()


def plain_keys(cells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Key columns in types that are equal whatever engine they came from."""
    return cells.with_columns(_plain(cells[key]) for key in keys)


def in_order(cells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Cells in the one order every engine agrees on."""
    return plain_keys(cells, keys).sort(list(keys), nulls_last=True) if keys else cells


def _plain(key: pl.Series) -> pl.Series:
    """One type for each kind of value: text, Int64, Float64, Boolean, dates. Whole floats become integers again.

    (Pandas turns integers into floats when one is missing; the labels must not differ for that.)
    """
    import polars as pl

    kind = key.dtype
    if isinstance(kind, (pl.Categorical, pl.Enum)) or kind == pl.Object:
        return key.cast(pl.String)
    if kind.is_integer():
        return key if kind in (pl.UInt64, pl.Int128) and len(key) and key.max() > 2**62 else key.cast(pl.Int64)  # type: ignore[operator]
    if kind.is_numeric():
        numbers = key.cast(pl.Float64).fill_nan(None)
        if kind.is_decimal() and numbers.n_unique() < key.n_unique():
            return key  # Float64 would make one group of several
        whole = numbers.drop_nulls()
        if len(whole) and bool((whole == whole.floor()).all()) and bool((whole.abs() < 2**53).all()):
            return numbers.cast(pl.Int64)
        return numbers
    return key


Terms = Mapping[str, nw.Expr]


def sums_at(frame: Lazy, keys: Mapping[str, tuple[nw.Expr, int]], values: Terms) -> dict[str, FloatArray]:
    """Sums by keys that are whole numbers from 0 up, as arrays with one axis per key; COUNT is among them.

    ``keys`` has the expression of each key and how many values it can have; where no row has them the sums are 0.
    """
    table = collect(aggregate(frame, {name: key for name, (key, _) in keys.items()}, values))
    at = tuple(table[name].to_numpy().astype(np.intp) for name in keys)
    arrays = {}
    for name in (COUNT, *values):
        arrays[name] = np.zeros([size for _, size in keys.values()])
        if len(table):
            arrays[name][at if at else ...] = table[name].to_numpy() if at else table[name][0]
    return arrays


def count_persons(frame: Lazy, person: str, group: str, size: int) -> tuple[FloatArray, int]:
    """Persons of each of ``size`` groups, and how many appear in several."""
    each = aggregate(frame, {"person": nw.col(person), "group": nw.col(group)}, {})
    persons = sums_at(each, {"group": (nw.col("group"), size)}, {})[COUNT]
    several = aggregate(each, {"person": nw.col("person")}, {}).filter(nw.col(COUNT) > 1)
    return persons, round(float(sums_at(several, {}, {})[COUNT]))


def ends_at(frame: Lazy, key: nw.Expr, size: int, value: nw.Expr) -> tuple[FloatArray, FloatArray]:
    """The least and the largest ``value`` for each ``key``, a whole number below ``size``; NaN without a row."""
    table = extremes(frame, value, {"key": key})
    ends = np.full((2, size), np.nan)
    ends[:, table["key"].to_numpy().astype(np.intp)] = table["low"].to_numpy(), table["high"].to_numpy()
    return ends[0], ends[1]


def off_binary(column: str) -> nw.Expr:
    """Above 0 where a number is neither 0 nor 1: (y (1 - y))^2, so that a sum of them is 0 only if all are."""
    y = nw.col(column).cast(nw.Float64)
    return (y * (1.0 - y)) * (y * (1.0 - y))


def position(column: nw.Expr, start: float, step: float, size: int) -> nw.Expr:
    """Which of ``size`` intervals from ``start`` on a number lies in, those beyond in the outer ones; a whole float."""
    return ((column - start) * step).floor().clip(0, size - 1)


def split(frame: Lazy, column: str, parts: int) -> list[Lazy]:
    """The rows in parts of about equal size, by a hash of one column: rows of equal values are in one part."""
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
