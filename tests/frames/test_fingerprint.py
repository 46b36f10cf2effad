"""Two runs have the same fingerprint if and only if they read the same rows."""

from __future__ import annotations

import polars as pl
import pytest

from isonomy.frames import open_source
from isonomy.frames.profile import fingerprint

TABLE = pl.DataFrame({"g": ["a", "b", "b"], "x": [1.0, 2.0, None], "y": [True, False, True]})


def digest(table: object) -> str:
    return fingerprint(open_source(table)).digest


def test_the_order_of_rows_does_not_matter() -> None:
    assert digest(TABLE) == digest(TABLE.reverse()) == digest(TABLE.lazy())
    assert fingerprint(open_source(TABLE)).rows == 3


@pytest.mark.parametrize(
    "other",
    [
        TABLE.head(2),
        TABLE.with_columns(pl.col("x").fill_null(0.0)),
        TABLE.with_columns(pl.col("x") + 1e-6),
        TABLE.with_columns(pl.lit("longer").alias("g")),
        TABLE.rename({"x": "z"}),
    ],
    ids=["fewer rows", "a null filled", "a value moved", "other text", "another name"],
)
def test_another_table_has_another_one(other: pl.DataFrame) -> None:
    assert digest(other) != digest(TABLE)


def test_a_count_column_counts() -> None:
    counted = fingerprint(open_source({"g": ["a"], "n": [3]}, count="n"))
    assert counted.rows == 3
