"""Speed and memory of `flag`, as ratios measured in one run.

python benchmarks/groups.py [rates] [values] [fairlearn] [groups] [clusters] [memory] [proxies] [comparable] [growth]
(default: all but groups, comparable and growth, which take minutes)
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso

ROWS = 10_000_000
REPEATS = 9


def timed(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The shortest of several runs, in seconds."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return float(best)


def against(base: Callable[[], Any], ours: Callable[[], Any], repeats: int = REPEATS) -> str:
    """The ratio of our shortest time to theirs; runs alternate, so that both have the same load.

    Wall time, and processor time, which other programs on the machine do not affect.
    """
    ours()
    pairs = []
    for _ in range(repeats):
        times = [(time.perf_counter(), time.process_time())]
        for call in (base, ours):
            call()
            times.append((time.perf_counter(), time.process_time()))
        pairs.append(np.diff(times, axis=0))
    (short, long), (short_cpu, long_cpu) = np.min(pairs, axis=0).T
    return (
        f"{long / short:.2f} times ({long:.2f} s against {short:.2f} s); {long_cpu / short_cpu:.2f} times the "
        f"processor's ({long_cpu:.2f} s against {short_cpu:.2f} s)"
    )


def line(what: str, asked: str, measured: str) -> None:
    print(f"{what}\n    asked {asked}, measured {measured}", flush=True)


def rates() -> None:
    """A 0/1 metric, 10 million rows, 3 group columns, all intersections."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "race": rng.choice(np.array(["a", "b", "c", "d", "e"]), size=ROWS),
            "sex": rng.choice(np.array(["f", "m"]), size=ROWS),
            "age": rng.choice(np.array(["<25", "25-45", ">45"]), size=ROWS),
            "outcome": rng.integers(0, 2, size=ROWS, dtype=np.int8),
            "prediction": rng.integers(0, 2, size=ROWS, dtype=np.int8),
        }
    ).with_columns(pl.col("race", "sex", "age").cast(pl.Categorical))
    keys = ["race", "sex", "age", "outcome", "prediction"]

    def bare() -> Any:
        return frame.lazy().group_by(keys).agg(pl.len()).collect(engine="streaming")

    def ours() -> Any:
        return iso.flag(frame, metric="ppv", groups=keys[:3], depth=3, outcome="outcome", prediction="prediction")

    line(
        "0/1 metric, 10 million rows, 3 columns and all intersections, against a bare polars streaming group-by",
        "at most 1.5 times",
        against(bare, ours),
    )
    six: Any = ["selection_rate", "tpr", "fpr", "ppv", "npv", "accuracy"]
    roles: dict[str, Any] = {"groups": keys[:3], "outcome": "outcome", "prediction": "prediction"}
    line(
        "six metrics at once on the scale of ratios, the same rows and groups, against the same group-by",
        "at most 2 times",
        against(bare, lambda: iso.flag(frame, metric=six, **roles, depth=3, scale="ratio")),
    )


def values() -> None:
    """A real-valued metric, 10 million rows, 1,000 groups."""
    rng = np.random.default_rng(0)
    loss = rng.standard_normal(ROWS) ** 2
    frame = pl.DataFrame({"group": rng.integers(0, 1_000, size=ROWS), "loss": loss})
    metric = iso.Metric("loss", value=iso.col("loss"))
    line(
        "Real-valued metric, 10 million rows, 1,000 groups: estimates, tests and intervals, against one np.sort",
        "at most 15 times",
        against(lambda: np.sort(loss), lambda: iso.flag(frame, metric=metric, groups="group"), 3),
    )


def fairlearn(replicates: int = 5, of: int = 1_000) -> None:
    """Intervals for the same disparities by fairlearn's bootstrap, whose time is linear in its replicates."""
    from fairlearn.metrics import MetricFrame
    from sklearn.metrics import accuracy_score

    rng = np.random.default_rng(0)
    n = 100_000
    group = rng.integers(0, 10, size=n)
    outcome, prediction = rng.integers(0, 2, size=n), rng.integers(0, 2, size=n)
    table = pl.DataFrame({"group": group, "outcome": outcome, "prediction": prediction})

    def theirs() -> Any:
        return MetricFrame(
            metrics=accuracy_score,
            y_true=outcome,
            y_pred=prediction,
            sensitive_features=group,
            n_boot=replicates,
            ci_quantiles=[0.025, 0.975],
            random_state=0,
        )

    def ours() -> Any:
        return iso.flag(table, metric="accuracy", groups="group", outcome="outcome", prediction="prediction")

    slow = timed(theirs, 1) * of / replicates
    fast = timed(ours, 20)
    line(
        f"Intervals, 100,000 rows, 10 groups, against {of:,} bootstrap replicates of fairlearn (timed: {replicates})",
        "at least 5,000 times faster",
        f"{slow / fast:,.0f} times ({fast * 1e3:.1f} ms against {slow:,.0f} s)",
    )


def people(rows: int, seed: int = 0) -> pl.DataFrame:
    """Decisions about people with five rows on average."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "race": rng.choice(np.array(["a", "b", "c", "d", "e"]), size=rows),
            "sex": rng.choice(np.array(["f", "m"]), size=rows),
            "age": rng.choice(np.array(["<25", "25-45", ">45"]), size=rows),
            "prediction": rng.integers(0, 2, size=rows, dtype=np.int8),
            "person": rng.integers(0, rows // 5, size=rows),
        }
    )
    return frame.with_columns(pl.col("race", "sex", "age").cast(pl.Categorical))


PEOPLE: dict[str, Any] = {"metric": "selection_rate", "prediction": "prediction", "groups": ["race", "sex", "age"]}


def clusters() -> None:
    """10 million rows in 2 million clusters."""
    frame = people(ROWS)

    def bare() -> Any:
        return frame.lazy().group_by("person").agg(pl.len()).collect(engine="streaming")

    def ours() -> Any:
        return iso.flag(frame, **PEOPLE, cluster="person")

    line(
        "10 million rows in 2 million clusters, 3 group columns, against a bare group-by of the cluster column",
        "at most 4 times",
        against(bare, ours),
    )


def _peak(queue: Any, path: str, reading: dict[str, Any]) -> None:
    iso.flag(pl.scan_parquet(path), **{**PEOPLE, **reading})
    # Not ``ru_maxrss``: a new process starts with that of its parent.
    status = dict(entry.split(":", 1) for entry in Path("/proc/self/status").read_text().splitlines())
    queue.put(int(status["VmHWM"].split()[0]) / 1e6)


def peak(path: str, reading: dict[str, Any]) -> float:
    """The memory that `flag` needs in a process of its own, in GB."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_peak, args=(queue, path, reading))
    process.start()
    used = float(queue.get())
    process.join()
    return used


def memory(rows: int = 40_000_000) -> None:
    """A file of 40 million rows in 8 million clusters, read out of core."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/people.parquet"
        people(rows).write_parquet(path, row_group_size=500_000)
        peaks = [peak(path, reading) for reading in ({}, {"cluster": "person"})]
    line(
        f"Memory out of core, {rows:,} rows of a file in {rows // 5:,} clusters",
        "as without clusters",
        f"{peaks[1]:.2f} GB, without clusters {peaks[0]:.2f} GB",
    )


SIX = ("White", "Black", "Hispanic", "Asian", "Native", "Other")


def proxies() -> None:
    """10 million rows with probabilities of six groups, in a file and in memory."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.array([6.0, 1.8, 1.2, 0.5, 0.3, 0.2]), size=ROWS)
    columns = {group: f"p_{group.lower()}" for group in SIX}
    frame = pl.DataFrame({name: shares[:, k] for k, name in enumerate(columns.values())}).with_columns(
        prediction=pl.Series(rng.random(ROWS) < 0.6 - 0.1 * shares[:, 1]).cast(pl.Int8),
        group=pl.Series(rng.integers(0, 6, ROWS, dtype=np.int8)),
    )
    del shares
    used = [*columns.values(), "prediction"]
    asked: dict[str, Any] = {"metric": "selection_rate", "prediction": "prediction", "reference": {"race": "White"}}
    asked |= {"groups": iso.proxy("race", columns), "tolerance": 0.02}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/proxies.parquet"
        frame.write_parquet(path, row_group_size=500_000)

        def bare(table: pl.LazyFrame) -> Any:
            return table.select(pl.col(used).sum()).collect(engine="streaming")

        what = "Groups by probability, 10 million rows, 6 groups, the default, against a bare scan of the same columns"
        line(
            f"{what}, in a file",
            "at most 12 times",
            against(lambda: bare(pl.scan_parquet(path)), lambda: iso.flag(path, **asked), 3),
        )
        line(f"{what}, in memory", "-", against(lambda: bare(frame.lazy()), lambda: iso.flag(frame, **asked), 3))
        known = {"metric": "selection_rate", "groups": "group", "reference": {"group": 0}}
        peaks = [peak(path, reading) for reading in (known, asked)]
    line("Memory of the same, out of core", "as flag", f"{peaks[1]:.2f} GB, with known groups {peaks[0]:.2f} GB")


def comparable() -> None:
    """A million and ten million rows, six factors, five groups."""
    for rows in (1_000_000, ROWS):
        rng = np.random.default_rng(0)
        group, factors = rng.integers(0, 5, rows), rng.normal(size=(rows, 6))
        factors[:, 0] -= 0.3 * (group == 1)
        rate = 1.0 / (1.0 + np.exp(-factors @ np.array([0.8, 0.4, 0.2, -0.3, 0.1, 0.0])))
        frame = pl.DataFrame({f"x{i}": factors[:, i] for i in range(6)}).with_columns(
            group=pl.Series(group), prediction=pl.Series(rng.random(rows) < rate).cast(pl.Int8)
        )
        given = iso.comparable(*(f"x{i}" for i in range(6)))
        asked: dict[str, Any] = {"metric": "selection_rate", "prediction": "prediction", "groups": "group"}
        start, used = time.perf_counter(), time.process_time()
        iso.flag(frame, **asked, reference={"group": 0}, given=given)
        seconds, processor = time.perf_counter() - start, time.process_time() - used
        line(
            f"Comparable people, {rows:,} rows, 6 factors, 5 groups",
            "below 5 s" if rows == 1_000_000 else "an answer",
            f"{seconds:.1f} s, {processor:.1f} s of the processor's",
        )


def growth(rows: int = 1_000_000) -> None:
    """Processor seconds as one thing grows and the others stay: rows, groups, metrics, clusters, users."""
    rng = np.random.default_rng(0)

    def columns(n: int) -> pl.DataFrame:
        score = rng.random(n)
        return pl.DataFrame(
            {
                "score": score,
                "outcome": (rng.random(n) < score).astype(np.int8),
                "prediction": (score > 0.5).astype(np.int8),
                "amount": rng.exponential(size=n),
                **{f"g{k}": rng.integers(0, k, n) for k in (2, 5, 10, 100, 1_000, 10_000)},
                **{f"c{share}": rng.integers(0, n // share, n) for share in (100, 10, 2)},
            }
        )

    whole = columns(rows)
    decided: dict[str, Any] = {"outcome": "outcome", "prediction": "prediction"}
    amount = iso.Metric("amount", value=iso.col("amount"))
    parts: dict[str, Any] = {"outcome": "outcome", "score": "score", "rng": 1}
    six: Any = ["selection_rate", "tpr", "fpr", "ppv", "npv", "accuracy"]
    designs: list[dict[str, Any]] = [{}, {"cluster": "c100"}, {"cluster": "c10"}, {"cluster": "c2"}]
    cases: dict[str, list[Callable[[], Any]]] = {
        "flag, 0/1 metric: rows / 100, / 10, / 1": [
            partial(iso.flag, whole.head(n), metric="tpr", groups="g5", **decided)
            for n in (rows // 100, rows // 10, rows)
        ],
        "flag, mean: rows / 100, / 10, / 1": [
            partial(iso.flag, whole.head(n), metric=amount, groups="g5") for n in (rows // 100, rows // 10, rows)
        ],
        "flag, 0/1 metric: 10, 100, 1,000, 10,000 groups": [
            partial(iso.flag, whole, metric="tpr", groups=f"g{k}", **decided) for k in (10, 100, 1_000, 10_000)
        ],
        "flag, mean: 10, 100, 1,000, 10,000 groups": [
            partial(iso.flag, whole, metric=amount, groups=f"g{k}") for k in (10, 100, 1_000, 10_000)
        ],
        "flag, 100 groups: 1, 2, 6 metrics": [
            partial(iso.flag, whole, metric=six[:k], groups="g100", **decided) for k in (1, 2, 6)
        ],
        "flag, 10 groups: no clusters, rows / 100, / 10, / 2 clusters": [
            partial(iso.flag, whole, metric="tpr", groups="g10", **decided, **o) for o in designs
        ],
        "predictive_parity, 2 groups: rows / 100, / 10, / 1": [
            partial(iso.predictive_parity, whole.head(n), groups="g2", **parts) for n in (rows // 100, rows // 10, rows)
        ],
        "predictive_parity: 2, 5, 10 groups": [
            partial(iso.predictive_parity, whole, groups=f"g{k}", **parts) for k in (2, 5, 10)
        ],
        "predictive_parity, 2 groups, rows / 100, / 10, / 2 users in both": [
            partial(iso.predictive_parity, whole, groups="g2", user=c, **parts) for c in ("c100", "c10", "c2")
        ],
    }
    for what, calls in cases.items():
        seconds = []
        for call in calls:
            runs = []
            for _ in range(3):
                used = time.process_time()
                call()
                runs.append(time.process_time() - used)
            seconds.append(f"{min(runs):.3f}")
        line(f"{what} ({rows:,} rows unless said)", "-", f"{', '.join(seconds)} s of the processor's")


def _many_groups(queue: Any) -> None:
    rng = np.random.default_rng(0)
    n = ROWS
    frame = pl.DataFrame({"group": rng.integers(0, 1_000_000, size=n), "loss": rng.exponential(size=n)})
    start = time.perf_counter()
    result = iso.flag(frame, metric=iso.Metric("loss", value=iso.col("loss")), groups="group")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    small = int(np.sum(result.n < 10))
    queue.put((peak, seconds, dict(Counter(s.value for s in result.status)), small))


def groups() -> None:
    """One million groups of about ten rows."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_many_groups, args=(queue,))
    process.start()
    peak, seconds, statuses, small = queue.get()
    process.join()
    right = "right" if statuses.get("too_small") == small else "WRONG"
    line(
        "One million groups of about ten rows, real-valued metric",
        "below 4 GB, statuses right",
        f"{peak:.2f} GB, {seconds:.0f} s, statuses {right} {statuses}",
    )


if __name__ == "__main__":
    parts = {
        "rates": rates,
        "values": values,
        "fairlearn": fairlearn,
        "groups": groups,
        "clusters": clusters,
        "memory": memory,
        "proxies": proxies,
        "comparable": comparable,
        "growth": growth,
    }
    for name in sys.argv[1:] or [name for name in parts if name not in ("groups", "comparable", "growth")]:
        parts[name]()
