"""Robust empirical Bayes: reference values of an independent program, a linear program, and properties."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats

from isonomy.groups.likelihood.shrinkage import critical_value, rate_variance, shrink_means
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.shrinkage import weighted_fit

# Rows and selected of 3 x 2 x 4 groups, the last column fastest; all values below are from an independent program.
ROWS = np.array([8, 47, 40, 28, 28, 52, 8, 43, 15, 9, 33, 58, 45, 46, 44, 48, 32, 11, 51, 29, 32, 24, 14, 55.0])
SELECTED = np.array([1, 19, 10, 10, 7, 14, 3, 12, 5, 3, 8, 14, 8, 6, 6, 5, 14, 5, 25, 14, 8, 7, 2, 20.0])
RATE = SELECTED / ROWS
SHOWN = [0, 1, 23]


def main_effects() -> FloatArray:
    groups = np.array(list(product(range(3), range(2), range(4))))
    levels = [groups[:, i] == level for i, size in enumerate((3, 2, 4)) for level in range(1, size)]
    return np.column_stack([np.ones(24), *levels]).astype(float)


def test_main_effects_have_the_reference_values() -> None:
    design = main_effects()
    variance = rate_variance(RATE, ROWS, design)
    columns, beyond, equal = shrink_means(RATE, variance, design, 0.05)
    assert variance[SHOWN] == pytest.approx([0.028929, 0.004982, 0.003994], abs=5e-7)
    assert columns["weight"][SHOWN] == pytest.approx([0.015345, 0.082979, 0.101432], abs=5e-7)
    assert columns["expected"][SHOWN] == pytest.approx([0.363413, 0.374669, 0.326040], abs=5e-7)
    assert columns["shrunk"][SHOWN] == pytest.approx([0.359755, 0.377124, 0.329854], abs=5e-7)
    half = (columns["ci_high"] - columns["ci_low"])[SHOWN] / 2
    assert half == pytest.approx([0.127074, 0.106565, 0.101775], abs=5e-7)
    coefficients = np.linalg.lstsq(design, columns["expected"], rcond=None)[0]
    reference = [0.363413, -0.102798, 0.081275, -0.119611, 0.011256, -0.020018, 0.000964]
    assert coefficients == pytest.approx(reference, abs=5e-7)
    # Between groups, Paule and Mandel give 0; the weights then follow from the floor.
    weight, v = columns["weight"][0], variance[0]
    assert equal
    assert weight * v / (1 - weight) == pytest.approx(0.000450835, abs=5e-10)
    assert weighted_fit(design, RATE, 1 / variance)[1][SHOWN] == pytest.approx([0.002294, 0.001759, 0.001629], abs=5e-7)
    assert beyond.df == 17
    assert beyond.pvalue == pytest.approx(stats.chi2.sf(beyond.Q, 17))


def test_the_mean_has_the_reference_values() -> None:
    design = np.ones((24, 1))
    variance = rate_variance(RATE, ROWS, design)
    columns, _, equal = shrink_means(RATE, variance, design, 0.05)
    assert columns["expected"] == pytest.approx(np.full(24, 0.285179), abs=5e-7)
    assert variance[[0, 23]] == pytest.approx([0.025337, 0.003685], abs=5e-7)
    assert columns["weight"][[0, 23]] == pytest.approx([0.208590, 0.644384], abs=5e-7)
    assert columns["shrunk"][[0, 23]] == pytest.approx([0.251767, 0.335736], abs=5e-7)
    half = (columns["ci_high"] - columns["ci_low"])[[0, 23]] / 2
    assert half == pytest.approx([0.235306, 0.102700], abs=5e-7)
    between = columns["weight"] * variance / (1 - columns["weight"])
    assert between == pytest.approx(np.full(24, 0.006677923), abs=5e-10)
    assert not equal


def test_critical_values_are_the_published_ones() -> None:
    moment = [0, 0.1, 0.25, 0.5, 1, 2, 4, 9, 25, 100]
    asked = [1.959964, 2.064542, 2.226654, 2.523461, 3.259199, 4.815362, 7.216351, 11.464010, 20.158295, 42.220112]
    assert critical_value(moment, 0.05) == pytest.approx(asked, abs=1e-6)
    assert critical_value([0.25, 1, 4], 0.10) == pytest.approx([1.840037, 2.403387, 4.815321], abs=1e-6)


@pytest.mark.parametrize(("moment", "alpha"), [(0.3, 0.05), (2.0, 0.05), (8.0, 0.1), (0.5, 0.3)])
def test_critical_values_solve_the_linear_program(moment: float, alpha: float) -> None:
    """The largest P(|Z + b| > c) over laws of b on a grid with this second moment is alpha."""
    grid = np.linspace(0.0, 15.0, 3_001)
    c = float(critical_value(moment, alpha)[0])
    beyond = stats.norm.sf(c - grid) + stats.norm.cdf(-c - grid)
    worst = optimize.linprog(-beyond, A_eq=[np.ones(grid.size), grid**2], b_eq=[1.0, moment])
    assert worst.fun is not None
    assert -worst.fun == pytest.approx(alpha, abs=2e-5)


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
def test_no_two_point_law_exceeds_the_error_rate(alpha: float) -> None:
    """The worst law has b = 0 or one other value, so the largest of these probabilities is alpha."""
    for moment in np.geomspace(1e-3, 1e9, 25):
        c = float(critical_value(moment, alpha)[0])
        far = np.unique(np.r_[moment, np.linspace(np.sqrt(moment), c + 10.0, 20_001) ** 2])
        far, share = far[far >= moment], moment / far[far >= moment]
        beyond = [stats.norm.sf(c - b) + stats.norm.sf(c + b) for b in (0.0, np.sqrt(far))]
        worst = float(((1 - share) * beyond[0] + share * beyond[1]).max())
        assert worst == pytest.approx(alpha, rel=1e-3)


def test_dependent_columns_change_nothing() -> None:
    design = main_effects()
    doubled = np.column_stack([design, design[:, 1] + design[:, 2]])
    fit, error = weighted_fit(doubled, RATE, ROWS)
    plain, plain_error = weighted_fit(design, RATE, ROWS)
    assert fit == pytest.approx(plain, abs=1e-12)
    assert error == pytest.approx(plain_error, abs=1e-12)


@pytest.mark.parametrize("selected", [np.zeros(24), ROWS])
def test_rates_without_cases_have_a_variance(selected: FloatArray) -> None:
    design = np.ones((24, 1))
    variance = rate_variance(selected / ROWS, ROWS, design)
    assert (variance > 0).all()
    columns, beyond, equal = shrink_means(selected / ROWS, variance, design, 0.05)
    assert equal
    assert pytest.approx(0.0, abs=1e-12) == beyond.Q
    assert columns["shrunk"] == pytest.approx(selected / ROWS, abs=1e-12)


def test_cases_and_others_are_treated_alike() -> None:
    design = main_effects()
    of_cases, of_others = (rate_variance(rate, ROWS, design) for rate in (RATE, 1 - RATE))
    assert of_cases == pytest.approx(of_others, rel=1e-9)
    cases, others = (shrink_means(rate, of_cases, design, 0.05)[0] for rate in (RATE, 1 - RATE))
    assert cases["shrunk"] == pytest.approx(1 - others["shrunk"], abs=1e-12)
    assert cases["ci_low"] == pytest.approx(1 - others["ci_high"], abs=1e-12)
