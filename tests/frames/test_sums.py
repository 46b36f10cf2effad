"""The traps of plain aggregation, each as a test on every engine."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import DataError, MissingValues
from isonomy.frames import COUNT, Request, aggregate, collect, missing, open_source
from isonomy.frames.adapt import adapt
from isonomy.frames.sums import identity, in_order, number_rows


def grouped(data: Any, **values: nw.Expr) -> pl.DataFrame:
    frame = adapt(data)[0]
    return collect(aggregate(frame, {"g": nw.col("g")}, values)).sort("g")


def test_a_conditional_sum_honours_its_condition(engine: Any) -> None:
    data = engine({"g": ["a", "a", "b", "b"], "x": [1.0, 2.0, 3.0, 4.0], "k": [1, 0, 1, 1]})
    kept = nw.when(nw.col("k") == 1).then(nw.col("x")).otherwise(nw.lit(0.0))
    assert grouped(data, kept=kept)["kept"].to_list() == [1.0, 7.0]


def test_booleans_can_be_summed(engine: Any) -> None:
    data = engine({"g": ["a", "a", "b"], "x": [True, True, False]})
    assert grouped(data, n=nw.col("x"))["n"].to_list() == [2.0, 0.0]
    assert grouped(data, n=nw.col("x"))["n"].dtype == pl.Float64


def test_float32_is_summed_in_double_precision() -> None:
    n = 2_000_000
    for data in (
        pl.DataFrame({"g": np.zeros(n, np.int8), "x": np.full(n, 0.1, np.float32)}),
        pl.DataFrame({"g": np.zeros(n, np.int8), "x": np.full(n, 0.1, np.float32)}).to_arrow(),
    ):
        total = grouped(data, x=nw.col("x"))["x"][0]
        assert total == pytest.approx(n * float(np.float32(0.1)), rel=1e-9)


def test_large_integer_sums_come_back_as_floats() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql("select 1 as g, (9000000000000000000 + range)::bigint as x from range(3)")
    total = grouped(relation, x=nw.col("x"))["x"]
    assert total.dtype == pl.Float64
    assert total[0] == pytest.approx(2.7e19)


def test_decimals_are_summed() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql("select 1 as g, 0.10::decimal(10, 2) as x from range(5)")
    assert grouped(relation, x=nw.col("x"))["x"][0] == pytest.approx(0.5)
    eager = pl.DataFrame({"g": [1, 1], "x": [Decimal("0.10"), Decimal("0.25")]})
    assert grouped(eager, x=nw.col("x"))["x"][0] == pytest.approx(0.35)


def test_nan_in_parquet_is_counted_by_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = np.arange(1000.0)
    values[::5] = np.nan
    path = tmp_path / "nan.parquet"
    pl.DataFrame({"g": np.zeros(1000, int), "x": values}).write_parquet(path)
    relation = duckdb.connect().read_parquet(str(path))
    source = open_source(relation)
    with pytest.raises(MissingValues, match="200 rows"):
        source.cells(Request(grouping=source.grouping("g"), numeric={"score": "x"}))
    source = open_source(relation, missing="drop")
    request = Request(grouping=source.grouping("g"), numeric={"score": "x"}, values={"x": nw.col("x")})
    tally = source.cells(request)
    assert tally.dropped == {"x": 200}
    assert tally.rows == 800
    assert tally.values["x"].sum() == np.nansum(values)


def test_equal_expressions_have_one_identity() -> None:
    assert identity(nw.col("x") * 2) == identity(nw.col("x") * 2)
    different = [nw.col("x") == 1, nw.col("x") == "1", nw.col("x") == 1.0, nw.col("y") == 1]
    assert len({identity(expression) for expression in different}) == 4


def test_a_function_inside_an_expression_is_equal_to_itself_alone() -> None:
    def scaled(by: float) -> nw.Expr:
        return nw.col("x").map_batches(lambda values: values * by)

    twice, thrice, again = scaled(2), scaled(3), scaled(2)
    assert identity(twice) == identity(twice)
    assert len({identity(twice), identity(thrice), identity(again)}) == 3


def test_missing_is_null_nan_or_infinite(engine: Any) -> None:
    frame = adapt(engine({"g": [1, 2, 3, 4], "x": [1.0, None, float("inf"), float("nan")]}))[0]
    cells = collect(aggregate(frame, {"g": nw.col("g")}, {"x": missing(nw.col("x"), nw.Float64())}))
    assert in_order(cells, ["g"])["x"].to_list() == [0.0, 1.0, 1.0, 1.0]


def test_rows_of_an_ibis_table_can_be_numbered() -> None:
    table = pytest.importorskip("ibis").memtable(pl.DataFrame({"x": [0.5, 1.5, 2.5]}).to_arrow())
    adapted = adapt(table)
    numbered = collect(number_rows(adapted[0], "row", "ibis"))
    assert sorted(numbered["row"].to_list()) == [0, 1, 2]


def test_sums_can_be_summed_again(engine: Any) -> None:
    frame = adapt(engine({"user": [1, 1, 2], "x": [1.0, 2.0, 4.0]}))[0]
    each = aggregate(frame, {"user": nw.col("user")}, {"x": nw.col("x")})
    total = collect(aggregate(each, {}, {"squares": nw.col("x") * nw.col("x")}))
    assert total.rows() == [(2.0, 25.0)]


def test_sums_of_all_rows(engine: Any) -> None:
    data = engine({"x": [1.0, 2.0, 4.0]})
    frame = adapt(data)[0]
    total = collect(aggregate(frame, {}, {"x": nw.col("x"), "two": nw.lit(2.0)}))
    assert total.rows(named=True) == [{COUNT: 3.0, "x": 7.0, "two": 6.0}]
    assert collect(aggregate(frame, {}, {})).rows(named=True) == [{COUNT: 3.0}]
    assert collect(aggregate(frame.filter(nw.col("x") > 9), {}, {"x": nw.col("x")})).is_empty()


def test_sums_of_all_rows_are_no_groups() -> None:
    """polars buffers the rows of a group-by with one group: 100 million rows took 8 GB."""
    frame = adapt(pl.LazyFrame({"x": [1.0, 2.0]}))[0]
    plan = aggregate(frame, {}, {"x": nw.col("x")}).to_native().explain()
    assert "AGGREGATE" not in plan
    assert "AGGREGATE" in aggregate(frame, {"x": nw.col("x")}, {}).to_native().explain()


def test_keys_are_plain_and_in_one_order() -> None:
    cells = pl.DataFrame(
        {"g": pl.Series(["b", None, "a"], dtype=pl.Categorical), "h": [2.0, None, 1.0], "i": [0.5, 1.0, 2.0]}
    )
    ordered = in_order(cells, ["g", "h", "i"])
    assert ordered["g"].to_list() == ["a", "b", None]
    assert ordered.dtypes == [pl.String, pl.Int64, pl.Float64]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop("x"), "did not find column x.* Files of one table need the same columns and types"),
        (lambda table: table.cast({"x": pl.String}), "mismatch for column x.* need the same columns and types"),
    ],
)
def test_files_of_a_table_that_differ(change: Any, message: str, tmp_path: Path) -> None:
    table = pl.DataFrame({"g": [1, 2], "x": [0.5, 1.0]})
    table.write_parquet(tmp_path / "a.parquet")
    change(table).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=message):
        grouped(tmp_path, x=nw.col("x"))


def test_a_file_that_changes_between_two_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"g": np.arange(50_000) % 3, "x": np.random.default_rng(0).random(50_000)}).write_parquet(path)
    frame = adapt(path)[0]
    assert len(collect(aggregate(frame, {"g": nw.col("g")}, {"x": nw.col("x")}))) == 3
    pl.DataFrame({"g": [1], "x": [0.5]}).write_parquet(path)
    with pytest.raises(DataError, match="a file is damaged, or changed while it was read"):
        collect(aggregate(frame, {"g": nw.col("g")}, {"x": nw.col("x")}))


def _broken(_: object) -> None:
    raise KeyError("of the caller's own")


@pytest.mark.parametrize(
    "broken",
    [
        pl.LazyFrame({"p": [0, 1], "g": ["a", "b"]}).map_batches(_broken, schema={"p": pl.Int64, "g": pl.String}),  # type: ignore[arg-type]
        pl.LazyFrame({"p": ["0", "x"], "g": ["a", "b"]}).with_columns(pl.col("p").cast(pl.Int64)),
        pl.LazyFrame({"p": [0, 1], "g": ["a", "b"]}).with_columns(p=pl.col("p").gather([7, 8])),
    ],
)
def test_a_lazy_frame_that_fails_when_it_is_read(broken: pl.LazyFrame) -> None:
    with pytest.raises(DataError, match="data: the table cannot be read"):
        iso.flag(broken, metric="selection_rate", prediction="p", groups="g")
