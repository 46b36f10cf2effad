"""Densities of the remaining bias."""

from __future__ import annotations

import numpy as np
from scipy import stats

from isonomy.effects.estimators.shrinkage import density


def test_a_density_is_scipys_with_the_same_bandwidth() -> None:
    sample = np.random.default_rng(0).normal(size=2_000)
    points = np.linspace(-3, 3, 31)
    width = 2 * 0.9 * min(np.std(sample), stats.iqr(sample) / 1.34) * 2_000**-0.2
    kernel = stats.gaussian_kde(sample, bw_method=width / np.std(sample, ddof=1))
    np.testing.assert_allclose(density(sample, points), kernel(points), atol=2e-4)  # values are binned
