"""How fast is the projection? Ratios measured in one run.

    python -m benchmarks.projection [--quick]

* one moment, a million rows: program and plan against `np.argsort` of the same distances (asked: at most 4 times);
* two moments: program against scipy's HiGHS on the same linear program, one variable per row (asked: at least 10 times
  faster at 1e5 and 1e6 rows); HiGHS is stopped after `LIMIT` seconds, and the ratio is then a lower bound;
* an engine: `project` on a Parquet file of ten million rows (a million with ``--quick``) against the bare group-by of
  the same file that sums the score and its square (asked: at most 12 times);
* growth from 1e4 to 1e7 rows: time over N log N, relative to the smallest (asked: does not grow).
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array

import isonomy as iso
from isonomy.projection.program.solve import Constraint, LeastChange, SingleRows, SortedRows, fractions, solve
from studies.designs import classifier

LIMIT = 120.0
Array = NDArray[np.float64]


def problem(rows: int, levels: int) -> tuple[Array, NDArray[np.intp], Constraint]:
    """Equal opportunity across two or three levels: one or two moments."""
    data = classifier(rows, 1, levels=levels, equal_opportunity=0.02).columns
    group = data["group"].astype(int)
    label = (group * 2 + data["outcome"]) * 2 + data["prediction"]
    share = np.bincount(group * 2 + data["outcome"], minlength=2 * levels) / rows
    phi = np.zeros((4 * levels, levels - 1))
    for level in range(levels):
        for selected in (0, 1):
            cell = (level * 2 + 1) * 2 + selected
            phi[cell] = -1 / share[1] if level == 0 else np.eye(levels - 1)[level - 1] / share[level * 2 + 1]
    selected = np.arange(4 * levels) % 2
    moment = phi.T @ (np.bincount(label, minlength=4 * levels) * selected)
    nothing = np.zeros(levels - 1)
    return data["distance"], label, Constraint((1 - 2 * selected)[:, None] * phi, moment, nothing, nothing)


def ours(distance: Array, label: NDArray[np.intp], constraint: Constraint) -> LeastChange:
    if constraint.moment.size == 1:
        return solve(SingleRows(distance, label), constraint)
    useful = np.where(constraint.vectors.any(axis=1)[label], label, -1)
    return solve(SortedRows(distance, useful, len(constraint.vectors)), constraint)


def highs(distance: Array, label: NDArray[np.intp], constraint: Constraint) -> Any:
    keep = constraint.vectors.any(axis=1)[label]
    return linprog(
        distance[keep],
        A_eq=csc_array(constraint.vectors[label[keep]].T),
        b_eq=-constraint.moment,
        bounds=(0, 1),
        method="highs",
    )


def limited(function: Callable[[], Any]) -> tuple[float, Any]:
    """Time and result of ``function`` in a separate process; None after `LIMIT` seconds.

    (HiGHS ignores its own limit during presolve.)
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    start = time.perf_counter()
    process = context.Process(target=lambda: send.send(float(function().fun)))
    process.start()
    answer = receive.recv() if receive.poll(LIMIT) else None
    elapsed = time.perf_counter() - start
    process.kill()
    process.join()
    return elapsed, answer


def best(function: Callable[[], Any], repeats: int = 5) -> tuple[float, Any]:
    times, answer = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = function()
        times.append(time.perf_counter() - start)
    return min(times), answer


def one_moment(rows: int) -> None:
    distance, label, constraint = problem(rows, 2)
    sort, _ = best(lambda: np.argsort(distance))
    value, found = best(lambda: ours(distance, label, constraint))
    plan, _ = best(lambda: fractions(distance, label, found.moved))
    print(
        f"one moment, {rows:,} rows: argsort {sort * 1e3:.0f} ms, value {value * 1e3:.0f} ms ({value / sort:.2f} x), "
        f"value and plan {(value + plan) * 1e3:.0f} ms ({(value + plan) / sort:.2f} x)",
        flush=True,
    )


def two_moments(rows: int) -> None:
    distance, label, constraint = problem(rows, 3)
    mine, found = best(lambda: ours(distance, label, constraint))
    theirs, value = limited(lambda: highs(distance, label, constraint))
    finished = value is not None
    agreement = f"values agree to {abs(value / found.value - 1):.1e}" if finished else f"HiGHS stopped at {LIMIT:g} s"
    print(
        f"two moments, {rows:,} rows: ours {mine * 1e3:.0f} ms, HiGHS {theirs:.1f} s, "
        f"{'' if finished else 'more than '}{theirs / mine:,.0f} times faster; {agreement}",
        flush=True,
    )


def growth(levels: int, sizes: tuple[int, ...]) -> None:
    base = None
    for rows in sizes:
        distance, label, constraint = problem(rows, levels)
        value, _ = best(lambda d=distance, k=label, c=constraint: ours(d, k, c), 3)
        unit = value / (rows * np.log(rows))
        base = base or unit
        print(
            f"{levels - 1} moment(s), {rows:>10,} rows: {value * 1e3:8.1f} ms, per N log N relative to the smallest: "
            f"{unit / base:.2f}",
            flush=True,
        )


def engine(rows: int) -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(0, 4, rows).astype(np.int8)
    score = rng.normal(size=rows) + 0.02 * (group == 1)
    score_column, keys = pl.col("score"), ("group", "decision")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        pl.DataFrame({"group": group, "score": score, "decision": (score >= 0.25).astype(np.int8)}).write_parquet(path)
        sums = [score_column.sum(), (score_column * score_column).sum().alias("square"), pl.len()]
        bare, _ = best(lambda: pl.scan_parquet(path).group_by(*keys).agg(*sums).collect(), 3)
        roles = {"prediction": "decision", "groups": "group", "score": "score", "threshold": 0.25}
        ours, _ = best(lambda: iso.project(pl.scan_parquet(path), criterion="statistical_parity", **roles), 3)
    print(f"an engine, {rows:,} rows: bare {bare:.2f} s, project {ours:.2f} s ({ours / bare:.1f} x)", flush=True)


def main(quick: bool) -> None:
    engine(1_000_000 if quick else 10_000_000)
    one_moment(100_000 if quick else 1_000_000)
    for rows in (20_000,) if quick else (100_000, 1_000_000):
        two_moments(rows)
    for levels in (2, 3):
        growth(levels, (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000))


if __name__ == "__main__":
    main("--quick" in sys.argv)
