"""Shared fixtures: every engine, the folder of public datasets, and the selection of slow tests."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from support import data, engines

# One seed by default, so that a failing test fails for everyone; HYPOTHESIS_PROFILE=explore draws new examples.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=20)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


# Tests that need Spark without saying so in their names.
ON_SPARK = ("engines/test_cluster.py", "frames/test_workers.py")
# They take longest, so they start first: otherwise one worker would wait for the other at the end.
LONG = ("tests/test_documentation.py", "tests/test_examples.py", "tests/recorded/", "tests/validity/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of one file run in one worker, which makes what they share once; all tests on Spark share one session.

    The recorded calls are a large part of all tests, so each of their topics counts as a file.
    """
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, name = nodeid.partition("::")
            if "spark" in name or file.endswith(ON_SPARK):
                return "spark"
            return f"{file}::{name.partition('-')[0]}" if file.endswith("test_recorded.py") else file

    config.option.loadscopereorder = False  # in the order of the collection, not by the number of tests
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files come first; long simulations run only with ``-m validity``."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    asked = bool(config.getoption("-m"))
    skip = pytest.mark.skip(reason="a long simulation: pytest -m validity")
    for item in items:
        if item.get_closest_marker("spark"):  # Spark leaves sockets to be closed by the garbage collector
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            if "engines" in item.path.parts and not asked:  # a method on Spark takes minutes, not seconds
                item.add_marker(pytest.mark.skip(reason="a whole method on Spark: make spark"))
        if item.get_closest_marker("validity") and not asked:
            item.add_marker(skip)
        if item.get_closest_marker("install") and not asked:
            item.add_marker(pytest.mark.skip(reason="installs into an empty environment: make installed"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected lasts to the end: without this, a tenth of the time goes to scanning it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public datasets; tests that need it are skipped if there is none."""
    folder = data.folder()
    if folder is None:
        pytest.skip("no public datasets: set ISONOMY_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark session."""
    if shutil.which("java") is None:
        pytest.skip("no Java: PySpark cannot start")
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise Spark uses the first python3 on the path
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("isonomy")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")  # few rows: compiling a query takes longer than running it
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the charts, which take most of the time and are tested elsewhere."""
    monkeypatch.setattr("isonomy.report.layout.chart", lambda result: (None, ""))


@pytest.fixture(params=[*engines.ENGINES, "parquet", "csv", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> engines.Engine:
    """A function that puts a mapping of arrays into one engine; the test runs once per engine."""
    kind = request.param
    if kind in engines.ENGINES:
        return engines.ENGINES[kind]
    if kind == "spark":
        session = request.getfixturevalue("spark")
        return lambda columns: engines.spark(session, columns)
    return engines.files(tmp_path, kind)
