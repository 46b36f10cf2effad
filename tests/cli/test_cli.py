"""The commands: their output, and the files that they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isonomy.frames import Source

Run = Callable[..., Any]
Change = Callable[[str, str], None]


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
    assert not {"numpy", "scipy", "polars", "narwhals", "sklearn", "altair", "pydantic", "jinja2"} & set(
        done.stderr.split()
    )


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
    assert "Exit code" not in done.output
    assert "\x1b" not in done.output
    assert done.stderr == ""  # no progress if it is not a terminal


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


def test_validate_warns_of_a_named_group_without_a_row(folder: Path, run: Run, change: Change) -> None:
    change('"race"', '"race", {name = "nobody", where = [{column = "race", value = "Whit"}]}')
    done = run("validate", "audit.toml")
    assert done.exit_code == 0
    assert done.output.endswith(
        "! No row meets the condition of nobody. Check the columns and values of the condition.\n"
    )


def test_advice_is_given_in_the_words_of_the_file(folder: Path, run: Run, change: Change) -> None:
    change('kind = "flag"', 'kind = "flag"\ntolerance = 0.1\nnull = {null = {low = -0.1, high = 0.1}}')
    output = " ".join(run("validate", "audit.toml").output.split())
    assert "give only one of them, or {null = {side = ...}} for one side." in output


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
    assert "The verdict did not change" in compared.output
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


def test_a_run_that_fails_says_why(folder: Path, run: Run, change: Callable[[str, str], None]) -> None:
    change("fail_on = []", 'fail_on = ["violation", "inconclusive", "within_tolerance"]')
    done = run("audit", "audit.toml")
    assert done.exit_code == 1
    last = "Exit code 1. This audit fails because of 1 inconclusive verdict (flag-tpr)."
    assert done.output.splitlines()[-1] == last


def test_an_audit_without_an_answer_says_why(folder: Path, run: Run, change: Callable[[str, str], None]) -> None:
    change('metric = "tpr"', 'metric = "tpr"\nmin_size = 100000')
    done = run("audit", "audit.toml")
    assert (done.exit_code, done.output.splitlines()[-1]) == (3, "Exit code 3. Not answered: flag-tpr.")


def test_keys_are_set_on_the_command_line(folder: Path, run: Run) -> None:
    (folder / "decisions.parquet").rename(folder / "tonight.parquet")
    moved = "data.path=tonight.parquet"
    for command in (("audit", "audit.toml", "-o", "out"), ("validate", "audit.toml")):
        assert run(*command).exit_code == 2
        assert run(*command, "--set", moved, "--set", "seed=3").exit_code == 0
    facts = json.loads((folder / "out" / "results.json").read_text())["provenance"]
    assert (facts["Set: data.path"], facts["Seed"]) == ("tonight.parquet", "3")
    assert 'FROM "tonight"' in run("sql", "audit.toml", "--set", moved).output
    wrong = run("validate", "audit.toml", "--set", "data.pth=x")
    assert (wrong.exit_code, "Did you mean 'path'" in wrong.output) == (2, True)


def test_compare_fails_if_it_is_told_to(folder: Path, run: Run) -> None:
    frame = pl.read_parquet("decisions.parquet")
    for night, group in (("1", None), ("2", None), ("3", "Black")):
        rows = frame.sample(1_000, with_replacement=True, seed=int(night))
        refused = (pl.col("race") == group) if group else pl.lit(False)
        rows.with_columns(prediction=pl.when(refused).then(0).otherwise("prediction")).write_parquet(
            "decisions.parquet"
        )
        assert run("audit", "audit.toml", "-o", night).exit_code < 2
    first, second, third = (f"{night}/results.json" for night in "123")
    assert run("compare", first, second, "--fail-on", "moved").exit_code == 0
    assert run("compare", first, third).exit_code == 0
    failed = run("compare", first, second, third, "--fail-on", "moved", "--table", "all.csv")
    assert failed.exit_code == 1
    assert "Exit code 1 (--fail-on moved)." in failed.output
    assert "not the same in all 3 audits" in " ".join(failed.output.split())
    assert run("compare", first, first, "--fail-on", "moved").exit_code == 3
    assert run("compare", first).exit_code == 2
    assert run("compare", first, "--table", "one.parquet").exit_code == 0
    lines = pl.read_csv("all.csv")
    assert len(lines) == 3 * len(pl.read_parquet("one.parquet"))
    stored = run("compare", first, third, "--fail-on", "moved", "--json", "--table", "all.csv")
    assert stored.exit_code == 1
    moved = [number for number in json.loads(stored.stdout)["tests"][0]["numbers"] if number["adjusted"] <= 0.05]
    assert moved


def test_a_spreadsheet_is_refused_with_advice(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("fastexcel")

    monkeypatch.setattr(pl, "read_excel", absent)
    (folder / "decisions.xlsx").write_bytes(b"PK")
    for command in (
        ("init", "decisions.xlsx", "--force"),
        ("audit", "audit.toml", "--set", "data.path=decisions.xlsx"),
    ):
        done = run(*command)
        assert done.exit_code == 2
        assert "is a spreadsheet; save the sheet as CSV" in " ".join(done.output.split())


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_all_numbers_as_a_table(kind: str, folder: Path, run: Run) -> None:
    if kind == "xlsx":
        pytest.importorskip("xlsxwriter")
        pytest.importorskip("fastexcel")
    run("audit", "audit.toml", "--output", "out")
    done = run("report", "out/results.json", "--table", f"findings.{kind}")
    assert done.exit_code == 0
    assert f"Wrote findings.{kind}" in done.output
    table = pl.read_csv("findings.csv") if kind == "csv" else pl.read_excel("findings.xlsx")
    assert {"test", "group", "estimate", "estimate_low", "estimate_high", "verdict"} <= set(table.columns)
    tests = json.loads((folder / "out" / "results.json").read_text())["tests"]
    assert table["test"].unique().sort().to_list() == sorted(test["id"] for test in tests)


def test_a_table_needs_a_suffix_it_can_write(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("audit", "audit.toml", "--output", "out")
    assert "must end in .csv, .parquet or .xlsx" in run("report", "out/results.json", "--table", "f.docx").output

    def absent(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("xlsxwriter")

    monkeypatch.setattr(pl.DataFrame, "write_excel", absent)
    refused = run("report", "out/results.json", "--table", "f.xlsx")
    assert refused.exit_code == 2
    assert '"isonomy[excel]"; a .csv file opens in Excel too' in " ".join(refused.output.split())
