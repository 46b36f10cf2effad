"""Maps from scores to calibrated scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.errors import UsageError
from isonomy.scores.calibrators import GroupCalibrator, MultiObjectiveCalibrator
from isonomy.scores.smoothing.maps import platt


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
    model = GroupCalibrator(method, groups=1, onto={1: 0}).fit(X, y)
    far = np.array([-3.0, 0.123456789, 1.5])
    np.testing.assert_array_equal(model.predict(np.column_stack([far, np.zeros(3)])), far)
    mapped = model.predict(np.column_stack([far, np.ones(3)]))
    assert np.all((mapped >= 0) & (mapped <= 1))
    unhashable: Any = {1: [0]}
    with pytest.raises(UsageError, match=r"^onto:"):
        GroupCalibrator(method, groups=1, onto=unhashable).fit(X, y)


def test_a_score_far_out_changes_little() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(5_000)
    y = (rng.random(5_000) < s**2).astype(int)
    far = np.where(np.arange(5_000) == 0, 50.0, s)
    at = np.linspace(0.02, 0.92, 46)[:, None]
    error = [np.abs(GroupCalibrator().fit(x[:, None], y).predict(at) - at[:, 0] ** 2).mean() for x in (s, far)]
    assert error[1] < 1.5 * error[0]  # with kernels as wide as the outlier asks for it is ten times as large


def crossed(n: int = 4_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Each of two scores is the expected outcome of the other."""
    rng = np.random.default_rng(seed)
    S = rng.random((n, 2))
    return S, (rng.random((n, 2)) < S[:, ::-1]).astype(float)


def test_one_stray_score_does_not_blur_the_rest() -> None:
    S, Y = crossed()
    stray = S.copy()
    stray[0] = 50.0
    plain, moved = (np.abs(MultiObjectiveCalibrator().fit(X, Y).predict(S) - S[:, ::-1]).mean() for X in (S, stray))
    assert plain < 0.04
    assert moved < 1.05 * plain  # twice as large with knots in equal steps


def test_nor_does_it_widen_the_kernel() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(4_000)
    truth = np.sin(6 * s) ** 2
    y = (rng.random(4_000) < truth).astype(float)
    stray = np.where(np.arange(4_000) == 0, 50.0, s)
    fits = [MultiObjectiveCalibrator().fit(x[:, None], y).predict(s[:, None]) for x in (s, stray)]
    plain, moved = (np.abs(fit - truth).mean() for fit in fits)
    assert moved < 1.1 * plain


def test_many_equal_scores_leave_knots_for_the_others() -> None:
    rng = np.random.default_rng(0)
    S = np.column_stack([np.where(rng.random(40_000) < 0.95, 0.0, rng.random(40_000)), rng.random(40_000)])
    y = (rng.random(40_000) < np.sin(6 * S[:, 0]) ** 2).astype(float)
    at = np.linspace(0.1, 0.9, 17)
    model = MultiObjectiveCalibrator(bandwidth=0.3).fit(S, np.column_stack([y, y]))
    found = model.predict(np.column_stack([at, np.full(17, 0.5)]))[:, 0]
    assert np.abs(found - np.sin(6 * at) ** 2).mean() < 0.12


def test_doubled_weights_are_doubled_rows() -> None:
    S, Y = crossed(1_000)
    once = MultiObjectiveCalibrator().fit(np.repeat(S, 2, axis=0), np.repeat(Y, 2, axis=0)).predict(S)
    twice = MultiObjectiveCalibrator().fit(S, Y, sample_weight=np.full(1_000, 2.0)).predict(S)
    np.testing.assert_allclose(twice, once, rtol=1e-9)


@pytest.mark.parametrize("many", [1, 2, 3, 4])
def test_any_number_of_scores(many: int) -> None:
    rng = np.random.default_rng(0)
    S = rng.random((2_000, many))
    model = MultiObjectiveCalibrator().fit(S, (rng.random(S.shape) < S) * 1.0)
    assert np.corrcoef(model.predict(S)[:, 0], S[:, 0])[0, 1] > 0.9
