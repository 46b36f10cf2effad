"""Cells: shown for people, raw for spreadsheets that must not compute them."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.report.tables import safe_csv, table
from isonomy.results import Status, Verdict


def test_numbers_words_and_raw_values() -> None:
    shown = table(
        {
            "group": ["a", "b", "c"],
            "size": np.array([1200.0, 30.0, np.nan]),
            "disparity": np.array([-0.123456789, 0.0, np.inf]),
            "pvalue": np.array([0.0, 0.03125, np.nan]),
            "verdict": [Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE],
            "status": [Status.OK, Status.TOO_SMALL, Status.SUPPRESSED],
        }
    )
    first, second, third = shown.rows
    assert [cell.text for cell in first] == ["a", "1,200", "−0.123", "< 1e-300", "Violation", "ok"]
    assert [cell.raw for cell in first][1:4] == ["1200.0", "-0.123456789", "0.0"]
    assert second[3].text == "0.0312"
    assert [cell.text for cell in third][1:4] == ["–", "∞", "–"]
    assert third[5].mark == "suppressed"
    assert third[1].raw == ""
    assert [column.numeric for column in shown.columns] == [False, True, True, True, False, False]


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "=cmd|' /C calc'!A0"])
def test_formulas_are_defused(label: str) -> None:
    assert safe_csv(label) == f"'{label}"
    assert table({"group": [label]}).rows[0][0].raw.startswith(("'", "␍"))


def test_ordinary_labels_and_negative_numbers_are_not_touched() -> None:
    assert safe_csv("race=Black") == "race=Black"
    assert table({"disparity": np.array([-1.5])}).rows[0][0].raw == "-1.5"


def test_a_long_table_is_shortened_and_says_so() -> None:
    shown = table({"group": [f"g{i}" for i in range(30)]}, limit=10)
    assert len(shown.rows) == 10
    assert shown.shortened == "The first 10 of 30 lines are shown here; results.json holds all of them."
    assert table({"group": ["a"]}).shortened == ""


def test_no_columns_make_no_rows() -> None:
    assert table({}).rows == ()
