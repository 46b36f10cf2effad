"""Ratios of means."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.effects.estimators.ratio import Gap, Ratio, of_others, plain, standardized_rest
from isonomy.numerics.tails import t_isf, t_sf


def ratios() -> Ratio:
    return Ratio(
        top=np.array([0.03, -0.02, 0.10]),
        bottom=np.array([0.10, 0.20, 0.05]),
        tt=np.array([1e-4, 2e-4, 3e-4]),
        tb=np.array([2e-5, -1e-5, 4e-5]),
        bb=np.array([5e-5, 1e-4, 2e-5]),
        df=np.array([40.0, 200.0, np.inf]),
    )


def test_an_end_of_the_interval_fed_back_has_p_equal_to_alpha() -> None:
    law = ratios()
    for end in law.limits(t_isf(0.025, law.df)):
        np.testing.assert_allclose(2 * t_sf(np.abs(law.statistic(end)), law.df), 0.05, rtol=1e-9)


def test_an_end_of_the_interval_of_a_difference_fed_back_too() -> None:
    gap = Gap(ratios(), plain(np.array([0.1, 0.0, -0.2]), np.array([0.01, 0.02, 0.003])))
    for end in gap.limits(t_isf(0.025, gap.df)):
        np.testing.assert_allclose(2 * t_sf(np.abs(gap.statistic(end)), gap.df), 0.05, rtol=1e-6)


def test_a_difference_reads_the_same_from_either_side() -> None:
    one, two = ratios(), Ratio(*(np.roll(getattr(ratios(), n), 1) for n in ("top", "bottom", "tt", "tb", "bb", "df")))
    forth, back = Gap(one, two), Gap(two, one)
    np.testing.assert_allclose(forth.statistic(), -back.statistic(), rtol=1e-9)
    np.testing.assert_allclose(forth.limits(2.0)[0], -back.limits(2.0)[1], rtol=1e-12)


def test_a_bottom_of_one_gives_estimate_and_standard_error() -> None:
    law = plain(np.array([0.3]), np.array([0.04]))
    np.testing.assert_allclose(law.limits(1.96), ([0.3 - 1.96 * 0.2], [0.3 + 1.96 * 0.2]))
    np.testing.assert_allclose(law.statistic(0.1), [1.0])
    gap = Gap(law, plain(np.array([0.1]), np.array([0.05])))
    np.testing.assert_allclose(gap.limits(2.0), ([0.2 - 0.6], [0.2 + 0.6]))
    np.testing.assert_allclose(gap.statistic(), [0.2 / 0.3])


def test_a_bottom_that_may_be_zero_leaves_the_interval_open() -> None:
    law = Ratio(*(np.array([v]) for v in (0.01, 0.01, 1e-3, 0.0, 1e-3, 50.0)))
    low, high = law.limits(2.0)
    assert low[0] == -np.inf
    assert high[0] == np.inf
    gap = Gap(law, plain(np.array([0.0]), np.array([1.0])))
    assert np.isfinite(gap.statistic()).all()


def test_far_tails_keep_their_digits() -> None:
    gap = Gap(plain(np.array([3.0]), np.array([0.01])), plain(np.array([0.0]), np.array([0.0])))
    np.testing.assert_allclose(gap.statistic(), [30.0], rtol=1e-9)
    np.testing.assert_allclose(
        t_sf(gap.statistic(), gap.df), 4.906713927148187e-198, rtol=1e-9
    )  # scipy.stats.norm.sf(30)


def test_the_standardized_rest_by_hand() -> None:
    law, size = ratios(), np.array([100.0, 300.0, 600.0])
    rest = standardized_rest(law, size, np.array([True, True, True]))
    share = size[1:] / 900
    assert rest.value[0] == pytest.approx((share @ law.top[1:]) / (share @ law.bottom[1:]))
    between = share @ law.top[1:] ** 2 - (share @ law.top[1:]) ** 2
    assert rest.tt[0] == pytest.approx(share**2 @ law.tt[1:] + between / 900)


def test_unusable_groups_take_no_part_in_the_rest() -> None:
    law, size = ratios(), np.array([100.0, 300.0, 600.0])
    rest = standardized_rest(law, size, np.array([True, True, False]))
    assert rest.value[0] == pytest.approx(law.value[1])
    assert rest.value[2] == pytest.approx((100 * 0.03 - 300 * 0.02) / (100 * 0.1 + 300 * 0.2))


def test_no_rest_is_no_number() -> None:
    law = plain(np.array([0.1]), np.array([0.01]))
    assert np.isnan(standardized_rest(law, np.array([10.0]), np.array([True])).value).all()
    assert np.isnan(Gap(law, standardized_rest(law, np.array([10.0]), np.array([True]))).statistic()).all()


def test_others() -> None:
    np.testing.assert_array_equal(of_others(np.array([1.0, 2.0, 4.0]), np.array([True, True, False])), [2.0, 1.0, 3.0])


def test_all_groups_as_one() -> None:
    law, size = ratios(), np.array([100.0, 300.0, 600.0])
    whole = law.together(size, np.array([True, True, False]))
    assert whole.value[0] == pytest.approx((100 * 0.03 - 300 * 0.02) / (100 * 0.1 + 300 * 0.2))
    assert whole.value.shape == (1,)
