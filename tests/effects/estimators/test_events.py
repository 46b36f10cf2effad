"""The distribution of the counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.effects.estimators.events import (
    CountGap,
    CountLaw,
    binomial_tails,
    law_of,
    normal_quantile,
    skewed_tails,
    welch_q,
)
from isonomy.effects.estimators.moments import EventCounts
from isonomy.inference.effect import Fieller


def gaussian(value: float, sd: float) -> CountLaw:
    at = np.array([value])
    return CountLaw(at, at - 40 * sd, at + 40 * sd, lambda null: (at - null) / sd)


def test_tails_are_mid_p_of_whole_counts() -> None:
    x, n, chance = np.array([0.0, 3.0, 12.0]), np.full(3, 12.0), np.array([0.2, 0.4, 0.7])
    law = stats.binom(12, chance)
    lower, upper = binomial_tails(x, n, chance)
    np.testing.assert_allclose(lower, law.cdf(x) - law.pmf(x) / 2, rtol=1e-9)
    np.testing.assert_allclose(upper, law.sf(x) + law.pmf(x) / 2, rtol=1e-9)


@pytest.mark.parametrize("skewness", [-0.8, 0.0, 0.5, 1.5])
def test_skewed_tails_are_those_of_pearsons_third_law(skewness: float) -> None:
    z = np.linspace(-1.2, 4, 9) * (1 if skewness >= 0 else -1)
    lower, upper = skewed_tails(z, np.full(9, skewness))
    np.testing.assert_allclose(upper, stats.pearson3(skewness).sf(z), rtol=2e-3)
    np.testing.assert_allclose(lower + upper, 1)


def test_quantiles_are_exact_in_both_tails() -> None:
    np.testing.assert_allclose(
        normal_quantile(np.array([1e-30, 1.0]), np.array([1.0, 1e-30])), [11.464, -11.464], rtol=1e-3
    )


def test_two_normal_laws_differ_by_a_normal_law() -> None:
    gap = CountGap(gaussian(1.0, 0.3), gaussian(0.2, 0.4))
    assert gap.root(0.0)[0] == pytest.approx(0.8 / 0.5, rel=1e-8)
    assert gap.root(1.3)[0] == pytest.approx(-1.0, rel=1e-8)
    low, high = gap.interval(1.96**2)
    assert (low[0], high[0]) == pytest.approx((0.8 - 0.98, 0.8 + 0.98), rel=1e-8)


def test_the_quantile_at_a_limit_is_its_own_and_swapping_changes_the_sign_alone() -> None:
    counts = EventCounts(np.array([[200.0, 150.0]]), np.array([[9.0, 4.0]]))
    rate = counts.x / counts.n
    variance = counts.variance
    top = 1.2 * rate[:, 0] - rate[:, 1]
    tt = 1.44 * variance[:, 0] + variance[:, 1]
    error = Fieller(top, rate[:, 0], tt, 1.2 * variance[:, 0], variance[:, 0], np.array([np.inf]))
    one, other = law_of(counts, error, np.zeros(1), relative=True), gaussian(0.1, 0.2)
    low, high = CountGap(one, other).interval(2.5**2)
    assert CountGap(one, other).root(low)[0] == pytest.approx(2.5, rel=1e-6)
    assert CountGap(one, other).root(high)[0] == pytest.approx(-2.5, rel=1e-6)
    assert CountGap(other, one).root(0.0)[0] == pytest.approx(-CountGap(one, other).root(0.0)[0], rel=1e-6)


def test_expected_events_of_the_smaller_arm() -> None:
    counts = EventCounts(np.array([[300.0, 100.0]]), np.array([[30.0, 0.0]]))
    assert counts.expected(np.array([1.0]), relative=True)[0] == pytest.approx(7.5)
    assert counts.expected(np.array([0.0]), relative=False)[0] == pytest.approx(7.5)


def test_welchs_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    samples = [rng.normal(0.1 * i, 1 + i, 12 + 5 * i) for i in range(4)]
    means = np.array([s.mean() for s in samples])
    variances = np.array([s.var(ddof=1) / s.size for s in samples])
    statistic, pvalue = welch_q(means, variances, np.array([s.size - 1.0 for s in samples]))
    expected = stats.f_oneway(*samples, equal_var=False)
    assert statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert pvalue == pytest.approx(expected.pvalue, rel=1e-8)
    large = welch_q(means, variances, np.full(4, np.inf))
    assert large[1] == pytest.approx(stats.chi2.sf(3 * large[0], 3))
