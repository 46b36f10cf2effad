"""Rates at the edge of the null: restricted likelihood and exact tails, against closed forms and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.transport.program.rates import Strata


def pair(x1: float, n1: float, x0: float, n0: float) -> Strata:
    return Strata(np.array([1.0, -1.0]), np.array([n1, n0], dtype=float), np.array([x1, x0], dtype=float))


def farrington_manning(x1: float, n1: float, x0: float, n0: float, delta: float) -> tuple[float, float]:
    """The closed form of Farrington and Manning (1990): rates of the likeliest pair that differs by delta."""
    p1, p0, theta = x1 / n1, x0 / n0, n0 / n1
    a, b = 1 + theta, -(1 + theta + p1 + theta * p0 + delta * (theta + 2))
    c, d = delta**2 + delta * (2 * p1 + theta + 1) + p1 + theta * p0, -p1 * delta * (1 + delta)
    v = b**3 / (3 * a) ** 3 - b * c / (6 * a**2) + d / (2 * a)
    u = np.sign(v) * np.sqrt(max(0.0, b**2 / (3 * a) ** 2 - c / (3 * a)))
    w = (np.pi + np.arccos(np.clip(v / u**3, -1, 1))) / 3
    first = 2 * u * np.cos(w) - b / (3 * a)
    return first, first - delta


def test_restricted_rates_are_those_of_farrington_and_manning() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        n1, n0 = (int(n) for n in rng.integers(1, 400, 2))
        x1 = int(rng.choice(np.array([0, n1, rng.integers(0, n1 + 1)])))
        x0 = int(rng.choice(np.array([0, n0, rng.integers(0, n0 + 1)])))
        delta = float(rng.uniform(-0.9, 0.9))
        result = pair(x1, n1, x0, n0).restricted(delta)
        assert result == pytest.approx(farrington_manning(x1, n1, x0, n0, delta), abs=1e-9)


@pytest.mark.parametrize("delta", [-0.2, 0.05, 0.3])
def test_tails_of_few_rows_are_sums_over_both_binomials(delta: float) -> None:
    part = pair(6, 14, 2, 9)
    r1, r0 = part.restricted(delta)
    x, y = np.arange(15)[:, None], np.arange(10)[None, :]
    mass, seen = stats.binom.pmf(x, 14, r1) * stats.binom.pmf(y, 9, r0), x / 14 - y / 9
    half = 1 / 18  # half a row of the smaller group
    assert part.tail(delta) == pytest.approx(mass[seen >= part.value - half - 1e-12].sum(), rel=1e-10)
    assert part.mirrored.tail(-delta) == pytest.approx(mass[seen <= part.value + half + 1e-12].sum(), rel=1e-10)


def test_tails_of_many_rows_are_normal() -> None:
    part = pair(5_200, 10_000, 5_000, 10_000)
    z = 0.01 / np.sqrt(part.variance(part.restricted(0.01)))
    assert part.tail(0.01) == pytest.approx(stats.norm.sf(z), rel=1e-12)
    # The sum and the normal law meet where both can be used.
    near = pair(70, 200, 5_000, 20_000)
    assert near._summed(near.restricted(0.05), near.value) == pytest.approx(near.tail(0.05), rel=0.1)


@pytest.mark.parametrize("rows", [12, 25, 100])
def test_the_edge_is_crossed_by_chance_in_at_most_one_of_twenty(rows: int) -> None:
    """Enumerated: against a group so large that its rate is known, each way of being wrong has at most 0.05."""
    others, x = 1_000_000, np.arange(rows + 1)
    for rate, tolerance in ((0.002, 0.1), (0.02, 0.1), (0.1, 0.05), (0.3, -0.1), (0.5, 0.19), (0.8, 0.15)):
        turn = 1.0 if tolerance > 0 else -1.0
        parts = [pair(float(k), rows, rate * others, others) for k in x]
        parts = [part if turn > 0 else part.mirrored for part in parts]
        mass = stats.binom.pmf(x, rows, rate + tolerance)
        beyond = np.array([part.tail(abs(tolerance)) for part in parts])
        within = np.array([part.mirrored.tail(-abs(tolerance)) for part in parts])
        assert mass[beyond <= 0.05].sum() <= 0.05
        assert mass[within <= 0.05].sum() <= 0.05


def test_edges_of_what_can_be() -> None:
    certain = pair(0, 50, 0, 80)
    assert certain.restricted(0.0) == pytest.approx([0.0, 0.0])
    assert certain.tail(0.0) == 1.0
    # No rates differ by more than 1: the nearest there are.
    assert pair(3, 5, 1, 5).restricted(2.0) == pytest.approx([1.0, 0.0], abs=1e-6)
