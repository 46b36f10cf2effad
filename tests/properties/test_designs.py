"""What weights and clusters must change, and what they must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import IsonomyError, NotEnoughData
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
    # The same rows, independent and with equal weights.
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
    assert any(note.code == "few_clusters" for note in result.notes)
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


def test_counts_that_look_like_weights_are_told(table: pl.DataFrame) -> None:
    rng = np.random.default_rng(9)
    census = table.with_columns(n=pl.Series(rng.integers(1, 400, len(table))))
    result = iso.flag(census, **METRICS["rate"], groups="g", count="n")
    assert any("look like survey weights" in warning for warning in result.warnings)
    assert iso.from_json(result.to_json()).warnings == result.warnings
    counted = iso.flag(table.with_columns(n=2), **METRICS["rate"], groups="g", count="n")
    assert not any("weights" in warning for warning in counted.warnings)


@pytest.mark.parametrize("reference", ["population", "rest", {"g": "a"}], ids=str)
def test_a_reference_of_one_cluster_tests_nothing(reference: Any) -> None:
    """The clusters of the group do not show the spread between those of the reference."""
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


def people(**columns: Any) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    n = 1_500
    score = rng.random(n)
    return pl.DataFrame(
        {
            "g": rng.choice(["a", "b"], n),
            "score": score,
            "other": np.clip(score + 0.1 * rng.normal(size=n), 0, 1),
            "y": (rng.random(n) < score).astype(int),
            "p": (score > 0.5).astype(int),
            "t": rng.integers(0, 2, n),
            "effect": 0.05 + 0.01 * rng.normal(size=n),
            "w": np.exp(0.5 * rng.normal(size=n)),
            "row": np.arange(n),
        }
        | columns
    )


EFFECT: dict[str, Any] = {"effect": "effect", "treatment": "t", "outcome": "y", "measure": "difference"}
SCORE: dict[str, Any] = {"outcome": "y", "score": "score"}
METHODS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "adverse_impact": (iso.adverse_impact, {"prediction": "p"}, "pvalue"),
    "project": (iso.project, SCORE | {"prediction": "p", "threshold": 0.5, "rng": 0}, "pvalue"),
    "improvability": (
        iso.improvability,
        {"outcome": "y", "status_quo": "other", "candidate": "score", "capacity": 0.5, "rng": 0},
        "pvalue",
    ),
    "treatment_bias": (iso.treatment_bias, EFFECT, "pvalue"),
    "evaluate_corrections": (
        iso.evaluate_corrections,
        EFFECT | {"method": iso.heldout(2, 20), "strategies": ["none", "mean"], "rng": 0},
        "bias_rms",
    ),
    "predictive_parity": (iso.predictive_parity, SCORE | {"rng": 0}, "pvalue"),
    "marginal_outcomes": (iso.marginal_outcomes, SCORE | {"threshold": 0.4}, "pvalue"),
    "equalize_thresholds": (iso.equalize_thresholds, SCORE | {"threshold": 0.4, "rng": 0}, "pvalue"),
}


def answer(method: str, data: pl.DataFrame, **reading: str) -> Any:
    test, options, name = METHODS[method]
    result = test(data, **options, groups="g", **reading)
    return np.ravel(getattr(result, name) if hasattr(result, name) else result.to_frame()[name].to_numpy())


@pytest.mark.parametrize("method", METHODS)
def test_only_proportions_of_weights_matter_to_any_method(method: str) -> None:
    table = people()
    once = answer(method, table, weight="w", cluster="row")
    twice = answer(method, table.with_columns(pl.col("w") * 2), weight="w", cluster="row")
    assert twice == pytest.approx(once, rel=1e-9, nan_ok=True)
    assert once != pytest.approx(answer(method, table, cluster="row"), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("method", METHODS)
def test_rows_copied_within_their_cluster_change_no_method(method: str) -> None:
    """`improvability` ranks rows, and copies shift a cutoff by one rank."""
    table = people()
    once, thrice = (answer(method, data, cluster="row") for data in (table, pl.concat([table] * 3)))
    allowed = {"abs": 0.005} if method == "improvability" else {"rel": 1e-6}
    assert thrice == pytest.approx(once, nan_ok=True, **allowed)


@pytest.mark.parametrize("method", METHODS)
def test_every_row_a_cluster_is_the_answer_of_any_method_without(method: str) -> None:
    """Random draws differ between rows and clusters: `equalize_thresholds` is compared up to the error of 400 draws,
    the halves of `evaluate_corrections` not at all."""
    if method == "evaluate_corrections":
        pytest.skip("other halves are drawn")
    table = people()
    allowed = 0.06 if method == "equalize_thresholds" else 0.01
    assert answer(method, table, cluster="row") == pytest.approx(answer(method, table), abs=allowed, nan_ok=True)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_tells_its_clusters(method: str) -> None:
    test, options, _ = METHODS[method]
    table = people(c=np.arange(1_500) // 5)
    result = test(table, **options, groups="g", cluster="c")
    in_group = table.group_by("g", "c").len("rows").group_by("g").agg(pl.len(), (pl.col("rows") ** 2).sum()).sort("g")
    sizes = table.group_by("g").len().sort("g")["len"].to_numpy()
    worth = sizes**2 / in_group["rows"].to_numpy()
    frame = result.to_frame()
    if "effective_clusters" in frame.columns:
        assert frame["clusters"].to_list() == in_group["len"].to_list()
        assert frame["effective_clusters"].min() <= worth.min() + 1e-9
        return
    assert [name for name, _, _ in result.provenance.clusters] == ["g=a", "g=b"]
    assert [number for _, number, _ in result.provenance.clusters] == in_group["len"].to_list()
    assert [each for _, _, each in result.provenance.clusters] == pytest.approx(worth)
    assert f"g=a has {in_group['len'][0]} clusters, equivalent to {worth[0]:.1f} of equal weight" in " ".join(
        result.summary().split()
    )
    assert iso.from_json(result.to_json()).provenance.clusters == result.provenance.clusters


def test_calibration_metrics_tell_clusters_and_change_by_weights_alone() -> None:
    table = people(c=np.arange(1_500) // 5)
    options: dict[str, Any] = SCORE | {"groups": "g"}
    readings: list[tuple[pl.DataFrame, dict[str, Any]]] = [
        (table, {}),
        (table, {"cluster": "c"}),
        (table, {"weight": "w", "cluster": "c"}),
        (table.with_columns(pl.col("w") * 2), {"weight": "w", "cluster": "c"}),
    ]
    results = [iso.calibration_metrics(data, **options, **reading) for data, reading in readings]
    plain, clustered, weighted, doubled = results
    frame = clustered.to_frame()
    assert frame["clusters"].to_list()[0] == 300
    assert frame["effective_clusters"].to_list()[0] == pytest.approx(300)
    assert clustered.ece == pytest.approx(plain.ece)
    assert clustered.auc == pytest.approx(plain.auc)
    assert "clusters" not in plain.to_frame().columns
    assert doubled.ece == pytest.approx(weighted.ece, rel=1e-9)
    assert weighted.ece != pytest.approx(plain.ece)
    assert weighted.to_frame()["effective_clusters"].to_list()[0] < 290


@pytest.mark.parametrize("method", METHODS)
def test_few_clusters_are_not_tested_by_any_method(method: str) -> None:
    """With all rows in 8 clusters, or in 1, there is no answer, or an error with the reason; never a p-value."""
    for clusters in (8, 1):
        try:
            values = answer(method, people(c=np.arange(1_500) % clusters), cluster="c")
        except NotEnoughData:
            continue
        assert np.isnan(values.astype(float)).all()


@pytest.mark.parametrize("method", METHODS)
def test_bad_weights_and_clusters_are_refused_by_every_method(method: str) -> None:
    first = np.arange(1_500) == 700
    for columns, reading, message in (
        ({"w": np.where(first, -1.0, 1.0)}, {"weight": "w"}, "negative weight"),
        ({"w": np.where(first, np.nan, 1.0), "score": np.full(1_500, 0.7)}, {"weight": "w"}, "null, NaN or infinite"),
        ({"w": np.zeros(1_500)}, {"weight": "w"}, "all weights are 0"),
        ({}, {"cluster": "g"}, "cluster: 'g' is also a group"),
    ):
        with pytest.raises(IsonomyError, match=message):
            answer(method, people(**columns), **reading)
