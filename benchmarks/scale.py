"""How do time and memory grow with the rows? Files on disk, every method compared with a bare group-by of its columns.

    python benchmarks/scale.py [rows, default 10,000,000] [seconds for all, default 900]

Sizes go from 10^4 to ``rows`` in factors of ten. When the time is up, the remaining cases are listed as not measured.
Every measurement runs in a separate process, so that its peak memory is its own; the bare scan and the methods
alternate. Processor seconds add up all threads, and other programs on the machine hardly change them. The fitted
exponent is the slope of log seconds on log rows, from a million rows on.
"""

from __future__ import annotations

import math
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks import results

LIMIT = 300.0  # seconds after which a measurement is stopped
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "growth.svg"
FILE_ROWS = 10_000_000  # rows of one file


def write(folder: Path, rows: int) -> None:
    """Write decisions, outcomes, scores and amounts of ``rows`` rows, with a fifth as many users, to files."""
    for i in range(math.ceil(rows / FILE_ROWS)):
        rng, n = np.random.default_rng([7, i]), min(FILE_ROWS, rows - i * FILE_ROWS)
        user = rng.integers(0, max(rows // 5, 1), n).astype(np.int32)
        group, score = (user % 4).astype(np.int8), rng.normal(size=n)
        score += 0.002 * (group == 1)
        chance = 1 / (1 + np.exp(-score))
        pl.DataFrame(
            {
                "user": user,
                "group": group,
                "sex": (user // 4 % 2).astype(np.int8),
                "region": rng.integers(0, 1_000, n).astype(np.int16),
                "score": score,
                "chance": chance,
                "decision": (score >= 0.25).astype(np.int8),
                "outcome": (rng.random(n) < chance).astype(np.int8),
                "treated": rng.integers(0, 2, n).astype(np.int8),
                "effect": 0.1 * rng.random(n),
                "amount": np.exp(rng.normal(size=n) + 0.001 * (group == 2)),
            }
        ).write_parquet(folder / f"part{i}.parquet")


def bare(column: str, *keys: str) -> Callable[[str], object]:
    """Count the rows of a file by some keys, and sum a column and its square."""
    value = pl.col(column)

    def scan(path: str) -> object:
        sums = pl.len(), value.sum(), (value * value).sum().alias("square")
        return pl.scan_parquet(path).group_by(*keys).agg(*sums).collect(engine="streaming")

    return scan


AUDIT = {
    "columns": {"outcome": "outcome", "prediction": "decision", "groups": ["group"]},
    "tests": [
        {"kind": "flag", "metric": "tpr"},
        {"kind": "certify", "metric": "tpr", "tolerance": 0.05},
        {"kind": "project", "score": "score", "threshold": 0.25, "criterion": "statistical_parity"},
        {"kind": "improvability", "groups": "sex", "status_quo": "decision", "candidate": "treated"},
        {"kind": "treatment_bias", "effect": "effect", "treatment": "treated", "measure": "difference"},
        {"kind": "predictive_parity", "groups": "sex", "score": "chance", "user": "user"},
    ],
}


def by_user(path: str) -> object:
    """Means of two columns by user."""
    means = pl.col("chance").mean(), pl.col("outcome").mean()
    return pl.scan_parquet(path).group_by("user").agg(*means).collect(engine="streaming")


def audit(path: str) -> object:
    """One audit of every method."""
    done = iso.Audit.from_dict({"data": {"path": path, "in_memory": False}, **AUDIT}).run()
    failed = [entry.error for entry in done.entries if entry.error]
    if failed:
        raise RuntimeError(failed[0])
    return done


SCORE: dict[str, Any] = {"outcome": "outcome", "score": "chance", "groups": "sex"}
AMOUNT = iso.Metric("amount", value=iso.col("amount"))
CASES: dict[str, tuple[str, Callable[[str], object]]] = {
    "bare scan: score by group and decision": ("", bare("score", "group", "decision")),
    "bare scan: amount by region": ("", bare("amount", "region")),
    "bare group-by of users": ("", by_user),
    "flag, true positive rates of three columns": (
        "bare scan: score by group and decision",
        lambda p: iso.flag(
            p, metric="tpr", outcome="outcome", prediction="decision", groups=["group", "sex", "region"]
        ),
    ),
    "flag, mean amount by group": (
        "bare scan: amount by region",
        lambda p: iso.flag(p, metric=AMOUNT, groups="group"),
    ),
    "flag, mean amount of 1,000 regions": (
        "bare scan: amount by region",
        lambda p: iso.flag(p, metric=AMOUNT, groups="region"),
    ),
    "project": (
        "bare scan: score by group and decision",
        lambda p: iso.project(
            p, prediction="decision", groups="group", score="score", threshold=0.25, criterion="statistical_parity"
        ),
    ),
    "treatment_bias": (
        "bare scan: score by group and decision",
        lambda p: iso.treatment_bias(
            p, outcome="outcome", effect="effect", treatment="treated", groups="group", measure="difference"
        ),
    ),
    "improvability, decisions given": (
        "bare scan: score by group and decision",
        lambda p: iso.improvability(p, outcome="outcome", status_quo="decision", candidate="treated", groups="sex"),
    ),
    "predictive_parity, without users": (
        "bare scan: score by group and decision",
        lambda p: iso.predictive_parity(p, rng=1, **SCORE),
    ),
    "predictive_parity, a fifth as many users": (
        "bare group-by of users",
        lambda p: iso.predictive_parity(p, rng=1, user="user", **SCORE),
    ),
    "predictive_parity, users in all of five groups": (
        "bare group-by of users",
        lambda p: iso.predictive_parity(
            p, rng=1, user="user", **{**SCORE, "groups": iso.cut("region", [200, 400, 600, 800])}
        ),
    ),
    "marginal_outcomes, a fifth as many users": (
        "bare group-by of users",
        lambda p: iso.marginal_outcomes(p, threshold=0.5, user="user", **SCORE),
    ),
    "an audit of all of these methods": ("bare scan: score by group and decision", audit),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall seconds, processor seconds and peak gigabytes; or the reason why there are none."""

    wall: float = math.nan
    processor: float = math.nan
    memory: float = math.nan
    error: str = ""


def _run(name: str, path: str, send: Connection) -> None:
    try:
        with tempfile.TemporaryDirectory() as folder:  # once on a few rows, so that imports are not measured
            write(Path(folder), 2_000)
            CASES[name][1](f"{folder}/*.parquet")
        start, used = time.perf_counter(), time.process_time()
        CASES[name][1](path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        send.send(Measured(time.perf_counter() - start, time.process_time() - used, peak))
    except Exception as error:
        send.send(Measured(error=f"{type(error).__name__}: {error}"))


def measure(name: str, path: str, limit: float) -> Measured:
    """Run one case in a separate process, which is stopped after ``limit`` seconds."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(name, path, send))
    process.start()
    send.close()
    try:
        answer = receive.recv() if receive.poll(limit) else Measured(error=f"not finished after {limit:.0f} s")
    except EOFError:
        answer = Measured(error="the process died")
    process.kill()
    process.join()
    return answer


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds on log rows, from a million rows on."""
    large = [(math.log(n), math.log(s)) for n, s in zip(sizes, seconds, strict=True) if n >= 10**6 and s > 0]
    if len(large) < 2:
        return math.nan
    x, y = np.array(large).T
    return float(np.polyfit(x, y, 1)[0])


def _draw(sizes: list[int], every: dict[str, list[Measured]]) -> None:
    import altair as alt

    points = pl.DataFrame(
        [
            {"rows": n, "seconds": one.processor, "what": name}
            for name, measured in every.items()
            for n, one in zip(sizes, measured, strict=True)
            if one.processor > 0
        ]
    )
    log = alt.Scale(type="log")
    chart = alt.Chart(points, title="Processor seconds by rows").mark_line(point=True)
    encoded = chart.encode(x=alt.X("rows:Q", scale=log), y=alt.Y("seconds:Q", scale=log), color="what:N")
    encoded.properties(width=520, height=320).save(str(IMAGE))


def main(rows: int, seconds: float) -> None:
    """Measure every case at every size and write the results."""
    end = time.monotonic() + seconds
    sizes = [10**k for k in range(4, round(math.log10(rows)) + 1)]
    every: dict[str, list[Measured]] = {name: [] for name in CASES}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), n)
            for name, measured in every.items():
                left = end - time.monotonic()
                late = Measured(error=f"not measured: {seconds:g} s were up")
                measured.append(measure(name, f"{folder}/*.parquet", min(left, LIMIT)) if left > 0 else late)
                print(f"{n:>12,} {name}: {measured[-1]}", flush=True)
    lines = []
    for name, (beside, _) in CASES.items():
        last, growth = every[name][-1], exponent(sizes, [one.processor for one in every[name]])
        if last.error:
            lines.append([name, last.error, "", "", "", "", ""])
            continue
        scan = every[beside][-1] if beside else last
        ratios = [f"{last.processor / scan.processor:.1f}", f"{last.wall / scan.wall:.1f}"] if beside else ["", ""]
        memory = [f"{last.memory:.2f}", "" if math.isnan(growth) else f"{growth:.2f}"]
        lines.append([name, f"{last.processor:.1f}", f"{last.wall:.1f}", *ratios, *memory])
    head = [
        *(f"{sizes[-1]:,} rows", "processor s", "wall s", "times the bare scan: processor", "wall"),
        *("peak GB", "growth exponent"),
    ]
    _draw(sizes, every)
    results.write(
        "Scale",
        f"python benchmarks/scale.py {rows}",
        results.table(head, lines),
        "![growth](../docs/images/growth.svg)",
    )


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(*(*numbers, *(10_000_000, 900)[len(numbers) :]))
