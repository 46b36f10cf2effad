"""Local polynomials by weighted least squares, and which points are supported."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.axis import BINS, Axis
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.sums import EFFECTIVE, EVENTS, Smoother, enough, fit_curves, users_near
from isonomy.numerics.arrays import FloatArray

GROUP = np.repeat([0, 1], 200)


def rows(score: FloatArray, seed: int = 0) -> tuple[Moments, FloatArray]:
    """Two groups of independent rows with 0/1 outcomes."""
    outcome = (np.random.default_rng(seed).random(score.size) < score).astype(float)
    return Moments.of(Axis.of(0.0, 1.0), GROUP, 2, score, outcome, np.ones(score.size)), outcome


def lattice(n: int = 400, seed: int = 1) -> FloatArray:
    """Scores of which no two different ones share a bin."""
    return (np.random.default_rng(seed).integers(0, BINS, n) + 0.5) / BINS


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_curves_are_weighted_least_squares(degree: int) -> None:
    score = lattice()
    moments, outcome = rows(score)
    smoother = Smoother(np.array([0.3, 0.6]), np.array([0.1, 0.2]), degree)
    fit = fit_curves(moments, smoother)
    for g in (0, 1):
        for j in (0, 1):
            u = (score[g == GROUP] - smoother.points[j]) / smoother.width[j]
            expected = np.polynomial.polynomial.polyfit(u, outcome[g == GROUP], degree, w=np.exp(-(u**2) / 4))
            np.testing.assert_allclose(fit.beta[:, g, j], expected, rtol=1e-8)


def test_a_point_far_from_every_row_is_not_supported() -> None:
    fit = fit_curves(rows(lattice())[0], Smoother(np.array([0.5, 9.0]), np.array([0.1, 0.1])))
    assert enough(fit.effective, fit.mean, binary=True).tolist() == [[True, False]] * 2
    assert fit.effective[0, 0] > 2 * EVENTS
    assert enough(fit.effective, fit.mean, binary=False)[:, 0].all() == (fit.effective[:, 0] >= EFFECTIVE).all()


def test_rows_in_the_tails_of_the_kernel_support_nothing() -> None:
    """Two hundred rows two bandwidths away, on either side, and none in between."""
    score = np.where(np.arange(400) % 2 == 0, 0.3, 0.7) + np.linspace(-0.01, 0.01, 400)
    fit = fit_curves(rows(score)[0], Smoother(np.array([0.5, 0.3]), np.array([0.1, 0.1])))
    assert np.all(fit.effective[:, 0] < 5)
    assert np.all(fit.effective[:, 1] > 90)


def test_effective_users_of_evenly_spread_scores() -> None:
    """2 sqrt(pi) h n under the kernel, the textbook's; 2 h n within a bandwidth."""
    score = np.tile((np.arange(200) + 0.5) / 200, 2)
    fit = fit_curves(rows(score)[0], Smoother(np.array([0.5]), np.array([0.05])))
    np.testing.assert_allclose(fit.users, 2 * np.sqrt(np.pi) * 0.05 * 200, rtol=1e-3)
    np.testing.assert_allclose(fit.effective, 2 * 0.05 * 200)


def test_users_near_are_counted_at_common_scores_and_not_at_the_far_ends_alone() -> None:
    score = np.tile((np.arange(200) + 0.5) / 200, 2)
    moments, smoother = rows(score)[0], Smoother(np.array([0.5]), np.array([0.05]))
    upper = users_near(moments, (0, 1), smoother, moments.site > 0.5)
    np.testing.assert_allclose(upper, 0.05 * 200)
    outer = users_near(moments, (0, 1), smoother, np.abs(moments.site - 0.5) > 0.04)
    np.testing.assert_allclose(outer, 0.0)
