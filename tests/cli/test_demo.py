"""The demo: a simulated lender and an audit file that holds the truth about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isonomy
from isonomy.audit import Audit, parse
from isonomy.audit.questions import KINDS
from isonomy.cli.demo import write_demo

# Questions to which the simulated lender has no planted answer.
UNPLANTED = {"composite_parity", "evaluate_corrections", "price_of_fairness"}


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]) -> None:
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
