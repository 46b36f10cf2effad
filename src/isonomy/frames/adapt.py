"""One door for every input: whatever holds the rows becomes a narwhals frame whose values mean one thing.

Tables in memory become polars frames (pyarrow without a copy), so that nulls and comparisons behave alike whatever
library made them. Then, on every engine, NaN becomes null, and narrow numbers become wide: a product in a user's
expression must not overflow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, DuplicateColumns, EmptyFrame, LengthMismatch, MixedTypes, UsageError, WrongType
from isonomy.frames.paths import files_at

if TYPE_CHECKING:
    import polars as pl

Lazy = nw.LazyFrame[Any]  # rows of an engine, of files, or of a table in memory

ACCEPTED = (
    "a pandas, polars (eager or lazy) or pyarrow table, a DuckDB relation, a PySpark DataFrame, an Ibis "
    "table, a mapping of arrays, or a path to parquet or csv"
)
_SEPARATORS = (";", "\t", "|")  # of csv files that have no commas between their columns
_HEAD = 1_000  # lines looked at to see whether commas are decimal points
_COMMA = r"^\s*[+-]?\d+,\d+\s*$"


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A narwhals frame and the kind of input it came from."""

    frame: Lazy
    backend: str  # "pandas", "polars", "pyarrow", "duckdb", "pyspark", "ibis", "mapping", "path"
    lazy: bool  # an engine or a file holds the rows: they may not fit in memory
    bytes: frozenset[str] = frozenset()  # columns of 8-bit integers, which are widened but have few values


def adapt(data: object) -> Input:
    """Wrap ``data``, reading nothing but its schema (and a table in memory)."""
    if isinstance(data, (str, Path)):
        return _uniform(nw.from_native(_scan(str(data))), "path", lazy=True)
    if isinstance(data, (nw.DataFrame, nw.LazyFrame)):
        data = data.to_native()
    if isinstance(data, Mapping):
        return _uniform(nw.from_native(_from_mapping(data)).lazy(), "mapping", lazy=False)
    _refuse_duplicates(data)
    try:
        frame = nw.from_native(data, pass_through=True)  # what is no frame comes back as it is
    except TypeError:
        raise UsageError(f"data: cannot read {type(data).__name__}; give {ACCEPTED}.") from None
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        raise UsageError(f"data: cannot read {type(data).__name__}; give {ACCEPTED}.")
    backend = frame.implementation.value
    if isinstance(frame, nw.LazyFrame):
        return _uniform(frame, backend, lazy=True)
    import polars as pl

    columns = [_series(frame[name]) for name in frame.columns]
    return _uniform(nw.from_native(pl.DataFrame(columns)).lazy(), backend, lazy=False)


def _series(column: nw.Series[Any]) -> pl.Series:
    """A column; what has no type of its own in pandas stays as objects, and is refused if anybody asks for it."""
    import polars as pl

    if not column.implementation.is_pandas():
        return column.to_polars()
    try:
        return pl.from_pandas(column.to_native())
    except ImportError:
        raise UsageError("data: pandas tables need pyarrow; pip install 'isonomy[pandas]'.") from None
    except Exception:
        return pl.Series(column.name, column.to_list(), dtype=pl.Object)


def _uniform(frame: Lazy, backend: str, *, lazy: bool) -> Input:
    """NaN as null, narrow numbers wide. (DuckDB misses NaN read from parquet by ``is_nan``: ask what is a number.)"""
    uniform: list[nw.Expr] = []
    try:
        schema = frame.collect_schema()
    except nw.exceptions.NarwhalsError as error:
        raise DataError(f"data: the table cannot be read: {first_line(error)}") from error
    for name, dtype in schema.items():
        _refuse_pattern(name)
        column = nw.col(name)
        if dtype.is_float():
            wide = column.cast(nw.Float64)
            number = wide.is_finite() | (wide == float("inf")) | (wide == -float("inf"))
            uniform.append(nw.when(number).then(wide).alias(name))
        elif dtype.is_integer() and dtype not in (nw.Int64, nw.UInt64, nw.Int128, nw.UInt128):
            uniform.append(column.cast(nw.Int64).alias(name))
    few = frozenset(name for name, dtype in schema.items() if dtype in (nw.Int8, nw.UInt8))
    return Input(frame.with_columns(*uniform) if uniform else frame, backend, lazy, few)


def _refuse_pattern(name: str) -> None:
    """Engines read such a name as a pattern for many columns, and would answer from another one."""
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise UsageError(f"data: the column name {name!r} reads as a pattern of names; rename the column.")


def _refuse_duplicates(data: object) -> None:
    """Pandas, pyarrow and Spark allow two columns of one name; every later lookup would be ambiguous."""
    if type(data).__module__.startswith("polars"):  # never has duplicates, and a lazy frame warns when asked
        return
    names = getattr(data, "column_names", None)  # pyarrow
    if not isinstance(names, list):
        names = getattr(data, "columns", None)
    if names is None or callable(names):
        return
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise UsageError(f"data: the column name {odd[0]!r} is not text; rename the columns.")
    twice = [str(name) for name, times in Counter(map(str, names)).items() if times > 1]
    if twice:
        raise DuplicateColumns(f"data: more than one column is called {', '.join(twice)}; rename or drop one.")


def _scan(pattern: str) -> pl.LazyFrame:
    import polars as pl

    if "://" in pattern:  # a remote store: polars knows its own schemes
        return pl.scan_parquet(pattern) if pattern.endswith((".parquet", ".pq")) else _scan_csv(pattern)
    try:
        path = Path(pattern).expanduser()
        files = files_at(path)
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"data: {pattern!r} is no path ({error}).") from None
    folder = path if path.is_dir() else files[0] if files and files[0].is_dir() else None
    if folder is not None:
        if not (files if folder is path else files_at(folder)):
            raise UsageError(f"data: the folder {pattern} holds no parquet file.")
        return pl.scan_parquet(folder, hive_partitioning=True)
    if not files:
        raise UsageError(f"data: no file at {pattern}.")
    if files[0].stat().st_size == 0:
        raise EmptyFrame(f"data: the file {pattern} is empty.")
    suffixes = "".join(files[0].suffixes[-2:]).lower()
    if suffixes.endswith((".parquet", ".pq")):
        return pl.scan_parquet(files, glob=False)
    if suffixes.endswith((".csv", ".csv.gz", ".csv.zst")):
        return _scan_csv(files)
    raise UsageError(
        f"data: {pattern} is neither parquet nor csv (.parquet, .pq, .csv, .csv.gz, .csv.zst). If it is text with a "
        "line of column names on top, rename it to end in .csv."
    )


def _scan_csv(files: str | list[Path]) -> pl.LazyFrame:
    """Every row is looked at to type a column. Codes with a leading zero are text: 02139 and 2139 are two places."""
    import polars as pl

    try:
        scan = _csv_reader(files)
        schema = scan(infer_schema_length=None).collect_schema()
        whole = [name for name, dtype in schema.items() if dtype.is_integer()]
        text = scan(infer_schema=False)
        coded = text.select(pl.col(whole).str.contains(r"^[+-]?0\d").any()).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise DataError(f"data: the csv cannot be read: {first_line(error)}") from error
    copies = _copies(text, schema)
    codes = {name: pl.String for name in coded.columns if coded[name][0]}
    return scan(infer_schema_length=None, schema_overrides=codes).drop(copies)


def _csv_reader(files: str | list[Path]) -> Callable[..., pl.LazyFrame]:
    """How csv files are read: separated by commas or, where the first line then is one name, by what is in that name.

    Where spreadsheets separate by semicolons, commas are decimal points.
    """
    import polars as pl

    scan = partial(pl.scan_csv, files, glob=not isinstance(files, list))
    first = scan(infer_schema=False, truncate_ragged_lines=True).collect_schema().names()
    mark = next((mark for mark in _SEPARATORS if len(first) == 1 and mark in first[0]), None)
    if mark is None:
        return scan
    scan = partial(scan, separator=mark)
    if mark != ";":
        return scan
    head = scan(infer_schema=False).head(_HEAD).collect()
    commas = any(len(column.drop_nulls()) and column.drop_nulls().str.contains(_COMMA).all() for column in head)
    return partial(scan, decimal_comma=commas)


def _copies(text: pl.LazyFrame, names: Iterable[str]) -> list[str]:
    """Columns under the name of another one (polars renames them). Equal copies are left out, others refused."""
    import polars as pl

    known = list(names)
    originals = {name: m[1] for name in known if (m := re.match(r"(.*)_duplicated_\d+$", name)) and m[1] in known}
    if not originals:
        return []
    differ = [pl.col(copy).ne_missing(pl.col(name)).any().alias(copy) for copy, name in originals.items()]
    for copy, differs in text.select(differ).collect(engine="streaming").row(0, named=True).items():
        if differs:
            raise DuplicateColumns(
                f"data: more than one column is called {originals[copy]!r}, with different values; rename one."
            )
    return list(originals)


def first_line(error: Exception) -> str:
    """What an engine said, on one line."""
    return str(error).strip().partition("\n")[0]


def _from_mapping(data: Mapping[object, object]) -> pl.DataFrame:
    import polars as pl

    if not data:
        raise EmptyFrame("data: the mapping has no columns.")
    if len({str(name) for name in data}) < len(data):
        raise DuplicateColumns("data: two columns of the mapping have the same name when written as text.")
    columns = {str(name): as_column(str(name), values) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise LengthMismatch(f"data: the columns differ in length ({shown}); each needs one value per row.")
    return pl.DataFrame(columns)


def as_column(name: str, values: object) -> pl.Series:
    """An array, a Series or a list as a column."""
    import polars as pl

    series: object = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _series(series).alias(name)
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.ndim != 1:
            raise UsageError(f"data: column {name!r} has {values.ndim} dimensions; give a one-dimensional array.")
        return pl.Series(name, values)
    if isinstance(values, (str, bytes)) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        raise UsageError(f"data: column {name!r} is a {type(values).__name__}; give an array with one value per row.")
    listed = [_plain(value) for value in (values if isinstance(values, Sequence) else np.asarray(values))]
    refuse_mixture(name, listed)
    if any(isinstance(v, float) for v in listed):
        listed = [float(v) if isinstance(v, int) and abs(v) < 2**1023 else v for v in listed]
    try:
        return pl.Series(name, listed, strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise WrongType(f"data: column {name!r} cannot be read: {first_line(error)}") from error


def _plain(value: object) -> object:
    """A value of a list: numpy scalars as Python's, and what stands for nothing (None, NaN, NaT, NA) as None."""
    if isinstance(value, np.generic):
        value = value.item()
    missing = (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )
    return None if missing else value


def refuse_mixture(name: str, values: Sequence[object]) -> None:
    """Raise if the values that are there have several types (numbers count as one)."""
    kinds = {_kind(v) for v in values if _plain(v) is not None}
    if len(kinds) > 1:
        raise MixedTypes(
            f"data: column {name!r} mixes types ({', '.join(sorted(kinds))}); make it one type, for instance all text."
        )


def _kind(value: object) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, float, np.number)):
        return "number"
    return type(value).__name__
