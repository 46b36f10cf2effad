"""The command line. Only what a command needs is imported, when it runs: `isonomy --help` answers at once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from isonomy import __version__

if TYPE_CHECKING:
    from isonomy.audit import Audit

USAGE, DATA, CRASH, INTERRUPTED = 2, 3, 4, 130
EXIT_CODES = (
    "Exit codes: 0 success; 1 a verdict on which the audit fails; 2 bad usage or audit file; 3 bad data, or nothing "
    "could be tested; 4 a test crashed. If several apply, the order is 2, 3, 4, 1."
)

app = typer.Typer(
    name="isonomy",
    help="Statistical evidence about the fairness of model decisions, from any table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    epilog=EXIT_CODES,
)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ResultsFile = Annotated[Path, typer.Argument(help="results.json of an audit.", show_default=False)]
AuditFile = Annotated[Path, typer.Argument(help="The audit file (TOML).", show_default=False)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Another value of a key, such as data.path=today.parquet or filters.day=2026-11-10. May be repeated.",
    ),
]


CountsFile = Annotated[
    Path | None, typer.Option("--counts", help="The result of the query of `isonomy sql`, instead of the rows.")
]
AuditFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: output in the file.")
]
Pdf = Annotated[bool, typer.Option("--pdf", help="Also print report.pdf, with an installed Chromium.")]


class Interrupted(Exception):
    """Ctrl-C during an audit."""


@contextlib.contextmanager
def errors(debug: bool) -> Iterator[None]:
    """Turn every error into one message and an exit code; ``debug`` lets it through."""
    from isonomy.errors import DataError, UsageError

    try:
        yield
    except (KeyboardInterrupt, Interrupted) as error:
        what = str(error) or "Interrupted. No file is incomplete."
        message, code = f"{what} To continue: isonomy audit <the audit file> --resume", INTERRUPTED
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        code = USAGE if isinstance(error, UsageError) else DATA if isinstance(error, DataError) else CRASH
        crash = f"{type(error).__name__}: {error}\nRun again with --debug to see where."
        message = crash if code == CRASH else str(error)
    else:
        return
    from isonomy.cli.show import complain

    complain(message)
    raise typer.Exit(code)


def prepare(file: Path, settings: list[str] | None, counts: Path | None = None) -> Audit:
    from isonomy.audit import Audit
    from isonomy.audit.counts import on_counts

    prepared = Audit.from_toml(file, settings=settings or ())
    return prepared if counts is None else on_counts(prepared, counts)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"isonomy {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Statistical evidence about the fairness of model decisions, from any table."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report.")] = Path("isonomy-demo"),
    rows: Annotated[int, typer.Option(min=2_000, max=10_000_000, help="Applications to simulate.")] = 30_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same data, same numbers.")] = 0,
    debug: Debug = False,
) -> None:
    """Audit a simulated lender with planted, known bias."""
    with errors(debug):
        from isonomy.audit import Audit
        from isonomy.cli import show
        from isonomy.cli.demo import write_demo

        file = write_demo(output, rows, seed)
        show.finish(show.run(Audit.from_toml(file), output, resume=False, debug=debug), decide=False)


@app.command()
def init(
    data: Annotated[Path, typer.Argument(help="A parquet, csv or xlsx file, or a glob.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The audit file to write.")] = Path("audit.toml"),
    field: Annotated[
        Literal["lending", "hiring", "uplift", "monitoring"] | None,
        typer.Option("--for", help="Propose the tests that this field publishes."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    debug: Debug = False,
) -> None:
    """Write a commented starter audit file for a table."""
    with errors(debug):
        from isonomy.audit.starter import write_starter
        from isonomy.cli import show

        show.started(write_starter(data, output, force=force, field=field), output)


@app.command(epilog=EXIT_CODES)
def audit(
    file: AuditFile,
    output: AuditFolder = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the tests that an interrupted run finished.")] = False,
    counts: CountsFile = None,
    pack: Annotated[
        bool, typer.Option("--pack", help="Also write evidence.zip: report, results, audit file, environment, SHA-256.")
    ] = False,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Run an audit and write its report."""
    with errors(debug):
        from isonomy.cli import show

        prepared = prepare(file, settings, counts)
        done = show.run(prepared, output or prepared.output, resume=resume, debug=debug)
        if pack:
            from isonomy.audit.outcome import write_pack

            show.wrote([write_pack(done)])
        show.finish(done, decide=True)


@app.command()
def validate(file: AuditFile, settings: Settings = None, debug: Debug = False) -> None:
    """Check an audit file without running it."""
    with errors(debug):
        from isonomy.cli import show

        prepared = prepare(file, settings)
        show.valid(file, len(prepared.config.tests), prepared.validate(), prepared.warnings)


@app.command()
def report(
    results: ResultsFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: that of the results.")
    ] = None,
    pdf: Pdf = False,
    table: Annotated[
        Path | None, typer.Option("--table", help="Also write all numbers to a .xlsx, .csv or .parquet file.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the report of an audit from its results.json."""
    with errors(debug):
        from isonomy.audit.outcome import read_results, write_table
        from isonomy.cli import show

        audit, folder = read_results(results), output or results.parent
        show.wrote(audit.write_report(folder, pdf=pdf))
        if table is not None:
            show.wrote([write_table([audit], table)])


@app.command(epilog="Exit codes: 1 what --fail-on names has happened; 3 nothing could be compared.")
def compare(
    results: Annotated[
        list[Path], typer.Argument(help="results.json of each audit, the earliest first.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for compare.html, .md and .json. Default: none.")
    ] = None,
    fail_on: Annotated[
        Literal["moved", "verdict"] | None,
        typer.Option("--fail-on", help="Exit with 1 if a number moved, or if a verdict changed."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    table: Annotated[
        Path | None,
        typer.Option("--table", help="A .xlsx, .csv or .parquet file for all numbers: a row per group, metric, audit."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Compare audits: which verdicts changed, and which disparities changed by more than chance explains."""
    with errors(debug):
        from isonomy.audit.compare import compare as compared
        from isonomy.audit.outcome import read_results, write_table
        from isonomy.cli import show

        audits = [read_results(path) for path in results]
        if table is not None:
            show.wrote([write_table(audits, table)], aside=as_json)
            if len(audits) == 1 and output is None and not fail_on and not as_json:
                return  # a table needs no second audit
        comparison = compared(*audits)
        typer.echo(comparison.to_json()) if as_json else show.comparison(comparison)
        if output is not None:
            show.wrote(comparison.write(output), aside=as_json)
        if fail_on is not None and (code := comparison.exit_code(fail_on)):
            typer.echo(f"Exit code {code} (--fail-on {fail_on}). {comparison.headline}", err=as_json)
            raise typer.Exit(code)


@app.command()
def card(results: ResultsFile, debug: Debug = False) -> None:
    """Print the fairness section of a model card, as markdown, from results.json."""
    with errors(debug):
        from isonomy.audit.outcome import read_results
        from isonomy.report.render import card as model_card

        typer.echo(model_card(read_results(results).document), nl=False)


@app.command()
def sql(
    file: AuditFile,
    table: Annotated[
        str | None, typer.Option("--table", help="The table to query. Default: the query or path of the file.")
    ] = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Print the grouped query whose result `isonomy audit --counts` reads, so that no row leaves the warehouse."""
    with errors(debug):
        from isonomy.audit.counts import grouped_query

        typer.echo(grouped_query(prepare(file, settings).config, table))


watch = typer.Typer(help="Follow batches of decisions over time.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(watch, name="monitor")
StateFile = Annotated[Path, typer.Argument(help="The state of a monitor (JSON).", show_default=False)]


@watch.command(epilog=EXIT_CODES)
def update(
    file: AuditFile,
    batch: Annotated[str, typer.Option("--batch", help="The name of the batch, such as 2026-W07.")],
    output: AuditFolder = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="The state file. Default: monitor.json in the folder.")
    ] = None,
    counts: CountsFile = None,
    note: Annotated[str, typer.Option("--note", help="A remark that is kept with the batch.")] = "",
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Count the rows of the audit file as one batch of its monitors, and write their report."""
    with errors(debug):
        from isonomy.cli import monitoring, show

        prepared = prepare(file, settings, counts)
        place = output or prepared.output
        show.finish(monitoring.update(prepared, place, state, batch=batch, note=note), decide=True)


@watch.command()
def status(state: StateFile, debug: Debug = False) -> None:
    """Print the verdicts to date, one line each."""
    with errors(debug):
        from isonomy.cli import monitoring

        for line in monitoring.status(state):
            typer.echo(line)


@watch.command("report")
def report_state(
    state: StateFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: that of the state.")
    ] = None,
    pdf: Pdf = False,
    debug: Debug = False,
) -> None:
    """Write the report of a monitor from its state."""
    with errors(debug):
        from isonomy.cli import monitoring, show

        show.wrote(monitoring.report(state).write_report(output or state.parent, pdf=pdf))


@watch.command()
def restart(
    state: StateFile,
    note: Annotated[str, typer.Option("--note", help="Why, such as the version of the model.")] = "",
    debug: Debug = False,
) -> None:
    """Begin again with sums of zero and a new error rate; the history is kept."""
    with errors(debug):
        from isonomy.cli import monitoring

        monitoring.restart(state, note)
        typer.echo(f"{state}: restarted. The next batch begins a new error rate.")


@app.command()
def schema() -> None:
    """Print the JSON schema of the audit file."""
    import json

    from isonomy.audit import schema as audit_schema

    typer.echo(json.dumps(audit_schema(), indent=2))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; ``arguments`` default to the program's own."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character shows a replacement mark.
            stream.reconfigure(errors="replace")
    app(args=arguments, prog_name="isonomy")
