"""Cells: formatted for people, raw for spreadsheets, which must not evaluate them."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.report.layout import table
from isonomy.results import Status, Verdict
from isonomy.results.columns import VOCABULARY, Column

DECLARED = {name: Column(name, count=name == "size") for name in VOCABULARY}


def test_numbers_words_and_raw_values() -> None:
    shown = table(
        {
            "group": ["a", "b", "c"],
            "size": np.array([1200.0, 30.0, np.nan]),
            "disparity": np.array([-0.123456789, 0.0, np.inf]),
            "pvalue": np.array([0.0, 0.03125, np.nan]),
            "verdict": [Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE],
            "status": [Status.OK, Status.TOO_SMALL, Status.SUPPRESSED],
        },
        DECLARED,
    )
    first, second, third = shown.rows
    assert [cell.text for cell in first] == ["a", "1,200", "−0.123", "< 0.001", "Shown", "Tested"]
    assert [cell.raw for cell in first][2:4] == ["-0.123456789", "0.0"]
    assert second[3].text == "0.0312"
    assert [cell.text for cell in third][2:4] == ["∞", "–"]
    assert third[5].mark == "suppressed"
    assert third[1].raw == ""
    assert [column.numeric for column in shown.columns] == [False, True, True, True, False, False]


def test_columns_follow_the_vocabulary_and_what_few_ask_for_is_set_apart() -> None:
    names = ("statistic", "size", "own", "pvalue", "verdict", "group", "estimate", "ci_low", "ci_high", "disparity")
    shown = table({name: [1.0] for name in names})
    order = ["group", "size", "estimate", "disparity", "ci_low", "ci_high", "statistic", "pvalue", "verdict", "own"]
    assert [column.name for column in shown.columns] == order
    assert [column.name for column in shown.columns if column.minor] == ["size", "statistic"]


def test_the_verdict_is_always_shown_and_pages_that_were_chosen_keep_their_order() -> None:
    names = ("group", "stratum", "against", "metric", "score", "n", "estimate", "disparity", "ci_low", "verdict")
    shown = table({name: [1.0] for name in names})
    assert [column.name for column in shown.columns if column.minor] == ["n", "estimate"]
    adjusted = table({"group": ["a"], "pvalue": [0.1], "adjusted_pvalue": [0.2]})
    assert [column.name for column in adjusted.columns if column.minor] == ["pvalue"]
    chosen = table({"verdict": ["violation"], "own": [1.0], "group": ["a"], "size": [3.0]}, chosen=True)
    assert [column.name for column in chosen.columns] == ["verdict", "own", "group", "size"]
    many = table({**{f"c{i}": [1.0] for i in range(9)}, "verdict": ["violation"]}, chosen=True)
    assert [column.name for column in many.columns if column.minor] == ["c7", "c8"]


@pytest.mark.parametrize("columns", [8, 9, 40])
def test_columns_that_the_page_has_no_room_for_are_printed_in_the_appendix(columns: int) -> None:
    shown = table({"group": ["a"], **{f"c{i}": [float(i)] for i in range(columns - 1)}})
    below = [column.name for part in shown.continued for column in part.columns]
    minor = [column.name for column in shown.columns if column.minor]
    assert [name for name in below if name != "group"] == minor
    assert all(part.columns[0].name == "group" and len(part.columns) <= 13 for part in shown.continued)
    assert not any(column.minor for part in shown.continued for column in part.columns)


def test_shares_are_shown_in_percent_and_points_and_downloaded_as_they_are() -> None:
    shown = table(
        {"group": ["a"], "estimate": np.array([0.717]), "disparity": np.array([-0.163])},
        {
            "group": Column("group"),
            "estimate": Column("estimate", unit="%"),
            "disparity": Column("disparity", unit="points"),
        },
    )
    assert [column.heading for column in shown.columns] == ["Group", "Estimate (%)", "Difference (points)"]
    assert [cell.text for cell in shown.rows[0]] == ["a", "71.7", "−16.3"]
    assert [cell.raw for cell in shown.rows[0]] == ["a", "0.717", "-0.163"]


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "=cmd|' /C calc'!A0"])
def test_formulas_are_defused(label: str) -> None:
    assert table({"group": [label]}).rows[0][0].raw.startswith(("'", "␍"))


def test_ordinary_labels_and_negative_numbers_are_not_touched() -> None:
    assert table({"group": ["race=Black"]}).rows[0][0].raw == "race=Black"
    assert table({"disparity": np.array([-1.5])}).rows[0][0].raw == "-1.5"


def test_a_long_table_is_shortened_and_says_so() -> None:
    shown = table({"group": [f"g{i}" for i in range(30)]}, limit=10)
    assert (len(shown.rows), shown.total) == (10, 30)


def test_lines_about_two_groups_keep_both_in_every_part() -> None:
    names = [f"c{i}" for i in range(14)]
    shown = table({"group": ["a"], "reference": ["b"], **{name: [1.0] for name in names}})
    assert [[column.name for column in part.columns[:2]] for part in shown.continued] == [["group", "reference"]]
    numbers = table({"group": ["a"], "reference": [0.5], **{name: [1.0] for name in names}})
    assert [column.name for column in numbers.continued[0].columns].count("reference") == 0


def test_counts_are_whole_and_truths_are_words() -> None:
    described = {"shortfall": Column("shortfall", count=True), "below": Column("below")}
    shown = table({"shortfall": np.array([0.0, 159.0]), "below": np.array([True, False])}, described)
    assert [[cell.text for cell in row] for row in shown.rows] == [["0", "yes"], ["159", "no"]]


def test_the_group_compared_with_has_no_verdict() -> None:
    columns = {"group": ["a", "b"], "verdict": ["within_tolerance", "violation"], "status": ["reference", "ok"]}
    shown = table(columns)
    verdicts = [row[[column.name for column in shown.columns].index("verdict")] for row in shown.rows]
    assert [cell.text for cell in verdicts] == ["Reference", "Shown"]
    assert [cell.raw for cell in verdicts] == ["within_tolerance", "violation"]  # downloads are unchanged


def test_a_withheld_group_is_not_said_to_be_inconclusive() -> None:
    shown = table({"group": ["a", "b"], "verdict": ["inconclusive"] * 2, "status": ["suppressed", "ok"]})
    verdicts = [row[[column.name for column in shown.columns].index("verdict")] for row in shown.rows]
    assert [cell.text for cell in verdicts] == ["Inconclusive", "Withheld"]
    assert [cell.raw for cell in verdicts] == ["inconclusive"] * 2


def test_a_long_table_is_printed_in_halves_that_lose_nothing() -> None:
    groups = [group for group in ("a", "b", "c") for _ in range(21)]
    scores = [k / 20 for _ in range(3) for k in range(21)]
    numbers = {f"c{i}": [float(i + k) for k in range(63)] for i in range(12)}
    shown = table({"group": groups, "reference": ["z"] * 63, "score": scores, **numbers})
    assert shown.long
    assert list(shown.constant.values()) == [("Reference", "z")]
    assert shown.continued == ()
    assert [[run.title for run in part] for part in shown.halves] == [["a", "b", "c"]] * 2
    assert all(run.columns[0].name == "score" and len(run.columns) <= 7 for part in shown.halves for run in part)
    places = {column.name: i for i, column in enumerate(shown.columns)}
    for part in shown.halves:
        names = [column.name for column in part[0].columns]
        lines = [(run.title, *(cell.text for cell in row)) for run in part for row in run.rows]
        whole = [tuple(row[places[name]].text for name in ("group", *names)) for row in shown.rows]
        assert lines == whole
    printed = {column.name for part in shown.halves for column in part[0].columns}
    assert printed == {"score", *numbers}


def test_a_short_table_has_no_halves_and_groups_of_a_few_lines_keep_their_column() -> None:
    short = table({"group": ["a"] * 20, "x": [float(k) for k in range(20)]})
    assert (short.long, short.halves, short.constant) == (False, (), {})
    many = table({"group": [f"g{k}" for k in range(40)], "x": [float(k) for k in range(40)]})
    ((only,),) = many.halves
    assert (only.title, [column.name for column in only.columns]) == ("", ["group", "x"])
    assert len(only.rows) == 40


def test_no_more_lines_are_printed_than_paper_holds() -> None:
    whole = table({"group": ["a"] * 75 + ["b"] * 75, "x": [float(k) for k in range(150)]})
    assert [len(run.rows) for run in whole.halves[0]] == [75, 25]


def test_statuses_are_words() -> None:
    shown = table({"group": ["a"] * len(Status), "status": [status.value for status in Status]})
    texts = [row[1].text for row in shown.rows]
    assert all("_" not in text and text[:1].isupper() for text in texts)


def test_withheld_lines_stand_last_and_how_many_more_there_are_is_told() -> None:
    status = [Status.SUPPRESSED, Status.OK, Status.SUPPRESSED, Status.TOO_SMALL]
    shown = table({"group": list("abcd"), "estimate": [np.nan, 1.0, np.nan, 2.0], "status": status})
    assert [row[0].text for row in shown.rows] == ["b", "d", "a", "c"]
    assert [row[1].raw for row in shown.rows[:2]] == ["1.0", "2.0"]


def test_a_column_without_a_number_is_not_shown() -> None:
    shown = table(
        {"group": ["a", "b"], "estimate": [0.1, 0.2], "rows_needed": [np.nan, np.nan], "metric": [None, None]}
    )
    assert [column.name for column in shown.columns] == ["group", "metric", "estimate"]


def test_numbers_in_a_list_are_numbers_and_the_only_table_needs_no_name() -> None:
    shown = table({"table": ("race", "race"), "group": ["a", "b"], "pvalue": [np.float64(0.5), np.float64(0.25)]})
    assert [(column.name, column.numeric) for column in shown.columns] == [("group", False), ("pvalue", True)]
    assert [column.name for column in table({"table": ("race", "sex"), "group": ["a", "b"]}).columns] == [
        "table",
        "group",
    ]
