"""Local polynomials by weighted least squares, and which points are supported."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.memory import Memory
from isonomy.calibration.smoothing.sums import EFFECTIVE, EVENTS, Smoother, solve, support


def rows(n: int = 400, seed: int = 0) -> Memory:
    """Two groups of independent rows with 0/1 outcomes."""
    rng = np.random.default_rng(seed)
    score = rng.random(n)
    columns = {"key": np.repeat([0, 1], n // 2), "score": score, "outcome": (rng.random(n) < score).astype(float)}
    return Memory.of(columns, 2, None, None, Axis.of(0.0, 1.0), True)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_curves_are_weighted_least_squares(degree: int) -> None:
    held = rows()
    smoother = Smoother(np.array([0.3, 0.6]), np.array([0.1, 0.2]), degree)
    fit = solve(smoother, held.totals(smoother))
    for g in (0, 1):
        part = slice(held.offsets[g], held.offsets[g + 1])
        for j in (0, 1):
            u = (held.score[part] - smoother.points[j]) / smoother.width[j]
            expected = np.polynomial.polynomial.polyfit(u, held.outcome[part], degree, w=np.exp(-(u**2) / 4))
            np.testing.assert_allclose(fit.beta[:, g, j], expected, rtol=1e-8)


def test_a_point_far_from_every_row_is_not_supported() -> None:
    held = rows()
    smoother = Smoother(np.array([0.5, 9.0]), np.array([0.1, 0.1]))
    with np.errstate(all="ignore"):
        fit = solve(smoother, held.totals(smoother))
        effective, supported = support(fit, held.products(smoother, fit), binary=True)
    assert supported.tolist() == [[True, False]] * 2
    assert effective[0, 0] > 2 * EVENTS
    _, plain = support(fit, held.products(smoother, fit), binary=False)
    assert plain[:, 0].all() == (effective[:, 0] >= EFFECTIVE).all()
