"""Processor time of `discover` on a million rows of 20 features, and of slice finders on a part of the same table.

python benchmarks/discover.py

The slice finders have an environment of their own (see benchmarks/apart.py). None gives an error rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks import apart
from benchmarks.clock import processor

ROWS, PART = 1_000_000, 100_000  # rows for ours, and for all


def table_of(rows: int) -> dict[str, Any]:
    """20 features with a common factor, 10 of 2 to 6 levels and 10 numbers; one subgroup of 5 % is worse off by 0.1."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=rows)
    columns: dict[str, Any] = {}
    for i in range(20):
        value = np.sqrt(0.5) * (common + rng.normal(size=rows))
        cuts = np.linspace(-1, 1, 1 + i % 5) if i < 10 else ()
        columns[f"f{i}"] = np.array(list("abcdef"))[np.searchsorted(cuts, value)] if i < 10 else value
    inside = (columns["f1"] == "a") & (columns["f10"] < -0.9)
    return columns | {"y": (rng.random(rows) < np.where(inside, 0.3, 0.4)).astype(np.int8)}


def main() -> None:
    """Print the seconds of every tool."""
    columns = table_of(ROWS)
    table = pl.DataFrame(columns)
    features = table.columns[:-1]

    def ours(rows: int, **options: Any) -> float:
        some = table.head(rows)
        return processor(
            lambda: iso.discover(some, metric="selection_rate", prediction="y", features=features, rng=1, **options)
        )

    ours(10_000)  # imports
    for cuts in (8, 16):
        print(f"isonomy.discover, {ROWS:,} rows, {cuts} cuts: {ours(ROWS, search=iso.search(cuts=cuts)):.2f} s")
    print(f"isonomy.discover, {PART:,} rows, up to three conditions: {ours(PART):.2f} s", flush=True)
    others, versions = apart.measured("slices", {name: values[:PART] for name, values in columns.items()})
    for name, other in others.items():
        print(
            f"{name}, {PART:,} rows: {other['error'] if 'error' in other else format(other['seconds'], '.2f') + ' s'}"
        )
    print(versions)


if __name__ == "__main__":
    main()
