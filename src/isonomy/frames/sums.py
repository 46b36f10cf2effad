"""Every aggregation in isonomy goes through `aggregate`, because plain expressions can be silently wrong.

Summands are computed first and cast to Float64, and only ``col.sum()`` stands inside ``agg``. Why:

* a ``when/then`` sum inside ``agg`` ignores its condition on pandas and pyarrow, with no error;
* dozens of expressions inside ``agg`` take minutes on pandas;
* a float32 sum of twenty million 0.1's is off by 9 %;
* DuckDB sums integers to Decimal, Spark cannot sum booleans.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw

from isonomy.errors import DataError, UsageError
from isonomy.frames.adapt import first_line

if TYPE_CHECKING:
    import polars as pl
    from narwhals.typing import Frame

DType = nw.dtypes.DType
Schema = Mapping[str, DType]

COUNT = "__count"


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


def aggregate(frame: Frame, keys: Mapping[str, nw.Expr], values: Mapping[str, nw.Expr]) -> Frame:
    """Group ``frame`` by ``keys`` and sum ``values``, without collecting; the number of rows is `COUNT`.

    Keys and values map a name to an expression. Aggregations can be nested: the result is a frame again.
    """
    cast = {name: expr.cast(nw.Float64) for name, expr in values.items()}
    # ``with_columns`` first: a selection of literals alone would have one row.
    computed: Any = frame.with_columns(
        *(expr.alias(f"__k{i}") for i, expr in enumerate(keys.values())),
        *(expr.alias(f"__v{i}") for i, expr in enumerate(cast.values())),
        *([nw.lit(0).alias("__k0")] if not keys else []),
    )
    names = [f"__k{i}" for i in range(max(1, len(keys)))]
    grouped = (
        computed.select(*names, *(f"__v{i}" for i in range(len(cast))))
        .group_by(names)
        .agg(nw.len().alias(COUNT), *(nw.col(f"__v{i}").sum() for i in range(len(cast))))
    )
    return grouped.select(
        *(nw.col(f"__k{i}").alias(name) for i, name in enumerate(keys)),
        nw.col(COUNT).cast(nw.Float64),
        *(nw.col(f"__v{i}").cast(nw.Float64).alias(name) for i, name in enumerate(cast)),
    )


def collect(frame: Frame) -> pl.DataFrame:
    """Bring a (small) frame into memory as polars, whatever engine holds it."""
    import polars as pl

    if isinstance(frame, nw.LazyFrame):
        if frame.implementation.is_polars():
            native: pl.LazyFrame = frame.to_native()
            try:
                return native.collect(engine="streaming")
            except (pl.exceptions.ComputeError, pl.exceptions.SchemaError) as error:
                raise DataError(f"data: the table cannot be read: {first_line(error)}") from error
        return frame.collect(backend="polars").to_native()
    if frame.implementation.is_polars():
        return frame.to_native()
    return frame.to_polars()


def number_rows(frame: Frame, name: str, backend: str) -> Frame:
    """The frame with a number for each row, in the order the engine holds them."""
    if isinstance(frame, nw.DataFrame):
        return frame.with_row_index(name)
    native: Any = frame.to_native()
    kind = frame.implementation
    if kind.is_polars():
        return nw.from_native(native.with_row_index(name))
    if kind.is_duckdb():
        quoted = name.replace('"', '""')
        return nw.from_native(native.project(f'*, row_number() over () - 1 as "{quoted}"'))
    if kind.is_pyspark():
        from pyspark.sql import functions

        return nw.from_native(native.withColumn(name, functions.monotonically_increasing_id()))
    raise UsageError(
        f"data: rows of {backend} cannot be numbered for a random split; bring a split column, or another table."
    )


def missing(expr: nw.Expr, dtype: DType) -> nw.Expr:
    """Null, NaN or infinite. Never ``is_nan``: DuckDB misses NaN read from parquet that way."""
    if dtype.is_float():
        return expr.is_null() | ~expr.is_finite()
    return expr.is_null()


def plain_keys(cells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Key columns in types that are equal whatever engine they came from."""
    return cells.with_columns(_plain(cells[key]) for key in keys)


def in_order(cells: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Cells in the one order every engine agrees on."""
    return plain_keys(cells, keys).sort(list(keys), nulls_last=True) if keys else cells


def _plain(key: pl.Series) -> pl.Series:
    """One type a kind of value: text, Int64, Float64, Boolean, dates. Whole floats become integers again.

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
        whole = numbers.drop_nulls()
        if len(whole) and bool((whole == whole.floor()).all()) and bool((whole.abs() < 2**53).all()):
            return numbers.cast(pl.Int64)
        return numbers
    return key
