"""The same numbers on every engine, to 1e-9."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.scores import calibration_metrics, equalize_thresholds, marginal_outcomes, predictive_parity

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
GRID = [0.25, 0.5, 0.75]


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read even small queries in parts."""
    monkeypatch.setattr("isonomy.scores.read.HELD", 800)


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n = 1_500
    m = rng.integers(0, 400, n)
    # Some users appear in both groups.
    g = np.where((m % 2 == 0) ^ (rng.random(n) < 0.1), "a", "b")
    s = rng.beta(2, 2, n)
    y = (rng.random(n) < np.where(g == "a", s, 0.8 * s)).astype(int)
    return {"s": s, "g": g, "m": m, "y": y, "n": rng.integers(0, 3, n)}


def numbers(result: Any) -> Any:
    names = ("estimate", "estimate_low", "reference", "disparity", "se", "ci_low", "effective_n", "n", "reference_n")
    reversals = [[test.difference, test.limit, test.pvalue] for test in result.orders]
    return np.concatenate([*(getattr(result, name) for name in names), *reversals, [result.pvalue]])


@pytest.mark.parametrize("user", [None, "m"])
def test_parity(engine: Any, columns: dict[str, Any], user: str | None) -> None:
    options: dict[str, Any] = {"user": user, "grid": GRID, "rng": 1}
    expected = numbers(predictive_parity(columns, **ROLES, **options))
    found = numbers(predictive_parity(engine(columns), **ROLES, **options))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["residual", "orthogonal", "cumulative", "trend", "published"])
def test_every_method_has_the_same_sums(columns: dict[str, Any], method: Any) -> None:
    """Rows are read in the same way for all methods, so one engine is enough."""
    options: dict[str, Any] = {"method": method, "user": "m", "grid": GRID, "rng": 1}
    expected = numbers(predictive_parity(columns, **ROLES, **options))
    found = numbers(predictive_parity(pl.LazyFrame(columns), **ROLES, **options))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_query_that_fits_is_held(columns: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    summed = numbers(predictive_parity(pl.LazyFrame(columns), **ROLES, user="m", rng=1))
    monkeypatch.setattr("isonomy.scores.read.HELD", 2_000)
    monkeypatch.setattr("isonomy.scores.read.split", None)
    held = numbers(predictive_parity(pl.LazyFrame(columns), **ROLES, user="m", rng=1))
    np.testing.assert_allclose(held, summed, rtol=1e-9)


def test_counts_conditions_and_cuts(engine: Any, columns: dict[str, Any]) -> None:
    groups = [iso.cut("s", [0.5]), iso.where("named", iso.col("g") == "a")]
    options: dict[str, Any] = {
        "outcome": "y",
        "score": "s",
        "count": "n",
        "grid": [0.45, 0.55],
        "level": "aggregate",
        "rng": 1,
    }
    expected = predictive_parity(columns, groups=groups, user="m", **options)
    found = predictive_parity(engine(columns), groups=groups, user="m", **options)
    assert (found.tables, found.labels, found.against) == (expected.tables, expected.labels, expected.against)
    np.testing.assert_allclose(found.disparity, expected.disparity, rtol=1e-9)
    np.testing.assert_allclose(found.se, expected.se, rtol=1e-9)


def test_a_lottery_on_a_query(columns: dict[str, Any]) -> None:
    options: dict[str, Any] = ROLES | {"target": "equalized_odds", "randomize": True, "threshold": 0.4, "change": "all"}
    wanted, found = (equalize_thresholds(data, **options, rng=0) for data in (columns, pl.LazyFrame(columns)))
    for name in ("thresholds", "lottery", "probability", "after"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9)


def test_marginal_thresholds_and_metrics(engine: Any, columns: dict[str, Any]) -> None:
    data = engine(columns)
    for user in (None, "m"):
        expected = marginal_outcomes(columns, **ROLES, threshold=0.4, user=user)
        found = marginal_outcomes(data, **ROLES, threshold=0.4, user=user)
        np.testing.assert_allclose(found.estimate, expected.estimate, rtol=1e-9)
        np.testing.assert_allclose(found.se, expected.se, rtol=1e-9)
    for ask in ({}, {"user": "m", "change": "all"}, {"target": "tpr", "user": "m", "change": "all"}):
        options: dict[str, Any] = ROLES | ask | {"threshold": 0.4, "resamples": 100, "rng": 0}
        wanted, found_rule = equalize_thresholds(columns, **options), equalize_thresholds(data, **options)
        for name in ("thresholds", "thresholds_low", "after", "pvalue", "overall_after"):
            np.testing.assert_allclose(getattr(found_rule, name), getattr(wanted, name), rtol=1e-9)
    expected_metrics = calibration_metrics(columns, outcome="y", score="s", groups="g", user="m", grid=GRID)
    found_metrics = calibration_metrics(data, outcome="y", score="s", groups="g", user="m", grid=GRID)
    for name in ("calibration_error", "parity_error", "ece", "auc"):
        np.testing.assert_allclose(getattr(found_metrics, name), getattr(expected_metrics, name), rtol=1e-9)
