"""Cumulative differences: their sums, their range, and what a tolerance takes off."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.axis import BINS, Axis
from isonomy.calibration.smoothing.contrasts import Pooled
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.walks import CHECKPOINTS, Walk, intervals, span, walk


def path(step: list[float], allowed: list[float]) -> Walk:
    none = np.zeros((2, BINS, len(step)))
    return Walk(np.array(step), np.array(allowed), (none, none), True)


def test_the_range_of_a_path_that_begins_at_zero() -> None:
    assert span(np.array([[1.0, -2.0, 0.5], [1.0, 2.0, 3.0]])).tolist() == [3.0, 3.0]


def test_a_tolerance_takes_off_what_it_could_add() -> None:
    one = path([0.2, 0.3, -0.1], [1.0, 1.0, 1.0])
    assert one.statistic(None) == pytest.approx(0.5)
    assert one.statistic(0.1) == pytest.approx(0.3)
    assert one.statistic(0.3) == pytest.approx(0.0)
    assert one.statistic(1.0) == 0.0


def test_the_bound_is_above_the_law() -> None:
    rng = np.random.default_rng(0)
    one = path([0.0] * 10, [1.0] * 10)
    ranges = span(np.cumsum(rng.normal(size=(20_000, 10)), axis=1))
    for quantile in (0.95, 0.99):
        statistic = float(np.quantile(ranges, quantile))
        assert 1 - quantile <= one.bound(statistic, np.eye(10)) <= 25 * (1 - quantile)


def test_sums_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    n = 2_000
    s, g = (rng.integers(0, BINS, n) + 0.5) / BINS, rng.integers(0, 2, n)
    y = (rng.random(n) < s).astype(float)
    moments = Moments.of(Axis.of(0.0, 1.0), g, 2, s, y, np.ones(n))
    pooled = Pooled(moments.site, np.full(BINS, 0.5))
    one = walk(moments, (0, 1), pooled, binary=True)
    assert one.known
    assert one.step.size == CHECKPOINTS
    marks = np.where(g == 0, 0.5, -0.5) * (y - s)
    assert one.step.sum() == pytest.approx(marks.sum())
    assert one.allowed.sum() == pytest.approx(n / 4)
    own = moments.covariance(dict(enumerate(one.functionals)))
    assert np.trace(own) == pytest.approx((marks**2).sum())


def test_sums_are_those_of_the_rows_in_a_range() -> None:
    rng = np.random.default_rng(1)
    n = 8_000
    s, g = (rng.integers(0, BINS, n) + 0.5) / BINS, rng.integers(0, 2, n)
    y = (rng.random(n) < s).astype(float)
    moments = Moments.of(Axis.of(0.0, 1.0), g, 2, s, y, np.ones(n))
    within = (moments.site >= 0.2) & (moments.site <= 0.5)
    one = walk(moments, (0, 1), Pooled(moments.site, np.full(BINS, 0.5)), binary=True, within=within)
    held = (s >= 0.2) & (s <= 0.5)
    marks = np.where(held, np.where(g == 0, 0.5, -0.5) * (y - s), 0.0)
    assert one.known
    assert one.step.sum() == pytest.approx(marks.sum())
    assert one.allowed.sum() == pytest.approx(held.sum() / 4)
    assert np.all(one.allowed > 0)  # the intervals are those of the range
    own = moments.covariance(dict(enumerate(one.functionals)))
    assert np.trace(own) == pytest.approx((marks**2).sum())
    nowhere = walk(moments, (0, 1), Pooled(moments.site, np.full(BINS, 0.5)), binary=True, within=np.zeros(BINS, bool))
    assert not nowhere.known


def test_the_variance_of_few_events_has_a_floor() -> None:
    """A group that has few events by chance would have a small variance, and be shown to differ too often."""
    n = 4_000
    g, s = np.arange(n) % 2, np.linspace(0, 1, n)
    y = (np.arange(n) % 100 == 0) & (np.arange(n) < n // 2)  # all of them of the first group, and half of the expected
    moments = Moments.of(Axis.of(0.0, 1.0), g, 2, s, y.astype(float), np.ones(n))
    one = walk(moments, (0, 1), Pooled(np.full(BINS, 0.01), np.full(BINS, 0.5)), binary=True)
    own = moments.covariance(dict(enumerate(one.functionals)))
    assert one.least == pytest.approx(n / 4 * 0.01 * 0.99)
    assert np.trace(own) * one.factor(own) == pytest.approx(one.least)
    assert one.factor(4 * own) == 1.0  # and is no ceiling
    several = Moments.of(Axis.of(0.0, 1.0), g, 2, s, y.astype(float), np.ones(n), user=np.arange(n) // 2 // 2)
    assert walk(several, (0, 1), Pooled(np.full(BINS, 0.01), np.full(BINS, 0.5)), binary=True).least == 0.0


def test_few_events_are_not_judged() -> None:
    n = 400
    y = (np.arange(n) < 6).astype(float)
    moments = Moments.of(Axis.of(0.0, 1.0), np.arange(n) % 2, 2, np.linspace(0, 1, n), y, np.ones(n))
    pooled = Pooled(np.full(BINS, 0.015), np.full(BINS, 0.5))
    assert not walk(moments, (0, 1), pooled, binary=True).known


def test_intervals_hold_equal_votes() -> None:
    cell = intervals(np.ones(BINS), 8)
    assert np.bincount(cell).tolist() == [BINS // 8] * 8
