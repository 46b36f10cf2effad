"""Outcomes at the margin as a function of the threshold, and back."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from isonomy.scores import marginal_outcomes
from isonomy.scores.smoothing.kernels import Axis, Bandwidth
from isonomy.scores.smoothing.targets import (
    Response,
    ScoreCells,
    common_value,
    margin_at,
    margin_curves,
    margin_responses,
    scatter,
)
from support.cells import cells


def sample(power: float, n: int = 40_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return s, (rng.random(n) < s**power).astype(float)


def response(one: ScoreCells, n: float) -> Response:
    return margin_responses(one, margin_curves(one, None, Bandwidth(Axis.between(0.0, 1.0), n)))[0]


def test_thresholds_and_outcomes_are_inverse() -> None:
    one = cells(*sample(1.0))
    curve = response(one, 20_000)
    for outcome in (0.4, 0.55, 0.7):
        assert curve.metric(curve.threshold(outcome)) == pytest.approx(outcome)
        assert curve.threshold(outcome) == pytest.approx(outcome, abs=0.04)  # below 0.5 along a line
    assert curve.threshold(2.0) == pytest.approx(1.0, abs=0.01)  # no further than the data


def test_a_level_curve_keeps_its_threshold() -> None:
    rng = np.random.default_rng(1)
    one = cells(rng.random(5_000), np.arange(5_000) % 2 * 1.0)
    curve = response(one, 2_500)
    assert curve.threshold(curve.metric(0.5)) == pytest.approx(0.5, abs=0.01)


def test_the_common_outcome_keeps_the_rate() -> None:
    both = [cells(*sample(power, seed=k)) for k, power in enumerate((1.0, 1.5))]
    curves = [response(one, 20_000) for one in both]
    wanted = sum(curve.positives(0.5) for curve in curves)
    target, reached = common_value(curves, wanted)
    assert reached
    assert sum(curve.positives(curve.threshold(target)) for curve in curves) == pytest.approx(wanted, abs=1)


def test_at_the_present_threshold_it_is_the_marginal_outcome() -> None:
    s, y = sample(1.0, 4_000)
    t, z = sample(1.5, 4_000, seed=1)
    data = {"s": np.append(s, t), "y": np.append(y, z), "g": np.repeat(["a", "b"], 4_000)}
    expected = marginal_outcomes(
        data, outcome="y", score="s", groups="g", threshold=0.5, method=iso.curves(bandwidth=0.1)
    )
    one, two = cells(s, y), cells(t, z)
    both = ScoreCells(one.bins, *(np.concatenate([getattr(c, n) for c in (one, two)]) for n in one.__slots__[1:]))
    width = Bandwidth.checked(Axis.between(0.0, 1.0), 4_000, 0.1, np.array([0.5]))
    value, covariance = margin_at(np.full(2, 0.5), both, None, width)
    outcome = np.append(expected.estimate, expected.reference)
    half = np.append(expected.estimate_high, expected.reference_high) - outcome
    # The marginal outcome has 1,024 bins where these have 16 times as many.
    np.testing.assert_allclose(value, outcome, atol=1e-3)
    np.testing.assert_allclose(1.959964 * np.sqrt(np.diagonal(covariance)), half, rtol=5e-3)


def test_the_scatter_of_parts_is_that_of_their_sum() -> None:
    rng = np.random.default_rng(0)
    each = rng.standard_normal((4_000, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(scatter(each) / 4_000, [[1.0, 0.5], [0.5, 1.25]], atol=0.1)


def test_a_straight_curve_is_read_from_further_than_one_that_bends() -> None:
    rng = np.random.default_rng(3)
    s = rng.random(40_000)
    bandwidth = Bandwidth(Axis.between(0.0, 1.0), 20_000)
    widths = []
    for chance in (s, 0.5 + 0.4 * np.sin(25 * (s - 0.5))):
        one = cells(s, (rng.random(s.size) < chance).astype(float))
        points, (curve,), _ = margin_curves(one, None, bandwidth)
        widths.append(curve[0] / bandwidth.widths(points))
    assert widths[0].mean() > 2
    assert widths[1].mean() < 1.3
    assert min(own.min() for own in widths) == pytest.approx(1.0)


def test_a_given_bandwidth_is_taken_as_it_is() -> None:
    one = cells(*sample(1.0, 4_000))
    width = Bandwidth.checked(Axis.between(0.0, 1.0), 4_000, 0.07, np.array([0.5]))
    _, (curve,), (line,) = margin_curves(one, None, width)
    np.testing.assert_allclose(curve[0], 0.07)
    np.testing.assert_allclose(line[0], 0.14)


def test_parts_of_one_row_each_choose_the_same_widths() -> None:
    """Each part having some of the rows, the spread between parts is that of the rows."""
    s, y = sample(1.0, 20_000)
    part = np.arange(s.size) % 100
    one, bandwidth = cells(s, y), Bandwidth(Axis.between(0.0, 1.0), 20_000)
    each = [cells(s[part == k], y[part == k]).joined for k in range(100)]
    names = one.__slots__[1:]
    parts = ScoreCells(each[0].bins, *(np.stack([getattr(own, name) for own in each]) for name in names))
    alone, together = (margin_curves(one, own, bandwidth)[1][0][0] for own in (None, parts))
    assert np.mean(alone == together) > 0.5


def test_the_aim_is_met_from_many_rows() -> None:
    """A line continued below the present threshold from 200,000 rows; with one width its error is 0.008."""
    errors = []
    for seed in range(4):
        one = cells(*sample(1.0, 200_000, seed))
        curve = response(one, 100_000)
        errors.append(abs(curve.metric(0.43) - 0.43))
    assert np.mean(errors) < 0.005
