"""The same numbers on every engine, to 1e-9."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.scores import calibration_metrics, equalize_thresholds, marginal_outcomes, predictive_parity
from support.engines import expected

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
GRID = [0.25, 0.5, 0.75]
# One of each kind: a query of polars, rows in memory, a database. `test_parity` runs on every engine.
KINDS = pytest.mark.parametrize(
    "engine", ["polars-lazy", "pandas", "duckdb", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
RULES = ("thresholds", "thresholds_low", "after", "pvalue", "overall_after")
GROUPS = [iso.cut("s", [0.5]), iso.where("named", iso.col("g") == "a")]


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read even small queries in parts."""
    monkeypatch.setattr("isonomy.scores.read.HELD", 500)


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n = 900
    m = rng.integers(0, 240, n)
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
    options: dict[str, Any] = {"user": user, "method": iso.curves(grid=GRID), "rng": 1}
    found = numbers(predictive_parity(engine(columns), **ROLES, **options))
    answer = expected(predictive_parity, columns, **ROLES, **options)
    np.testing.assert_allclose(found, numbers(answer), rtol=1e-9)


@pytest.mark.parametrize("method", ["residual", "orthogonal", "cumulative", "trend", "published"])
def test_every_method_has_the_same_sums(columns: dict[str, Any], method: Any) -> None:
    """Rows are read in the same way for all methods, so one engine is enough."""
    options: dict[str, Any] = {"method": iso.curves(method, grid=GRID), "user": "m", "rng": 1}
    found, answer = (predictive_parity(data, **ROLES, **options) for data in (pl.LazyFrame(columns), columns))
    np.testing.assert_allclose(numbers(found), numbers(answer), rtol=1e-9)


def test_a_query_that_fits_is_held(columns: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    summed = numbers(predictive_parity(pl.LazyFrame(columns), **ROLES, user="m", rng=1))
    monkeypatch.setattr("isonomy.scores.read.HELD", 2_000)
    monkeypatch.setattr("isonomy.scores.read.split", None)
    held = numbers(predictive_parity(pl.LazyFrame(columns), **ROLES, user="m", rng=1))
    np.testing.assert_allclose(held, summed, rtol=1e-9)


@KINDS
def test_counts_conditions_and_cuts(engine: Any, columns: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "groups": GROUPS,
        "user": "m",
        "outcome": "y",
        "score": "s",
        "count": "n",
        "method": iso.curves(grid=[0.45, 0.55], level="aggregate"),
        "rng": 1,
    }
    answer, found = expected(predictive_parity, columns, **options), predictive_parity(engine(columns), **options)
    assert (found.tables, found.labels, found.against) == (answer.tables, answer.labels, answer.against)
    np.testing.assert_allclose(found.disparity, answer.disparity, rtol=1e-9)
    np.testing.assert_allclose(found.se, answer.se, rtol=1e-9)


def test_a_lottery_on_a_query(columns: dict[str, Any]) -> None:
    options: dict[str, Any] = ROLES | {"target": "equalized_odds", "randomize": True, "threshold": 0.4, "change": "all"}
    wanted, found = (equalize_thresholds(data, **options, rng=0) for data in (columns, pl.LazyFrame(columns)))
    for name in ("thresholds", "lottery", "probability", "after"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9)


@KINDS
def test_marginal_thresholds_and_metrics(engine: Any, columns: dict[str, Any]) -> None:
    data, tests = engine(columns), ROLES | {"threshold": 0.4}
    cases: list[tuple[Any, dict[str, Any], tuple[str, ...]]] = [
        *((marginal_outcomes, tests | {"user": user}, ("estimate", "se")) for user in (None, "m")),
        *(
            (equalize_thresholds, tests | more | {"method": iso.curves(resamples=100), "rng": 0}, RULES)
            for more in ({}, {"target": "tpr", "user": "m", "change": "all"})
        ),
        (
            calibration_metrics,
            ROLES | {"user": "m", "method": iso.curves(grid=GRID)},
            ("calibration_error", "parity_error", "ece", "auc"),
        ),
    ]
    for test, options, names in cases:
        answer, found = expected(test, columns, **options), test(data, **options)
        for name in names:
            np.testing.assert_allclose(getattr(found, name), getattr(answer, name), rtol=1e-9)
