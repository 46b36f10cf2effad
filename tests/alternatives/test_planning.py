"""The game of section 5."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import bdtrc, ndtr, ndtri
from scipy.stats import binom

from isonomy.alternatives import compare_protocols, enough_splits, false_rejection, manipulation, splits_bound
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


def quadrature(reruns: int, splits: int, correlation: float, alpha: float = 0.05) -> float:
    """The same integral by adaptive quadrature over t; a p-value is below the level with probability Phi(t)."""
    # t is normal with this mean and deviation. The step is between -9 and 9, and every run rejects beyond.
    mean = ndtri(alpha if splits == 1 else alpha / 2) / np.sqrt(1 - correlation)
    deviation = np.sqrt(correlation / (1 - correlation))

    def integrand(t: float) -> float:
        once = bdtrc((splits + 1) // 2 - 1, splits, ndtr(t))
        with np.errstate(divide="ignore"):
            rejects = -np.expm1(reruns * np.log1p(-once))
        return float(rejects * np.exp(-(((t - mean) / deviation) ** 2) / 2) / (np.sqrt(2 * np.pi) * deviation))

    ends = np.unique([*(mean + deviation * np.arange(-9, 10)), *np.arange(-9, 9.1, 0.25)])
    ends = ends[(np.abs(ends - mean) <= 9.001 * deviation) & (np.abs(ends) <= 9)]
    inside = sum(quad(integrand, a, b, epsabs=1e-16, epsrel=1e-12)[0] for a, b in itertools.pairwise(ends))
    return float(inside + ndtr((mean - ends[-1]) / deviation))


@pytest.mark.parametrize("correlation", [0.05, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize(("splits", "reruns"), [(1, 1), (1, 100), (7, 100), (31, 20), (301, 100)])
def test_integral_equals_adaptive_quadrature(splits: int, reruns: int, correlation: float) -> None:
    """For strong correlations the integrand is a narrow step, which fixed nodes over the range of Z miss."""
    expected = quadrature(reruns, splits, correlation)
    assert false_rejection(reruns, splits=splits, correlation=correlation) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("splits", "reruns", "correlation", "expected"), [(301, 100, 0.9, 0.02245), (7, 100, 0.99, 0.03192)]
)
def test_strong_correlations(splits: int, reruns: int, correlation: float, expected: float) -> None:
    assert false_rejection(reruns, splits=splits, correlation=correlation) == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("splits", [1, 2, 7, 301, 100_000])
def test_limits_of_the_correlation(splits: int) -> None:
    """At 1, all splits have the same p-value and rerunning changes nothing; the limits are approached continuously."""
    level = 0.05 if splits == 1 else 0.025
    for reruns in (1, 100):
        assert false_rejection(reruns, splits=splits, correlation=1.0) == pytest.approx(level, rel=1e-14)
        near = false_rejection(reruns, splits=splits, correlation=1 - 1e-14)
        assert near == pytest.approx(level, rel=1e-5)
        independent = false_rejection(reruns, splits=splits, correlation=0.0)
        assert false_rejection(reruns, splits=splits, correlation=1e-14) == pytest.approx(independent, rel=1e-5)


def test_the_best_reply_to_strong_correlations() -> None:
    game = manipulation(splits=31, correlation=0.99, cost=1e-6)
    payoffs = [quadrature(m, 31, 0.99) - 31e-6 * m for m in range(17, 24)]
    assert game.reruns == 17 + int(np.argmax(payoffs)) == 20
    assert game.payoff == pytest.approx(max(payoffs), rel=1e-8)


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.6, 0.95, 0.99, 0.999999, 1.0])
def test_one_honest_run_has_exact_size(correlation: float) -> None:
    assert false_rejection(1, splits=1, correlation=correlation) == pytest.approx(0.05, rel=1e-10)
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
    assert free.reruns == 500  # Lemma D.3 bounds only one run: unlimited reruns eventually defeat any fixed K


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
        lambda: false_rejection(1, correlation=1.01),
        lambda: splits_bound(0.0),
    ],
)
def test_bad_numbers(call: object) -> None:
    with pytest.raises(UsageError):
        call()  # type: ignore[operator]


def test_the_policymaker_chooses_the_protocol() -> None:
    """Definition 5, Assumption 4 and Theorem 3, by simulation of the p-values of one table."""
    game = compare_protocols(splits=21, cost=0.004, correlation=0.5)
    assert game.chosen == "repeated"
    assert game.single.policymaker == pytest.approx(1 - game.single.false_rejection)
    assert game.reruns_pay
    rng = np.random.default_rng(0)
    shared = rng.normal(size=200_000)
    single = stats.norm.cdf(np.sqrt(0.5) * shared[:, None] + np.sqrt(0.5) * rng.normal(size=(shared.size, 2)))
    again = np.mean((single <= 0.05).any(axis=1)) - np.mean(single[:, 0] <= 0.05)
    assert again > 0.004
    # With ever more splits, the median rejects where more than half of the p-values of the table would.
    below = stats.norm.cdf((stats.norm.ppf(0.025) - np.sqrt(0.5) * shared) / np.sqrt(0.5))
    assert game.limit == pytest.approx(np.mean(below >= 0.5), abs=4 * np.sqrt(0.0028 / shared.size))
    dear = compare_protocols(splits=7, cost=0.5)
    assert not dear.reruns_pay
    assert dear.single.reruns == dear.repeated.reruns == 1
    assert compare_protocols(splits=1, cost=0.1).chosen == "either"
