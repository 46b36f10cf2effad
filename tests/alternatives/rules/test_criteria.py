"""Sums by group, and what counts as accurate and as unfair."""

from __future__ import annotations

import numpy as np

from isonomy.alternatives.rules.criteria import Criteria, group_sums, rates_of
from isonomy.alternatives.rules.utilities import READY
from isonomy.numerics.arrays import FloatArray


def test_sums_by_group_match_a_loop() -> None:
    rng = np.random.default_rng(0)
    values, group, weight = rng.normal(size=(30, 2, 2, 2)), rng.integers(0, 3, 30), rng.integers(1, 4, 30)
    sums = group_sums(values, group, weight, 3)
    for g in range(3):
        expected = (values[group == g] * weight[group == g][:, None, None, None]).sum(axis=0)
        np.testing.assert_allclose(sums[..., g], expected)


def _rates(*by_group: float) -> FloatArray:
    """One utility, both algorithms alike."""
    return np.array([[by_group, by_group]])


def test_gaps_two_sided_and_one_sided() -> None:
    utility = READY["tpr"]
    both = Criteria(utility, (utility,), ("a", "b", "c"))
    assert both.pairs == ((0, 1), (0, 2), (1, 2))
    gap = both.gaps(_rates(0.5, 0.7, 0.4), 0)
    np.testing.assert_allclose(both.unfairness(gap)[0], [0.2, 0.1, 0.3])
    one = Criteria(utility, (utility,), ("a", "b", "c"), protected=0, harm=(1,))
    assert one.pairs == ((1, 0), (2, 0))
    np.testing.assert_allclose(one.unfairness(one.gaps(_rates(0.5, 0.7, 0.4), 0))[0], [0.2, 0.0])
    other = Criteria(utility, (utility,), ("a", "b", "c"), protected=0, harm=(-1,))
    np.testing.assert_allclose(other.unfairness(other.gaps(_rates(0.5, 0.7, 0.4), 0))[0], [0.0, 0.1])


def test_accuracy_forms() -> None:
    utility = READY["tpr"]
    sums = np.zeros((1, 2, 2, 2))
    sums[0, :, 0] = [[1, 6], [2, 6]]  # u: algorithm, group
    sums[0, :, 1] = [[2, 8], [4, 8]]
    rates = rates_of(sums)
    apart = Criteria(utility, (utility,), ("a", "b"))
    np.testing.assert_allclose(apart.accuracy_of(rates, sums), [[0.5, 0.75], [0.5, 0.75]])
    pooled = Criteria(utility, (utility,), ("a", "b"), weights="pooled")
    np.testing.assert_allclose(pooled.accuracy_of(rates, sums), [[0.7], [8 / 12]])
    weighted = Criteria(utility, (utility,), ("a", "b"), weights=np.array([2.0, 1.0]))
    np.testing.assert_allclose(weighted.accuracy_of(rates, sums), [[1.75], [1.75]])
