"""Other packages on the same tables: the time of a number and of its interval, and what a number alone leads to.

    python benchmarks/peers.py [tables, 1,000 if not said]

Needs fairlearn. Times are ratios from one run; false alarms are counted on tables in which no group differs.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import isonomy as iso

TABLES = 1_000 if len(sys.argv) < 2 else int(sys.argv[1])


def table(rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
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


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    print("Tables without any difference, 4 groups, the smallest 5 % of the rows, rate 0.3")
    for rows in (400, 2_000):
        observed, ratio, difference = false_alarms(rows)
        print(
            f"{rows:>7,} rows: ratio below 0.8 {observed:.3f}; shown below 0.8 {ratio:.3f}; difference {difference:.3f}"
        )
    try:
        from fairlearn.metrics import MetricFrame, selection_rate
    except ImportError:
        sys.exit("fairlearn is not installed: no times")
    data = table(100_000, np.random.default_rng(2))
    arguments = {
        "metrics": selection_rate,
        "y_true": data["decision"],
        "y_pred": data["decision"],
        "sensitive_features": data["group"],
    }
    ours = seconds(lambda: iso.flag(data, metric="selection_rate", prediction="decision", groups="group"), 5)
    theirs = seconds(lambda: MetricFrame(**arguments).difference(), 5)
    resampled = seconds(lambda: MetricFrame(n_boot=5, ci_quantiles=[0.025, 0.975], **arguments), 1)
    print("100,000 rows, 4 groups, selection rate; processor seconds, best of five (the bootstrap: one)")
    print(f"isonomy.flag, with intervals and p-values    {ours:8.3f}")
    print(f"fairlearn MetricFrame, numbers               {theirs:8.3f}  {theirs / ours:6.1f} of ours")
    print(f"fairlearn MetricFrame, 5 resampled tables    {resampled:8.3f}  {resampled / ours:6.1f} of ours")


if __name__ == "__main__":
    main()
