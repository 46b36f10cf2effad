"""Weights and clusters: the same answers on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import Engine
from support.same import same

NAMES = ("labels", "status", "size", "n", "estimate", "disparity", "ci_low", "ci_high", "statistic", "pvalue")


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    rng = np.random.default_rng(8)
    n = 900
    person = rng.integers(0, 150, n)
    shift = rng.normal(size=150)[person]
    return {
        "race": rng.choice(["a", "b"], 150)[person].tolist(),
        "sex": rng.choice(["f", "m"], n).tolist(),
        "outcome": rng.integers(0, 2, n),
        "prediction": (rng.normal(size=n) + shift > 0).astype(int),
        "amount": np.exp(rng.normal(size=n) + shift),
        "weight": np.exp(0.5 * rng.normal(size=n)),
        "person": [f"p{i}" for i in person],
    }


@pytest.mark.parametrize(
    "reading", [{"weight": "weight"}, {"cluster": "person"}, {"weight": "weight", "cluster": "person"}]
)
def test_rates(engine: Engine, table: dict[str, Any], reading: dict[str, Any]) -> None:
    options: dict[str, Any] = {"groups": ["race", "sex"], "depth": 2, "outcome": "outcome", "prediction": "prediction"}
    test: Any
    for test in (iso.flag, iso.certify):
        expected = test(table, metric="ppv", **options, **reading)
        result = test(engine(table), metric="ppv", **options, **reading)
        same(result, expected, NAMES)
        assert result.design is not None
        assert expected.design is not None
        assert result.design.effect == pytest.approx(expected.design.effect, rel=1e-9, nan_ok=True)
        assert result.design.clusters.tolist() == expected.design.clusters.tolist()


def test_numbers(engine: Engine, table: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "metric": "mean_prediction",
        "groups": "sex",
        "prediction": "amount",
        "reference": "rest",
    }
    expected = iso.flag(table, **options, weight="weight", cluster="person")
    same(iso.flag(engine(table), **options, weight="weight", cluster="person"), expected, NAMES)
