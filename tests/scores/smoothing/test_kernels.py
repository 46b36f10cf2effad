"""The score axis, kernels and bandwidths."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.errors import UsageError
from isonomy.scores.smoothing.kernels import BINS, Axis, Bandwidth, local_linear, polynomial, published


def test_quantiles_of_a_histogram_are_those_of_the_scores() -> None:
    score = np.random.default_rng(0).beta(2, 5, 200_000)
    axis = Axis.of(0.0, 1.0)
    fractions = (0.01, 0.25, 0.5, 0.99)
    np.testing.assert_allclose(
        axis.quantiles(axis.histogram(score), fractions), np.quantile(score, fractions), atol=2 / BINS
    )


def test_weights_are_rows() -> None:
    rng = np.random.default_rng(0)
    score, weight = rng.random(70_000), rng.integers(0, 4, 70_000).astype(float)
    axis = Axis.of(0.0, 1.0)
    expected = axis.histogram(np.repeat(score, weight.astype(int)))
    np.testing.assert_array_equal(axis.histogram(score, weight), expected)
    assert expected.sum() == weight.sum()


def test_scores_in_the_unit_interval_have_it_as_their_axis() -> None:
    assert Axis.of(0.2, 0.7).unit
    assert Axis.of(0.2, 0.7).length == 1
    assert not Axis.of(-0.1, 0.7).unit
    assert Axis.of(3.0, 3.0).length == 1  # nothing is divided by zero


def test_a_stray_score_does_not_take_the_axis_away() -> None:
    score = np.append(np.random.default_rng(0).random(10_000), 1e6)
    axis = Axis.of(float(score.min()), float(score.max())).focused(lambda on: on.histogram(score))
    assert axis.high < 3
    assert axis.whole[1] == 1e6
    np.testing.assert_allclose(axis.span, (0, 1), atol=0.3)
    assert axis.published.span == axis.whole


def test_points_in_one_bin_are_one_point_of_the_grid() -> None:
    axis = Axis.of(0.0, 1.0)
    assert axis.grid(axis.histogram(np.full(100, 0.4))).size == 1
    assert axis.grid(axis.histogram(np.random.default_rng(0).random(10_000))).size == 21


AXIS = Axis.of(0.0, 1.0)


def test_the_published_rule() -> None:
    """max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), at n = 32: n^(-1/5) = 1/2."""
    np.testing.assert_allclose(published(np.array([0.0, 0.5]), 32.0, AXIS), [0.05, 0.265])
    wide = Axis.of(0.0, 10.0)
    np.testing.assert_allclose(published(np.array([0.0, 5.0]), 32.0, wide), [0.5, 2.65])


def test_own_bandwidths_are_one_or_one_per_point() -> None:
    grid = np.array([0.2, 0.8])
    np.testing.assert_array_equal(Bandwidth.of(AXIS, 100.0, 0.1, grid).at(np.array([0.3, 0.5, 0.9])), [0.1] * 3)
    np.testing.assert_allclose(
        Bandwidth.of(AXIS, 100.0, [0.1, 0.2], grid).at(np.array([0.2, 0.5, 0.9])), [0.1, 0.15, 0.2]
    )
    for wrong in ([0.1, 0.2, 0.3], 0.0, np.array([0.1, np.nan])):
        with pytest.raises(UsageError, match=r"^bandwidth: .*one such number per grid point \(2\)"):
            Bandwidth.of(AXIS, 100.0, wrong, grid)


def test_a_local_line_follows_a_line_to_the_ends() -> None:
    weight = np.ones(AXIS.centers.size)
    curve = local_linear(AXIS, weight, 2 + 3 * AXIS.centers, np.full(AXIS.centers.size, 0.01))
    np.testing.assert_allclose(curve(np.array([0.01, 0.5, 0.99])), [2.03, 3.5, 4.97], atol=1e-6)


def test_a_polynomial_has_its_constant_first() -> None:
    np.testing.assert_array_equal(polynomial((1.0, 2.0, 3.0), np.array([0.0, 2.0])), [1.0, 17.0])
