"""EffectCorrector and predicted_effects."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import isonomy as iso
from isonomy.errors import DataError, MissingValues, NotBinary, UnknownColumn, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Status
from support.tables import observed


def frame(rows: int = 40_000, **design: Any) -> pl.DataFrame:
    design = {"groups": ["a", "b", "c"], "baseline": 0.4, "error": {"b": 0.5}, **design}
    return iso.simulate.uplift(rows, **design).frame()


def corrector(**options: Any) -> iso.EffectCorrector:
    return iso.EffectCorrector(**{"groups": "group", **options})


def test_the_correction_is_the_error_of_the_audit_times_the_factor() -> None:
    table = frame()
    audit = iso.treatment_bias(table, effect="effect", treatment="treatment", outcome="outcome", groups="group")
    for strategy in ("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"):
        fitted = corrector(strategy=strategy).fit(table, table["outcome"])
        np.testing.assert_allclose(fitted.error_, audit.estimate, rtol=1e-9)
        np.testing.assert_allclose(fitted.error_se_, audit.error_se, rtol=1e-9)
        np.testing.assert_allclose(fitted.correction_, fitted.factor_ * audit.estimate)
        moved = table["effect"].to_numpy() - fitted.predict(table)
        for g, name in enumerate("abc"):
            np.testing.assert_allclose(moved[(table["group"] == name).to_numpy()], fitted.correction_[g])


def test_after_the_mean_correction_no_error_is_left_on_the_same_rows() -> None:
    table = frame()
    corrected = corrector(strategy="mean").fit(table, table["outcome"]).predict(table)
    again = iso.treatment_bias(
        table.with_columns(effect=corrected), effect="effect", treatment="treatment", outcome="outcome", groups="group"
    )
    np.testing.assert_allclose(again.estimate, 0, atol=1e-12)


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
        options = {"groups": [at["group"]], "effect": at["effect"], "treatment": at["treatment"]}
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
        return -float(np.mean(held.estimate**2))

    search = GridSearchCV(pipe, {"correct__strategy": ["none", "mean", "positive_part"]}, scoring=score, cv=3)
    assert search.fit(table, y).best_params_["correct__strategy"] != "none"


def test_weights_are_counts() -> None:
    table = frame(2_000)
    weight = np.arange(2_000) % 3
    repeated = table[np.repeat(np.arange(2_000), weight)]
    counted = corrector().fit(table, table["outcome"], sample_weight=weight)
    np.testing.assert_allclose(counted.correction_, corrector().fit(repeated, repeated["outcome"]).correction_)


def fitted_numbers(table: pl.DataFrame, **options: Any) -> np.ndarray:
    weight = options.pop("sample_weight", None)
    fitted = corrector(**options).fit(table, table["outcome"], sample_weight=weight)
    return np.array([fitted.error_, fitted.error_se_, fitted.correction_, np.full(3, fitted.pooled_correction_)])


def test_weights_and_clusters() -> None:
    table = (
        frame(6_000)
        .with_row_index("id")
        .with_columns(w=pl.Series(np.random.default_rng(0).uniform(0.5, 2, 6_000)), shop=pl.col("id") % 300)
    )
    weighted = fitted_numbers(table, weight="w")
    audit = iso.treatment_bias(
        table, effect="effect", treatment="treatment", outcome="outcome", groups="group", weight="w"
    )
    np.testing.assert_allclose(weighted[:2], [audit.estimate, audit.error_se], rtol=1e-9)
    np.testing.assert_allclose(fitted_numbers(table.with_columns(2 * pl.col("w")), weight="w"), weighted)
    np.testing.assert_allclose(fitted_numbers(table, sample_weight=table["w"]), weighted)
    plain, own = fitted_numbers(table), fitted_numbers(table, cluster="id")
    np.testing.assert_allclose(own, plain, rtol=2e-3)
    copies = fitted_numbers(pl.concat([table, table]), cluster="id")
    np.testing.assert_allclose(copies, own, rtol=1e-4)
    shops = fitted_numbers(table, cluster="shop")
    np.testing.assert_allclose(shops[0], plain[0])
    assert not np.allclose(shops[1], plain[1], rtol=1e-3)


def test_the_pooled_correction_of_clusters() -> None:
    """With one repeated outcome per shop, the pooled error is as uncertain as with one row per shop."""
    table = frame(3_000).with_row_index("id")
    copies = pl.concat([table] * 5)
    options: dict[str, Any] = {"strategy": "positive_part", "unknown": "pooled"}
    one = corrector(**options).fit(table, table["outcome"])
    many = corrector(**options, cluster="id").fit(copies, copies["outcome"])
    assert many.pooled_correction_ == pytest.approx(one.pooled_correction_, rel=1e-3)
    rows = corrector(**options).fit(copies, copies["outcome"])
    assert rows.pooled_correction_ != pytest.approx(one.pooled_correction_, rel=1e-2)


def test_bad_weights_and_clusters() -> None:
    table = frame(600).with_columns(w=pl.lit(1.5), few=pl.int_range(600) % 8)
    y, half = table["outcome"], np.full(600, 0.5)
    with pytest.raises(UsageError, match=r"^method: a bootstrap treats rows as independent"):
        corrector(weight="w", method=iso.bootstrap()).fit(table, y)
    with pytest.raises(UsageError, match=r"^sample_weight: not whole numbers"):
        corrector(weight="w").fit(table, y, sample_weight=half)
    with pytest.raises(UnknownColumn, match=r"^cluster"):
        corrector(cluster="shop").fit(table, y)
    with pytest.raises(DataError, match="negative"):
        corrector().fit(table, y, sample_weight=-half)
    with pytest.raises(MissingValues):
        corrector().fit(table, y, sample_weight=np.where(np.arange(600) == 3, np.nan, 1.0))
    with pytest.raises(UsageError, match="without observed_effects"):
        corrector(weight="w", estimator=observed({"a": (1.0, 0.1)}), measure="difference").fit(table)
    with pytest.warns(UserWarning, match="could not be estimated: their predictions are left"):
        fitted = corrector(cluster="few").fit(table, y)
    assert set(fitted.status_) == {Status.FEW_CLUSTERS}
    big = frame(3_000)
    with pytest.warns(UserWarning, match="look like survey weights"):
        corrector().fit(big, big["outcome"], sample_weight=np.arange(3_000) + 1)


def test_several_groups_are_their_intersection() -> None:
    table = frame().with_columns(half=(pl.col("x") > 0.5).cast(pl.Int64))
    fitted = corrector(groups=["group", "half"]).fit(table, table["outcome"])
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
    with pytest.warns(UserWarning, match=r"correction of all groups combined: group=z\.$"):
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
    with pytest.warns(UserWarning, match="all groups combined"):
        pooled = corrector(unknown="pooled").fit(both, both["outcome"])
    assert pooled.correction_[3] == pooled.pooled_correction_


def test_bootstrap_moments() -> None:
    table = frame(8_000)
    one, two = (corrector(method=iso.bootstrap(), random_state=4).fit(table, table["outcome"]) for _ in range(2))
    np.testing.assert_allclose(one.correction_, two.correction_, rtol=1e-9)
    np.testing.assert_allclose(one.error_se_, corrector().fit(table, table["outcome"]).error_se_, rtol=0.12)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"estimator": iso.regression("x")}, {"estimator": iso.regression(["x"])}),
        ({"estimator": iso.arm_means("p")}, {"estimator": iso.arm_means("p")}),
        ({"estimator": iso.arm_means("p"), "weight": "w"}, {"estimator": iso.arm_means("p"), "weight": "w"}),
    ],
)
def test_errors_are_those_of_the_audit_with_the_same_options(options: dict[str, Any], named: dict[str, Any]) -> None:
    table = frame(2_000).with_columns(p=0.4 + 0.2 * pl.col("x"), w=1 + pl.col("x"))
    roles: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
    fitted = corrector(random_state=1, **options).fit(table, table["outcome"])
    audit = iso.treatment_bias(table, **roles, rng=1, **named)
    np.testing.assert_allclose(fitted.error_, audit.estimate, rtol=1e-9)
    np.testing.assert_allclose(fitted.error_se_, audit.error_se, rtol=1e-9)
    assert np.isfinite(fitted.predict(table.select("group", "effect"))).all()


def test_models_may_be_fitted_to_other_rows() -> None:
    table = frame(500)
    fitted = corrector(estimator=iso.aipw(["x"]), random_state=1).fit(table, table["outcome"])
    np.testing.assert_allclose(fitted.error_, corrector().fit(table, table["outcome"]).error_, atol=0.3)


def test_rows_may_be_resampled() -> None:
    table = frame(4_000)
    rows = corrector(method=iso.bootstrap(200, over="rows"), random_state=1).fit(table, table["outcome"])
    np.testing.assert_allclose(rows.error_se_, corrector().fit(table, table["outcome"]).error_se_, rtol=0.25)


def test_a_strategy_of_ones_own_is_not_asked_about_one_group() -> None:
    """It may need several groups; only the pooled correction has one."""

    def spread(error: FloatArray, se: FloatArray) -> FloatArray:
        return error - error.std(ddof=1)

    table = frame(6_000)
    fitted = corrector(strategy=spread).fit(table, table["outcome"])
    np.testing.assert_allclose(fitted.correction_, fitted.error_ - fitted.error_.std(ddof=1))


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
        ({"method": "jackknife"}, UnknownOption, "method"),
        ({"groups": ()}, UsageError, "groups"),
        ({"effect": "efect"}, UnknownColumn, "Did you mean 'effect'"),
        ({"effect": 99}, UsageError, "99"),
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
    with pytest.raises(UsageError, match="groups: 'group' is a name, but X is an array; give a column number"):
        corrector().fit(table.drop("group").to_numpy(), y)
    with pytest.raises(UsageError, match="alpha: 2 is not allowed"):
        corrector(alpha=2).fit(table, y)
    with pytest.raises(UsageError, match=r"group_columns: it has moved; write groups="):
        iso.EffectCorrector(group_columns="group")
    with pytest.raises(TypeError, match="unexpected keyword"):
        iso.EffectCorrector(group="group")


def test_a_group_that_changed_its_type_is_the_same_group() -> None:
    table = frame(6_000).with_columns(group=pl.col("group").replace_strict({"a": 0, "b": 1, "c": 2}))
    fitted = corrector().fit(table, table["outcome"])
    expected = fitted.predict(table)
    for kind in (pl.Float64, pl.String, pl.Int8):
        np.testing.assert_array_equal(fitted.predict(table.with_columns(pl.col("group").cast(kind))), expected)


def test_a_group_column_may_be_called_outcome() -> None:
    table = frame(6_000)
    renamed = table.drop("outcome").rename({"group": "outcome"})
    fitted = corrector(groups="outcome").fit(renamed, table["outcome"])
    np.testing.assert_allclose(fitted.correction_, corrector().fit(table, table["outcome"]).correction_)


def test_the_default_borrows_from_the_other_groups() -> None:
    """All groups have an error of 0.3: the common error is removed from each equally, and no bias is created."""
    table = frame(12_000, error=0.3, groups={"a": 0.8, "b": 0.15, "c": 0.05})
    default, own = (
        corrector(strategy=s).fit(table, table["outcome"]) for s in ("empirical_bayes_mixture", "positive_part")
    )
    assert np.ptp(default.correction_) < 0.3 * np.ptp(own.correction_)
    assert corrector().strategy == "empirical_bayes_mixture"
    mine = corrector(strategy=lambda error, se: 0 * se + error.mean()).fit(table, table["outcome"])
    np.testing.assert_allclose(mine.correction_, mine.error_.mean())


def test_a_multiplied_ratio_stays_above_zero() -> None:
    table = frame(20_000, error={"b": 1.2})
    wild = table.with_columns(effect=pl.col("effect") * pl.col("x") * 2)  # some predictions are near 0
    added, multiplied = (
        corrector(strategy="mean", form=form).fit(wild, wild["outcome"]) for form in ("additive", "multiplicative")
    )
    assert (added.predict(wild) < 0).any()
    assert (multiplied.predict(wild) >= 0).all()
    roles: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
    again = iso.treatment_bias(wild.with_columns(effect=multiplied.predict(wild)), **roles)
    np.testing.assert_allclose(again.estimate, 0, atol=1e-9)
    with pytest.raises(UsageError, match="relative effects"):
        corrector(form="multiplicative", measure="difference").fit(wild, wild["outcome"])


def test_effects_brought_from_elsewhere() -> None:
    table = frame(20_000)
    effects = {"a": (1.29, 0.01), "b": (1.29, 0.01), "c": (1.29, 0.01)}
    fitted = corrector(strategy="mean", estimator=observed(effects), measure=iso.relative(baseline="baseline")).fit(
        table.drop("treatment", "outcome")
    )
    np.testing.assert_allclose(fitted.correction_, [0.0, 0.5, 0.0], atol=0.01)
    with pytest.raises(UsageError, match="outcomes of the experiment"):
        corrector().fit(table)


def test_the_baseline_of_a_measure_is_a_column_by_name_or_by_number() -> None:
    table = frame(6_000)
    named = corrector(measure=iso.relative("normalized", "baseline")).fit(table, table["outcome"])
    code = table["group"].cast(pl.Categorical).to_physical().cast(pl.Float64)
    X = np.column_stack([table["effect"], table["treatment"], table["baseline"], code])
    numbered = iso.EffectCorrector(effect=0, treatment=1, groups=3, measure=iso.relative("normalized", baseline=2))
    errors = numbered.fit(X, table["outcome"].to_numpy()).error_
    np.testing.assert_allclose(np.sort(errors), np.sort(named.error_), rtol=1e-12)


def test_ratios_for_differences_and_differences_for_ratios_are_noticed() -> None:
    table = frame(6_000)
    with pytest.warns(UserWarning, match="look like ratios"):
        corrector(measure="difference").fit(table, table["outcome"])
    table = table.with_columns(effect=pl.col("effect") * 0.2)
    with pytest.warns(UserWarning, match="look like differences"):
        corrector().fit(table, table["outcome"])


def test_differences_are_not_corrected_as_ratios() -> None:
    table = frame(6_000, measure="difference", error={"b": 0.1})
    for options in ({}, {"method": iso.bootstrap()}, {"weight": "baseline"}):
        with pytest.raises(UsageError, match=r'measure: none given.*measure="difference".*measure="relative"'):
            corrector(**options).fit(table, table["outcome"])
    fitted = corrector(measure="difference").fit(table, table["outcome"])
    assert np.abs(fitted.predict(table) - table["effect"].to_numpy()).max() < 0.2


def test_a_group_with_an_empty_arm_of_events_is_left_as_it_is() -> None:
    """With 0 of 8 treated, the spread of that arm is unknown, and correct groups stay correct."""
    sizes = {("a", 1): (2000, 500), ("a", 0): (2000, 400), ("b", 1): (2000, 500), ("b", 0): (2000, 400)}
    sizes |= {("z", 1): (8, 0), ("z", 0): (200, 40)}
    parts = [(g, t, [1] * k + [0] * (n - k)) for (g, t), (n, k) in sizes.items()]
    table = pl.DataFrame(
        {
            "g": [g for g, _, y in parts for _ in y],
            "t": [t for _, t, y in parts for _ in y],
            "y": [one for _, _, y in parts for one in y],
        }
    ).with_columns(f=1.25 + 0.001 * (pl.int_range(pl.len()) % 7))
    corrector = iso.EffectCorrector(effect="f", groups="g", treatment="t")
    with pytest.warns(UserWarning, match="g=z could not be estimated"):
        corrector.fit(table, table["y"])
    assert np.abs(corrector.correction_[:2]).max() < 0.02
    assert corrector.correction_[2] == 0


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_large_decimals_stay_different_groups(library: Any) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 400)
    rows = {"e": rng.normal(size=400), "t": rng.integers(0, 2, 400)}
    options: dict[str, Any] = {"effect": "e", "treatment": "t", "measure": "difference"}
    outcomes = rng.normal(size=400) + codes
    named, large = (
        iso.EffectCorrector(groups="g", **options).fit(library(rows | {"g": groups}), outcomes)
        for groups in (codes, [Decimal(10**20 + int(code)) for code in codes])
    )
    assert len(large.groups_) == 2
    assert large.error_ == pytest.approx(named.error_)


X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])


class Effect:
    """Like EconML: effect(X), one column."""

    def effect(self, X: Any) -> Any:
        return X[:, 0] * 0.1


class Several:
    """Like causalml with two treatments: predict(X), one column each."""

    def predict(self, X: Any) -> Any:
        return np.stack([X[:, 0] * 0.1, X[:, 0] * 0.2], -1)


class Column:
    """Like causalml with one treatment: predict(X) of shape (n, 1)."""

    def predict(self, X: Any) -> Any:
        return X[:, :1] * 0.1


@pytest.mark.parametrize("model", [Effect(), Column()])
def test_one_effect(model: object) -> None:
    np.testing.assert_allclose(iso.predicted_effects(model, X, measure="difference"), [0.1, 0.2, 0.3])


def test_several_effects_need_a_choice() -> None:
    np.testing.assert_allclose(iso.predicted_effects(Several(), X, measure="difference", column=1), [0.2, 0.4, 0.6])
    with pytest.raises(UsageError, match="2 effects"):
        iso.predicted_effects(Several(), X)


def test_between_measures() -> None:
    relative = iso.predicted_effects(Effect(), X, measure="relative", baseline=[0.5, 0.4, 0.3])
    np.testing.assert_allclose(relative, [1.2, 1.5, 2.0])

    class Ratio:
        def predict(self, X: Any) -> Any:
            return relative

    back = iso.predicted_effects(Ratio(), X, measure="difference", gives="relative", baseline=[0.5, 0.4, 0.3])
    np.testing.assert_allclose(back, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(iso.predicted_effects(Ratio(), X, measure="relative", gives="relative"), relative)


def test_two_outcome_models() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    control = LinearRegression().fit(x, 2 + x[:, 0])
    treated = LinearRegression().fit(x, 3 + x[:, 0])
    np.testing.assert_allclose(iso.predicted_effects((control, treated), X, measure="difference"), 1.0)
    np.testing.assert_allclose(iso.predicted_effects((control, treated), X), (3 + X[:, 0]) / (2 + X[:, 0]))
    y = (rng.random(500) < 0.4).astype(int)
    classifiers = LogisticRegression().fit(x, y), LogisticRegression().fit(x, 1 - y)
    effect = iso.predicted_effects(classifiers, x, measure="difference")
    np.testing.assert_allclose(effect, classifiers[1].predict_proba(x)[:, 1] - classifiers[0].predict_proba(x)[:, 1])


def test_bad_models() -> None:
    with pytest.raises(UsageError, match="neither effect"):
        iso.predicted_effects(object(), X)
    with pytest.raises(UsageError, match="baseline"):
        iso.predicted_effects(Effect(), X, measure="relative")
    with pytest.raises(UsageError, match=r"baseline: object is not an array.*model.predict\(X\)"):
        iso.predicted_effects(Effect(), X, measure="relative", baseline=object())
    with pytest.raises(UsageError, match="2 values for 3 rows"):
        iso.predicted_effects(Effect(), X, measure="relative", baseline=[0.1, 0.2])
    with pytest.raises(DataError, match="1 rows"):
        iso.predicted_effects(Effect(), X, measure="relative", baseline=[0.1, 0.0, 0.3])
    with pytest.raises(UsageError, match="pair"):
        iso.predicted_effects((Effect(), Effect(), Effect()), X)
    others: list[dict[str, Any]] = [{"gives": "relative"}, {"baseline": [0.1, 0.2, 0.3]}]
    for options in others:
        with pytest.raises(UsageError, match=f"{next(iter(options))}: outcome models give any effect"):
            iso.predicted_effects((Effect(), Effect()), X, **options)
    with pytest.raises(UnknownOption, match="measure"):
        iso.predicted_effects(Effect(), X, measure="odds")  # type: ignore[arg-type]

    class Holes:
        def effect(self, X: Any) -> Any:
            return np.array([1.0, np.nan, 1.0])

    with pytest.raises(DataError, match="1 predicted effects"):
        iso.predicted_effects(Holes(), X, measure="difference")


@pytest.mark.parametrize("kind", ["polars", "pandas", "array"])
def test_a_single_outcome_model_predicts_both_arms(kind: str) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=200), rng.integers(0, 2, 200)
    data = pd.DataFrame({"t": t, "x": x})
    X: Any = {"polars": pl.from_pandas(data), "pandas": data, "array": data.to_numpy()}
    rows, column = X[kind], 0 if kind == "array" else "t"
    model = LinearRegression().fit(rows, 1 + 0.5 * x + 0.3 * t)
    difference = iso.predicted_effects(model, rows, treatment=column, measure="difference")
    np.testing.assert_allclose(difference, 0.3, rtol=1e-9)
    keep = 1 + 0.5 * x > 0.1
    chosen = rows.filter(pl.Series(keep)) if kind == "polars" else rows[keep]
    ratio = iso.predicted_effects(model, chosen, treatment=column)
    np.testing.assert_allclose(ratio, 1 + 0.3 / (1 + 0.5 * x[keep]), rtol=1e-9)
    with pytest.raises(UsageError, match="treatment: 'z'"):
        iso.predicted_effects(model, rows, treatment="z")
    with pytest.raises(UsageError, match="outcome models give any effect"):
        iso.predicted_effects(model, rows, treatment=column, gives="relative")
    with pytest.raises(UsageError, match="one outcome model with treatment"):
        iso.predicted_effects((model, model), rows, treatment=column)
