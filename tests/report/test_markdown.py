"""summary.md: what was asked and what came out of it, with every label as text."""

from __future__ import annotations

import re

import pytest

from isonomy.report import Entry, markdown, wording
from isonomy.report.text import one_line
from support.fakes import HOSTILE, document, untested


@pytest.fixture(scope="module")
def summary() -> str:
    return markdown(document())


def test_summary_says_what_was_asked_and_found(summary: str) -> None:
    assert summary.startswith("# A made-up lender, first half of 2026\n")
    assert "2 tests ended in a verdict this audit fails on (violation)." in summary
    assert "| flag-tpr | True positive rate by race |" in summary
    assert "## Provenance" in summary
    assert "Numbers of groups with fewer than 10 rows are withheld" in summary
    assert "### What is true in this simulation" in summary


def test_summary_says_where_the_tables_are(summary: str) -> None:
    assert "that these sentences speak of are in the audit's report.html and results.json." in summary


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


def test_a_test_that_stopped_is_told(summary: str) -> None:
    assert "| broken | Least change to equal rates" in summary
    assert "ValueError\\: " not in summary  # a colon before a space is no link
    assert "ValueError: &lt;b&gt;no&lt;/b&gt; rows ⏎ at all" in summary


def test_nothing_tested_is_not_answered() -> None:
    report = document(entries=(Entry(name="empty", kind="flag", result=untested()),), fail_on=("inconclusive",))
    text = markdown(report)
    assert "⛔ Not answered" in text
    assert "No test ended in a verdict this audit fails on (inconclusive)." in text


def test_an_audit_that_fails_on_nothing_and_withholds_nothing() -> None:
    text = markdown(document(fail_on=(), suppress_below=0))
    assert "this audit fails on" not in text
    assert wording.suppression(0) in text


def test_the_summary_explains_the_words_it_uses(summary: str) -> None:
    assert "- **Points**" in summary
    assert "- **Bandwidth**" not in summary
    assert summary.index("## How to read this") < summary.index("## Provenance")
