"""Quick checks of size and power of the tests of scores; the simulations page has the long ones."""

from __future__ import annotations

import numpy as np
import pytest

from studies.lines import rejected
from studies.scores import OTHERS, PAGE, identity, parity, rows, steep, users
from support.sampling import binomial_margin

SIZE = PAGE.find("Size")


@pytest.mark.parametrize("method", ["omnibus", "orthogonal", "cumulative", "trend"])
def test_size_is_right(method: str) -> None:
    """40 tables: a size of 0.05 exceeds 0.05 + 3 standard errors = 0.153 about once in 300."""
    assert not SIZE.find(f"size, steep, 500 rows per group, {method}").missed(40)


def test_the_paper_s_size_is_not() -> None:
    """0.80 on the page."""
    size = float(SIZE.find("size, steep, 500 rows per group, published").measure(60)[0][0])
    assert size >= 0.8 - binomial_margin(0.8, 60)


@pytest.mark.parametrize(
    "design", ["interleaved scores, kinked twice, 2,000", "groups without a common score, slope 20, 2,000"]
)
def test_size_where_scores_interleave_or_are_not_shared(design: str) -> None:
    assert not SIZE.find(f"size, {design} rows per group, omnibus").missed(30)


def test_size_at_a_threshold_beside_a_steep_curve() -> None:
    rejections = float(SIZE.find("size at a threshold, slope 20, scores that end 0.1 above").measure(60)[0][0])
    assert rejections <= 0.05 + binomial_margin(0.05, 60)


def test_users_decide_the_variance() -> None:
    shares = []
    for options in ({"user": "m"}, {}):
        rng = np.random.default_rng(2)
        shares.append(np.mean([rejected(parity(rng, lambda r: users(r, 400, steep), **options)) for _ in range(40)]))
    clustered, naive = shares
    assert clustered <= 0.05 + binomial_margin(0.05, 40)
    assert naive > clustered


def test_size_at_a_threshold() -> None:
    assert not SIZE.find("size at a threshold, curved, 2,000 rows per group, local-quadratic").missed(60)


@pytest.mark.parametrize(("name", "power"), [("shifted by 0.05", 0.63), ("crossing at 0.5, slope 1.25", 0.6)])
def test_power_against_planted_violations(name: str, power: float) -> None:
    """The power on the page, minus three binomial standard errors of 30 tables."""
    rng = np.random.default_rng(1)
    draw = [rejected(parity(rng, lambda r: rows(r, (2_000, 2_000), identity, OTHERS[name]))) for _ in range(30)]
    assert np.mean(draw) >= power - binomial_margin(power, 30)
