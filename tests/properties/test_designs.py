"""What weights and clusters must not change, and what they must."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.numerics.status import Status

METRICS: dict[str, dict[str, Any]] = {
    "rate": {"metric": "selection_rate", "prediction": "p"},
    "number": {"metric": "mean_prediction", "prediction": "x"},
}
REFERENCES: list[Any] = ["population", "rest", {"g": "a"}, 0.5]


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    n = 1_500
    return pl.DataFrame(
        {
            "g": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
            "p": rng.integers(0, 2, n),
            "x": rng.exponential(size=n),
            "w": np.exp(0.5 * rng.normal(size=n)),
            "row": np.arange(n),
            "c": rng.integers(0, 200, n),
        }
    )


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
@pytest.mark.parametrize("metric", METRICS)
def test_doubled_weights_change_nothing(table: pl.DataFrame, metric: str, reference: Any) -> None:
    options: dict[str, Any] = {**METRICS[metric], "groups": "g", "reference": reference, "weight": "w", "cluster": "c"}
    first = iso.flag(table, **options)
    second = iso.flag(table.with_columns(pl.col("w") * 2), **options)
    for name in ("estimate", "disparity", "pvalue", "ci_low", "ci_high"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
@pytest.mark.parametrize("metric", METRICS)
def test_every_row_a_cluster_is_the_answer_without_clusters(table: pl.DataFrame, metric: str, reference: Any) -> None:
    options: dict[str, Any] = {**METRICS[metric], "groups": "g", "reference": reference}
    plain, clustered = iso.flag(table, **options), iso.flag(table, **options, cluster="row")
    assert clustered.estimate == pytest.approx(plain.estimate)
    assert clustered.pvalue == pytest.approx(plain.pvalue, abs=0.01, nan_ok=True)
    joint = iso.certify(table, **options).pvalue, iso.certify(table, **options, cluster="row").pvalue
    assert joint[1] == pytest.approx(joint[0], abs=0.01)
    # The same rows as independent ones with equal weights.
    weighted = iso.flag(table.with_columns(one=3.0), **options, weight="one")
    assert weighted.pvalue == pytest.approx(clustered.pvalue, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
@pytest.mark.parametrize("metric", METRICS)
def test_rows_copied_within_their_cluster_change_nothing(table: pl.DataFrame, metric: str, reference: Any) -> None:
    options: dict[str, Any] = {**METRICS[metric], "groups": "g", "reference": reference, "cluster": "row"}
    once = iso.flag(table, **options)
    thrice = iso.flag(pl.concat([table] * 3), **options)
    counted = iso.flag(table.with_columns(n=3), **options, count="n")
    for result in (thrice, counted):
        assert result.estimate == pytest.approx(once.estimate)
        assert result.pvalue == pytest.approx(once.pvalue, rel=1e-6, nan_ok=True)
        assert result.ci_low == pytest.approx(once.ci_low, rel=1e-6, nan_ok=True)
        assert result.n.tolist() == (3 * once.n).tolist()
        assert result.design is not None
        assert once.design is not None
        assert result.design.effective == pytest.approx(once.design.effective)
    joint = [iso.certify(data, **options).pvalue for data in (table, pl.concat([table] * 3))]
    assert joint[1] == pytest.approx(joint[0], rel=1e-6)


def test_an_interval_ends_where_its_test_begins_to_reject(table: pl.DataFrame) -> None:
    options: dict[str, Any] = {**METRICS["rate"], "groups": "g", "weight": "w", "cluster": "c", "reference": "rest"}
    result = iso.flag(table, **options)
    for i, low in enumerate(result.ci_low):
        assert iso.flag(table, **options, null=float(low)).pvalue[i] == pytest.approx(0.05, rel=1e-6)


def test_few_clusters_are_listed_and_not_tested(table: pl.DataFrame) -> None:
    data = table.with_columns(c=pl.col("c") % 8 + 100 * (pl.col("g") == "a").cast(pl.Int64) * (pl.col("row") % 40))
    result = iso.flag(data, **METRICS["rate"], groups="g", reference={"g": "a"}, cluster="c")
    assert [result.status[i] for i in (1, 2)] == [Status.FEW_CLUSTERS] * 2
    assert np.isnan(result.pvalue[1:]).all()
    assert any("Too few clusters" in warning for warning in result.warnings)
    assert result.design is not None
    assert result.design.clusters[1] == 8


def test_a_group_without_weight_is_empty(table: pl.DataFrame) -> None:
    data = table.with_columns(w=pl.when(pl.col("g") == "c").then(0.0).otherwise(pl.col("w")))
    for metric in METRICS.values():
        result = iso.flag(data, **metric, groups="g", weight="w")
        assert result.status[2] is Status.EMPTY
        assert result.n[2] > 0


def test_one_cluster_of_everybody_tests_nothing(table: pl.DataFrame) -> None:
    result = iso.flag(table.with_columns(c=1), **METRICS["rate"], groups="g", cluster="c")
    assert not result.answered
    assert set(result.status) == {Status.FEW_CLUSTERS}


def test_a_small_sample_correction_is_refused(table: pl.DataFrame) -> None:
    with pytest.raises(UsageError, match="correction: not available with weight or cluster"):
        iso.flag(table, **METRICS["rate"], groups="g", cluster="c", correction="bartlett")


def test_counts_that_look_like_weights_are_told(table: pl.DataFrame) -> None:
    rng = np.random.default_rng(9)
    census = table.with_columns(n=pl.Series(rng.integers(1, 400, len(table))))
    result = iso.flag(census, **METRICS["rate"], groups="g", count="n")
    assert any("look like a survey's weights" in warning for warning in result.warnings)
    assert iso.from_json(result.to_json()).warnings == result.warnings
    counted = iso.flag(table.with_columns(n=2), **METRICS["rate"], groups="g", count="n")
    assert not any("weights" in warning for warning in counted.warnings)


@pytest.mark.parametrize("reference", ["population", "rest", {"g": "a"}], ids=str)
def test_a_reference_of_one_cluster_tests_nothing(reference: Any) -> None:
    """The spread between the reference's clusters cannot be judged by the group's."""
    rng = np.random.default_rng(6)
    group = np.repeat(["b", "a"], [300, 2_000])
    cluster = np.concatenate([np.repeat(np.arange(30), 10), np.full(2_000, 99)])
    table = {"g": group, "p": rng.integers(0, 2, 2_300), "c": cluster}
    result = iso.flag(table, **METRICS["rate"], groups="g", reference=reference, cluster="c")
    assert result.status[1] is Status.FEW_CLUSTERS
    assert not result.answered


def test_one_row_of_almost_all_the_weight_tests_nothing(table: pl.DataFrame) -> None:
    data = table.with_columns(w=pl.when(pl.col("row") == 0).then(1e9).otherwise(1.0))
    result = iso.flag(data, **METRICS["rate"], groups="g", weight="w")
    assert set(result.status) == {Status.FEW_CLUSTERS}
