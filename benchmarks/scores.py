"""The time of a parity test relative to a bare group-by: 10 million rows, 2 million users, 21 grid points.

    python benchmarks/scores.py [rows] [users] [spanning] [duckdb] [spark]

Users have rows in one group each, then in five groups (``spanning``: only these). Prints ratios measured in one run, by
the clock and of processor seconds, the relative differences between polars and other engines, and the processor time of
the two parts behind every estimate: the bins of the score axis and the local polynomial.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from isonomy.numerics.arrays import FloatArray
from isonomy.scores import predictive_parity
from isonomy.scores.smoothing.kernels import BINS, Axis, Bandwidth, local_linear


def platform(rows: int, users: int, seed: int = 0, *, spanning: bool = False) -> pl.DataFrame:
    """Users with several rows and correlated outcomes, in two groups with different scores, or each user in five."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, users, rows)
    taste = rng.normal(0, 0.5, users)[user]
    group = rng.integers(0, 5, rows) if spanning else user % 2
    score = 1 / (1 + np.exp(-(taste + 0.4 * group + rng.normal(0, 1, rows))))
    outcome = (rng.random(rows) < score).astype(np.int8)
    return pl.DataFrame({"user": user, "group": group, "score": score, "outcome": outcome})


def timed(work: Callable[[], Any]) -> tuple[FloatArray, Any]:
    """Seconds by the clock and of the processor, and the result."""
    start = np.array([time.perf_counter(), time.process_time()])
    result = work()
    return np.array([time.perf_counter(), time.process_time()]) - start, result


def bare(frame: pl.DataFrame) -> pl.DataFrame:
    means = frame.lazy().group_by("user").agg(pl.col("score").mean(), pl.col("outcome").mean())
    return means.collect(engine="streaming")


def parity(data: Any) -> Any:
    return predictive_parity(data, outcome="outcome", score="score", groups="group", user="user", rng=1)


def numbers(result: Any) -> Any:
    return np.concatenate([result.estimate, result.reference, result.disparity, result.se, [result.pvalue]])


def parts(score: Any) -> None:
    axis = Axis.between(0.0, 1.0)
    counts = np.bincount(axis.bins.index(score), minlength=BINS).astype(float)
    totals = np.stack([0.3 * counts, counts * axis.bins.centers])
    width = 0.3 * Bandwidth(axis, score.size / 2).widths(axis.bins.centers)
    binned = min(timed(lambda: axis.bins.index(score))[0][1] for _ in range(5))
    smoothed = min(timed(lambda: local_linear(axis, counts, totals, width))[0][1] for _ in range(20))
    print(f"bins of {score.size:,} scores {1e3 * binned:.0f} ms; two local-linear curves {1e3 * smoothed:.1f} ms")


def main(words: list[str], *, spanning: bool) -> None:
    sizes = [int(word) for word in words if word.isdigit()]
    rows, users = (*sizes, 10_000_000, 2_000_000)[:2] if not sizes else (sizes[0], (*sizes, sizes[0] // 5)[1])
    frame = platform(rows, users, spanning=spanning)
    pairs = [(timed(lambda: bare(frame))[0], *timed(lambda: parity(frame))) for _ in range(3)]
    base, seconds, reference = np.min([p[0] for p in pairs], axis=0), np.min([p[1] for p in pairs], axis=0), pairs[0][2]

    def show(what: str, taken: FloatArray, more: str = "") -> None:
        (wall, cpu), (clock, processor) = taken, taken / base
        print(f"{what:<48}{wall:8.2f} s {clock:5.1f} x   processor {cpu:8.2f} s {processor:5.1f} x{more}", flush=True)

    points = reference.score.size
    print(f"{rows:,} rows, {users:,} users{', each in five groups' * spanning}, {points} grid points")
    show("bare polars group-by(user) mean of two columns", base)
    show("predictive_parity, polars", seconds)
    parts(frame["score"].to_numpy())
    others: dict[str, Callable[[], Any]] = {"polars lazy": frame.lazy}
    if "duckdb" in words:
        import duckdb

        others["duckdb"] = lambda: duckdb.connect().from_arrow(frame.to_arrow())
    if "spark" in words:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        others["spark"] = lambda: session.createDataFrame(frame.to_arrow())
    for name, make in others.items():
        data = make()
        seconds, result = timed(lambda data=data: parity(data))  # type: ignore[misc]
        mine, theirs = numbers(reference), numbers(result)
        apart = np.nanmax(np.abs(theirs - mine) / np.abs(mine))
        show(f"predictive_parity, {name}", seconds, f"   largest difference {apart:.1e}")


if __name__ == "__main__":
    for several in (True,) if "spanning" in sys.argv else (False, True):
        main(sys.argv[1:], spanning=several)
