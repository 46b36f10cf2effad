"""The audited table: opened as the file says, narrowed to the rows and columns the tests need, fingerprinted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from isonomy.audit.conditions import Condition
from isonomy.audit.config import Data
from isonomy.errors import ConfigError, DataError, EmptyFrame, UsageError
from isonomy.frames import Source, open_source
from isonomy.frames.conditions import all_of, is_text
from isonomy.frames.fingerprint import Fingerprint
from isonomy.frames.fingerprint import fingerprint as fingerprint_of

HELD_BYTES = 2**30  # files up to this size are read once, the needed columns only, and then held


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """The whole table, before any row is read."""

    source: Source
    name: str  # where it is, in words
    size: int | None  # bytes on disk, where it is files


def open_table(data: Data, folder: Path, given: object = None) -> Opened:
    """Open the table. ``given`` is a table of the caller's own, which takes the place of a path or query."""
    if given is not None:
        return Opened(_open(given, data), f"a {type(given).__module__.split('.')[0]} table", None)
    if data.query is not None:
        native = _duckdb(data, folder) if data.engine == "duckdb" else _spark(data, folder)
        return Opened(_open(native, data), f"a query run by {data.engine}", None)
    if data.path is None:
        raise ConfigError("data: no path and no query; say where the rows are.")
    path = folder / data.path
    source = _open(path, data)
    refuse_separator(list(source.schema), data.path)
    # A csv file with no line but its first has text columns only: say so before they are called the wrong type.
    if ".csv" in path.suffixes and all(map(is_text, source.schema.values())) and not len(source.head(1)):
        raise EmptyFrame("data: the table has no rows.")
    return Opened(source, data.path, _size(path))


def refuse_separator(columns: Sequence[str], path: str) -> None:
    """A csv file that is not separated by commas reads as one column with a long name."""
    separators = [mark for mark in (";", "\t", "|") if len(columns) == 1 and mark in columns[0]]
    if separators:
        name = Path(path).name
        raise DataError(
            f"data: {path} has a single column, {columns[0]!r}: its columns are separated by {separators[0]!r}, not by "
            f"commas. Write it as parquet first: polars.read_csv({name!r}, separator={separators[0]!r})"
            f".write_parquet({str(Path(name).with_suffix('.parquet'))!r})."
        )


def _open(native: object, data: Data) -> Source:
    try:
        source = open_source(native, count=data.count, missing=data.missing, missing_group=data.missing_group)
        _ = source.schema
    except (UsageError, DataError):
        raise
    except Exception as error:  # an engine's own error about a file or a query
        raise ConfigError(f"data: cannot be opened ({type(error).__name__}: {error}).") from error
    return source


def _size(path: Path) -> int:
    if any(c in path.name for c in "*?["):
        return sum(part.stat().st_size for part in path.parent.glob(path.name))
    if path.is_dir():
        return sum(part.stat().st_size for part in path.rglob("*.parquet"))
    return path.stat().st_size


def _duckdb(data: Data, folder: Path) -> object:
    try:
        import duckdb
    except ImportError:
        raise ConfigError('data.engine: "duckdb" is not installed; pip install "isonomy[duckdb]".') from None
    try:
        database = ":memory:" if data.database is None else str(folder / data.database)
        connection = duckdb.connect(database, read_only=data.database is not None)
        # Literals doubled, identifiers quoted: the names come from the audit file.
        connection.execute(f"set file_search_path = '{str(folder).replace(chr(39), chr(39) * 2)}'")
        for name, path in data.tables.items():
            place = str(folder / path).replace("'", "''")
            connection.execute(f"create temp view \"{name.replace(chr(34), chr(34) * 2)}\" as select * from '{place}'")
        return connection.sql(str(data.query))
    except duckdb.Error as error:
        raise ConfigError(f"data.query: DuckDB cannot run it ({error}).") from None


def _spark(data: Data, folder: Path) -> object:
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError('data.engine: "spark" is not installed; pip install "isonomy[spark]".') from None
    session = SparkSession.builder.getOrCreate()
    try:
        for name, path in data.tables.items():
            place = str(folder / path) if "://" not in path else path
            csv = path.endswith((".csv", ".csv.gz"))
            reader = session.read.option("header", True).option("inferSchema", True)
            (reader.csv(place) if csv else reader.parquet(place)).createOrReplaceTempView(name)
        return session.sql(str(data.query))
    except PySparkException as error:
        raise ConfigError(f"data.query: Spark cannot run it ({error}).") from None


def narrow(opened: Opened, columns: Iterable[str], filters: list[Condition], in_memory: bool | None) -> Source:
    """The rows and columns the audit needs. Files of moderate size are read here, once; engines keep their rows."""
    hold = in_memory if in_memory is not None else opened.size is not None and opened.size <= HELD_BYTES
    return opened.source.narrowed(columns, all_of(part.comparison for part in filters), hold=hold)


def identified(source: Source, *, filtered: bool = False) -> Fingerprint:
    """The table's fingerprint; an empty table is refused."""
    fingerprint = fingerprint_of(source)
    if not fingerprint.rows:
        empty = "no row is left after the filters" if filtered else "the table has no rows"
        raise EmptyFrame(f"data: {empty}." if fingerprint.columns else "data: no column is needed.")
    return fingerprint
