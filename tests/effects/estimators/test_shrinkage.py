"""Corrections and their risk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import isonomy as iso
from isonomy.effects.estimators.shrinkage import (
    BORROWING,
    STRATEGIES,
    Detected,
    NormalErrors,
    Strategy,
    correction,
    factor,
    less_bias,
    name_of,
    normal_means,
)
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray

heavy_means, mixed_means = BORROWING["empirical_bayes_t"], BORROWING["empirical_bayes_mixture"]


def detected(error: float, se: float = 1.0, df: float = np.inf) -> Detected:
    return Detected(np.array([error]), np.array([se]), df)


def test_factors_by_hand() -> None:
    assert factor("none", detected(3.0)) == 0
    assert factor("mean", detected(3.0)) == 1
    assert factor("significant", detected(1.9)) == 0
    assert factor("significant", detected(2.0)) == 1
    assert factor("significant", detected(-2.0)) == 1  # equation (42) lacks the absolute value
    assert factor("significant", detected(2.0, df=10.0)) == 0  # Student's critical value is 2.23
    assert factor("significant", detected(1.7), 0.1) == 1
    assert factor("mse_plus", detected(2.0)) == pytest.approx(4 / 5)
    assert factor("mse_minus", detected(2.0)) == pytest.approx(4 / 5)
    assert factor("positive_part", detected(2.0)) == pytest.approx(3 / 4)
    assert factor("positive_part", detected(0.9)) == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_factors_lie_between_nothing_and_everything(strategy: Strategy) -> None:
    grid = np.concatenate([-np.geomspace(1e-8, 1e8, 50), [0.0], np.geomspace(1e-8, 1e8, 50)])
    made = factor(strategy, Detected(grid, np.ones(grid.shape)))
    assert ((made >= 0) & (made <= 1)).all()
    np.testing.assert_allclose(made, factor(strategy, Detected(-grid, np.ones(grid.shape))))


def test_both_mean_squared_error_rules_nearly_coincide_on_one_bootstrap() -> None:
    """The bootstrap mean of B*^2 is B^2 + sd^2, so (46) and (47) differ only by the error of the resamples."""
    rng = np.random.default_rng(0)
    error = rng.normal(0, 2, 400)
    draws = error + rng.normal(size=(50, 400))
    found = Detected.from_draws(error, draws)
    gap = np.abs(factor("mse_plus", found) - factor("mse_minus", found))
    assert gap.mean() < 0.1  # fifty resamples, as in the paper
    many = Detected.from_draws(error, error + rng.normal(size=(20_000, 400)))
    assert np.abs(factor("mse_plus", many) - factor("mse_minus", many)).max() < 0.03


def test_risk_against_simulation() -> None:
    rng = np.random.default_rng(1)
    b = np.array([0.0, 0.5, 1.5, 3.0])
    estimate = b + rng.normal(size=(200_000, 4))
    for name in STRATEGIES:
        left = b - factor(name, Detected(estimate, np.ones(estimate.shape))) * estimate
        np.testing.assert_allclose(iso.correction_risk(b, [name])[name], (left**2).mean(0), atol=0.02)
        np.testing.assert_allclose(
            iso.correction_risk(b, [name], loss="absolute")[name], np.abs(left).mean(0), atol=0.01
        )


def test_a_strategy_of_ones_own_sees_all_groups() -> None:
    def halved(error: FloatArray, se: FloatArray) -> FloatArray:
        return error.mean() + 0 * se

    found = Detected(np.array([1.0, 3.0, np.nan]), np.array([1.0, 1.0, 1.0]))
    np.testing.assert_allclose(correction(halved, found), [2.0, 2.0, 0.0])
    assert name_of(halved) == "halved"
    with pytest.raises(UsageError, match="one finite correction per group"):
        correction(lambda error, se: error[:1], found)
    for wrong in (lambda error: error, lambda error, se: 1 / 0):
        with pytest.raises(UsageError, match=r"strategy: <lambda> raised .*; a strategy takes the errors"):
            correction(wrong, found)  # type: ignore[arg-type]


ERROR, SE = np.array([0.10, 0.55, 0.32, 0.21, 0.40]), np.array([0.10, 0.12, 0.08, 0.15, 0.11])


def test_the_spread_is_that_of_dersimonian_and_laird() -> None:
    meta = pytest.importorskip("statsmodels.stats.meta_analysis")
    between = meta.combine_effects(ERROR, SE**2, method_re="dl").tau2
    mean = np.average(ERROR, weights=1 / (SE**2 + between))
    expected = mean + between / (SE**2 + between) * (ERROR - mean)
    np.testing.assert_allclose(normal_means(ERROR, SE), expected, rtol=1e-12)


def test_equal_errors_are_corrected_alike() -> None:
    """Without spread beyond chance, the whole error is common, in small groups as in large ones."""
    for means in (normal_means, heavy_means, mixed_means):
        np.testing.assert_allclose(means(np.full(6, 0.3), np.geomspace(0.01, 1, 6)), 0.3, atol=0.01)


def test_far_apart_errors_are_left_where_they_are() -> None:
    error, se = np.array([-1.0, 0.0, 1.0, 2.0]), np.full(4, 0.01)
    for means in (normal_means, heavy_means, mixed_means):
        np.testing.assert_allclose(means(error, se), error, atol=0.01)


def test_the_heavy_tail_leaves_an_outlying_group_alone() -> None:
    rng = np.random.default_rng(0)
    error, se = 0.1 * rng.standard_normal(30), np.full(30, 0.1)
    error[0] = 1.0
    normal, heavy, mixed = (means(error, se) for means in (normal_means, heavy_means, mixed_means))
    assert min(heavy[0], mixed[0]) > 0.9 > normal[0]
    assert np.square(mixed[1:]).sum() < np.square(heavy[1:]).sum() < np.square(normal[1:]).sum()


def test_order_and_units_do_not_matter() -> None:
    for means in (normal_means, heavy_means):
        np.testing.assert_allclose(means(ERROR[::-1], SE[::-1]), means(ERROR, SE)[::-1])
        np.testing.assert_allclose(means(100 * ERROR + 7, 100 * SE), 100 * means(ERROR, SE) + 7, rtol=1e-9)
    np.testing.assert_allclose(mixed_means(ERROR[::-1], SE[::-1]), mixed_means(ERROR, SE)[::-1])
    np.testing.assert_allclose(mixed_means(-100 * ERROR, 100 * SE), -100 * mixed_means(ERROR, SE), rtol=1e-9)
    mean = np.average(ERROR, weights=SE**-2.0)
    np.testing.assert_allclose(mixed_means(ERROR + 99, SE) - 99, mixed_means(ERROR - mean + 99, SE) - 99 + mean)


def test_the_mixture_knows_that_most_models_are_right_on_average() -> None:
    """One of several groups has an error: the others stay closer to 0 than with shrinkage to the common mean."""
    error, se = np.array([0.6, 0.0, 0.0, 0.0]), np.full(4, 0.1)
    mixed, heavy = mixed_means(error, se), heavy_means(error, se)
    assert mixed[0] > 0.5
    assert np.abs(mixed[1:]).max() < np.abs(heavy[1:]).max()


@pytest.mark.parametrize("means", [mixed_means, heavy_means])
def test_one_group_that_is_known_exactly_does_not_pull_the_others_along(means: Any) -> None:
    error, se = np.array([0.13, 0.0, 0.0]), np.array([1e-6, 0.02, 0.02])
    assert np.abs(means(error, se) - error).max() < 0.01


def test_many_samples_at_once_are_single_ones() -> None:
    samples = ERROR + np.random.default_rng(0).normal(size=(7, 5)) * SE
    for name in ("empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture", "significant"):
        each = [correction(name, Detected(sample, SE)) for sample in samples]
        np.testing.assert_allclose(correction(name, Detected(samples, SE)), each, rtol=1e-12)
    each = [correction(lambda error, se: error.mean() * se, Detected(sample, SE)) for sample in samples]
    np.testing.assert_allclose(correction(lambda error, se: error.mean() * se, Detected(samples, SE)), each)


def test_the_least_squared_risk_is_mse_plus() -> None:
    squared = iso.least_risk(lambda truth, subtracted: (truth - subtracted) ** 2)
    expected = factor("mse_plus", Detected(ERROR, SE))
    np.testing.assert_allclose(squared(ERROR, SE) / ERROR, expected, atol=0.0051)  # shares are whole hundredths


def test_the_least_risk_of_a_loss_of_ones_own() -> None:
    """A loss that punishes corrections that go too far four times as much, minimized with quadrature by scipy."""

    def loss(truth: FloatArray, subtracted: FloatArray) -> FloatArray:
        left = truth - subtracted
        return np.where(left < 0, -4 * left, left)

    def risk(share: float, error: float, se: float) -> float:
        def integrand(x: float) -> float:
            return float(loss(np.array(error), np.array(share * x))) * float(stats.norm.pdf(x, error, se))

        return float(integrate.quad(integrand, error - 8 * se, error + 8 * se, points=[error], limit=200)[0])

    chosen = iso.least_risk(loss)
    assert name_of(chosen) == "least_risk(loss)"
    shares = chosen(ERROR[:2], SE[:2]) / ERROR[:2]
    for share, error, se in zip(shares, ERROR[:2], SE[:2], strict=True):
        best = optimize.minimize_scalar(risk, bounds=(0, 1), args=(error, se), method="bounded")
        assert share == pytest.approx(best.x, abs=0.011)


def test_the_law_of_a_gain_is_not_lighter_than_that_of_the_squares_it_is_made_of() -> None:
    """With one group and its whole error subtracted, the gain over many splits is m^2 - 3/2, m being the mean.

    Half of the rows have a standard error of 1, all of them one of sqrt(1/2). The strategy gains nothing on average if
    the squared error is 1. The law in use adds the noise of a single split, so its p-values are larger.
    """
    law = NormalErrors(Detected(np.array([3.0]), np.ones(1), np.full(1, np.inf)), np.zeros((1, 1)), 1, False)
    gains = (1 + np.random.default_rng(3).normal(0, np.sqrt(0.5), 400_000)) ** 2 - 1.5
    for decrease in (1.0, 2.0, 4.0, 7.0):
        pvalues = [less_bias(decrease, "mean", [law], 0.05, np.random.default_rng(i)) for i in range(40)]
        true = float((gains >= decrease).mean())
        assert 0.9 * true <= np.mean(pvalues) <= 2.5 * true
    rng = np.random.default_rng(0)
    assert less_bias(-1.0, "mean", [law], 0.05, rng) == 1
    assert less_bias(5.0, "none", [law], 0.05, rng) == 1


def test_the_law_of_a_gain_has_no_unit() -> None:
    values, se, others = np.array([2.0, -1.0, 0.5]), np.array([0.5, 0.8, 1.0]), (1 - np.eye(3)) / 2
    pvalues = []
    for unit in (1.0, 100.0):
        law = NormalErrors(Detected(unit * values, unit * se, np.full(3, np.inf)), others, 3, False)
        pvalues.append(less_bias(unit**2 * 1.5, "positive_part", [law], 0.05, np.random.default_rng(1)))
    assert pvalues[0] == pytest.approx(pvalues[1], rel=1e-9)
