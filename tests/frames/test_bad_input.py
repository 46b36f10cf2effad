"""Bad input: a named error that says what was seen and what to do. Nothing is dropped silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.frames import Request, open_source
from isonomy.frames.metrics import measure

GOOD = {"race": ["a", "b", "a"], "y": [0, 1, 1], "s": [0.1, 0.2, 0.3], "n": [1, 2, 3]}


def tally(data: Any, *, groups: Any = "race", count: str | None = None, **roles: Any) -> Any:
    options = {k: roles.pop(k) for k in ("missing", "missing_group") if k in roles}
    source = open_source(data, count=count, **options)
    return source.cells(Request(grouping=source.grouping(groups), **roles))


@pytest.mark.parametrize(
    ("data", "call", "error", "says"),
    [
        (GOOD, {"groups": "rcae"}, errors.UnknownColumn, "Did you mean 'race'"),
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
        (GOOD | {"race": ["a", "b"]}, {}, errors.LengthMismatch, "race: 2"),
        (GOOD | {"race": ["a", 1, "b"]}, {}, errors.MixedTypes, "number, str"),
        (GOOD, {"groups": []}, errors.UsageError, "at least one"),
        (GOOD, {"groups": ["race", "race"]}, errors.UsageError, "twice"),
        (GOOD, {"count": "s"}, errors.BadCount, "3 rows"),
        (GOOD | {"n": [1, -2, 3]}, {"count": "n"}, errors.BadCount, "1 rows"),
        (GOOD | {"n": [1, None, 3]}, {"count": "n"}, errors.BadCount, "1 rows"),
        (GOOD, {"count": "race"}, errors.WrongType, "whole numbers"),
        (GOOD, {"missing": "ignore"}, errors.UnknownOption, "raise, drop"),
        ({k: [] for k in GOOD}, {}, errors.EmptyFrame, "no rows"),
        ({}, {}, errors.EmptyFrame, "no columns"),
        (42, {}, errors.UsageError, "cannot read int"),
        (GOOD | {"race": "aba"}, {}, errors.UsageError, "array of one value"),
        ("nowhere.parquet", {}, errors.UsageError, "no file"),
    ],
)
def test_errors_say_what_to_do(data: Any, call: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")):
        tally(data, **call)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int32, pl.UInt64, pl.Float32])
def test_every_width_of_number_is_checked(dtype: Any) -> None:
    def found(values: list[int | None], missing: str) -> Any:
        data = pl.DataFrame({"race": ["a", "b", "a", "a"], "y": pl.Series(values, dtype=dtype)})
        return tally(data, binary={"outcome": "y"}, missing=missing)

    with pytest.raises(errors.NotBinary, match="2 rows"):
        found([0, 3, 1, 100], "drop")
    with pytest.raises(errors.MissingValues, match="1 rows"):
        found([0, None, 1, 1], "raise")
    kept = found([0, None, 1, 1], "drop")
    assert kept.dropped == {"y": 1}
    assert kept.keys["outcome"].tolist() == [0, 1]


def test_duplicate_columns_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(errors.DuplicateColumns, match="race"):
        open_source(pandas.DataFrame([["a", "b"]], columns=["race", "race"]))
    with pytest.raises(errors.DuplicateColumns, match="race"):
        open_source(arrow.table([["a"], ["b"]], names=["race", "race"]))


def test_a_pandas_column_of_mixed_types_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"race": ["a", 1, "b"], "y": [0, 1, 1]})
    with pytest.raises(errors.MixedTypes, match="race"):
        tally(frame)
    with pytest.raises(errors.MixedTypes, match="race"):
        tally(frame, groups="y", numeric={"score": "race"})


def test_an_empty_file_and_an_unknown_suffix(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "table.xlsx").write_text("x")
    with pytest.raises(errors.EmptyFrame):
        open_source(tmp_path / "empty.csv")
    with pytest.raises(errors.UsageError, match="neither parquet nor csv"):
        open_source(tmp_path / "table.xlsx")


def test_missing_rows_are_dropped_and_counted_when_asked() -> None:
    data = {"race": ["a", "b", "a", None], "y": [0, None, 1, 1], "s": [0.1, 0.2, np.nan, 0.5]}
    got = tally(data, binary={"outcome": "y"}, numeric={"score": "s"}, missing="drop", missing_group="drop")
    assert got.rows == 1
    assert got.dropped == {"y": 1, "s": 1, "race": 1}


def test_missing_groups_as_a_level() -> None:
    got = tally({"race": ["a", None, None]}, missing_group="level")
    assert [g.label for g in got.partitions[0].groups] == ["race=a", "race=(missing)"]
    assert got.partitions[0].sum(got.count).tolist() == [1, 2]


def test_whole_floats_read_like_integers() -> None:
    """Pandas turns integer levels into floats when one is missing."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"g": [1.0, 2.0, np.nan]})
    got = tally(frame, groups="g", missing_group="level")
    assert [g.label for g in got.partitions[0].groups] == ["g=1", "g=2", "g=(missing)"]


def test_a_named_group_is_listed_when_nobody_is_in_it() -> None:
    got = tally({"age": [30, 40]}, groups=iso.where("young", nw.col("age") < 25))
    assert [g.label for g in got.partitions[0].groups] == ["young"]
    assert got.partitions[0].sum(got.count).tolist() == [0]


@pytest.mark.parametrize("edges", [[], [3, 1], [1, 1], [float("nan")]])
def test_cut_needs_increasing_edges(edges: list[float]) -> None:
    with pytest.raises(errors.UsageError, match="increasing"):
        iso.cut("age", edges)


def test_a_metric_names_the_role_it_needs() -> None:
    source = open_source(GOOD)
    with pytest.raises(errors.MissingRole, match="prediction: the metric 'tpr' needs it"):
        measure(source, "tpr", outcome="y")
    with pytest.raises(errors.UnknownOption, match="Did you mean 'accuracy'"):
        measure(source, "acuracy", outcome="y", prediction="y")


def test_own_metric_checks_its_values_inside_its_condition_only() -> None:
    data = pl.DataFrame({"g": ["a", "a", "b"], "x": [1.0, None, 0.0], "use": [True, False, True]})
    source = open_source(data)
    fine = iso.Metric("m", value=iso.col("x"), where=iso.col("use"), binary=True)
    bound = measure(source, fine, grouping=source.grouping("g"))
    got = source.cells(bound.request)
    assert got.count[bound.inside(got)].sum() == 2
    bad = iso.Metric("m", value=iso.col("x"))
    with pytest.raises(errors.MissingValues, match="value: the expression has 1 rows"):
        source.rows(measure(source, bad, grouping=source.grouping("g")).request)
