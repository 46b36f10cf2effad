"""The same small table through every kind of input: identical tallies, identical rows."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.frames import Request, Source, open_source

TABLE: dict[str, list[Any]] = {
    "race": ["b", "w", "w", "b", "w", "w", "b", "w"],
    "sex": ["f", "m", "f", "m", "m", "f", "f", "m"],
    "age": [19, 31, 52, 24, 25, 44, 45, 70],
    "outcome": [0, 1, 1, 0, 1, 0, 1, 1],
    "prediction": [1, 1, 0, 0, 1, 1, 1, 0],
    "score": [0.25, 0.5, 0.75, 0.125, 1.0, 0.0, 0.5, 0.25],
}

# Finest cells in canonical order: race, sex, age band, outcome, prediction.
CELLS = [
    # count, sum of score, sum of score squared
    (1, 0.25, 0.0625),  # b f <25 0 1
    (1, 0.5, 0.25),  # b f >=45 1 1
    (1, 0.125, 0.015625),  # b m <25 0 0
    (1, 0.0, 0.0),  # w f 25-45 0 1
    (1, 0.75, 0.5625),  # w f >=45 1 0
    (2, 1.5, 1.25),  # w m 25-45 1 1
    (1, 0.25, 0.0625),  # w m >=45 1 0
]
LABELS = ["race=b", "race=w", "sex=f", "sex=m", "age=<25", "age=25 to <45", "age=>=45", "young"]
SIZES = [3, 5, 4, 4, 2, 3, 3, 2]


def request_for(source: Source) -> Request:
    young = iso.where("young", nw.col("age") < 25)
    return Request(
        grouping=source.grouping(["race", "sex", iso.cut("age", [25, 45]), young]),
        binary={"outcome": "outcome", "prediction": "prediction"},
        numeric={"score": "score"},
        values={"score": nw.col("score"), "square": nw.col("score") * nw.col("score")},
    )


def test_every_engine_gives_the_same_tally(engine: Any) -> None:
    source = open_source(engine(TABLE))
    tally = source.cells(request_for(source))
    assert tally.count.tolist() == [c for c, _, _ in CELLS]
    assert tally.values["score"].tolist() == [s for _, s, _ in CELLS]
    assert tally.values["square"].tolist() == [q for _, _, q in CELLS]
    assert tally.rows == 8
    assert [g.label for p in tally.partitions for g in p.groups] == LABELS
    assert np.concatenate([p.sum(tally.count) for p in tally.partitions]).tolist() == SIZES


def test_rows_roll_up_to_the_tally(engine: Any) -> None:
    source = open_source(engine(TABLE))
    request = request_for(source)
    tally, rows = source.cells(request), source.rows(request)
    for cells, lines in zip(tally.partitions, rows.partitions, strict=True):
        assert cells.groups == lines.groups
        assert cells.sum(tally.values["score"]).tolist() == lines.sum(rows.columns["score"]).tolist()
        assert cells.sum(tally.count).tolist() == lines.sum(np.ones(rows.size)).tolist()


def test_an_aggregated_table_stands_for_its_rows(engine: Any) -> None:
    whole = pl.DataFrame(TABLE | {"n": [1, 2, 0, 3, 1, 1, 2, 1]})
    repeated = whole.select(pl.exclude("n").repeat_by("n")).explode(pl.all()).to_dict(as_series=False)
    aggregated = open_source(engine(whole.to_dict(as_series=False)), count="n")
    plain = open_source(engine(repeated))
    one, other = aggregated.cells(request_for(aggregated)), plain.cells(request_for(plain))
    assert one.count.tolist() == other.count.tolist()
    assert one.values["square"].tolist() == other.values["square"].tolist()
    assert aggregated.rows(request_for(aggregated)).rows == plain.rows(request_for(plain)).rows == 11


def test_intersections_to_a_chosen_depth(engine: Any) -> None:
    source = open_source(engine(TABLE))
    tally = source.cells(Request(grouping=source.grouping(["race", "sex"], depth=2)))
    labels = [g.label for p in tally.partitions for g in p.groups]
    assert labels[4:] == ["race=b & sex=f", "race=b & sex=m", "race=w & sex=f", "race=w & sex=m"]
    assert tally.partitions[2].sum(tally.count).tolist() == [2, 1, 2, 3]


@pytest.mark.filterwarnings("ignore")
def test_ibis_is_accepted() -> None:
    ibis = pytest.importorskip("ibis")
    try:
        table = ibis.memtable(pl.DataFrame(TABLE).to_arrow())
        table.count().execute()
    except Exception as error:
        pytest.skip(f"Ibis does not work with the installed DuckDB and sqlglot: {error}")
    source = open_source(table)
    assert source.cells(request_for(source)).count.tolist() == [c for c, _, _ in CELLS]
