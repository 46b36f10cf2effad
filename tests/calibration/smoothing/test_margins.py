"""Outcomes at the margin as a function of the threshold, and back."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.margins import Margin, Outcomes, common_outcome


def margin(slope: float = 1.0, start: float = 0.5) -> Margin:
    """Outcomes slope * s from the threshold ``start`` up; uniform scores."""
    points, edges = np.linspace(start, 1, 51), np.linspace(0, 1, 101)
    return Margin(points, slope * points, slope * points, slope, edges, 1 - edges, 1_000.0)


def test_thresholds_and_outcomes_are_inverse() -> None:
    one = margin()
    for outcome in (0.5, 0.61, 0.99):
        assert one.outcome(one.threshold(outcome)) == pytest.approx(outcome)
    assert one.threshold(0.3) == pytest.approx(0.3)  # along the line, below the present threshold
    assert one.threshold(2.0) == 1.0  # no further than the data
    assert one.positives(0.75) == pytest.approx(250.0)


def test_the_common_outcome_keeps_the_rate() -> None:
    both = [margin(), margin(0.8)]
    target, reached = common_outcome(both, "both")
    assert reached
    positives = sum(one.positives(one.threshold(target)) for one in both)
    assert positives == pytest.approx(1_000, rel=1e-6)
    assert common_outcome(both, "raise") == (0.5, True)
    assert common_outcome(both, "lower")[0] == pytest.approx(0.4)
    assert [one.moved(0.5, "raise") for one in both] == [0.5, pytest.approx(0.625)]
    assert [one.moved(0.4, "lower") for one in both] == [pytest.approx(0.4), 0.5]


def test_a_falling_line_is_told_from_a_rising_one() -> None:
    points = np.linspace(0.5, 1, 51)
    falling = Margin(points, np.full(51, 0.4), 0.9 - points, -1.0, np.array([0.0, 1.0]), np.array([1.0, 0.0]), 100.0)
    known, at, se = np.array([True, True]), np.array([0.5, 0.5]), np.array([0.01, 0.01])
    outcomes = Outcomes.at([margin(), falling], known, at, se, se)
    assert outcomes.falling.tolist() == [False, False]
    steep = Margin(points, np.full(51, 0.2), 0.9 - points, -1.0, np.array([0.0, 1.0]), np.array([1.0, 0.0]), 100.0)
    assert Outcomes.at([margin(), steep], known, at, se, se).falling.tolist() == [False, True]
