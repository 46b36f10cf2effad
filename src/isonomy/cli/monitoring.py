"""Monitors of an audit file: a state for each, updated batch by batch, and their common report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

import isonomy
from isonomy.audit import Audit, AuditResult
from isonomy.audit.state import claim, output_folder, prepare
from isonomy.errors import ConfigError, UsageError
from isonomy.frames.expressions import all_of
from isonomy.monitoring import Monitor, MonitorResult
from isonomy.monitoring.state import locked, save_state
from isonomy.report import Document, Entry
from isonomy.results.storage import typed

KIND, STATE = "monitor", "monitor.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the audit file says about a monitor, kept in its state."""

    title: str = "Monitor"
    description: str = ""
    data: str = ""
    name: str = KIND
    heading: str | None = None
    suppress_below: int = 10
    fail_on: Sequence[str] = ()

    def entry(self, result: MonitorResult) -> Entry:
        published = result.published(self.suppress_below)
        return Entry(name=self.name, kind=KIND, title=self.heading, result=published)

    def document(self, entries: Sequence[Entry], text: str = "") -> Document:
        results = [entry.result for entry in entries if entry.result is not None]
        return Document(
            title=self.title,
            description=self.description,
            entries=tuple(entries),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            data=self.data,
            rows=max((result.provenance.rows or 0 for result in results), default=None),
            suppress_below=self.suppress_below,
            fail_on=tuple(self.fail_on),
            facts=(("isonomy", isonomy.__version__),),
            config=text,
        )


def update(audit: Audit, output: Path, state: Path | None, *, batch: str, note: str = "") -> AuditResult:
    tests = [test for test in audit.config.tests if test.kind == KIND]
    if not tests:
        raise ConfigError(f'{audit.file}: tests: none has kind = "{KIND}"; add one.')
    if state is not None and len(tests) > 1:
        raise ConfigError(f"--state: {audit.file} has {len(tests)} monitors, which need a file each; leave it out.")
    config = audit.config = audit.config.model_copy(update={"tests": tests})
    if invalid := [name for name in config.names if re.search(r"[/\\]", name)]:
        raise ConfigError(
            f"{audit.file}: tests: the id {invalid[0]!r} contains a slash; the file of a monitor has its id as a name, "
            "so give one without slashes."
        )
    output_folder(output, audit._path)  # raises before rows are read
    opened, planned, _ = audit._open()
    folder = prepare(output)
    claim(folder, audit._path)
    # All columns: those that are not needed tell whether rows were counted before.
    rule = all_of(part.comparison for part in config.filters)
    source = opened.source if rule is None else opened.source.filter(rule)
    entries = []
    for test in planned:
        file = state or folder / (STATE if len(tests) == 1 else f"{KIND}-{test.name}.json")
        with locked(file):
            options = {name: value for name, value in test.ready().items() if name != "batch"}
            watch = Monitor.load(file, **options) if file.exists() else Monitor(**options)
            rule = all_of(part.comparison for part in test.test.filters)
            result = watch.update(source if rule is None else source.filter(rule), batch=batch, note=note)
            facts = {name: getattr(config, name) for name in ("title", "description", "suppress_below", "fail_on")}
            watch.about.update(facts, data=opened.name, name=test.name, heading=test.test.title)
            save_state(watch._state, file)
        about = read_about(watch)
        entries.append(about.entry(result))
    return AuditResult(about.document(entries, audit.text)).write(folder)


def read_about(watch: Monitor) -> About:
    """What the state of a monitor says about it; keys of other versions are left out."""
    known = [part.name for part in fields(About)]
    try:
        return typed(About(**{name: value for name, value in watch.about.items() if name in known}))
    except TypeError as error:
        raise UsageError(f"state: the description of the audit is not valid ({error}). Restore a copy.") from None


def status(state: Path) -> Iterator[str]:
    watch = Monitor.load(state)
    result = watch.result().published(read_about(watch).suppress_below)
    yield result.headline()
    yield from result.findings()
    yield from (f"! {text}" for text in result.warnings)


def report(state: Path) -> AuditResult:
    watch = Monitor.load(state)
    about = read_about(watch)
    return AuditResult(about.document([about.entry(watch.result())]))


def restart(state: Path, note: str) -> None:
    with locked(state):
        watch = Monitor.load(state)
        watch.restart(note)
        save_state(watch._state, state)
