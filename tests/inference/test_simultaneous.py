"""The distribution of the largest of correlated statistics."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.errors import UsageError
from isonomy.inference.multiplicity import beyond_rounding, normal_draws, square_root, sup_t

DRAWS = 100_000


def law(correlation: Any, alpha: Any = 0.05, draws: Any = DRAWS, seed: Any = 0) -> Any:
    return sup_t(correlation, alpha=alpha, draws=draws, rng=np.random.default_rng(seed))


def margin(alpha: Any, critical: Any, density: Any, draws: Any = DRAWS) -> Any:
    """Four standard errors of a simulated quantile: sqrt(alpha (1 - alpha) / draws) / density."""
    return 4 * np.sqrt(alpha * (1 - alpha) / draws) / density(critical)


@pytest.mark.parametrize("points", [1, 5, 30])
def test_independent_points_against_the_closed_form(points: Any) -> None:
    # P(all <= c) = P(one <= c)^points.
    tail = -np.expm1(np.log(0.95) / points)
    exact = stats.norm.isf(tail / 2)
    critical = law(np.eye(points)).critical

    def density(c: Any) -> Any:
        return points * 2 * stats.norm.pdf(c) * (1 - tail) ** (points - 1)

    assert critical == pytest.approx(exact, abs=margin(0.05, exact, density))


def test_equal_points_are_one_point() -> None:
    exact = stats.norm.isf(0.025)
    critical = law(np.ones((6, 6))).critical
    assert critical == pytest.approx(exact, abs=margin(0.05, exact, lambda c: 2 * stats.norm.pdf(c)))
    # So are opposite points.
    assert law(np.array([[1.0, -1.0], [-1.0, 1.0]])).critical == pytest.approx(exact, abs=0.03)


def test_between_one_point_and_bonferroni() -> None:
    grid = np.arange(10)
    correlation = 0.9 ** np.abs(grid[:, None] - grid)
    assert stats.norm.isf(0.025) < law(correlation).critical < stats.norm.isf(0.025 / 10)


def test_critical_value_and_p_value_say_the_same() -> None:
    limit = law(np.eye(4), draws=999)
    assert limit.pvalue([limit.critical]) > 0.05
    assert limit.pvalue([np.nextafter(limit.critical, np.inf)]) <= 0.05
    assert limit.pvalue([-limit.maxima[-50] - 1e-9, 0.0]) == 0.05  # 49 of 999 reach it
    assert (np.diff(limit.maxima) >= 0).all()


def test_p_values_per_point_and_overall() -> None:
    limit = law(np.eye(3), draws=999)
    adjusted = limit.adjusted([0.0, -50.0, np.nan, 2.0])
    assert adjusted[0] == 1
    assert adjusted[1] == 0.001  # never 0
    assert np.isnan(adjusted[2])
    assert adjusted[3] == (1 + (limit.maxima >= 2).sum()) / 1000
    assert limit.pvalue([0.0, -50.0, np.nan]) == 0.001
    assert np.isnan(limit.pvalue([np.nan]))


def test_p_values_are_uniform_under_the_null() -> None:
    grid = np.linspace(0, 1, 8)
    correlation = np.exp(-((grid[:, None] - grid) ** 2) / 0.1)
    limit = law(correlation, draws=20_000, seed=1)
    t = normal_draws(correlation, 4000, np.random.default_rng(2))
    p = [limit.pvalue(row) for row in t]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 4000))


def test_unsupported_points_take_no_part() -> None:
    with_gap = np.full((3, 3), np.nan)
    with_gap[np.ix_([0, 2], [0, 2])] = np.eye(2)
    np.testing.assert_array_equal(law(with_gap, draws=500).maxima, law(np.eye(2), draws=500).maxima)
    nothing = law(np.full((2, 2), np.nan))
    assert np.isnan(nothing.critical)
    assert np.isnan(nothing.pvalue([np.nan, np.nan]))


def test_too_few_draws_reject_nothing() -> None:
    assert law(np.eye(2), draws=18).critical == np.inf
    assert law(np.eye(2), draws=19).critical < np.inf


def test_square_root_of_singular_matrices() -> None:
    factor = np.random.default_rng(0).normal(size=(6, 2))
    covariance = factor @ factor.T
    root = square_root(covariance)
    np.testing.assert_allclose(root @ root, covariance, atol=1e-12)
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    np.testing.assert_array_equal(square_root(np.zeros((2, 2))), np.zeros((2, 2)))
    # A difference in the last digit must not change the draws, although eigenvectors are not unique here.
    nudged = np.eye(5)
    nudged[0, 1] = nudged[1, 0] = 1e-15
    np.testing.assert_allclose(square_root(nudged), np.eye(5), atol=1e-14)
    for bad in ([[1.0, 2.0], [2.0, 1.0]], [[np.nan]], [1.0, 2.0], [[1.0, 0.0]]):
        with pytest.raises(UsageError):
            square_root(bad)


def test_draws_have_the_covariance() -> None:
    covariance = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.5], [0.0, -0.5, 3.0]])
    draws = normal_draws(covariance, 50_000, np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=4 * 3 * np.sqrt(2 / 50_000))
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=4 * np.sqrt(3 / 50_000))


def test_large_grids_are_simulated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.inference import multiplicity

    whole = law(np.eye(7), draws=1000)
    monkeypatch.setattr(multiplicity, "BLOCK_BYTES", 5000)
    np.testing.assert_array_equal(law(np.eye(7), draws=1000).maxima, whole.maxima)


def test_limits_from_cluster_sums_have_their_size() -> None:
    """300 users, 21 strongly correlated points, heavy-tailed sums: size 0.05 within 4 binomial errors of 400 runs."""
    rng = np.random.default_rng(21)
    grid = np.linspace(0, 1, 21)
    kernel = np.exp(-((grid[:, None] - grid) ** 2) / 0.02)
    rejections = 0
    for _ in range(400):
        sums = rng.standard_t(8, size=(300, 21)) @ kernel
        t = sums.sum(axis=0) / np.sqrt((sums**2).sum(axis=0))
        rejections += sup_t(np.corrcoef(sums.T), alpha=0.05, draws=299, rng=rng).pvalue(t) <= 0.05
    assert rejections / 400 == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 400))


def test_what_rounding_leaves_of_a_variance_is_no_variance() -> None:
    variance = beyond_rounding([0.5, 3e-17, 0.0, -1e-18, np.nan], [2.0, 2.0, 2.0, 2.0, 2.0])
    np.testing.assert_array_equal(variance, [0.5, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(beyond_rounding([5e-21], [2e-20]), [5e-21])  # small, but not a rounding error
