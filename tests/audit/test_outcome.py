"""The results of an audit: verdicts, exit codes, and files that contain no row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit, AuditResult
from isonomy.audit.state import FILES
from isonomy.report import Entry
from support.fakes import HOSTILE, document, fake, untested
from support.same import same

FLAG = {"kind": "flag", "metric": "tpr"}
MakeAudit = Callable[..., Audit]


def numbers(result: AuditResult) -> dict[str, Any]:
    return {test["id"]: test.get("result") for test in result.to_dict()["tests"]}


def test_results_are_found_by_name() -> None:
    result = AuditResult(document())
    assert list(result.results) == ["flag-tpr", "tolerated", "unclear", "hostile"]
    assert result["unclear"] is result.entries[2].result
    assert [entry.name for entry in result.failing] == ["flag-tpr", "hostile"]
    with pytest.raises(KeyError, match="broken"):
        _ = result["broken"]


@pytest.mark.parametrize(
    ("kinds", "code"), [(["crash"], 4), (["crash", "data"], 3), (["data", "usage", "crash"], 2), ([], 1)]
)
def test_the_gravest_fault_is_the_exit_code(kinds: list[str], code: int) -> None:
    faults = tuple(Entry(name=kind, kind="flag", error="x", error_kind=kind) for kind in kinds)
    violation = Entry(name="violation", kind="flag", result=fake())
    assert AuditResult(document(entries=(violation, *faults))).exit_code == code


def test_nothing_tested_is_bad_data() -> None:
    assert AuditResult(document(entries=(Entry(name="a", kind="flag", result=untested()),))).exit_code == 3


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [
        ("violation", ["violation"], 1),
        ("violation", [], 0),
        ("inconclusive", ["violation"], 0),
        ("inconclusive", ["violation", "inconclusive"], 1),
        ("within_tolerance", ["violation", "inconclusive"], 0),
    ],
)
def test_exit_codes_of_verdicts(
    table: pl.DataFrame,
    audit: MakeAudit,
    monkeypatch: pytest.MonkeyPatch,
    verdict: str,
    fail_on: list[str],
    code: int,
) -> None:
    monkeypatch.setattr(iso, "flag", lambda data, **_: fake(verdict=verdict), raising=False)
    assert audit(table, [FLAG], fail_on=fail_on).run().exit_code == code


@pytest.mark.usefixtures("no_pictures")
def test_results_json_comes_back(table: pl.DataFrame, audit: MakeAudit, tmp_path: Path) -> None:
    done = audit(table).run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == sorted(FILES)
    again = AuditResult.from_json((tmp_path / "results.json").read_text())
    same(numbers(again), numbers(done))
    assert again.document.facts == done.document.facts
    assert again.summary() == done.summary()
    assert again.exit_code == done.exit_code


def test_every_verdict_and_every_error_comes_back() -> None:
    result = AuditResult(document())
    again = AuditResult.from_json(result.to_json())
    same(again.to_dict(), result.to_dict(), rel=0, abs=0)
    assert [entry.verdict for entry in again.entries] == [entry.verdict for entry in result.entries]
    assert again.entries[4].error == result.entries[4].error


def test_tables_in_json_have_words_for_what_is_no_number() -> None:
    result = fake(disparity=np.array([np.nan, np.inf, 0.5]))
    stored = AuditResult(document(entries=(Entry(name="a", kind="flag", result=result),))).to_dict()
    assert stored["tests"][0]["table"]["disparity"] == [None, "inf", 0.5]
    assert stored["tests"][0]["table"]["status"] == ["ok"] * 3


@pytest.mark.usefixtures("no_pictures")
def test_no_group_large_enough_is_bad_data(table: pl.DataFrame, audit: MakeAudit, tmp_path: Path) -> None:
    alone = table.with_columns(pl.int_range(pl.len()).alias("id"))
    tests = [{"kind": "flag", "metric": "tpr", "groups": ["id"]}, {"kind": "flag", "metric": "tpr", "id": "race"}]
    done = audit(alone, tests, fail_on=["violation", "inconclusive"]).run(tmp_path)
    assert done.entries[0].verdict == "failed"
    assert done.exit_code == 3
    assert "[Not answered]" in done.summary()
    again = AuditResult.from_json((tmp_path / "results.json").read_text())
    assert again.exit_code == 3
    assert [entry.verdict for entry in again.entries] == [entry.verdict for entry in done.entries]


def test_the_summary_tells_what_decided(table: pl.DataFrame, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iso, "flag", lambda data, **_: fake(decider=2), raising=False)
    done = audit(table, [FLAG]).run()
    assert "race=Asian" in done.summary()
    assert "race=Black" not in done.summary()
    assert str(done) == done.summary()


def test_small_groups_are_withheld_in_every_output(
    table: pl.DataFrame, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = fake(
        ["tiny", "large"],
        size=np.array([7.0, 5000.0]),
        disparity=np.array([0.123456, 0.5]),
        status=fake().status[:2],
    )
    monkeypatch.setattr(iso, "flag", lambda data, **_: result, raising=False)
    done = audit(table, [FLAG], suppress_below=10).run(tmp_path)
    assert "suppressed" in {str(s) for s in done["flag-tpr"].table()["status"]}
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "key"]
    assert len(written) == 5
    for path in written:
        text = path.read_text()
        assert "0.123" not in text, path
        assert "tiny" in text or path.name in ("summary.md", "junit.xml"), path
    assert "fewer than 10 rows are withheld" in (tmp_path / "report.html").read_text()


def test_hostile_groups_go_through_the_real_thing(audit: MakeAudit, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [name for name in HOSTILE for _ in range(60)]
    n = len(names)
    score = rng.random(n)
    rows = {"race": names, "outcome": rng.integers(0, 2, n), "prediction": (score > 0.5) * 1, "score": score}
    rows |= {"better": rng.integers(0, 2, n), "treated": rng.integers(0, 2, n), "effect": 1 + score}
    tests = [
        {"kind": "flag", "metric": "selection_rate"},
        {"kind": "certify", "metric": "accuracy"},
        {"kind": "project", "threshold": 0.5},
        {"kind": "treatment_bias", "treatment": "treated", "effect": "effect"},
    ]
    done = audit(rows, tests).run(tmp_path)
    assert len(done.results) == len(tests), [entry.error for entry in done.entries]
    stored = json.loads((tmp_path / "results.json").read_text())
    for test in stored["tests"]:
        assert set(test["table"]["group"]) == {f"race={name}" for name in HOSTILE}
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert(" not in page
    for spec in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL):
        assert "<" not in spec
        assert json.loads(spec)
    assert "could not be drawn (" not in page
    assert (tmp_path / "report.html").stat().st_size < 5_000_000
    shown = (tmp_path / "summary.md").read_text()
    assert "<script" not in shown
    assert len(ET.parse(tmp_path / "junit.xml").getroot()[0]) == len(tests)


# Twelve digits, printed alike everywhere: no number computed from many rows equals one of them by chance.
NUMBER = re.compile(r"\d+\.\d{9,}(?:e-?\d+)?")


def planted(rows: int = 2_402) -> dict[str, np.ndarray[Any, Any]]:
    """A table in which each real number occurs only once and users have names."""
    rng = np.random.default_rng(17)
    score = rng.random(rows)
    group = rng.choice(["north", "south"], rows)
    approved = score > 0.5
    return {
        "group": group,
        "score": score,
        "other_score": np.clip(score + rng.normal(0, 0.1, rows), 0, 1),
        "approved": approved.astype(int),
        "repaid": (rng.random(rows) < 0.2 + 0.6 * score).astype(int),
        "amount": rng.lognormal(8, 1, rows),
        "distance": np.abs(score - 0.5) * rng.uniform(0.9, 1.1, rows),
        "income": rng.normal(50, 10, rows),
        "person": np.array([f"person-{i // 2:05d}-secret" for i in range(rows)]),
        "offer": rng.integers(0, 2, rows),
        "effect": rng.uniform(0.9, 1.3, rows),
    }


EVERY_KIND: list[dict[str, Any]] = [
    {"kind": "flag", "id": "amounts", "metric": "mean_prediction", "prediction": "amount"},
    {"kind": "certify", "id": "together", "metric": "mean_prediction", "prediction": "amount"},
    {"kind": "certify", "id": "rates", "metric": "tpr"},
    {"kind": "project", "criterion": "statistical_parity", "threshold": 0.5},
    {"kind": "project", "id": "distances", "criterion": "statistical_parity", "distance": "distance"},
    {
        "kind": "improvability",
        "status_quo": "score",
        "capacity": 0.3,
        "rule": "linear",
        "features": ["income", "other_score"],
        "method": {"crossfit": {"repeats": 1}},
    },
    {"kind": "improvability", "id": "ready", "status_quo": "score", "candidate": "other_score", "capacity": 0.3},
    {"kind": "treatment_bias"},
    {"kind": "evaluate_corrections", "strategies": ["mean"], "method": {"heldout": {"splits": 2, "resamples": 20}}},
    {"kind": "predictive_parity", "method": {"curves": {"resamples": 200}}},
    {"kind": "marginal_outcomes", "threshold": 0.5},
    {"kind": "equalize_thresholds", "threshold": 0.5, "target": "tpr", "method": {"curves": {"resamples": 100}}},
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every file that an audit with all kinds of tests writes, including its state."""
    folder = tmp_path_factory.mktemp("audit")
    config: dict[str, Any] = {
        "columns": {
            "outcome": "repaid",
            "prediction": "approved",
            "score": "score",
            "groups": ["group"],
            "user": "person",
            "treatment": "offer",
            "effect": "effect",
        },
        "tests": EVERY_KIND,
    }
    result = iso.Audit.from_dict(config, data=planted()).run(folder, debug=True)
    assert len(result.results) == len(EVERY_KIND)
    return {str(path.relative_to(folder)): path.read_text() for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _values() -> set[str]:
    table = planted()
    real = [values for values in table.values() if values.dtype.kind == "f"]
    # Scores clipped at 0 and 1 identify nobody, and p-values are 1 to this many digits.
    return {f"{value:.12g}" for values in real for value in values.tolist()} - {"0", "1"}


def test_no_number_of_a_single_row_is_in_any_output(outputs: dict[str, str]) -> None:
    known = _values()
    assert {"report.html", "results.json", "summary.md", "junit.xml"} <= set(outputs)
    for name, text in outputs.items():
        decimals = {f"{float(number):.12g}" for number in NUMBER.findall(text)}
        assert not decimals & known, f"{name}: {sorted(decimals & known)[:5]}"


def test_no_user_is_named_in_any_output(outputs: dict[str, str]) -> None:
    for name, text in outputs.items():
        assert "-secret" not in text, name


def test_the_test_would_find_a_planted_value(outputs: dict[str, str]) -> None:
    text = outputs["results.json"] + json.dumps(float(planted()["amount"][7]))
    decimals = {f"{float(number):.12g}" for number in NUMBER.findall(text)}
    assert decimals & _values()


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 1},
        {"tests": 3},
        {"tests": [{"id": "x"}]},
        {"title": ["a"]},
        {"rows": "many"},
        {"provenance": []},
        {"fail_on": [[]]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_results_that_were_changed_by_hand_are_refused(change: dict[str, Any]) -> None:
    stored = AuditResult(document()).to_dict() | change
    with pytest.raises(iso.errors.UsageError, match=r"results\.json: "):
        AuditResult.from_json(json.dumps(stored))


@pytest.mark.parametrize("change", [{"title": 5}, {"seed": "x"}, {"resumed": "no"}, {"truth": [3]}, {"error": ["a"]}])
def test_tests_that_were_changed_by_hand_are_refused(change: dict[str, Any]) -> None:
    stored = AuditResult(document()).to_dict()
    stored["tests"][0] |= change
    with pytest.raises(iso.errors.UsageError, match=r"results\.json: "):
        AuditResult.from_json(json.dumps(stored))


@pytest.mark.parametrize("text", ["", "3", "[" * 100_000, '"x"', "{}"])
def test_what_is_no_results_file_is_refused(text: str) -> None:
    with pytest.raises(iso.errors.UsageError, match=r"results\.json: "):
        AuditResult.from_json(text)
