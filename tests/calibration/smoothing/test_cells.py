"""Rows by bins of the score, and samples drawn again."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.cells import COARSE, FINE, SUMS, Bins, Cells, above, resampled
from support.cells import cells


@pytest.mark.parametrize(
    ("low", "high", "present"), [(0.0, 1.0, 0.3), (-5.0, 3.0, 2.9), (0.0, 1.0, 7.0), (2.0, 2.0, 2.0)]
)
def test_the_present_threshold_is_an_edge(low: float, high: float, present: float) -> None:
    bins = Bins.of(low, high, present)
    for one in (bins, bins.joined):
        assert one.edges[one.before] == present
        assert one.edges[0] <= low
        assert one.edges[-1] >= high
        assert one.edges.size == one.size + 1 == one.centres.size + 1
    assert (bins.size, bins.joined.size) == (FINE, COARSE)


def test_sums_from_each_edge_up() -> None:
    assert above(np.array([[1.0, 2.0, 4.0]])).tolist() == [[7.0, 6.0, 4.0, 0.0]]


def test_joined_and_pooled_cells_have_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    one = cells(rng.random(500), rng.integers(0, 2, 500).astype(float))
    two = Cells(one.bins, *(np.concatenate([getattr(one, name)] * 2) for name in SUMS))
    for name in SUMS:
        np.testing.assert_allclose(getattr(two.joined, name).sum(axis=-1), getattr(two, name).sum(axis=-1))
        np.testing.assert_allclose(getattr(two.pooled(np.array([0, 0])), name), 2 * getattr(one, name))
        np.testing.assert_allclose(getattr(two.pooled(np.array([-1, 0])), name), getattr(one, name))


@pytest.mark.parametrize("binary", [True, False])
def test_samples_vary_as_rows_do(binary: bool) -> None:
    """The mean outcome of samples drawn again has the standard error of a mean."""
    rng = np.random.default_rng(0)
    score = rng.random(2_000)
    outcome = (rng.random(2_000) < score).astype(float) if binary else rng.normal(score, 2.0)
    means = [float(c.total.sum() / c.known.sum()) for c in resampled(cells(score, outcome), None, 400, rng)]
    assert np.mean(means) == pytest.approx(outcome.mean(), abs=0.2 * outcome.std() / np.sqrt(2_000))
    assert np.std(means) == pytest.approx(outcome.std() / np.sqrt(2_000), rel=0.12)


def test_parts_are_drawn_as_wholes() -> None:
    rng = np.random.default_rng(0)
    each = [cells(rng.random(20), np.full(20, float(k % 2))).joined for k in range(50)]
    parts = Cells(each[0].bins, *(np.stack([getattr(one, name) for one in each]) for name in SUMS))
    means = [float(c.total.sum() / c.known.sum()) for c in resampled(each[0], parts, 400, rng)]
    assert np.std(means) == pytest.approx(0.5 / np.sqrt(50), rel=0.12)  # 50 parts, not 1,000 rows
