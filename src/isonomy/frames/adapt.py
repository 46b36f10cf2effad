"""Every input becomes a narwhals frame whose values mean the same, whatever holds the rows.

Tables in memory become polars frames (pyarrow without a copy), so that nulls and comparisons behave alike whatever
library made them; so do the columns of X that an estimator reads. Then, on every engine, NaN becomes null, and narrow
numbers become wide: a product in a user's expression must not overflow. What a column may hold is decided here, so
that a type is right for every question, estimator and engine or refused by the same sentence.

A path is one file, a folder or a glob. Folders are entered once each, whatever links point to them. What is not a
plain file (a pipe, a device) is refused: reading it would wait forever.

Arrays given as roles (``y_true``, ``y_pred``, ``sensitive_features``) become columns; then no table is needed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, DuplicateColumns, EmptyFrame, LengthMismatch, MixedTypes, UsageError, WrongType

if TYPE_CHECKING:
    import polars as pl

Lazy = nw.LazyFrame[Any]  # rows of an engine, of files, or of a table in memory

ACCEPTED = (
    "a pandas, polars (eager or lazy) or pyarrow table, a DuckDB relation, a PySpark DataFrame, an Ibis "
    "table, a mapping of arrays, or a path to parquet, csv or xlsx"
)
MOST_FILES = 100_000  # files and folders visited at most
_SEPARATORS = (";", "\t", "|")  # of csv files without commas between their columns
_HEAD = 1_000  # lines read to decide whether commas are decimal points
_COMMA = r"^\s*[+-]?\d+,\d+\s*$"
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_WILDCARDS = re.compile(r"[*?\[]")
UNREADABLE = ("run_end_encoded", "decimal256", "union")  # types of Arrow that polars cannot hold
# The types of columns that name groups, besides numbers; objects are looked at one by one.
LEVELS = (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Date, nw.Datetime, nw.Time, nw.Object, nw.Unknown)


# The frame; the kind of input it came from ("pandas", "polars", "pyarrow", "duckdb", "pyspark", "ibis", "mapping" or
# "path"); whether an engine or a file holds the rows, which may not fit in memory; and the columns of 8-bit integers,
# which were widened but have few values.
Adapted = tuple[Lazy, str, bool, frozenset[str]]


def adapt(data: object) -> Adapted:
    """Wrap ``data``, reading nothing but its schema (and a table in memory)."""
    import polars as pl

    if isinstance(data, (str, Path)):
        return _uniform(nw.from_native(_scan(str(data))), "path", lazy=True)
    if isinstance(data, JoinedArrays):
        return _uniform(nw.from_native(data.table).lazy(), data.backend, lazy=False)
    if isinstance(data, (nw.DataFrame, nw.LazyFrame)):
        data = data.to_native()
    if isinstance(data, Mapping):
        return _uniform(nw.from_native(_from_mapping(data)).lazy(), _library(data.values(), "mapping"), lazy=False)
    if isinstance(data, (pl.DataFrame, pl.LazyFrame)):  # its names are different texts
        return _uniform(nw.from_native(data).lazy(), "polars", lazy=isinstance(data, pl.LazyFrame))
    _refuse_duplicates(data)
    try:
        frame = nw.from_native(data, pass_through=True)  # anything else comes back unchanged
    except TypeError:
        frame = data
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        raise UsageError(f"data: cannot read {type(data).__name__}; give {ACCEPTED}.")
    backend = frame.implementation.value
    if isinstance(frame, nw.LazyFrame):
        return _uniform(frame, backend, lazy=True)
    columns = list(map(as_polars, frame.iter_columns()))
    return _uniform(nw.from_native(pl.DataFrame(columns)).lazy(), backend, lazy=False)


def as_polars(column: nw.Series[Any]) -> pl.Series:
    """A column as polars; pandas columns of mixed objects stay objects, and are refused when they are used."""
    import polars as pl

    if not column.implementation.is_pandas():
        kind = str(getattr(column.to_native(), "type", ""))
        if kind and any(part in kind for part in UNREADABLE):  # polars would panic, or refuse in its own words
            raise WrongType(f"data: column {column.name!r} is {kind}; cast it to text, numbers or dates, or drop it.")
        return column.to_polars()
    try:
        return pl.from_pandas(column.to_native())
    except ImportError:
        raise UsageError("data: pandas tables need pyarrow; pip install 'isonomy[pandas]'.") from None
    except Exception:
        return pl.Series(column.name, column.to_list(), dtype=pl.Object)


def _uniform(frame: Lazy, backend: str, *, lazy: bool) -> Adapted:
    """NaN as null, narrow numbers wide. (DuckDB's ``is_nan`` misses NaN from parquet: test for numbers instead.)"""
    uniform: list[nw.Expr] = []
    small: set[str] = set()
    try:
        schema = frame.collect_schema()
    except Exception as error:  # every engine has its own errors, such as that of a closed connection
        raise DataError(f"data: the table cannot be read: {first_line(error)}") from error
    native = {} if backend != "duckdb" else dict(zip(schema, map(str, frame.to_native().dtypes), strict=True))
    for name, dtype in schema.items():
        if native.get(name, "").startswith("UNION"):
            raise WrongType(f"data: column {name!r} is a union; cast it to text, numbers or dates, or drop it.")
        refuse_name("data", name)
        column = nw.col(name)
        if dtype.is_float():
            wide = column.cast(nw.Float64)
            number = wide.is_finite() | (wide == float("inf")) | (wide == -float("inf"))
            uniform.append(nw.when(number).then(wide).alias(name))
        elif dtype.is_integer() and dtype not in (nw.Int64, nw.UInt64, nw.Int128, nw.UInt128):
            uniform.append(column.cast(nw.Int64).alias(name))
        if dtype in (nw.Int8, nw.UInt8):
            small.add(name)
    return frame.with_columns(*uniform) if uniform else frame, backend, lazy, frozenset(small)


def refuse_name(argument: str, name: str | int) -> None:
    if isinstance(name, int):  # pandas numbers the columns of an array
        return
    if "\x00" in name:  # engines would cut the name off there
        raise UsageError(f"{argument}: the column name {name!r} contains a null character; rename the column.")
    if name == "*" or (name.startswith("^") and name.endswith("$")):  # engines would select other columns
        raise UsageError(f"{argument}: the column name {name!r} reads as a pattern of names; rename the column.")


def refuse_levels(argument: str, column: str, dtype: nw.dtypes.DType) -> None:
    """Raise if the values of a column cannot name groups."""
    if not (dtype.is_numeric() or isinstance(dtype, LEVELS)):
        raise WrongType(
            f"{argument}: column {column!r} is {dtype}; groups need text, numbers, booleans, dates or times."
        )


def refuse_instants(argument: str, column: str, values: pl.Series) -> None:
    """Raise for instants between two microseconds: Python cannot hold them, so two of them might become one group."""
    import polars as pl

    ticks = values.dtype == pl.Time or getattr(values.dtype, "time_unit", "") == "ns"
    if ticks and (values.drop_nulls().to_physical() % 1_000 != 0).any():
        raise WrongType(
            f"{argument}: column {column!r} holds instants between two microseconds; round them to microseconds, or "
            "make them text."
        )


def _refuse_duplicates(data: object) -> None:
    """Pandas, pyarrow and Spark allow two columns with the same name; every later lookup would be ambiguous."""
    try:
        names = getattr(data, "column_names", None)  # pyarrow
        if not isinstance(names, list):
            names = getattr(data, "columns", None)
    except Exception as error:  # a relation of a closed connection
        raise DataError(f"data: the table cannot be read: {first_line(error)}") from error
    if names is None or callable(names):
        return
    odd = [name for name in names if not isinstance(name, str) or _lone_surrogate(name)]
    if odd:
        raise UsageError(f"data: the column name {odd[0]!r} is not text; rename the columns.")
    twice = [str(name) for name, times in Counter(map(str, names)).items() if times > 1]
    if twice:
        raise DuplicateColumns(f"data: more than one column is called {', '.join(twice)}; rename or drop one.")


def _lone_surrogate(text: str) -> bool:
    """Half of a character: no engine can hold it."""
    return any("\ud800" <= character <= "\udfff" for character in text)


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
        raise UsageError(f"data: {pattern!r} is not a path ({error}).") from None
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
    if suffixes.endswith(_SPREADSHEETS):
        return _read_sheet(files, pattern)
    raise UsageError(
        f"data: {pattern} is neither parquet nor csv (.parquet, .pq, .csv, .csv.gz, .csv.zst). If it is text with a "
        "line of column names on top, rename it to end in .csv."
    )


def _read_sheet(files: list[Path], pattern: str) -> pl.LazyFrame:
    """The only sheet of a spreadsheet; types are inferred from every row."""
    import polars as pl

    if len(files) > 1:
        raise UsageError(f"data: {pattern} matches several spreadsheets; save their sheets as CSV.")
    try:
        sheets = pl.read_excel(files[0], sheet_id=0, infer_schema_length=None, raise_if_empty=False)
    except ModuleNotFoundError:
        raise UsageError(
            f"data: {pattern} is a spreadsheet; save the sheet as CSV and name that file, or pip install "
            '"isonomy[excel]".'
        ) from None
    except Exception as error:  # those of the reader
        raise DataError(f"data: {pattern} cannot be read as a spreadsheet: {first_line(error)}") from error
    filled = {name: sheet for name, sheet in sheets.items() if len(sheet)}
    if len(filled) > 1:
        names = ", ".join(repr(name) for name in list(filled)[:10])
        raise UsageError(f"data: {pattern} has several sheets ({names}); save the one you mean as CSV.")
    if not filled:
        raise EmptyFrame(f"data: {pattern} has no rows.")
    return next(iter(filled.values())).lazy()


def _scan_csv(files: str | list[Path]) -> pl.LazyFrame:
    """Types are inferred from every row. Codes with a leading zero are text: 02139 and 2139 are two places."""
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
    """A reader with the separator of the files: a comma, unless the first line would then be a single name.

    In files separated by semicolons, commas may be decimal points.
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
    """Columns with the name of another one (polars renames them). Equal copies are dropped, others refused."""
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
    return str(error).strip().partition("\n")[0]


def _from_mapping(data: Mapping[object, object]) -> pl.DataFrame:
    import polars as pl

    if not data:
        raise EmptyFrame("data: the mapping has no columns.")
    odd = [name for name in map(str, data) if _lone_surrogate(name)]
    if odd:
        raise UsageError(f"data: the column name {odd[0]!r} is not text; rename the columns.")
    if len({str(name) for name in data}) < len(data):
        raise DuplicateColumns("data: two columns of the mapping have the same name when written as text.")
    columns = {str(name): as_column(str(name), values) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise LengthMismatch(f"data: the columns differ in length ({shown}); each needs one value per row.")
    return pl.DataFrame(columns)


def as_column(name: str, values: object) -> pl.Series:
    import polars as pl

    series: object = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return as_polars(series).alias(name)
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
    except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError) as error:
        raise WrongType(f"data: column {name!r} cannot be read: {first_line(error)}") from error


def _plain(value: object) -> object:
    """A value of a list: numpy scalars as Python's, and every missing value (None, NaN, NaT, NA) as None."""
    if isinstance(value, np.generic):
        value = value.item()
    missing = (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )
    return None if missing else value


def refuse_mixture(name: str, values: Sequence[object]) -> None:
    types = (((bool, np.bool_), "bool"), ((int, float, np.number), "number"))
    kinds = {
        next((name for kind, name in types if isinstance(value, kind)), type(value).__name__)
        for value in values
        if _plain(value) is not None
    }
    if len(kinds) > 1:
        raise MixedTypes(
            f"data: column {name!r} mixes types ({', '.join(sorted(kinds))}); make it one type, for instance all text."
        )


class JoinedArrays(NamedTuple):
    """Arrays as columns of a table, and the library they came from, which tables of results come back in."""

    table: pl.DataFrame
    backend: str


# The name of an array under these arguments, if it has none.
UNNAMED = {"groups": "group", "features": "feature", "given": "stratum"}


def with_arrays(
    data: object, arguments: Mapping[str, Any], forms: Mapping[str, str | None]
) -> tuple[object, dict[str, Any]]:
    """The table with the arrays among the ``arguments`` as columns, and the arguments with the columns' names.

    ``data`` is None if there are only arrays. ``forms`` has the form of each keyword, such as "column" or "groups".
    """
    columns: dict[str, pl.Series] = {}
    arrays: list[object] = []
    named = dict(arguments)
    for argument, value in arguments.items():
        form = forms.get(argument)
        if form not in ("column", "names", "groups", "features", "given"):
            continue
        names = []
        for name, values in _arrays(argument, value, alone=data is None or form == "column"):
            arrays.append(values)
            column = as_column(name, values)
            if name in columns and not columns[name].equals(column):  # another array has the name
                name = f"{argument} {name}"
            columns[name] = column.alias(name)
            names.append(name)
        if names:
            named[argument] = names[0] if len(names) == 1 and form != "names" else names
    if columns:
        return JoinedArrays(_joined(data, columns), _library(arrays if data is None else [data])), named
    if data is None:
        raise UsageError("data: give a table, or an array for each column (outcome=y_true, prediction=y_pred, ...).")
    return data, named


def _library(parts: Iterable[object], otherwise: str = "polars") -> str:
    return "pandas" if any(type(part).__module__.partition(".")[0] == "pandas" for part in parts) else otherwise


def _arrays(argument: str, value: object, *, alone: bool) -> list[tuple[str, object]]:
    name = UNNAMED.get(argument, argument)
    if isinstance(value, Mapping) and argument in UNNAMED:
        parts = [(str(key), _arrays(argument, part, alone=True)) for key, part in value.items()]
        return [(key, arrays[0][1]) for key, arrays in parts if len(arrays) == 1] if all(a for _, a in parts) else []
    frame: object = nw.from_native(value, pass_through=True, eager_only=True, allow_series=True)
    if isinstance(frame, nw.DataFrame):
        return [(column, frame[column].to_native()) for column in frame.columns]
    if isinstance(frame, nw.Series):
        return [(frame.name if isinstance(frame.name, str) and frame.name else name, value)]
    if not isinstance(value, (np.ndarray, nw.Expr)) and hasattr(value, "__array__") and hasattr(value, "__len__"):
        value = list(value) if isinstance(value, Sequence) else np.asarray(value)  # an extension array of pandas
    if isinstance(value, np.ndarray):
        if value.ndim == 2:
            return [(f"{name}_{i}", column) for i, column in enumerate(value.T)]
        return [(name, value)]
    if alone and isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value):
        plain = (bool, int, float, str, np.generic, type(None))  # as opposed to columns, cuts or conditions
        return [(name, value)] if all(isinstance(entry, plain) for entry in value) else []
    return []


def _joined(data: object, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    import polars as pl

    lengths = {name: len(column) for name, column in columns.items()}
    table = pl.DataFrame()
    if data is not None:
        from isonomy.frames.source import Source

        adapted = None if isinstance(data, Source) else adapt(data)
        if adapted is None or adapted[2]:
            raise UsageError(
                f"{next(iter(columns))}: an array cannot be combined with rows that an engine or a file holds; add "
                "it to them as a column."
            )
        table = adapted[0].collect().to_native()
        lengths = {"data": len(table), **lengths}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n:,}" for name, n in lengths.items())
        raise LengthMismatch(f"data: the arrays differ in length ({shown}); each needs one value per row.")
    return table.with_columns(*columns.values()) if data is not None else pl.DataFrame(list(columns.values()))


# The printed form of conditions on one column, and their wording.
_COMPARED = {"eq": "is", "ne": "is not", "lt": "is below", "le": "is at most", "gt": "is above", "ge": "is at least"}
_CONDITIONS = (
    (re.compile(r"col\(([^()]+)\)\.__(eq|ne|lt|le|gt|ge)__\(([^()]*)\)"), lambda m: f"{m[1]} {_COMPARED[m[2]]} {m[3]}"),
    (re.compile(r"col\(([^()]+)\)\.is_in\(other=\[([^()]+)\]\)"), lambda m: f"{m[1]} is one of {m[2]}"),
    (re.compile(r"\.__(and|or)__\(([^()]*)\)"), lambda m: f" {m[1]} {m[2]}"),
)


def in_words(condition: object) -> str:
    """A condition in words, for the provenance: 'deny is no'; unchanged if it is more than comparisons."""
    text = repr(condition)
    for form, words in _CONDITIONS:
        text = form.sub(words, text)
    return text if "(" not in text else repr(condition)


def files_at(path: Path, argument: str = "data") -> list[Path]:
    """The files at ``path``, sorted; for a folder, the parquet files below it."""
    if _WILDCARDS.search(str(path)) and not path.exists():
        chosen = _matching(path, argument)
    elif path.is_dir():
        chosen = [file for file in _below(path, None, argument) if file.name.endswith(".parquet")]
    else:
        chosen = [path] if path.exists() else []
    for file in chosen:
        if not file.is_file() and not file.is_dir():
            raise UsageError(
                f"{argument}: {file} is not a plain file (a pipe, a socket or a device); name files to read."
            )
    return sorted(chosen)


def refuse_unlike(files: Sequence[Path]) -> None:
    """Raise if parquet files differ in their columns: engines would use those of the first file, and nulls."""
    readable = [file for path in files for file in (files_at(path) if path.is_dir() else [path])]
    parquet = [file for file in readable if ".csv" not in file.suffixes]
    if len(parquet) < 2:
        return
    import polars as pl

    try:
        schemas = [pl.read_parquet_schema(file) for file in parquet]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"data: the files cannot be read as parquet ({error}).") from None
    first = f"{parquet[0].parent.name}/{parquet[0].name}"
    for file, schema in zip(parquet, schemas, strict=True):
        unlike = sorted(name for name in {**schemas[0], **schema} if schema.get(name) != schemas[0].get(name))
        if unlike:
            raise DataError(
                f"data: {first} and {file.parent.name}/{file.name} differ in column {unlike[0]!r}. "
                "Files of one table need the same columns and types."
            )


def _matching(path: Path, argument: str) -> list[Path]:
    """The files and folders that match a glob; ** matches any number of folders, and names with a dot are hidden."""
    first = next(i for i, part in enumerate(path.parts) if _WILDCARDS.search(part))
    root, parts = Path(*path.parts[:first]), path.parts[first:]
    if not root.is_dir():
        return []
    depth = None if "**" in parts else len(parts)
    return [entry for entry in _below(root, depth, argument) if _fits(entry.relative_to(root).parts, parts)]


def _fits(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**" and _fits(names, parts[1:]):
        return True
    if not names or (names[0].startswith(".") and not parts[0].startswith(".")):
        return False
    return (
        _fits(names[1:], parts) if parts[0] == "**" else fnmatchcase(names[0], parts[0]) and _fits(names[1:], parts[1:])
    )


def _below(root: Path, depth: int | None, argument: str) -> Iterator[Path]:
    entered: set[Path] = set()
    visited = 0
    for name, folders, files in os.walk(root, followlinks=True):
        folder = Path(name)
        if folder.resolve() in entered:
            folders.clear()
            continue
        entered.add(folder.resolve())
        visited += len(folders) + len(files)
        if visited > MOST_FILES:
            raise UsageError(
                f"{argument}: more than {MOST_FILES:,} files and folders below {root}; name the files more closely."
            )
        yield from (folder / entry for entry in (*folders, *files))
        if depth is not None and len(folder.relative_to(root).parts) + 1 >= depth:
            folders.clear()
