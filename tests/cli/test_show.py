"""Terminal output and exit codes: labels are text, errors have no traceback, and each has its code."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import isonomy
from isonomy.audit import compare
from isonomy.cli import show
from support.fakes import HOSTILE, document, fake, untested

Run = Callable[..., Any]
Change = Callable[[str, str], None]


class TestExitCodes:
    def test_0_all_right(self, folder: Path, run: Run) -> None:
        assert run("audit", "audit.toml").exit_code == 0
        assert run("validate", "audit.toml").exit_code == 0

    def test_1_a_verdict_in_fail_on(
        self, folder: Path, run: Run, change: Change, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(isonomy, "flag", lambda data, **_: fake(verdict="inconclusive"), raising=False)
        change("fail_on = []", 'fail_on = ["inconclusive"]')
        assert run("audit", "audit.toml").exit_code == 1
        assert (folder / "isonomy-report" / "report.html").exists()

    @pytest.mark.parametrize(
        "pair",
        [
            ('kind = "flag"', 'kind = "flga"'),
            ('outcome = "outcome"', 'outcome = "outcom"'),
            ("[data]", "[data"),
            ('path = "decisions.parquet"', 'path = "nothing.parquet"'),
            ('path = "decisions.parquet"', 'path = "audit.toml"'),
        ],
    )
    def test_2_bad_file(self, pair: tuple[str, str], run: Run, change: Change) -> None:
        change(*pair)
        for command in ("audit", "validate"):
            done = run(command, "audit.toml")
            assert done.exit_code == 2, done.output
            assert "Traceback" not in done.output
            assert "error: " in done.output

    def test_2_bad_usage(self, folder: Path, run: Run) -> None:
        assert run("audit").exit_code == 2
        assert run("audit", "none.toml").exit_code == 2
        assert run("adit").exit_code == 2
        assert run("demo", "--rows", "many").exit_code == 2

    def test_2_options_a_function_refuses(self, run: Run, change: Change) -> None:
        change('metric = "tpr"', 'metric = "tpr"\nalternative = "outside"')
        assert run("audit", "audit.toml").exit_code == 2

    def test_3_bad_data(self, folder: Path, run: Run, change: Change) -> None:
        frame = pl.read_parquet("decisions.parquet")
        frame.with_columns(pl.lit(7).alias("prediction")).write_parquet("decisions.parquet")
        done = run("audit", "audit.toml")
        assert done.exit_code == 3
        assert "neither 0 nor 1" in " ".join(done.output.split())
        frame[:0].write_parquet("decisions.parquet")
        assert run("audit", "audit.toml").exit_code == 3
        (folder / "twice.csv").write_text("race,race,prediction\na,b,1\n")
        change("decisions.parquet", "twice.csv")
        for command in (("audit", "audit.toml"), ("validate", "audit.toml"), ("init", "twice.csv", "-o", "x.toml")):
            assert run(*command).exit_code == 3

    def test_3_nothing_to_test(self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isonomy, "flag", lambda data, **_: untested(), raising=False)
        done = run("audit", "audit.toml")
        assert done.exit_code == 3
        assert "Not answered: no group could be tested" in " ".join(done.output.split())

    def test_they_are_explained(self, run: Run) -> None:
        for arguments in (("--help",), ("audit", "--help")):
            text = " ".join(run(*arguments).output.split())
            assert "the order is 2, 3, 4, 1" in text

    def test_4_a_test_crashed(self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isonomy, "flag", lambda data, **_: 1 / 0, raising=False)
        done = run("audit", "audit.toml")
        assert done.exit_code == 4
        assert "ZeroDivisionError" in done.output
        assert "Traceback" not in done.output
        assert isinstance(run("audit", "audit.toml", "--debug").exception, ZeroDivisionError)

    def test_the_order_is_2_3_4_1(self, folder: Path, run: Run, config: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def flag(data: object, *, metric: str, **_: object) -> Any:
            errors = {
                "tpr": isonomy.errors.NotBinary("x"),
                "fpr": ValueError("x"),
                "ppv": isonomy.errors.UsageError("x"),
            }
            if metric in errors:
                raise errors[metric]
            return fake(verdict="violation")

        monkeypatch.setattr(isonomy, "flag", flag, raising=False)
        codes = []
        metrics = ["npv"]
        for added in (None, "fpr", "tpr", "ppv"):
            metrics += [added] if added else []
            tests = "".join(f'[[tests]]\nkind = "flag"\nmetric = "{metric}"\n' for metric in metrics)
            (folder / "audit.toml").write_text(
                'fail_on = ["violation"]\n' + config[config.index("[data]") : config.index("[[tests]]")] + tests
            )
            codes.append(run("audit", "audit.toml").exit_code)
        assert codes == [1, 4, 3, 2]

    def test_130_interrupted(self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(data: object, **_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(isonomy, "flag", interrupted, raising=False)
        done = run("audit", "audit.toml")
        assert done.exit_code == 130
        assert "--resume" in done.output
        assert not (folder / "isonomy-report" / "report.html").exists()


def test_errors_without_traceback_unless_asked(run: Run, change: Change) -> None:
    change('kind = "flag"', 'kind = "flga"')
    quiet = subprocess.run([sys.executable, "-m", "isonomy", "audit", "audit.toml"], capture_output=True, text=True)
    assert "Traceback" not in quiet.stderr
    assert "\x1b" not in quiet.stdout + quiet.stderr  # no color if it is not a terminal
    assert "audit.toml, line 8: tests[0]: kind: 'flga' is not allowed. Did you mean 'flag'?" in quiet.stderr
    assert isinstance(run("audit", "audit.toml", "--debug").exception, isonomy.errors.ConfigError)


def test_hostile_labels_in_the_terminal(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for label in HOSTILE:
        monkeypatch.setattr(isonomy, "flag", lambda data, label=label, **_: fake([label]), raising=False)
        output = run("audit", "audit.toml").output
        assert "\x1b" not in output
        assert "\x07" not in output
        assert "\u202e" not in output
        visible = re.sub(r"\s+", "", output)
        if "[red]" in label:
            assert "[red]rich[/red]" in visible
        assert len(output) < 3_000


def test_the_terminal_shows_what_decided_and_the_first_warnings(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = fake(decider=2, notes=("First warning.", "Second.", "Third."))
    monkeypatch.setattr(isonomy, "flag", lambda data, **_: warned, raising=False)
    text = " ".join(run("audit", "audit.toml").output.split())
    assert "For race=Asian the difference is +0.200" in text
    assert "For race=Black the difference is -0.200" in text  # and the next one
    assert "race=White" not in text
    assert "! Rows with missing values were left out: 3 with no 'income'. ! First warning." in text
    assert "! 2 more warnings are in the report." in text
    assert "Second." not in text


def test_a_column_name_is_never_markup(run: Run, change: Change) -> None:
    change('outcome = "outcome"', 'outcome = "[bold]x[/bold] \\u001b[31m"')
    output = run("validate", "audit.toml").output
    assert "[bold]x[/bold]" in output
    assert "\x1b" not in output


def test_what_is_told_of_a_file_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show.valid(Path("a.toml"), 2, ["two\nlines", *(f"c{i}" for i in range(40))])
    output = capsys.readouterr().out
    assert output.startswith("a.toml: valid. 2 tests; columns: two ⏎ lines, c0,")
    assert output.endswith("c28, ....\n")


def test_guesses_and_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    show.started(["outcome = \x1b[31mrepaid"], Path("b.toml"))
    first, last = capsys.readouterr().out.splitlines()
    assert first == "  outcome = ␛[31mrepaid"
    assert last.endswith("isonomy audit b.toml")


LONG = """\
[[tests]]
kind = "improvability"
id = "long"
groups = "sex"
status_quo = "prediction"
candidate = "better"
method = {splits = {rounds = 200, resamples = 100000, published = true}}
[[tests]]
kind = "flag"
metric = "fpr"
"""


def test_ctrl_c_leaves_what_resume_finishes(folder: Path, config: str) -> None:
    """A run that is interrupted in its second test reports it; the next run keeps the first."""
    table = pl.read_parquet("decisions.parquet").with_columns((pl.col("score") > 0.6).cast(pl.Int8).alias("better"))
    table.write_parquet("decisions.parquet")
    (folder / "audit.toml").write_text(config + LONG)
    command = [sys.executable, "-m", "isonomy", "audit", "audit.toml"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state = folder / "isonomy-report" / ".isonomy-state"
    for _ in range(600):
        if list(state.glob("*.json")) or running.poll() is not None:
            break
        time.sleep(0.1)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 130, errors
    assert "Interrupted at 'long': 1 of 3 tests are finished and kept." in " ".join(errors.split())
    assert "--resume" in errors
    assert not (folder / "isonomy-report" / "report.html").exists()
    (folder / "audit.toml").write_text(config + LONG.replace("100000", "100").replace("200\n", "1\n"))
    done = isonomy.Audit.from_toml("audit.toml").run("isonomy-report", resume=True)
    assert [entry.resumed for entry in done.entries] == [True, False, False]


def test_progress_names_the_test_and_those_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = isonomy.Audit.from_dict({"tests": [{"kind": "flag", "metric": m} for m in ("tpr", "fpr", "ppv")]})
    shown: list[tuple[str, int, int]] = []

    def interrupted(output: Path, *, progress: Callable[[str, int, int], None], **_: bool) -> None:
        for what, done in (("Reading the table", 0), ("flag-tpr", 0), ("flag-ppv", 2), ("Writing the report", 3)):
            progress(what, done, 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "run", interrupted)
    monkeypatch.setattr(show, "_shown", lambda *_: lambda *what: shown.append(what))
    with pytest.raises(show.Interrupted, match="at 'Writing the report': 3 of 3 tests are finished"):
        show.run(audit, Path("out"), resume=False, debug=False)
    assert shown == [
        ("Reading the table", 0, 3),
        ("flag-tpr, then flag-fpr, flag-ppv", 0, 3),
        ("flag-ppv", 2, 3),
        ("Writing the report", 3, 3),
    ]


def test_a_long_audit_without_a_terminal_has_a_line_for_each_test(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "_LONG", -1.0)
    done = run("audit", "audit.toml")
    assert "[0/1] flag-tpr" in done.stderr
    assert "[1/1] Writing the report" in done.stderr


def test_what_moved_is_told_line_by_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    changes = (compare.Change("a", "A", ("Inconclusive", "Inconclusive"), notes=("One.", "Two.")),)
    show.comparison(compare.AuditComparison((document(), document()), changes))
    lines = [line.strip().split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[4:6] == ["One.", "Two."]
