"""Hillstrom: an uplift model fitted on half of an e-mail experiment, and its predictions on the other half."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.append(str(Path(__file__).resolve().parents[1]))
from public_data import find, write

FEATURES = ["recency", "history", "mens", "womens", "newbie"]


def chance(rows: pl.DataFrame, new: pl.DataFrame) -> np.ndarray:
    """The probability of a visit, fitted on some rows and predicted for others."""
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(rows.select(FEATURES).to_numpy(), rows["visit"].to_numpy())
    return model.predict_proba(new.select(FEATURES).to_numpy())[:, 1]


if __name__ == "__main__":
    rows = pl.read_csv(find("hillstrom.csv.gz"), infer_schema_length=None)
    rows = rows.with_columns((pl.col("segment") != "No E-Mail").cast(pl.Int8).alias("email"))
    half = np.random.default_rng(1).random(len(rows)) < 0.5
    fitted, audited = rows.filter(pl.Series(half)), rows.filter(pl.Series(~half))
    treated = chance(fitted.filter(pl.col("email") == 1), audited)
    without = chance(fitted.filter(pl.col("email") == 0), audited)
    write(
        audited.select("zip_code", "channel", "newbie", "history_segment", "visit", "email").with_columns(
            pl.Series("predicted_effect", treated / without), pl.Series("predicted_baseline", without)
        ),
        __file__,
    )
