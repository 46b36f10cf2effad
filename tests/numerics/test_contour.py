"""The tail of a weighted sum of chi-squares as an integral over a path in the complex plane."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from isonomy.numerics import tails as contour

TINY = [0.9999, 0.5, 1e-3, 1e-12, 1e-50, 1e-200, 1e-290]


@pytest.mark.parametrize("df", [1, 3, 40, 1000])
def test_the_contour_itself_against_the_chi_square(df: Any) -> None:
    # The public function has a shortcut for one distinct weight; here the integral is used.
    x = np.asarray(stats.chi2.isf(TINY, df))
    log = contour.log_tail(x, np.ones(1), np.array([float(df)]))
    np.testing.assert_allclose(log, stats.chi2.logsf(x, df), rtol=1e-11)


def test_far_beyond_the_range_of_floats() -> None:
    log = contour.log_tail(np.array(5e4), np.array([0.5, 1.0]), np.array([2.0, 2.0]))
    assert log == pytest.approx(np.log(2) - 25_000, rel=1e-14)  # 2 exp(-x/2) - exp(-x)


def random_law(seed: Any) -> Any:
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 7)
    weights = np.sort(10.0 ** rng.uniform(-rng.choice([0.1, 1, 4]), 0, size))
    return weights, rng.choice([1.0, 1, 1, 2, 5, 50, 1000], size)


# One large weight and a nearly normal bulk: the integrand grows to the right.
BULKS = [([0.02, 0.32, 1.0], [5.0, 1000.0, 2.0]), ([0.15, 0.2, 0.8, 1.0], [1000.0, 50.0, 1.0, 1.0])]


@pytest.mark.parametrize("law", [*BULKS, *(random_law(seed) for seed in range(40))])
def test_the_value_does_not_depend_on_the_path(law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Cauchy's theorem: any admissible path and step gives the same number.
    weights, dfs = (np.array(v) for v in law)
    mean, sd = weights @ dfs, np.sqrt(2 * weights**2 @ dfs)
    x = np.concatenate([mean * np.geomspace(1e-4, 1, 6), mean + sd * np.array([-1, 0.01, 1, 3, 6, 10, 30, 100])])
    x = x[x > 0]
    usual = contour.log_tail(x, weights, dfs)
    monkeypatch.setattr(contour, "DIGITS", 60.0)
    monkeypatch.setattr(contour, "BEND", 0.1)
    np.testing.assert_allclose(np.expm1(usual - contour.log_tail(x, weights, dfs)), 0, atol=2e-11)
