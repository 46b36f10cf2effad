"""Weights and clusters: the same answers on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import Engine, expected
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
        answer = expected(test, table, metric="ppv", **options, **reading)
        result = test(engine(table), metric="ppv", **options, **reading)
        same(result, answer, NAMES)
        assert result.design is not None
        assert result.design.effect == pytest.approx(answer.design.effect, rel=1e-9, nan_ok=True)
        assert result.design.clusters.tolist() == answer.design.clusters.tolist()


def test_numbers(engine: Engine, table: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "metric": "mean_prediction",
        "groups": "sex",
        "prediction": "amount",
        "reference": "rest",
        "weight": "weight",
        "cluster": "person",
    }
    same(iso.flag(engine(table), **options), expected(iso.flag, table, **options), NAMES)


EFFECT: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "measure": "difference"}
METHODS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "adverse_impact": (iso.adverse_impact, {"prediction": "prediction"}, ("estimate", "disparity", "ci_low", "pvalue")),
    "project": (
        iso.project,
        {"outcome": "outcome", "prediction": "prediction", "score": "score", "threshold": 0.5, "rng": 0},
        ("pvalue", "statistic"),
    ),
    "treatment_bias": (iso.treatment_bias, EFFECT, ("disparity", "ci_low", "ci_high", "pvalue")),
    "improvability": (
        iso.improvability,
        {"outcome": "outcome", "status_quo": "prediction", "candidate": "other", "rng": 0},
        ("pvalue",),
    ),
    "predictive_parity": (
        iso.predictive_parity,
        {"outcome": "outcome", "score": "score", "rng": 0},
        ("pvalue", "disparity", "ci_low", "ci_high"),
    ),
    "equalize_thresholds": (
        iso.equalize_thresholds,
        {
            "outcome": "outcome",
            "score": "score",
            "threshold": 0.4,
            "target": "tpr",
            "method": iso.curves(resamples=100),
            "rng": 0,
        },
        ("thresholds", "pvalue"),
    ),
    "marginal_outcomes": (
        iso.marginal_outcomes,
        {"outcome": "outcome", "score": "score", "threshold": 0.3},
        ("estimate", "ci_low", "ci_high", "pvalue"),
    ),
}


@pytest.fixture(scope="module")
def columns(table: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    n = len(table["sex"])
    score = rng.random(n)
    return table | {
        "score": score,
        "prediction": (score > 0.5).astype(int),
        "other": (score + 0.2 * rng.normal(size=n) > 0.5).astype(int),
        "treatment": rng.integers(0, 2, n),
        "effect": 0.1 * rng.random(n),
    }


@pytest.mark.parametrize("method", METHODS)
def test_methods(engine: Engine, columns: dict[str, Any], method: str) -> None:
    test, options, names = METHODS[method]
    options = options | {"groups": "sex", "weight": "weight", "cluster": "person"}
    answer, result = expected(test, columns, **options), test(engine(columns), **options)
    for name in names:
        ours, theirs = (_numbers(each, name) for each in (answer, result))
        assert np.isfinite(ours).any()
        assert theirs == pytest.approx(ours, rel=1e-9, abs=1e-12, nan_ok=True)
    for ours, theirs in zip(answer.provenance.clusters, result.provenance.clusters, strict=True):
        assert theirs == (*ours[:2], pytest.approx(ours[2], rel=1e-9))


def _numbers(result: Any, name: str) -> Any:
    values = getattr(result, name) if hasattr(result, name) else result.to_frame()[name].to_numpy()
    return np.ravel(np.asarray(values, dtype=float))
