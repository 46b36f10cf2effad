"""The axis of scores: bins, quantiles, and where it looks when some scores are stray."""

from __future__ import annotations

import numpy as np

from isonomy.calibration.smoothing.axis import BINS, Axis


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
