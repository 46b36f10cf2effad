"""The score axis, kernels and bandwidths."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.errors import UsageError
from isonomy.scores.smoothing.kernels import BINS, Axis, Bandwidth, Bins, local_linear, polynomial


def test_quantiles_of_a_histogram_are_those_of_the_scores() -> None:
    score = np.random.default_rng(0).beta(2, 5, 200_000)
    axis = Axis.between(0.0, 1.0)
    fractions = (0.01, 0.25, 0.5, 0.99)
    np.testing.assert_allclose(
        axis.quantiles(np.histogram(score, BINS, (0, 1))[0] * 1.0, fractions),
        np.quantile(score, fractions),
        atol=2 / BINS,
    )


def test_weights_are_rows() -> None:
    rng = np.random.default_rng(0)
    score, weight = rng.beta(2, 60, 7_000), rng.integers(0, 4, 7_000).astype(float)
    axis = Axis.between(0.0, 1.0)
    assert axis.focused_on(score, weight) == axis.focused_on(np.repeat(score, weight.astype(int)))


def test_a_score_that_equals_the_anchor_is_in_the_bin_above() -> None:
    bins = Bins(0.3, 0.1 / 3, 30, 9)
    edges = bins.edges
    assert edges[9] == 0.3
    assert bins.index(np.array([0.3, np.nextafter(0.3, 0), -1.0, 9.0])).tolist() == [9, 8, 0, 29]
    np.testing.assert_array_equal(bins.index(bins.centers), np.arange(30))


def test_scores_in_the_unit_interval_have_it_as_their_axis() -> None:
    assert Axis.between(0.2, 0.7).unit
    assert Axis.between(0.2, 0.7).length == 1
    assert not Axis.between(-0.1, 0.7).unit
    assert Axis.between(3.0, 3.0).length == 1  # nothing is divided by zero


def test_a_stray_score_does_not_take_the_axis_away() -> None:
    score = np.append(np.random.default_rng(0).random(10_000), 1e6)
    axis = Axis.between(float(score.min()), float(score.max())).focused_on(score)
    assert axis.high < 3
    assert axis.whole[1] == 1e6
    np.testing.assert_allclose(axis.span, (0, 1), atol=0.3)


def test_points_in_one_bin_are_one_point_of_the_grid() -> None:
    axis = Axis.between(0.0, 1.0)
    assert axis.grid(np.where(np.arange(BINS) == 400, 100.0, 0.0)).size == 1
    assert axis.grid(np.ones(BINS)).size == 21


AXIS = Axis.between(0.0, 1.0)


def test_the_published_rule() -> None:
    """max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), at n = 32: n^(-1/5) = 1/2."""
    np.testing.assert_allclose(Bandwidth(AXIS, 32.0).widths(np.array([0.0, 0.5])), [0.05, 0.265])
    wide = Axis.between(0.0, 10.0)
    np.testing.assert_allclose(Bandwidth(wide, 32.0).widths(np.array([0.0, 5.0])), [0.5, 2.65])


def test_own_bandwidths_are_one_or_one_per_point() -> None:
    grid = np.array([0.2, 0.8])
    np.testing.assert_array_equal(
        Bandwidth.checked(AXIS, 100.0, 0.1, grid).widths(np.array([0.3, 0.5, 0.9])), [0.1] * 3
    )
    np.testing.assert_allclose(
        Bandwidth.checked(AXIS, 100.0, [0.1, 0.2], grid).widths(np.array([0.2, 0.5, 0.9])), [0.1, 0.15, 0.2]
    )
    for wrong in ([0.1, 0.2, 0.3], 0.0, np.array([0.1, np.nan])):
        with pytest.raises(UsageError, match=r"^bandwidth: .*one such number per grid point \(2\)"):
            Bandwidth.checked(AXIS, 100.0, wrong, grid)


def test_a_local_line_follows_a_line_to_the_ends() -> None:
    centers = AXIS.bins.centers
    totals = np.stack([2 + 3 * centers, 1 - centers])
    curves = local_linear(AXIS, np.ones(BINS), totals, np.full(BINS, 0.01))
    np.testing.assert_allclose(curves, totals, atol=1e-2)
    inner = slice(8, -8)  # the ends are constant beyond the middle of the last joined bins
    np.testing.assert_allclose(curves[:, inner], totals[:, inner], atol=1e-6)


def test_the_mean_takes_the_place_of_a_line_without_a_slope() -> None:
    """Rows at one score have a mean, and no slope."""
    weight = np.zeros(BINS)
    weight[500] = 7.0
    curve = local_linear(AXIS, weight, 0.3 * weight, np.full(BINS, 0.05))
    np.testing.assert_allclose(curve, 0.3, rtol=1e-9)


def test_a_polynomial_has_its_constant_first() -> None:
    np.testing.assert_array_equal(polynomial((1.0, 2.0, 3.0), np.array([0.0, 2.0])), [1.0, 17.0])
