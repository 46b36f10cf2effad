"""The audited table: opened as the file says, narrowed to the rows and columns the tests need, fingerprinted."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isonomy.audit.config import Config, Data
from isonomy.audit.forms import Condition, FileWhere
from isonomy.errors import ConfigError, DataError, EmptyFrame, UsageError
from isonomy.frames import Source, open_source
from isonomy.frames.adapt import files_at, refuse_unlike
from isonomy.frames.expressions import all_of, is_text
from isonomy.frames.groups import NOTHING, Labels
from isonomy.frames.profile import ROWS, Fingerprint
from isonomy.frames.profile import fingerprint as fingerprint_of
from isonomy.options import ROW_DEFAULTS
from isonomy.results import Note, phrases

HELD_BYTES = 2**30  # files up to this size are read once, the needed columns only, and then held


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """The whole table, before any row is read."""

    source: Source
    name: str  # where it is, in words
    size: int | None  # bytes on disk, where it is files
    files: Mapping[Path, tuple[int, int]] = field(default_factory=dict)  # bytes and time of the last change of each

    def refuse_changed(self) -> None:
        for file, before in self.files.items():
            if _stamp(file) != before:
                raise DataError(f"data: {file.name} changed during the audit; audit a copy that does not change.")


def _stamp(file: Path) -> tuple[int, int]:
    try:
        state = file.stat()
    except OSError:
        return -1, -1
    return state.st_size, state.st_mtime_ns


def open_table(data: Data, folder: Path, given: object = None, labels: Labels = NOTHING) -> Opened:
    """Open the table. ``given``: a table of the caller, which replaces a path or query."""
    if given is not None:
        return Opened(_open(given, data, labels), f"a {type(given).__module__.split('.')[0]} table", None)
    if data.engine is not None:
        queried = data
        if data.path is not None:
            queried = data.model_copy(update={"query": "select * from data", "tables": {"data": data.path}})
        local = {name: path for name, path in queried.tables.items() if "://" not in path}
        tables = {name: files_at(folder / path, f"data.tables.{name}") for name, path in local.items()}
        for files in tables.values():
            refuse_unlike(files)
        native = _duckdb(queried, folder, tables) if data.engine == "duckdb" else _spark(queried, folder)
        stamps = {file: _stamp(file) for files in tables.values() for file in files}
        return Opened(_open(native, data, labels), data.path or f"a query run by {data.engine}", None, stamps)
    if data.path is None:
        raise ConfigError("data: no path and no query; say where the rows are.")
    path = folder / data.path
    source = _open(path, data, labels)
    # A csv file with a header only has text columns, which would be refused for their type.
    if ".csv" in path.suffixes and all(map(is_text, source.schema.values())) and not len(source.head(1)):
        raise EmptyFrame("data: the table has no rows.")
    stamps = {file: _stamp(file) for file in files_at(path)}
    return Opened(source, data.path, sum(size for size, _ in stamps.values()), stamps)


def repeated(source: Source, config: Config) -> Note | None:
    """A note for tests that take rows as independent, if people appear more than once among the first rows."""
    user = config.columns.user
    if user is None or config.data.cluster is not None or user not in source.schema:
        return None
    people, rows = source.distinct(user, ROWS)
    return None if people == rows else Note("repeated", values={"people": people, "rows": rows, "user": user})


def unmet(source: Source, groups: object) -> Note | None:
    """A note about named groups whose condition no row meets, which reveals nobody; the value may be misspelled."""
    named = [group for group in (groups if isinstance(groups, list) else [groups]) if isinstance(group, FileWhere)]
    rules = {group.name: all_of(part.comparison for part in group.where) for group in named}
    nobody = [name for name, rule in rules.items() if rule is not None and not len(source.filter(rule).head(1))]
    # Named in a value: groups that are withheld are removed from notes.
    return Note("unmet", values={"names": phrases.listed(nobody)}) if nobody else None


def _open(native: object, data: Data, labels: Labels) -> Source:
    try:
        reading = {name: getattr(data, name) for name in ROW_DEFAULTS}
        source = open_source(native, **reading, labels=labels)
        _ = source.schema
    except (UsageError, DataError):
        raise
    except Exception as error:  # an engine's own error about a file or a query
        raise ConfigError(f"data: cannot be opened ({type(error).__name__}: {error}).") from error
    return source


def _duckdb(data: Data, folder: Path, files: Mapping[str, Sequence[Path]]) -> object:
    """The result of the query, which may read the database and the files named in ``tables``, and nothing else."""
    try:
        import duckdb
    except ImportError:
        raise ConfigError('data.engine: "duckdb" is not installed; pip install "isonomy[duckdb]".') from None
    try:
        database = ":memory:" if data.database is None else str(folder / data.database)
        connection = duckdb.connect(database, read_only=data.database is not None)
        statements = connection.extract_statements(str(data.query))
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            kinds = ", ".join(str(statement.type).rpartition(".")[2] for statement in statements) or "none"
            raise ConfigError(f"data.query: exactly one SELECT statement is allowed; DuckDB reads: {kinds}.")
        allowed: list[str] = []
        for name, path in data.tables.items():
            if not files.get(name):
                raise ConfigError(f"data.tables.{name}: no file at {folder / path}.")
            read = [str(file.resolve()) for file in files[name]]
            connection.execute(f"create temp view {quoted(name)} as select * from {_read(read)}")
            allowed += read
        connection.execute(f"set allowed_paths = {_sql_list(allowed)}::varchar[]")
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        return connection.sql(statements[0].query)
    except duckdb.Error as error:
        raise ConfigError(f"data.query: DuckDB cannot run it ({error}).") from None


def quoted(text: str, mark: str = '"') -> str:
    """A SQL identifier, or with another ``mark`` a literal: quotes inside are doubled."""
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def _sql_list(texts: Sequence[str]) -> str:
    return f"[{', '.join(quoted(text, chr(39)) for text in texts)}]"


def _read(files: Sequence[str]) -> str:
    """Files as DuckDB should read them: what is text for every other engine is text here, yes and no among it."""
    first = Path(files[0])
    if ".csv" not in first.suffixes:
        return f"read_parquet({_sql_list(files)})"
    text = [name for name, dtype in open_source(first).schema.items() if is_text(dtype)]
    types = ", ".join(f"{quoted(name, chr(39))}: 'VARCHAR'" for name in text)
    return f"read_csv({_sql_list(files)}, types = {{{types}}})" if text else f"read_csv({_sql_list(files)})"


_ON_FILES = "spark.sql.runSQLOnFiles"  # whether a query may name files instead of tables
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


def _spark(data: Data, folder: Path) -> object:
    """The result of the query. Spark's parser must find a single SELECT, and the query may not name files."""
    try:
        from pyspark import SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError('data.engine: "spark" is not installed; pip install "isonomy[spark]".') from None
    running = SparkContext._active_spark_context is not None or SparkSession.getActiveSession() is not None
    session: Any = SparkSession.builder.getOrCreate()
    if not running:  # we started it, so we stop it; its workers would otherwise be killed with the process
        atexit.register(session.stop)
    before = session.conf.get(_ON_FILES, "true")
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(str(data.query))
        for kind in ("Command", "ParsedStatement"):
            if session._jvm.java.lang.Class.forName(f"{_LOGICAL}.{kind}").isInstance(plan):
                statement = plan.nodeName()
                raise ConfigError(f"data.query: exactly one SELECT statement is allowed; Spark reads: {statement}.")
        for name, path in data.tables.items():
            place = str(folder / path) if "://" not in path else path
            csv = path.endswith((".csv", ".csv.gz"))
            reader = session.read.option("header", True).option("inferSchema", True)
            (reader.csv(place) if csv else reader.parquet(place)).createOrReplaceTempView(name)
        session.conf.set(_ON_FILES, "false")
        return session.sql(str(data.query))
    except PySparkException as error:
        raise ConfigError(f"data.query: Spark cannot run it ({error}).") from None
    finally:
        session.conf.set(_ON_FILES, str(before))


def narrow(opened: Opened, columns: Iterable[str], filters: list[Condition]) -> Source:
    """The rows and columns that the audit needs. Files of moderate size are read here, once; engines keep theirs."""
    hold = opened.size is not None and opened.size <= HELD_BYTES
    return opened.source.narrowed(columns, all_of(part.comparison for part in filters), hold=hold)


def identified(source: Source, *, filtered: bool = False) -> Fingerprint:
    fingerprint = fingerprint_of(source)
    if not fingerprint.rows:
        empty = "no row is left after the filters" if filtered else "the table has no rows"
        raise EmptyFrame(f"data: {empty}." if fingerprint.columns else "data: no column is needed.")
    return fingerprint
