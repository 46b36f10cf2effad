"""Weights, clusters, propensities and strata: what must not matter, what must, and coverage where it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import DataError, UsageError
from isonomy.frames import Design
from isonomy.results import Status
from isonomy.treatment.effects.designs import scaled, shares_within
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
NUMBERS = ("bias", "bias_se", "bias_low", "bias_pvalue", "error", "error_se", "error_high")


def table() -> dict[str, Any]:
    made = experiment(6_000, error={"b": 0.4})
    rng = np.random.default_rng(3)
    made |= {"id": np.arange(6_000), "shop": rng.integers(0, 200, 6_000), "w": rng.uniform(0.5, 2, 6_000)}
    return made | {"p": np.full(6_000, 0.5), "s": (made["x"] > 0.5).astype(int)}


def test_doubled_weights_change_nothing() -> None:
    made = table()
    one = iso.treatment_bias(made, **ROLES, weight="w")
    two = iso.treatment_bias({**made, "w": 2 * made["w"]}, **ROLES, weight="w")
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-9)


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_designs_that_are_none_are_welchs_test(measure: Any) -> None:
    """Each row its own cluster, equal weights, equal propensities: up to the small-sample law."""
    made = table()
    plain = iso.treatment_bias(made, **ROLES, measure=measure, test="welch")
    options: list[dict[str, Any]] = [{"cluster": "id"}, {"weight": "p"}, {"propensity": "p"}]
    for option in options:
        other = iso.treatment_bias(made, **ROLES, measure=measure, **option)
        np.testing.assert_allclose(other.bias, plain.bias, rtol=1e-9)
        for name in ("bias_se", "error_se"):
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
    np.testing.assert_allclose(weighed.bias, counted.bias, rtol=1e-9)
    assert (weighed.bias_se > counted.bias_se).all()


def randomised(rng: np.random.Generator, *, shops: bool) -> dict[str, Any]:
    """Treated shares of 0.3 and 0.7 in strata with base rates of 0.15 and 0.45, or whole shops treated."""
    n = 1_500
    stratum, shop = rng.integers(0, 2, n), rng.integers(0, 150, n)
    base = 0.15 + 0.3 * stratum + (rng.normal(0, 0.1, 150)[shop] if shops else 0)
    p = np.full(n, 0.5) if shops else np.where(stratum == 1, 0.7, 0.3)
    t = rng.integers(0, 2, 150)[shop] if shops else (rng.random(n) < p).astype(int)
    y = (rng.random(n) < np.clip(base, 0.02, 0.7) * np.where(t == 1, 1.25, 1.0)).astype(int)
    made = {"group": shop % 3 if shops else rng.integers(0, 3, n), "treatment": t, "outcome": y}
    return made | {"effect": np.full(n, 1.25), "p": p, "s": stratum, "shop": shop}


@pytest.mark.parametrize("options", [{"propensity": "p"}, {"given": "s"}, {"cluster": "shop"}])
def test_intervals_cover_under_the_design_that_was_used(options: dict[str, Any]) -> None:
    """80 tables, three groups: 240 intervals. Without the option most miss (strata) or are too short (shops)."""
    rng = np.random.default_rng(1)
    held: dict[str, list[Any]] = {"right": [], "wrong": []}
    for drawn in range(80):
        made = randomised(rng, shops="cluster" in options)
        asked = {"right": options} | ({"wrong": {"test": "welch"}} if drawn < 30 else {})
        for name, chosen in asked.items():
            result = iso.treatment_bias(made, **ROLES, **chosen)
            held[name].append((result.error_low <= 0) & (result.error_high >= 0))
    assert np.mean(held["right"]) >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 240)
    assert np.mean(held["wrong"]) < 0.85


def test_few_clusters_are_listed_and_not_tested() -> None:
    made = table()
    result = iso.treatment_bias({**made, "shop": made["id"] % 6}, **ROLES, cluster="shop")
    assert set(result.status) == {Status.FEW_CLUSTERS}
    assert any("effective clusters" in warning for warning in result.warnings)
    assert np.isnan(result.adjusted_pvalue).all()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"propensity": "one"}, DataError, r"propensity: column 'one' is not strictly between 0 and 1 in 6,000 rows"),
        ({"given": "treatment"}, DataError, r"given: 6,000 rows are in strata"),
        ({"given": "s", "propensity": "p"}, UsageError, "give one of them"),
        ({"weight": "w", "variance": "bootstrap"}, UsageError, "defaults of split, variance"),
        ({"cluster": "group"}, UsageError, "also a group"),
    ],
)
def test_bad_calls(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.treatment_bias({**table(), "one": np.ones(6_000)}, **ROLES, **options)


def test_parts() -> None:
    rows = np.array([1.0, 2.0])
    design: Design = scaled(None, rows, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(design.mass, [2, 6])
    np.testing.assert_array_equal(design.second, [4, 18])
    group, stratum, arm = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0]), np.array([1, 0, 1, 0])
    np.testing.assert_allclose(shares_within(group, stratum, arm, np.ones(4)), [0.5, 0.5, 1, 0])
