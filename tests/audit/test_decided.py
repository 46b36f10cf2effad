"""Who chose a threshold or a tolerance, when and why: from the audit file to the report and back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from isonomy import simulate
from isonomy.audit import Audit, AuditResult
from isonomy.audit.config import parse, schema
from isonomy.errors import ConfigError
from isonomy.report import Decided
from support.fakes import AUDIT

pytestmark = pytest.mark.usefixtures("no_pictures")
CHOICE = 'decided = {by = "Model Risk Committee", on = 2026-01-15, why = "smaller gaps do not matter"}\n'
COMMITTEE = Decided("Model Risk Committee", "2026-01-15", "smaller gaps do not matter")


@pytest.mark.parametrize("whole", [True, False], ids=["audit", "test"])
def test_it_is_in_the_report_and_in_the_results(tmp_path: Path, whole: bool) -> None:
    simulate.decisions(400, seed=0).write(tmp_path / "decisions.parquet")
    text = f"{CHOICE}{AUDIT}tolerance = 0.05\n" if whole else f"{AUDIT}tolerance = 0.05\n{CHOICE}"
    (tmp_path / "audit.toml").write_text(text)
    done = Audit.from_toml(tmp_path / "audit.toml").run(tmp_path / "out")
    assert done.entries[0].decided == COMMITTEE
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Model Risk Committee" in page.partition('id="test-1"')[0]
    again = AuditResult.from_json((tmp_path / "out" / "results.json").read_text())
    assert again.entries[0].decided == COMMITTEE
    assert again.to_json() == done.to_json()
    fingerprint = hashlib.sha256((tmp_path / "out" / "results.json").read_bytes()).hexdigest()[:32]
    assert fingerprint in page.partition("</style>")[0]  # at the foot of every printed page
    again.write_report(tmp_path / "again")
    assert fingerprint in (tmp_path / "again" / "report.html").read_text()


def test_the_choice_of_a_test_goes_before_that_of_the_audit() -> None:
    config = parse(f"{CHOICE}{AUDIT}{CHOICE.replace('Model Risk Committee', 'Counsel')}")
    assert config.decided is not None
    assert config.decided.by == "Model Risk Committee"
    assert config.tests[0].decided is not None
    assert config.tests[0].decided.by == "Counsel"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('decided = {by = "A", on = 2026-01-15}', "decided.why: this key is required"),
        ('decided = {by = "A", why = "b"}', "decided.on: this key is required"),
        ('decided = {by = "", on = 2026-01-15, why = "b"}', "decided.by"),
        ('decided = {by = "A", on = "soon", why = "b"}', "decided.on: 'soon' is not allowed"),
        ('decided = {who = "A", on = 2026-01-15, why = "b"}', "decided.who: unknown key"),
        ('decided = "A"', "decided: 'A' is not allowed"),
    ],
)
def test_half_a_record_is_refused(written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(f"{AUDIT}{written}\n")


def test_it_is_in_the_schema() -> None:
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    assert set(definitions["Decision"]["required"]) == {"by", "on", "why"}
    assert "decided" in definitions["Flag"]["properties"]
    assert definitions["Decision"]["properties"]["on"]["format"] == "date"
