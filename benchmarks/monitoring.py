"""Speed of a monitor: one large batch against a bare group-by, and many looks.

python benchmarks/monitoring.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks.groups import ROWS, against, line

LOOKS, GROUPS = 500, 20


def batch() -> None:
    """One batch of 10 million rows."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "race": rng.choice(np.array(["a", "b", "c", "d", "e"]), size=ROWS),
            "approved": rng.integers(0, 2, size=ROWS, dtype=np.int8),
        }
    ).with_columns(pl.col("race").cast(pl.Categorical))

    def bare() -> Any:
        return frame.lazy().group_by("race", "approved").agg(pl.len()).collect(engine="streaming")

    def ours() -> Any:
        watch = iso.Monitor(metric="selection_rate", prediction="approved", groups="race", tolerance=0.02)
        return watch.update(frame, batch="2026-W01")

    line("A batch of 10 million rows, against a bare group-by", "at most 2 times", against(bare, ours))
    identified = frame.with_columns(pl.int_range(ROWS).alias("id"))

    def fingerprinted() -> Any:
        watch = iso.Monitor(metric="selection_rate", prediction="approved", groups="race", tolerance=0.02)
        return watch.update(identified, batch="2026-W01")

    line("The same with a column of identifiers, whose sums tell batches apart", "-", against(bare, fingerprinted))


def looks() -> None:
    """500 looks at 20 groups: the evidence of every look, from the sums of the state."""
    rng = np.random.default_rng(0)
    n, size = LOOKS * 2_000, 2_000
    table = {
        "week": np.repeat(np.arange(LOOKS), size),
        "group": rng.integers(0, GROUPS, n),
        "approved": rng.integers(0, 2, n, dtype=np.int8),
    }
    start, used = time.perf_counter(), time.process_time()
    iso.monitor(table, batch="week", metric="selection_rate", prediction="approved", groups="group", tolerance=0.02)
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    line(
        f"{LOOKS} looks at {GROUPS} groups, tests, intervals and alarms of every look",
        "below 1 s",
        f"{seconds:.2f} s, {processor:.2f} s of the processor's",
    )


if __name__ == "__main__":
    batch()
    looks()
