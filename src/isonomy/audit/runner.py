"""Run an audit: one table, independent tests, and a record of everything."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import isonomy
from isonomy.audit import config as files
from isonomy.audit.config import MODELS
from isonomy.audit.outcome import AuditResult
from isonomy.audit.plan import PlannedTest, absent, check, of_other_rows, plan, refusals
from isonomy.audit.state import State, claim, place, prepare, refuse
from isonomy.audit.table import Opened, identified, narrow, open_table, repeated
from isonomy.errors import ConfigError, DataError, UsageError
from isonomy.frames import Source
from isonomy.frames.conditions import all_of
from isonomy.frames.profile import Fingerprint
from isonomy.options import shown
from isonomy.report import Document, Entry
from isonomy.report.layout import Section
from isonomy.results import Evidence, Note, from_dict
from isonomy.results.progress import listening

Progress = Callable[[str, int, int], None]  # what is being done, tests finished, tests in all

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "narwhals", "polars", "altair", "duckdb", "pyspark")


class Audit:
    """An audit: which table, which tests.

    >>> import isonomy as iso
    >>> table = iso.simulate.decisions(4_000, seed=1).columns
    >>> audit = iso.Audit.from_dict(
    ...     {
    ...         "columns": {"outcome": "outcome", "prediction": "prediction", "groups": ["race"]},
    ...         "tests": [{"kind": "flag", "metric": "selection_rate"}],
    ...     },
    ...     data=table,
    ... )
    >>> list(audit.run().results)
    ['flag-selection_rate']
    """

    def __init__(
        self,
        config: files.Config,
        *,
        data: object = None,
        folder: str | Path = ".",
        file: str = "audit",
        text: str = "",
    ) -> None:
        if not isinstance(config, files.Config):
            raise UsageError(f"config: {shown(config)} is not an audit; see Audit.from_dict and Audit.from_toml.")
        self.config = config
        self.data = data
        self.folder = Path(folder)  # what paths in the file are relative to
        self.file = file
        self.text = text
        self._path: Path | None = None  # of the file, where there is one
        self._debug = False

    @classmethod
    def from_toml(cls, path: str | Path, *, data: object = None) -> Audit:
        """The audit in a file. ``data``: a table that replaces the path or query of the file."""
        config, text = files.read(path)
        audit = cls(config, data=data, folder=Path(path).parent, file=str(path), text=text)
        audit._path = Path(path)
        return audit

    @classmethod
    def from_dict(cls, config: Mapping[str, object], *, data: object = None, folder: str | Path = ".") -> Audit:
        """The audit in a mapping of the same shape as the file."""
        return cls(files.build(config), data=data, folder=folder)

    def of_config(self, config: files.Config) -> Audit:
        """The same audit under another configuration."""
        other = Audit(config, data=self.data, folder=self.folder, file=self.file, text=self.text)
        other._path = self._path
        return other

    @property
    def output(self) -> Path:
        """Where the file says the report goes."""
        return self.folder / self.config.output

    def validate(self) -> list[str]:
        """Check the file, the columns of the table and the options of the tests; returns the columns needed.

        No rows are read, with two exceptions: the first row of a query, and the values that a role given as a condition
        compares with.
        """
        opened, planned, columns = self._open()
        refusals(planned, opened.source, self.file)
        if opened.size is not None:
            absent(planned, opened.source, self.file)
        if self.config.data.query is not None and self.data is None:
            try:
                opened.source.head(1)
            except Exception as error:  # each engine has errors of its own
                raise ConfigError(f"{self.file}: data.query: {type(error).__name__}: {error}") from error
        return columns

    def _open(self) -> tuple[Opened, list[PlannedTest], list[str]]:
        opened = open_table(self.config.data, self.folder, self.data, self.config.labels.labels())
        planned = plan(self.config)
        return opened, planned, check(self.config, planned, opened.source.schema, self.file)

    def run(
        self,
        output: str | Path | None = None,
        *,
        resume: bool = False,
        progress: Progress | None = None,
        debug: bool = False,
    ) -> AuditResult:
        """Run every test. With ``output``, write the report there.

        ``resume`` keeps the tests that an earlier run finished; ``debug`` raises the errors of tests instead of
        reporting them.
        """
        started = time.perf_counter()
        self._debug = debug
        tell = progress or (lambda *_: None)
        folder = None if output is None else place(output)
        opened, planned, columns = self._open()
        if folder is not None:
            refuse(folder, self._path)
        tell("Reading the table", 0, len(planned))
        source = narrow(opened, columns, self.config.filters, self.config.data.in_memory)
        if not self.config.filters or len(source.head(1)):  # an empty table has an error of its own
            absent(planned, source, self.file)
        fingerprint = identified(source, filtered=bool(self.config.filters))
        if folder is not None:
            prepare(folder)
        tables = _Tables(source, opened)
        state = State(folder, resume=resume)
        left = [one for one in planned if state.load(one.identity(fingerprint.digest, self.config)) is None]
        tables.prefetch(left, lambda k, of: tell(f"Reading the table (pass {k} of {of})", 0, len(planned)))
        if folder is not None:
            claim(folder, self._path)
        entries = []
        people = repeated(opened.source, self.config)
        for done, one in enumerate(planned):
            tell(one.name, done, len(planned))

            def heard(what: str, part: int, parts: int, *, name: str = one.name, done: int = done) -> None:
                tell(f"{name} ({what.lower()}: {part} of {parts})", done, len(planned))

            with listening(heard):
                entries.append(self._entry(one, tables, fingerprint, state, people))
            entries = self._together(planned, entries, fingerprint, state)
        tell("Writing the report", len(planned), len(planned))
        document = self._document(opened, fingerprint, tuple(entries), time.perf_counter() - started)
        result = AuditResult(document)
        return result if folder is None else result.write(folder)

    def _entry(
        self, one: PlannedTest, tables: _Tables, fingerprint: Fingerprint, state: State, people: Note | None
    ) -> Entry:
        """One test, from an earlier run or run now. Its errors do not stop the other tests."""
        identity = one.identity(fingerprint.digest, self.config)
        entry = Entry(
            name=one.name,
            kind=one.kind,
            title=one.test.title,
            truth=tuple(one.test.truth),
            seed=one.seed,
            words=self.config.labels.columns,
        )
        kept = state.load(identity)
        if kept is not None:
            try:
                return replace(entry, result=from_dict(kept["result"]), seconds=kept["seconds"], resumed=True)
            except Exception:  # written by another version: run the test again
                kept = None
        started = time.perf_counter()
        try:
            result = getattr(isonomy, one.kind)(tables.of(one), **one.ready())
            if people and "user" not in MODELS[one.kind].model_fields:
                record = result.provenance
                result = replace(result, provenance=replace(record, remarks=(*record.remarks, people)))
            result = result.published(self.config.suppress_below)
            # Words and tables are part of the test, and so are errors in them.
            Section(1, replace(entry, result=result), 1, drawn=False)
            result.to_dict()
        except Exception as error:
            if self._debug:
                raise
            entry = replace(
                entry,
                error=_message(error, withheld=self.config.suppress_below > 0),
                error_kind=_kind(error),
                options=dict(one.options),
            )
            return replace(entry, seconds=time.perf_counter() - started, peak_memory=peak_memory())
        seconds = time.perf_counter() - started
        tables.refuse_changed()
        return replace(entry, result=result, seconds=seconds, peak_memory=peak_memory())

    def _together(
        self, planned: list[PlannedTest], entries: list[Entry], fingerprint: Fingerprint, state: State
    ) -> list[Entry]:
        """Withhold in every test the groups that any test withholds, or differences would reveal them; then save."""
        minimum = self.config.suppress_below
        known, again = frozenset[str](), list(entries)
        while minimum:
            results = [entry.result for entry in again if entry.result is not None]
            hidden = frozenset().union(*(result.withheld_labels()[0] for result in results))
            if hidden == known:
                break
            known = hidden
            again = [self._withholding(one, entry, hidden) for one, entry in zip(planned, again, strict=False)]
        if known:
            others = of_other_rows(planned[: len(again)])
            again = [
                entry if entry.result is None or not other else _with_note(entry, entry.result, Note("other_rows"))
                for entry, other in zip(again, others, strict=True)
            ]
        for one, old, entry in zip(planned, entries, again, strict=False):
            if entry is old and (entry.resumed or old is not entries[-1]):
                continue
            identity = one.identity(fingerprint.digest, self.config)
            if entry.result is not None:
                state.save(identity, {"result": entry.result.to_dict(), "seconds": entry.seconds})
            elif old.result is not None:
                state.forget(identity)
        return again

    def _withholding(self, one: PlannedTest, entry: Entry, hidden: frozenset[str]) -> Entry:
        """The entry without the groups that another test withholds."""
        result = entry.result
        if result is None or not hidden & result.withheld_labels()[1]:
            return entry
        try:
            published = replace(entry, result=result.published(self.config.suppress_below, hidden))
            Section(1, published, 1, drawn=False)
        except Exception as error:
            if self._debug:
                raise
            refused = replace(entry, result=None, error=_message(error, withheld=True), error_kind=_kind(error))
            return replace(refused, options=dict(one.options))
        return published

    def _document(
        self, opened: Opened, fingerprint: Fingerprint, entries: tuple[Entry, ...], seconds: float
    ) -> Document:
        config = self.config
        return Document(
            title=config.title,
            description=config.description,
            entries=entries,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            data=opened.name,
            rows=fingerprint.rows,
            suppress_below=config.suppress_below,
            fail_on=tuple(config.fail_on),
            facts=tuple(_facts(config, opened, fingerprint, seconds)),
            config=self.text,
        )


class _Tables:
    """The audited table, and its restrictions for the tests that have filters of their own."""

    def __init__(self, source: Source, opened: Opened) -> None:
        self.whole = source
        self._opened = opened
        self._narrower: dict[str, Source] = {}

    def of(self, one: PlannedTest) -> Source:
        """The rows of one test."""
        condition = all_of(part.comparison for part in one.test.filters)
        if condition is None:
            return self.whole
        return self._narrower.setdefault(repr(one.test.filters), self.whole.filter(condition))

    def refuse_changed(self) -> None:
        """Raise if a file changed since the table was opened, unless its rows are in memory."""
        if self.whole.lazy:
            self._opened.refuse_changed()

    def prefetch(self, planned: list[PlannedTest], tell: Callable[[int, int], None]) -> None:
        """Make the passes with which the tests begin, one for all tests that share their keys."""
        by_table: dict[int, list[PlannedTest]] = {}
        for one in planned:
            by_table.setdefault(id(self.of(one)), []).append(one)
        for tests in by_table.values():
            source = self.of(tests[0])
            with contextlib.suppress(Exception):  # the test itself reports what is wrong with the rows
                source.prefetch([request for one in tests for request in one.requests(source)], tell)


def _message(error: Exception, *, withheld: bool) -> str:
    """The message of an error that is stored. Only isonomy's own messages are known to quote no row.

    ``withheld``: small groups are withheld, and so are messages about them.
    """
    if isinstance(error, DataError) and isinstance(error.__cause__, Exception):  # the engine's message may quote rows
        return f"{str(error).partition(': ')[0]}: the engine cannot read the table; --debug (or debug=True) shows why."
    if isinstance(error, isonomy.errors.IsonomyError):
        return error.public if withheld and isinstance(error, DataError) else str(error)
    return f"{type(error).__name__}, which isonomy does not raise itself; --debug (or debug=True) shows where and why."


def _with_note(entry: Entry, result: Evidence, note: Note) -> Entry:
    """The entry with one note more."""
    if note in result.notes:
        return entry
    return replace(entry, result=replace(result, notes=(*result.notes, note)))


def _kind(error: Exception) -> str:
    return "usage" if isinstance(error, UsageError) else "data" if isinstance(error, DataError) else "crash"


def peak_memory() -> int | None:
    """The peak memory of this process in bytes; None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _facts(config: files.Config, opened: Opened, fingerprint: Fingerprint, seconds: float) -> list[tuple[str, str]]:
    peak = peak_memory()
    return [
        ("isonomy", isonomy.__version__),
        ("Python", platform.python_version()),
        *((name, installed) for name in _LIBRARIES if (installed := _version(name))),
        ("System", f"{platform.system()} {platform.machine()}"),
        ("Data", opened.name),
        ("Backend", opened.source.backend),
        ("Rows after filters", f"{fingerprint.rows:,}"),
        ("Fingerprint of the rows", fingerprint.digest),
        ("Seed", str(config.seed)),
        ("Tests", str(len(config.tests))),
        ("Time", f"{seconds:.1f} s"),
        *([("Peak memory", f"{peak / 2**20:,.0f} MB")] if peak is not None else []),
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
