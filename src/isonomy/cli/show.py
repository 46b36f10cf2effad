"""What the terminal shows: progress, a summary, errors without tracebacks. Labels are text, never markup or escapes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from isonomy.audit import Audit, AuditResult
    from isonomy.report import Entry

USAGE, DATA, CRASH, INTERRUPTED = 2, 3, 4, 130
_STYLES = {"violation": "bold red", "within_tolerance": "green", "inconclusive": "dim", "failed": "bold magenta"}
_FINDING = 500  # characters of a finding the terminal shows; the report has all of it
_WARNINGS, _WARNING = 2, 160  # warnings of a test the terminal shows, and characters of each


@contextlib.contextmanager
def errors(debug: bool) -> Iterator[None]:
    """Turn every error into one message and an exit code; ``debug`` lets it through."""
    from isonomy.errors import DataError, UsageError

    try:
        yield
    except KeyboardInterrupt:
        _complain("Interrupted. Nothing is half-written; `--resume` goes on from the last finished test.")
        raise typer.Exit(INTERRUPTED) from None
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        code = USAGE if isinstance(error, UsageError) else DATA if isinstance(error, DataError) else CRASH
        crash = f"{type(error).__name__}: {error}\nRun again with --debug to see where."
        _complain(crash if code == CRASH else str(error))
        raise typer.Exit(code) from None


def _complain(message: str) -> None:
    from isonomy.report.text import visible

    console = _console(stderr=True)
    for line in visible(message).splitlines() or [""]:
        console.print(f"error: {line}", style="red", markup=False, highlight=False, soft_wrap=True)


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)  # colour only on a terminal; NO_COLOR is respected


def run(audit: Audit, output: Path, *, resume: bool, debug: bool) -> AuditResult:
    """Run an audit with a progress bar, where there is a terminal to draw it on."""
    console = _console(stderr=True)
    if not console.is_terminal:
        return audit.run(output, resume=resume, debug=debug)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from isonomy.report.text import one_line

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("Opening the table", total=len(audit.config.tests))

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=one_line(what, 60), completed=done, total=total)

        return audit.run(output, resume=resume, progress=tell, debug=debug)


def finish(result: AuditResult, *, decide: bool) -> None:
    """Say what was found and where the report is, and end with the audit's exit code."""
    from rich.table import Table
    from rich.text import Text

    from isonomy.report import wording
    from isonomy.report.text import one_line

    console = _console()
    console.print(Text(one_line(result.document.title, 200), style="bold"))
    console.print(Text(wording.headline(result.document.tally)))
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for entry in result.entries:
        badge = Text(wording.BADGES[entry.verdict], style=_STYLES[entry.verdict])
        heading = (one_line(entry.heading, 160), "bold"), (f"  {one_line(entry.name, 60)}", "dim")
        warned = [(f"\n! {one_line(warning, _WARNING)}", "yellow") for warning in _warnings(entry)]
        lines.add_row(badge, Text.assemble(*heading, "\n", one_line(entry.lead, _FINDING), *warned))
        lines.add_row()
    console.print()
    console.print(lines)
    if result.output is not None:
        console.print(Text("Report: ") + Text(str(result.output / "report.html"), style="underline"), soft_wrap=True)
    sys.stdout.flush()
    raise typer.Exit(result.exit_code if decide or result.exit_code > 1 else 0)


def _warnings(entry: Entry) -> list[str]:
    """What to know before believing the line above: rows left out, the first warnings, and how many more there are."""
    from isonomy.report import wording
    from isonomy.results import phrases

    if entry.result is None:
        return []
    dropped = phrases.dropped(entry.result.provenance.dropped)
    warnings = list(dict.fromkeys([dropped, *entry.result.warnings] if dropped else entry.result.warnings))
    more = len(warnings) - _WARNINGS
    return warnings[:_WARNINGS] + ([wording.more_warnings(more)] if more > 0 else [])


def valid(file: Path, tests: int, columns: list[str]) -> None:
    """The file can be run."""
    from isonomy.report.text import one_line

    shown = ", ".join(one_line(column, 60) for column in columns[:30]) + (", ..." if len(columns) > 30 else "")
    word = "test" if tests == 1 else "tests"
    typer.echo(f"{file}: all right. {tests} {word}; columns: {shown}.")


def started(guesses: list[str], output: Path) -> None:
    """What was guessed, and what to do next."""
    from isonomy.report.text import one_line

    for guess in guesses:
        typer.echo(f"  {one_line(guess, 200)}")
    typer.echo(f"Wrote {output}. Read it, correct the guesses, then: isonomy audit {output}")
