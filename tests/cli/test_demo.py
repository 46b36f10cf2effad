"""The demo: a simulated lender, and an audit file that states the truth about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isonomy
from isonomy.audit import Audit, AuditResult, parse
from isonomy.audit.outcome import read_results
from isonomy.cli.demo import write_demo
from isonomy.results import KINDS

# Questions for which the simulated lender has no planted answer.
FURTHER = """
[[tests]]
kind = "evaluate_corrections"
effect = "predicted_effect"
treatment = "offer"
outcome = "accepted"
groups = ["age_band"]
method = {heldout = {splits = 2, resamples = 10}}

[[tests]]
kind = "price_of_fairness"
effect = "predicted_effect"
corrected = ["score"]
treatment = "offer"
outcome = "accepted"
groups = ["age_band"]

[[tests]]
kind = "composite_parity"
outcomes = ["repaid", "accepted"]
scores = ["score", "predicted_effect"]
groups = ["sex"]
method = {curves = {resamples = 100}}
"""
UNPLANTED = {"composite_parity", "discover", "evaluate_corrections", "price_of_fairness", "monitor"}


# Words that must not be in a report for readers who do not program.
CODE = re.compile(
    r"\b(?!age_band)\w+=(?:True|False|None|['\"\d])|\bNaN\b|\bnan\b|\b\w+\(\)|\bself\b|adjust=|method=|==|\{\w*\}"
)
SNAKE = re.compile(r"\b[a-z]+_[a-z_]+\b")


def plain(report: AuditResult) -> None:
    """No sentence contains code, except for names of columns of the table."""
    columns = {"age_band", "predicted_effect"}
    for entry in report.entries:
        result = entry.result
        assert result is not None
        sentences = [
            *(entry.question, entry.sentence, *entry.leads, *entry.steps, result.null, *result.findings()),
            *(*result.warnings, *result.limits(), *(part for pair in result.assumptions() for part in pair)),
        ]
        assert entry.sentence.startswith(f"{entry.badge}: "), entry.sentence
        for sentence in sentences:
            assert not CODE.search(sentence), sentence
            assert set(SNAKE.findall(sentence)) <= columns, sentence
            assert not re.search(r"\b(all|of) 1 (tested )?groups\b|\d%", sentence), sentence


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]) -> None:
    """A small demo without pictures; another test opens the whole demo in a browser."""
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--rows", "4000", "--seed", "3")
    assert done.exit_code == 0, done.output
    stored = json.loads((tmp_path / "isonomy-demo" / "results.json").read_text())
    kinds = {test["kind"] for test in stored["tests"]}
    assert kinds >= {"flag", "certify", "project", "improvability", "treatment_bias", "predictive_parity"}
    assert all(test["truth"] for test in stored["tests"])
    assert all(test["verdict"] != "failed" for test in stored["tests"])
    assert "What is true in this simulation" in (tmp_path / "isonomy-demo" / "report.html").read_text()
    report = read_results(tmp_path / "isonomy-demo" / "results.json")
    plain(report)
    rows = {entry.name: entry.result.provenance.rows for entry in report.entries if entry.result is not None}
    used = rows["approval of those who repay"]  # the rows on which the metric is computed
    assert rows["least change"] == rows["approval by age"] == used
    assert used is not None
    assert used < 4_000
    again = run("audit", "isonomy-demo/audit.toml", "--resume")  # the demo is an audit like any other
    assert again.exit_code == 0
    kept = json.loads((tmp_path / "isonomy-demo" / "results.json").read_text())
    assert all(test["resumed"] for test in kept["tests"])


def test_the_file_asks_every_kind_of_question_and_knows_the_answer(tmp_path: Path) -> None:
    file = write_demo(tmp_path / "new" / "folder", rows=2_000, seed=0)
    config = parse(file.read_text())
    assert {test.kind for test in config.tests} == set(KINDS) - UNPLANTED
    assert all(test.truth for test in config.tests)
    assert "2,000 loan applications" in config.description
    assert Audit.from_toml(file).validate()


def test_the_truth_is_that_of_the_simulation(tmp_path: Path) -> None:
    config = parse(write_demo(tmp_path, rows=2_000, seed=5).read_text())
    facts = isonomy.simulate.lender(2_000, seed=5).truth["facts"]
    assert tuple(config.tests[0].truth) == facts["flag"]
    assert config.seed == 5


def test_the_other_questions_are_told_in_plain_words_too(tmp_path: Path) -> None:
    head, _, _ = write_demo(tmp_path, rows=2_000, seed=3).read_text().partition("[[tests]]")
    (tmp_path / "further.toml").write_text(head + FURTHER)
    plain(Audit.from_toml(tmp_path / "further.toml").run(debug=True))
