"""The three datasets of Si, Murthy, Blanchet and Nguyen (2021), Appendix B.2, as arrays (X, group, label).

The paper does not say which label is positive, which columns of COMPAS it used, or how it treated missing values. We
try two readings.

`AUTHORS` follows the loader that the authors' group published with an earlier paper (Taskesen, Blanchet, Kuhn and
Nguyen, Statistical-Fairness-Test): Arrhythmia has 12 features without sex; COMPAS has one-hot age categories, sex,
priors and charge degree, and the positive label is "reoffended"; Drug uses the ethnicity code -0.31685 for the
protected group, which is White (1,720 of 1,885 rows), although the text says Black.

`OURS` follows the text: the positive labels are "normal" (Arrhythmia), "did not reoffend within two years" (COMPAS) and
"never used" (Drug).

In both, missing values are replaced by the median, features are standardized, and the sensitive attribute is not a
feature. (With it, the naive SVM is rejected in every split of every dataset, further from the published numbers.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from data import find

Array = NDArray[np.float64]
Dataset = tuple[Array, Array, Array]


def arrhythmia() -> Dataset:
    return _arrhythmia(12)


def _arrhythmia(columns: int) -> Dataset:
    table = pl.read_csv(find("arrhythmia.data"), has_header=False, null_values="?", infer_schema_length=None)
    features = table[:, :columns].cast(pl.Float64).with_columns(pl.all().fill_null(pl.all().median()))
    features = features.drop(features.columns[1])  # column 2 is the sex
    return features.to_numpy(), table[:, 1].to_numpy().astype(float), (table[:, -1] == 1).to_numpy().astype(float)


def _defendants() -> pl.DataFrame:
    """African-American and Caucasian defendants after ProPublica's filter: 5,278 rows."""
    return pl.read_csv(find("compas-scores-two-years.csv"), infer_schema_length=None).filter(
        pl.col("days_b_screening_arrest").is_between(-30, 30)
        & (pl.col("is_recid") != -1)
        & (pl.col("c_charge_degree") != "O")
        & (pl.col("score_text") != "N/A")
        & pl.col("race").is_in(["African-American", "Caucasian"])
    )


def compas() -> Dataset:
    table = _defendants()
    race = (table["race"] == "African-American").to_numpy().astype(float)
    numbers = table.select("age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count").to_numpy()
    flags = [(table["sex"] == "Male").to_numpy(), (table["c_charge_degree"] == "F").to_numpy()]
    return np.column_stack([numbers, *flags]).astype(float), race, 1.0 - table["two_year_recid"].to_numpy()


def compas_authors() -> Dataset:
    table = _defendants()
    race = (table["race"] == "African-American").to_numpy().astype(float)
    ages = [(table["age_cat"] == age).to_numpy() for age in sorted(table["age_cat"].unique())]
    flags = [(table["sex"] == "Male").to_numpy(), (table["c_charge_degree"] == "F").to_numpy()]
    columns = np.column_stack([*ages, *flags, table["priors_count"].to_numpy()])
    return columns.astype(float), race, table["two_year_recid"].to_numpy().astype(float)


def _drug(protected: Callable[[Array], Array]) -> Dataset:
    table = pl.read_csv(find("drug_consumption.data"), has_header=False)
    features = np.delete(table[:, 1:13].to_numpy().astype(float), 4, axis=1)  # column 6 is the ethnicity
    group = protected(table[:, 5].to_numpy()).astype(float)
    return features, group, (table[:, 18] == "CL0").to_numpy().astype(float)


def drug() -> Dataset:
    return _drug(lambda code: code < -1.0)  # -1.10702 is "Black"


OURS = {"arrhythmia": arrhythmia, "compas": compas, "drug": drug}
AUTHORS = {
    "arrhythmia": lambda: _arrhythmia(13),
    "compas": compas_authors,
    "drug": lambda: _drug(lambda code: np.abs(code + 0.31685) < 1e-4),
}
