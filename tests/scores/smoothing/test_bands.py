"""Walks, trends and bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.inference.effect import Wald
from isonomy.numerics.tails import t_as_rare
from isonomy.scores import predictive_parity
from isonomy.scores.smoothing.comparisons import (
    Pooled,
    Walk,
    intervals,
    judge,
    normal_score,
    span,
    trend_test,
    walk,
)
from isonomy.scores.smoothing.kernels import BINS
from support.curved import curved
from support.tables import scored
from support.votes import covariance
from support.votes import moments as moments_of


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


def test_sums_are_those_of_the_rows_in_a_range() -> None:
    rng = np.random.default_rng(1)
    n = 8_000
    s, g = (rng.integers(0, BINS, n) + 0.5) / BINS, rng.integers(0, 2, n)
    y = (rng.random(n) < s).astype(float)
    moments = moments_of(g, 2, s, y, np.ones(n))
    within = (moments.site >= 0.2) & (moments.site <= 0.5)
    one = walk(moments, (0, 1), Pooled(moments.site, np.full(BINS, 0.5)), within=within)
    held = (s >= 0.2) & (s <= 0.5)
    marks = np.where(held, np.where(g == 0, 0.5, -0.5) * (y - s), 0.0)
    assert one.known
    assert one.step.sum() == pytest.approx(marks.sum())
    assert one.allowed.sum() == pytest.approx(held.sum() / 4)
    assert np.all(one.allowed > 0)  # the intervals are those of the range
    own = covariance(moments, one.functionals)
    assert np.trace(own) == pytest.approx((marks**2).sum())
    nowhere = walk(moments, (0, 1), Pooled(moments.site, np.full(BINS, 0.5)), within=np.zeros(BINS, bool))
    assert not nowhere.known


def test_the_variance_of_few_events_has_a_floor() -> None:
    """A group that has few events by chance would have a small variance, and be shown to differ too often."""
    n = 4_000
    g, s = np.arange(n) % 2, np.linspace(0, 1, n)
    y = (np.arange(n) % 100 == 0) & (np.arange(n) < n // 2)  # all of them of the first group, and half of the expected
    moments = moments_of(g, 2, s, y.astype(float), np.ones(n))
    one = walk(moments, (0, 1), Pooled(np.full(BINS, 0.01), np.full(BINS, 0.5)))
    assert one.least == pytest.approx(n / 4 * 0.01 * 0.99)
    assert one.least > np.trace(covariance(moments, one.functionals))
    several = moments_of(g, 2, s, y.astype(float), np.ones(n), user=np.arange(n) // 2 // 2)
    assert walk(several, (0, 1), Pooled(np.full(BINS, 0.01), np.full(BINS, 0.5))).least == 0.0


def test_few_events_are_not_judged() -> None:
    n = 400
    y = (np.arange(n) < 6).astype(float)
    moments = moments_of(np.arange(n) % 2, 2, np.linspace(0, 1, n), y, np.ones(n))
    pooled = Pooled(np.full(BINS, 0.015), np.full(BINS, 0.5))
    assert not walk(moments, (0, 1), pooled).known


def test_intervals_hold_equal_votes() -> None:
    cell = intervals(np.ones(BINS), 8)
    assert np.bincount(cell).tolist() == [BINS // 8] * 8


def trended(step: Any, allowed: Any, covariance: Any, tolerance: float | None = None, freedom: float = np.inf) -> float:
    none = np.zeros((2, BINS, len(step)))
    one = Walk(np.asarray(step, float), np.asarray(allowed, float), (none, none), True, freedom)
    return trend_test(one, covariance, tolerance, none[0])[0]


def test_the_statistic_is_that_of_wald() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    covariance, step = root @ root.T, rng.normal(size=8)
    lines = np.column_stack([np.ones(8), np.arange(8)])
    sums = lines.T @ step
    wald = sums @ np.linalg.solve(lines.T @ covariance @ lines, sums)
    assert trended(step, np.ones(8), covariance) == pytest.approx(stats.chi2.sf(wald, 2))
    few = trended(step, np.ones(8), covariance, freedom=12.0)
    assert few == pytest.approx(stats.f.sf(wald * 11 / (2 * 12), 2, 11))


def test_draws_from_the_law_have_even_pvalues() -> None:
    steps = np.random.default_rng(1).normal(size=(4_000, 10))
    _, drawn = trend_test(path([0.0] * 10, [1.0] * 10), np.eye(10), None, steps)
    assert stats.kstest(drawn, "uniform").pvalue > 0.01


def test_a_tolerance_takes_off_what_it_could_add_to_a_trend() -> None:
    for tolerance, statistic in ((None, 3.0), (0.1, 2.0), (0.3, 0.0)):
        pvalue = trended(np.full(10, 0.3), np.ones(10), np.eye(10), tolerance)
        assert pvalue == pytest.approx(stats.chi2.sf(statistic**2 / 10, 2), rel=1e-3)


def test_one_interval_has_a_level_and_no_line() -> None:
    covariance = np.zeros((4, 4))
    covariance[1, 1] = 2.0
    assert trended([0, 3, 0, 0], [0, 1, 0, 0], covariance) == pytest.approx(stats.chi2.sf(4.5, 1))
    assert trended([0, 3, 0, 0], [0, 1, 0, 0], covariance, 1.0) == pytest.approx(stats.chi2.sf(2.0, 1))
    pvalue, drawn = trend_test(path([0.0] * 4, [0.0] * 4), np.zeros((4, 4)), None, np.ones((3, 4)))
    assert (pvalue, drawn.tolist()) == (1.0, [1.0] * 3)


def test_curves_that_cross_are_seen() -> None:
    rng = np.random.default_rng(2)
    s, g = rng.random(6_000), np.repeat([0, 1], 3_000)
    y = rng.random(6_000) < np.where(g == 0, 0.5, 0.4 + 0.2 * s)
    pvalue = {
        method: predictive_parity({"s": s, "g": g, "y": y}, outcome="y", score="s", groups="g", method=method, rng=1)
        for method in ("trend", "cumulative")
    }
    assert pvalue["trend"].pvalue < 0.1 * pvalue["cumulative"].pvalue


ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def test_normal_scores_are_as_rare_as_student_statistics() -> None:
    t, df = np.array([-3.0, 0.5, 2.0]), np.array([5.0, 30.0, np.inf])
    expected = np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), df))
    np.testing.assert_allclose(normal_score(t, df), expected, rtol=1e-9)
    np.testing.assert_allclose(t_as_rare(1.96, df), stats.t.isf(stats.norm.sf(1.96), df), rtol=1e-9)


def test_a_tolerance_moves_the_null() -> None:
    difference, se, df = np.array([0.05, 0.2, 0.2]), np.full(3, 0.05), np.full(3, np.inf)
    effect = Wald(difference, se, df)
    _, none = judge(effect, None)
    np.testing.assert_allclose(none, 2 * stats.norm.sf([1, 4, 4]))
    _, allowed = judge(effect, 0.1)
    np.testing.assert_allclose(allowed, [1.0, *[(2 * stats.norm.sf(2) + 2 * stats.norm.sf(6)) / 2] * 2])


def pvalues(data: dict[str, Any], **options: Any) -> list[float]:
    """Of all tests together and of each alone, not divided by their share of alpha."""
    methods: tuple[Any, ...] = ("omnibus", "orthogonal", "cumulative", "trend")
    return [
        float(predictive_parity(data, **curved({**ROLES, "method": method, "rng": 1} | options)).pair_pvalue[0])
        for method in methods
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_omnibus_lies_between_its_smallest_part_and_three_times_that(seed: int) -> None:
    together, *parts = pvalues(scored(1_500, seed=seed), resamples=5_000)
    smallest = min(parts)
    assert 0.9 * smallest <= together <= 3 * smallest + 1e-12


@pytest.mark.parametrize("adjust", ["bonferroni", "holm", "none"])
def test_other_adjustments_are_joined_by_bonferroni(adjust: str) -> None:
    together, *parts = pvalues(scored(1_500), adjust=adjust)
    assert together == pytest.approx(min(1, 3 * min(parts)), rel=0.1)


def test_a_pvalue_can_be_smaller_than_draws_resolve() -> None:
    assert max(pvalues(scored(20_000, slope=0.5), resamples=100)) < 1e-6


def test_differences_of_probabilities_are_such() -> None:
    """Scores that hardly overlap: no difference beyond 1, no curve beyond 0 and 1."""
    rng = np.random.default_rng(0)
    s = np.clip(np.concatenate([rng.normal(0.3, 0.07, 800), rng.normal(0.7, 0.07, 800)]), 0, 1)
    data = {"s": s, "g": np.repeat(["a", "b"], 800), "y": (rng.random(1_600) < s).astype(int)}
    result = predictive_parity(data, **ROLES, rng=1)
    for values in (result.disparity, result.ci_low, result.ci_high):
        assert np.nanmax(np.abs(values), initial=0) <= 1
    assert np.nanmin([result.estimate_low, result.reference_low]) >= 0
    assert np.nanmax([result.estimate_high, result.reference_high]) <= 1
