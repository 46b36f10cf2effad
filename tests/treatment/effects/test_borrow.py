"""Shrinkage to the common error against statsmodels and its limits, and Welch's test against scipy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.treatment.effects.borrow import heavy_means, mixed_means, normal_means, spread_of, welch_q

ERROR, SE = np.array([0.10, 0.55, 0.32, 0.21, 0.40]), np.array([0.10, 0.12, 0.08, 0.15, 0.11])


def test_the_spread_is_that_of_dersimonian_and_laird() -> None:
    meta = pytest.importorskip("statsmodels.stats.meta_analysis")
    assert spread_of(ERROR, SE) == pytest.approx(meta.combine_effects(ERROR, SE**2, method_re="dl").tau2, rel=1e-12)


def test_equal_errors_are_corrected_alike() -> None:
    """No spread beyond chance: all of it is common, in small groups as in large ones."""
    for means in (normal_means, heavy_means, mixed_means):
        np.testing.assert_allclose(means(np.full(6, 0.3), np.geomspace(0.01, 1, 6)), 0.3, atol=0.01)


def test_far_apart_errors_are_left_where_they_are() -> None:
    error, se = np.array([-1.0, 0.0, 1.0, 2.0]), np.full(4, 0.01)
    for means in (normal_means, heavy_means, mixed_means):
        np.testing.assert_allclose(means(error, se), error, atol=0.01)


def test_the_heavy_tail_leaves_an_outlying_group_alone() -> None:
    rng = np.random.default_rng(0)
    error, se = 0.1 * rng.standard_normal(30), np.full(30, 0.1)
    error[0] = 1.0
    normal, heavy, mixed = (means(error, se) for means in (normal_means, heavy_means, mixed_means))
    assert min(heavy[0], mixed[0]) > 0.9 > normal[0]
    assert np.square(mixed[1:]).sum() < np.square(heavy[1:]).sum() < np.square(normal[1:]).sum()


def test_order_and_units_do_not_matter() -> None:
    for means in (normal_means, heavy_means):
        np.testing.assert_allclose(means(ERROR[::-1], SE[::-1]), means(ERROR, SE)[::-1])
        np.testing.assert_allclose(means(100 * ERROR + 7, 100 * SE), 100 * means(ERROR, SE) + 7, rtol=1e-9)
    np.testing.assert_allclose(mixed_means(ERROR[::-1], SE[::-1]), mixed_means(ERROR, SE)[::-1])
    np.testing.assert_allclose(mixed_means(-100 * ERROR, 100 * SE), -100 * mixed_means(ERROR, SE), rtol=1e-9)
    mean = np.average(ERROR, weights=SE**-2.0)
    np.testing.assert_allclose(mixed_means(ERROR + 99, SE) - 99, mixed_means(ERROR - mean + 99, SE) - 99 + mean)


def test_the_mixture_knows_that_most_models_are_right_on_average() -> None:
    """Four groups without error but one: the others are left nearer to 0 than by shrinking to the common mean."""
    error, se = np.array([0.6, 0.0, 0.0, 0.0]), np.full(4, 0.1)
    mixed, heavy = mixed_means(error, se), heavy_means(error, se)
    assert mixed[0] > 0.5
    assert np.abs(mixed[1:]).max() < np.abs(heavy[1:]).max()


def test_one_group_has_nothing_to_borrow_from() -> None:
    assert heavy_means(np.array([0.4]), np.array([0.1])) == 0.4
    assert np.isnan(welch_q(np.array([0.4]), np.array([0.1]), np.array([9.0]))).all()


def test_welchs_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    samples = [rng.normal(0.1 * i, 1 + i, 12 + 5 * i) for i in range(4)]
    means = np.array([s.mean() for s in samples])
    variances = np.array([s.var(ddof=1) / s.size for s in samples])
    statistic, pvalue = welch_q(means, variances, np.array([s.size - 1.0 for s in samples]))
    expected = stats.f_oneway(*samples, equal_var=False)
    assert statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert pvalue == pytest.approx(expected.pvalue, rel=1e-8)
    large = welch_q(means, variances, np.full(4, np.inf))
    assert large[1] == pytest.approx(stats.chi2.sf(3 * large[0], 3))


@pytest.mark.parametrize("means", [mixed_means, heavy_means])
def test_one_group_that_is_known_exactly_does_not_pull_the_others_along(means: Any) -> None:
    error, se = np.array([0.13, 0.0, 0.0]), np.array([1e-6, 0.02, 0.02])
    assert np.abs(means(error, se) - error).max() < 0.01
