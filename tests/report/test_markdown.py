"""summary.md: the questions and their answers, with every label as text."""

from __future__ import annotations

import re

import pytest

import isonomy as iso
from isonomy.audit.compare import AuditComparison, Change
from isonomy.report import Document, Entry, markdown, wording
from isonomy.report.render import card, comparison_html, comparison_markdown
from isonomy.report.text import one_line
from support.fakes import HOSTILE, document, untested


@pytest.fixture(scope="module")
def summary() -> str:
    return markdown(document())


def test_summary_says_what_was_asked_and_found(summary: str) -> None:
    assert summary.startswith("# A made-up lender, first half of 2026\n")
    assert "This audit fails because of 2 violations (flag-tpr and hostile)." in summary
    assert "| flag-tpr | True positive rate by race |" in summary
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
    """The text without Markdown escapes, as a reader sees it."""
    text = re.sub(r"\\([\\`*_{}\[\]#|~$@:.+=-])", r"\1", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_summary_shows_every_label(summary: str) -> None:
    shown = plain(summary)
    for label in HOSTILE:
        assert one_line(label).strip() in shown, label[:40]


def test_a_test_that_stopped_is_told(summary: str) -> None:
    assert "| broken | Least change to equal rates" in summary
    assert "ValueError\\: " not in summary  # a colon before a space is not a link
    assert "ValueError: &lt;b&gt;no&lt;/b&gt; rows ⏎ at all" in summary


def test_nothing_tested_is_not_answered() -> None:
    report = document(entries=(Entry(name="empty", kind="flag", result=untested()),), fail_on=("inconclusive",))
    text = markdown(report)
    assert "⛔ Not answered" in text
    assert "No test has a result on which this audit fails (inconclusive verdict)." in text


def test_an_audit_that_fails_on_nothing_and_withholds_nothing() -> None:
    text = markdown(document(fail_on=(), suppress_below=0))
    assert "this audit fails on" not in text
    assert wording.suppression(0) in text


def test_the_card_has_its_headings_and_every_test() -> None:
    text = card(document())
    for part in (
        "## Fairness evaluation",
        "### Evaluation data",
        "- decisions.parquet, 600 rows",
        "| A title of my own | Within tolerance |",
        "### Caveats and recommendations",
        "True positive rate (tpr): the share selected",
        "Created 2026-11-15 with isonomy ",
    ):
        assert part in text, part
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert "<" not in text


def test_what_is_said_once_is_said_once() -> None:
    text = card(document())
    assert text.count("Why the groups differ.") == 1


def test_weights_are_told_once_and_tables_are_in_the_report() -> None:
    table = {"g": ["a", "b"] * 50, "p": [0, 1, 1, 0] * 25, "w": [1.0, 2.0] * 50}
    entries = tuple(
        Entry(
            name=metric,
            kind="flag",
            result=iso.flag(table, metric=metric, prediction="p", outcome="p", groups="g", weight="w"),
        )
        for metric in ("selection_rate", "accuracy")
    )
    text = card(Document(title="", entries=entries, created="2026-11-15"))
    assert text.count("count each row by its weight, the column w") == 1
    assert "in report.html and results.json" in text


@pytest.fixture
def comparison() -> AuditComparison:
    """Two audits with a test that changed, and tests with hostile names."""
    changed = Change("who", "Who?", ("Difference shown", "Inconclusive"), notes=("a: changed.",))
    same = tuple(Change(label[:200], label[:200], ("x", "x")) for label in HOSTILE)
    before = document(title="<b>Old</b>", created="2026-01-02T00:00:00")
    return AuditComparison((before, document(created="")), (changed, *same), ("Careful.",))


def test_the_comparison_of_two_audits_in_markdown(comparison: AuditComparison) -> None:
    text = comparison_markdown(comparison)
    assert "| Who? | Difference shown | **Inconclusive** | a: changed. |" in text
    assert "Audit 1: &lt;b&gt;Old&lt;/b&gt;, run on 2026-01-02" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert text.endswith("- Careful.\n")


def test_the_comparison_of_two_audits_as_a_page(comparison: AuditComparison) -> None:
    page = comparison_html(comparison)
    assert "<strong>Inconclusive</strong>" in page
    assert "&lt;b&gt;Old&lt;/b&gt;" in page
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
