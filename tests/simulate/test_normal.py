"""The bivariate normal tail against scipy's own algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.simulate import normal


def test_bivariate_normal_tail_against_scipy() -> None:
    """scipy's own algorithm (Genz), to 1e-10."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        a, b, r = *rng.normal(0, 1.5, 2), rng.uniform(-0.99, 0.99)
        known = stats.multivariate_normal.cdf([-a, -b], mean=[0, 0], cov=[[1, r], [r, 1]])
        assert float(normal.both_above(a, b, r)) == pytest.approx(known, abs=1e-10)
