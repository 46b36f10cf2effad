"""Weighted quantiles equal the quantiles of repeated values."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.numerics.resampling import quantiles

LEVELS = [0.0, 0.1, 0.5, 0.97, 1.0]


@pytest.mark.parametrize(("linear", "method"), [(True, "linear"), (False, "inverted_cdf")])
def test_quantiles_are_numpys(linear: bool, method: str) -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.normal(size=40).round(1), rng.integers(0, 4, 40)
    expected = np.quantile(np.repeat(values, weight), LEVELS, method=method)  # type: ignore[call-overload]
    np.testing.assert_allclose(quantiles(values, weight, LEVELS, linear=linear), expected, rtol=1e-14)
    assert quantiles(values, weight, 0.5, linear=linear) == pytest.approx(expected[2])


def test_the_unit_of_the_weights_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    values, weight = rng.normal(size=300), rng.integers(1, 9, 300)
    levels = np.arange(21) / 20
    np.testing.assert_array_equal(quantiles(values, weight / 7, levels), quantiles(values, weight, levels))
