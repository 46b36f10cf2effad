"""The audited table: opened according to the file, reduced to the needed columns, and fingerprinted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit, AuditResult
from isonomy.audit.config import Data
from isonomy.audit.forms import Condition
from isonomy.audit.table import identified, narrow, open_table
from isonomy.errors import ConfigError, DataError, EmptyFrame
from isonomy.frames import Source
from support.same import same

FLAGS = [{"kind": "flag", "metric": "tpr"}, {"kind": "flag", "metric": "fpr"}]
MakeAudit = Callable[..., Audit]


def numbers(result: AuditResult) -> dict[str, Any]:
    return {test["id"]: test.get("result") for test in result.to_dict()["tests"]}


def test_every_kind_of_input_gives_the_same_numbers(table: pl.DataFrame, parquet: Path, audit: MakeAudit) -> None:
    expected = numbers(audit(table).run())
    file = {"path": parquet.name}
    for place in (file, {"path": "*.parquet"}, {"path": str(parquet)}):
        same(numbers(audit(place=place, folder=parquet.parent).run()), expected)


def test_a_query_is_left_to_its_engine(parquet: Path, audit: MakeAudit) -> None:
    pytest.importorskip("duckdb")
    query = {"engine": "duckdb", "query": "select * from decisions", "tables": {"decisions": parquet.name}}
    done = audit(tests=FLAGS, place=query, folder=parquet.parent).run()
    assert dict(done.document.facts)["Backend"] == "duckdb"
    assert done.document.rows == 3_000
    broken = {**query, "query": "select * from nothing"}
    with pytest.raises(ConfigError, match=r"data\.query: DuckDB cannot run it"):
        audit(tests=FLAGS, place=broken, folder=parquet.parent).run()


def test_a_database_is_read_and_not_written(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.execute("create table people as select range as x from range(5)")
    data: dict[str, Any] = {"engine": "duckdb", "database": "a.db"}
    opened = open_table(Data(**data, query="select * from people where x > 1"), tmp_path)
    assert opened.source.head(9)["x"].to_list() == [2, 3, 4]
    with pytest.raises(ConfigError, match="exactly one SELECT"):
        open_table(Data(**data, query="drop table people"), tmp_path)


@pytest.mark.spark
def test_a_spark_query(parquet: Path, audit: MakeAudit, spark: Any) -> None:
    query = {"engine": "spark", "query": "select * from decisions", "tables": {"decisions": parquet.name}}
    done = audit(tests=FLAGS[:1], place=query, folder=parquet.parent).run()
    assert done.document.rows == 3_000
    assert done.results


@pytest.fixture
def folder(tmp_path: Path, table: pl.DataFrame) -> Path:
    """The table in a folder partitioned by race, as engines write it."""
    for (race,), part in table.group_by("race"):
        place = tmp_path / "decisions" / f"race={race}"
        place.mkdir(parents=True)
        part.drop("race").write_parquet(place / "part.parquet")
    return tmp_path / "decisions"


@pytest.mark.parametrize("engine", [None, "duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_partitioned_folder(
    engine: str | None, folder: Path, table: pl.DataFrame, audit: MakeAudit, request: pytest.FixtureRequest
) -> None:
    """Every engine reads the column that names the folders."""
    if engine == "spark":
        request.getfixturevalue("spark")
    asked = {"engine": engine} if engine else {}
    done = audit(tests=FLAGS[:1], place={"path": folder.name, **asked}, folder=folder.parent).run()
    assert done.document.rows == len(table)
    same(numbers(done), numbers(audit(table, tests=FLAGS[:1]).run()))


def test_files_are_read_once_and_only_the_needed_columns(
    parquet: Path, audit: MakeAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    narrowed = Source.narrowed

    def watched(self: Source, columns: Any, condition: Any, *, hold: bool) -> Source:
        assert hold
        source = narrowed(self, columns, condition, hold=hold)
        read.append(list(source.schema))
        return source

    monkeypatch.setattr(Source, "narrowed", watched)
    audit(place={"path": str(parquet)}).run()
    assert read == [["race", "sex", "outcome", "prediction", "score", "better"]]


def test_the_table_of_the_caller_takes_the_place_of_the_file(table: pl.DataFrame, tmp_path: Path) -> None:
    opened = open_table(Data(path="nothing.parquet", missing="drop"), tmp_path, table)
    assert (opened.name, opened.size, opened.source.missing) == ("a polars table", None, "drop")


@pytest.mark.parametrize(("held", "lazy"), [(2**30, False), (0, True)])
def test_files_of_moderate_size_are_held(parquet: Path, held: int, lazy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.audit.table.HELD_BYTES", held)
    opened = open_table(Data(path=parquet.name), parquet.parent)
    source = narrow(opened, ["race", "outcome"], [Condition(column="sex", value="Male")])
    assert source.lazy is lazy
    assert list(source.schema) == ["race", "outcome"]
    assert identified(source).rows == len(pl.read_parquet(parquet).filter(pl.col("sex") == "Male"))


def test_filters_that_leave_nothing(table: pl.DataFrame, audit: MakeAudit) -> None:
    with pytest.raises(EmptyFrame, match="no row is left"):
        audit(table, filters=[{"column": "race", "value": "nobody"}]).run()
    selected = {"column": "prediction", "equals": 1}  # no row has the value then, but that is not the problem
    test = {"kind": "flag", "metric": "selection_rate", "prediction": selected}
    with pytest.raises(EmptyFrame, match="no row is left"):
        audit(table, filters=[{"column": "race", "value": "nobody"}], tests=[test]).run()


def test_no_data(audit: MakeAudit) -> None:
    with pytest.raises(ConfigError, match="no path and no query"):
        audit(None).run()
    with pytest.raises(iso.errors.UsageError, match="no file at"):
        audit(place={"path": "nothing.parquet"}).run()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_without_rows(table: pl.DataFrame, audit: MakeAudit, tmp_path: Path, kind: str) -> None:
    empty, path = table[:0], tmp_path / f"d.{kind}"
    empty.write_csv(path) if kind == "csv" else empty.write_parquet(path)
    with pytest.raises(EmptyFrame, match="data: the table has no rows"):
        audit(place={"path": path.name}, folder=tmp_path).run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("copy (select 1) to 'out.csv'", "exactly one SELECT statement is allowed; DuckDB reads: COPY"),
        ("select 1; drop table decisions", "DuckDB reads: SELECT, DROP"),
        ("create table t as select 1", "DuckDB reads: CREATE"),
        ("attach 'b.db'", "DuckDB reads: ATTACH"),
        ("", "DuckDB reads: none"),
        ("select * from 'secret.csv'", "Permission Error"),
        ("select * from read_text('secret.csv')", "Permission Error"),
        ("select * from glob('*')", "Permission Error"),
    ],
)
def test_a_query_only_selects_from_what_is_named(query: str, words: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "people.csv").write_text("x\n1\n")
    (tmp_path / "secret.csv").write_text("y\n2\n")
    data = Data(engine="duckdb", query=query, tables={"people": "people.csv"})
    with pytest.raises((ConfigError, DataError), match=words):
        open_table(data, tmp_path).source.head(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "secret.csv"]


def test_the_tables_of_a_query_are_files_and_globs(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    for i in range(2):
        pl.DataFrame({"x": [i]}).write_csv(tmp_path / f"p{i}.csv")
        pl.DataFrame({"x": [i]}).write_parquet(tmp_path / f"it's {i}.parquet")
    tables = {'odd "name"': "p*.csv", "q": "it's ?.parquet"}
    query = 'select sum(x) as n from (select x from "odd ""name""" union all select x from q)'
    opened = open_table(Data(engine="duckdb", query=query, tables=tables), tmp_path)
    assert opened.source.head(1).rows() == [(2,)]
    with pytest.raises(ConfigError, match=r"data\.tables\.q: no file at"):
        open_table(Data(engine="duckdb", query="select 1", tables={"q": "none.csv"}), tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("query", ["drop table people", "create table t as select 1", "insert into people select 1"])
def test_a_spark_query_only_selects(query: str, tmp_path: Path, spark: Any) -> None:
    with pytest.raises(ConfigError, match="exactly one SELECT statement is allowed; Spark reads"):
        open_table(Data(engine="spark", query=query), tmp_path)


@pytest.mark.spark
def test_a_spark_query_names_no_files(tmp_path: Path, spark: Any) -> None:
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "secret.parquet")
    query = f"select * from parquet.`{tmp_path / 'secret.parquet'}`"
    with pytest.raises(ConfigError, match="Spark cannot run it"):
        open_table(Data(engine="spark", query=query), tmp_path)
    assert spark.sql(query).count() == 1  # the session is unchanged
