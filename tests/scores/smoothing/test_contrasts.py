"""Local polynomials of groups, and two groups compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from isonomy.numerics.arrays import FloatArray
from isonomy.scores.smoothing.comparisons import (
    EFFECTIVE,
    EVENTS,
    Pooled,
    common_sites,
    enough,
    fit_curves,
    means,
    orthogonal,
    users_near,
    welch,
)
from isonomy.scores.smoothing.kernels import BINS, Smoother
from isonomy.scores.smoothing.moments import VoteMoments
from support.votes import moments as moments_of

GROUP = np.repeat([0, 1], 200)


def few_rows(score: FloatArray, seed: int = 0) -> tuple[VoteMoments, FloatArray]:
    """Two groups of independent rows with 0/1 outcomes."""
    outcome = (np.random.default_rng(seed).random(score.size) < score).astype(float)
    return moments_of(GROUP, 2, score, outcome, np.ones(score.size)), outcome


def lattice(n: int = 400, seed: int = 1) -> FloatArray:
    """Scores of which no two different ones share a bin."""
    return (np.random.default_rng(seed).integers(0, BINS, n) + 0.5) / BINS


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_curves_are_weighted_least_squares(degree: int) -> None:
    score = lattice()
    moments, outcome = few_rows(score)
    smoother = Smoother(np.array([0.3, 0.6]), np.array([0.1, 0.2]), degree)
    fit = fit_curves(moments, smoother)
    for g in (0, 1):
        for j in (0, 1):
            u = (score[g == GROUP] - smoother.points[j]) / smoother.width[j]
            expected = np.polynomial.polynomial.polyfit(u, outcome[g == GROUP], degree, w=np.exp(-(u**2) / 4))
            np.testing.assert_allclose(fit.beta[:, g, j], expected, rtol=1e-8)


def test_a_point_far_from_every_row_is_not_supported() -> None:
    fit = fit_curves(few_rows(lattice())[0], Smoother(np.array([0.5, 9.0]), np.array([0.1, 0.1])))
    assert enough(fit.effective, fit.mean, binary=True).tolist() == [[True, False]] * 2
    assert fit.effective[0, 0] > 2 * EVENTS
    assert enough(fit.effective, fit.mean, binary=False)[:, 0].all() == (fit.effective[:, 0] >= EFFECTIVE).all()


def test_rows_in_the_tails_of_the_kernel_support_nothing() -> None:
    """Two hundred rows two bandwidths away, on either side, and none in between."""
    score = np.where(np.arange(400) % 2 == 0, 0.3, 0.7) + np.linspace(-0.01, 0.01, 400)
    fit = fit_curves(few_rows(score)[0], Smoother(np.array([0.5, 0.3]), np.array([0.1, 0.1])))
    assert np.all(fit.effective[:, 0] < 5)
    assert np.all(fit.effective[:, 1] > 90)


def test_effective_users_of_evenly_spread_scores() -> None:
    """2 sqrt(pi) h n under the kernel, the textbook's; 2 h n within a bandwidth."""
    score = np.tile((np.arange(200) + 0.5) / 200, 2)
    fit = fit_curves(few_rows(score)[0], Smoother(np.array([0.5]), np.array([0.05])))
    np.testing.assert_allclose(fit.users, 2 * np.sqrt(np.pi) * 0.05 * 200, rtol=1e-3)
    np.testing.assert_allclose(fit.effective, 2 * 0.05 * 200)


def test_users_near_are_counted_at_common_scores_and_not_at_the_far_ends_alone() -> None:
    score = np.tile((np.arange(200) + 0.5) / 200, 2)
    moments, smoother = few_rows(score)[0], Smoother(np.array([0.5]), np.array([0.05]))
    upper = users_near(moments, (0, 1), smoother, moments.site > 0.5)
    np.testing.assert_allclose(upper, 0.05 * 200)
    outer = users_near(moments, (0, 1), smoother, np.abs(moments.site - 0.5) > 0.04)
    np.testing.assert_allclose(outer, 0.0)


def rows(n: int = 400, seed: int = 0) -> tuple[dict[str, Any], VoteMoments]:
    """Scores of which no two different ones share a bin."""
    rng = np.random.default_rng(seed)
    s, g = (rng.integers(0, BINS, n) + 0.5) / BINS, rng.integers(0, 2, n)
    y = (rng.random(n) < s).astype(float)
    return {"s": s, "g": g, "y": y}, moments_of(g, 2, s, y, np.ones(n))


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_an_orthogonal_difference_is_a_regression_with_hc2_errors(degree: int) -> None:
    columns, moments = rows()
    site = moments.site
    pooled = Pooled(0.1 + 0.7 * site, 0.3 + 0.4 * site)
    contrast = orthogonal(moments, (0, 1), pooled, Smoother(np.array([0.45]), np.array([0.15]), degree))
    covariance, _ = contrast.law(moments, (0, 1))
    u = (columns["s"] - 0.45) / 0.15
    member = (columns["g"] == 0) - (0.3 + 0.4 * columns["s"])
    design = np.column_stack([member * u**k for k in range(degree + 1)])
    fit = sm.WLS(columns["y"] - 0.1 - 0.7 * columns["s"], design, weights=np.exp(-0.5 * u**2)).fit(cov_type="HC2")
    assert contrast.estimate[0] == pytest.approx(fit.params[0], rel=1e-8)
    assert covariance[0, 0] == pytest.approx(fit.cov_params()[0, 0], rel=1e-8)


def test_a_variance_is_at_least_that_of_the_pooled_chances() -> None:
    """Two groups at one score, one without an event: the pooled chance's variance, that of a score test."""
    g, y = np.repeat([0, 1], [100, 300]), (np.arange(400) >= 370).astype(float)
    moments = moments_of(g, 2, np.full(400, 0.5), y, np.ones(400))
    pooled = Pooled(np.full(BINS, y.mean()), np.full(BINS, 0.25))
    contrast = orthogonal(moments, (0, 1), pooled, Smoother(np.array([0.5]), np.array([0.1]), 0))
    _, effect = contrast.law(moments, (0, 1))
    expected = y.mean() * (1 - y.mean()) * (1 / 100 + 1 / 300)
    assert effect.standard_error[0] ** 2 == pytest.approx(expected, rel=0.02)


def test_degrees_of_freedom_of_a_plain_difference() -> None:
    """Rows at one score: two means, with as many degrees of freedom as rows, less one in each group."""
    y = np.random.default_rng(0).normal(size=30)
    g = np.repeat([0, 1], [10, 20])
    moments = moments_of(g, 2, np.full(30, 0.5), y, np.ones(30), binary=False)
    pooled = Pooled(np.zeros(BINS), np.full(BINS, 1 / 3))
    contrast = orthogonal(moments, (0, 1), pooled, Smoother(np.array([0.5]), np.array([0.1]), 0))
    np.testing.assert_allclose(contrast.freedom[:, 0], [10, 20], rtol=1e-9)


def test_means_without_a_pooled_curve_are_the_papers() -> None:
    columns, moments = rows()
    contrast = means(moments, (0, 1), None, Smoother(np.array([0.4]), np.array([0.1]), 0), np.full((2, 1), 50.0))
    k = np.exp(-0.5 * ((columns["s"] - 0.4) / 0.1) ** 2)
    first, second = (np.average(columns["y"][columns["g"] == g], weights=k[columns["g"] == g]) for g in (0, 1))
    assert contrast.estimate[0] == pytest.approx(first - second, rel=1e-9)
    assert np.isinf(contrast.law(moments, (0, 1))[1].df).all()


def test_a_difference_of_residuals_has_the_size_of_the_difference() -> None:
    """Outcomes without noise: 0.3 apart everywhere, whatever the shares."""
    columns, _ = rows()
    y = 0.5 * columns["s"] + 0.3 * (columns["g"] == 0)
    moments = moments_of(columns["g"], 2, columns["s"], y, np.ones(y.size))
    share = np.clip(moments.site, 0.1, 0.9)
    pooled = Pooled(0.5 * moments.site + 0.3 * share, share)
    contrast = means(moments, (0, 1), pooled, Smoother(np.array([0.4]), np.array([0.1]), 0), np.full((2, 1), 50.0))
    assert contrast.estimate[0] == pytest.approx(0.3, rel=1e-9)


def test_welch_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=20), rng.normal(scale=3, size=35)
    expected = stats.ttest_ind(a, b, equal_var=False).df
    variances = (np.array(np.var(a, ddof=1) / 20), np.array(np.var(b, ddof=1) / 35))
    assert float(welch(*variances, np.array(20.0), np.array(35.0))) == pytest.approx(expected)


def test_scores_are_common_where_both_groups_have_rows_near() -> None:
    site = (np.arange(BINS) + 0.5) / BINS
    weight = np.stack([site < 0.5, site >= 0.5]).astype(float)
    common = common_sites(weight, weight, site, np.full(BINS, 0.08))
    assert site[common].min() == pytest.approx(0.49, abs=0.005)  # an eighth of a bandwidth, less three rows
    assert site[common].max() == pytest.approx(0.51, abs=0.005)
    assert not common_sites(weight * (np.abs(site - 0.5) > 0.02), weight, site, np.full(BINS, 0.08)).any()
    assert common_sites(np.ones((2, BINS)), np.ones((2, BINS)), site, np.full(BINS, 0.08)).all()


def test_nothing_is_compared_where_scores_are_not_common() -> None:
    pooled = Pooled(np.zeros(4), np.full(4, 0.25), np.array([True, False, True, True]))
    assert pooled.membership.tolist() == [[0.75, 0.0, 0.75, 0.75], [-0.25, 0.0, -0.25, -0.25]]
