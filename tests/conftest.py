"""What all tests share: every engine, and the folder of public datasets."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import polars as pl
import pytest

# One seed by default, so that a red test is red for everyone; HYPOTHESIS_PROFILE=explore looks further.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=30)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long simulations run only when asked for: ``-m validity``. Spark tests share one worker."""
    asked = bool(config.getoption("-m"))
    skip = pytest.mark.skip(reason="a long simulation: make validity")
    for item in items:
        if item.get_closest_marker("spark"):  # Spark leaves sockets to the garbage collector
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            item.add_marker(pytest.mark.xdist_group("spark"))  # one session, in one worker
            if "engines" in item.path.parts and not asked:  # a method on Spark takes minutes, not seconds
                item.add_marker(pytest.mark.skip(reason="a whole method on Spark: make spark"))
        if item.get_closest_marker("validity") and not asked:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public datasets; tests that need it are skipped where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ISONOMY_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no public datasets: set ISONOMY_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark session."""
    if shutil.which("java") is None:
        pytest.skip("no Java: PySpark cannot start")
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark would take the first python3 on the path
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("isonomy")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


Columns = Mapping[str, Any]
Engine = Callable[[Columns], Any]


def _duckdb(columns: Columns) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    table = pl.DataFrame(dict(columns)).to_arrow()
    return connection.from_arrow(table)


def _pandas(columns: Columns) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({name: list(v) if np.asarray(v).dtype.kind in "UO" else v for name, v in columns.items()})


def _spark(session: Any, columns: Columns) -> Any:
    frame = pl.DataFrame(dict(columns))
    # From rows, not from pandas: Spark warns about pandas 3.
    return session.createDataFrame(frame.rows(), list(frame.columns))


ENGINES: dict[str, Engine] = {
    "mapping": dict,
    "polars": lambda columns: pl.DataFrame(dict(columns)),
    "polars-lazy": lambda columns: pl.DataFrame(dict(columns)).lazy(),
    "pandas": _pandas,
    "pyarrow": lambda columns: pl.DataFrame(dict(columns)).to_arrow(),
    "duckdb": _duckdb,
}


@pytest.fixture(params=[*ENGINES, "parquet", "csv", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """A function that puts a mapping of arrays into one engine; the test runs once for each of them."""
    kind = request.param
    if kind in ENGINES:
        return ENGINES[kind]
    if kind == "spark":
        session = request.getfixturevalue("spark")
        return lambda columns: _spark(session, columns)

    written = itertools.count()

    def write(columns: Columns) -> Path:
        path = tmp_path / f"data{next(written)}.{kind}"
        frame = pl.DataFrame(dict(columns))
        frame.write_parquet(path) if kind == "parquet" else frame.write_csv(path)
        return path

    return write
