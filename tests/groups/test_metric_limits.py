"""The intervals of the metrics themselves, the wide table, and the short summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

import isonomy as iso

RATES = ["selection_rate", "tpr", "fpr", "ppv", "accuracy"]


def table(n: int = 3_000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    outcome, score = rng.integers(0, 2, n), rng.uniform(size=n)
    return pl.DataFrame(
        {
            "g": rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05]),
            "y": outcome,
            "p": (score + 0.4 * outcome > 0.7).astype(int),
            "s": np.clip(score * 0.6 + 0.3 * outcome, 0, 1),
            "w": rng.uniform(0.5, 2.0, n),
            "branch": rng.integers(0, 60, n),
        }
    )


def limits(result: Any, metric: str | None = None) -> dict[str, tuple[float, float]]:
    frame = result.to_frame("polars")
    frame = frame if metric is None else frame.filter(pl.col("metric") == metric)
    return {group: (low, high) for group, low, high in frame.select("group", "estimate_low", "estimate_high").rows()}


def test_rates_have_wilsons_interval() -> None:
    rows = table()
    result = iso.flag(rows, metric=RATES, groups="g", outcome="y", prediction="p", alpha=0.1)
    for group in "abc":
        part = rows.filter(pl.col("g") == group)
        inside = part.filter(pl.col("y") == 1)
        low, high = proportion_confint(inside["p"].sum(), len(inside), alpha=0.1, method="wilson")
        assert limits(result, "tpr")[f"g={group}"] == pytest.approx((low, high), rel=1e-12)
        low, high = proportion_confint(part["p"].sum(), len(part), alpha=0.1, method="wilson")
        assert limits(result, "selection_rate")[f"g={group}"] == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize("hits", [0, 1, 12])
def test_few_rows_have_one_too(hits: int) -> None:
    rows = {"g": ["a"] * 12 + ["b"] * 90 + ["c"] * 4, "p": [1] * hits + [0] * (12 - hits) + [0, 1] * 45 + [1] * 4}
    result = iso.flag(rows, metric="selection_rate", groups="g", prediction="p")
    assert limits(result)["g=a"] == pytest.approx(proportion_confint(hits, 12, method="wilson"), abs=1e-12)
    assert limits(result)["g=c"] == pytest.approx(proportion_confint(4, 4, method="wilson"), abs=1e-12)
    assert result.status[2] == "too_small"


def test_means_have_students() -> None:
    rows = table()
    result = iso.flag(rows, metric="brier", groups="g", outcome="y", score="s")
    for group in "abc":
        part = rows.filter(pl.col("g") == group)
        known = DescrStatsW(((part["s"] - part["y"]) ** 2).to_numpy()).tconfint_mean()
        assert limits(result)[f"g={group}"] == pytest.approx(known, rel=1e-10)


@pytest.mark.parametrize("metric", ["auc", "f1"])
def test_other_metrics_have_the_limits_of_their_law(metric: str) -> None:
    roles: dict[str, Any] = {"outcome": "y", "prediction": "p", "score": "s", "groups": "g"}
    mine = limits(iso.flag(table(), metric=metric, **roles))
    against = iso.flag(table(), metric=metric, reference=0.5, **roles).to_frame()
    for group, low, high in against.select("group", pl.col("ci_low") + 0.5, pl.col("ci_high") + 0.5).rows():
        assert mine[group] == pytest.approx((low, high), abs=1e-6)


def test_equal_weights_and_single_rows_as_clusters_change_little() -> None:
    rows = table().with_row_index("row").with_columns(one=pl.lit(2.0))
    roles: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "p"}
    design = {"weight": "one", "cluster": "row"}
    plain, designed = (limits(iso.flag(rows, **(roles | more))) for more in ({}, design))
    for group in ("g=a", "g=b"):
        assert designed[group] == pytest.approx(plain[group], abs=2e-4)


def test_doubled_rows_in_one_cluster_change_nothing() -> None:
    rows = table()
    twice = pl.concat([rows.with_row_index("row")] * 2)
    roles: dict[str, Any] = {"metric": ["selection_rate"], "groups": "g", "prediction": "p", "cluster": "row"}
    single = limits(iso.flag(rows.with_row_index("row"), **roles))
    assert limits(iso.flag(twice, **roles))["g=b"] == pytest.approx(single["g=b"], rel=1e-10)


@pytest.mark.parametrize("tables", [140, pytest.param(200, marks=pytest.mark.validity)])
def test_clusters_and_weights_are_covered_as_promised(tables: int) -> None:
    """Twenty branches with rates of their own, and weights: 95 % intervals cover the rate in 95 % of tables.

    Less two standard errors. The degrees of freedom of few clusters are cautious: 98 % of 600
    tables were covered. Intervals that ignore the branches cover far less.
    """
    rng, covered = np.random.default_rng(5), np.zeros(2)
    for _ in range(tables):
        branch = np.repeat(np.arange(20), 25)
        rows = {
            "g": np.where(rng.uniform(size=500) < 0.9, "a", "b"),
            "p": (rng.uniform(size=500) < rng.beta(6, 4, 20)[branch]).astype(int),
            "branch": branch,
            "w": rng.uniform(0.5, 1.5, 500),
        }
        for place, cluster in enumerate(("branch", None)):
            result = iso.flag(rows, metric="selection_rate", groups="g", prediction="p", weight="w", cluster=cluster)
            low, high = limits(result)["g=a"]
            covered[place] += low <= 0.6 <= high
    assert covered[0] / tables >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / tables)
    assert covered[1] / tables < 0.8


def test_there_are_none_within_strata() -> None:
    result = iso.flag(table(), metric="selection_rate", groups="g", prediction="p", given="branch", reference="rest")
    assert "estimate_low" not in result.to_frame().columns


def test_wide_tables() -> None:
    result = iso.flag(table(), metric=RATES, groups="g", outcome="y", prediction="p")
    wide = result.wide()
    assert wide.columns == ["group", *RATES]
    assert wide["group"].to_list() == ["g=a", "g=b", "g=c"]
    long = result.to_frame().filter(pl.col("metric") == "ppv")
    assert wide["ppv"].to_list() == long["estimate"].to_list()
    assert result.wide("verdict")["fpr"].to_list() == ["inconclusive"] * 3
    assert result.wide("n").schema["tpr"] == pl.Int64
    assert isinstance(result.wide("disparity", "pandas"), pd.DataFrame)
    with pytest.raises(iso.errors.UnknownOption, match="Did you mean 'disparity'"):
        result.wide("disparities")


def test_withheld_counts_are_missing_whole_numbers() -> None:
    published = iso.flag(table(), metric="selection_rate", groups="g", prediction="p").published(500)
    assert published.to_frame("polars").schema["n"] == pl.Int64
    assert published.to_frame("polars")["n"].null_count() >= 1
    assert str(published.to_frame("pandas")["n"].dtype) == "Int64"
    assert published.to_frame("pyarrow")["n"].null_count >= 1


def test_series_in_pandas_out() -> None:
    rows = table().to_pandas()
    arrays: dict[str, Any] = {"groups": rows["g"], "prediction": rows["p"]}
    assert isinstance(iso.flag(metric="selection_rate", **arrays).to_frame(), pd.DataFrame)
    assert isinstance(
        iso.flag(rows, metric="selection_rate", groups="g", prediction=rows["p"]).to_frame(), pd.DataFrame
    )
    mapping = {"g": rows["g"], "p": rows["p"]}
    assert isinstance(iso.flag(mapping, metric="selection_rate", groups="g", prediction="p").to_frame(), pd.DataFrame)
    numpy = {name: values.to_numpy() for name, values in arrays.items()}
    assert isinstance(iso.flag(metric="selection_rate", **numpy).to_frame(), pl.DataFrame)


def test_seventeen_groups_and_five_metrics_fit_on_a_screen() -> None:
    rng = np.random.default_rng(1)
    rows = {"race": rng.integers(0, 9, 20_000).astype(str), "age": rng.integers(0, 8, 20_000).astype(str)}
    rows |= {"y": rng.integers(0, 2, 20_000)}
    rows |= {"p": (rng.uniform(size=20_000) < 0.4 + 0.2 * (rows["race"] == "3")).astype(int)}
    result = iso.flag(rows, metric=RATES, groups=["race", "age"], outcome="y", prediction="p", tolerance=0.05)
    lines = result.summary().splitlines()
    assert len(lines) <= 45
    (worst,) = (line for line in lines if line.startswith("race=3"))
    assert "*" in worst
    assert sum(line.startswith(("race=", "age=")) for line in lines) == 17


@pytest.mark.parametrize(
    ("wrong", "ours"),
    [("y_true", "outcome"), ("tol", "tolerance"), ("sensitive_features", "groups"), ("sample_weight", "weight")],
)
def test_other_libraries_names_are_recognized(wrong: str, ours: str) -> None:
    given: dict[str, Any] = {wrong: "y"}
    with pytest.raises(TypeError, match=f"'{wrong}'. It is called '{ours}' here."):
        iso.flag(table(), metric="tpr", **given)
