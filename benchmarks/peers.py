"""Other packages on the same tables: the time of point estimates and intervals, and false alarms of point estimates.

    python benchmarks/peers.py [tables, default 1,000]

Times are ratios from one run; false alarms are counted on tables in which no group differs. A package that is not
installed, or fails, is listed with its error. Both are written to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import isonomy as iso
from benchmarks import results

TABLES = 1_000 if len(sys.argv) < 2 else int(sys.argv[1])


Table = dict[str, Any]


def table(rows: int, rng: np.random.Generator) -> Table:
    """Decisions at a rate of 0.3 in four groups that do not differ; the first has 5 % of the rows."""
    group = rng.choice(list("abcd"), rows, p=[0.05, 0.25, 0.3, 0.4])
    return {"group": group, "decision": (rng.random(rows) < 0.3).astype(np.int8)}


def false_alarms(rows: int) -> tuple[float, float, float]:
    """Shares of tables with an observed ratio below four fifths, with one shown to be, and with a difference shown."""
    rng = np.random.default_rng(1)
    observed = ratio = difference = 0
    for _ in range(TABLES):
        data = table(rows, rng)
        rates = [data["decision"][data["group"] == g].mean() for g in "abcd"]
        observed += min(rates) < 0.8 * max(rates)  # demographic_parity_ratio below 0.8
        ratio += iso.adverse_impact(data, prediction="decision", groups="group").verdict is iso.Verdict.VIOLATION
        flags = iso.flag(data, metric="selection_rate", prediction="decision", groups="group", adjust="holm")
        difference += flags.verdict is iso.Verdict.VIOLATION
    return observed / TABLES, ratio / TABLES, difference / TABLES


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The shortest processor time of a few calls; other programs on the machine do not affect it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def interval_alarms(tables: int, rows: int = 2_000) -> float:
    """Share of tables without a difference in which the bootstrap interval of fairlearn's `difference` excludes 0."""
    from fairlearn.metrics import MetricFrame, selection_rate

    rng, alarms = np.random.default_rng(3), 0
    for _ in range(tables):
        data = table(rows, rng)
        same = {"y_true": data["decision"], "y_pred": data["decision"], "sensitive_features": data["group"]}
        frame = MetricFrame(metrics=selection_rate, n_boot=40, ci_quantiles=[0.025, 0.975], random_state=1, **same)
        alarms += float(frame.difference_ci()[0]) > 0
    return alarms / tables


def _fairlearn(data: Table, **options: Any) -> object:
    from fairlearn.metrics import MetricFrame, selection_rate

    same = {"y_true": data["decision"], "y_pred": data["decision"], "sensitive_features": data["group"]}
    return MetricFrame(metrics=selection_rate, **same, **options).difference()


def _statsmodels(data: Table) -> object:
    from statsmodels.stats.proportion import proportion_confint, proportions_chisquare

    place = np.unique(data["group"], return_inverse=True)[1]
    n, ones = np.bincount(place), np.bincount(place, data["decision"])
    return proportions_chisquare(ones, n), proportion_confint(ones, n, method="wilson")


def _scipy(data: Table) -> object:
    from scipy.stats import bootstrap

    rows = [data["decision"][data["group"] == g] for g in "ab"]
    return bootstrap(rows, lambda a, b, axis: a.mean(axis) - b.mean(axis), n_resamples=5, method="percentile")


def _sklearn(data: Table) -> object:
    from sklearn.metrics import recall_score

    return [
        recall_score(np.ones(int(mine.sum())), data["decision"][mine])
        for mine in (data["group"] == g for g in np.unique(data["group"]))
    ]


def _linprog(data: Table) -> object:
    """The smallest total movement to equal rates, as a linear program with one variable per row."""
    from scipy.optimize import linprog

    score = np.random.default_rng(0).normal(size=data["group"].size)
    side = np.where(data["decision"] == 1, -1.0, 1.0)  # the contribution of a changed decision
    groups = np.unique(data["group"])
    mine = [data["group"] == g for g in groups]
    rates = [side * m / m.sum() for m in mine]
    start = [data["decision"][m].mean() for m in mine]
    equal = np.stack([rates[0] - rate for rate in rates[1:]])
    return linprog(np.abs(score), A_eq=equal, b_eq=[s - start[0] for s in start[1:]], bounds=(0, 1), method="highs")


def _project(data: Table) -> object:
    score = np.abs(np.random.default_rng(0).normal(size=data["group"].size))
    return iso.project(
        {**data, "d": score}, prediction="decision", groups="group", distance="d", criterion="statistical_parity"
    )


def apart(tables: int, rows: int = 2_000) -> tuple[dict[str, Any], str]:
    """The results of packages with a separate interpreter on the same tables; see benchmarks/apart.py."""
    python = os.environ.get("PEERS_PYTHON") or str(Path(__file__).parents[1] / ".venv-peers" / "bin" / "python")
    if not Path(python).exists():
        return {"fairaudit, aequitas": {"error": "not installed: `make bench` creates .venv-peers"}}, ""
    rng = np.random.default_rng(3)
    small, large = [table(rows, rng) for _ in range(tables)], table(100_000, np.random.default_rng(2))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tables.npz"
        columns = {name: np.stack([one[name] for one in small]) for name in ("group", "decision")}
        np.savez(path, **columns, large_group=large["group"], large_decision=large["decision"])
        command = [python, str(Path(__file__).with_name("apart.py")), path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        return {"fairaudit, aequitas": {"error": done.stderr.strip().rpartition("\n")[2]}}, ""
    answer = json.loads(done.stdout)
    return answer["peers"], answer["versions"]


PEERS: dict[str, tuple[Callable[[Table], object], int]] = {
    "isonomy.flag: intervals, adjusted p-values, verdicts": (
        lambda data: iso.flag(data, metric="selection_rate", prediction="decision", groups="group"),
        5,
    ),
    "numpy: the four counts (the limit)": (
        lambda data: [data["decision"][data["group"] == g].sum() for g in "abcd"],
        5,
    ),
    "statsmodels: chi-square, Wilson intervals": (_statsmodels, 5),
    "scikit-learn: four rates": (_sklearn, 3),
    "fairlearn MetricFrame: numbers": (_fairlearn, 5),
    "fairlearn MetricFrame: 5 resampled tables": (lambda data: _fairlearn(data, n_boot=5, ci_quantiles=[0.5]), 1),
    "scipy.stats.bootstrap: one difference, 5 resamples": (_scipy, 1),
}
MOVERS: dict[str, tuple[Callable[[Table], object], int]] = {
    "isonomy.project: smallest movement, p-value": (_project, 3),
    "numpy: sorting the distances (the limit)": (lambda data: np.sort(np.random.default_rng(0).normal(size=10_000)), 3),
    "scipy.optimize.linprog (HiGHS): smallest movement": (_linprog, 1),
}


def times(peers: dict[str, tuple[Callable[[Table], object], int]], rows: int, what: str, others: dict[str, Any]) -> str:
    """Processor seconds of all packages on the same table; failures are listed with their error."""
    data, ours = table(rows, np.random.default_rng(2)), float("nan")
    lines: list[list[str]] = []
    for name, (call, repeats) in peers.items():
        try:
            taken = seconds(partial(call, data), repeats)
        except Exception as error:
            lines.append([name, f"{type(error).__name__}: {error}", ""])
            continue
        ours = taken if not lines else ours
        lines.append([name, f"{taken:.4f}", f"{taken / ours:.2f}"])
    for name, other in others.items():
        taken = other.get("seconds")
        lines.append([name, other["error"], ""] if taken is None else [name, f"{taken:.4f}", f"{taken / ours:.2f}"])
    return results.table([f"{rows:,} rows, 4 groups, {what}", "processor s", "times ours"], lines)


def main() -> None:
    """Measure and write the results."""
    warnings.simplefilter("ignore")
    lines = [[f"{rows:,}", *(f"{share:.3f}" for share in false_alarms(rows))] for rows in (400, 2_000)]
    head = [
        "rows",
        "ratio observed below 0.8",
        "shown below 0.8 (`adverse_impact`)",
        "a difference shown (`flag`, Holm)",
    ]
    resampled = max(TABLES // 20, 10)
    try:
        share = f"{interval_alarms(resampled):.2f}"
    except ImportError as error:
        share = f"not measured ({error})"
    others, versions = apart(max(TABLES // 5, 20))
    alarms = [
        [name, other["error"], ""] if "error" in other else [name, f"{other['alarms']:.3f}", f"{other['tables']}"]
        for name, other in others.items()
    ]
    alarms.append(["fairlearn: 95 % bootstrap interval of `difference` excludes 0", share, f"{resampled}"])
    results.write(
        "Peers",
        f"python benchmarks/peers.py {TABLES}",
        f"False alarms in {TABLES:,} tables per line in which no group differs (four groups, the smallest with 5 %).",
        results.table(head, lines),
        f"False alarms of other packages on such tables of 2,000 rows. {versions}",
        results.table(["", "share with an alarm", "tables"], alarms),
        times(PEERS, 100_000, "selection rate", others),
        times(MOVERS, 10_000, "smallest movement to equal rates", {}),
    )


if __name__ == "__main__":
    main()
