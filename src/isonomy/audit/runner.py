"""Run an audit: one table, independent tests, and a record of everything."""

from __future__ import annotations

import contextlib
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import isonomy
from isonomy.audit import config as files
from isonomy.audit.config import MODELS
from isonomy.audit.forms import advice_in_a_file, plain, with_dates
from isonomy.audit.outcome import AuditResult
from isonomy.audit.plan import PlannedTest, absent, check, of_other_rows, plan, refusals
from isonomy.audit.state import State, claim, keyed, output_folder, prepare
from isonomy.audit.table import Opened, identified, narrow, open_table, repeated, unmet
from isonomy.errors import ConfigError, DataError, UsageError
from isonomy.frames import Source
from isonomy.frames.expressions import all_of
from isonomy.frames.profile import Fingerprint, date_range
from isonomy.options import shown
from isonomy.report import Decided, Document, Entry
from isonomy.report.document import DATES, FINGERPRINT
from isonomy.report.layout import Section
from isonomy.results import Note, from_dict, phrases
from isonomy.results.disclosure import FAMILY, family_notes
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

    def __init__(self, config: files.Config, *, data: object = None, folder: str | Path = ".") -> None:
        if not isinstance(config, files.Config):
            raise UsageError(f"config: {shown(config)} is not an audit; see Audit.from_dict and Audit.from_toml.")
        self.config = config
        self.data = data
        self.folder = Path(folder)  # what paths in the file are relative to
        self.file = "audit"  # what messages call it
        self.text = ""  # of the audit file, if there is one
        self.warnings: list[str] = []  # what `validate` found that the audit would warn of
        self._path: Path | None = None
        self._debug = False

    @classmethod
    def from_toml(cls, path: str | Path, *, data: object = None, settings: Sequence[str] = ()) -> Audit:
        """The audit in a file. ``data``: a table that replaces the path or query of the file.

        ``settings``: keys of the file with other values, such as ``["filters.day=2026-11-10"]``.
        """
        config, text = files.read(path, settings)
        audit = cls(config, data=data, folder=Path(path).parent)
        audit.file, audit.text, audit._path = str(path), text, Path(path)
        return audit

    @classmethod
    def from_dict(cls, config: Mapping[str, object], *, data: object = None, folder: str | Path = ".") -> Audit:
        """The audit in a mapping of the same shape as the file."""
        return cls(files.build(config), data=data, folder=folder)

    @property
    def output(self) -> Path:
        """Where the file says the report goes."""
        return self.folder / self.config.output

    def validate(self) -> list[str]:
        """Check the file, the columns of the table and the options of the tests; returns the columns needed.

        Reads the first row of a query. For a file, it also reads the values that conditions of roles compare with, and
        checks that a row meets the condition of each named group (``warnings``).
        """
        opened, planned, columns = self._open()
        refusals(planned, opened.source, self.file)
        if opened.size is not None:
            absent(planned, opened.source, self.file)
            notes = [unmet(opened.source, test.options.get("groups")) for test in planned]
            self.warnings = list(dict.fromkeys(note.text for note in notes if note is not None))
        if self.config.data.query is not None and self.data is None:
            try:
                opened.source.head(1)
            except Exception as error:  # each engine has errors of its own
                raise ConfigError(f"{self.file}: data.query: {type(error).__name__}: {error}") from error
        return columns

    def _open(self) -> tuple[Opened, list[PlannedTest], list[str]]:
        opened = open_table(self.config.data, self.folder, self.data, self.config.labels.labels())
        self.config = with_dates(self.config, opened.source.schema)
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
        report = progress or (lambda *_: None)
        folder = None if output is None else output_folder(output, self._path)
        opened, planned, columns = self._open()
        report("Reading the table", 0, len(planned))
        source = narrow(opened, columns, self.config.filters)
        if not self.config.filters or len(source.head(1)):  # an empty table has an error of its own
            absent(planned, source, self.file)
        fingerprint = identified(source, filtered=bool(self.config.filters))
        dates = [] if (dated := self.config.data.date) is None else [(DATES, date_range(source, dated))]
        if folder is not None:
            prepare(folder)
        state = State(folder, resume=resume)
        fingerprint = replace(fingerprint, digest=keyed(fingerprint.digest, folder))
        identities = [test.identity(fingerprint.digest, self.config) for test in planned]
        filtered = {repr(test.test.filters): test.test.filters for test in planned}
        conditions = {key: all_of(part.comparison for part in filters) for key, filters in filtered.items()}
        tables = {key: source if rule is None else source.filter(rule) for key, rule in conditions.items()}
        unfinished = [test for test, key in zip(planned, identities, strict=True) if state.load(key) is None]
        for key, table in tables.items():  # the passes with which tests begin, one for all tests that share their keys
            tests = [test for test in unfinished if repr(test.test.filters) == key]
            with contextlib.suppress(Exception):  # the test itself reports what is wrong with the rows
                requests = [request for test in tests for request in test.requests(table)]
                table.prefetch(requests, lambda k, n: report(f"Reading the table (pass {k} of {n})", 0, len(planned)))
        if folder is not None:
            claim(folder, self._path)
        entries: list[Entry] = []
        people = repeated(opened.source, self.config)
        for done, test in enumerate(planned):
            report(test.name, done, len(planned))

            def heard(what: str, part: int, parts: int, *, name: str = test.name, done: int = done) -> None:
                report(f"{name} ({what.lower()}: {part} of {parts})", done, len(planned))

            with listening(heard):
                entries.append(self._entry(test, tables[repr(test.test.filters)], state.load(identities[done]), people))
            if entries[-1].error is None and not entries[-1].resumed and source.lazy:  # rows in memory cannot change
                opened.refuse_changed()
            before, entries = entries, self._withhold(planned, entries)
            for key, old, entry in zip(identities, before, entries, strict=False):
                if entry is old and (entry.resumed or old is not before[-1]):
                    continue
                result = entry.result
                state.save(key, None if result is None else {"result": result.to_dict(), "seconds": entry.seconds})
        report("Writing the report", len(planned), len(planned))
        document = Document(
            title=self.config.title,
            description=self.config.description,
            entries=tuple(entries),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            data=opened.name,
            rows=fingerprint.rows,
            suppress_below=self.config.suppress_below,
            fail_on=tuple(self.config.fail_on),
            facts=(
                *_facts(self.config, opened, fingerprint, time.perf_counter() - started),
                *(*dates, *self.config._given),
            ),
            config=self.text,
        )
        return AuditResult(document) if folder is None else AuditResult(document).write(folder)

    def _entry(self, test: PlannedTest, table: Source, stored: Mapping[str, Any] | None, people: Note | None) -> Entry:
        written = test.test
        choice = written.decided or self.config.decided
        entry = Entry(
            name=test.name,
            kind=test.kind,
            title=written.title,
            truth=tuple(written.truth),
            seed=test.seed,
            words=self.config.labels.columns,
            further=tuple(name for name in written.further if getattr(written, name)),
            decided=None if choice is None else Decided(choice.by, choice.on.isoformat(), choice.why),
            chosen=phrases.chosen(self.config.labels.metrics),
        )
        if stored is not None:
            with contextlib.suppress(Exception):  # written by another version: run the test again
                return replace(entry, result=from_dict(stored["result"]), seconds=stored["seconds"], resumed=True)
        started = time.perf_counter()
        try:
            result = getattr(isonomy, test.kind)(table, **test.ready())
            people = None if "user" in MODELS[test.kind].model_fields else people
            if remarks := [note for note in (people, unmet(table, test.options.get("groups"))) if note]:
                record = result.provenance
                result = replace(result, provenance=replace(record, remarks=(*record.remarks, *remarks)))
            result = result.published(self.config.suppress_below)
            entry = replace(entry, result=result)
            Section(1, entry, 1, drawn=False)  # words and tables are part of the test, and so are errors in them
            result.to_dict()
        except Exception as error:
            entry = self._stopped(test, entry, error)
        return replace(entry, seconds=time.perf_counter() - started, peak_memory=peak_memory())

    def _stopped(self, test: PlannedTest, entry: Entry, error: Exception) -> Entry:
        if self._debug:
            raise error
        kind = "usage" if isinstance(error, UsageError) else "data" if isinstance(error, DataError) else "crash"
        message = advice_in_a_file(_message(error, withheld=self.config.suppress_below > 0))
        options = {name: plain(value) for name, value in test.options.items()}
        return replace(entry, result=None, error=message, error_kind=kind, options=options)

    def _withhold(self, planned: list[PlannedTest], entries: list[Entry]) -> list[Entry]:
        """Withhold in every test the groups that any test withholds, or differences would reveal them."""
        minimum, known, entries = self.config.suppress_below, frozenset[str](), list(entries)
        while minimum:
            results = [entry.result for entry in entries if entry.result is not None]
            hidden = frozenset().union(*(result.withheld_labels()[0] for result in results))
            if hidden == known:
                break
            known = hidden
            for i, entry in enumerate(entries):
                if entry.result is None or not hidden & entry.result.withheld_labels()[1]:
                    continue
                try:
                    entries[i] = replace(entry, result=entry.result.published(minimum, hidden))
                    Section(1, entries[i], 1, drawn=False)
                except Exception as error:
                    entries[i] = self._stopped(planned[i], entry, error)
        named = {entry.name: entry.result for entry in entries if entry.result is not None}
        added = family_notes(named, minimum) if minimum else {}
        others = of_other_rows(planned[: len(entries)]) if known else [False] * len(entries)
        for i, (entry, other) in enumerate(zip(entries, others, strict=True)):
            if entry.result is None:
                continue
            notes = [note for note in entry.result.notes if note.code not in FAMILY]
            notes += [*added.get(entry.name, ()), *([Note("other_rows")] if other else [])]
            notes = [note for k, note in enumerate(notes) if note not in notes[:k]]
            if notes != list(entry.result.notes):
                entries[i] = replace(entry, result=replace(entry.result, notes=tuple(notes)))
        return entries


def _message(error: Exception, *, withheld: bool) -> str:
    """What is stored of an error. Only isonomy's own messages are known to quote no row, and some name small groups."""
    if isinstance(error, DataError) and isinstance(error.__cause__, Exception):  # the engine's message may quote rows
        return f"{str(error).partition(': ')[0]}: the engine cannot read the table; --debug (or debug=True) shows why."
    if isinstance(error, isonomy.errors.IsonomyError):
        return error.public if withheld and isinstance(error, DataError) else str(error)
    return f"{type(error).__name__}, which isonomy does not raise itself; --debug (or debug=True) shows where and why."


def peak_memory() -> int | None:
    """The peak memory of this process in bytes; None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _facts(config: files.Config, opened: Opened, fingerprint: Fingerprint, seconds: float) -> Iterator[tuple[str, str]]:
    yield from (("isonomy", isonomy.__version__), ("Python", platform.python_version()))
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)
    yield "System", f"{platform.system()} {platform.machine()}"
    yield from (("Data", opened.name), ("Backend", opened.source.backend))
    yield "Rows after filters", f"{fingerprint.rows:,}"
    yield FINGERPRINT, fingerprint.digest
    yield from (("Seed", str(config.seed)), ("Tests", str(len(config.tests))), ("Time", f"{seconds:.1f} s"))
    peak = peak_memory()
    if peak is not None:
        yield "Peak memory", f"{peak / 2**20:,.0f} MB"
