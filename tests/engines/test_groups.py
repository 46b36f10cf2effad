"""The same answers on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import Engine, expected
from support.same import same

NAMES = (
    *("labels", "status", "size", "n", "estimate", "reference_value", "disparity"),
    *("ci_low", "ci_high", "statistic", "pvalue"),
)


@pytest.fixture(scope="module")
def decisions() -> dict[str, Any]:
    rng = np.random.default_rng(21)
    n = 400
    return {
        "race": rng.choice(["a", "b", "c"], size=n).tolist(),
        "sex": rng.choice(["f", "m"], size=n).tolist(),
        "age": rng.integers(18, 80, size=n),
        "outcome": rng.integers(0, 2, size=n),
        "prediction": (rng.random(n) < 0.4).astype(int),
        "score": rng.random(n),
    }


def test_a_rate_with_cuts_and_intersections(engine: Engine, decisions: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "metric": "ppv",
        "groups": ["race", "sex", iso.cut("age", [30, 55])],
        "depth": 2,
        "outcome": "outcome",
        "prediction": "prediction",
        "reference": {"race": "a"},
        "min_size": 8,
    }
    same(iso.flag(engine(decisions), **options), expected(iso.flag, decisions, **options), NAMES)


def test_bins_stand_for_very_many_values(
    engine: Engine, decisions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"metric": "brier", "groups": "race", "outcome": "outcome", "score": "score"}
    answer = expected(iso.flag, decisions, **options)
    monkeypatch.setattr("isonomy.groups.likelihood.lines.READ", 0)
    monkeypatch.setattr("isonomy.groups.likelihood.lines.SHARE", 1.0)
    same(iso.flag(engine(decisions), **options), answer, NAMES)


def test_a_real_metric_against_the_population(engine: Engine, decisions: dict[str, Any]) -> None:
    options: dict[str, Any] = {"metric": "brier", "groups": ["race", "sex"], "outcome": "outcome", "score": "score"}
    same(iso.flag(engine(decisions), **options), expected(iso.flag, decisions, **options), NAMES)
    result = iso.certify(engine(decisions), **options)
    same(result, expected(iso.certify, decisions, **options), ("df", "statistic"), rel=1e-8)


def test_comparable_people(engine: Engine, decisions: dict[str, Any]) -> None:
    options: dict[str, Any] = {
        "metric": "selection_rate",
        "groups": "race",
        "prediction": "prediction",
        "reference": {"race": "a"},
        "given": iso.comparable("age", "score", "sex", model="logistic"),
    }
    names = (*NAMES, "accounted", "lacking", "conditional_odds")
    same(iso.flag(engine(decisions), **options), expected(iso.flag, decisions, **options), names)
