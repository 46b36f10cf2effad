"""Student's law, tolerances, and differences that have no variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.calibration.smoothing.bands import (
    Adjustment,
    Judgement,
    Smoothed,
    beyond,
    normal_score,
    student_width,
    welch,
)


def test_normal_scores_are_as_rare_as_student_statistics() -> None:
    t, df = np.array([-3.0, 0.5, 2.0]), np.array([5.0, 30.0, np.inf])
    expected = np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), df))
    np.testing.assert_allclose(normal_score(t, df), expected, rtol=1e-9)
    np.testing.assert_allclose(student_width(1.96, df), stats.t.isf(stats.norm.sf(1.96), df), rtol=1e-9)


def test_welch_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=20), rng.normal(scale=3, size=35)
    expected = stats.ttest_ind(a, b, equal_var=False).df
    variances = (np.array(np.var(a, ddof=1) / 20), np.array(np.var(b, ddof=1) / 35))
    found = welch(*variances, np.array(20.0), np.array(35.0))
    assert float(found) == pytest.approx(expected)


def test_a_tolerance_moves_the_null() -> None:
    difference, se, df = np.array([0.05, 0.2, 0.2]), np.full(3, 0.05), np.full(3, np.inf)
    _, none = beyond(difference, se, df, None)
    np.testing.assert_allclose(none, 2 * stats.norm.sf([1, 4, 4]))
    _, allowed = beyond(difference, se, df, 0.1)
    np.testing.assert_allclose(allowed, [1.0, *[(2 * stats.norm.sf(2) + 2 * stats.norm.sf(6)) / 2] * 2])


def copies(correlation: float) -> Smoothed:
    """Two groups with the same gaps at two points, correlated between the groups."""
    own = np.array([[1.0, 0.5], [0.5, 1.0]])
    covariance = np.array([[own, correlation * own], [correlation * own, own]])
    gap, supported = np.zeros((2, 2)), np.ones((2, 2), dtype=bool)
    return Smoothed(gap, covariance, np.full((2, 2), 100.0), supported, gap, covariance)


@pytest.mark.parametrize("adjust", ["sup-t", "holm", "none"])
def test_copies_have_no_variance_and_are_not_tested(adjust: Adjustment) -> None:
    judgement = Judgement(adjust, 0.05, None, 200)
    rng = np.random.default_rng(0)
    for correlation in (1.0, 1 - 1e-13, 1 + 1e-13):
        band = judgement.band(copies(correlation), (0, 1), np.ones(2), rng)
        assert np.isnan(band.se).all()
        assert np.isnan(band.overall)
    assert np.isfinite(judgement.band(copies(0.9), (0, 1), np.ones(2), rng).overall)
