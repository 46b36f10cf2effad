"""`assert_no_violation`, for the test suite of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

import isonomy as iso
from isonomy.audit import Audit
from isonomy.testing import assert_no_violation
from support.fakes import fake, untested

CONFIG = {
    "columns": {"prediction": "prediction", "groups": "race"},
    "tests": [{"kind": "flag", "metric": "selection_rate"}],
}


def test_verdicts() -> None:
    assert_no_violation(fake(verdict="inconclusive"), fake(verdict="within_tolerance"))
    with pytest.raises(AssertionError, match=r"1 of 2 results failed \(violation\)"):
        assert_no_violation(fake(verdict="inconclusive"), fake(verdict="violation"))
    with pytest.raises(AssertionError, match="inconclusive"):
        assert_no_violation(fake(verdict="inconclusive"), fail_on=("violation", "inconclusive"))


def test_the_findings_are_in_the_message() -> None:
    with pytest.raises(AssertionError, match=r"For race=Black the difference is -0\.200"):
        assert_no_violation(fake())


def test_an_audit_and_its_file(tmp_path: Path) -> None:
    table = iso.simulate.decisions(4_000, seed=1).frame()
    with pytest.raises(AssertionError, match="flag-selection_rate: violation"):
        assert_no_violation(Audit.from_dict(CONFIG, data=table).run())
    table.write_parquet(tmp_path / "d.parquet")
    text = '[data]\npath = "d.parquet"\n[columns]\nprediction = "prediction"\ngroups = "race"\n'
    (tmp_path / "audit.toml").write_text(
        text + '[[tests]]\nkind = "flag"\nmetric = "selection_rate"\ntolerance = 0.9\n'
    )
    assert_no_violation(tmp_path / "audit.toml", fail_on=("violation", "inconclusive"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["audit.toml", "d.parquet"]


def test_a_test_that_stopped_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Audit.from_dict(
        {**CONFIG, "tests": [{"kind": "flag", "metric": "tpr"}]}, data={"prediction": [0, 1], "race": ["a", "b"]}
    )
    with pytest.raises(AssertionError, match="stopped with an error"):
        assert_no_violation(done.run())


def test_bad_calls() -> None:
    with pytest.raises(iso.errors.UsageError, match="give a result"):
        assert_no_violation()
    with pytest.raises(iso.errors.UsageError, match="Did you mean 'violation'"):
        assert_no_violation(fake(), fail_on=("violaton",))


def test_nothing_tested_fails() -> None:
    with pytest.raises(AssertionError, match=r"1 of 2 results failed \(not answered\)(.|\n)*no group could be tested"):
        assert_no_violation(untested(), fake(verdict="inconclusive"))
    tiny = iso.flag({"p": [0, 1], "g": ["a", "b"]}, metric="selection_rate", prediction="p", groups="g")
    with pytest.raises(AssertionError, match="flag: not answered"):
        assert_no_violation(tiny)
