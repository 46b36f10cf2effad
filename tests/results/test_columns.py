"""Cells: the same format of numbers, p-values, counts, shares and verdicts in notebook, report and terminal."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.results import Status, Verdict
from isonomy.results.columns import MARKS, Column, cell_text, plain_value

NUMBER, SHARE, POINTS = Column("disparity"), Column("estimate", unit="%"), Column("disparity", unit="points")


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (NUMBER, -0.123456, "−0.123"),
        (NUMBER, np.float64(0.5), "0.500"),
        (NUMBER, np.nan, "–"),
        (NUMBER, None, "–"),
        (NUMBER, np.inf, "∞"),
        (NUMBER, -np.inf, "−∞"),
        (SHARE, 0.717, "71.7"),
        (POINTS, -0.163, "−16.3"),
        (Column("adjusted_pvalue"), 0.0, "< 0.001"),
        (Column("pvalue"), 0.03125, "0.0312"),
        (Column("n", count=True), 1200.0, "1,200"),
        (Column("own", count=True), 977.6, "978"),
        (Column("moved_up", whole=True), -977.6, "−978"),
        (Column("k"), 12345, "12,345"),
        (Column("below_threshold"), np.bool_(True), "yes"),
        (Column("verdict"), Verdict.VIOLATION, "Shown"),
        (Column("status"), "suppressed", "Withheld"),
        (Column("status"), "never_heard_of", "never heard of"),
        (Column("group"), "race=Black", "race=Black"),
        (Column("group"), 3.0, "3.00"),
    ],
)
def test_cells(column: Column, value: object, expected: str) -> None:
    assert cell_text(column, value) == expected


def test_every_status_has_words() -> None:
    assert {status.value for status in Status} <= set(MARKS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float64(0.5), 0.5), (np.nan, None), (np.inf, "inf"), (Status.OK, "ok"), (np.int8(3), 3), ("a", "a")],
)
def test_plain_values(value: object, expected: object) -> None:
    assert plain_value(value) == expected


@pytest.mark.parametrize(
    ("column", "title"),
    [
        (Column("ci_low"), "Interval from"),
        (Column("pvalue"), "p‑value"),
        (Column("clusters", "Clusters"), "Clusters"),
        (Column("own_column"), "Own column"),
        (Column("tpr_se"), "True positive rate standard error"),
        (Column("estimate", "Selection rate", "%"), "Selection rate (%)"),
    ],
)
def test_headings(column: Column, title: str) -> None:
    assert column.title == title
