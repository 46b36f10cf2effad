"""Every frame library and engine, from one mapping of columns; what the mapping itself gives is the answer expected."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

Columns = Mapping[str, Any]
Engine = Callable[[Columns], Any]


_EXPECTED: dict[tuple[object, ...], tuple[Any, Any]] = {}


def expected(call: Callable[..., Any], columns: Any, **options: Any) -> Any:
    """The answer of a call about a table in memory, computed once for all engines."""
    key = (call, id(columns), repr(options))
    if key not in _EXPECTED:
        _EXPECTED[key] = (columns, call(columns, **options))  # the columns stay alive, and so their id is not reused
    return _EXPECTED[key][1]


def frame(columns: Columns) -> pl.DataFrame:
    """A polars frame, from which the other engines are filled."""
    return pl.DataFrame(dict(columns))


def pandas(columns: Columns) -> Any:
    """A pandas frame; text has the dtype object, as is common."""
    library = pytest.importorskip("pandas")
    return library.DataFrame({name: list(v) if np.asarray(v).dtype.kind in "UO" else v for name, v in columns.items()})


def duckdb(columns: Columns) -> Any:
    """A DuckDB relation."""
    return pytest.importorskip("duckdb").connect().from_arrow(frame(columns).to_arrow())


def ibis(columns: Columns) -> Any:
    """An Ibis table on DuckDB."""
    return pytest.importorskip("ibis").memtable(frame(columns).to_arrow())


def spark(session: Any, columns: Columns) -> Any:
    """A Spark frame, made from arrow because Spark warns about pandas 3."""
    return session.createDataFrame(frame(columns).to_arrow(compat_level=pl.CompatLevel.oldest()))


def files(folder: Path, kind: str) -> Engine:
    """A function that writes columns to a new file of ``kind`` ("parquet" or "csv") and returns its path."""
    numbers = itertools.count()

    def write(columns: Columns) -> Path:
        path = folder / f"data{next(numbers)}.{kind}"
        table = frame(columns)
        table.write_parquet(path) if kind == "parquet" else table.write_csv(path)
        return path

    return write


# The engines that need neither a folder nor a session; the fixture `engine` adds those that do.
ENGINES: dict[str, Engine] = {
    "polars": frame,
    "polars-lazy": lambda columns: frame(columns).lazy(),
    "pandas": pandas,
    "pyarrow": lambda columns: frame(columns).to_arrow(),
    "duckdb": duckdb,
    "ibis": ibis,
}
