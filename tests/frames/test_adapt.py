"""Any table becomes one kind of frame; anything else is refused with a message that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from isonomy import errors
from isonomy.frames import Request, Sample, collect, open_source
from isonomy.frames.adapt import adapt, in_words
from support.engines import ENGINES

Sizes = Callable[..., dict[str, float]]
GOOD = {"race": ["a", "b", "a"], "y": [0, 1, 1]}


@pytest.mark.parametrize(
    ("kind", "backend", "lazy"),
    [
        ("mapping", "mapping", False),
        ("polars", "polars", False),
        ("polars-lazy", "polars", True),
        ("pandas", "pandas", False),
        ("pyarrow", "pyarrow", False),
        ("duckdb", "duckdb", True),
    ],
)
def test_where_the_rows_came_from_is_remembered(kind: str, backend: str, lazy: bool) -> None:
    adapted = adapt(GOOD if kind == "mapping" else ENGINES[kind](GOOD))
    assert adapted[1:3] == (backend, lazy)
    assert collect(adapted[0]).sort("race", "y")["race"].to_list() == ["a", "a", "b"]


def test_a_narwhals_frame_is_taken_for_what_it_wraps() -> None:
    assert adapt(nw.from_native(pl.DataFrame(GOOD)))[1] == "polars"
    assert adapt(nw.from_native(pl.DataFrame(GOOD).lazy()))[2]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (GOOD | {"race": ["a", "b"]}, errors.LengthMismatch, "race: 2, y: 3"),
        (GOOD | {"race": ["a", 1, "b"]}, errors.MixedTypes, "number, str"),
        (GOOD | {"race": "aba"}, errors.UsageError, "array with one value"),
        (GOOD | {"y": np.ones((3, 2))}, errors.UsageError, "'y' has 2 dimensions"),
        ({}, errors.EmptyFrame, "no columns"),
        (42, errors.UsageError, "cannot read int"),
        ("nowhere.parquet", errors.UsageError, "no file"),
    ],
)
def test_what_cannot_be_read(data: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        adapt(data)


@pytest.mark.parametrize("name", ["*", "^a.*$", "^$"])
def test_names_that_read_as_patterns_are_refused(name: str) -> None:
    with pytest.raises(errors.UsageError, match="reads as a pattern of names; rename the column"):
        adapt({name: ["x", "y"], "a": ["p", "q"]})


@pytest.mark.parametrize("name", ["^a", "a$", "a*", "**", "a.*", "[ab]", "$", "^"])
def test_names_that_only_resemble_patterns_are_columns(name: str, sizes: Sizes) -> None:
    assert sizes({"a": ["p", "q"], "ab": ["p", "q"], name: ["x", "y"]}, name) == {f"{name}=x": 1, f"{name}=y": 1}


def test_nan_is_null_on_every_engine(engine: Any) -> None:
    values = [1.0, float("nan"), float("inf"), None]
    numbers = collect(adapt(engine({"x": values}))[0])["x"].cast(pl.Float64)
    assert sorted(numbers.to_list(), key=str) == [1.0, None, None, float("inf")]


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


def test_duplicate_columns_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(errors.DuplicateColumns, match="race"):
        open_source(pandas.DataFrame([["a", "b"]], columns=["race", "race"]))
    with pytest.raises(errors.DuplicateColumns, match="race"):
        open_source(arrow.table([["a"], ["b"]], names=["race", "race"]))


def test_a_pandas_column_of_mixed_types_is_refused(tally: Callable[..., Sample]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"race": ["a", 1, "b"], "y": [0, 1, 1]})
    with pytest.raises(errors.MixedTypes, match="race"):
        tally(frame)
    with pytest.raises(errors.MixedTypes, match="race"):
        tally(frame, groups="y", numeric={"score": "race"})


def test_columns_of_a_mapping_may_come_from_any_library(sizes: Sizes) -> None:
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


def test_codes_with_leading_zeros_stay_text(tmp_path: Path, sizes: Sizes) -> None:
    path = tmp_path / "zip.csv"
    path.write_text("zip,x\n02139,1\n2139,2\n00501,3\n")
    assert sizes(path, "zip") == {"zip=00501": 1, "zip=02139": 1, "zip=2139": 1}
    assert sizes(path, "x") == {"x=1": 1, "x=2": 1, "x=3": 1}


@pytest.mark.parametrize(
    ("text", "income"),
    [
        ("age;income;who\n25;1,5;a\n30;2,75;b\n", [1.5, 2.75]),
        ("age;income;who\n25;1.5;a\n30;2.75;b\n", [1.5, 2.75]),
        ('"age";"income";"who"\n25;1;"a, b"\n30;2;"c"\n', [1, 2]),
        ("age\tincome\twho\n25\t1.5\ta\n30\t2.75\tb\n", [1.5, 2.75]),
        ("age|income|who\n25|1|a\n30|2|b\n", [1, 2]),
    ],
    ids=["decimal commas", "points", "quoted", "tabs", "bars"],
)
def test_a_csv_may_be_separated_otherwise(tmp_path: Path, text: str, income: list[float]) -> None:
    path = tmp_path / "d.csv"
    path.write_text(text)
    table = open_source(path).head(10)
    assert table.columns == ["age", "income", "who"]
    assert table["income"].to_list() == income


def test_a_csv_with_one_header_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("g,h,g\na,1,b\n")
    with pytest.raises(errors.DuplicateColumns, match="called 'g', with different values"):
        open_source(path)
    path.write_text("g,h,g\na,1,a\n,2,\n")  # an identical copy is left out
    assert list(open_source(path).schema) == ["g", "h"]


def test_paths_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: Sizes) -> None:
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


def test_an_empty_file_and_an_unknown_suffix(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "table.xyz").write_text("x")
    with pytest.raises(errors.EmptyFrame):
        open_source(tmp_path / "empty.csv")
    with pytest.raises(errors.UsageError, match="is neither parquet nor csv"):
        open_source(tmp_path / "table.xyz")


def test_spreadsheets_need_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("fastexcel")

    (tmp_path / "table.xlsx").write_text("x")
    monkeypatch.setattr(pl, "read_excel", absent)
    with pytest.raises(errors.UsageError, match=r'is a spreadsheet; save the sheet as CSV.*"isonomy\[excel\]"'):
        open_source(tmp_path / "table.xlsx")


def test_a_spreadsheet_is_read_like_its_csv(tmp_path: Path) -> None:
    pytest.importorskip("fastexcel")
    writer = pytest.importorskip("xlsxwriter")
    table = pl.DataFrame(
        {"g": ["a", "b"] * 800, "p": [0, 1, 1, 1] * 400, "s": [0.5, 1.0] * 800, "late": [None] * 1599 + [2]}
    )
    table.write_excel(tmp_path / "table.xlsx")
    table.write_csv(tmp_path / "table.csv")
    one, other = (open_source(tmp_path / f"table.{kind}") for kind in ("xlsx", "csv"))
    assert one.head(2_000).equals(other.head(2_000))  # with the only value of "late", in the last row
    book = writer.Workbook(tmp_path / "two.xlsx")
    for name in ("first", "second"):
        table.head(3).write_excel(book, worksheet=name)
    book.close()
    with pytest.raises(errors.UsageError, match=r"several sheets \('first', 'second'\); save the one you mean"):
        open_source(tmp_path / "two.xlsx")
    pl.DataFrame({"g": []}).write_excel(tmp_path / "empty.xlsx")
    with pytest.raises(errors.EmptyFrame):
        open_source(tmp_path / "empty.xlsx")
    (tmp_path / "broken.xlsx").write_bytes(b"PK")
    with pytest.raises(errors.DataError, match="cannot be read as a spreadsheet"):
        open_source(tmp_path / "broken.xlsx")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (nw.col("age") < 30, "age is below 30"),
        ((nw.col("age") >= 30) & (nw.col("sex") == "Male"), "age is at least 30 and sex is Male"),
        (nw.col("race").is_in(["a", "b"]), "race is one of 'a', 'b'"),
        (nw.col("income").abs() > 3, "col(income).abs().__gt__(3)"),
    ],
)
def test_conditions_in_words(condition: nw.Expr, words: str) -> None:
    assert in_words(condition) == words


def test_a_folder_without_parquet(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="holds no parquet file"):
        adapt(tmp_path)


def test_unreadable_files_are_a_data_error(tmp_path: Path, sizes: Sizes) -> None:
    corrupt = tmp_path / "corrupt.parquet"
    corrupt.write_bytes(b"PAR1 nothing of the kind PAR1")
    with pytest.raises(errors.DataError):
        sizes(corrupt, "g")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("g\ncafé\n".encode("latin-1"))
    with pytest.raises(errors.DataError):
        sizes(latin, "g")
