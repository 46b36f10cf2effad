"""Several scores together: stray scores, equal scores, any number of them."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.mitigate_composite import MultiObjectiveCalibrator


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
