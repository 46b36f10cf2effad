"""Student's law, tolerances, differences without a variance, and the joint law of points, walk and trend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.calibration import predictive_parity
from isonomy.calibration.smoothing.bands import beyond, normal_score
from isonomy.numerics.tails import t_as_rare
from support.tables import scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def test_normal_scores_are_as_rare_as_student_statistics() -> None:
    t, df = np.array([-3.0, 0.5, 2.0]), np.array([5.0, 30.0, np.inf])
    expected = np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), df))
    np.testing.assert_allclose(normal_score(t, df), expected, rtol=1e-9)
    np.testing.assert_allclose(t_as_rare(1.96, df), stats.t.isf(stats.norm.sf(1.96), df), rtol=1e-9)


def test_a_tolerance_moves_the_null() -> None:
    difference, se, df = np.array([0.05, 0.2, 0.2]), np.full(3, 0.05), np.full(3, np.inf)
    _, none = beyond(difference, se, df, None)
    np.testing.assert_allclose(none, 2 * stats.norm.sf([1, 4, 4]))
    _, allowed = beyond(difference, se, df, 0.1)
    np.testing.assert_allclose(allowed, [1.0, *[(2 * stats.norm.sf(2) + 2 * stats.norm.sf(6)) / 2] * 2])


def pvalues(data: dict[str, Any], **options: Any) -> list[float]:
    """Of all tests together and of each alone, not divided by their share of alpha."""
    methods: tuple[Any, ...] = ("omnibus", "orthogonal", "cumulative", "trend")
    return [
        float(predictive_parity(data, **ROLES, method=method, rng=1, **options).families[0].pair_pvalue[0])
        for method in methods
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_omnibus_lies_between_its_smallest_part_and_three_times_that(seed: int) -> None:
    together, *parts = pvalues(scored(1_500, seed=seed), resamples=5_000)
    smallest = min(parts)
    assert 0.9 * smallest <= together <= 3 * smallest + 1e-12


@pytest.mark.parametrize("adjust", ["bonferroni", "holm", "none"])
def test_other_adjustments_are_joined_by_bonferroni(adjust: str) -> None:
    together, *parts = pvalues(scored(1_500), adjust=adjust)
    assert together == pytest.approx(min(1, 3 * min(parts)), rel=0.1)


def test_a_pvalue_can_be_smaller_than_draws_resolve() -> None:
    assert max(pvalues(scored(20_000, slope=0.5), resamples=100)) < 1e-6


def test_differences_of_probabilities_are_such() -> None:
    """Scores that hardly overlap: no difference beyond 1, no curve beyond 0 and 1."""
    rng = np.random.default_rng(0)
    s = np.clip(np.concatenate([rng.normal(0.3, 0.07, 800), rng.normal(0.7, 0.07, 800)]), 0, 1)
    data = {"s": s, "g": np.repeat(["a", "b"], 800), "y": (rng.random(1_600) < s).astype(int)}
    family = predictive_parity(data, **ROLES, rng=1).families[0]
    for values in (family.difference, family.low, family.high):
        assert np.nanmax(np.abs(values), initial=0) <= 1
    assert np.nanmin(family.curve_low) >= 0
    assert np.nanmax(family.curve_high) <= 1
