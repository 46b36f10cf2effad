"""Rows added up by group, bucket, arm and kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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


def test_events_are_counted_in_the_arm_that_has_fewer() -> None:
    rows = replace(lines(), weight=np.array([1.0, 5.0, 1.0, 2.0]))  # controls: one event and five zeros
    whole = rows.sums(("y",), np.arange(4), rows.weight, np.zeros(4, dtype=np.intp), 1)[1]
    np.testing.assert_array_equal(whole.events, [1.0])


def test_a_part_is_its_buckets_as_one() -> None:
    rows = lines()
    whole, _ = rows.sums(("y", "yf"), np.arange(4), rows.weight, np.array([0, 1, 0, 0]), 2)
    part = whole.part(np.array([1]))
    assert part.n.shape[1] == 1
    assert part.n.sum() == 1
    np.testing.assert_array_equal(part.moments().mean, whole.moments(np.array([1])).mean)
    np.testing.assert_array_equal(whole.part(np.array([0, 1])).moments().mean, whole.moments().mean)
