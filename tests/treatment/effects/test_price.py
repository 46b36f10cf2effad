"""Qini, loss and policy value against sums by hand, and their standard errors against the spread of estimates."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.price import loss, policy_value, qini, scores, standard_error

ONES = np.ones(4)


def test_quantities_by_hand() -> None:
    z, f = np.array([4.0, 2.0, 0.0, -2.0]), np.array([0.9, 0.7, 0.3, 0.1])
    # Shares ranked above: 1/8, 3/8, 5/8, 7/8, ties with oneself half.
    assert qini(z, f, ONES).value == pytest.approx((4 * 3 / 8 + 2 / 8 + 2 * 3 / 8) / 4)
    assert policy_value(z, f, ONES, 0.5).value == pytest.approx(6 / 4)
    assert policy_value(z, f, ONES, 0.375).value == pytest.approx((4 + 2 * 0.5) / 4)
    assert loss(z, f, ONES).value == pytest.approx(np.mean((z - f) ** 2))


def test_ties_are_treated_at_random() -> None:
    z = np.array([4.0, 2.0, 0.0, -2.0])
    assert qini(z, ONES, ONES).value == pytest.approx(0)
    assert policy_value(z, ONES, ONES, 0.25).value == pytest.approx(0.25 * z.mean())


def test_lines_stand_for_rows() -> None:
    rng = np.random.default_rng(0)
    z, f, k = rng.normal(size=50), rng.integers(0, 9, 50).astype(float), rng.integers(1, 4, 50)
    counted = scores(z, f, f, k.astype(float), 0.3)
    repeated = scores(np.repeat(z, k), np.repeat(f, k), np.repeat(f, k), np.ones(k.sum()), 0.3)
    for one, two in zip(counted[:2], repeated[:2], strict=True):
        assert one.value == pytest.approx(two.value)
        assert standard_error(one.influence, k.astype(float)) == pytest.approx(
            standard_error(two.influence, np.ones(k.sum()))
        )


def sample(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    x = rng.random(n)
    return x + 3 * rng.standard_normal(n), x + 0.3 * rng.standard_normal(n), x + 0.6 * rng.standard_normal(n)


def test_standard_errors_are_the_spread_of_paired_changes() -> None:
    """600 tables: the spread of a standard deviation is 3 %."""
    rng = np.random.default_rng(1)
    changes, errors = [], []
    for _ in range(600):
        z, one, two = sample(rng, 400)
        pairs = list(zip(*(scores(z, f, f, np.ones(400), 0.3) for f in (one, two)), strict=True))
        changes.append([b.value - a.value for a, b in pairs])
        errors.append([standard_error(b.influence - a.influence, np.ones(400)) for a, b in pairs])
    spread = np.std(changes, axis=0, ddof=1)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)) / spread, 1, atol=0.12)
