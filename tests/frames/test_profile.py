"""Profiles of the columns of a table."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from isonomy.frames import open_source
from isonomy.frames.profile import FEW, Profile, distinct, profile, profiles


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False, None], Profile("x", "binary", 2, True, (0.0, 1.0), 0.0, 1.0)),
        ([0, 1, 1], Profile("x", "binary", 2, False, (0.0, 1.0), 0.0, 1.0)),
        ([0.0, 0.5, 1.0, float("nan")], Profile("x", "number", 3, True, (0.0, 0.5, 1.0), 0.0, 1.0)),
        ([0.0, float("inf")], Profile("x", "number", 1, True, (0.0,), 0.0, 0.0)),
        ([1, 2, 2], Profile("x", "number", 2, False, (1.0, 2.0), 1.0, 2.0)),
        (list(range(30)), Profile("x", "number", 30, False, (), 0.0, 29.0)),
        ([float("nan")], Profile("x", "other", 0, True)),
        (["b", "a", "b", None], Profile("x", "text", 2, True, ("a", "b"))),
        ([f"t{i}" for i in range(FEW + 1)], Profile("x", "text", FEW + 1, False)),
        ([[1], [2]], Profile("x", "other", 0, False)),
    ],
    ids=str,
)
def test_what_a_column_looks_like(values: list[Any], expected: Profile) -> None:
    assert profile(pl.Series("x", values)) == expected


def test_categories_look_like_text() -> None:
    for dtype in (pl.Categorical, pl.Enum(["b", "a"])):
        assert profile(pl.Series("x", ["b", "a"], dtype=dtype)) == Profile("x", "text", 2, False, ("a", "b"))


def test_numbers_between_0_and_1() -> None:
    assert profile(pl.Series("x", [0.2, 0.9])).unit
    assert profile(pl.Series("x", [False, True])).unit
    assert not profile(pl.Series("x", [0.2, 1.1])).unit
    assert not profile(pl.Series("x", ["a"])).unit


def test_only_the_first_rows_are_looked_at() -> None:
    source = open_source({"x": [0, 1, 5], "y": ["a", "b", None]})
    assert [column.kind for column in profiles(source, rows=2)] == ["binary", "text"]
    assert [column.kind for column in profiles(source)] == ["number", "text"]
    assert profiles(open_source(pl.DataFrame({"x": [1]}).head(0))) == ()


def test_how_many_values_a_column_has_on_either_side_of_another() -> None:
    sides = {"side": ["y", "y", "n", "n"], "code": [2, 2, 1, 1], "flag": [True, True, False, False]}
    for name, value in (("side", "y"), ("code", 2.0), ("flag", 1.0)):
        for x, expected in (
            ([0, 1, 0, 1], (2, 2)),
            ([0, 1, 0, 0], (2, 1)),
            ([0.0, 1.0, math.nan, None], (2, 0)),
            ([0, 0, 0, 1], (1, 2)),
            (["a", "a", "b", "b"], (1, 1)),
        ):
            table = pl.DataFrame({**sides, "x": pl.Series(x, strict=False)})
            assert distinct(open_source(table), "x", name, value) == expected
