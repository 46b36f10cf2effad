"""The commands: their output, and the files that they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isonomy
from isonomy.frames import Source

Run = Callable[..., Any]


def test_help_names_every_command(run: Run) -> None:
    output = run("--help").output
    for command in ("demo", "init", "audit", "validate", "schema", "--version", "--install-completion", "Exit codes"):
        assert command in output
    for command in ("demo", "init", "audit", "validate", "schema"):
        assert run(command, "--help").exit_code == 0


def test_help_waits_for_no_library() -> None:
    """Importing the libraries takes seconds, and help needs none of them."""
    code = (
        "import sys, isonomy.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert not {"numpy", "scipy", "polars", "narwhals", "sklearn", "altair", "pydantic"} & set(done.stderr.split())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, isonomy.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('polars', 'pydantic', 'altair', 'sklearn', 'scipy', 'jinja2', 'numpy')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_and_schema(run: Run) -> None:
    assert run("--version").output == f"isonomy {isonomy.__version__}\n"
    assert json.loads(run("schema").output)["title"] == "isonomy audit"


def test_completion_is_offered() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "isonomy", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},  # whatever started the tests
    )
    assert "_ISONOMY_COMPLETE" in shown.stdout


def test_audit_writes_its_files_where_the_file_says(folder: Path, run: Run) -> None:
    done = run("audit", "audit.toml")
    assert done.exit_code == 0, done.output
    assert {p.name for p in (folder / "isonomy-report").iterdir()} >= {
        "report.html",
        "results.json",
        "summary.md",
        "junit.xml",
    }
    assert "Report: isonomy-report/report.html" in done.output
    assert "1 question was tested" in done.output


def test_output_and_resume(folder: Path, run: Run) -> None:
    assert run("audit", "audit.toml", "--output", "here").exit_code == 0
    assert run("audit", "audit.toml", "-o", "here", "--resume").exit_code == 0
    assert json.loads((folder / "here" / "results.json").read_text())["tests"][0]["resumed"] is True


def test_validate_reads_no_row(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(Source, "sums", never)
    monkeypatch.setattr(Source, "rows", never)
    done = run("validate", "audit.toml")
    assert done.output == "audit.toml: valid. 1 test; columns: outcome, prediction, race.\n"


def test_init_then_audit(folder: Path, run: Run) -> None:
    done = run("init", "decisions.parquet", "-o", "new.toml")
    assert done.exit_code == 0, done.output
    assert 'prediction = "prediction"' in done.output
    assert run("init", "decisions.parquet", "-o", "new.toml").exit_code == 2
    assert run("init", "decisions.parquet", "-o", "new.toml", "--force").exit_code == 0
    assert run("validate", "new.toml").exit_code == 0
    assert run("init", "none.csv").exit_code == 2
    (folder / "empty.csv").write_text("a,b\n")
    assert run("init", "empty.csv", "-o", "empty.toml").exit_code == 3


def test_two_audit_files_do_not_share_a_folder(folder: Path, run: Run, config: str) -> None:
    (folder / "other.toml").write_text(config)
    assert run("audit", "audit.toml").exit_code == 0
    before = (folder / "isonomy-report" / "results.json").read_text()
    done = run("audit", "other.toml")
    assert done.exit_code == 2
    assert "isonomy-report holds the report of audit.toml" in " ".join(done.output.split())
    assert (folder / "isonomy-report" / "results.json").read_text() == before
    assert run("audit", "other.toml", "-o", "elsewhere").exit_code == 0


def test_a_report_is_written_again_from_its_results(folder: Path, run: Run) -> None:
    run("audit", "audit.toml")
    done = run("report", "isonomy-report/results.json", "-o", "again")
    assert done.exit_code == 0, done.output
    assert (folder / "again" / "report.html").read_text() == (folder / "isonomy-report" / "report.html").read_text()
    assert run("report", "none.json").exit_code == 2
    (folder / "bad.json").write_text("[" * 100_000)
    bad = run("report", "bad.json")
    assert bad.exit_code == 2
    assert "bad.json: results.json: " in " ".join(bad.output.split())


def test_pdf_without_a_browser_says_so(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("audit", "audit.toml")
    monkeypatch.setenv("ISONOMY_BROWSER", "no-such-browser")
    done = run("report", "isonomy-report/results.json", "-o", "again", "--pdf")
    assert done.exit_code == 2
    assert "Chromium" in done.output
    assert not (folder / "again").exists()


def test_compare_card_sql_counts_and_pack(folder: Path, run: Run) -> None:
    assert run("audit", "audit.toml", "--pack").exit_code == 0
    assert (folder / "isonomy-report" / "evidence.zip").exists()
    results = "isonomy-report/results.json"
    compared = run("compare", results, results, "-o", "compared")
    assert compared.exit_code == 0, compared.output
    assert "No verdict of 1 test changed" in compared.output
    assert (folder / "compared" / "compare.html").exists()
    assert run("card", results).output.startswith("## Fairness evaluation")
    query = run("sql", "audit.toml", "--table", "'decisions.parquet'").output
    assert query.startswith("SELECT\n")
    duckdb = pytest.importorskip("duckdb")
    duckdb.connect().execute(f"copy ({query}) to 'counts.csv' (header)")
    done = run("audit", "audit.toml", "--counts", "counts.csv", "-o", "counted")
    assert done.exit_code == 0, done.output
    before, after = (json.loads((folder / name / "results.json").read_text()) for name in ("isonomy-report", "counted"))
    assert before["tests"][0]["table"] == after["tests"][0]["table"]


def test_init_that_found_nothing_to_test_says_why(folder: Path, run: Run) -> None:
    (folder / "people.csv").write_text("rownames,age\n1,30\n2,40\n")
    done = run("init", "people.csv", "-o", "new.toml")
    assert done.exit_code == 0
    assert "nothing is tested yet" in done.output
    assert "remove the # from the tests you want" in done.output
    assert run("audit", "new.toml").exit_code == 2
