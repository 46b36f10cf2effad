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
    assert [cell.text for cell in first] == ["a", "Shown", "−0.123", "< 0.001", "Tested", "1,200"]
    assert [cell.raw for cell in first][2:4] == ["-0.123456789", "0.0"]
    assert second[3].text == "0.0312"
    assert [cell.text for cell in third][2:4] == ["∞", "–"]
    assert third[4].mark == "suppressed"
    assert third[5].raw == ""
    assert [column.numeric for column in shown.columns] == [False, False, True, True, False, True]


def test_what_decides_stands_first_and_what_few_ask_for_is_set_apart() -> None:
    names = ("statistic", "size", "own", "pvalue", "verdict", "group", "estimate", "ci_low", "ci_high", "disparity")
    shown = table({name: [1.0] for name in names})
    order = ["group", "verdict", "estimate", "disparity", "ci_low", "ci_high", "pvalue", "statistic", "size", "own"]
    assert [column.name for column in shown.columns] == order
    assert [column.name for column in shown.columns if column.minor] == ["size", "own"]


@pytest.mark.parametrize(("columns", "width"), [(13, ""), (14, "wide"), (23, "vast")])
def test_how_much_paper_a_table_takes(columns: int, width: str) -> None:
    assert table({f"c{i}": [1.0] for i in range(columns)}).width == width


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
