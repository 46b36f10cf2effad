"""Bandwidths and local lines."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.kernels import Bandwidth, local_linear, polynomial, published
from isonomy.errors import UsageError

AXIS = Axis.of(0.0, 1.0)


def test_the_published_rule() -> None:
    """max(1.06 sqrt(s (1 - s)) n^(-1/5), n^(-1/5)/10), at n = 32: n^(-1/5) = 1/2."""
    np.testing.assert_allclose(published(np.array([0.0, 0.5]), 32.0, AXIS), [0.05, 0.265])
    wide = Axis.of(0.0, 10.0)
    np.testing.assert_allclose(published(np.array([0.0, 5.0]), 32.0, wide), [0.5, 2.65])


def test_own_bandwidths_are_one_or_one_per_point() -> None:
    grid = np.array([0.2, 0.8])
    np.testing.assert_array_equal(Bandwidth.of(AXIS, 100.0, 0.1, grid).at(np.array([0.3, 0.5, 0.9])), [0.1] * 3)
    np.testing.assert_allclose(
        Bandwidth.of(AXIS, 100.0, [0.1, 0.2], grid).at(np.array([0.2, 0.5, 0.9])), [0.1, 0.15, 0.2]
    )
    for wrong in ([0.1, 0.2, 0.3], 0.0, np.array([0.1, np.nan])):
        with pytest.raises(UsageError, match=r"^bandwidth: .*each of the 2 grid points"):
            Bandwidth.of(AXIS, 100.0, wrong, grid)


def test_a_local_line_follows_a_line_to_the_ends() -> None:
    weight = np.ones(AXIS.centres.size)
    curve = local_linear(AXIS, weight, 2 + 3 * AXIS.centres, np.full(AXIS.centres.size, 0.01))
    np.testing.assert_allclose(curve(np.array([0.01, 0.5, 0.99])), [2.03, 3.5, 4.97], atol=1e-6)


def test_a_polynomial_has_its_constant_first() -> None:
    np.testing.assert_array_equal(polynomial((1.0, 2.0, 3.0), np.array([0.0, 2.0])), [1.0, 17.0])
