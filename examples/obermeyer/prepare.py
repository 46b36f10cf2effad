"""Obermeyer et al.: the score in use, and one that predicts health instead of cost."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

sys.path.append(str(Path(__file__).resolve().parents[1]))
from public_data import find, write

if __name__ == "__main__":
    patients = pl.read_csv(find("obermeyer2019_holdout.csv"), infer_schema_length=None)
    write(
        patients.select(
            pl.when(pl.col("dem_race_black") == 1).then(pl.lit("Black")).otherwise(pl.lit("White")).alias("race"),
            pl.col("gagne_sum_t").alias("illnesses"),
            pl.col("cost_t").alias("cost"),
            pl.col("risk_score_t").alias("risk_score"),
            (pl.col("risk_score_t_percentile") / 100).alias("risk_percentile"),
            pl.col("gagne_sum_t_hat").alias("predicted_illnesses"),
        ),
        __file__,
    )
