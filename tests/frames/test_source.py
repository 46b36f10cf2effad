"""An opened table: the same sums from every engine, computed once, under the names of each question."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.frames import Request, Source, open_source
from isonomy.frames.metrics import measure

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
LABELS = ["race=b", "race=w", "sex=f", "sex=m", "age < 25", "age 25 to <45", "age >= 45", "young"]
SIZES = [3, 5, 4, 4, 2, 3, 3, 2]
SMALL = {"g": ["a", "b", "a"], "x": [1.0, 2.0, 2.0], "n": [1, 2, 3]}


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
    assert tally.counts.tolist() == [c for c, _, _ in CELLS]
    assert tally.values["score"].tolist() == [s for _, s, _ in CELLS]
    assert tally.values["square"].tolist() == [q for _, _, q in CELLS]
    assert tally.rows == 8
    assert [g.label for p in tally.partitions for g in p.groups] == LABELS
    assert np.concatenate([p.sum(tally.counts) for p in tally.partitions]).tolist() == SIZES


def test_rows_roll_up_to_the_tally(engine: Any) -> None:
    source = open_source(engine(TABLE))
    request = request_for(source)
    tally, rows = source.cells(request), source.rows(request)
    for cells, lines in zip(tally.partitions, rows.partitions, strict=True):
        assert cells.groups == lines.groups
        assert cells.sum(tally.values["score"]).tolist() == lines.sum(rows.columns["score"]).tolist()
        assert cells.sum(tally.counts).tolist() == lines.sum(np.ones(rows.size)).tolist()


def test_an_aggregated_table_stands_for_its_rows(engine: Any) -> None:
    whole = pl.DataFrame(TABLE | {"n": [1, 2, 0, 3, 1, 1, 2, 1]})
    repeated = whole.select(pl.exclude("n").repeat_by("n").explode()).to_dict(as_series=False)
    aggregated = open_source(engine(whole.to_dict(as_series=False)), count="n")
    plain = open_source(engine(repeated))
    one, other = aggregated.cells(request_for(aggregated)), plain.cells(request_for(plain))
    assert one.counts.tolist() == other.counts.tolist()
    assert one.values["square"].tolist() == other.values["square"].tolist()
    assert aggregated.rows(request_for(aggregated)).rows == plain.rows(request_for(plain)).rows == 11


def test_intersections_to_a_chosen_depth(engine: Any) -> None:
    source = open_source(engine(TABLE))
    tally = source.cells(Request(grouping=source.grouping(["race", "sex"], depth=2)))
    labels = [g.label for p in tally.partitions for g in p.groups]
    assert labels[4:] == ["race=b & sex=f", "race=b & sex=m", "race=w & sex=f", "race=w & sex=m"]
    assert tally.partitions[2].sum(tally.counts).tolist() == [2, 1, 2, 3]


@pytest.mark.filterwarnings("ignore")
def test_ibis_is_accepted() -> None:
    ibis = pytest.importorskip("ibis")
    try:
        table = ibis.memtable(pl.DataFrame(TABLE).to_arrow())
        table.count().execute()
    except Exception as error:
        pytest.skip(f"Ibis does not work with the installed DuckDB and sqlglot: {error}")
    source = open_source(table)
    assert source.cells(request_for(source)).counts.tolist() == [c for c, _, _ in CELLS]


def test_two_requests_never_share_an_answer() -> None:
    """Expressions with the same repr are not the same."""
    data = {"g": ["a", "b"] * 2000, "zip": np.arange(4000), "text": ["1"] * 4000, "y": np.arange(4000) // 2000}
    source = open_source(data)
    first = np.r_[0:1500, 3997:4000]
    second = np.r_[0:3, 2000:3497, 3997:4000]

    def rate(where: nw.Expr) -> float:
        bound = measure(source, iso.Metric("m", value=iso.col("y"), where=where, binary=True))
        cells = source.cells(bound.request)
        inside = bound.inside(cells)
        return float((bound.value(cells) * cells.counts)[inside].sum() / cells.counts[inside].sum())

    assert rate(iso.col("zip").is_in(first)) == pytest.approx(3 / 1503)
    assert rate(iso.col("zip").is_in(second)) == pytest.approx(1500 / 1503)
    assert repr(iso.col("text") == 1) == repr(iso.col("text") == "1")
    assert rate(iso.col("text") == "1") == pytest.approx(0.5)


def listed(*values: float) -> nw.Expr:
    """A condition with an object that has no representation; only identity distinguishes two of them."""

    class Values(list[float]):
        pass

    return nw.col("x").is_in(Values(values))


def test_what_cannot_be_written_down_is_told_apart(passes: list[list[str]]) -> None:
    source = open_source(SMALL)
    ones, twos = listed(1.0), listed(2.0)
    for condition, expected in ((ones, 1.0), (twos, 2.0), (ones, 1.0)):
        assert source.cells(Request(values={"v": condition})).values["v"].tolist() == [expected]
    assert len(passes) == 2  # the third question was already answered


def test_expressions_live_as_long_as_their_source() -> None:
    """The id of a deleted object may be reused, so a source keeps the objects that it remembers by id."""
    source = open_source(SMALL)
    condition = listed(1.0)
    source.cells(Request(values={"v": condition}))
    alive = weakref.ref(condition)
    del condition
    gc.collect()
    assert alive() is not None
    del source
    gc.collect()
    assert alive() is None


def test_a_pass_is_not_repeated(passes: list[list[str]]) -> None:
    source = open_source(SMALL)
    for _ in range(2):  # the second time, the expressions are other objects with the same meaning
        source.sums({"g": nw.col("g")}, {"x": nw.col("x"), "square": nw.col("x") * nw.col("x")})
    source.sums({"g": nw.col("g")}, {"another name": nw.col("x")})
    source.sums({"g": nw.col("g")}, {})
    assert passes == [["g"]]
    source.sums({"g": nw.col("g")}, {"x": nw.col("x"), "double": nw.col("x") * 2})
    assert passes == [["g"], ["g"]]  # only for the new sum
    source.sums({}, {"x": nw.col("x")})
    assert passes == [["g"], ["g"], []]


def test_one_pass_serves_two_requests_with_one_name_for_two_values(passes: list[list[str]]) -> None:
    source = open_source({"x": [1.0, 2.0]})
    requests = [Request(values={"v": nw.col("x")}), Request(values={"v": nw.col("x") * 10})]
    source.prefetch(requests)
    assert [source.cells(r).values["v"].tolist() for r in requests] == [[3.0], [30.0]]
    assert len(passes) == 1


def test_a_table_that_changes_between_passes_is_refused() -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("create table t as select range % 2 as g, range as x from range(100)")
    source = open_source(connection.table("t"))
    grouping = source.grouping("g")
    source.cells(Request(grouping=grouping))
    connection.execute("delete from t where g = 0 and x > 10")
    with pytest.raises(errors.DataError, match="changed between two passes"):
        source.cells(Request(grouping=grouping, values={"x": nw.col("x")}))


def test_conditions_must_be_conditions(engine: Any) -> None:
    source = open_source(engine({"s": ["x", ""], "k": [1, 2]}))
    with pytest.raises(errors.UsageError, match=r"where\('a'\): the expression gives"):
        source.grouping(iso.where("a", iso.col("s")))
    with pytest.raises(errors.UsageError, match="Columns: s, k"):
        source.grouping(iso.where("a", iso.col("nope") > 1))


def test_a_request_without_keys_sees_every_row(engine: Any) -> None:
    source = open_source(engine({"x": [1.0, 2.0, 3.0]}))
    assert source.cells(Request()).counts.tolist() == [3]
    assert source.cells(Request(values={"one": nw.lit(1.0)})).values["one"].tolist() == [3]
    assert source.rows(Request(values={"one": nw.lit(1.0)})).size == 3


def test_a_line_that_stands_for_no_row_cannot_spoil_a_sum(engine: Any) -> None:
    source = open_source(engine({"x": [1.0, 0.0], "n": [2, 0]}), count="n")
    assert source.cells(Request(values={"v": nw.col("x").log()})).values["v"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"count": "race"}, errors.WrongType, "whole numbers"),
        ({"count": "nn"}, errors.UnknownColumn, "count: no column 'nn'.*Did you mean 'n'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        open_source({"race": ["a"], "n": [1]}, **options)


def test_a_source_passes_through_under_its_own_options() -> None:
    source = open_source(SMALL, count="n")
    assert open_source(source) is open_source(source, count="n") is source
    with pytest.raises(errors.UsageError, match="set them where the source is opened"):
        open_source(source, missing="drop")


def test_a_derived_table_keeps_the_options() -> None:
    source = open_source(SMALL, count="n", missing="drop", missing_group="level")
    others = [
        source.derived(source.frame),
        source.filter(nw.col("x") > 1),
        source.with_columns({"double": nw.col("x") * 2}),
        source.numbered("row"),
        source.narrowed(["g", "n"], None, hold=False),
    ]
    for other in others:
        assert (other.count, other.missing, other.missing_group) == ("n", "drop", "level")
    assert [other.cells(Request()).rows for other in others] == [6, 5, 6, 6, 6]
    assert others[2].cells(Request(values={"v": nw.col("double")})).values["v"].tolist() == [22.0]


def test_rows_are_numbered_from_0(engine: Any) -> None:
    source = open_source(engine({"x": [5.0, 7.0, 9.0]}))
    rows = source.numbered('row "1"').head(3).sort("x")
    numbers = rows['row "1"'].to_list()
    assert numbers[0] == 0
    if source.backend == "pyspark":  # a new range in each partition
        assert sorted(set(numbers)) == numbers
    else:
        assert numbers == [0, 1, 2]


def test_extremes_are_those_of_finite_values(engine: Any) -> None:
    table = {"g": ["a", "a", "b", "b"], "x": [3.0, -1.0, float("inf"), 2.0]}
    source = open_source(engine(table))
    ends = source.extremes(nw.col("x"), {"g": nw.col("g")})
    assert ends.rows() == [("a", -1.0, 3.0), ("b", 2.0, 2.0)]
    assert source.extremes(nw.col("x") * 2, {}).rows() == [(-2.0, 6.0)]


def test_a_narrowed_table_has_the_rows_and_columns_asked_for(engine: Any) -> None:
    source = open_source(engine(SMALL))
    for hold in (True, False):
        narrow = source.narrowed(["x", "g", "unknown"], nw.col("x") > 1, hold=hold)
        assert list(narrow.schema) == ["g", "x"]  # in the order of the table
        assert sorted(narrow.head(9).rows()) == [("a", 2.0), ("b", 2.0)]
        assert not (hold and narrow.lazy)
    assert source.narrowed(["x"], None, hold=False).cells(Request()).rows == 3


def test_different_values_are_counted_where_they_are(engine: Any) -> None:
    source = open_source(engine({"u": [1, 1, 2, 3, 3, 3]}))
    assert source.distinct("u", 100) == (3, 6)
    assert source.distinct("u", 6) == (3, 6)
