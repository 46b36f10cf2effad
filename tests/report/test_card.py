"""The fairness section of a model card."""

from __future__ import annotations

import re

import isonomy as iso
from isonomy.report import Document, Entry
from isonomy.report.card import card
from support.fakes import document


def test_the_card_has_its_headings_and_every_test() -> None:
    text = card(document())
    for part in (
        "## Fairness evaluation",
        "### Evaluation data",
        "- decisions.parquet, 600 rows",
        "| A title of my own | Within tolerance |",
        "### Caveats and recommendations",
        "True positive rate (tpr): the share selected",
        "Made 2026-11-15 with isonomy ",
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
    assert text.count("counts each row by its weight, the column w") == 1
    assert "in the audit's report.html and results.json" in text
