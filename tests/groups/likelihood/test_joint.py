"""The general dual: known references, functions that depend on one another, nulls that no weighting meets."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.groups.likelihood.joint import Functions, Patterns
from isonomy.groups.likelihood.means import Binary
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Status
from support.groups import real

NONE = np.empty(0)


def known(members: FloatArray, means: FloatArray) -> Functions:
    """Each column of ``members`` is a group, and its mean is known."""
    return Functions(members[:, :, None], np.zeros((*members.shape, 0)), members * means)


def test_disjoint_groups_add_up() -> None:
    rng = np.random.default_rng(1)
    codes, values = np.repeat([0, 1], [40, 60]), rng.exponential(size=100)
    means = np.array([1.1, 0.9])
    joint = Patterns(codes, 2, (values,), None).likelihood(known(np.eye(2), means), NONE)
    assert joint.df == 2
    assert joint.statistic == pytest.approx(real(values, codes).statistic(means, np.arange(2)).sum(), rel=1e-9)


@pytest.mark.parametrize("ones", [0, 3, 20])
def test_counts_have_the_binomial_likelihood_even_at_their_edge(ones: int) -> None:
    data = Patterns.from_counts(np.array([0, 0]), 1, np.array([0.0, 1.0]), np.array([20.0 - ones, float(ones)]))
    joint = data.likelihood(known(np.ones((1, 1)), np.array([0.3])), NONE)
    expected = Binary([20], [ones]).statistic(np.array([0.3]), np.array([0]))[0]
    assert joint.statistic == pytest.approx(expected, rel=1e-6)


def test_a_function_that_is_the_sum_of_others_is_not_counted() -> None:
    """Two cells and both together: three functions of rank two."""
    rng = np.random.default_rng(2)
    data = Patterns(np.repeat([0, 1], 50), 2, (rng.normal(size=100),), None)
    both = known(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.full(3, 0.1))
    alone = known(np.eye(2), np.full(2, 0.1))
    for solve in (data.likelihood, data.euclidean):
        joint, expected = solve(both, NONE), solve(alone, NONE)
        assert joint.df == expected.df == 2
        assert joint.statistic == pytest.approx(expected.statistic, rel=1e-8)


def test_a_mean_beyond_every_row_has_no_weighting() -> None:
    data = Patterns(np.zeros(10, dtype=np.intp), 1, (np.linspace(0, 1, 10),), None)
    joint = data.likelihood(known(np.ones((1, 1)), np.array([1.5])), NONE)
    assert joint.status is Status.OUTSIDE_RANGE
    assert np.isinf(joint.statistic)


def test_the_likeliest_weighting_meets_the_hypothesis() -> None:
    rng = np.random.default_rng(3)
    codes, values = np.repeat([0, 1], [30, 50]), rng.exponential(size=80)
    data = Patterns(codes, 2, (values,), None)
    joint = data.likelihood(known(np.eye(2), np.array([1.2, 0.8])), NONE)
    assert joint.move is not None
    assert data.first[0] / data.n + joint.move[0] == pytest.approx([1.2, 0.8], rel=1e-9)
