"""Sums without the rows: power series and sketches."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.groups.likelihood.means import ORDER, sketch
from support.groups import real


def test_power_series_and_rows_give_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    group = real(rng.normal(size=20_000))
    w = np.array([0.01, -0.02, 0.03]) / np.sqrt(group.variance[0])
    index = np.zeros(3, dtype=int)
    series, enough = group.moments.sums(w, index)
    assert enough.all()
    np.testing.assert_allclose(series, group.exact(w, index), rtol=1e-11)


def test_power_series_is_refused_where_its_remainder_is_not_negligible() -> None:
    rng = np.random.default_rng(0)
    group = real(rng.lognormal(0, 3, size=5_000))
    w = 0.9 / group.moments.radius
    assert not group.moments.sums(w, np.array([0]))[1].any()
    assert ORDER % 2 == 0  # the bound on the remainder needs an even last power


@pytest.mark.parametrize("away", [0.05, -0.05, 0.3])
def test_a_sketched_rest_agrees_with_its_rows(away: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far from the estimate the power series gives up; the sketch must give the same statistic as all rows."""
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(20), 400)
    groups = real(rng.exponential(size=8000), codes)
    index = np.array([3])
    target = groups.rest().mean[index] + away
    expected = groups.rest().statistic(target, index)
    monkeypatch.setattr("isonomy.groups.likelihood.means.SKETCHED", 100)
    monkeypatch.setattr("isonomy.groups.likelihood.means.REMAINDER", 0.0)
    assert groups.rest().statistic(target, index) == pytest.approx(expected, rel=1e-6)


def test_a_sketch_has_nearly_the_same_smooth_sums() -> None:
    x = np.random.default_rng(0).exponential(size=50_000)
    values, mass = sketch(x, None)
    assert values.size < 5_000
    assert np.sum(mass / (1 + values)) == pytest.approx(np.sum(1 / (1 + x)), rel=1e-9)
