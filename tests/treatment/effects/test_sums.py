"""Rows added up by group, bucket, arm and kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from isonomy.treatment.effects.moments import column
from isonomy.treatment.effects.sums import Lines


def lines() -> Lines:
    return Lines(
        factors={"y": np.array([1.0, 0.0, 2.5, 1.0]), "f": np.array([2.0, 4.0, 0.5, 1.0])},
        arm=np.array([0, 0, 1, 1]),
        kind=np.array([1, 0, 2, 1]),
        weight=np.array([3.0, 1.0, 1.0, 2.0]),
        groups=((np.array([0, 0, 1, 0]), 2), (np.array([0, 0, 0, 0]), 1)),
    )


def test_products_of_factors() -> None:
    np.testing.assert_array_equal(lines().values(column("yf")), [2.0, 0.0, 1.25, 1.0])
    np.testing.assert_array_equal(lines().values(column("y/f")), [0.5, 0.0, 5.0, 1.0])
    np.testing.assert_array_equal(lines().values(column("y") * column("y")), [1.0, 0.0, 6.25, 1.0])


def test_sums_by_hand() -> None:
    rows = lines()
    first, second = rows.sums(("y", "yf"), np.arange(4), rows.weight, np.array([0, 1, 0, 0]), 2)
    assert first.n.shape == (2, 2, 2, 3)
    assert (first.n[0, 0, 0, 1], first.n[0, 1, 0, 0], first.n[1, 0, 1, 2], first.n[0, 0, 1, 1]) == (3, 1, 1, 2)
    np.testing.assert_array_equal(first.sums[0, 0, 0, 1], [3.0, 6.0])
    np.testing.assert_array_equal(first.products[1, 0, 1, 2], [[6.25, 3.125], [3.125, 1.5625]])
    assert first.n.sum() == second.n.sum() == 7


def test_outcomes_other_than_zero_are_counted() -> None:
    rows = replace(lines(), weight=np.array([1.0, 5.0, 1.0, 2.0]))  # controls: one event and five zeros
    whole = rows.sums(("y",), np.arange(4), rows.weight, np.zeros(4, dtype=np.intp), 1)[1]
    np.testing.assert_array_equal(whole.nonzero, [4.0])


def test_the_skewness_of_a_comparison_of_arms() -> None:
    """One group: the third cumulants of both means add up; equal arms cancel out."""
    rng = np.random.default_rng(0)
    y, arm = rng.exponential(size=5_000), (rng.random(5_000) < 0.1).astype(np.intp)
    kind, zero = np.full(5_000, 2), np.zeros(5_000, dtype=np.intp)
    rows = Lines({"y": y}, arm, kind, np.ones(5_000), ((zero, 1),))
    (whole,) = rows.sums(("y",), np.arange(5_000), rows.weight, zero, 1)
    treated, control = y[arm == 1], y[arm == 0]
    for effect in (1.0, 1.5):
        third = stats.moment(treated, 3) / treated.size**2 - effect**3 * stats.moment(control, 3) / control.size**2
        variance = treated.var() / treated.size + effect**2 * control.var() / control.size
        own = third / variance**1.5
        pooled = np.concatenate([treated - treated.mean(), control - control.mean()])
        number = 1 / treated.size**2 - 1 / control.size**2, 1 / treated.size + 1 / control.size
        both = (pooled**3).mean() / (pooled**2).mean() ** 1.5 * number[0] / number[1] ** 1.5
        np.testing.assert_allclose(whole.skewness(np.array([effect])), max(own, both))
    twice = replace(rows, arm=np.r_[zero[:2_500], zero[:2_500] + 1], factors={"y": np.tile(y[:2_500], 2)})
    (equal,) = twice.sums(("y",), np.arange(5_000), rows.weight, zero, 1)
    assert abs(equal.skewness(np.ones(1))[0]) < 1e-9


def test_a_part_is_its_buckets_as_one() -> None:
    rows = lines()
    whole, _ = rows.sums(("y", "yf"), np.arange(4), rows.weight, np.array([0, 1, 0, 0]), 2)
    part = whole.part(np.array([1]))
    assert part.n.shape[1] == 1
    assert part.n.sum() == 1
    np.testing.assert_array_equal(part.moments().mean, whole.moments(np.array([1])).mean)
    np.testing.assert_array_equal(whole.part(np.array([0, 1])).moments().mean, whole.moments().mean)
