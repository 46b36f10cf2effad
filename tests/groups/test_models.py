"""Models on the same rows: independent programs, properties, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError
from support.engines import ENGINES

MODELS = {"A": "a", "B": "b"}


def table(n: int = 2_000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    outcome = rng.integers(0, 2, n)
    signal = rng.normal(size=n) + outcome
    scores = [1 / (1 + np.exp(-(signal + noise * rng.normal(size=n)))) for noise in (0.4, 0.8)]
    return pl.DataFrame(
        {
            "y": outcome,
            "g": rng.choice(["u", "v", "w"], n, p=[0.5, 0.4, 0.1]),
            "a": (scores[0] > 0.6).astype(int),
            "b": (scores[1] > 0.6).astype(int),
            "sa": scores[0],
            "sb": scores[1],
            "branch": rng.integers(0, 80, n),
            "weight": rng.uniform(0.5, 2.0, n),
        }
    )


def line(result: iso.ModelComparison, group: str, metric: str | None = None) -> dict[str, Any]:
    frame = result.to_frame("polars").filter(pl.col("group") == group)
    return (frame if metric is None else frame.filter(pl.col("metric") == metric)).row(0, named=True)


def stacked(rows: pd.DataFrame, inside: str | None, value: str) -> pd.DataFrame:
    """One line for each row that a model's metric counts; ``inside`` and ``value`` are columns, or "decision"."""
    parts = []
    for model in ("a", "b"):
        part = rows.assign(decision=rows[model], second=float(model == "b"), row=range(len(rows)))
        part = part if inside is None else part[part[inside] == 1]
        parts.append(part.assign(value=part[value]))
    return pd.concat(parts)


@pytest.mark.parametrize(("metric", "inside", "value"), [("tpr", "y", "decision"), ("ppv", "decision", "y")])
@pytest.mark.parametrize("cluster", [None, "branch"])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_changes_and_errors_as_by_a_clustered_regression(
    metric: str, inside: str, value: str, cluster: str | None, weight: str | None
) -> None:
    """statsmodels: both models' rows below one another, clustered by row (or branch)."""
    rows = table()
    result = iso.compare_models(
        rows, MODELS, metric=metric, groups="g", outcome="y", alpha=0.9, cluster=cluster, weight=weight
    )
    for group in ("everybody", "g=u", "g=v"):
        part = rows.to_pandas() if group == "everybody" else rows.filter(pl.col("g") == group[-1]).to_pandas()
        both = stacked(part.reset_index(drop=True), inside, value)
        fit = sm.WLS(both["value"], sm.add_constant(both[["second"]]), 1.0 if weight is None else both[weight]).fit()
        codes = both["row"] if cluster is None else both[cluster]
        robust = fit.get_robustcov_results("cluster", groups=codes, use_correction=False)
        number = codes.nunique()
        mine = line(result, group)
        assert mine["change"] == pytest.approx(robust.params[1], abs=1e-12)
        error = robust.bse[1] * np.sqrt(number / (number - 1))
        # So narrow an interval that its quantile hardly depends on the degrees of freedom: 0.1257 to 0.1289 from 10 up.
        half = (mine["ci_high"] - mine["ci_low"]) / 2
        assert mine["ci_high"] + mine["ci_low"] == pytest.approx(2 * mine["change"], abs=1e-12)
        assert 0.1256 * error <= half <= 0.129 * error


def test_the_limits_of_a_rate_are_students_on_the_people_decided_differently() -> None:
    rows = table()
    result = iso.compare_models(rows, MODELS, metric="selection_rate", groups="g")
    mine = line(result, "g=u")
    difference = rows.filter(pl.col("g") == "u").select(pl.col("b") - pl.col("a")).to_series().to_numpy()
    away = difference - difference.mean()
    df = (away**2).sum() ** 2 / (away**4).sum() - 1
    low, high = stats.t.interval(0.95, df, difference.mean(), difference.std(ddof=1) / np.sqrt(difference.size))
    assert (mine["ci_low"], mine["ci_high"]) == pytest.approx((low, high), rel=1e-10)


def test_aucs_as_by_delong() -> None:
    """The covariance of placement values, written out."""
    rows = table()
    result = iso.compare_models(rows, {"A": "sa", "B": "sb"}, metric="auc", groups="g", outcome="y")
    y = rows["y"].to_numpy() == 1
    placements = []
    for name in ("sa", "sb"):
        s = rows[name].to_numpy()
        above = (s[y][:, None] > s[~y][None, :]) + 0.5 * (s[y][:, None] == s[~y][None, :])
        placements.append((above.mean(axis=1), above.mean(axis=0)))
    (v10a, v01a), (v10b, v01b) = placements
    variance = np.var(v10b - v10a, ddof=1) / y.sum() + np.var(v01b - v01a, ddof=1) / (~y).sum()
    mine = line(result, "everybody")
    assert mine["change"] == pytest.approx(v10b.mean() - v10a.mean(), abs=1e-12)
    assert (mine["ci_high"] - mine["ci_low"]) / 2 == pytest.approx(1.96 * np.sqrt(variance), rel=0.01)


@pytest.mark.parametrize("reference", ["population", "rest", {"g": "u"}])
def test_disparities_are_those_of_flag(reference: Any) -> None:
    rows, metrics = table(), ["tpr", "ppv", "balanced_accuracy"]
    result = iso.compare_models(rows, MODELS, metric=metrics, groups="g", outcome="y", reference=reference)
    for model, name in (("a", "disparity_before"), ("b", "disparity_after")):
        flagged = iso.flag(rows, metric=metrics, groups="g", outcome="y", prediction=model, reference=reference)
        for group, metric, value in flagged.to_frame().select("group", "metric", "disparity").rows():
            assert line(result, group, metric)[name] == pytest.approx(value, abs=1e-12)
    changed = line(result, "g=w", "tpr")
    assert changed["disparity_change"] == pytest.approx(changed["disparity_after"] - changed["disparity_before"])
    assert changed["disparity_low"] < changed["disparity_change"] < changed["disparity_high"]


def test_exchanging_models_changes_the_signs() -> None:
    rows = table()
    given: dict[str, Any] = {"metric": ["fpr", "accuracy"], "groups": "g", "outcome": "y"}
    one, other = (iso.compare_models(rows, models, **given) for models in (MODELS, {"B": "b", "A": "a"}))
    assert np.allclose(one.change, -other.change)
    assert np.allclose(one.ci_low, -other.ci_high)
    assert np.allclose(one.disparity_pvalue, other.disparity_pvalue, equal_nan=True)


def test_counts_are_rows() -> None:
    rows = table(400)
    counted = rows.group_by("y", "g", "a", "b").len()
    given: dict[str, Any] = {"metric": "tpr", "groups": "g", "outcome": "y"}
    one, other = (iso.compare_models(rows, MODELS, **given), iso.compare_models(counted, MODELS, count="len", **given))
    for name in ("n", "change", "ci_low", "pvalue", "disparity_low"):
        assert np.allclose(getattr(one, name), getattr(other, name), equal_nan=True)


def test_models_that_agree_are_not_tested() -> None:
    rows = table().with_columns(b=pl.when(pl.col("g") == "u").then("a").otherwise("b"))
    result = iso.compare_models(rows, MODELS, metric="selection_rate", groups="g")
    assert line(result, "g=u")["status"] == "constant"
    assert line(result, "g=u")["change"] == 0
    assert np.isnan(line(result, "g=u")["pvalue"])
    assert line(result, "g=v")["status"] == "ok"


def test_several_models_metrics_and_roles() -> None:
    rows = table().with_columns(c=1 - pl.col("a"))
    result = iso.compare_models(rows, {"A": "a", "B": "b", "C": "c"}, metric=["tpr", "fpr"], groups="g", outcome="y")
    frame = result.to_frame()
    assert frame["candidate"].unique().sort().to_list() == ["B", "C"]
    assert len(frame) == 2 * 2 * 4
    both = {"A": {"prediction": "a", "score": "sa"}, "B": {"prediction": "b", "score": "sb"}}
    mixed = iso.compare_models(rows, both, metric=["tpr", "auc", "brier"], groups="g", outcome="y")
    alone = iso.compare_models(rows, MODELS, metric="tpr", groups="g", outcome="y")
    assert line(mixed, "g=v", "tpr")["ci_low"] == pytest.approx(line(alone, "g=v")["ci_low"])
    assert "Metrics shown to change" in str(mixed)
    assert len(mixed.summary().splitlines()) <= 45


def test_arrays_and_conditions() -> None:
    rows = table()
    words = rows.with_columns(pl.when(pl.col("b") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("said"))
    given: dict[str, Any] = {"metric": "selection_rate", "groups": "g"}
    plain = iso.compare_models(rows, MODELS, **given)
    spoken = iso.compare_models(words, {"A": "a", "B": iso.col("said") == "yes"}, **given)
    arrays = iso.compare_models(rows.to_pandas(), {"A": "a", "B": rows["b"].to_numpy()}, **given)
    assert np.array_equal(plain.pvalue, spoken.pvalue)
    assert np.array_equal(plain.pvalue, arrays.pvalue)
    assert isinstance(arrays.to_frame(), pd.DataFrame)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_the_same_on_every_engine(engine: str) -> None:
    rows = table(300)
    given: dict[str, Any] = {"metric": ["tpr", "brier"], "groups": "g", "outcome": "y"}
    models = {"A": {"prediction": "a", "score": "sa"}, "B": {"prediction": "b", "score": "sb"}}
    one = iso.compare_models(rows, models, **given)
    other = iso.compare_models(ENGINES[engine](rows.to_dict(as_series=False)), models, **given)
    assert one.group == other.group
    assert np.allclose(one.disparity_pvalue, other.disparity_pvalue, equal_nan=True)


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({"A": "a"}, {}, "at least two"),
        ({"A": "a", "B": "nothing"}, {}, "no column 'nothing'"),
        (MODELS, {"metric": iso.Metric("m", value=iso.col("a"))}, "does not say which columns are a model's"),
        (MODELS, {"metric": "tprs"}, "Did you mean 'tpr'"),
        (MODELS, {"reference": {"g": "nobody"}}, "no row has g=nobody"),
    ],
)
def test_refusals(models: Any, options: dict[str, Any], message: str) -> None:
    given = {"metric": "tpr", "groups": "g", "outcome": "y"} | options
    with pytest.raises(UsageError, match=message.replace("{", r"\{")):
        iso.compare_models(table(200), models, **given)
