"""Effects: tests, limits and planning against closed forms and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.inference.designs import Law
from isonomy.inference.effect import (
    Against,
    AgainstBest,
    Designed,
    Effect,
    Fieller,
    Hypothesis,
    Parts,
    Rescaled,
    Wald,
    every_pair,
    gap_limits,
    widest,
)
from isonomy.numerics.arrays import FloatArray

WALD = Wald(np.array([0.3, -0.2, 0.01]), np.array([0.1, 0.1, 0.05]), df=np.array([10.0, 25.0, np.inf]))


def t_sf(t: FloatArray) -> FloatArray:
    return np.asarray(stats.t.sf(t, WALD.df))


def test_a_wald_test_is_students() -> None:
    t = WALD.value / WALD.standard_error
    statistic, pvalue = WALD.test(Hypothesis(0.0, 0.0, "two-sided"))
    assert statistic == pytest.approx(t**2)
    assert pvalue == pytest.approx(2 * t_sf(np.abs(t)))
    assert WALD.pvalue() == pytest.approx(pvalue)
    assert WALD.root(0.1) == pytest.approx((WALD.value - 0.1) / WALD.standard_error)


@pytest.mark.parametrize(("side", "sign"), [("greater", 1.0), ("less", -1.0)])
def test_a_one_sided_test_has_half_the_p_value_on_its_side_and_1_on_the_other(side: Against, sign: float) -> None:
    t = sign * WALD.value / WALD.standard_error
    statistic, pvalue = WALD.test(Hypothesis(0.0, 0.0, side))
    assert statistic == pytest.approx(np.where(t > 0, t**2, 0.0))
    assert pvalue == pytest.approx(np.where(t > 0, t_sf(t), 1.0))


def test_an_interval_null_adds_the_tails_beyond_both_ends() -> None:
    near, far = (0.3 - 0.1) / 0.1, (0.3 + 0.1) / 0.1
    pvalue = WALD.test(Hypothesis(-0.1, 0.1, "outside"))[1]
    assert pvalue[0] == pytest.approx(stats.t.sf(near, 10) + stats.t.sf(far, 10))
    assert pvalue[2] == 1.0  # inside
    assert WALD.test(Hypothesis(-0.1, 0.1, "outside-published"))[1][0] == pytest.approx(stats.t.sf(near, 10))
    assert Hypothesis(-0.1, 0.1, "outside").direction(WALD.value).tolist() == [1.0, -1.0, 0.0]


def test_within_is_the_larger_of_two_one_sided_tests() -> None:
    expected = np.maximum(
        t_sf((0.5 - WALD.value) / WALD.standard_error), t_sf((WALD.value + 0.5) / WALD.standard_error)
    )
    assert WALD.within_pvalue(0.5) == pytest.approx(expected)
    assert WALD.within_pvalue(0.5, "greater") == pytest.approx(t_sf((0.5 - WALD.value) / WALD.standard_error))


def test_testing_an_end_of_an_interval_gives_alpha() -> None:
    ratio = Fieller(*(np.array([v]) for v in (2.0, 4.0, 0.5, 0.1, 0.3, 12.0)))
    for effect in (WALD, ratio, Rescaled(ratio, -2.0), Designed(ratio, Law(np.array([1.5]), np.array([20.0])))):
        for end in effect.limits(0.05):
            assert effect.pvalue(end) == pytest.approx(np.full(end.shape, 0.05))
        low = effect.limits(0.05, "one-sided", "greater")[0]
        assert effect.test(Hypothesis(float(low[0]), float(low[0]), "greater"))[1][0] == pytest.approx(0.05)


def test_simultaneous_limits_use_sidaks_level() -> None:
    level = 1 - 0.95 ** (1 / 4)
    for shared, alone in zip(WALD.limits(0.05, "simultaneous", tests=4), WALD.limits(level), strict=True):
        assert shared == pytest.approx(alone)


def test_a_band_is_as_far_out_as_the_normal_critical_value() -> None:
    low, high = WALD.band(2.5)
    t = stats.t.isf(stats.norm.sf(2.5), WALD.df)
    assert (high - low) / 2 == pytest.approx(t * WALD.standard_error)


def test_a_ratio_whose_bottom_may_be_zero_has_no_limits() -> None:
    top, bottom, tt, tb, bb = (np.array(v) for v in ([2.0, 2.0], [4.0, 0.1], [0.5, 0.5], [0.1, 0.1], [0.3, 0.3]))
    ratio = Fieller(top, bottom, tt, tb, bb)
    low, high = ratio.interval(3.84)
    assert (low[1], high[1]) == (-np.inf, np.inf)
    assert low[0] < ratio.value[0] < high[0]
    assert ratio.statistic(low)[0] == pytest.approx(3.84)


def test_the_detectable_effect_is_detected_with_that_power() -> None:
    normal = Wald(np.zeros(1), np.array([0.1]))
    size = normal.detectable(0.05, 0.8)
    assert size == pytest.approx((stats.norm.isf(0.025) + stats.norm.isf(0.2)) * 0.1)
    far = normal.detectable(0.05, 0.8, tolerance=2.0)  # the farther end of the tolerance no longer matters
    assert far == pytest.approx(2.0 + (stats.norm.isf(0.05) + stats.norm.isf(0.2)) * 0.1)
    needed = normal.rows_needed(size, 100.0, 0.025, 0.2)
    assert 100 <= needed[0] <= 101


def test_parts_are_where_they_belong() -> None:
    parts = Parts(np.array([0.1, 0.2, 0.3]), ((np.array([2, 0]), Wald(np.array([0.3, 0.1]), np.array([0.1, 0.2]))),))
    assert parts.tested.tolist() == [True, False, True]
    assert parts.standard_error == pytest.approx([0.2, np.nan, 0.1], nan_ok=True)
    assert parts.statistic(0.0) == pytest.approx([0.25, np.nan, 9.0], nan_ok=True)
    law = Law(np.array([4.0, 1.0, 1.0]), np.full(3, 1e9))
    assert parts.under(law).statistic(0.0)[0] == pytest.approx(0.0625, rel=1e-6)
    assert parts.under(law).standard_error[0] == pytest.approx(0.4)


def test_the_best_group_is_not_below_itself() -> None:
    mean, error = np.array([0.5, 0.4, 0.1]), 0.05
    first, second = every_pair(3)
    pairs: Effect = Wald(mean[first] - mean[second], np.full(first.size, error))
    best = AgainstBest(pairs, first)
    assert best.value == pytest.approx([0.0, -0.1, -0.4])
    pvalue = best.test(Hypothesis(0.0, 0.0, "less"))[1]
    assert pvalue[0] == 1.0
    assert pvalue[1] == pytest.approx(2 * stats.norm.sf(2.0))  # two others could be the best
    low, high = best.interval(stats.chi2.isf(0.05, 1))
    assert (high <= 0).all()
    assert (low <= best.value).all()
    place, least, most = widest(pairs, 0.05, 3)
    assert {first[place], second[place]} == {0, 2}
    assert least < 0.4 < most
    assert gap_limits(pairs, 0.05, 3)[0].max() == pytest.approx(least)
