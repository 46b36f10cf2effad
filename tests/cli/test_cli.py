"""The commands: what they print, which files they write, how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from fake_results import HOSTILE, fake, untested
from typer.testing import CliRunner

import isonomy
from isonomy.cli import app
from isonomy.report import layout
from isonomy.report.charts import Chart

CONFIG = """\
fail_on = []
[data]
path = "decisions.parquet"
[columns]
outcome = "outcome"
prediction = "prediction"
groups = ["race"]
[[tests]]
kind = "flag"
metric = "tpr"
"""


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is not what is tested here, and it takes most of the time."""
    monkeypatch.setattr(layout, "chart", lambda result: Chart(None))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isonomy.simulate.decisions(1_000, seed=2).frame().write_parquet(tmp_path / "decisions.parquet")
    (tmp_path / "audit.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def changed(folder: Path, *pairs: tuple[str, str]) -> None:
    text = CONFIG
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / "audit.toml").write_text(text)


def test_help_names_every_command() -> None:
    said = run("--help").output
    for command in ("demo", "init", "audit", "validate", "schema", "--version", "--install-completion", "Exit codes"):
        assert command in said
    for command in ("demo", "init", "audit", "validate", "schema"):
        assert run(command, "--help").exit_code == 0


def test_help_waits_for_no_library() -> None:
    """Loading them takes seconds; help needs none."""
    code = (
        "import sys, isonomy.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in seen.stdout
    assert not {"numpy", "scipy", "polars", "narwhals", "sklearn", "altair", "pydantic"} & set(seen.stderr.split())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, isonomy.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('polars', 'pydantic', 'altair', 'sklearn', 'scipy', 'jinja2', 'numpy')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.splitlines()[-1] == "[]"


def test_version_and_schema() -> None:
    assert run("--version").output == f"isonomy {isonomy.__version__}\n"
    assert json.loads(run("schema").output)["title"] == "isonomy audit"


def test_completion_is_offered() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "isonomy", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env={**os.environ, "SHELL": "/bin/bash"},
    )
    assert "_ISONOMY_COMPLETE" in shown.stdout


def test_audit_writes_its_files_where_the_file_says(folder: Path) -> None:
    done = run("audit", "audit.toml")
    assert done.exit_code == 0, done.output
    assert {p.name for p in (folder / "isonomy-report").iterdir()} >= {
        "report.html",
        "results.json",
        "summary.md",
        "junit.xml",
    }
    assert "Report: isonomy-report/report.html" in done.output
    assert "1 question was put to the data" in done.output


def test_output_and_resume(folder: Path) -> None:
    assert run("audit", "audit.toml", "--output", "here").exit_code == 0
    assert run("audit", "audit.toml", "-o", "here", "--resume").exit_code == 0
    assert json.loads((folder / "here" / "results.json").read_text())["tests"][0]["resumed"] is True


def test_no_colour_and_no_progress_when_not_a_terminal(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "isonomy", "audit", "audit.toml"], capture_output=True, text=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


class TestExitCodes:
    def test_0_all_right(self, folder: Path) -> None:
        assert run("audit", "audit.toml").exit_code == 0
        assert run("validate", "audit.toml").exit_code == 0

    def test_1_a_verdict_in_fail_on(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isonomy, "flag", lambda data, **_: fake(verdict="inconclusive"), raising=False)
        changed(folder, ("fail_on = []", 'fail_on = ["inconclusive"]'))
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
    def test_2_bad_file(self, folder: Path, pair: tuple[str, str]) -> None:
        changed(folder, pair)
        for command in ("audit", "validate"):
            done = run(command, "audit.toml")
            assert done.exit_code == 2, done.output
            assert "Traceback" not in done.output
            assert "error: " in done.output

    def test_2_bad_usage(self, folder: Path) -> None:
        assert run("audit").exit_code == 2
        assert run("audit", "none.toml").exit_code == 2
        assert run("adit").exit_code == 2
        assert run("demo", "--rows", "many").exit_code == 2

    def test_2_options_a_function_refuses(self, folder: Path) -> None:
        changed(folder, ('metric = "tpr"', 'metric = "tpr"\nalternative = "outside"'))
        assert run("audit", "audit.toml").exit_code == 2

    def test_3_bad_data(self, folder: Path) -> None:
        frame = pl.read_parquet("decisions.parquet")
        frame.with_columns(pl.lit(7).alias("prediction")).write_parquet("decisions.parquet")
        done = run("audit", "audit.toml")
        assert done.exit_code == 3
        assert "neither 0 nor 1" in " ".join(done.output.split())
        frame[:0].write_parquet("decisions.parquet")
        assert run("audit", "audit.toml").exit_code == 3
        (folder / "twice.csv").write_text("race,race,prediction\na,b,1\n")
        changed(folder, ("decisions.parquet", "twice.csv"))
        for command in (("audit", "audit.toml"), ("validate", "audit.toml"), ("init", "twice.csv", "-o", "x.toml")):
            assert run(*command).exit_code == 3

    def test_3_nothing_to_test(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isonomy, "flag", lambda data, **_: untested(), raising=False)
        done = run("audit", "audit.toml")
        assert done.exit_code == 3
        assert "Not answered: no group could be tested" in " ".join(done.output.split())

    def test_they_are_explained(self) -> None:
        for arguments in (("--help",), ("audit", "--help")):
            said = " ".join(run(*arguments).output.split())
            assert "2 before 3 before 4 before 1" in said

    def test_4_a_test_crashed(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isonomy, "flag", lambda data, **_: 1 / 0, raising=False)
        done = run("audit", "audit.toml")
        assert done.exit_code == 4
        assert "ZeroDivisionError" in done.output
        assert "Traceback" not in done.output
        assert isinstance(run("audit", "audit.toml", "--debug").exception, ZeroDivisionError)

    def test_the_order_is_2_3_4_1(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
                'fail_on = ["violation"]\n' + CONFIG[CONFIG.index("[data]") : CONFIG.index("[[tests]]")] + tests
            )
            codes.append(run("audit", "audit.toml").exit_code)
        assert codes == [1, 4, 3, 2]

    def test_130_interrupted(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(data: object, **_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(isonomy, "flag", interrupted, raising=False)
        done = run("audit", "audit.toml")
        assert done.exit_code == 130
        assert "--resume" in done.output
        assert not (folder / "isonomy-report" / "report.html").exists()


def test_errors_without_traceback_unless_asked(folder: Path) -> None:
    changed(folder, ('kind = "flag"', 'kind = "flga"'))
    quiet = subprocess.run([sys.executable, "-m", "isonomy", "audit", "audit.toml"], capture_output=True, text=True)
    assert "Traceback" not in quiet.stderr
    assert "audit.toml, line 8: tests[0]: kind: 'flga' is not allowed. Did you mean 'flag'?" in quiet.stderr
    loud = subprocess.run(
        [sys.executable, "-m", "isonomy", "audit", "audit.toml", "--debug"], capture_output=True, text=True
    )
    assert "Traceback" in loud.stderr


def test_validate_reads_no_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.frames import Source

    def never(*_: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(Source, "sums", never)
    monkeypatch.setattr(Source, "rows", never)
    done = run("validate", "audit.toml")
    assert done.output == "audit.toml: all right. 1 test; columns: outcome, prediction, race.\n"


def test_init_then_audit(folder: Path) -> None:
    done = run("init", "decisions.parquet", "-o", "new.toml")
    assert done.exit_code == 0, done.output
    assert "prediction = prediction" in done.output
    assert run("init", "decisions.parquet", "-o", "new.toml").exit_code == 2
    assert run("init", "decisions.parquet", "-o", "new.toml", "--force").exit_code == 0
    assert run("validate", "new.toml").exit_code == 0
    assert run("init", "none.csv").exit_code == 2
    (folder / "empty.csv").write_text("a,b\n")
    assert run("init", "empty.csv", "-o", "empty.toml").exit_code == 3


def test_hostile_labels_in_the_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for label in HOSTILE:
        monkeypatch.setattr(isonomy, "flag", lambda data, label=label, **_: fake([label]), raising=False)
        said = run("audit", "audit.toml").output
        assert "\x1b" not in said
        assert "\x07" not in said
        assert "\u202e" not in said
        visible = re.sub(r"\s+", "", said)
        if "[red]" in label:
            assert "[red]rich[/red]" in visible
        assert len(said) < 3_000


def test_the_terminal_shows_what_decided_and_the_first_warnings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warned = replace(fake(decider=2), warnings=("First warning.", "Second.", "Third."))
    monkeypatch.setattr(isonomy, "flag", lambda data, **_: warned, raising=False)
    said = " ".join(run("audit", "audit.toml").output.split())
    assert "For race=Asian the difference is +0.200" in said
    assert "race=Black" not in said
    assert "! Rows were left out because values are missing: 3 with no 'income'. ! First warning." in said
    assert "! 2 more warnings in the report." in said
    assert "Second." not in said


def test_two_audit_files_do_not_share_a_folder(folder: Path) -> None:
    (folder / "other.toml").write_text(CONFIG)
    assert run("audit", "audit.toml").exit_code == 0
    before = (folder / "isonomy-report" / "results.json").read_text()
    done = run("audit", "other.toml")
    assert done.exit_code == 2
    assert "isonomy-report holds the report of audit.toml" in " ".join(done.output.split())
    assert (folder / "isonomy-report" / "results.json").read_text() == before
    assert run("audit", "other.toml", "-o", "elsewhere").exit_code == 0


def test_a_column_name_is_never_markup(folder: Path) -> None:
    changed(folder, ('outcome = "outcome"', 'outcome = "[bold]x[/bold] \\u001b[31m"'))
    said = run("validate", "audit.toml").output
    assert "[bold]x[/bold]" in said
    assert "\x1b" not in said


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small, without pictures; the whole demo is opened in a browser elsewhere."""
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--rows", "4000", "--seed", "3")
    assert done.exit_code == 0, done.output
    stored = json.loads((tmp_path / "isonomy-demo" / "results.json").read_text())
    kinds = {test["kind"] for test in stored["tests"]}
    assert kinds >= {"flag", "certify", "project", "improvability", "treatment_bias", "predictive_parity"}
    assert all(test["truth"] for test in stored["tests"])
    assert all(test["verdict"] != "failed" for test in stored["tests"])
    assert "What is true in this simulation" in (tmp_path / "isonomy-demo" / "report.html").read_text()
    again = run("audit", "isonomy-demo/audit.toml", "--resume")  # the demo is an audit like any other
    assert again.exit_code == 0
    kept = json.loads((tmp_path / "isonomy-demo" / "results.json").read_text())
    assert all(test["resumed"] for test in kept["tests"])
