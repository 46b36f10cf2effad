"""Each requirement: the bootstrap against its definition, the closed form against the normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from isonomy.alternatives.rules.algorithm import Selection, select
from isonomy.alternatives.rules.comparison import (
    Equivalence,
    Exceedance,
    Excess,
    assess,
    combined,
    compare_resamples,
    exceedance,
    excess,
    level,
    median,
)
from isonomy.alternatives.rules.influence import Judged, RateMoments, moments
from isonomy.alternatives.rules.utilities import READY, Criteria
from isonomy.numerics.arrays import FloatArray


@pytest.mark.parametrize("seed", range(5))
def test_exceedance_is_the_definition_at_every_delta(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, base = rng.normal(), rng.normal()
    gains, bases = gain + rng.normal(size=200), base + 2 * rng.normal(size=200)
    gains[:3] = np.nan
    test = exceedance(gain, base, gains, bases)
    for delta in rng.normal(size=20):
        t, t_star = gain - delta * base, gains - delta * bases
        with np.errstate(invalid="ignore"):
            exceeding = int((t_star - t >= t).sum()) + 3
        assert test.count(delta) == exceeding
        assert test.pvalue(delta) == pytest.approx((1 + exceeding) / 201)
        assert exceedance(gain, base, gains, bases, added=0).pvalue(delta) == pytest.approx(exceeding / 200)


def test_ties_exceed() -> None:
    """An alternative equal to the status quo has p = 1."""
    assert exceedance(0.0, 0.5, np.zeros(100), np.full(100, 0.5)).pvalue(0.0) == 1.0
    flat = exceedance(0.2, 0.0, np.full(10, 0.4), np.zeros(10))
    assert flat.pvalue(3.0) == 1.0


def test_pvalue_is_never_zero() -> None:
    assert exceedance(10.0, 1.0, np.full(99, 10.0), np.ones(99)).pvalue(0.0) == pytest.approx(0.01)


def test_empty_denominators_count_as_exceeding() -> None:
    utility = READY["outcome_among_selected"]
    criteria = Criteria(utility, (utility,), ("a", "b"))
    observed = np.array([[[[4.0, 9.0], [2.0, 3.0]], [[20.0, 31.0], [2.0, 3.0]]]])
    draws = np.repeat(observed[None], 50, axis=0)
    draws[:5, 0, :, :, 0] = 0.0
    shown = compare_resamples(criteria, observed, draws, (0,))
    assert shown.undefined == 5
    question = shown.accuracy[0].parts[0]
    assert isinstance(question, Exceedance)
    assert question.always == 5
    assert shown.accuracy[0].pvalue(0.0) == pytest.approx(6 / 51)
    assert shown.accuracy[1].pvalue(0.0) == pytest.approx(1 / 51)
    assert shown.fairness[0].pvalue(0.0) >= 6 / 51


def test_the_two_fairness_tests_agree_far_from_zero() -> None:
    rng = np.random.default_rng(3)
    utility = READY["selection_rate"]
    observed = np.array([[[[900.0, 500.0], [1000.0, 1000.0]], [[800.0, 560.0], [1000.0, 1000.0]]]])
    draws = np.repeat(observed[None], 2000, axis=0)
    draws[:, :, :, 0] += rng.normal(0, 12, size=(2000, 1, 2, 2))
    criteria = Criteria(utility, (utility,), ("a", "b"))
    ours, paper = (
        compare_resamples(criteria, observed, draws, (0,), published=published).fairness[0]
        for published in (False, True)
    )
    for delta in (0.0, 0.2, 0.4, 0.5):
        assert paper.pvalue(delta) == pytest.approx((2001 * ours.pvalue(delta) - 1) / 2000)


def test_near_zero_the_paper_form_is_overconfident() -> None:
    """|F1| is estimated as 0 with a standard error as large as |F0|, which is no evidence of less unfairness."""
    rng = np.random.default_rng(3)
    utility = READY["selection_rate"]
    observed = np.array([[[[600.0, 500.0], [1000.0, 1000.0]], [[550.0, 550.0], [1000.0, 1000.0]]]])
    draws = np.repeat(observed[None], 2000, axis=0)
    draws[:, :, 1, 0] += rng.normal(0, 70, size=(2000, 1, 2))
    criteria = Criteria(utility, (utility,), ("a", "b"))
    assert compare_resamples(criteria, observed, draws, (0,), published=True).fairness[0].pvalue(0.0) < 0.001
    assert compare_resamples(criteria, observed, draws, (0,)).fairness[0].pvalue(0.0) > 0.1


def test_an_excess_follows_the_normal_law() -> None:
    question = Excess(2.0, 4.0, 1.0, 0.2, 0.5, 0.0, 100)
    for delta in (-0.5, 0.0, 0.3, 0.9):
        z = (2 - 4 * delta) / np.sqrt(1 - 0.4 * delta + 0.5 * delta**2)
        assert question.pvalue(delta) == pytest.approx(norm.sf(z))


def test_gains_without_variance() -> None:
    assert Excess(1.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99).pvalue(0.0) == pytest.approx(0.01)
    assert Excess(0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99).pvalue(0.0) == 1
    untouched = Excess(0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 99, identical=True)
    assert untouched.pvalue([0.0, -0.01, 0.01]).tolist() == [0, 0, 1]
    beside_a_cutoff = Excess(0.0, 4.0, 0.0, 0.0, 0.5, 0.0, 99, identical=True)
    assert beside_a_cutoff.pvalue([0.0, -0.01, 0.01]).tolist() == [0, 0, 1]


def gap_question(f0: float, f1: float, covariance: FloatArray, step: float = 0.0) -> Equivalence:
    known = RateMoments(np.array([f0, f1]), covariance, 1_000, (0,))
    base, gap = np.eye(2)
    upper, lower = excess(known, base - gap, base), excess(known, base + gap, base)
    return Equivalence(upper, lower, float((base - gap) @ covariance @ (base + gap)), step)


@pytest.mark.parametrize("cut", [0.0, 0.5, 0.7, 0.9])
def test_equivalence_has_its_level_on_the_boundary_and_is_never_weaker_than_two_questions(cut: float) -> None:
    """Appendix E, l = 100: the gap of the candidate is exactly the one after the required cut."""
    covariance, tables = np.array([[10.0, 6.85], [6.85, 10.83]]) / 100, 2_000
    draws = np.random.default_rng(1).multivariate_normal([1.52, (1 - cut) * 1.52], covariance, size=tables)
    together, apart = [], []
    for f0, f1 in draws:
        question = gap_question(f0, f1, covariance)
        together.append(float(question.pvalue(cut)))
        apart.append(max(float(question.upper.pvalue(cut)), float(question.lower.pvalue(cut))))
    assert (np.array(together) <= np.array(apart) + 1e-15).all()
    assert abs(np.mean(np.array(together) <= 0.05) - 0.05) < 3 * np.sqrt(0.05 * 0.95 / tables)
    assert cut < 0.6 or np.mean(np.array(apart) <= 0.05) < 0.01


def test_equivalence_with_a_known_margin_is_the_most_powerful_unbiased_test() -> None:
    question = gap_question(1.0, 0.1, np.diag([1e-18, 0.25]))
    assert float(question.pvalue(0.0)) == pytest.approx(ndtr(-1.8) - ndtr(-2.2), abs=1e-6)
    assert float(gap_question(1.0, 0.1, np.diag([1e-18, 0.25]), step=0.05).pvalue(0.0)) == pytest.approx(
        ndtr(-1.7) - ndtr(-2.3), abs=1e-6
    )
    outside = gap_question(0.1, 0.2, np.diag([1e-18, 0.25]))
    assert float(outside.pvalue(0.0)) == float(outside.upper.pvalue(0.0)) > 0.5
    not_shown = gap_question(0.1, 0.0, np.diag([0.01, 4.0]))
    assert float(not_shown.pvalue(0.0)) == pytest.approx(ndtr(-1.0))


def test_limits_cover_all_gains_at_once() -> None:
    """The candidate has the rates of the status quo, so all gains are 0. 200 tables, 95 % requested."""
    utility, rate, covered = READY["outcome_among_selected"], READY["selection_rate"], []
    form = Criteria(
        utility,
        (utility, rate),
        ("a", "b"),
        accuracy_gains=(0.0,) * 2,
        fairness_gains=(0.0,) * 2,
        scale="difference",
    )
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 500
        group, y = rng.integers(0, 2, n), rng.poisson(2, n).astype(float)
        first, second = ((rng.random(n) < 0.3 + 0.2 * group).astype(float) for _ in range(2))
        none = np.zeros(n)
        both = (Selection(first, none), Selection(second, none))
        judged = Judged(form, {}, {None: y}, group, np.ones(n, dtype=np.int64), both)
        _, limits = assess(judged, moments(judged, (0, 0)), np.zeros(2, dtype=bool), 0.05, rng)
        low, high = limits[:2, 1], limits[:2, 2]
        covered.append(bool((low <= 0).all() and (high >= 0).all() and (limits[2:, 1] <= 0).all()))
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)


def test_a_group_decided_as_before_meets_any_margin_at_a_capacity_too() -> None:
    """Scores are permuted within one group; the cutoff and the decisions about the other group do not change."""
    rng = np.random.default_rng(3)
    group, y = rng.integers(0, 2, 1_000), rng.integers(0, 2, 1_000).astype(float)
    before = y + rng.normal(0, 3, 1_000)
    after, b = before.copy(), np.flatnonzero(group == 1)
    after[b[np.argsort(y[b] + rng.normal(0, 0.1, len(b)))]] = np.sort(before[b])
    weight, tpr = np.ones(1_000, dtype=np.int64), READY["tpr"]
    form = Criteria(tpr, (tpr,), ("a", "b"), accuracy_gains=(0.0, 0.0), fairness_gains=(0.0,), capacity=0.2)
    both = [select(s, weight, form, "s") for s in (before, after)]
    judged = Judged(form, {}, {None: y}, group, weight, (both[0], both[1]))
    requirements, limits = assess(judged, moments(judged, (0,)), np.array([True, False]), 0.05, rng)
    untouched = requirements.accuracy[0]
    assert [float(untouched.pvalue(gain)) for gain in (0.0, -0.01, 0.01)] == [0, 0, 1]
    assert limits[0].tolist() == [0, 0, 0]


def test_smallest_median_and_doubling() -> None:
    assert float(median([0.4, 0.1, 0.2, 0.3])) == 0.2
    assert float(median([0.3, 0.1, 0.2])) == 0.2
    assert float(combined([0.3, 0.1, 0.2])) == 0.4
    assert float(combined([0.9, 0.8])) == 1.0
    assert float(combined([0.03])) == 0.03


def test_the_median_is_compared_with_half_of_alpha_unless_it_is_one_pvalue() -> None:
    assert level(0.05, 1) == 0.05
    assert level(0.05, 7) == 0.025
