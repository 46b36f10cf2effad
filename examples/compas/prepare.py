"""COMPAS: a decision at decile 5 and above, and a score between 0 and 1."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

sys.path.append(str(Path(__file__).resolve().parents[1]))
from public_data import find, write

if __name__ == "__main__":
    people = pl.read_csv(find("compas-scores-two-years.csv"), infer_schema_length=None)
    write(
        people.select(
            "race",
            "sex",
            "age",
            "age_cat",
            "two_year_recid",
            (pl.col("decile_score") >= 5).cast(pl.Int8).alias("high_risk"),
            (pl.col("decile_score") / 10).alias("score"),
        ),
        __file__,
    )
