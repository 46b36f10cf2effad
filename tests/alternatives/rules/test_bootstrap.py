"""The bootstrap of every component, against the definition written out."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.alternatives.rules.bootstrap import Exceedance, compare
from isonomy.alternatives.rules.criteria import Criteria
from isonomy.alternatives.rules.utilities import READY


@pytest.mark.parametrize("seed", range(5))
def test_exceedance_is_the_definition_at_every_delta(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, base = rng.normal(), rng.normal()
    gains, bases = gain + rng.normal(size=200), base + 2 * rng.normal(size=200)
    gains[:3] = np.nan
    exceedance = Exceedance.of(gain, base, gains, bases)
    for delta in rng.normal(size=20):
        t, t_star = gain - delta * base, gains - delta * bases
        with np.errstate(invalid="ignore"):
            exceeding = int((t_star - t >= t).sum()) + 3
        assert exceedance.count(delta) == exceeding
        assert exceedance.pvalue(delta) == pytest.approx((1 + exceeding) / 201)
        assert exceedance.pvalue(delta, "paper") == pytest.approx(exceeding / 200)


def test_ties_exceed() -> None:
    """An alternative equal to the status quo never looks better: p = 1."""
    exceedance = Exceedance.of(0.0, 0.5, np.zeros(100), np.full(100, 0.5))
    assert exceedance.pvalue(0.0) == 1.0
    flat = Exceedance.of(0.2, 0.0, np.full(10, 0.4), np.zeros(10))
    assert flat.pvalue(3.0) == 1.0


def test_pvalue_is_never_zero() -> None:
    exceedance = Exceedance.of(10.0, 1.0, np.full(99, 10.0), np.ones(99))
    assert exceedance.pvalue(0.0) == pytest.approx(0.01)


def test_empty_denominators_count_as_exceeding() -> None:
    utility = READY["outcome_among_selected"]
    criteria = Criteria(utility, (utility,), ("a", "b"))
    observed = np.array([[[[4.0, 9.0], [2.0, 3.0]], [[20.0, 31.0], [2.0, 3.0]]]])
    draws = np.repeat(observed[None], 50, axis=0)
    draws[:5, 0, :, :, 0] = 0.0
    shown = compare(criteria, observed, draws, (0,))
    assert shown.undefined == 5
    question = shown.accuracy[0].questions[0]
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
    comparisons = {
        form: compare(Criteria(utility, (utility,), ("a", "b"), fairness_test=form), observed, draws, (0,))
        for form in ("two_one_sided", "paper")
    }
    for delta in (0.0, 0.2, 0.4, 0.5):
        assert comparisons["paper"].fairness[0].pvalue(delta) == comparisons["two_one_sided"].fairness[0].pvalue(delta)


def test_near_zero_the_paper_form_is_overconfident() -> None:
    """|F1| comes out at 0 with a standard error as large as |F0|: that is no evidence of less unfairness."""
    rng = np.random.default_rng(3)
    utility = READY["selection_rate"]
    observed = np.array([[[[600.0, 500.0], [1000.0, 1000.0]], [[550.0, 550.0], [1000.0, 1000.0]]]])
    draws = np.repeat(observed[None], 2000, axis=0)
    draws[:, :, 1, 0] += rng.normal(0, 70, size=(2000, 1, 2))
    paper = Criteria(utility, (utility,), ("a", "b"), fairness_test="paper")
    ours = Criteria(utility, (utility,), ("a", "b"))
    assert compare(paper, observed, draws, (0,)).fairness[0].pvalue(0.0) < 0.001
    assert compare(ours, observed, draws, (0,)).fairness[0].pvalue(0.0) > 0.1
