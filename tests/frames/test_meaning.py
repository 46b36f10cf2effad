"""One meaning on every engine: names that collide, missing values in conditions, narrow numbers, odd categories."""

from __future__ import annotations

from datetime import date
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


def sizes(data: Any, groups: Any, **options: Any) -> dict[str, float]:
    source = open_source(data, **options)
    tally = source.cells(Request(grouping=source.grouping(groups)))
    lines = source.rows(Request(grouping=source.grouping(groups)))
    by_cell = {g.label: n for p in tally.partitions for g, n in zip(p.groups, p.sum(tally.count), strict=True)}
    weight = np.ones(lines.size) if lines.weight is None else lines.weight
    by_row = {g.label: n for p in lines.partitions for g, n in zip(p.groups, p.sum(weight), strict=True)}
    assert by_cell == by_row
    return by_cell


@pytest.mark.parametrize("name", ["outcome", "prediction", "value", "inside", "score", "complete", "__count", "__k0"])
def test_a_group_may_be_called_like_a_role(name: str) -> None:
    data = {name: ["x", "z"] * 10, "y": [0, 1] * 10, "p": [0, 1, 1, 1] * 5, "s": np.linspace(0, 1, 20)}
    source = open_source(data)
    grouping = source.grouping(name)
    own = iso.Metric("own", value=iso.col("s"), where=iso.col("p") == 1)
    for metric in ("tpr", "brier", "mean_prediction", own):
        bound = measure(source, metric, grouping=grouping, outcome="y", prediction="p", score="s")
        got: Any = source.cells(bound.request) if bound.binary else source.rows(bound.request)
        assert [g.label for g in got.partitions[0].groups] == [f"{name}=x", f"{name}=z"]


def test_labels_do_not_depend_on_other_categories_in_the_process() -> None:
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
def test_levels_of_every_kind(levels: list[Any]) -> None:
    expected = {f"g={level}": float(levels.count(level)) for level in levels}
    assert sizes({"g": levels}, "g") == expected


def test_categories_and_enumerations() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"g": pandas.Categorical(["b", "a", None, "b"], categories=["z", "b", "a"])})
    assert sizes(frame, "g", missing_group="level") == {"g=a": 1, "g=b": 2, "g=(missing)": 1}
    enum = pl.DataFrame({"g": pl.Series(["b", "a", "b"], dtype=pl.Enum(["z", "b", "a"]))})
    assert sizes(enum, "g") == {"g=a": 1, "g=b": 2}


def test_two_requests_never_share_an_answer() -> None:
    """Expressions that print alike are not alike."""
    data = {"g": ["a", "b"] * 2000, "zip": np.arange(4000), "text": ["1"] * 4000, "y": np.arange(4000) // 2000}
    source = open_source(data)
    first = np.r_[0:1500, 3997:4000]
    second = np.r_[0:3, 2000:3497, 3997:4000]

    def rate(where: nw.Expr) -> float:
        bound = measure(source, iso.Metric("m", value=iso.col("y"), where=where, binary=True))
        got = source.cells(bound.request)
        inside = bound.inside(got)
        return float((bound.value(got) * got.count)[inside].sum() / got.count[inside].sum())

    assert rate(iso.col("zip").is_in(first)) == pytest.approx(3 / 1503)
    assert rate(iso.col("zip").is_in(second)) == pytest.approx(1500 / 1503)
    assert repr(iso.col("text") == 1) == repr(iso.col("text") == "1")
    assert rate(iso.col("text") == "1") == pytest.approx(0.5)


def test_narrow_numbers_do_not_overflow() -> None:
    data = pl.DataFrame(
        {
            "a": pl.Series([200], dtype=pl.Int16),
            "b": pl.Series([300], dtype=pl.Int16),
            "c": pl.Series([1], dtype=pl.UInt8),
        }
    )
    for expr, expected in ((nw.col("a") * nw.col("b"), 60_000.0), (nw.col("c") - 2 * nw.col("c"), -1.0)):
        assert open_source(data).cells(Request(values={"v": expr})).values["v"].tolist() == [expected]


def test_a_missing_condition_is_a_missing_group(engine: Any) -> None:
    data = engine({"age": [50.0, None, 20.0], "k": [1, 2, 3]})
    old = iso.where("old", iso.col("age") >= 45)
    source = open_source(data)
    with pytest.raises(errors.MissingGroups, match="'old' has 1 rows"):
        source.cells(Request(grouping=source.grouping(old)))
    assert sizes(data, old, missing_group="drop") == {"old": 1}
    assert sizes(data, iso.where("unknown age", iso.col("age").is_null())) == {"unknown age": 1}


def test_nan_in_a_condition_is_missing_on_every_engine(engine: Any) -> None:
    data = engine({"age": [50.0, float("nan"), 20.0]})
    source = open_source(data)
    with pytest.raises(errors.MissingGroups, match="1 rows"):
        source.cells(Request(grouping=source.grouping(iso.where("old", iso.col("age") >= 45))))


def test_a_missing_metric_condition_is_not_dropped_silently(engine: Any) -> None:
    data = engine({"k": [1, None, 3], "y": [0, 1, 1]})
    metric = iso.Metric("m", value=iso.col("y"), where=iso.col("k") < 3, binary=True)
    source = open_source(data)
    with pytest.raises(errors.MissingValues, match="inside: the expression has 1 rows"):
        source.cells(measure(source, metric).request)


def test_conditions_must_be_conditions(engine: Any) -> None:
    source = open_source(engine({"s": ["x", ""], "k": [1, 2]}))
    with pytest.raises(errors.UsageError, match=r"where\('a'\): the expression gives"):
        source.grouping(iso.where("a", iso.col("s")))
    with pytest.raises(errors.UsageError, match="Columns: s, k"):
        source.grouping(iso.where("a", iso.col("nope") > 1))


def test_a_request_without_keys_sees_every_row(engine: Any) -> None:
    source = open_source(engine({"x": [1.0, 2.0, 3.0]}))
    assert source.cells(Request()).count.tolist() == [3]
    assert source.cells(Request(values={"one": nw.lit(1.0)})).values["one"].tolist() == [3]
    assert source.rows(Request(values={"one": nw.lit(1.0)})).size == 3


def test_a_line_that_stands_for_no_row_cannot_spoil_a_sum(engine: Any) -> None:
    source = open_source(engine({"x": [1.0, 0.0], "n": [2, 0]}), count="n")
    assert source.cells(Request(values={"v": nw.col("x").log()})).values["v"].tolist() == [0.0]


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


def test_one_pass_serves_two_requests_with_one_name_for_two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.frames import source as module

    passes: list[object] = []
    original = module.aggregate
    monkeypatch.setattr(module, "aggregate", lambda *a: passes.append(a) or original(*a))
    source = open_source({"x": [1.0, 2.0]})
    requests = [Request(values={"v": nw.col("x")}), Request(values={"v": nw.col("x") * 10})]
    source.prefetch(requests)
    assert [source.cells(r).values["v"].tolist() for r in requests] == [[3.0], [30.0]]
    assert len(passes) == 1


def test_scores_outside_0_and_1_are_not_probabilities() -> None:
    source = open_source({"y": [0, 1], "s": [0.5, 650.0]})
    for metric in ("brier", "log_loss"):
        with pytest.raises(errors.OutOfRange, match=r"1 rows outside \[0, 1\]"):
            source.rows(measure(source, metric, outcome="y", score="s").request)


def test_codes_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "zip.csv"
    path.write_text("zip,x\n02139,1\n2139,2\n00501,3\n")
    assert sizes(path, "zip") == {"zip=00501": 1, "zip=02139": 1, "zip=2139": 1}
    assert sizes(path, "x") == {"x=1": 1, "x=2": 1, "x=3": 1}


def test_a_csv_with_one_header_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("g,h,g\na,1,b\n")
    with pytest.raises(errors.DuplicateColumns, match="called 'g', with different values"):
        open_source(path)
    path.write_text("g,h,g\na,1,a\n,2,\n")  # a copy that says the same is left out
    assert list(open_source(path).schema) == ["g", "h"]


def test_paths_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in "ab":
        folder = tmp_path / "hive" / f"race={level}"
        folder.mkdir(parents=True)
        pl.DataFrame({"x": [1, 2]}).write_parquet(folder / "part-0.parquet")
    assert sizes(tmp_path / "hive", "race") == {"race=a": 2, "race=b": 2}
    assert sizes(str(tmp_path / "hive" / "*" / "*.parquet"), "x") == {"x=1": 2, "x=2": 2}
    odd = tmp_path / "odd[1].parquet"
    pl.DataFrame({"g": ["a"]}).write_parquet(odd)
    assert sizes(odd, "g") == {"g=a": 1}
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sizes("~/odd[1].parquet", "g") == {"g=a": 1}


def test_unreadable_files_are_a_data_error(tmp_path: Path) -> None:
    corrupt = tmp_path / "corrupt.parquet"
    corrupt.write_bytes(b"PAR1 nothing of the kind PAR1")
    with pytest.raises(errors.DataError):
        sizes(corrupt, "g")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("g\ncafé\n".encode("latin-1"))
    with pytest.raises(errors.DataError):
        sizes(latin, "g")


def test_columns_of_a_mapping_may_come_from_any_library() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    data = {
        "g": pandas.Series(["a", None, "b"]),
        "h": pandas.Series([1, None, 2], dtype="Int64"),
        "i": arrow.chunked_array([[1, 2, 3]]),
        "j": ["x", float("nan"), "y"],
        "k": pl.Series([1, 2, 3]),
    }
    assert sizes(data, "g", missing_group="level") == {"g=a": 1, "g=b": 1, "g=(missing)": 1}
    assert sizes(data, "h", missing_group="level") == {"h=1": 1, "h=2": 1, "h=(missing)": 1}
    assert sizes(data, "i") == {"i=1": 1, "i=2": 1, "i=3": 1}
    assert sizes(data, "j", missing_group="level") == {"j=x": 1, "j=y": 1, "j=(missing)": 1}
    with pytest.raises(errors.UsageError, match="is a set"):
        open_source({"g": {"a", "b"}})
    with pytest.raises(errors.DuplicateColumns):
        open_source({1: [1], "1": [2]})


def test_column_names_must_be_text() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(errors.UsageError, match="the column name 0 is not text"):
        open_source(pandas.DataFrame([[1, 2]]))


def test_cut_labels_are_distinct() -> None:
    assert iso.cut("income", [50_000, 1_000_000, 1_000_001]).labels == (
        "<50000", "50000 to <1000000", "1000000 to <1000001", ">=1000001",
    )  # fmt: skip


def test_two_conditions_together_keep_both_names() -> None:
    data = {"a": [1, 2, 3], "b": [1, 1, 2]}
    groups = [iso.where("low a", iso.col("a") < 3), iso.where("low b", iso.col("b") < 2)]
    source = open_source(data)
    tally = source.cells(Request(grouping=source.grouping(groups, depth=2)))
    both = tally.partitions[2].groups[0]
    assert both.label == "low a & low b"
    assert dict(both.mapping) == {"": "low a & low b"}
    assert tally.partitions[2].sum(tally.count).tolist() == [2]
