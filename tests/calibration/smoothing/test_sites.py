"""Knots between which a function of the score is the cubic through four of them."""

from __future__ import annotations

import numpy as np

from isonomy.calibration.smoothing.sites import MOST_KNOTS, NODES, STEP, Adder, Knots
from isonomy.calibration.smoothing.sums import Smoother
from isonomy.numerics.arrays import FloatArray

SMOOTHER = Smoother(np.array([0.5]), np.array([0.1]))


def test_cubics_are_interpolated_exactly() -> None:
    knots = Knots.of(SMOOTHER, 0.0, 1.0)
    assert knots is not None
    score = np.random.default_rng(0).random(500)
    left, weight = knots.weights(score)

    def cubic(x: FloatArray) -> FloatArray:
        return 1 - 2 * x + 3 * x**2 - 4 * x**3

    at = knots.scores[left[:, None] + np.arange(NODES)]
    np.testing.assert_allclose((weight * cubic(at)).sum(axis=1), cubic(score), rtol=1e-9, atol=1e-12)
    assert left.min() >= 0
    assert left.max() + NODES <= knots.size


def test_too_many_knots_are_none() -> None:
    assert Knots.of(SMOOTHER, 0.0, 2 * STEP * 0.1 * MOST_KNOTS) is None


def test_sums_by_user() -> None:
    add = Adder(np.array([0, 2]), np.arange(3, dtype=np.int32), np.array([[1.0], [2.0], [3.0]]), 3)
    np.testing.assert_array_equal(add(np.array([[1.0], [10.0], [100.0]])), [[21.0], [300.0]])
    np.testing.assert_array_equal(add(np.ones((3, 1)), np.array([1.0, 0.0, 2.0])), [[1.0], [6.0]])
    np.testing.assert_array_equal(add.spread(np.ones((3, 1)))[:, 0], [1.0, 2.0, 3.0])
