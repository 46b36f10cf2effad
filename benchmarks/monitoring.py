"""Processor time of a monitor: one large batch against a bare group-by, and many looks.

python benchmarks/monitoring.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks.clock import against, processor
from benchmarks.groups import ROWS, levels, line

LOOKS, SIZE, GROUPS = 500, 2_000, 20
ASKED: dict[str, Any] = {"metric": "selection_rate", "prediction": "approved", "groups": "group", "tolerance": 0.02}


def main() -> None:
    """One batch of 10 million rows; then 500 looks at 20 groups, from the sums of the state."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"group": levels(rng, *"abcde"), "approved": rng.integers(0, 2, ROWS, dtype=np.int8)})

    def bare() -> object:
        return frame.lazy().group_by("group", "approved").agg(pl.len()).collect(engine="streaming")

    batch = against(bare, lambda: iso.Monitor(**ASKED).update(frame, batch="2026-W01"))
    line("A batch of 10 million rows, against a polars streaming group-by", "at most 2", batch)
    n = LOOKS * SIZE
    table = {
        "week": np.repeat(np.arange(LOOKS), SIZE),
        "group": rng.integers(0, GROUPS, n),
        "approved": rng.integers(0, 2, n, dtype=np.int8),
    }
    used = processor(lambda: iso.monitor(table, batch="week", **ASKED))
    what = f"{LOOKS} looks at {GROUPS} groups: tests, intervals and alarms of every look"
    line(what, "below 1 s", f"{used:.2f} s")


if __name__ == "__main__":
    main()
