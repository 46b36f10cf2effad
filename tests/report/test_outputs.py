"""summary.md and junit.xml: every label is text there too."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from fake_results import HOSTILE, document, fake, untested

from isonomy.report import Entry, junit, markdown
from isonomy.report.text import one_line, visible


@pytest.fixture(scope="module")
def summary() -> str:
    return markdown(document())


def test_summary_says_what_was_asked_and_found(summary: str) -> None:
    assert summary.startswith("# A made-up lender, first half of 2026\n")
    assert "2 tests ended in a verdict this audit fails on (violation)." in summary
    assert "| flag-tpr | Which groups are treated differently" in summary
    assert "## Provenance" in summary
    assert "Numbers of groups with fewer than 10 rows are withheld" in summary
    assert "### What is true in this simulation" in summary


def test_summary_has_no_live_markup(summary: str) -> None:
    assert "<" not in summary
    assert not re.search(r"(?<!\\)`|(?<!\\)\]\(", summary)
    rows = [line for line in summary.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert "\x1b" not in summary
    assert "\u202e" not in summary


def plain(text: str) -> str:
    """Markdown's escapes undone, as a reader sees it."""
    text = re.sub(r"\\([\\`*_{}\[\]#|~$@:.+=-])", r"\1", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_summary_shows_every_label(summary: str) -> None:
    shown = plain(summary)
    for label in HOSTILE:
        assert one_line(label).strip() in shown, label[:40]


def test_junit_is_xml_with_failures_and_errors() -> None:
    root = ET.fromstring(junit(document()))
    suite = root[0]
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {"tests": "5", "failures": "2", "errors": "1"}
    cases = {case.get("name"): case for case in suite}
    assert cases["flag-tpr"].find("failure").get("type") == "violation"
    assert cases["tolerated"].find("failure") is None
    assert cases["broken"].find("error").get("message") == "ValueError: <b>no</b> rows\nat all"
    said = cases["hostile"].find("failure").text
    for label in HOSTILE:
        assert visible(label) in said, label[:40]


def test_junit_survives_every_character() -> None:
    label = "".join(map(chr, [*range(0x300), 0xD800, 0xFFFE, 0xFFFF, 0x1F600]))
    made = junit(replace(document(), title=label, entries=(Entry(name=label, kind="flag", result=fake([label])),)))
    assert "😀" in ET.fromstring(made)[0][0].get("name")


def test_nothing_tested_is_an_error_and_no_pass() -> None:
    made = document(entries=(Entry(name="empty", kind="flag", result=untested()),), fail_on=("inconclusive",))
    assert made.tally == {"violation": 0, "within_tolerance": 0, "inconclusive": 0, "failed": 1}
    suite = ET.fromstring(junit(made))[0]
    assert {k: suite.get(k) for k in ("failures", "errors")} == {"failures": "0", "errors": "1"}
    problem = suite[0].find("error")
    assert problem.get("type") == "data"
    assert problem.get("message").startswith("Not answered: no group could be tested")
    assert "⛔ Not answered" in markdown(made)


def test_the_failure_message_names_what_decided() -> None:
    made = document(entries=(Entry(name="x", kind="flag", result=fake(decider=2)),))
    message = ET.fromstring(junit(made))[0][0].find("failure").get("message")
    assert message.startswith("Violation: ")
    assert message.endswith("For race=Asian the difference is +0.200 (p = 0.012).")
