"""Hillstrom's e-mail experiment: an uplift model fitted on one half, audited by segment on the other.

    python papers/effects_hillstrom.py [--charts FOLDER]

The paper publishes no table, and its data are not public; this script reproduces its Figures 1 to 3 on public data. The
arms "Mens E-Mail" and "Womens E-Mail" are each compared with "No E-Mail", for the outcomes visit and conversion. A
two-model learner (scikit-learn) is fitted on a random half. On the other half, its predicted relative effects are
audited by zip_code, channel, history_segment and newbie, and corrections are evaluated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import isonomy as iso
from data import find

ARMS = ("Mens E-Mail", "Womens E-Mail")
OUTCOMES = ("visit", "conversion")
GROUPS = ("zip_code", "channel", "history_segment", "newbie")
NUMBERS = ["recency", "history"]
SEED = 2008
WIDTHS = (7, 11, 10, 8, 8, 18, 8)


def learner() -> Any:
    features = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(), ["zip_code", "channel"]), remainder="passthrough"
    )
    return make_pipeline(features, LogisticRegression(max_iter=1_000))


def audited_half(table: pl.DataFrame, arm: str, outcome: str) -> pl.DataFrame:
    """The held-out half with predicted relative effects and baselines."""
    rows = table.filter(pl.col("segment").is_in([arm, "No E-Mail"])).with_columns(
        treatment=(pl.col("segment") == arm).cast(pl.Int8)
    )
    order = np.random.default_rng(SEED).permutation(len(rows))
    train, audit = rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]
    names = [*NUMBERS, "mens", "womens", "newbie", "zip_code", "channel"]
    models = [
        learner().fit(part.select(names).to_pandas(), part[outcome].to_numpy())
        for part in (train.filter(treatment=0), train.filter(treatment=1))
    ]
    X = audit.select(names).to_pandas()
    effect = iso.predicted_effects(tuple(models), X, measure="relative")
    return audit.with_columns(effect=effect, baseline=models[0].predict_proba(X)[:, 1])


def report(audit: pl.DataFrame, arm: str, outcome: str) -> iso.TreatmentBiasResult:
    roles = {"effect": "effect", "treatment": "treatment", "outcome": outcome}
    result = iso.treatment_bias(audit, **roles, groups=GROUPS)
    overall = iso.treatment_bias(audit.with_columns(all=pl.lit("all")), **roles, groups="all")
    print(f"\n{arm}, {outcome}: {len(audit):,} held-out rows; predicted {overall.predicted[0]:.3f}, observed "
          f"{overall.observed[0]:.3f}, error {overall.estimate[0]:+.3f} ({overall.error_low[0]:+.3f} to "
          f"{overall.error_high[0]:+.3f})")  # fmt: skip
    heads = zip(("rows", "predicted", "observed", "error", "bias", "95 % interval", "Holm p"), WIDTHS, strict=True)
    print(f"{'group':34}" + "".join(f"{head:>{width}}" for head, width in heads))
    for line in result.to_frame("polars").iter_rows(named=True):
        interval = f"{line['ci_low']:+.2f} to {line['ci_high']:+.2f}"
        print(f"{line['group']:34}{line['n']:7,.0f}{line['predicted']:11.3f}{line['observed']:10.3f}{line['estimate']:+8.2f}"
              f"{line['disparity']:+8.2f}{interval:>18}{line['adjusted_pvalue']:8.3f}")  # fmt: skip
    print(f"verdict: {result.verdict.value}")
    for warning in result.warnings:
        print(f"  warning: {warning}")
    return result


def corrections(audit: pl.DataFrame, outcome: str) -> iso.CorrectionsResult:
    """Figures 1 to 3 with the paper's protocol: ten splits, both swaps, fifty replicates."""
    roles = {"effect": "effect", "treatment": "treatment", "outcome": outcome}
    result = iso.evaluate_corrections(audit, **roles, groups=GROUPS, rng=SEED)
    print(f"\nRemaining on held-out rows ({outcome}), {len(result.groups)} groups, 10 splits, both swaps:")
    for line in result.to_frame("polars").iter_rows(named=True):
        print(f"  {line['candidate']:23} factor {line['factor']:.2f}   error rms {line['error_rms']:.3f}   bias rms "
              f"{line['bias_rms']:.3f}   tests for remaining bias that reject {line['bias_rejected']:.3f}")  # fmt: skip
    t = result.detection_statistic[np.isfinite(result.detection_statistic)]
    beyond = np.mean(np.abs(t) > 1.96)
    print(f"  t statistics before correction: mean {t.mean():+.2f}, sd {t.std():.2f}; beyond 1.96: {beyond:.3f}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--charts", type=Path, help="write PNG charts into this folder")
    folder = parser.parse_args().charts
    table = pl.read_csv(find("hillstrom.csv.gz"), infer_schema_length=None)
    print(f"{len(table):,} rows; mean visit {table['visit'].mean():.5f}, conversion {table['conversion'].mean():.5f}")
    for arm in ARMS:
        for outcome in OUTCOMES:
            audit = audited_half(table, arm, outcome)
            result = report(audit, arm, outcome)
            evaluated = corrections(audit, outcome)
            if folder:
                draw(folder, f"hillstrom_{arm.split()[0].lower()}_{outcome}", result, evaluated)


def draw(folder: Path, name: str, result: iso.TreatmentBiasResult, evaluated: iso.CorrectionsResult) -> None:
    from isonomy.results.theme import to_png

    folder.mkdir(parents=True, exist_ok=True)
    charts = {
        "bias": result.plot(),
        "error": result.plot("error"),
        "remaining": evaluated.plot(),
        "t": evaluated.plot("statistic"),
    }
    for kind, chart in charts.items():
        (folder / f"{name}_{kind}.png").write_bytes(to_png(chart))
    print(f"  charts: {folder / name}_*.png")


if __name__ == "__main__":
    main()
