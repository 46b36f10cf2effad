"""The bootstrap of every component, against the definition written out."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.alternatives import evidence as ev
from isonomy.alternatives.decisions import quantile
from isonomy.alternatives.evidence import Criteria, Exceedance
from isonomy.alternatives.utilities import READY


@pytest.mark.parametrize("seed", range(5))
def test_exceedance_is_the_definition_at_every_delta(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, base = rng.normal(), rng.normal()
    gains, bases = gain + rng.normal(size=200), base + 2 * rng.normal(size=200)
    gains[:3] = np.nan
    found = Exceedance.of(gain, base, gains, bases)
    for delta in rng.normal(size=20):
        t, t_star = gain - delta * base, gains - delta * bases
        with np.errstate(invalid="ignore"):
            exceeding = int((t_star - t >= t).sum()) + 3
        assert found.count(delta) == exceeding
        assert found.pvalue(delta) == pytest.approx((1 + exceeding) / 201)
        assert found.pvalue(delta, "paper") == pytest.approx(exceeding / 200)
    assert found.undefined == 3


def test_ties_exceed() -> None:
    """An alternative equal to the status quo never looks better: p = 1."""
    found = Exceedance.of(0.0, 0.5, np.zeros(100), np.full(100, 0.5))
    assert found.pvalue(0.0) == 1.0
    flat = Exceedance.of(0.2, 0.0, np.full(10, 0.4), np.zeros(10))
    assert flat.pvalue(3.0) == 1.0


def test_pvalue_is_never_zero() -> None:
    found = Exceedance.of(10.0, 1.0, np.full(99, 10.0), np.ones(99))
    assert found.pvalue(0.0) == pytest.approx(0.01)


def test_smallest_median_and_doubling() -> None:
    assert float(ev.median([0.4, 0.1, 0.2, 0.3])) == 0.2
    assert float(ev.median([0.3, 0.1, 0.2])) == 0.2
    assert float(ev.combined([0.3, 0.1, 0.2])) == 0.4
    assert float(ev.combined([0.9, 0.8])) == 1.0
    assert float(ev.combined([0.03])) == 0.03


def test_sums_by_group_match_a_loop() -> None:
    rng = np.random.default_rng(0)
    values, group, weight = rng.normal(size=(30, 2, 2, 2)), rng.integers(0, 3, 30), rng.integers(1, 4, 30)
    sums = ev.group_sums(values, group, weight, 3)
    for g in range(3):
        expected = (values[group == g] * weight[group == g][:, None, None, None]).sum(axis=0)
        np.testing.assert_allclose(sums[..., g], expected)


def _rates(*by_group: float) -> np.ndarray:
    """One utility, both algorithms alike."""
    return np.array([[by_group, by_group]])


def test_gaps_two_sided_and_one_sided() -> None:
    utility = READY["tpr"]
    both = Criteria(utility, (utility,), ("a", "b", "c"))
    assert both.pairs == ((0, 1), (0, 2), (1, 2))
    gap = both.gaps(_rates(0.5, 0.7, 0.4), 0)
    np.testing.assert_allclose(both.unfairness(gap)[0], [0.2, 0.1, 0.3])
    one = Criteria(utility, (utility,), ("a", "b", "c"), protected=0, harm=(1,))
    assert one.pairs == ((1, 0), (2, 0))
    np.testing.assert_allclose(one.unfairness(one.gaps(_rates(0.5, 0.7, 0.4), 0))[0], [0.2, 0.0])
    other = Criteria(utility, (utility,), ("a", "b", "c"), protected=0, harm=(-1,))
    np.testing.assert_allclose(other.unfairness(other.gaps(_rates(0.5, 0.7, 0.4), 0))[0], [0.0, 0.1])


def test_accuracy_forms() -> None:
    utility = READY["tpr"]
    sums = np.zeros((1, 2, 2, 2))
    sums[0, :, 0] = [[1, 6], [2, 6]]  # u: algorithm, group
    sums[0, :, 1] = [[2, 8], [4, 8]]
    rates = ev.rates_of(sums)
    apart = Criteria(utility, (utility,), ("a", "b"))
    np.testing.assert_allclose(apart.accuracy_of(rates, sums), [[0.5, 0.75], [0.5, 0.75]])
    pooled = Criteria(utility, (utility,), ("a", "b"), weights="pooled")
    np.testing.assert_allclose(pooled.accuracy_of(rates, sums), [[0.7], [8 / 12]])
    weighted = Criteria(utility, (utility,), ("a", "b"), weights=np.array([2.0, 1.0]))
    np.testing.assert_allclose(weighted.accuracy_of(rates, sums), [[1.75], [1.75]])


def test_empty_denominators_count_as_exceeding() -> None:
    utility = READY["outcome_among_selected"]
    criteria = Criteria(utility, (utility,), ("a", "b"))
    observed = np.array([[[[4.0, 9.0], [2.0, 3.0]], [[20.0, 31.0], [2.0, 3.0]]]])
    draws = np.repeat(observed[None], 50, axis=0)
    draws[:5, 0, :, :, 0] = 0.0
    shown = ev.weigh(criteria, observed, draws, (0,))
    assert shown.undefined == 5
    assert shown.accuracy[0].exceedances[0].undefined == 5
    assert shown.accuracy[0].pvalue(0.0) == pytest.approx(6 / 51)
    assert shown.accuracy[1].pvalue(0.0) == pytest.approx(1 / 51)
    assert shown.fairness[0].pvalue(0.0) >= 6 / 51


def test_the_two_fairness_tests_agree_far_from_zero() -> None:
    rng = np.random.default_rng(3)
    utility = READY["selection_rate"]
    observed = np.array([[[[900.0, 500.0], [1000.0, 1000.0]], [[800.0, 560.0], [1000.0, 1000.0]]]])
    draws = np.repeat(observed[None], 2000, axis=0)
    draws[:, :, :, 0] += rng.normal(0, 12, size=(2000, 1, 2, 2))
    found = {
        form: ev.weigh(Criteria(utility, (utility,), ("a", "b"), fairness_test=form), observed, draws, (0,))
        for form in ("two_one_sided", "paper")
    }
    for delta in (0.0, 0.2, 0.4, 0.5):
        assert found["paper"].fairness[0].pvalue(delta) == found["two_one_sided"].fairness[0].pvalue(delta)


def test_near_zero_the_paper_form_is_overconfident() -> None:
    """|F1| comes out at 0 with a standard error as large as |F0|: that is no evidence of less unfairness."""
    rng = np.random.default_rng(3)
    utility = READY["selection_rate"]
    observed = np.array([[[[600.0, 500.0], [1000.0, 1000.0]], [[550.0, 550.0], [1000.0, 1000.0]]]])
    draws = np.repeat(observed[None], 2000, axis=0)
    draws[:, :, 1, 0] += rng.normal(0, 70, size=(2000, 1, 2))
    paper = Criteria(utility, (utility,), ("a", "b"), fairness_test="paper")
    ours = Criteria(utility, (utility,), ("a", "b"))
    assert ev.weigh(paper, observed, draws, (0,)).fairness[0].pvalue(0.0) < 0.001
    assert ev.weigh(ours, observed, draws, (0,)).fairness[0].pvalue(0.0) > 0.1


@pytest.mark.parametrize("level", [0.0, 0.1, 0.5, 0.97, 1.0])
def test_quantile_is_numpys(level: float) -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.normal(size=40).round(1), rng.integers(0, 4, 40)
    assert quantile(values, weight, level) == pytest.approx(np.quantile(np.repeat(values, weight), level))
