"""Other packages on the same tables: the time of point estimates and intervals, and false alarms of point estimates.

    python benchmarks/peers.py [tables, default 200]

Times are processor seconds of one run; false alarms are counted on tables in which no group differs. A package that is
not installed, or fails, is listed with its error. Both are written to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import isonomy as iso
from benchmarks import apart, results
from benchmarks.clock import processor

TABLES = 200 if len(sys.argv) < 2 else int(sys.argv[1])
SLOW = 20  # tables for the packages that resample
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


def _fairlearn(data: Table, **options: Any) -> Any:
    from fairlearn.metrics import MetricFrame, selection_rate

    same = {"y_true": data["decision"], "y_pred": data["decision"], "sensitive_features": data["group"]}
    return MetricFrame(metrics=selection_rate, **same, **options)


def interval_alarms(tables: list[Table]) -> float:
    """Share of tables without a difference in which the bootstrap interval of fairlearn's `difference` excludes 0."""
    frames = (_fairlearn(data, n_boot=40, ci_quantiles=[0.025, 0.975], random_state=1) for data in tables)
    return float(np.mean([float(frame.difference_ci()[0]) > 0 for frame in frames]))


def _statsmodels(data: Table) -> object:
    from statsmodels.stats.proportion import proportion_confint, proportions_chisquare

    place = np.unique(data["group"], return_inverse=True)[1]
    n, ones = np.bincount(place), np.bincount(place, data["decision"])
    return proportions_chisquare(ones, n), proportion_confint(ones, n, method="wilson")


def _sklearn(data: Table) -> object:
    from sklearn.metrics import recall_score

    chosen = (data["decision"][data["group"] == g] for g in np.unique(data["group"]))
    return [recall_score(np.ones(mine.size), mine) for mine in chosen]


def scored(rows: int) -> Table:
    """Scores and outcomes in five groups."""
    rng = np.random.default_rng(0)
    score = rng.random(rows)
    return {"group": rng.integers(0, 5, rows), "score": score, "outcome": (rng.random(rows) < score).astype(np.int8)}


def _sklearn_auc(data: Table) -> object:
    from sklearn.metrics import roc_auc_score

    mine = (data["group"] == g for g in np.unique(data["group"]))
    return [roc_auc_score(data["outcome"][rows], data["score"][rows]) for rows in mine]


Calls = dict[str, tuple[Callable[[Table], object], int]]
RATES: Calls = {
    "isonomy.flag: intervals, adjusted p-values, verdicts": (
        lambda data: iso.flag(data, metric="selection_rate", prediction="decision", groups="group"),
        5,
    ),
    "numpy: the four counts (the limit)": (
        lambda data: [data["decision"][data["group"] == g].sum() for g in "abcd"],
        5,
    ),
    "statsmodels: chi-square, Wilson intervals": (_statsmodels, 5),
    "scikit-learn: four rates": (_sklearn, 5),
    "fairlearn MetricFrame: numbers": (lambda data: _fairlearn(data).difference(), 3),
    "fairlearn MetricFrame: 5 resampled tables": (
        lambda data: _fairlearn(data, n_boot=5, ci_quantiles=[0.5]).difference_ci(),
        1,
    ),
}
AUCS: Calls = {
    "isonomy.flag: intervals, adjusted p-values, verdicts": (
        lambda data: iso.flag(data, metric="auc", outcome="outcome", score="score", groups="group"),
        3,
    ),
    "scikit-learn: five numbers": (_sklearn_auc, 3),
}


def times(calls: Calls, data: Table, what: str, others: dict[str, Any]) -> str:
    """Processor seconds of all packages on the same table; failures are listed with their error."""
    taken: dict[str, Any] = {}
    for name, (call, repeats) in calls.items():
        try:
            call(data)  # imports
            taken[name] = {"seconds": processor(partial(call, data), repeats)}
        except Exception as error:
            taken[name] = {"error": f"{type(error).__name__}: {error}"}
    ours = next(iter(taken.values()))["seconds"]
    lines = [
        [name, one["error"], ""] if "error" in one else [name, f"{one['seconds']:.4f}", f"{one['seconds'] / ours:.2f}"]
        for name, one in (taken | others).items()
    ]
    return results.table([f"{data['group'].size:,} rows, {what}", "processor s", "times ours"], lines)


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
    rng = np.random.default_rng(3)
    small, large = [table(2_000, rng) for _ in range(SLOW)], table(100_000, np.random.default_rng(2))
    columns = {name: np.stack([one[name] for one in small]) for name in ("group", "decision")}
    others, versions = apart.measured("decisions", columns | {f"large_{name}": large[name] for name in columns})
    alarms = [
        [name, other["error"] if "error" in other else f"{other['alarms']:.2f}"] for name, other in others.items()
    ]
    alarms.append(["fairlearn: 95 % bootstrap interval of `difference` excludes 0", f"{interval_alarms(small):.2f}"])
    results.write(
        "Peers",
        f"python benchmarks/peers.py {TABLES}",
        f"False alarms in {TABLES:,} tables per line in which no group differs (four groups, the smallest with 5 %).",
        results.table(head, lines),
        f"Alarms of other packages in {SLOW} such tables of 2,000 rows. {versions}",
        results.table(["", "share with an alarm"], alarms),
        times(RATES, large, "4 groups, selection rate", others),
        times(AUCS, scored(100_000), "5 groups, AUC", {}),
    )


if __name__ == "__main__":
    main()
