"""Functions from a score to a calibrated score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.calibration.mitigate import GroupCalibrator
from isonomy.calibration.smoothing.maps import platt
from isonomy.errors import (
    UsageError,
)


@pytest.mark.parametrize("value", [0.3, 0.1 + 0.2, 1e9 / 3, -1 / 3, 0.0])
def test_platt_of_equal_scores_is_the_mean_outcome(value: float) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(2_000) < 0.4).astype(float)
    vote = rng.integers(1, 4, 2_000).astype(float)
    found = platt(np.full(2_000, value), y, vote)
    near = value + np.array([-1e-4, 0.0, 1e-4]) * max(1.0, abs(value))
    np.testing.assert_allclose(found(near), np.average(y, weights=vote), rtol=1e-12)


def test_platt_does_not_depend_on_the_scale_of_the_score() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(2_000)
    y = (rng.random(2_000) < s).astype(float)
    at = np.linspace(0, 1, 5)
    expected = platt(s, y, np.ones(2_000))(at)
    for scale in (1e-9, 1e-3, 1e6):
        np.testing.assert_allclose(platt(s * scale, y, np.ones(2_000))(at * scale), expected, rtol=1e-4)


@pytest.mark.parametrize("method", ["near_unbiased", "binning", "isotonic", "platt"])
def test_the_target_of_a_mapping_keeps_every_score(method: Any) -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(4_000), rng.integers(0, 2, 4_000)
    y = (rng.random(4_000) < np.where(g == 0, s, s**2)).astype(int)
    X = np.column_stack([s, g])
    model = GroupCalibrator(method, group_columns=1, onto=[0]).fit(X, y)
    far = np.array([-3.0, 0.123456789, 1.5])
    np.testing.assert_array_equal(model.predict(np.column_stack([far, np.zeros(3)])), far)
    mapped = model.predict(np.column_stack([far, np.ones(3)]))
    assert np.all((mapped >= 0) & (mapped <= 1))
    unhashable: Any = [[0]]
    with pytest.raises(UsageError, match=r"^onto:"):
        GroupCalibrator(method, group_columns=1, onto=unhashable).fit(X, y)


def test_a_score_far_out_changes_little() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(5_000)
    y = (rng.random(5_000) < s**2).astype(int)
    far = np.where(np.arange(5_000) == 0, 50.0, s)
    at = np.linspace(0.02, 0.92, 46)[:, None]
    error = [np.abs(GroupCalibrator().fit(x[:, None], y).predict(at) - at[:, 0] ** 2).mean() for x in (s, far)]
    assert error[1] < 1.5 * error[0]  # with kernels as wide as the outlier asks for it is ten times as large
