"""junit.xml: failures, errors, and every label as text."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from isonomy.report import Document, Entry, junit
from isonomy.report.text import visible
from support.fakes import HOSTILE, document, fake, untested


def suite_of(report: Document) -> ET.Element:
    """The one suite of a report."""
    return ET.fromstring(junit(report))[0]


def part_of(case: ET.Element, name: str) -> ET.Element:
    """A required part of a test case."""
    part = case.find(name)
    assert part is not None, f"{case.get('name')} has no {name}"
    return part


def test_failures_and_errors_are_counted_and_explained() -> None:
    suite = suite_of(document())
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {"tests": "5", "failures": "2", "errors": "1"}
    assert suite.get("timestamp") == "2026-11-15T20:00:00+00:00"
    cases = {case.get("name"): case for case in suite}
    assert part_of(cases["flag-tpr"], "failure").get("type") == "violation"
    assert cases["flag-tpr"].get("classname") == "isonomy.flag"
    assert cases["tolerated"].find("failure") is None
    assert part_of(cases["broken"], "error").get("message") == "ValueError: <b>no</b> rows\nat all"
    findings = part_of(cases["hostile"], "failure").text or ""
    for label in HOSTILE:
        assert visible(label) in findings, label[:40]


def test_every_character_can_be_in_a_label() -> None:
    label = "".join(map(chr, [*range(0x300), 0xD800, 0xFFFE, 0xFFFF, 0x1F600]))
    report = replace(document(), title=label, entries=(Entry(name=label, kind="flag", result=fake([label])),))
    assert "😀" in (suite_of(report)[0].get("name") or "")


def test_nothing_tested_is_an_error_and_no_pass() -> None:
    suite = suite_of(
        document(entries=(Entry(name="empty", kind="flag", result=untested()),), fail_on=("inconclusive",))
    )
    assert {k: suite.get(k) for k in ("failures", "errors")} == {"failures": "0", "errors": "1"}
    problem = part_of(suite[0], "error")
    assert problem.get("type") == "data"
    assert (problem.get("message") or "").startswith("Not answered: no group could be tested")


def test_the_failure_message_names_what_decided() -> None:
    suite = suite_of(document(entries=(Entry(name="x", kind="flag", result=fake(decider=2)),)))
    message = part_of(suite[0], "failure").get("message") or ""
    assert message.startswith("Difference shown: ")
    assert message.endswith("For race=Asian the difference is +0.200 (p = 0.012).")
