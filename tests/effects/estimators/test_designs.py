"""Weights, clusters, propensities and strata."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.effects.estimators.moments import Clustered, ExperimentRows
from isonomy.errors import DataError, UsageError
from isonomy.results import Status
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
NUMBERS = ("disparity", "standard_error", "ci_low", "pvalue", "estimate", "error_se", "error_high")


def table() -> dict[str, Any]:
    made = experiment(6_000, error={"b": 0.4})
    rng = np.random.default_rng(3)
    made |= {"id": np.arange(6_000), "shop": rng.integers(0, 200, 6_000), "w": rng.uniform(0.5, 2, 6_000)}
    return made | {"p": np.full(6_000, 0.5), "s": (made["x"] > 0.5).astype(int)}


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_designs_that_are_none_are_welchs_test(measure: Any) -> None:
    """Each row its own cluster, equal weights, equal propensities: the same up to the small-sample distribution."""
    made = table()
    plain = iso.treatment_bias(made, **ROLES, measure=measure, method="welch")
    options: list[dict[str, Any]] = [{"cluster": "id"}, {"weight": "p"}, {"estimator": iso.arm_means("p")}]
    for option in options:
        other = iso.treatment_bias(made, **ROLES, measure=measure, **option)
        np.testing.assert_allclose(other.disparity, plain.disparity, rtol=1e-9)
        for name in ("standard_error", "error_se"):
            np.testing.assert_allclose(getattr(other, name), getattr(plain, name), rtol=2e-3)
        np.testing.assert_array_equal(other.n, plain.n)


def test_copied_rows_in_one_cluster_are_one_row() -> None:
    made = table()
    copies = {name: np.concatenate([values, values]) for name, values in made.items()}
    plain, twice = (iso.treatment_bias(t, **ROLES, cluster="id") for t in (made, copies))
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(twice, name), getattr(plain, name), rtol=1e-4)
    assert twice.design is not None
    np.testing.assert_allclose(twice.design.effect, 2, rtol=0.01)
    np.testing.assert_array_equal(twice.design.clusters, plain.n)
    assert {"clusters", "design_effect"} <= set(twice.to_frame().columns)


def test_whole_weights_are_copies_in_the_estimates() -> None:
    made = table()
    made["k"] = np.arange(6_000) % 3 + 1
    weighed = iso.treatment_bias(made, **ROLES, weight="k")
    counted = iso.treatment_bias(made, **ROLES, count="k")
    np.testing.assert_allclose(weighed.disparity, counted.disparity, rtol=1e-9)
    assert (weighed.standard_error > counted.standard_error).all()


def randomized(rng: np.random.Generator, *, shops: bool) -> dict[str, Any]:
    """Treated shares of 0.3 and 0.7 in strata with base rates of 0.15 and 0.45, or whole shops treated."""
    n = 1_500
    stratum, shop = rng.integers(0, 2, n), rng.integers(0, 150, n)
    base = 0.15 + 0.3 * stratum + (rng.normal(0, 0.1, 150)[shop] if shops else 0)
    p = np.full(n, 0.5) if shops else np.where(stratum == 1, 0.7, 0.3)
    t = rng.integers(0, 2, 150)[shop] if shops else (rng.random(n) < p).astype(int)
    y = (rng.random(n) < np.clip(base, 0.02, 0.7) * np.where(t == 1, 1.25, 1.0)).astype(int)
    made = {"group": shop % 3 if shops else rng.integers(0, 3, n), "treatment": t, "outcome": y}
    return made | {"effect": np.full(n, 1.25), "p": p, "s": stratum, "shop": shop}


@pytest.mark.parametrize("tables", [20, pytest.param(80, marks=pytest.mark.validity)])
@pytest.mark.parametrize("options", [{"estimator": iso.arm_means("p")}, {"given": "s"}, {"cluster": "shop"}])
def test_intervals_cover_under_the_design_that_was_used(options: dict[str, Any], tables: int) -> None:
    """Three intervals of each table. Without the option, most miss (strata) or are too short (shops)."""
    rng = np.random.default_rng(1)
    held: dict[str, list[Any]] = {"right": [], "wrong": []}
    for drawn in range(tables):
        made = randomized(rng, shops="cluster" in options)
        asked = {"right": options} | ({"wrong": {"method": "welch"}} if drawn < 30 else {})
        for name, chosen in asked.items():
            result = iso.treatment_bias(made, **ROLES, **chosen)
            held[name].append((result.error_low <= 0) & (result.error_high >= 0))
    assert np.mean(held["right"]) >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / (3 * tables))
    assert np.mean(held["wrong"]) < 0.85


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"given": "treatment"}, DataError, r"given: 6,000 rows are in strata"),
        ({"cluster": "group"}, UsageError, "also a group"),
    ],
)
def test_bad_calls(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.treatment_bias({**table(), "one": np.ones(6_000)}, **ROLES, **options)


LEFT = ("bias", "bias_se", "bias_pvalue", "error", "error_pvalue", "factor", "adjusted_pvalue", "estimate")


def shops(rows: int = 4_000) -> dict[str, Any]:
    made = experiment(rows, error={"b": 0.4})
    rng = np.random.default_rng(3)
    return made | {"id": np.arange(rows), "shop": rng.integers(0, 150, rows), "w": rng.uniform(0.5, 2, rows)}


def evaluated(made: dict[str, Any], **options: Any) -> iso.CorrectionsResult:
    return iso.evaluate_corrections(made, **{**ROLES, "method": iso.heldout(2, 40), "rng": 1, **options})


def test_rows_that_are_clusters_of_their_own_are_rows() -> None:
    """The same halves and the same remainders; standard errors agree up to resampling error."""
    made = shops()
    plain, own = (
        evaluated(made, strategies=["mean"], method=iso.heldout(1, 1_000), **option)
        for option in ({}, {"cluster": "id"})
    )
    np.testing.assert_allclose(own.bias, plain.bias, atol=1e-12)
    np.testing.assert_allclose(own.error, plain.error, atol=1e-12)
    np.testing.assert_allclose(own.bias_se, plain.bias_se, rtol=0.12)
    np.testing.assert_array_equal(own.n, plain.n)


def test_copied_rows_in_one_cluster_leave_the_same_bias() -> None:
    made = shops()
    copies = {name: np.concatenate([values, values]) for name, values in made.items()}
    plain, twice = evaluated(made, cluster="id"), evaluated(copies, cluster="id")
    for name in LEFT:
        np.testing.assert_allclose(getattr(twice, name), getattr(plain, name), rtol=1e-6, atol=1e-9)


def test_resampled_variance_is_that_of_cluster_totals() -> None:
    """For the mean outcome of the controls of a group: the variance of the ratio of cluster totals, by hand."""
    made = shops()
    group, y, w = np.unique(made["group"], return_inverse=True)[1], made["outcome"].astype(float), made["w"]
    factors = {"y": y, "f": made["effect"]}
    lines = ExperimentRows(factors, made["treatment"].astype(np.intp), made["outcome"], w, ((group, 3),))
    sample = Clustered.from_lines(("y", "yf"), lines, made["shop"], np.zeros(4_000, dtype=np.intp), 1)
    draws = sample.resampled(4_000, np.random.default_rng(2)).mean[:, 0, 0, 0]
    here = (group == 0) & (lines.arm == 0)
    mean = (w * y)[here].sum() / w[here].sum()
    totals = np.bincount(made["shop"][here], (w * (y - mean))[here], 150)
    by_hand = np.sqrt(150 / 149 * (totals**2).sum()) / w[here].sum()
    assert draws.std() == pytest.approx(by_hand, rel=0.05)  # Monte Carlo error 1.1 %, and the curvature of the ratio
    assert sample.moments().mean[0, 0, 0] == pytest.approx(mean)


def test_groups_of_few_clusters_are_listed() -> None:
    made = shops()
    made["shop"] = np.where(made["group"] == "c", made["id"] % 14, made["id"])
    result = evaluated(made, cluster="shop", strategies=["mean"])
    assert result.status[2] is Status.FEW_CLUSTERS
    assert np.isnan(result.bias[..., 2]).all()
    assert np.isfinite(result.bias[..., :2]).all()


def test_few_treated_clusters_give_no_verdict() -> None:
    """Of 40 clusters in either group, 4 are treated: the number of all clusters does not show how few these are."""
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(80), 20)
    table = {"c": cluster, "g": np.where(cluster < 40, "a", "b"), "e": np.zeros(1_600), "y": rng.normal(size=1_600)}
    roles: dict[str, Any] = {"effect": "e", "treatment": "t", "outcome": "y", "groups": "g", "cluster": "c"}
    for share, status in ((10, Status.FEW_CLUSTERS), (4, Status.OK)):
        treated = table | {"t": (cluster % share == 0).astype(int)}
        assert set(iso.treatment_bias(treated, **roles, measure="difference").status) == {status}
