"""Composite scores: the lattice of weights, and one law for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import composite_parity
from isonomy.calibration.smoothing.composites import STEPS, simplex

ROLES: dict[str, Any] = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g", "resamples": 300}


def two_scores(n: int = 1_500, slope: float = 1.0, seed: int = 0) -> dict[str, Any]:
    """The second outcome of one group is lower at the same score, unless the slope is 1."""
    rng = np.random.default_rng(seed)
    g, a, b = np.repeat(["x", "y"], n), rng.beta(2, 3, 2 * n), rng.beta(2, 2, 2 * n)
    v = rng.random(2 * n) < np.where(g == "x", b, slope * b)
    return {"g": g, "a": a, "b": b, "u": (rng.random(2 * n) < a).astype(int), "v": v.astype(int)}


@pytest.mark.parametrize("scores", [2, 3, 4])
def test_weights_cover_the_simplex(scores: int) -> None:
    weights = simplex(scores)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights.min() == 0
    assert len({tuple(weight) for weight in weights.round(9)}) == len(weights)
    assert len(weights) == len(list(np.ndindex(*[STEPS[scores] + 1] * (scores - 1)))) or scores > 2


def test_the_score_that_differs_has_the_worst_weight() -> None:
    result = composite_parity(two_scores(slope=0.7), **ROLES, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.worst_weights[0, 1] >= 0.5
    frame = result.to_frame()
    assert len(frame) == 11
    assert "Clearest with the weights" in result.summary()
    result.plot()
    again = iso.from_json(result.to_json())
    np.testing.assert_array_equal(again.pvalue_at, result.pvalue_at)


def test_the_law_is_for_all_weights() -> None:
    """The p-value over all weights is above the smallest and at most their number times it; 20 of 400 may reject."""
    rejected = 0
    for seed in range(40):
        result = composite_parity(two_scores(400, seed=seed), **ROLES, rng=seed)
        smallest = float(np.nanmin(result.pvalue_at))
        assert 0.9 * smallest <= result.pvalue <= 11.5 * smallest
        rejected += result.pvalue <= 0.05
    assert rejected <= 0.05 * 40 + 3 * np.sqrt(0.05 * 0.95 * 40)


def test_users_decide_the_variance() -> None:
    data = two_scores(500)
    twice = {name: np.repeat(values, 3) for name, values in data.items()} | {"m": np.repeat(np.arange(1_000), 3)}
    once = composite_parity(data, **ROLES, rng=1)
    same = composite_parity(twice, **ROLES, user="m", rng=1)
    np.testing.assert_allclose(same.difference, once.difference, rtol=1e-6)
    np.testing.assert_allclose(same.pvalue_at, once.pvalue_at, atol=0.02)


@pytest.mark.parametrize("scores", [["a"], ["a", "b", "a", "b", "a"]])
def test_scores_and_outcomes_go_together(scores: list[str]) -> None:
    with pytest.raises(iso.errors.UsageError, match="2 to 4 scores"):
        composite_parity(two_scores(100), **(ROLES | {"scores": scores}))
