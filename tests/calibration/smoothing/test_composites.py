"""Composite scores: the lattice of weights, and one law for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import composite_parity
from isonomy.calibration.smoothing.composites import STEPS, simplex
from support.tables import two_scores

ROLES: dict[str, Any] = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g", "resamples": 300}


@pytest.mark.parametrize("scores", [2, 3, 4])
def test_weights_cover_the_simplex(scores: int) -> None:
    weights = simplex(scores)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights.min() == 0
    assert len({tuple(weight) for weight in weights.round(9)}) == len(weights)
    assert len(weights) == len(list(np.ndindex(*[STEPS[scores] + 1] * (scores - 1)))) or scores > 2


def test_the_law_is_for_all_weights() -> None:
    """The p-value over all weights is above the smallest and at most their number times it; 20 of 400 may reject."""
    rejected = 0
    for seed in range(40):
        result = composite_parity(two_scores(400, seed=seed), **ROLES, rng=seed)
        smallest = float(np.nanmin(result.pvalue_at))
        assert 0.9 * smallest <= result.pvalue <= 11.5 * smallest
        rejected += result.pvalue <= 0.05
    assert rejected <= 0.05 * 40 + 3 * np.sqrt(0.05 * 0.95 * 40)


@pytest.mark.parametrize("scores", [["a"], ["a", "b", "a", "b", "a"]])
def test_scores_and_outcomes_go_together(scores: list[str]) -> None:
    with pytest.raises(iso.errors.UsageError, match="2 to 4 scores"):
        composite_parity(two_scores(100), **(ROLES | {"scores": scores}))
