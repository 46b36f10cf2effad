"""Processor seconds of one call as one quantity grows: rows, groups, metrics, clusters, users. And of small calls.

python benchmarks/growth.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks.clock import processor

ROWS = 1_000_000
DECIDED: dict[str, Any] = {"metric": "tpr", "outcome": "outcome", "prediction": "prediction"}
AMOUNT: dict[str, Any] = {"metric": iso.Metric("amount", value=iso.col("amount"))}
SCORED: dict[str, Any] = {"outcome": "outcome", "score": "score", "rng": 1}
SIX: Any = ["selection_rate", "tpr", "fpr", "ppv", "npv", "accuracy"]


def columns(rows: int, rng: np.random.Generator) -> pl.DataFrame:
    """A score, outcomes, decisions, amounts; groups named by their number, clusters by the rows in each."""
    score = rng.random(rows)
    return pl.DataFrame(
        {
            "score": score,
            "outcome": (rng.random(rows) < score).astype(np.int8),
            "prediction": (score > 0.5).astype(np.int8),
            "better": (score + 0.1 * rng.normal(size=rows) > 0.5).astype(np.int8),
            "amount": rng.exponential(size=rows),
            **{f"g{k}": rng.integers(0, k, rows) for k in (2, 5, 10, 20, 100, 1_000, 10_000)},
            **{f"c{share}": rng.integers(0, rows // share, rows) for share in (100, 10, 2)},
        }
    )


def show(what: str, calls: list[Callable[[], object]], repeats: int = 2) -> None:
    print(f"{what}: {', '.join(f'{processor(call, repeats):.3f}' for call in calls)} s", flush=True)


def main() -> None:
    """Print a line for each quantity."""
    rng = np.random.default_rng(0)
    whole = columns(ROWS, rng)
    sizes = [whole.head(ROWS // share) for share in (100, 10, 1)]
    flag, parity = partial(iso.flag, whole), partial(iso.predictive_parity, whole, **SCORED)
    many = [f"g{k}" for k in (10, 100, 1_000, 10_000)]
    show(
        "flag, 0/1 metric, 5 groups, 10^4, 10^5, 10^6 rows",
        [partial(iso.flag, t, groups="g5", **DECIDED) for t in sizes],
    )
    show("flag, mean, 5 groups, 10^4, 10^5, 10^6 rows", [partial(iso.flag, t, groups="g5", **AMOUNT) for t in sizes])
    show(
        "predictive_parity, 2 groups, 10^4, 10^5, 10^6 rows",
        [partial(iso.predictive_parity, t, groups="g2", **SCORED) for t in sizes],
    )
    print(f"{ROWS:,} rows:")
    show("flag, 0/1 metric, 10, 100, 1,000, 10,000 groups", [partial(flag, groups=g, **DECIDED) for g in many])
    show("flag, mean, 10, 100, 1,000, 10,000 groups", [partial(flag, groups=g, **AMOUNT) for g in many])
    show(
        "flag, 100 groups, 1, 2, 6 metrics",
        [partial(flag, groups="g100", **(DECIDED | {"metric": SIX[:k]})) for k in (1, 2, 6)],
    )
    show(
        "flag, 10 groups, no clusters, 10^4, 10^5, 5 x 10^5 clusters",
        [partial(flag, groups="g10", cluster=c, **DECIDED) for c in (None, "c100", "c10", "c2")],
    )
    show("predictive_parity, 2, 5, 10 groups", [partial(parity, groups=f"g{k}") for k in (2, 5, 10)])
    show(
        "predictive_parity, 2 groups, 10^4, 10^5, 5 x 10^5 users who are in both",
        [partial(parity, groups="g2", user=c) for c in ("c100", "c10", "c2")],
    )
    small, few = columns(2_500, rng), columns(400, rng)
    show(
        "flag of a standardized mean, 2,500 rows, 5 groups",
        [partial(iso.flag, small, groups="g5", scale="standardized", **AMOUNT)],
    )
    show("certify of a mean, 20 groups of 20 rows", [partial(iso.certify, few, groups="g20", **AMOUNT)])
    show(
        "improvability, a ready candidate, 2,500 rows",
        [
            partial(
                iso.improvability, small, outcome="outcome", groups="g2", status_quo="prediction", candidate="better"
            )
        ],
    )
    show("predictive_parity, 2,500 rows", [partial(iso.predictive_parity, small, groups="g2", **SCORED)])


if __name__ == "__main__":
    main()
