"""Other packages on the same tables: the time of a number and of its interval, and what a number alone leads to.

    python benchmarks/peers.py [tables, 1,000 if not said]

Times are ratios from one run; false alarms are counted on tables in which no group differs. What is not installed is
shown with its error. Both are written to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import isonomy as iso
from benchmarks import results

TABLES = 1_000 if len(sys.argv) < 2 else int(sys.argv[1])


Table = dict[str, Any]


def table(rows: int, rng: np.random.Generator) -> Table:
    """Decisions at a rate of 0.3 in four groups that do not differ: the first has 5 % of the rows."""
    group = rng.choice(list("abcd"), rows, p=[0.05, 0.25, 0.3, 0.4])
    return {"group": group, "decision": (rng.random(rows) < 0.3).astype(np.int8)}


def false_alarms(rows: int) -> tuple[float, float, float]:
    """Shares of tables with a ratio observed below four fifths, with one shown to be, and with a difference shown."""
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
    """The least processor time of a few calls: other programs on the machine do not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def interval_alarms(tables: int, rows: int = 2_000) -> float:
    """Share of tables without a difference whose bootstrap interval of fairlearn's `difference` leaves out 0."""
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


def _missing(name: str) -> Callable[[Table], object]:
    def call(data: Table) -> object:
        return importlib.import_module(name)

    return call


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
    "aequitas": (_missing("aequitas"), 1),
    "fairaudit": (_missing("fairaudit"), 1),
}


def times(rows: int = 100_000) -> str:
    """Processor seconds of everybody on the same table; what fails is shown with its error."""
    data, lines, ours = table(rows, np.random.default_rng(2)), [], float("nan")
    for name, (call, repeats) in PEERS.items():
        try:
            taken = seconds(partial(call, data), repeats)
        except Exception as error:
            lines.append([name, f"{type(error).__name__}: {error}", ""])
            continue
        ours = taken if not lines else ours
        lines.append([name, f"{taken:.4f}", f"{taken / ours:.2f}"])
    return results.table([f"{rows:,} rows, 4 groups, selection rate", "processor s", "times ours"], lines)


def main() -> None:
    """Measure, and write it down."""
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
    results.write(
        "Peers",
        f"python benchmarks/peers.py {TABLES}",
        f"False alarms in {TABLES:,} tables a line in which no group differs: four groups, the smallest of 5 %.",
        results.table(head, lines),
        f"Share of {resampled} such tables of 2,000 rows whose 95 % bootstrap interval of fairlearn's `difference` (40 "
        f"resamples) leaves out 0: {share}. fairaudit's flags: not measured, it is not installed.",
        times(),
    )


if __name__ == "__main__":
    main()
