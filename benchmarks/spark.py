"""What does each question ask of Spark: jobs, shuffles, results at the driver; and its time beside local polars.

    python benchmarks/spark.py [rows, default 200,000]

The cluster is ``local-cluster[2,1,1024]``: two workers of one core and 1 GB each, in processes of their own. Both
engines read the same parquet files. A shuffle is a stage that writes rows for another one. Counts are from Spark's
event log; processor seconds are those of this process, of Spark's driver and of its workers.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import isonomy as iso
from benchmarks import results
from benchmarks.clock import processor
from benchmarks.scale import CASES, write

RESULT, SHUFFLED = "internal.metrics.resultSize", "internal.metrics.shuffle.write.recordsWritten"


def session(log: str) -> Any:
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in {
        "ui.enabled": "false",
        "driver.host": "127.0.0.1",
        "driver.bindAddress": "127.0.0.1",
        "executor.memory": "1g",
        "executorEnv.PYTHONPATH": str(Path(iso.__file__).parents[1]),
        "sql.shuffle.partitions": "4",
        "eventLog.enabled": "true",
        "eventLog.rolling.enabled": "false",
        "eventLog.compress": "false",
        "eventLog.dir": Path(log).as_uri(),
    }.items():
        builder = builder.config(f"spark.{name}", value)
    return builder.getOrCreate()


def counted(log: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Jobs, shuffles and bytes of results by the description of a job."""
    jobs, shuffles, sizes = Counter[str](), Counter[str](), Counter[str]()
    owner: dict[int, str] = {}
    for line in next(Path(log).iterdir()).read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            name = event["Properties"].get("spark.job.description", "")
            jobs[name] += 1
            owner |= dict.fromkeys(event["Stage IDs"], name)
        elif event["Event"] == "SparkListenerStageCompleted":
            stage = event["Stage Info"]
            metrics = {entry["Name"]: entry.get("Value", 0) for entry in stage["Accumulables"]}
            name = owner.get(stage["Stage ID"], "")
            shuffles[name] += int(metrics.get(SHUFFLED, 0)) > 0
            sizes[name] += int(metrics.get(RESULT, 0))
    return jobs, shuffles, sizes


def used() -> float:
    """Processor seconds of this process and of all that it started."""
    parent, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = path.read_text().rpartition(")")[2].split()
            parent[int(path.parent.name)], ticks[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, other in parent.items() if other in mine} - mine:
        mine |= more
    return sum(ticks[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


def main(rows: int) -> None:
    """Ask every question of both engines, and write the table."""
    times: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as log:
        write(Path(folder), rows)
        spark = session(log)
        spark.sparkContext.setLogLevel("ERROR")
        table = spark.read.parquet(folder)
        table.groupBy("group").count().collect()  # the workers have started
        for name, (_, call) in CASES.items():
            if not name.startswith(("bare", "an audit")):
                spark.sparkContext.setJobDescription(name)
                start = used()
                call(table)
                times[name] = used() - start, processor(partial(call, f"{folder}/*.parquet"))
                print(name, *times[name], flush=True)
        spark.stop()
        jobs, shuffles, sizes = counted(log)
    lines = [
        [name, f"{jobs[name]}", f"{shuffles[name]}", f"{sizes[name] / 1e3:,.0f}", f"{ours:.1f}", f"{local:.1f}"]
        for name, (ours, local) in times.items()
    ]
    head = [f"{rows:,} rows", "jobs", "shuffles", "kB of results", "Spark: processor s", "polars: processor s"]
    results.write("Spark", f"python benchmarks/spark.py {rows}", results.table(head, lines))


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["200000"])[0]))
