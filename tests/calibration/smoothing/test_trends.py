"""A level and a line over the order of scores: their law, a tolerance, and what they see that a walk does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.calibration import predictive_parity
from isonomy.calibration.smoothing.axis import BINS
from isonomy.calibration.smoothing.trends import Trend
from isonomy.calibration.smoothing.walks import Walk


def path(step: Any, allowed: Any, freedom: float = np.inf) -> Walk:
    none = np.zeros((2, BINS, len(step)))
    return Walk(np.asarray(step, float), np.asarray(allowed, float), (none, none), True, freedom)


def test_the_statistic_is_that_of_wald() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    covariance, step = root @ root.T, rng.normal(size=8)
    lines = np.column_stack([np.ones(8), np.arange(8)])
    sums = lines.T @ step
    wald = sums @ np.linalg.solve(lines.T @ covariance @ lines, sums)
    trend = Trend.of(path(step, np.ones(8)), covariance)
    assert trend.statistic(None) ** 2 == pytest.approx(wald)
    assert trend.pvalue(trend.statistic(None)) == pytest.approx(stats.chi2.sf(wald, 2))
    few = Trend.of(path(step, np.ones(8), 12.0), covariance)
    assert few.pvalue(few.statistic(None)) == pytest.approx(stats.f.sf(wald * 11 / (2 * 12), 2, 11))


def test_draws_from_the_law_have_even_pvalues() -> None:
    steps = np.random.default_rng(1).normal(size=(4_000, 10))
    drawn = Trend.of(path(np.zeros(10), np.ones(10)), np.eye(10)).drawn(steps)
    assert stats.kstest(drawn, "uniform").pvalue > 0.01


def test_a_tolerance_takes_off_what_it_could_add() -> None:
    trend = Trend.of(path(np.full(10, 0.3), np.ones(10)), np.eye(10))
    assert trend.statistic(None) == pytest.approx(3 / np.sqrt(10))
    assert trend.statistic(0.1) == pytest.approx(2 / np.sqrt(10), rel=1e-3)
    assert trend.statistic(0.3) == pytest.approx(0.0, abs=1e-12)


def test_one_interval_has_a_level_and_no_line() -> None:
    covariance = np.zeros((4, 4))
    covariance[1, 1] = 2.0
    trend = Trend.of(path([0, 3, 0, 0], [0, 1, 0, 0]), covariance)
    assert trend.statistic(None) == pytest.approx(3 / np.sqrt(2))
    assert trend.pvalue(trend.statistic(None)) == pytest.approx(stats.chi2.sf(4.5, 1))
    assert trend.statistic(1.0) == pytest.approx(2 / np.sqrt(2))
    nothing = Trend.of(path(np.zeros(4), np.zeros(4)), np.zeros((4, 4)))
    assert nothing.pvalue(nothing.statistic(None)) == 1.0
    assert nothing.drawn(np.ones((3, 4))).tolist() == [1.0] * 3


def test_curves_that_cross_are_seen() -> None:
    rng = np.random.default_rng(2)
    s, g = rng.random(6_000), np.repeat([0, 1], 3_000)
    y = rng.random(6_000) < np.where(g == 0, 0.5, 0.4 + 0.2 * s)
    pvalue = {
        method: predictive_parity({"s": s, "g": g, "y": y}, outcome="y", score="s", groups="g", method=method, rng=1)
        for method in ("trend", "cumulative")
    }
    assert pvalue["trend"].pvalue < 0.1 * pvalue["cumulative"].pvalue
