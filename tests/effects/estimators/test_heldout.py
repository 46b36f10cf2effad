"""Densities of the remaining bias."""

from __future__ import annotations

import numpy as np
from scipy import stats

from isonomy.effects.estimators.shrinkage import REACH, densities, density


def test_a_density_is_scipys_with_the_same_bandwidth() -> None:
    sample = np.random.default_rng(0).normal(size=2_000)
    points = np.linspace(-3, 3, 31)
    width = 2 * 0.9 * min(np.std(sample), stats.iqr(sample) / 1.34) * 2_000**-0.2
    kernel = stats.gaussian_kde(sample, bw_method=width / np.std(sample, ddof=1))
    np.testing.assert_allclose(density(sample, points), kernel(points), atol=2e-4)  # values are binned


def test_samples_share_the_unit_of_the_first() -> None:
    rng = np.random.default_rng(1)
    wide, narrow = 5 * rng.normal(size=4_000), rng.normal(size=4_000)
    at, both, scale = densities([np.append(wide, np.nan), narrow])
    assert scale == np.std(wide)
    assert (at[0], at[-1]) == (-REACH, REACH)
    np.testing.assert_allclose(both.sum(1) * (at[1] - at[0]), 1, atol=0.01)
    assert both[1].max() > 3 * both[0].max()


def test_nothing_to_draw() -> None:
    for sample in (np.array([]), np.array([np.nan]), np.ones(5)):
        _, empty, scale = densities([sample, np.arange(3.0)])
        assert np.isnan(scale)
        assert np.isnan(empty).all()
    assert np.isnan(density(np.ones(5), np.zeros(2))).all()
