"""Reading weights and clusters: masses, powers, and clusters by line, on every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from isonomy import errors
from isonomy.frames import Request, design, open_source, source
from isonomy.frames.groups import grouping
from isonomy.frames.sums import code_column
from support.engines import Engine

TABLE: dict[str, Any] = {
    "g": ["a", "a", "b", "b", "a", "b"],
    "y": [0, 1, 1, 0, 1, 1],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "w": [1.0, 2.0, 0.5, 0.0, 1.5, 1.0],
    "c": ["p", "p", "q", "q", "r", "p"],
}


def request(opened: source.Source) -> Request:
    return Request(grouping(opened.schema, "g"), binary={"outcome": "y"}, values={"x": nw.col("x")})


def test_masses_sum_to_the_rows_and_values_are_weighted(engine: Engine) -> None:
    opened = open_source(engine(TABLE), weight="w")
    cells = opened.cells(request(opened))
    assert cells.design is not None
    assert cells.counts.tolist() == [1, 2, 1, 2]  # a0, a1, b0, b1
    assert cells.mass == pytest.approx([1.0, 3.5, 0.0, 1.5])  # the weights happen to sum to 6, the number of rows
    assert cells.design.second == pytest.approx([1.0, 4.0 + 2.25, 0.0, 1.25])
    assert cells.design.fourth == pytest.approx([1.0, 16.0 + 1.5**4, 0.0, 1.0 + 0.5**4])
    assert cells.values["x"] == pytest.approx([1.0, 2 * 2.0 + 1.5 * 5.0, 0.0, 0.5 * 3.0 + 6.0])
    assert cells.design.clusters is None
    doubled = open_source(engine(TABLE | {"w": [2 * w for w in TABLE["w"]]}), weight="w")
    assert doubled.cells(request(doubled)).mass == pytest.approx(cells.mass)


def clusters_of(cells: Any) -> list[list[float]]:
    placed = cells.design.placed
    matrices = cells.design.clusters.apply(lambda matrix: matrix if placed is None else matrix @ placed)
    return sorted(row for matrix in matrices for row in matrix.toarray().tolist() if any(row))


def test_clusters_by_cell(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_source(engine(TABLE), cluster="c")
    cells = opened.cells(request(opened))
    expected = sorted([[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]])
    assert clusters_of(cells) == expected
    assert clusters_of(cells) == expected  # as they were kept
    monkeypatch.setattr(design, "MOST_AT_ONCE", 2)  # rows of an engine arrive in parts of whole clusters
    monkeypatch.setattr(design, "AT_ONCE", 1)
    monkeypatch.setattr(design, "BLOCK_ROWS", 2)
    for kept in (design.MEMORY, 10):  # read again if too large to keep
        monkeypatch.setattr(design, "MEMORY", kept)
        cells = opened.cells(request(opened))
        assert clusters_of(cells) == expected
        assert clusters_of(cells) == expected


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt64, pl.Int8, pl.String, pl.Float64, pl.Categorical])
def test_clusters_of_any_type_come_in_blocks(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = pl.Series([5, 120, 5, 7, 120, 5, 9])
    if kind in (pl.Int64, pl.UInt64):  # the ends of what the type holds
        largest = 2**63 - 1 if kind == pl.Int64 else 2**64 - 1
        names = pl.Series([largest - 120 + value for value in names], dtype=kind)
    elif kind == pl.Categorical:
        names = names.cast(pl.String)
    monkeypatch.setattr(design, "BLOCK_ROWS", 2)
    table = pl.DataFrame({design.CLUSTER: names.cast(kind), design.CELL: [0, 1, 0, 1, 1, 1, 0]})
    made = list(design.blocks(table, 1.0, 2))
    rows = [row for block in made for starts in block.parts() for row in block.matrix(starts).toarray().tolist()]
    assert sorted(rows) == [[0, 1], [0, 2], [1, 0], [2, 1]]
    assert not list(design.blocks(table.clear(), 1.0, 2))


def test_rows_carry_their_clusters_and_a_line_counts_as_often_as_it_says() -> None:
    opened = open_source(TABLE | {"n": [1, 2, 1, 1, 1, 0]}, cluster="c", count="n", weight="w")
    rows = opened.rows(Request(grouping(opened.schema, "g"), numeric={"x": "x"}))
    assert rows.design is not None
    assert rows.rows == 6
    assert rows.weight is not None
    assert rows.weight.sum() == pytest.approx(6)
    assert rows.weight == pytest.approx(np.array([1, 4, 0.5, 0, 1.5]) * 6 / 7)
    assert clusters_of(rows) == [
        pytest.approx([0, 0, 0, 0, 1.5 * 6 / 7]),
        pytest.approx([0, 0, 0.5 * 6 / 7, 0, 0]),
        pytest.approx([6 / 7, 24 / 7, 0, 0, 0]),
    ]
    within = rows.design.restricted(np.array([0, 2]))
    assert within.mass == pytest.approx([6 / 7, 3 / 7])
    assert within.placed is not None
    assert within.placed.shape[1] == 2
    doubled = within.scaled(np.array([2.0, 1.0]))
    assert doubled.mass == pytest.approx([12 / 7, 3 / 7])
    assert clusters_of(replace(rows, design=doubled)) == [pytest.approx([0, 3 / 7]), pytest.approx([12 / 7, 0])]


@pytest.mark.parametrize(
    ("columns", "reading", "error", "message"),
    [
        ({"w": [-1.0, 2, 3, 4, 5, 6]}, {"weight": "w"}, errors.BadWeight, "'w' has 1 rows with a negative weight"),
        ({"w": [None, 2.0, 3, 4, 5, 6]}, {"weight": "w"}, errors.MissingValues, "weight: column 'w' has 1 rows"),
        ({"w": [0.0] * 6}, {"weight": "w"}, errors.BadWeight, "all weights are 0"),
        ({"c": [None, "p", "q", "q", "r", "p"]}, {"cluster": "c"}, errors.MissingValues, "cluster: column 'c' has 1"),
        ({}, {"weight": "g"}, errors.WrongType, "weight: column 'g' is String; weights are numbers"),
        ({}, {"cluster": "z"}, errors.UnknownColumn, "cluster: no column 'z'"),
        ({}, {"cluster": "g"}, errors.UsageError, "cluster: 'g' is also a group"),
    ],
)
def test_bad_weights_and_clusters(
    columns: dict[str, Any], reading: dict[str, Any], error: type[Exception], message: str
) -> None:
    def read() -> None:
        opened = open_source(TABLE | columns, **reading)
        opened.cells(request(opened))

    with pytest.raises(error, match=message):
        read()


def test_rows_without_a_weight_or_a_cluster_are_dropped_and_counted() -> None:
    table = TABLE | {"w": [None, 2.0, 0.5, 0.0, 1.5, 1.0], "c": ["p", None, "q", "q", "r", "p"]}
    opened = open_source(table, weight="w", cluster="c", missing="drop")
    cells = opened.cells(request(opened))
    assert cells.rows == 4
    assert dict(cells.dropped) == {"w": 1, "c": 1}
    assert cells.mass.sum() == pytest.approx(4)


@pytest.mark.parametrize(
    "values", [["b", "a", "b"], [7, 3, 7], [10**15, -5, 10**15], [0.5, 0.25, 0.5], [True, False, True]]
)
def test_equal_clusters_have_equal_numbers(values: list[Any]) -> None:
    codes, number = code_column(pl.Series(values))
    assert codes[0] == codes[2] != codes[1]
    assert codes.min() >= 0
    assert codes.max() < number


def test_lines_that_weigh_nothing_can_be_left_out() -> None:
    opened = open_source(TABLE, weight="w", cluster="c")
    rows = opened.rows(Request(grouping(opened.schema, "g"), numeric={"x": "x"}))
    kept = rows.weighing()
    assert kept.size == 5
    assert kept.columns["x"].tolist() == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert kept.partitions[0].codes.tolist() == [0, 0, 1, 0, 1]
    assert kept.weighing() is kept
    assert clusters_of(kept) == [row[:3] + row[4:] for row in clusters_of(rows)]


PARTS = [(1, 1), (1_000_000, 1), (3_000_000, 3), (8_000_000, 8), (1e8, 8), (1e9, 63)]


@pytest.mark.parametrize(("rows", "parts"), PARTS)
def test_parts_are_few_and_none_is_too_large(rows: float, parts: int) -> None:
    assert design.number_of_parts(rows) == parts
