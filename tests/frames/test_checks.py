"""Values are checked in the pass that counts them; nothing is dropped silently."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.frames import Request, Sample, open_source
from isonomy.frames.metrics import measure

Tally = Callable[..., Sample]
GOOD = {"race": ["a", "b", "a"], "y": [0, 1, 1], "s": [0.1, 0.2, 0.3], "n": [1, 2, 3]}


@pytest.mark.parametrize(
    ("data", "call", "error", "words"),
    [
        (GOOD, {"binary": {"outcome": "Y2"}}, errors.UnknownColumn, "outcome: no column 'Y2'"),
        (GOOD, {"binary": {"outcome": "s"}}, errors.NotBinary, "3 rows that are neither 0 nor 1"),
        (GOOD, {"binary": {"outcome": "race"}}, errors.WrongType, "must hold 0 and 1"),
        (GOOD, {"numeric": {"score": "race"}}, errors.WrongType, "must hold numbers"),
        (GOOD | {"y": [0, 2, 1]}, {"binary": {"outcome": "y"}}, errors.NotBinary, "1 rows"),
        (GOOD | {"y": [0, -7, 1]}, {"binary": {"outcome": "y"}}, errors.NotBinary, "1 rows"),
        (GOOD | {"y": [0, None, 1]}, {"binary": {"outcome": "y"}}, errors.MissingValues, 'missing="drop"'),
        (GOOD | {"y": [0.0, np.nan, 1]}, {"binary": {"outcome": "y"}}, errors.MissingValues, "1 rows"),
        (GOOD | {"s": [0.0, np.inf, 1]}, {"numeric": {"score": "s"}}, errors.MissingValues, "infinite"),
        (GOOD | {"race": ["a", None, "b"]}, {}, errors.MissingGroups, "missing_group"),
        (GOOD, {"count": "s"}, errors.BadCount, "3 rows"),
        (GOOD | {"n": [1, -2, 3]}, {"count": "n"}, errors.BadCount, "1 rows"),
        (GOOD | {"n": [1, None, 3]}, {"count": "n"}, errors.BadCount, "1 rows"),
        ({k: [] for k in GOOD}, {}, errors.EmptyFrame, "no rows"),
    ],
)
def test_errors_say_what_to_do(
    data: object, call: dict[str, Any], error: type[Exception], words: str, tally: Tally
) -> None:
    with pytest.raises(error, match=words):
        tally(data, **call)


def test_objects_are_called_what_they_are(tally: Tally) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"race": [Fraction(1, 2), Fraction(1, 3)], "y": [0, 1]})
    with pytest.raises(errors.WrongType, match="'race' holds Fraction objects"):
        tally(frame)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int32, pl.UInt64, pl.Float32])
def test_every_width_of_number_is_checked(dtype: Any, tally: Tally) -> None:
    def outcomes(values: list[int | None], missing: str) -> Sample:
        data = pl.DataFrame({"race": ["a", "b", "a", "a"], "y": pl.Series(values, dtype=dtype)})
        return tally(data, binary={"outcome": "y"}, missing=missing)

    with pytest.raises(errors.NotBinary, match="2 rows"):
        outcomes([0, 3, 1, 100], "drop")
    with pytest.raises(errors.MissingValues, match="1 rows"):
        outcomes([0, None, 1, 1], "raise")
    kept = outcomes([0, None, 1, 1], "drop")
    assert kept.dropped == {"y": 1}
    assert kept.columns["outcome"].tolist() == [0, 1]


def test_missing_rows_are_dropped_and_counted_when_asked(tally: Tally) -> None:
    data = {"race": ["a", "b", "a", None], "y": [0, None, 1, 1], "s": [0.1, 0.2, np.nan, 0.5]}
    cells = tally(data, binary={"outcome": "y"}, numeric={"score": "s"}, missing="drop", missing_group="drop")
    assert cells.rows == 1
    assert cells.dropped == {"y": 1, "s": 1, "race": 1}


def test_dropping_every_row_leaves_nothing_to_count(tally: Tally) -> None:
    table = {"race": ["a", "b"], "y": pl.Series([None, None], dtype=pl.Int64)}
    with pytest.raises(errors.EmptyFrame, match="no row is left after dropping"):
        tally(table, numeric={"outcome": "y"}, missing="drop")


def test_a_missing_condition_is_a_missing_group(engine: Any, sizes: Callable[..., dict[str, float]]) -> None:
    data = engine({"age": [50.0, None, 20.0], "k": [1, 2, 3]})
    old = iso.where("old", iso.col("age") >= 45)
    source = open_source(data)
    with pytest.raises(errors.MissingGroups, match="'old' has 1 rows"):
        source.cells(Request(grouping=source.grouping(old)))
    assert sizes(data, old, missing_group="drop") == {"old": 1}
    assert sizes(data, iso.where("unknown age", iso.col("age").is_null())) == {"unknown age": 1}


def test_a_missing_metric_condition_is_not_dropped_silently(engine: Any) -> None:
    data = engine({"k": [1, None, 3], "y": [0, 1, 1]})
    metric = iso.Metric("m", value=iso.col("y"), where=iso.col("k") < 3, binary=True)
    source = open_source(data)
    with pytest.raises(errors.MissingValues, match="inside: the expression has 1 rows"):
        source.cells(measure(source, metric).request)
