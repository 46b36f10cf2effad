"""A cut-off for each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import ThresholdsRule
from isonomy.alternatives.rules.named import EstimatorRule
from isonomy.errors import RuleFailed


@pytest.fixture
def shifted() -> dict[str, Any]:
    """A score that is as good in both groups and shifted in one: cut-offs by group make selection rates equal."""
    rng = np.random.default_rng(0)
    n = 3_000
    group, need = rng.integers(0, 2, n), rng.normal(size=n)
    y = (need + rng.normal(size=n) > 0).astype(int)
    return {"g": group, "y": y, "score": need - 0.8 * group}


ASK: dict[str, Any] = {
    "outcome": "y",
    "groups": "g",
    "status_quo": "score",
    "features": ["score"],
    "accuracy": "accuracy",
    "accuracy_weights": "pooled",
    "fairness": "selection_rate",
    "capacity": 0.3,
    "rule": "group_thresholds",
    "repeats": 1,
    "rng": 1,
}


def test_cutoffs_by_group_make_selection_equal(shifted: dict[str, Any]) -> None:
    result = iso.improvability(shifted, **ASK)
    assert result.reject
    assert result.fairness[0, 0, 0] < 0.25 * result.fairness[0, 0, 1]
    assert result.selected[0].tolist() == pytest.approx([0.3, 0.3], abs=1e-12)
    best = result.recommended
    assert best is not None
    decided = best.decide(shifted)
    rates = [decided[shifted["g"] == g].mean() for g in (0, 1)]
    assert abs(rates[0] - rates[1]) < 0.1
    assert decided.mean() == pytest.approx(0.3, abs=0.02)


def test_a_threshold_is_moved_too(shifted: dict[str, Any]) -> None:
    result = iso.improvability(shifted, **(ASK | {"capacity": None, "threshold": 0.0}))
    assert result.fairness[0, 0, 0] < 0.5 * result.fairness[0, 0, 1]


def test_it_needs_a_score(shifted: dict[str, Any]) -> None:
    decided = shifted | {"score": (shifted["score"] > 0).astype(int)}
    with pytest.raises(RuleFailed, match="give one of them"):
        iso.improvability(decided, **(ASK | {"capacity": None}))


def test_any_score(shifted: dict[str, Any]) -> None:
    from sklearn.linear_model import LogisticRegression

    rule = ThresholdsRule(EstimatorRule(LogisticRegression()))
    assert iso.improvability(shifted, **(ASK | {"rule": rule})).rule == "group_thresholds"
