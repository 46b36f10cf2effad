"""The fairness section of a model card."""

from __future__ import annotations

import re

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
