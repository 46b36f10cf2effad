"""Ratios of rates: against brute force, against statsmodels, and what a comparison with the best must not do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from isonomy.groups.impact import band, impact_ratios, log_ratios, shortfall, unknown_bounds
from isonomy.inference.decide import Alternative
from isonomy.inference.effect import Hypothesis
from isonomy.numerics.arrays import FloatArray


def test_limits_are_near_statsmodels_score_limits() -> None:
    """The score interval of the same ratio (Miettinen and Nurminen) differs in the third digit at these sizes."""
    ours = impact_ratios(np.array([1000.0, 2000.0]), np.array([300.0, 820.0]), 1, 0.05, 0.8)[1]
    theirs = confint_proportions_2indep(300, 1000, 820, 2000, compare="ratio", method="score")
    assert (ours["ci_low"][0], ours["ci_high"][0]) == pytest.approx(theirs, abs=2e-3)
    assert np.isnan(ours["ci_low"][1])


def test_nobody_selected_has_a_limit_on_one_side() -> None:
    none = impact_ratios(np.array([30.0, 50.0]), np.array([0.0, 20.0]), None, 0.05, 0.8)[1]
    assert none["ci_low"][0] == 0.0
    assert 0 < none["ci_high"][0] < 0.5


def test_two_groups_need_no_allowance_for_the_best() -> None:
    n, k = np.array([400.0, 500.0]), np.array([120.0, 250.0])
    (comparator, best), (_, named) = (impact_ratios(n, k, reference, 0.05, 0.8) for reference in (None, 1))
    for name, values in best.items():  # the p-value too: the data decide which of two is the best
        assert values[0] == pytest.approx(named[name][0]), name
    assert comparator == 1


def test_more_rivals_make_a_claim_harder() -> None:
    n, k = np.array([300.0, 300.0]), np.array([90.0, 130.0])
    few = impact_ratios(n, k, None, 0.05, 0.8)[1]
    many = impact_ratios(np.append(n, [300.0] * 4), np.append(k, [128.0] * 4), None, 0.05, 0.8)[1]
    assert many["below_pvalue"][0] > few["below_pvalue"][0]
    assert many["ci_high"][0] > few["ci_high"][0]
    assert many["ci_low"][0] <= few["ci_low"][0] + 1e-12


def test_shortfalls_are_whole_and_reach() -> None:
    assert shortfall(np.array([100.0]), np.array([40.0]), 0.8 * 0.5).tolist() == [0.0]
    need = shortfall(np.array([37.0]), np.array([5.0]), 0.4)
    assert need[0] == 10
    assert (5 + need[0]) / 37 >= 0.4 > (4 + need[0]) / 37


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_those_of_every_assignment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, selected, refused = 3, int(rng.integers(0, 3)), int(rng.integers(0, 4))
    n = rng.integers(3, 9, size).astype(float)
    k = np.minimum(rng.integers(1, 9, size), n).astype(float)
    for reference in (None, 0):
        ratios = []
        for ours, theirs in product(product(range(size), repeat=selected), product(range(size), repeat=refused)):
            more, none = (np.bincount(np.array(part, dtype=int), minlength=size) for part in (ours, theirs))
            rate: FloatArray = (k + more) / (n + more + none)
            ratios.append(rate / (rate.max() if reference is None else rate[reference]))
        least, most = unknown_bounds(n, k, float(selected), float(refused), reference)
        others = [g for g in range(size) if g != reference]
        assert least[others] == pytest.approx(np.min(ratios, axis=0)[others])
        assert most[others] == pytest.approx(np.max(ratios, axis=0)[others])


def test_the_band_is_wider_than_an_interval_and_holds_the_ratio() -> None:
    n = np.array([500.0, 800.0])
    above = np.array([[450.0, 760.0], [300.0, 560.0], [100.0, 240.0], [5.0, 30.0]])
    ratio, low, high = band(n, above, 1, 0.05, np.random.default_rng(0))
    assert ratio[1, 0] == pytest.approx((300 / 500) / (560 / 800))
    assert np.isnan(ratio[3, 0])
    assert np.isnan(ratio[:, 1]).all()
    error = np.sqrt((1 - 0.6) / 300 + (1 - 0.7) / 560)
    assert np.log(high[1, 0] / ratio[1, 0]) > 1.96 * error
    assert np.log(high[1, 0] / ratio[1, 0]) < 2.4 * error  # Bonferroni's for three points
    assert (low[:3, 0] < ratio[:3, 0]).all()


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.9])
def test_few_selections_do_not_show_a_ratio_below_the_threshold(rate: float) -> None:
    """All tables of 20 people against 200 whose ratio is 0.8: the likelihood ratio alone says "below" in up to 0.2."""
    sizes, rates = (20, 200), (0.8 * rate, rate)
    counts = [np.arange(n + 1) for n in sizes]
    chances = [stats.binom.pmf(k, n, p) for k, n, p in zip(counts, sizes, rates, strict=True)]
    kept = [np.flatnonzero(chance > 1e-7) for chance in chances]
    n = np.concatenate([np.full(part.size, float(size)) for part, size in zip(kept, sizes, strict=True)])
    first, second = (part.ravel() for part in np.meshgrid(np.arange(kept[0].size), np.arange(kept[1].size)))
    pairs = log_ratios(n, np.concatenate(kept).astype(float), first, second + kept[0].size, None)
    chance = chances[0][kept[0]][first] * chances[1][kept[1]][second]
    sides: tuple[Alternative, ...] = ("less", "greater")
    for side in sides:
        statistic, pvalue = pairs.test(Hypothesis(float(np.log(0.8)), float(np.log(0.8)), side))
        assert chance[(pvalue <= 0.05) & ~np.isnan(statistic)].sum() < 0.075
