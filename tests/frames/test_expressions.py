"""Expressions made of plain data: the same numbers on every engine."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pytest

from isonomy.frames import open_source
from isonomy.frames.expressions import constant, either, infinite, levels, linear, number

TABLE = {"i": [0, 1, 2, 3], "a": [1.0, 2.0, 3.0, None], "b": [4, 5, 6, 7], "g": ["x", "y", "z", "x"]}


def values(expression: nw.Expr, table: Any = TABLE) -> list[Any]:
    """The values of an expression, by row."""
    rows = open_source(table).with_columns({"value": expression}).head(4).sort("i")
    return rows["value"].to_list()


def test_columns_and_expressions_become_numbers(engine: Any) -> None:
    table = engine(TABLE)
    assert values(number("b"), table) == [4.0, 5.0, 6.0, 7.0]
    assert values(number(nw.col("a") > 1.5), table) == [0.0, 1.0, 1.0, None]
    assert values(constant(2), table) == [2.0] * 4


def test_either_takes_the_second_where_the_condition_is_not_known(engine: Any) -> None:
    assert values(either(nw.col("a") > 1.5, nw.col("b").cast(nw.Float64), -1), engine(TABLE)) == [-1.0, 5.0, 6.0, -1.0]


def test_a_linear_sum_with_and_without_an_origin(engine: Any) -> None:
    table = engine(TABLE)
    assert values(linear(["a", "b"], [2.0, 10.0], 0.5), table) == [42.5, 54.5, 66.5, None]
    assert values(linear(["a", "b"], [2.0, 10.0], origin=[1.0, 4.0]), table) == [0.0, 12.0, 24.0, None]
    with pytest.raises(ValueError, match="shorter"):
        linear(["a", "b"], [2.0])


def test_levels_that_have_no_number_have_none(engine: Any) -> None:
    assert values(levels("g", {"x": 1.5, "y": 2.5}), engine(TABLE)) == [1.5, 2.5, None, 1.5]


def test_infinite_of_either_sign() -> None:
    table = {"i": [0, 1, 2], "x": [np.inf, -np.inf, 1e308]}
    assert values(infinite(nw.col("x")), table) == [True, True, False]
