"""Processor time of the bootstrap over cells, and of a surface on its resamples.

python benchmarks/alternatives.py

The data are like the paper's: 24,392 test rows, a capacity of 3 %, an integer outcome; 10,000 resamples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from benchmarks.clock import processor
from isonomy.alternatives.rules.comparison import resample
from isonomy.alternatives.rules.utilities import READY, rates_of

ROWS, CAPACITY, RESAMPLES, PART = 24_392, 0.03, 10_000, 500


def patients(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    black, need = (rng.random(n) < 0.114).astype(int), rng.poisson(rng.gamma(0.8, 1.8, n))
    return {"black": black, "need": need, "s0": need + rng.normal(0, 3, n), "s1": need + rng.normal(0, 1.5, n)}


def rows_resampled(data: dict[str, np.ndarray], d0: np.ndarray, d1: np.ndarray) -> None:
    """The fastest numpy version: one key per row (group and both decisions), drawn row numbers, two bincounts."""
    rng = np.random.default_rng(1)
    y, key = data["need"].astype(float), 4 * data["black"] + 2 * d0 + d1
    for _ in range(PART):
        drawn = rng.integers(len(y), size=len(y))
        np.bincount(key[drawn], minlength=8)
        np.bincount(key[drawn], weights=y[drawn], minlength=8)


def cells_resampled(data: dict[str, np.ndarray], d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
    utility, y = READY["outcome_among_selected"], data["need"].astype(float)
    each = [np.stack(utility.values({}, y, decision.astype(float)), axis=-1) for decision in (d0, d1)]
    values = np.stack(each, axis=1)[:, None]  # rows, one utility, both algorithms, two sums
    group, weight = data["black"].astype(np.intp), np.ones(ROWS, dtype=np.int64)
    return rates_of(resample(values, group, weight, 2, RESAMPLES, np.random.default_rng(1)))


def main() -> None:
    """Print the ratio to a bootstrap of rows, and the time of whole calls."""
    data = patients(ROWS, np.random.default_rng(0))
    d0, d1 = (data[s] > np.quantile(data[s], 1 - CAPACITY) for s in ("s0", "s1"))
    cells = processor(lambda: cells_resampled(data, d0, d1), 3)
    rows = RESAMPLES / PART * processor(lambda: rows_resampled(data, d0, d1))
    print(f"bootstrap, {ROWS:,} rows, {RESAMPLES:,} resamples: of cells {cells:.3f} s,")
    print(f"    of rows {rows:.1f} s (from {PART}), {rows / cells:.0f} times (asked: at least 40)")
    whole = patients(2 * ROWS, np.random.default_rng(1))
    asked: dict[str, Any] = {"outcome": "need", "groups": "black", "status_quo": "s0", "candidate": "s1", "rng": 1}
    splits = {"capacity": CAPACITY, "method": iso.splits(7, resamples=RESAMPLES)}
    found = iso.improvability(whole, **asked, **splits)
    point = processor(lambda: iso.improvability(whole, **asked, **splits))
    print(
        f"seven splits of {2 * ROWS:,} rows: {point:.2f} s; the surface of 201 x 101: {processor(found.surface):.3f} s"
    )
    many = patients(100_000, np.random.default_rng(2))
    ready = processor(lambda: iso.improvability(many, capacity=CAPACITY, **asked), 3)
    print(f"a ready candidate, 100,000 rows: {ready:.2f} s (asked: at most 1)")


if __name__ == "__main__":
    main()
