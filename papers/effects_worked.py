"""Fitting, correction and evaluation on three public experiments: Hillstrom's e-mails, social pressure, NSW.

    python papers/effects_worked.py

Rows are split at random into three parts. On the first, an uplift model (two regressions, one per arm) is fitted; on
the second, `EffectCorrector` learns the error of each group; on the third, both predictions are audited and their price
is compared. Finally, `evaluate_corrections` compares all strategies on the second and third parts together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import isonomy as iso

SEED = 1986


@dataclass(frozen=True)
class Experiment:
    """One experiment: its file, how to make its columns, and the options of the audit."""

    file: str
    prepare: Callable[[pl.DataFrame], pl.DataFrame]  # adds treatment, outcome and group
    features: tuple[str, ...]
    measure: Any


def hillstrom(table: pl.DataFrame) -> pl.DataFrame:
    """Visits after the women's e-mail, compared with no e-mail, by the channel of earlier purchases."""
    kept = table.filter(pl.col("segment") != "Mens E-Mail")
    return kept.with_columns(
        treatment=(pl.col("segment") == "Womens E-Mail").cast(pl.Int8), outcome="visit", group="channel"
    )


def social_pressure(table: pl.DataFrame) -> pl.DataFrame:
    """Turnout after the letter that names the neighbors, compared with no letter, by age.

    Households were randomized, but the public file does not identify them, so intervals are slightly too short.
    """
    age = 2006 - pl.col("yearofbirth")
    kept = table.filter(pl.col("messages").is_in(["Neighbors", "Control"]))
    return kept.with_columns(
        treatment=(pl.col("messages") == "Neighbors").cast(pl.Int8),
        outcome="primary2006",
        group=pl.when(age < 35)
        .then(pl.lit("below 35"))
        .when(age < 65)
        .then(pl.lit("35 to 64"))
        .otherwise(pl.lit("65 and above")),
        female=(pl.col("sex") == "female").cast(pl.Int8),
    )


def supported_work(table: pl.DataFrame) -> pl.DataFrame:
    """Earnings in 1978 after the program, by race."""
    return table.with_columns(treatment="trt", outcome="re78", group="black")


EXPERIMENTS = {
    "Hillstrom": Experiment("hillstrom.csv.gz", hillstrom, ("recency", "history", "mens", "womens"), "relative"),
    "social pressure": Experiment(
        "gotv_social_pressure.csv.gz", social_pressure, ("female", "primary2004", "hhsize"), "difference"
    ),
    "NSW": Experiment("nswdemo.csv", supported_work, ("age", "educ", "re75"), "difference"),
}


@dataclass(frozen=True)
class Worked:
    """Results on the rows on which the model was not fitted."""

    before: iso.TreatmentBiasResult
    after: iso.TreatmentBiasResult
    price: iso.PriceResult
    corrector: iso.EffectCorrector
    evaluation: iso.CorrectionsResult


def worked(table: pl.DataFrame, experiment: Experiment) -> Worked:
    """Fit, correct and evaluate on one table."""
    rows = experiment.prepare(table)
    part = np.random.default_rng(SEED).integers(0, 3, len(rows))
    train, learn, judge = (rows.filter(pl.Series(part == i)) for i in range(3))
    names = list(experiment.features)
    binary = set(rows["outcome"].unique()) <= {0, 1}
    kind = LogisticRegression if binary else LinearRegression
    models = tuple(
        make_pipeline(StandardScaler(), kind()).fit(arm.select(names).to_numpy(), arm["outcome"].to_numpy())
        for arm in (train.filter(treatment=0), train.filter(treatment=1))
    )

    def predicted(frame: pl.DataFrame) -> pl.DataFrame:
        X = frame.select(names).to_numpy()
        level = models[0].predict_proba(X)[:, 1] if binary else models[0].predict(X)
        return frame.with_columns(
            effect=iso.predicted_effects(models, X, measure=experiment.measure), baseline=pl.Series(level)
        )

    learn, judge = predicted(learn), predicted(judge)
    corrector = iso.EffectCorrector(groups="group", measure=experiment.measure)
    corrector.fit(learn, learn["outcome"])
    judge = judge.with_columns(corrected=corrector.predict(judge))
    roles: dict[str, Any] = {"treatment": "treatment", "outcome": "outcome", "groups": "group"}
    roles["measure"] = experiment.measure
    baseline = "baseline" if experiment.measure == "relative" else None
    return Worked(
        iso.treatment_bias(judge, effect="effect", **roles),
        iso.treatment_bias(judge, effect="corrected", **roles),
        iso.price_of_fairness(judge, effect="effect", corrected="corrected", baseline=baseline, **roles),
        corrector,
        iso.evaluate_corrections(
            pl.concat([learn, judge], how="diagonal"), effect="effect", method=iso.heldout(5), rng=SEED, **roles
        ),
    )


def main() -> None:
    """Print all three."""
    from data import find  # type: ignore[import-not-found]  # next to this script

    for name, experiment in EXPERIMENTS.items():
        result = worked(pl.read_csv(find(experiment.file), infer_schema_length=None), experiment)
        print(f"\n{name} ({experiment.measure}): {result.before.headline()}")
        columns = zip(
            result.before.labels, result.before.n, result.before.disparity, result.before.adjusted_pvalue,
            result.corrector.correction_, result.after.disparity, result.before.status, strict=True,
        )  # fmt: skip
        for label, n, bias, p, correction, after, status in columns:
            print(f"  {label:22} {n:7,.0f} rows  bias {bias:+9.3f} (Holm p {p:.3g}, {status.value})  correction "
                  f"{correction:+9.3f}  bias after {after:+9.3f}")  # fmt: skip
        print(
            f"  all errors equal: p = {result.before.omnibus_pvalue[0]:.3g}; after {result.after.omnibus_pvalue[0]:.3g}"
        )
        for sentence in result.price.findings():
            print(f"  {sentence}")
        print(f"  {result.evaluation.headline()}")
        pvalues = zip(result.evaluation.strategies, result.evaluation.adjusted_pvalue, strict=True)
        print(f"  adjusted p-values: {', '.join(f'{name} {p:.3g}' for name, p in pvalues if np.isfinite(p))}")


if __name__ == "__main__":
    main()
