"""Real Spark: what runs on the workers, the number of jobs, and an audit on two worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy.results import from_dict
from support import engines
from support.same import same
from support.tables import users, write_partitions

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"outcome": "outcome", "groups": "sex"}
SMALL: dict[str, Any] = {"outcome": "outcome", "groups": iso.cut("score", [k / 10 for k in range(-15, 16)])}
# A test, and the number of Spark jobs that it may use.
ASKED: dict[str, tuple[Callable[[Any], Any], int]] = {
    "flag": (lambda data: iso.flag(data, metric="tpr", prediction="decision", **ROLES), 2),
    "project": (lambda data: iso.project(data, prediction="decision", score="score", threshold=0.25, **ROLES), 20),
    "treatment_bias": (
        lambda data: iso.treatment_bias(data, effect="effect", treatment="treated", measure="difference", **ROLES),
        2,
    ),
    "improvability": (lambda data: iso.improvability(data, status_quo="decision", candidate="better", **ROLES), 2),
    "predictive_parity": (lambda data: iso.predictive_parity(data, score="chance", user="user", rng=1, **ROLES), 8),
    "mean": (lambda data: iso.flag(data, metric="mean_prediction", prediction="score", groups="sex"), 6),
    "means of many small groups": (lambda data: iso.flag(data, metric="brier", score="chance", **SMALL), 6),
    "marginal_outcomes": (lambda data: iso.marginal_outcomes(data, score="chance", threshold=0.5, **ROLES), 10),
}


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    return users(4_000)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of everything that the driver collects."""
    from pyspark.sql.classic.dataframe import DataFrame

    asked: list[str] = []

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *options: Any) -> Any:
            asked.append(self._jdf.queryExecution().optimizedPlan().toString())
            return original(self, *options)

        return call

    for name in ("collect", "toArrow", "toPandas", "toLocalIterator", "head", "take"):
        monkeypatch.setattr(DataFrame, name, watched(getattr(DataFrame, name)))
    return asked


def aggregates(plan: str) -> bool:
    """Whether rows are summed before they leave the workers: above the sums, a plan only renames and drops columns."""
    first = (line.strip(" +-:") for line in plan.splitlines())
    return next(line for line in first if not line.startswith(("Project", "Filter"))).startswith("Aggregate")


@pytest.mark.parametrize("test", ASKED)
def test_no_row_comes_to_the_driver(spark: Any, columns: dict[str, Any], plans: list[str], test: str) -> None:
    ask, most = ASKED[test]
    data = engines.spark(spark, columns)
    spark.sparkContext.setJobGroup(test, test)
    ask(data)
    assert plans
    assert all(map(aggregates, plans)), next(plan for plan in plans if not aggregates(plan))
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(test)
    assert len(jobs) <= most


def test_rows_that_come_to_the_driver_are_noticed(spark: Any, columns: dict[str, Any], plans: list[str]) -> None:
    iso.flag(engines.spark(spark, columns), metric="auc", score="chance", **ROLES)
    assert not all(map(aggregates, plans))  # a rank needs the rows


def test_workers_send_few_rows(spark: Any, columns: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.frames.sums.SENT", 3_999)
    data = engines.spark(spark, columns)
    with pytest.raises(
        iso.errors.UsageError, match=r"needs the rows themselves, of which Spark's workers send .*3,999"
    ):
        iso.flag(data, metric="auc", score="chance", **ROLES)


FILE = """
[data]
path = "people"
engine = "spark"

[columns]
outcome = "outcome"
prediction = "decision"
groups = ["sex"]

[[tests]]
kind = "flag"
metric = "tpr"

[[tests]]
kind = "predictive_parity"
score = "chance"
user = "user"
"""


@pytest.fixture
def partitioned(tmp_path: Path, columns: dict[str, Any]) -> Path:
    write_partitions(pl.DataFrame(columns), tmp_path / "people")
    (tmp_path / "audit.toml").write_text(FILE)
    return tmp_path


def test_an_audit_on_two_worker_processes(partitioned: Path, columns: dict[str, Any]) -> None:
    pyspark = pytest.importorskip("pyspark")
    log = partitioned / "events"
    log.mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # compiling is not worthwhile for few rows
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": f"--master local-cluster[2,1,1024] {given} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    command = [sys.executable, "-m", "isonomy", "audit", "audit.toml"]
    done = subprocess.run(
        command, cwd=partitioned, env=environment, capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode in (0, 1), done.stderr[-2_000:]  # 1: a violation was shown
    written = json.loads((partitioned / "isonomy-report" / "results.json").read_text())
    assert [test["error"] for test in written["tests"]] == [None, None]
    parity = written["tests"][1]
    expected = iso.predictive_parity(columns, score="chance", user="user", rng=parity["seed"], **ROLES)
    same(from_dict(parity["result"]), expected, ("pvalue",))
    kinds = [event["Event"].removeprefix("SparkListener") for event in events(log)]
    assert kinds.count("ExecutorAdded") == 2
    assert 0 < kinds.count("JobStart") <= 16


def events(log: Path) -> Iterator[dict[str, Any]]:
    """The event log of a Spark application."""
    for file in log.iterdir():
        yield from (json.loads(line) for line in file.read_text().splitlines())
