"""What the terminal shows: progress, a summary, errors without tracebacks. Labels are text, never markup."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import typer
from rich import progress
from rich.console import Console  # color only on a terminal; NO_COLOR is respected
from rich.table import Table
from rich.text import Text

from isonomy.audit import Audit, AuditResult
from isonomy.audit.compare import AuditComparison
from isonomy.cli import Interrupted as Interrupted
from isonomy.report import Entry, wording
from isonomy.report.text import one_line, visible
from isonomy.results import phrases

_STYLES = {
    "violation": "bold red",
    "shown": "bold blue",
    "compared": "blue",
    "within_tolerance": "green",
    "inconclusive": "dim",
    "failed": "bold magenta",
}
_LONG = 10.0  # seconds after which an audit without a progress bar reports its progress
_FINDING = 500  # characters of a finding or a warning that the terminal shows; the report has them all
_WARNINGS = 2  # warnings of a test the terminal shows


def complain(message: str) -> None:
    console = Console(stderr=True)
    for line in visible(message).splitlines() or [""]:
        console.print(f"error: {line}", style="red", markup=False, highlight=False, soft_wrap=True)


def run(audit: Audit, output: Path, *, resume: bool, debug: bool) -> AuditResult:
    """Run an audit with a progress bar; without a terminal, a long audit prints a line for each test."""
    names, now = audit.config.names, ("Opening the table", 0)  # what is being done, and the tests that are finished

    def report(what: str, done: int, total: int) -> None:
        nonlocal now
        testing = done < total and what.startswith(names[done])
        now = (names[done] if testing else what, done)
        left = names[done + 1 :] if testing else []
        show(f"{what}, then {', '.join(left)}" if left else what, done, total)

    with contextlib.ExitStack() as stack:
        show = _shown(Console(stderr=True), stack, len(names))
        try:
            return audit.run(output, resume=resume, progress=report, debug=debug)
        except KeyboardInterrupt:
            finished = f"{now[1]} of {len(names)} tests are finished and kept"
            raise Interrupted(f"Interrupted at {now[0]!r}: {finished}. No file is incomplete.") from None


def _shown(console: Console, stack: contextlib.ExitStack, total: int) -> Callable[[str, int, int], None]:
    if not console.is_terminal:
        began = time.monotonic()

        def line(what: str, done: int, total: int) -> None:
            if time.monotonic() - began > _LONG:
                console.print(f"[{done}/{total}] {one_line(what, 300)}", markup=False, highlight=False, soft_wrap=True)

        return line
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    bar = stack.enter_context(progress.Progress(*columns, console=console, transient=True))
    task = bar.add_task("Opening the table", total=total)
    return lambda what, done, total: bar.update(task, description=one_line(what, 60), completed=done, total=total)


def finish(result: AuditResult, *, decide: bool) -> None:
    console = Console()
    console.print(Text(one_line(result.document.title, 200), style="bold"))
    console.print(Text(result.document.headline))
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for entry in result.entries:
        badge = Text(entry.badge, style=_STYLES[entry.look])
        heading = (one_line(entry.heading, 160), "bold"), (f"  {one_line(entry.name, 60)}", "dim")
        warned = [(f"\n! {one_line(warning, _FINDING)}", "yellow") for warning in first_warnings(entry)]
        leads = [f"\n{one_line(lead, _FINDING)}" for lead in entry.leads]
        lines.add_row(badge, Text.assemble(*heading, *leads, *warned))
        lines.add_row()
    console.print()
    console.print(lines)
    if result.output is not None:
        console.print(Text("Report: ") + Text(str(result.output / "report.html"), style="underline"), soft_wrap=True)
    code = result.exit_code if decide or result.exit_code > 1 else 0
    if code:
        console.print(Text(wording.exit_reason(code, result.document)), soft_wrap=True)
    sys.stdout.flush()
    raise typer.Exit(code)


def first_warnings(entry: Entry) -> list[str]:
    if entry.result is None:
        return []
    dropped = phrases.dropped(entry.result.provenance.dropped)
    warnings = list(dict.fromkeys([dropped, *entry.result.warnings] if dropped else entry.result.warnings))
    more = len(warnings) - _WARNINGS
    return warnings[:_WARNINGS] + (
        [f"{wording.plural(more, 'more warning is', 'more warnings are')} in the report."] if more > 0 else []
    )


def wrote(paths: Iterable[Path], *, aside: bool = False) -> None:
    """Name the files; ``aside`` on the error stream, if the output is for programs."""
    for path in paths:
        typer.echo(f"Wrote {path}", err=aside)


def comparison(compared: AuditComparison) -> None:
    console = Console()
    console.print(Text(compared.headline, style="bold"))
    for i, audit in enumerate(compared.audits, start=1):
        console.print(Text(f"Audit {i}: {', '.join(filter(None, (one_line(audit.title, 100), audit.dates)))}"))
    lines = Table("test", "first", "last", "what changed", box=None, pad_edge=False)
    for change in compared.changes:
        style = "bold" if change.changed else ""
        first, *_, last = change.verdicts
        cells = (one_line(change.name, 60), first, last, "\n".join(map(one_line, change.moves)))
        lines.add_row(*(Text(cell, style=style) for cell in cells))
    console.print(lines)
    for note in compared.notes:
        console.print(Text(f"! {note}"), soft_wrap=True)


def valid(file: Path, tests: int, columns: list[str], warnings: Iterable[str] = ()) -> None:
    shown = ", ".join(one_line(column, 60) for column in columns[:30]) + (", ..." if len(columns) > 30 else "")
    typer.echo(f"{file}: valid. {wording.plural(tests, 'test', 'tests')}; columns: {shown}.")
    for warning in warnings:
        typer.echo(f"! {one_line(warning)}")


def started(guesses: list[str], output: Path) -> None:
    for guess in guesses:
        typer.echo(f"  {one_line(guess, 300)}")
    untested = bool(guesses) and guesses[-1].endswith("nothing is tested yet.")
    what = "name its columns, and remove the # from the tests you want" if untested else "correct the guesses"
    typer.echo(f"Wrote {output}. Read it, {what}, then: isonomy audit {output}")
