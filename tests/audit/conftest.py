"""A table of decisions, three tests, and an audit file with every key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit

COLUMNS = {"outcome": "outcome", "prediction": "prediction", "score": "score", "groups": ["race"]}
TESTS: list[dict[str, Any]] = [
    {"kind": "flag", "metric": "tpr"},
    {"kind": "flag", "metric": "fpr"},
    {
        "kind": "improvability",
        "groups": "sex",
        "status_quo": "prediction",
        "candidate": "better",
        "method": {"splits": {"rounds": 1, "resamples": 100, "published": True}},
    },
]
GOOD = """\
title = "Half-year audit"
seed = 7
fail_on = ["violation", "inconclusive"]
suppress_below = 20

[data]
path = "decisions-*.parquet"
missing = "drop"

[columns]
outcome = "repaid"
prediction = "approved"
groups = [
  "race",
  {column = "age", edges = [25, 45]},
  {name = "young men", where = [{column = "age", op = "<", value = 25}, {column = "sex", value = "Male"}]},
]

[[filters]]
column = "year"
op = "in"
value = [2025, 2026]

[[tests]]
kind = "flag"
metric = "tpr"
tolerance = 0.02
reference = {race = "White"}

[[tests]]
kind = "flag"
metric = {name = "thin files", value = "approved", where = [{column = "accounts", op = "<", value = 3}], binary = true}
"""


@pytest.fixture
def good() -> str:
    """The text of an audit file without a mistake."""
    return GOOD


@pytest.fixture(scope="session")
def table() -> pl.DataFrame:
    """3,000 decisions and better alternative decisions."""
    frame = iso.simulate.decisions(3_000, seed=1).frame()
    return frame.with_columns((pl.col("score") > 0.6).cast(pl.Int8).alias("better"))


@pytest.fixture(scope="session")
def parquet(table: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in a file, with a column that no test needs."""
    path = tmp_path_factory.mktemp("data") / "decisions.parquet"
    table.with_columns(pl.lit("unused").alias("unused")).write_parquet(path)
    return path


@pytest.fixture(scope="session")
def audit() -> Callable[..., Audit]:
    """A function that creates an audit of a table or of the rows at ``place``; ``keys`` are those of the file."""

    def of(
        table: object = None,
        tests: list[dict[str, Any]] | None = None,
        *,
        place: dict[str, Any] | None = None,
        folder: str | Path = ".",
        **keys: Any,
    ) -> Audit:
        config = {"columns": COLUMNS, "tests": tests or TESTS, "data": place or {}, **keys}
        return Audit.from_dict(config, data=table, folder=folder)

    return of
