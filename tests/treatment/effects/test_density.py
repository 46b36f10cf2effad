"""Kernel densities against scipy's, on one axis in standard deviations of the first sample."""

from __future__ import annotations

import numpy as np
from scipy import stats

from isonomy.treatment.effects.density import REACH, Densities, density, silverman


def test_a_density_is_scipys_with_the_same_bandwidth() -> None:
    sample = np.random.default_rng(0).normal(size=2_000)
    at = np.linspace(-3, 3, 31)
    kernel = stats.gaussian_kde(sample, bw_method=2 * silverman(sample) / np.std(sample, ddof=1))
    np.testing.assert_allclose(density(sample, at), kernel(at), atol=2e-4)  # values are binned


def test_samples_share_the_unit_of_the_first() -> None:
    rng = np.random.default_rng(1)
    wide, narrow = 5 * rng.normal(size=4_000), rng.normal(size=4_000)
    both = Densities.of([np.append(wide, np.nan), narrow])
    assert both.scale == np.std(wide)
    assert (both.at[0], both.at[-1]) == (-REACH, REACH)
    step = both.at[1] - both.at[0]
    np.testing.assert_allclose(both.density.sum(1) * step, 1, atol=0.01)
    assert both.density[1].max() > 3 * both.density[0].max()


def test_nothing_to_draw() -> None:
    for sample in (np.array([]), np.array([np.nan]), np.ones(5)):
        empty = Densities.of([sample, np.arange(3.0)])
        assert np.isnan(empty.scale)
        assert np.isnan(empty.density).all()
    assert np.isnan(density(np.ones(5), np.zeros(2))).all()
