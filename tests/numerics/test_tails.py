"""Tails of chi-squares, of their weighted sums, and of the normal distribution."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isonomy.errors import UsageError
from isonomy.numerics.tails import (
    chi2_isf,
    chi2_sf,
    interval_isf,
    normal_isf,
    normal_sf,
    rows_for,
    t_as_rare,
    t_isf,
    t_sf,
    weighted_chi2_isf,
    weighted_chi2_sf,
)

TINY = [0.9999, 0.5, 1e-3, 1e-12, 1e-50, 1e-200, 1e-290]
positive_weights = st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=6)


def two_weights(x: Any, a: Any, b: Any) -> Any:
    """P(a X + b Y > x) in polar coordinates: a periodic integral, exact to rounding by the trapezoid rule."""
    angle = np.arange(20_000) * np.pi / 20_000
    return np.mean(np.exp(-x / (2 * (a * np.cos(angle) ** 2 + b * np.sin(angle) ** 2))))


def pairs(x: Any, weights: Any) -> Any:
    """Distinct weights, each twice: a sum of exponentials with means 2 w (hypoexponential)."""
    w = np.asarray(weights)
    return sum(np.exp(-x / (2 * a)) * np.prod(a / (a - w[w != a])) for a in w)


@pytest.mark.parametrize("df", [1, 2, 5, 100])
def test_chi2_against_scipy(df: Any) -> None:
    p = np.array(TINY)
    np.testing.assert_allclose(chi2_isf(p, df), stats.chi2.isf(p, df), rtol=1e-12)
    np.testing.assert_allclose(chi2_sf(stats.chi2.isf(p, df), df), p, rtol=1e-9)


def test_chi2_edges() -> None:
    assert chi2_sf(-1.0, 3) == 1
    assert chi2_sf(0.0, 3) == 1
    assert chi2_sf(np.inf, 3) == 0
    assert np.isnan(chi2_sf(np.nan, 3))
    assert chi2_isf(1.0, 3) == 0
    assert chi2_isf(0.0, 3) == np.inf
    # df 0 is the point mass at 0, P(Q >= x).
    assert [chi2_sf(x, 0) for x in (-1.0, 0.0, 1e-300)] == [1, 1, 0]
    assert chi2_isf(0.05, 0) == 0


def test_scalars_stay_scalars_and_arrays_broadcast() -> None:
    assert np.ndim(chi2_sf(1.0, 1)) == 0
    assert chi2_sf(np.ones((2, 1)), np.arange(3)).shape == (2, 3)
    assert np.ndim(weighted_chi2_sf(1.0, [1.0, 2.0])) == 0
    assert weighted_chi2_sf(np.ones((2, 3)), [1.0, 2.0]).shape == (2, 3)
    assert weighted_chi2_isf([0.1, 0.2], [1.0, 2.0]).shape == (2,)


@pytest.mark.parametrize("b", [0.999, 0.5, 0.01, 1e-5])
@pytest.mark.parametrize("p", TINY)
def test_two_weights_against_the_polar_integral(b: Any, p: Any) -> None:
    x = stats.chi2.isf(p, 1.5)
    assert weighted_chi2_sf(x, [b, 1.0]) == pytest.approx(two_weights(x, 1.0, b), rel=1e-11)


@pytest.mark.parametrize("weights", [[1, 0.5], [1, 0.3, 0.1], [5, 0.9, 0.01], [1e6, 2e5, 3e4, 5e3]])
def test_weights_in_pairs_against_the_closed_form(weights: Any) -> None:
    for ratio in (0.3, 1, 3, 10, 30, 100, 600):
        x = ratio * 2 * max(weights)
        assert weighted_chi2_sf(x, np.repeat(weights, 2)) == pytest.approx(pairs(x, weights), rel=1e-11)


def test_published_values() -> None:
    # Imhof (1961), Biometrika 48, Table 1: Q1 = 0.6 X + 0.3 Y + 0.1 Z.
    p = weighted_chi2_sf([0.1, 0.7, 2.0], [0.6, 0.3, 0.1])
    np.testing.assert_allclose(p, [0.9458, 0.5064, 0.1240], atol=5e-5)


def test_far_beyond_the_range_of_floats() -> None:
    assert weighted_chi2_sf(5e4, [0.5, 0.5, 1.0, 1.0]) == 0


def test_large_draws_agree() -> None:
    weights, draws = np.array([1.0, 0.6, 0.2, 0.05]), 400_000
    q = np.random.default_rng(8).standard_normal((draws, 4)) ** 2 @ weights
    for x in (0.2, 1.0, 3.0, 8.0):
        p = weighted_chi2_sf(x, weights)
        assert np.mean(q >= x) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / draws))


def test_weighted_edges() -> None:
    assert weighted_chi2_sf(0.0, [1.0, 0.5]) == 1
    assert weighted_chi2_sf(-3.0, [1.0, 0.5]) == 1
    assert weighted_chi2_sf(np.inf, [1.0, 0.5]) == 0
    assert np.isnan(weighted_chi2_sf(np.nan, [1.0, 0.5]))
    assert weighted_chi2_sf(1e-320, [1.0, 0.5]) == 1
    assert weighted_chi2_sf(3.0, [2.0]) == stats.chi2.sf(1.5, 1)
    assert weighted_chi2_sf(3.0, [2.0, 0.0, 2.0]) == pytest.approx(np.exp(-0.75), rel=1e-15)
    assert weighted_chi2_sf(3.0, [1.0, 0.5, 0.0]) == weighted_chi2_sf(3.0, [0.5, 1.0])
    # Without weights, Q is 0.
    assert [weighted_chi2_sf(x, [0.0]) for x in (0.0, 1e-9)] == [1, 0]
    assert weighted_chi2_isf(0.05, []) == 0
    for bad in ([-1.0, 2.0], [np.nan, 1.0], [np.inf]):
        with pytest.raises(UsageError):
            weighted_chi2_sf(1.0, bad)


@given(positive_weights, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_weighted_tail_scales_and_lies_between_chi_squares(weights: Any, x: Any, scale: Any) -> None:
    p = weighted_chi2_sf(x, weights)
    assert weighted_chi2_sf(scale * x, scale * np.array(weights)) == pytest.approx(p, rel=1e-9, abs=1e-300)
    assert weighted_chi2_sf(x, weights[::-1]) == p
    top, slack = max(weights), 1 + 1e-9
    assert chi2_sf(x / top, 1) <= p * slack + 1e-300
    assert p <= chi2_sf(x / top, len(weights)) * slack + 1e-300
    assert weighted_chi2_sf(x * 1.01, weights) <= p


@given(positive_weights, st.floats(-290, -1e-3))
def test_isf_undoes_sf(weights: Any, exponent: Any) -> None:
    p = 10.0**exponent
    assert weighted_chi2_sf(weighted_chi2_isf(p, weights), weights) == pytest.approx(p, rel=1e-9)


def test_isf_edges() -> None:
    assert weighted_chi2_isf(1.0, [1.0, 0.5]) == 0
    assert weighted_chi2_isf(0.0, [1.0, 0.5]) == np.inf
    assert np.isnan(weighted_chi2_isf(np.nan, [1.0, 0.5]))
    assert np.isnan(weighted_chi2_isf(1.5, [1.0, 0.5]))
    assert weighted_chi2_isf(0.05, [3.0]) == pytest.approx(3 * stats.chi2.isf(0.05, 1), rel=1e-12)


def test_normal_against_scipy() -> None:
    z = np.array([-40.0, -3.0, 0.0, 1.96, 8.0, 37.0])
    np.testing.assert_allclose(normal_sf(z), 2 * stats.norm.sf(np.abs(z)), rtol=1e-12)
    np.testing.assert_allclose(normal_sf(z, sides="one"), stats.norm.sf(z), rtol=1e-12)
    p = np.array([1.0, 0.5, 1e-12, 1e-200])
    np.testing.assert_allclose(normal_isf(p), stats.norm.isf(p / 2), rtol=1e-12)
    np.testing.assert_allclose(normal_isf(p, sides="one"), stats.norm.isf(p), rtol=1e-12)


@pytest.mark.parametrize("df", [4.0, 30.0, np.inf])
def test_an_interval_null_has_both_tails(df: float) -> None:
    room = np.array([0.0, 0.3, 1.0, 5.0, np.inf])
    out = interval_isf(room, 0.05, df)
    np.testing.assert_allclose(stats.t.sf(out, df) + stats.t.sf(out + room, df), 0.05, rtol=1e-9)
    assert out[0] == pytest.approx(stats.t.isf(0.025, df))
    assert out[-1] == pytest.approx(stats.t.isf(0.05, df))
    assert np.isnan(interval_isf(np.nan, 0.05, df))


@pytest.mark.parametrize("df", [1.0, 3.5, 40.0, np.inf])
def test_student_against_scipy(df: float) -> None:
    p = np.array([0.999, 0.5, 0.025, 1e-6, 1e-12])
    law = stats.norm() if np.isinf(df) else stats.t(df)
    np.testing.assert_allclose(t_isf(p, df), law.isf(p), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(t_sf(law.isf(p), df), p, rtol=1e-9)
    assert np.isnan(t_sf(1.0, np.nan))
    assert np.ndim(t_isf(0.05, df)) == 0


def test_quantiles_of_both_laws_are_as_rare() -> None:
    df = np.array([4.0, 30.0, np.inf])
    np.testing.assert_allclose(t_sf(t_as_rare(1.96, df), df), stats.norm.sf(1.96), rtol=1e-9)
    assert t_as_rare(1.96, np.inf) == 1.96


def test_rows_for_a_distance_in_standard_errors() -> None:
    """One-sided at 0.05 with power 0.8: (1.645 + 0.842)^2 = 6.18 times the rows at which it is one standard error."""
    rows, error = np.array([100.0, 100.0]), np.array([0.1, 0.2])
    np.testing.assert_array_equal(rows_for(0.1, error, rows, (0.05, 0.2), np.inf), [619.0, 2474.0])
    # Few clusters need more rows, which bring more clusters.
    more = rows_for(0.1, error, rows, (0.05, 0.2), 3.0)
    df = 3.0 * more / rows
    quantiles = stats.t.isf(0.05, df) + stats.t.isf(0.2, df)
    np.testing.assert_allclose(error * np.sqrt(rows / more) * quantiles, 0.1, rtol=1e-3)
    assert (more > [619.0, 2474.0]).all()
