"""Ratios of means."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.effects.estimators.errors import (
    Gap,
    plain_ratio,
    satterthwaite,
    standardized_rest,
)
from isonomy.inference.effect import Fieller


def gap_of(left: Fieller, right: Fieller) -> Gap:
    return Gap(left, right, satterthwaite(left, right))


def ratios() -> Fieller:
    return Fieller(
        top=np.array([0.03, -0.02, 0.10]),
        bottom=np.array([0.10, 0.20, 0.05]),
        tt=np.array([1e-4, 2e-4, 3e-4]),
        tb=np.array([2e-5, -1e-5, 4e-5]),
        bb=np.array([5e-5, 1e-4, 2e-5]),
        df=np.array([40.0, 200.0, np.inf]),
    )


def test_an_end_of_the_interval_fed_back_has_p_equal_to_alpha() -> None:
    law = ratios()
    for end in law.limits(0.05):
        np.testing.assert_allclose(law.pvalue(end), 0.05, rtol=1e-9)


def test_an_end_of_the_interval_of_a_difference_fed_back_too() -> None:
    gap = gap_of(ratios(), plain_ratio(np.array([0.1, 0.0, -0.2]), np.array([0.01, 0.02, 0.003])))
    for end in gap.limits(0.05):
        np.testing.assert_allclose(gap.pvalue(end), 0.05, rtol=1e-6)


def test_a_difference_reads_the_same_from_either_side() -> None:
    one, two = ratios(), Fieller(*(np.roll(getattr(ratios(), n), 1) for n in ("top", "bottom", "tt", "tb", "bb", "df")))
    forth, back = gap_of(one, two), gap_of(two, one)
    np.testing.assert_allclose(forth.root(), -back.root(), rtol=1e-9)
    np.testing.assert_allclose(forth.interval(4.0)[0], -back.interval(4.0)[1], rtol=1e-12)


def test_a_bottom_of_one_gives_estimate_and_standard_error() -> None:
    law = plain_ratio(np.array([0.3]), np.array([0.04]))
    np.testing.assert_allclose(law.interval(1.96**2), ([0.3 - 1.96 * 0.2], [0.3 + 1.96 * 0.2]))
    np.testing.assert_allclose(law.root(0.1), [1.0])
    gap = gap_of(law, plain_ratio(np.array([0.1]), np.array([0.05])))
    np.testing.assert_allclose(gap.interval(4.0), ([0.2 - 0.6], [0.2 + 0.6]))
    np.testing.assert_allclose(gap.root(), [0.2 / 0.3])


def test_a_bottom_that_may_be_zero_leaves_the_interval_open() -> None:
    law = Fieller(*(np.array([v]) for v in (0.01, 0.01, 1e-3, 0.0, 1e-3, 50.0)))
    low, high = law.interval(4.0)
    assert low[0] == -np.inf
    assert high[0] == np.inf
    gap = gap_of(law, plain_ratio(np.array([0.0]), np.array([1.0])))
    assert np.isfinite(gap.root()).all()


def test_far_tails_keep_their_digits() -> None:
    gap = gap_of(plain_ratio(np.array([3.0]), np.array([0.01])), plain_ratio(np.array([0.0]), np.array([0.0])))
    np.testing.assert_allclose(gap.root(), [30.0], rtol=1e-9)
    np.testing.assert_allclose(gap.pvalue(), 2 * 4.906713927148187e-198, rtol=1e-9)  # 2 scipy.stats.norm.sf(30)


def test_the_standardized_rest_by_hand() -> None:
    law, size = ratios(), np.array([100.0, 300.0, 600.0])
    rest = standardized_rest(law, size, np.array([True, True, True]))
    share = size[1:] / 900
    assert rest.value[0] == pytest.approx((share @ law.top[1:]) / (share @ law.bottom[1:]))
    between = share @ law.top[1:] ** 2 - (share @ law.top[1:]) ** 2
    assert rest.tt[0] == pytest.approx(share**2 @ law.tt[1:] + between / 900)
