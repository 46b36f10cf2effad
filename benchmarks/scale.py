"""How do time and memory grow with the rows? Files on disk, every method compared with a bare group-by of its columns.

    python benchmarks/scale.py [rows, default 10,000,000]

A hundredth and a tenth of the rows, and all of them. Every measurement runs in a process of its own, so that its peak
memory is its own. The exponent is the slope of log seconds on log rows between the last two sizes.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks import results
from benchmarks.clock import Measured, alone

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
                "branch": rng.integers(0, 200, n).astype(np.int16),
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
    done = iso.Audit.from_dict(AUDIT, data=pl.scan_parquet(path)).run()
    failed = [entry.error for entry in done.entries if entry.error]
    if failed:
        raise RuntimeError(failed[0])
    return done


SCORE: dict[str, Any] = {"outcome": "outcome", "score": "chance", "groups": "sex"}
TRIAL: dict[str, Any] = {"outcome": "outcome", "effect": "effect", "treatment": "treated", "groups": "branch"}
TRIAL |= {"measure": "difference"}
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
    "flag, true positive rates, a fifth as many clusters": (
        "bare group-by of users",
        lambda p: iso.flag(p, metric="tpr", outcome="outcome", prediction="decision", groups="sex", cluster="user"),
    ),
    "treatment_bias, 200 groups": (
        "bare scan: score by group and decision",
        lambda p: iso.treatment_bias(p, **TRIAL),
    ),
    "evaluate_corrections, 200 groups": (
        "bare scan: score by group and decision",
        lambda p: iso.evaluate_corrections(p, **TRIAL, rng=1),
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


def run(name: str, path: str) -> object:
    return CASES[name][1](path)


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


def main(rows: int) -> None:
    """Measure every case at every size and write the results."""
    sizes = [rows // 100, rows // 10, rows]
    every: dict[str, list[Measured]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as small:
        write(Path(small), 2_000)
        for n in sizes:
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), n)
                for name, measured in every.items():
                    measured.append(alone(run, (name, f"{small}/*.parquet"), (name, f"{folder}/*.parquet")))
                    print(f"{n:>12,} {name}: {measured[-1]}", flush=True)
    lines = []
    for name, (beside, _) in CASES.items():
        before, last = every[name][1:]
        if before.error or last.error:
            lines.append([name, before.error or last.error, "", "", "", ""])
            continue
        ratio = f"{last.processor / every[beside][-1].processor:.1f}" if beside else ""
        growth = math.log10(last.processor / before.processor)
        numbers = f"{last.processor:.1f}", ratio, f"{last.wall:.1f}", f"{last.memory:.2f}", f"{growth:.2f}"
        lines.append([name, *numbers])
    head = [f"{rows:,} rows", "processor s", "times the bare pass", "s by the clock", "peak GB", "growth exponent"]
    _draw(sizes, every)
    image = "![growth](../docs/images/growth.svg)"
    results.write("Scale", f"python benchmarks/scale.py {rows}", results.table(head, lines), image)


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["10000000"])[0]))
