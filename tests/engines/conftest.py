"""The engines that whole methods run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import engines


@pytest.fixture(
    params=[
        *("polars-lazy", "pandas", "pyarrow", "duckdb", "ibis", "parquet"),
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> engines.Engine:
    """A function that puts a mapping of arrays into one engine.

    A mapping is a polars frame in memory, and a csv file is scanned like a parquet file: ``tests/frames`` has both.
    """
    kind = request.param
    if kind == "spark":
        session = request.getfixturevalue("spark")
        return lambda columns: engines.spark(session, columns)
    return engines.files(tmp_path, kind) if kind == "parquet" else engines.ENGINES[kind]
