"""Processor time of `flag` as a ratio to the barest pass over the same rows.

python benchmarks/groups.py [rates] [values] [proxies] [comparable]
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
import polars as pl

import isonomy as iso
from benchmarks.clock import against, alone, processor

ROWS = 10_000_000


def line(what: str, asked: str, measured: str) -> None:
    print(f"{what}\n    asked {asked}, measured {measured}", flush=True)


def levels(rng: np.random.Generator, *names: str) -> pl.Series:
    """A column of ten million texts, all equally frequent."""
    return pl.Series(rng.integers(0, len(names), ROWS, dtype=np.uint8)).cat.to(pl.Enum(names))


def rates() -> None:
    """0/1 metrics, 10 million rows, 3 group columns, all intersections."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "race": levels(rng, *"abcde"),
            "sex": levels(rng, "f", "m"),
            "age": levels(rng, "<25", "25-45", ">45"),
            "outcome": rng.integers(0, 2, ROWS, dtype=np.int8),
            "prediction": rng.integers(0, 2, ROWS, dtype=np.int8),
        }
    )
    roles: dict[str, Any] = {"outcome": "outcome", "prediction": "prediction", "groups": ["race", "sex", "age"]}
    six = ["selection_rate", "tpr", "fpr", "ppv", "npv", "accuracy"]

    def bare() -> object:
        return frame.lazy().group_by(frame.columns).agg(pl.len()).collect(engine="streaming")

    what = "10 million rows, 3 columns and all intersections, against a polars streaming group-by"
    line(f"A 0/1 metric, {what}", "at most 1.5", against(bare, lambda: iso.flag(frame, metric="ppv", **roles, depth=3)))
    ratios = against(bare, lambda: iso.flag(frame, metric=six, **roles, depth=3, scale="ratio"))
    line(f"Six metrics on the scale of ratios, {what}", "at most 2", ratios)


def values() -> None:
    """A real-valued metric, 10 million rows in memory, 1,000 groups."""
    rng = np.random.default_rng(0)
    loss = rng.standard_normal(ROWS) ** 2
    frame = pl.DataFrame({"group": rng.integers(0, 1_000, ROWS), "loss": loss})
    metric = iso.Metric("loss", value=iso.col("loss"))
    line(
        "A mean, 10 million rows, 1,000 groups, against one np.sort",
        "at most 15",
        against(lambda: np.sort(loss), lambda: iso.flag(frame, metric=metric, groups="group"), 2),
    )


def flagged(path: str, asked: dict[str, Any]) -> object:
    return iso.flag(path, **asked)


def proxies(rows: int = 4_000_000) -> None:
    """Probabilities of six groups, in a file."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.array([6.0, 1.8, 1.2, 0.5, 0.3, 0.2]), size=rows)
    columns = {name: f"p_{name}" for name in ("white", "black", "hispanic", "asian", "native", "other")}
    frame = pl.DataFrame({name: shares[:, k] for k, name in enumerate(columns.values())}).with_columns(
        prediction=pl.Series(rng.random(rows) < 0.6 - 0.1 * shares[:, 1]).cast(pl.Int8),
        group=pl.Series(rng.integers(0, 6, rows, dtype=np.int8)),
    )
    known: dict[str, Any] = {"metric": "selection_rate", "prediction": "prediction", "groups": "group"}
    asked = known | {"groups": iso.proxy("race", columns), "reference": {"race": "white"}, "tolerance": 0.02}
    used = [*columns.values(), "prediction"]
    with tempfile.TemporaryDirectory() as folder:
        path, few = f"{folder}/proxies.parquet", f"{folder}/few.parquet"
        frame.write_parquet(path, row_group_size=500_000)
        frame.head(10_000).write_parquet(few)

        def bare() -> object:
            return pl.scan_parquet(path).select(pl.col(used).sum()).collect(engine="streaming")

        line(
            f"Groups by probability, {rows:,} rows of a file, 6 groups, against a bare scan of the same columns",
            "at most 12",
            against(bare, lambda: flagged(path, asked)),
        )
        peaks = [alone(flagged, (few, how), (path, how)).memory for how in (known, asked)]
    line("Memory of the same", "as known groups", f"{peaks[1]:.2f} GB, with known groups {peaks[0]:.2f} GB")


def comparable(rows: int = 1_000_000) -> None:
    """Comparable people: six factors, five groups."""
    rng = np.random.default_rng(0)
    group, factors = rng.integers(0, 5, rows), rng.normal(size=(rows, 6))
    factors[:, 0] -= 0.3 * (group == 1)
    rate = 1.0 / (1.0 + np.exp(-factors @ np.array([0.8, 0.4, 0.2, -0.3, 0.1, 0.0])))
    frame = pl.DataFrame({f"x{i}": factors[:, i] for i in range(6)}).with_columns(
        group=pl.Series(group), prediction=pl.Series(rng.random(rows) < rate).cast(pl.Int8)
    )
    asked: dict[str, Any] = {"metric": "selection_rate", "prediction": "prediction", "groups": "group"}
    asked |= {"reference": {"group": 0}, "given": iso.comparable(*(f"x{i}" for i in range(6)))}
    iso.flag(frame.head(10_000), **asked)
    used = processor(lambda: iso.flag(frame, **asked))
    line(f"Comparable people, {rows:,} rows, 6 factors, 5 groups", "below 5 s", f"{used:.1f} s")


if __name__ == "__main__":
    parts = {"rates": rates, "values": values, "proxies": proxies, "comparable": comparable}
    for name in sys.argv[1:] or parts:
        parts[name]()
