"""Votes at sites, and covariances of what is linear in them: the same by rows, by users, in parts and from products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.numerics.arrays import FloatArray
from isonomy.scores.smoothing import products as module
from isonomy.scores.smoothing.kernels import BINS
from isonomy.scores.smoothing.moments import VoteMoments
from isonomy.scores.smoothing.products import Products
from support.votes import AXIS, covariance, groups
from support.votes import moments as moments_of


def rows(n: int = 600, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "group": rng.integers(-1, 2, n),
        "score": rng.random(n),
        "outcome": rng.normal(size=n),
        "vote": rng.random(n) + 0.5,
        "user": rng.integers(0, 90, n),
    }


def moments(
    columns: dict[str, Any], *, user: bool = True, products: Products | None = None, chosen: Any = slice(None)
) -> VoteMoments:
    score, outcome, vote = (columns[name][chosen] for name in ("score", "outcome", "vote"))
    person = columns["user"][chosen] if user else None
    return moments_of(columns["group"][chosen], 2, score, outcome, vote, None, person, products=products)


def multiplied(columns: dict[str, Any], *, binary: bool = False) -> VoteMoments:
    products = Products(2, binary=binary)
    return moments(columns, products=products).with_products(products)


def functional(seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(2, BINS, 3))


def by_hand(columns: dict[str, Any], a: int, b: int, user: bool) -> FloatArray:
    """Products of sums of each user (or row), in a loop."""
    f = functional()
    bins = AXIS.bins.index(columns["score"])
    each = columns["vote"][:, None] * (f[0, bins] + columns["outcome"][:, None] * f[1, bins])
    person = columns["user"] if user else np.arange(each.shape[0])
    total = np.zeros((3, 3))
    for who in np.unique(person):
        left, right = (each[(person == who) & (columns["group"] == g)].sum(axis=0) for g in (a, b))
        total += np.outer(left, right)
    return total


@pytest.mark.parametrize("user", [True, False])
@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (1, 0)])
def test_covariances_are_sums_over_users(user: bool, a: int, b: int) -> None:
    columns, f = rows(), functional()
    expected = by_hand(columns, a, b, user)
    np.testing.assert_allclose(moments(columns, user=user).cross(a, f, b, f), expected, rtol=1e-9, atol=1e-9)
    if user:
        np.testing.assert_allclose(multiplied(columns).cross(a, f, b, f), expected, rtol=1e-9, atol=1e-9)


def test_functionals_of_a_group_may_differ() -> None:
    columns, f, h = rows(), functional(), functional(2)
    whole, summed = moments(columns), multiplied(columns)
    np.testing.assert_allclose(summed.cross(0, f, 0, h), whole.cross(0, f, 0, h), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("at_once", "many"), [(7, 3), (7, 100), (10_000, 0)])
def test_users_are_multiplied_in_parts_or_joined(monkeypatch: pytest.MonkeyPatch, at_once: int, many: int) -> None:
    columns, f = rows(), functional()
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(module, "_MANY", many)
    for a, b in ((0, 0), (0, 1)):
        expected = by_hand(columns, a, b, True)
        np.testing.assert_allclose(multiplied(columns).cross(a, f, b, f), expected, rtol=1e-9, atol=1e-9)


def votes_of_users(seed: int = 0) -> dict[str, Any]:
    """Rows with 0/1 outcomes of users who are in one group each, and share one vote among their rows."""
    columns = rows(seed=seed)
    user = columns["user"]
    share = np.random.default_rng(seed + 1).random(90)[user]
    return columns | {"group": user % 2, "outcome": (columns["outcome"] > 0) * 1.0, "vote": share}


def test_rows_with_outcomes_0_and_1_are_counted() -> None:
    columns, f = votes_of_users(), functional()
    summed = multiplied(columns, binary=True)
    for g in (0, 1):
        np.testing.assert_allclose(summed.cross(g, f, g, f), by_hand(columns, g, g, True), rtol=1e-9)
    np.testing.assert_allclose(summed.square, moments(columns).square, rtol=1e-12)


@pytest.mark.parametrize("name", ["vote", "outcome", "group"])
def test_other_votes_outcomes_and_users_of_two_groups_are_multiplied(name: str) -> None:
    columns, f = votes_of_users() | {name: rows()[name]}, functional()
    summed = multiplied(columns, binary=name != "outcome")
    for a, b in ((0, 0), (0, 1)):
        np.testing.assert_allclose(summed.cross(a, f, b, f), by_hand(columns, a, b, True), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("user", [True, False])
def test_parts_add_up(user: bool) -> None:
    columns, f = rows(), functional()
    low = columns["user"] < 40
    products = Products(2, binary=False) if user else None
    parts = [moments(columns, user=user, products=products, chosen=chosen) for chosen in (low, ~low)]
    both = parts[0] + parts[1]
    both = both if products is None else both.with_products(products)
    whole = moments(columns, user=user)
    for name in ("weight", "total", "place", "square", "rows", "users", "site"):
        np.testing.assert_allclose(getattr(both, name), getattr(whole, name), rtol=1e-12, err_msg=name)
    assert both.spanning == whole.spanning
    np.testing.assert_allclose(covariance(both, (f, f)), covariance(whole, (f, f)), rtol=1e-9)


def test_a_bin_stands_at_the_mean_of_its_scores() -> None:
    half = 0.25 / BINS
    score = np.array([half, 3 * half, 0.5])
    one = moments_of(np.zeros(3, dtype=int), 1, score, np.zeros(3), np.array([1.0, 3.0, 1.0]))
    assert one.site[0] == pytest.approx(2.5 * half)
    assert one.site[AXIS.bins.index(np.array([0.5]))[0]] == 0.5
    assert one.site[7] == AXIS.bins.centers[7]


def test_a_line_that_stands_for_rows_is_as_many_rows() -> None:
    columns, f = rows(60), functional()
    count = np.arange(60) % 3 + 1
    group, score, outcome = (np.repeat(columns[name], count) for name in ("group", "score", "outcome"))
    long = moments_of(group, 2, score, outcome, np.ones(score.size))
    lines = count.astype(float)
    short = moments_of(columns["group"], 2, columns["score"], columns["outcome"], lines, lines)
    np.testing.assert_allclose(covariance(short, (f, f)), covariance(long, (f, f)), rtol=1e-9)
    np.testing.assert_allclose(short.rows, long.rows)


@pytest.mark.parametrize("user", [True, False])
def test_entries_of_parts_make_the_whole(user: bool) -> None:
    """What workers send, added up by place."""
    columns, f = rows(), functional()
    low = columns["user"] < 40
    places, values = [], []
    for chosen in (low, ~low):
        products = Products(2, binary=False) if user else None
        for place, value in moments(columns, user=user, products=products, chosen=chosen).entries(products):
            places.append(place)
            values.append(value)
    place, at = np.unique(np.concatenate(places), return_inverse=True)
    sums = np.bincount(at, np.concatenate(values)).astype(np.float64)
    joined, whole = (
        VoteMoments.from_entries("g", groups(2), False, AXIS, place, sums, users=user),
        moments(columns, user=user),
    )
    for name in ("place", "weight", "total", "rows", "users", "spanning"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-12)
    for a, b in ((0, 0), (0, 1), (1, 0)):
        np.testing.assert_allclose(joined.cross(a, f, b, f), whole.cross(a, f, b, f), rtol=1e-9, atol=1e-9)
