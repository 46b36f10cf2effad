"""The empirical likelihood of a mean."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.groups.likelihood.means import Binary
from support.groups import real


def test_binary_statistic_is_the_binomial_likelihood_ratio() -> None:
    groups = Binary(n=[30, 12], ones=[9, 4])
    expected = 2 * (9 * np.log(0.3 / 0.45) + 21 * np.log(0.7 / 0.55))
    assert groups.statistic(np.array([0.45]), np.array([0]))[0] == pytest.approx(expected, rel=1e-13)


def test_real_likelihood_of_zeros_and_ones_is_the_binary_one() -> None:
    values = np.repeat([0.0, 1.0], [21, 9])
    index = np.zeros(3, dtype=int)
    means = np.array([0.1, 0.3, 0.55])
    assert real(values).statistic(means, index) == pytest.approx(Binary([30], [9]).statistic(means, index), rel=1e-11)


def test_rows_that_deviate_equally_carry_the_spread() -> None:
    values = np.repeat([-2.0, 0.0, 2.0], [5, 90, 5])
    assert real(values).carrying == pytest.approx(0.1, rel=1e-12)
    assert real(np.array([-2.0, 0.0, 2.0]), weights=np.array([5.0, 90.0, 5.0])).carrying == pytest.approx(
        0.1, rel=1e-12
    )
    exponential = np.random.default_rng(0).exponential(size=200_000)
    assert real(exponential).carrying == pytest.approx((2.0 / np.e) ** 2, rel=0.02)


@pytest.mark.parametrize("ones", [0, 1, 7, 10])
def test_binary_curve_agrees_with_the_closed_form_along_its_length(ones: int) -> None:
    group = Binary([10], [ones])
    multipliers = np.linspace(-8, 8, 41)
    index = np.zeros(41, dtype=int)
    point = group.point(multipliers, index)
    assert np.all((point.mean >= 0) & (point.mean <= 1))
    assert np.all(np.diff(point.mean) <= 1e-15)
    inside = (point.mean > 0) & (point.mean < 1)
    assert point.statistic[inside] == pytest.approx(
        group.statistic(point.mean[inside], index[inside]), rel=1e-9, abs=1e-12
    )


def test_groups_may_come_in_any_order_and_more_than_once() -> None:
    rng = np.random.default_rng(5)
    codes = np.repeat([0, 1, 2], 400)
    groups = real(rng.exponential(size=1200) * (1 + codes), codes)
    index = np.array([2, 0, 2])
    target = groups.mean[index] * 1.02
    alone = [float(groups.statistic(target[k : k + 1], index[k : k + 1])[0]) for k in range(3)]
    assert groups.statistic(target, index) == pytest.approx(alone, rel=1e-12)


def test_rest_equals_the_other_groups_pooled() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, size=800)
    values = rng.exponential(size=800) * (1 + codes)
    rest = real(values, codes).rest()
    for g in range(4):
        pooled = real(values[codes != g])
        assert rest.mean[g] == pytest.approx(pooled.mean[0], rel=1e-13)
        assert rest.variance[g] == pytest.approx(pooled.variance[0], rel=1e-12)
        target = np.array([pooled.mean[0] * 1.08])
        expected = pooled.statistic(target, np.array([0]))
        assert rest.statistic(target, np.array([g])) == pytest.approx(expected, rel=1e-10)


def test_rest_of_a_dominant_group_with_outliers_keeps_its_digits() -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate([1e6 * rng.standard_cauchy(5_000), rng.normal(size=20)])
    codes = np.repeat([0, 1], [5_000, 20])
    rest, alone = real(values, codes).rest(), real(values[5_000:])
    assert rest.mean[0] == pytest.approx(alone.mean[0], rel=1e-12)
    assert rest.variance[0] == pytest.approx(alone.variance[0], rel=1e-10)
    target = alone.mean + 0.3
    expected = alone.statistic(target, np.array([0]))
    assert rest.statistic(target, np.array([0])) == pytest.approx(expected, rel=1e-9)


def test_a_mean_outside_the_range_has_an_infinite_statistic() -> None:
    group = real(np.array([1.0, 2.0, 4.0]))
    assert np.isinf(group.statistic(np.array([0.5, 1.0, 4.0, 5.0]), np.zeros(4, dtype=int))).all()
    assert Binary([10], [3]).statistic(np.array([0.0, 1.0, 1.2]), np.zeros(3, dtype=int)) == pytest.approx(np.inf)


def test_rounding_of_the_mean_does_not_make_a_constant_group_vary() -> None:
    group = real(np.full(7, 0.1))
    assert group.variance[0] == 0
    assert group.statistic(np.array([0.1, 0.2]), np.zeros(2, dtype=int)).tolist() == [0.0, np.inf]


def test_weights_stand_for_repeated_rows() -> None:
    values, weights = np.array([0.2, 1.5, 3.0]), np.array([4.0, 2.0, 1.0])
    index, target = np.array([0]), np.array([1.0])
    repeated = real(np.repeat(values, weights.astype(int)))
    assert real(values, weights=weights).statistic(target, index) == pytest.approx(
        repeated.statistic(target, index), rel=1e-12
    )
