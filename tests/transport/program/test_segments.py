"""Rows behind the program: sorted into segments that lose nobody, and the nearest that flip first."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.transport.program.segments import SingleRows, SortedRows, fractions, smallest


@pytest.mark.parametrize("weighted", [False, True])
def test_splitting_loses_no_row_and_no_distance(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    distance, group = np.round(rng.exponential(size=5_000), 2), rng.integers(0, 3, 5_000)
    distance[::50] = np.inf
    weight = rng.integers(1, 4, 5_000).astype(float) if weighted else None
    mass = np.ones(5_000) if weight is None else weight
    finite = np.isfinite(distance)
    rows = SortedRows(distance, group, 3, weight)
    segments = rows.coarse()
    for _ in range(6):
        assert segments.count.sum() == mass[finite].sum()
        assert segments.count @ segments.cost == pytest.approx(mass[finite] @ distance[finite], rel=1e-12)
        wide = segments.low < segments.high
        segments = segments.where(~wide) + rows.split(segments.where(wide)) if wide.any() else segments
    assert (segments.low == segments.high).all()
    single = SingleRows(distance[finite], group[finite], None if weight is None else weight[finite]).coarse()
    assert single.exact
    assert single.count.sum() == segments.count.sum()


def test_the_nearest_flip_first_and_the_last_in_part() -> None:
    distance, group = np.array([0.3, 0.1, 0.2, np.inf, 0.1]), np.array([0, 0, 0, 0, 1])
    assert fractions(distance, group, np.array([1.5, 0.0])).tolist() == [0.0, 1.0, 0.5, 0.0, 0.0]
    weight = np.array([1.0, 2.0, 4.0, 1.0, 1.0])
    assert fractions(distance, group, np.array([3.0, 0.5]), weight).tolist() == [0.0, 1.0, 0.25, 0.0, 0.5]


def test_the_smallest_and_their_ties() -> None:
    values = np.array([3.0, 1.0, 2.0, 1.0, 5.0, 4.0, 6.0, 7.0])
    assert set(smallest(values, 1)) == {1, 3}
    assert smallest(values, 8).size == 8
