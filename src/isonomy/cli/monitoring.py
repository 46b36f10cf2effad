"""Monitors of an audit file: a state for each, updated batch by batch, and their common report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import isonomy
from isonomy.audit import Audit, AuditResult
from isonomy.audit.state import FOLDER, claim, place, prepare, refuse
from isonomy.errors import ConfigError
from isonomy.frames.expressions import all_of
from isonomy.monitoring import Monitor
from isonomy.monitoring.state import locked, save_state
from isonomy.report import Document, Entry

KIND, STATE = "monitor", "monitor.json"


def update(audit: Audit, output: Path, state: Path | None, *, batch: str, note: str = "") -> AuditResult:
    """Count the rows of an audit file as one batch of each of its monitors; writes their states and the report."""
    tests = [test for test in audit.config.tests if test.kind == KIND]
    if not tests:
        raise ConfigError(f'{audit.file}: tests: none has kind = "{KIND}"; add one.')
    if state is not None and len(tests) > 1:
        raise ConfigError(f"--state: {audit.file} has {len(tests)} monitors, which need a file each; leave it out.")
    audit.config = audit.config.model_copy(update={"tests": tests})
    folder = place(output)
    refuse(folder, audit._path)
    opened, planned, _ = audit._open()
    prepare(folder)
    (folder / FOLDER).mkdir(exist_ok=True)
    claim(folder, audit._path)
    config, entries = audit.config, []
    # All columns: those that are not needed tell whether rows were counted before.
    every = all_of(part.comparison for part in config.filters)
    source = opened.source if every is None else opened.source.filter(every)
    about = {"title": config.title, "suppress_below": config.suppress_below, "fail_on": list(config.fail_on)}
    about |= {"description": config.description, "data": opened.name}
    for test in planned:
        file = state or folder / (STATE if len(tests) == 1 else f"{KIND}-{test.name}.json")
        with locked(file):
            options = {name: value for name, value in test.ready().items() if name != "batch"}
            watch = Monitor.load(file, **options) if file.exists() else Monitor(**options)
            rule = all_of(part.comparison for part in test.test.filters)
            result = watch.update(source if rule is None else source.filter(rule), batch=batch, note=note)
            watch.about.update(about, name=test.name, heading=test.test.title)
            save_state(watch._state, file)
        entries.append(_entry(watch, result))
    return AuditResult(_document(about, entries, audit.text)).write(folder)


def status(state: Path) -> Iterator[str]:
    """The headline, and a line for each group."""
    watch = Monitor.load(state)
    result = _published(watch, watch.result())
    yield result.headline()
    yield from result.findings()


def report(state: Path) -> AuditResult:
    watch = Monitor.load(state)
    return AuditResult(_document(watch.about, [_entry(watch, watch.result())]))


def restart(state: Path, note: str) -> None:
    with locked(state):
        watch = Monitor.load(state)
        watch.restart(note)
        save_state(watch._state, state)


def _published(watch: Monitor, result: isonomy.MonitorResult) -> isonomy.MonitorResult:
    return result.published(int(watch.about.get("suppress_below", 10)))


def _entry(watch: Monitor, result: isonomy.MonitorResult) -> Entry:
    name, title = watch.about.get("name", KIND), watch.about.get("heading")
    return Entry(name=name, kind=KIND, title=title, result=_published(watch, result))


def _document(about: dict[str, object], entries: list[Entry], text: str = "") -> Document:
    results = [entry.result for entry in entries if entry.result is not None]
    minimum = about.get("suppress_below", 10)
    return Document(
        title=str(about.get("title", "Monitor")),
        description=str(about.get("description", "")),
        entries=tuple(entries),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        data=str(about.get("data", "")),
        rows=max((result.provenance.rows or 0 for result in results), default=None),
        suppress_below=minimum if isinstance(minimum, int) else 10,
        fail_on=tuple(map(str, about.get("fail_on", ()))),  # type: ignore[call-overload]
        facts=(("isonomy", isonomy.__version__),),
        config=text,
    )
