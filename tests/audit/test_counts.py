"""The grouped query, and its result in place of the rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isonomy.audit import Audit
from isonomy.audit.config import build
from isonomy.audit.counts import COUNT, grouped_query, on_counts
from isonomy.errors import ConfigError
from support.same import same

CONFIG: dict[str, Any] = {
    "data": {"path": "people.parquet"},
    "columns": {
        "prediction": {"column": "decision", "equals": "yes"},
        "outcome": "outcome",
        "score": "score",
        "groups": ["race", {"column": "age", "edges": [25, 45]}],
    },
    "filters": [
        {"column": "year", "op": ">=", "value": 2020},
        {"column": "city", "op": "in", "value": ["O'Hara", "B"]},
        {"column": "city", "op": "is present"},
        {"column": "year", "op": "!=", "value": 2022},
    ],
    "tests": [
        {"kind": "flag", "metric": "tpr", "depth": 2},
        {"kind": "flag", "metric": "selection_rate", "groups": [{"column": "age", "edges": [30]}]},
        {"kind": "certify", "metric": "fpr", "filters": [{"column": "city", "value": "B"}]},
        {"kind": "flag", "id": "own", "metric": {"name": "m", "value": "outcome", "binary": True}},
    ],
}


def people(n: int = 3_000) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "race": [("a", "b", "c")[i * i % 3] for i in range(n)],
            "age": [18 + i * 7 % 60 + 0.5 for i in range(n)],
            "decision": ["yes" if i * 11 % 7 < 3 else "no" for i in range(n)],
            "outcome": [i * 13 % 5 < 2 for i in range(n)],
            "score": [i % 97 / 97 for i in range(n)],
            "year": [2018 + i * 3 % 7 for i in range(n)],
            "city": [("O'Hara", "B", "C", None)[i * 17 % 4] for i in range(n)],
        }
    ).with_columns(pl.col("outcome").cast(pl.Int64))


def answered(query: str, engine: str, table: pl.DataFrame) -> pl.DataFrame:
    """The result of the query on an engine."""
    if engine == "duckdb":
        connection = pytest.importorskip("duckdb").connect()
        connection.register("people", table.to_arrow())
        return pl.DataFrame(connection.sql(query).fetchall(), schema=connection.sql(query).columns, orient="row")
    lite = sqlite3.connect(":memory:")
    lite.execute(f"create table people ({', '.join(table.columns)})")
    lite.executemany(f"insert into people values ({', '.join('?' * table.width)})", table.rows())
    cursor = lite.execute(query)
    names = [item[0] for item in cursor.description]
    return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_counts_give_the_numbers_of_the_rows(engine: str, tmp_path: Path) -> None:
    table = people()
    table.write_parquet(tmp_path / "people.parquet")
    audit = Audit.from_dict(CONFIG, folder=tmp_path)
    counts = answered(grouped_query(audit.config), engine, table)
    assert len(counts) < 400
    assert "score" not in counts.columns
    assert "year" not in counts.columns
    counts.write_csv(tmp_path / "counts.csv")
    expected, got = audit.run(), on_counts(audit, tmp_path / "counts.csv").run()
    for name, result in expected.results.items():
        same(got[name].table(), result.table())
    assert got.document.data == "counts.csv"  # not the folder of the user who ran it


def test_a_count_column_is_summed_and_a_query_is_asked() -> None:
    keys = {**CONFIG, "data": {"query": "select * from x;", "engine": "duckdb", "count": "n"}}
    text = grouped_query(build(keys))
    assert f'SUM("n") AS "{COUNT}"' in text
    assert "FROM (\nselect * from x\n) AS" in text
    assert "FROM risk.decisions\n" in grouped_query(build(keys), "risk.decisions")


@pytest.mark.parametrize(
    "test",
    [
        {"kind": "flag", "metric": "brier"},
        {"kind": "predictive_parity"},
        {"kind": "flag", "metric": {"name": "m", "value": "v"}},
    ],
)
def test_what_needs_rows_is_refused(test: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="needs the rows themselves"):
        grouped_query(build({**CONFIG, "tests": [test]}))


def test_names_are_quoted_and_a_table_is_needed() -> None:
    strange = build(
        {"columns": {"prediction": 'a"b', "groups": "g h"}, "tests": [{"kind": "flag", "metric": "selection_rate"}]}
    )
    assert '  "a""b",\n' in grouped_query(strange, "t")
    with pytest.raises(ConfigError, match="--table"):
        grouped_query(strange)


@pytest.mark.parametrize("design", [{"weight": "w"}, {"cluster": "branch"}])
def test_weights_and_clusters_are_refused_with_a_remedy(design: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"Run isonomy audit where the rows are .* or remove weight and cluster"):
        grouped_query(build({**CONFIG, "data": {"path": "x.csv", **design}}))
