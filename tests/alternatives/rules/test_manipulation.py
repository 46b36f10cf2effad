"""The game of section 5."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from isonomy.alternatives import enough_splits, false_rejection, manipulation, splits_bound
from isonomy.errors import UsageError
from studies.designs.reruns import simulate_reruns


def test_bound() -> None:
    assert splits_bound(0.05) == 7
    assert splits_bound(0.01) == 10
    assert splits_bound(0.10) == 6


@pytest.mark.parametrize("splits", [1, 2, 7])
@pytest.mark.parametrize("reruns", [1, 5])
def test_independent_case_is_binomial(splits: int, reruns: int) -> None:
    level = 0.05 if splits == 1 else 0.025
    once = binom.sf((splits + 1) // 2 - 1, splits, level)
    assert false_rejection(reruns, splits=splits) == pytest.approx(1 - (1 - once) ** reruns, rel=1e-9)


@pytest.mark.parametrize("correlation", [0.3, 0.9])
@pytest.mark.parametrize("splits", [1, 7])
def test_integral_equals_simulation(splits: int, correlation: float) -> None:
    exact = false_rejection(5, splits=splits, correlation=correlation)
    rng = np.random.default_rng(1)
    share = simulate_reruns(5, splits=splits, correlation=correlation, replications=4000, rng=rng)
    assert abs(share - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000)


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.6, 0.95])
def test_one_honest_run_has_exact_size(correlation: float) -> None:
    assert false_rejection(1, splits=1, correlation=correlation) == pytest.approx(0.05, abs=1e-6)
    assert false_rejection(1, splits=7, correlation=correlation) <= 0.05


def test_best_reply_is_the_best() -> None:
    game = manipulation(splits=1, cost=0.01, correlation=0.3)
    payoffs = [false_rejection(m, splits=1, correlation=0.3) - 0.01 * m for m in range(1, 200)]
    assert game.reruns == 1 + int(np.argmax(payoffs))
    assert game.payoff == pytest.approx(max(payoffs))
    assert game.false_rejection == pytest.approx(false_rejection(game.reruns, splits=1, correlation=0.3))


def test_repeated_splits_resist() -> None:
    for cost in (0.001, 0.01, 0.05):
        assert manipulation(splits=7, cost=cost).false_rejection < manipulation(splits=1, cost=cost).false_rejection


def test_costs_as_a_function_and_free_reruns() -> None:
    assert manipulation(splits=1, cost=lambda m: 0.02 * m**2).reruns == 1
    free = manipulation(splits=7, cost=0.0, most=500)
    assert free.reruns == 500  # Lemma D.3 bounds one run only: free re-runs break any fixed K in the end


def test_protocol() -> None:
    game = enough_splits(alpha=0.05, cost=0.001, correlation=0.5)
    assert game.splits % 2 == 1
    assert game.false_rejection <= 0.05
    with pytest.raises(UsageError, match="costs too little"):
        enough_splits(cost=0.0, most=3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: false_rejection(0),
        lambda: false_rejection(1, splits=0),
        lambda: false_rejection(1, alpha=1.5),
        lambda: false_rejection(1, correlation=1.0),
        lambda: splits_bound(0.0),
    ],
)
def test_bad_numbers(call: object) -> None:
    with pytest.raises(UsageError):
        call()  # type: ignore[operator]
