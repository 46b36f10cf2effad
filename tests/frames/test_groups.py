"""Levels, cuts and named conditions, their labels, and their intersections."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.frames import Group, Request, open_source
from isonomy.frames.metrics import measure

Sizes = Callable[..., dict[str, float]]
GOOD = {"race": ["a", "b", "a"], "y": [0, 1, 1], "age": [20, 30, 50]}


@pytest.mark.parametrize(
    ("groups", "error", "words"),
    [
        ("rcae", errors.UnknownColumn, "Did you mean 'race'"),
        (7, errors.UsageError, "give column names, iso.cut"),
        (iso.cut("race", [1]), errors.WrongType, "only numbers can be cut"),
    ],
)
def test_groups_that_cannot_be(groups: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        open_source(GOOD).grouping(groups)


def test_a_column_of_lists_makes_no_groups() -> None:
    with pytest.raises(errors.WrongType, match="groups need text, numbers, booleans, dates or times"):
        open_source(pl.DataFrame({"g": [[1], [2]]})).grouping("g")


@pytest.mark.parametrize("edges", [[], [3, 1], [1, 1], [float("nan")]])
def test_cut_needs_increasing_edges(edges: list[float]) -> None:
    with pytest.raises(errors.UsageError, match="increasing"):
        iso.cut("age", edges)


def test_cut_labels_are_distinct() -> None:
    assert iso.cut("income", [50_000, 1_000_000, 1_000_001]).labels == (
        "<50000", "50000 to <1000000", "1000000 to <1000001", ">=1000001",
    )  # fmt: skip


def test_an_interval_holds_its_lower_edge(sizes: Sizes) -> None:
    ages = {"age": [24, 25, 44, 45, None]}
    expected = {"age < 25": 1, "age 25 to <45": 2, "age >= 45": 1, "age=(missing)": 1}
    assert sizes(ages, iso.cut("age", [25, 45]), missing_group="level") == expected


def test_a_named_group_is_listed_when_nobody_is_in_it(sizes: Sizes) -> None:
    assert sizes({"age": [30, 40]}, iso.where("young", nw.col("age") < 25)) == {"young": 0}


def test_two_conditions_together_keep_both_names() -> None:
    data = {"a": [1, 2, 3], "b": [1, 1, 2]}
    groups = [iso.where("low a", iso.col("a") < 3), iso.where("low b", iso.col("b") < 2)]
    source = open_source(data)
    tally = source.cells(Request(grouping=source.grouping(groups, depth=2)))
    both = tally.partitions[2].groups[0]
    assert both.label == "low a & low b"
    assert dict(both.mapping) == {"": "low a & low b"}
    assert tally.partitions[2].sum(tally.counts).tolist() == [2]


@pytest.mark.parametrize("name", ["outcome", "prediction", "value", "inside", "score", "complete", "__count", "__k0"])
def test_a_group_may_be_called_like_a_role(name: str) -> None:
    data = {name: ["x", "z"] * 10, "y": [0, 1] * 10, "p": [0, 1, 1, 1] * 5, "s": np.linspace(0, 1, 20)}
    source = open_source(data)
    grouping = source.grouping(name)
    own = iso.Metric("own", value=iso.col("s"), where=iso.col("p") == 1)
    for metric in ("tpr", "brier", "mean_prediction", own):
        bound = measure(source, metric, grouping=grouping, outcome="y", prediction="p", score="s")
        answer: Any = source.cells(bound.request) if bound.binary else source.rows(bound.request)
        assert [g.label for g in answer.partitions[0].groups] == [f"{name}=x", f"{name}=z"]


def test_labels_do_not_depend_on_other_categories_in_the_process(sizes: Sizes) -> None:
    kept = pl.Series(["Male"]).cast(pl.Categorical), pl.Series([f"u{i}" for i in range(30_000)]).cast(pl.Categorical)
    assert sizes({"sex": ["Male"] * 300 + ["Female"] * 100}, "sex") == {"sex=Female": 100, "sex=Male": 300}
    assert len(kept) == 2


@pytest.mark.parametrize(
    "levels",
    [
        [10**12, 5, 7],
        [3, 1, 2],
        [-5, 0, 2**40],
        ["b", "a", "é"],
        [2.5, -1.5, 0.0],
        [True, False, True],
        [date(2020, 1, 1), date(1999, 1, 1), date(2020, 1, 1)],
    ],
)
def test_levels_of_every_kind(levels: list[Any], sizes: Sizes) -> None:
    expected = {f"g={level}": float(levels.count(level)) for level in levels}
    assert sizes({"g": levels}, "g") == expected


def test_categories_and_enumerations(sizes: Sizes) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"g": pandas.Categorical(["b", "a", None, "b"], categories=["z", "b", "a"])})
    assert sizes(frame, "g", missing_group="level") == {"g=a": 1, "g=b": 2, "g=(missing)": 1}
    enum = pl.DataFrame({"g": pl.Series(["b", "a", "b"], dtype=pl.Enum(["z", "b", "a"]))})
    assert sizes(enum, "g") == {"g=a": 1, "g=b": 2}


def test_whole_floats_read_like_integers(sizes: Sizes) -> None:
    """pandas converts integer levels to floats if one is missing."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"g": [1.0, 2.0, np.nan]})
    assert sizes(frame, "g", missing_group="level") == {"g=1": 1, "g=2": 1, "g=(missing)": 1}


def test_many_levels_far_apart_are_intersected(sizes: Sizes) -> None:
    """With more combinations than rows, they are sorted instead of looked up in a table of all combinations."""
    table = {"g": [10**9 * i for i in range(60)], "h": [f"level {i}" for i in range(60)]}
    source = open_source(table)
    cells = source.cells(Request(grouping=source.grouping(["g", "h"], depth=2)))
    both = cells.partitions[2]
    assert len(both.groups) == 60
    assert both.groups[7].label == "g=7000000000 & h=level 7"
    assert both.sum(cells.counts).tolist() == [1.0] * 60


def test_a_cut_is_told_in_words() -> None:
    table = {"age": [20, 30, 50, 70] * 20, "p": [0, 1, 1, 0] * 20}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups=iso.cut("age", [25, 45.5]))
    assert "age, cut at 25, 45.5" in str(result.provenance.options)
    assert "Cut(" not in result.to_json()


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (">=65", "age >= 65"),
        ("<25", "age < 25"),
        ("<=50K", "age <= 50K"),
        ("> -1.5", "age > -1.5"),
        ("0.5 to <1", "age 0.5 to <1"),
        ("-1 to <-0.5", "age -1 to <-0.5"),
        ("<b>", "age=<b>"),
        ("from here to <there", "age=from here to <there"),
        ("25-34", "age=25-34"),
        (65, "age=65"),
        (None, "age=(missing)"),
    ],
)
def test_a_range_reads_as_one(value: object, label: str) -> None:
    assert Group((("age", value),)).label == label
    assert Group((("sex", "f"), ("age", value))).label == f"sex=f & {label}"
