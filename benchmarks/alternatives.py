"""How fast are the bootstrap over cells and the surface?  python benchmarks/alternatives.py

The data are like the paper's: 24,392 test rows, a capacity of 3 %, an integer outcome; 10,000 resamples. Both sides run
in this process, one after the other, so that the ratio does not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.alternatives.rules.comparison import resample
from isonomy.alternatives.rules.utilities import READY, rates_of

ROWS, CAPACITY, RESAMPLES = 24_392, 0.03, 10_000


def patients(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    black, need = (rng.random(n) < 0.114).astype(int), rng.poisson(rng.gamma(0.8, 1.8, n))
    return {"black": black, "need": need, "s0": need + rng.normal(0, 3, n), "s1": need + rng.normal(0, 1.5, n)}


def seconds(action: Callable[[], Any], times: int = 1) -> float:
    best = np.inf
    for _ in range(times):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def row_resampling(data: dict[str, np.ndarray], d0: np.ndarray, d1: np.ndarray, resamples: int) -> np.ndarray:
    """The fastest numpy version: one key per row (group and both decisions), drawn row numbers, two bincounts."""
    rng = np.random.default_rng(1)
    y, key = data["need"].astype(float), 4 * data["black"] + 2 * d0 + d1
    out = np.empty((resamples, 2, 2))
    for b in range(resamples):
        drawn = rng.integers(len(y), size=len(y))
        count = np.bincount(key[drawn], minlength=8).reshape(2, 2, 2)
        total = np.bincount(key[drawn], weights=y[drawn], minlength=8).reshape(2, 2, 2)
        out[b] = [
            total[:, 1].sum(axis=1) / count[:, 1].sum(axis=1),
            total[..., 1].sum(axis=1) / count[..., 1].sum(axis=1),
        ]
    return out


def cell_resampling(data: dict[str, np.ndarray], d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
    utility, y = READY["outcome_among_selected"], data["need"].astype(float)
    each = [np.stack(utility.values({}, y, decision.astype(float)), axis=-1) for decision in (d0, d1)]
    values = np.stack(each, axis=1)[:, None]  # rows, one utility, both algorithms, two sums
    group, weight = data["black"].astype(np.intp), np.ones(ROWS, dtype=np.int64)
    return rates_of(resample(values, group, weight, 2, RESAMPLES, np.random.default_rng(1)))


def main() -> None:
    data = patients(ROWS, np.random.default_rng(0))
    d0, d1 = (data[s] > np.quantile(data[s], 1 - CAPACITY) for s in ("s0", "s1"))
    cells = seconds(lambda: cell_resampling(data, d0, d1), times=3)
    part = RESAMPLES // 20
    rows = 20 * seconds(lambda: row_resampling(data, d0, d1, part))
    print(f"bootstrap, {ROWS:,} rows, {RESAMPLES:,} resamples:")
    print(f"  rows {rows:.2f} s (20 times {part} resamples), cells {cells:.3f} s")
    print(f"ratio {rows / cells:.0f} (asked for: at least 40)")

    whole = patients(2 * ROWS, np.random.default_rng(1))
    ask: dict[str, Any] = {
        "outcome": "need",
        "groups": "black",
        "status_quo": "s0",
        "candidate": "s1",
        "capacity": CAPACITY,
        "method": iso.splits(7, resamples=RESAMPLES),
        "rng": 1,
    }
    found: list[Any] = []
    point = seconds(lambda: found.append(iso.improvability(whole, **ask)), times=3)
    surface = seconds(lambda: found[0].surface(), times=3)
    print(f"one point (7 rounds): {point:.2f} s; its 201 x 101 surface: {surface:.3f} s")
    people = patients(100_000, np.random.default_rng(2))
    whole = seconds(lambda: iso.improvability(people, **(ask | {"method": None})), times=3)
    print(
        f"a ready candidate on all of 100,000 rows, reading and surface included: {whole:.2f} s (asked for: at most 1)"
    )
    print(f"point and surface together cost {(point + surface) / point:.2f} times one point (asked for: at most 3)")


if __name__ == "__main__":
    main()
