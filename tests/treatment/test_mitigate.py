"""The corrector as a scikit-learn estimator."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import isonomy as iso
from isonomy.errors import DataError, MissingValues, NotBinary, UnknownColumn, UnknownOption, UsageError
from isonomy.results import Status


def frame(rows: int = 40_000, **design: Any) -> pl.DataFrame:
    design = {"groups": ["a", "b", "c"], "baseline": 0.4, "error": {"b": 0.5}, **design}
    return iso.simulate.uplift(rows, **design).frame()


def corrector(**options: Any) -> iso.EffectCorrector:
    return iso.EffectCorrector(**{"group_columns": "group", **options})


def test_the_correction_is_the_error_of_the_audit_times_the_factor() -> None:
    table = frame()
    audit = iso.treatment_bias(table, effect="effect", treatment="treatment", outcome="outcome", groups="group")
    for strategy in ("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"):
        fitted = corrector(strategy=strategy).fit(table, table["outcome"])
        np.testing.assert_allclose(fitted.error_, audit.error, rtol=1e-9)
        np.testing.assert_allclose(fitted.error_se_, audit.error_se, rtol=1e-9)
        np.testing.assert_allclose(fitted.correction_, fitted.factor_ * audit.error)
        moved = table["effect"].to_numpy() - fitted.predict(table)
        for g, name in enumerate("abc"):
            np.testing.assert_allclose(moved[(table["group"] == name).to_numpy()], fitted.correction_[g])


def test_after_the_mean_correction_no_error_is_left_on_the_same_rows() -> None:
    table = frame()
    corrected = corrector(strategy="mean").fit(table, table["outcome"]).predict(table)
    again = iso.treatment_bias(
        table.with_columns(effect=corrected), effect="effect", treatment="treatment", outcome="outcome", groups="group"
    )
    np.testing.assert_allclose(again.error, 0, atol=1e-12)


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "array"])
def test_every_kind_of_table(kind: str) -> None:
    table = frame(5_000)
    codes = table.with_columns(group=pl.col("group").replace_strict({"a": 0, "b": 1, "c": 2}))
    expected = corrector().fit(table, table["outcome"]).predict(table)
    X: Any = {"polars": table, "pandas": table.to_pandas(), "pyarrow": table.to_arrow(), "array": codes.to_numpy()}[
        kind
    ]
    options: dict[str, Any] = {}
    if kind == "array":
        names = codes.columns
        at = {n: names.index(n) for n in names}
        options = {"group_columns": [at["group"]], "effect_column": at["effect"], "treatment_column": at["treatment"]}
    found = corrector(**options).fit(X, table["outcome"].to_numpy())
    np.testing.assert_allclose(found.predict(X), expected)
    assert found.transform(X).shape == (5_000, 1)
    assert found.n_features_in_ == 6


def test_conventions() -> None:
    model = corrector(strategy="mse_plus", alpha=0.1)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(strategy="none").strategy == "none"
    with pytest.raises(NotFittedError):
        model.predict(frame(10))
    table = frame(4_000)
    fitted = corrector().fit(table, table["outcome"])
    back = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(back.predict(table), fitted.predict(table))
    assert fitted.get_feature_names_out().tolist() == ["corrected_effect"]
    assert "EffectCorrector" in repr(fitted)
    before = table.clone()
    fitted.predict(table)
    assert table.equals(before)


def test_pipelines_searches_and_cross_prediction() -> None:
    table = frame(6_000).to_pandas()
    y = table["outcome"]
    pipe = Pipeline([("same", FunctionTransformer()), ("correct", corrector())])
    np.testing.assert_allclose(pipe.fit(table, y).predict(table), corrector().fit(table, y).predict(table))
    assert cross_val_predict(corrector(), table, y, cv=3).shape == (6_000,)

    def score(estimator: Any, X: Any, y: Any) -> float:
        held = iso.treatment_bias(
            X.assign(effect=estimator.predict(X), outcome=y),
            effect="effect", treatment="treatment", outcome="outcome", groups="group",
        )  # fmt: skip
        return -float(np.mean(held.error**2))

    search = GridSearchCV(pipe, {"correct__strategy": ["none", "mean", "positive_part"]}, scoring=score, cv=3)
    assert search.fit(table, y).best_params_["correct__strategy"] != "none"


def test_weights_are_counts() -> None:
    table = frame(2_000)
    weight = np.arange(2_000) % 3
    repeated = table[np.repeat(np.arange(2_000), weight)]
    counted = corrector().fit(table, table["outcome"], sample_weight=weight)
    np.testing.assert_allclose(counted.correction_, corrector().fit(repeated, repeated["outcome"]).correction_)


def test_several_group_columns_are_their_intersection() -> None:
    table = frame().with_columns(half=(pl.col("x") > 0.5).cast(pl.Int64))
    fitted = corrector(group_columns=["group", "half"]).fit(table, table["outcome"])
    assert len(fitted.groups_) == 6
    assert fitted.groups_[3].label == "group=b & half=1"
    assert np.isfinite(fitted.predict(table)).all()


def test_an_unknown_group_is_an_error_or_gets_the_pooled_correction() -> None:
    table = frame()
    new = table.head(3).with_columns(group=pl.lit("z"))
    strict = corrector(strategy="mean").fit(table, table["outcome"])
    with pytest.raises(DataError, match=r"group=z.*pooled"):
        strict.predict(new)
    pooled = corrector(strategy="mean", unknown="pooled").fit(table, table["outcome"])
    moved = new["effect"].to_numpy() - pooled.predict(new)
    np.testing.assert_allclose(moved, pooled.pooled_correction_)
    assert pooled.pooled_correction_ == pytest.approx(0.5 / 3, abs=0.05)
    np.testing.assert_allclose(pooled.predict(table), strict.predict(table))


def test_a_group_that_cannot_be_estimated_is_left_alone_or_pooled() -> None:
    table = frame(6_000)
    lonely = table.head(20).with_columns(group=pl.lit("d"), treatment=pl.lit(1, dtype=pl.Int8))
    both = pl.concat([table, lonely])
    with pytest.warns(UserWarning, match="group=d could not be estimated"):
        fitted = corrector().fit(both, both["outcome"])
    assert fitted.status_[3] is Status.NO_CONTROL
    np.testing.assert_allclose(fitted.predict(lonely), lonely["effect"].to_numpy())
    assert (fitted.correction_[:3] != 0).any()
    with pytest.warns(UserWarning, match="all groups together"):
        pooled = corrector(unknown="pooled").fit(both, both["outcome"])
    assert pooled.correction_[3] == pooled.pooled_correction_


def test_bootstrap_moments() -> None:
    table = frame(8_000)
    one, two = (corrector(variance="bootstrap", random_state=4).fit(table, table["outcome"]) for _ in range(2))
    np.testing.assert_allclose(one.correction_, two.correction_, rtol=1e-9)
    np.testing.assert_allclose(one.error_se_, corrector().fit(table, table["outcome"]).error_se_, rtol=0.12)


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_real_outcomes_and_differences(measure: str) -> None:
    table = frame(20_000, outcome="real", measure=measure, baseline=2.0)
    fitted = corrector(measure=measure, strategy="mean").fit(table, table["outcome"])
    assert abs(fitted.correction_[1] - 0.5) < 4 * fitted.error_se_[1]


def test_bad_calls() -> None:
    table = frame(500)
    y = table["outcome"]
    for options, error, words in (
        ({"strategy": "shrink"}, UnknownOption, "strategy"),
        ({"unknown": "zero"}, UnknownOption, "unknown"),
        ({"variance": "jackknife"}, UnknownOption, "variance"),
        ({"group_columns": ()}, UsageError, "group_columns"),
        ({"effect_column": "efect"}, UnknownColumn, "Did you mean 'effect'"),
        ({"effect_column": 99}, UsageError, "99"),
    ):
        with pytest.raises(error, match=words):
            corrector(**options).fit(table, y)
    with pytest.raises(NotBinary, match="treatment"):
        corrector().fit(table.with_columns(treatment=pl.lit(2)), y)
    with pytest.raises(MissingValues, match="effect"):
        corrector().fit(table.with_columns(effect=pl.lit(float("nan"))), y)
    with pytest.raises(UsageError, match="'group' is a name, but X is an array; give a column number, or a frame"):
        corrector().fit([[1, 2]], [0])
    with pytest.raises(DataError, match="NaN"):
        corrector().fit(table, y).predict(table.with_columns(effect=pl.lit(float("nan"))))
    with pytest.raises(UsageError, match="group_columns: 'group' is a name, but X is an array; give a column number"):
        corrector().fit(table.drop("group").to_numpy(), y)
    with pytest.raises(UsageError, match="alpha: 2 is not allowed"):
        corrector(alpha=2).fit(table, y)
    with pytest.raises(UsageError, match="resamples"):
        corrector(resamples=1).fit(table, y)


def test_a_group_that_changed_its_type_is_the_same_group() -> None:
    table = frame(6_000).with_columns(group=pl.col("group").replace_strict({"a": 0, "b": 1, "c": 2}))
    fitted = corrector().fit(table, table["outcome"])
    expected = fitted.predict(table)
    for kind in (pl.Float64, pl.String, pl.Int8):
        np.testing.assert_array_equal(fitted.predict(table.with_columns(pl.col("group").cast(kind))), expected)


def test_a_group_column_may_be_called_outcome() -> None:
    table = frame(6_000)
    renamed = table.drop("outcome").rename({"group": "outcome"})
    fitted = corrector(group_columns="outcome").fit(renamed, table["outcome"])
    np.testing.assert_allclose(fitted.correction_, corrector().fit(table, table["outcome"]).correction_)
