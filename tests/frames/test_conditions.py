"""Conditions as plain values: the values that each operator takes, and the rows that it selects."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from isonomy.frames.expressions import Comparison, Operator, Scalar

FRAME = pl.DataFrame({"age": [20, 30, None, 50], "sex": ["f", "m", "f", None]})


@pytest.mark.parametrize(
    ("column", "operator", "value", "rows"),
    [
        ("age", "==", 30, 1),
        ("age", "!=", 30, 2),
        ("age", "<", 30, 1),
        ("age", "<=", 30, 2),
        ("age", ">", 30, 1),
        ("age", ">=", 30, 2),
        ("sex", "in", ["f", "x"], 2),
        ("sex", "not in", ["f"], 1),
        ("age", "is missing", None, 1),
        ("age", "is present", None, 3),
    ],
)
def test_what_an_operator_selects(
    column: str, operator: Operator, value: Scalar | list[Scalar] | None, rows: int
) -> None:
    comparison = Comparison(column, operator, value)
    assert comparison.problem() is None
    assert len(nw.from_native(FRAME).filter(comparison.expression()).to_native()) == rows


@pytest.mark.parametrize(
    ("operator", "value", "words"),
    [
        ("is missing", 3, "takes no value"),
        ("<", None, "needs a value"),
        ("<", [1, 2], "takes one value"),
        ("in", 1, "takes a list"),
        ("in", [], "at least one"),
        ("in", [1, "a"], "one type"),
    ],
)
def test_values_an_operator_does_not_take(operator: Operator, value: Scalar | list[Scalar] | None, words: str) -> None:
    problem = Comparison("age", operator, value).problem()
    assert problem is not None
    assert words in problem
