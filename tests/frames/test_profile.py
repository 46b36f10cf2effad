"""Profiles of the columns of a table."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from isonomy.frames.profile import FEW, Profile, profile


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
