"""All groups and points at once: the joint test, the order of scores, cumulative differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import predictive_parity
from isonomy.calibration.smoothing.bands import Smoothed
from isonomy.calibration.smoothing.orders import joint_pvalue, ordering
from support.tables import scored

GRID = np.array([0.2, 0.8])


def smoothed(curve: list[list[float]], se: float = 0.02) -> Smoothed:
    """Independent estimates of curves on two points."""
    values = np.array(curve)
    groups, points = values.shape
    covariance = np.zeros((groups, groups, points, points))
    for g in range(groups):
        covariance[g, g] = se**2 * np.eye(points)
    supported = np.ones(values.shape, dtype=bool)
    return Smoothed(values, covariance, np.full(values.shape, 500.0), supported, values, covariance)


def test_a_reversed_order_is_found() -> None:
    order = ordering(smoothed([[0.6, 0.7], [0.1, 0.3]]), GRID, 500, np.random.default_rng(0))
    assert (order.better, order.worse, order.at, order.above) == (0, 1, 0.2, 0.8)
    assert order.difference == pytest.approx(0.3)
    assert order.pvalue < 0.01
    right = ordering(smoothed([[0.1, 0.7], [0.1, 0.7]]), GRID, 500, np.random.default_rng(0))
    assert right.pvalue > 0.5


def test_the_joint_test_looks_at_every_pair() -> None:
    equal, apart = smoothed([[0.2, 0.7]] * 3), smoothed([[0.2, 0.7], [0.2, 0.7], [0.2, 0.85]])
    assert joint_pvalue(equal, 500, np.random.default_rng(0)) > 0.5
    assert joint_pvalue(apart, 500, np.random.default_rng(0)) < 0.01


def test_nothing_supported_is_nothing_tested() -> None:
    none = smoothed([[0.2, 0.7], [0.2, 0.7]])
    none.supported[:] = False
    assert np.isnan(joint_pvalue(none, 200, np.random.default_rng(0)))
    assert np.isnan(ordering(none, GRID, 200, np.random.default_rng(0)).pvalue)


@pytest.mark.parametrize("method", ["residual", "orthogonal", "nadaraya-watson", "cumulative"])
@pytest.mark.parametrize("each", [1, 4])
def test_groups_that_are_copies_are_not_tested(method: Any, each: int) -> None:
    """Every user has the same rows in both groups: what is left of the variance is rounding, and no evidence."""
    one = scored(1_500)
    user = np.arange(1_500) // each
    columns = {"s": np.tile(one["s"][:1_500], 2), "y": np.tile(one["y"][:1_500], 2), "m": np.tile(user, 2)}
    data = columns | {"g": np.repeat(["a", "b"], 1_500)}
    result = predictive_parity(data, outcome="y", score="s", groups="g", user="m", method=method, rng=1)
    assert np.isnan(result.pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert not result.answered
