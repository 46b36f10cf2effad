"""Rows in memory: segments that lose no row, sums at the boundary, and lattices spread over their steps."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.frames import Group, Partition, Sample
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.projection.program.criteria import DecisionCells
from isonomy.projection.program.solve import SingleRows, SortedRows, fractions
from isonomy.projection.read import MeasuredArrays, robust, smooth


@pytest.mark.parametrize("weighted", [False, True])
def test_splitting_loses_no_row_and_no_distance(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    distance, group = np.round(rng.exponential(size=5_000), 2), rng.integers(0, 3, 5_000)
    distance[::50] = np.inf
    weight = rng.integers(1, 4, 5_000).astype(float) if weighted else None
    mass = np.ones(5_000) if weight is None else weight
    finite = np.isfinite(distance)
    rows = SortedRows(distance, group, 3, weight)
    segments = rows.coarse
    for _ in range(6):
        assert segments.count.sum() == mass[finite].sum()
        assert segments.count @ segments.cost == pytest.approx(mass[finite] @ distance[finite], rel=1e-12)
        wide = segments.low < segments.high
        segments = segments.where(~wide) + rows.split(segments.where(wide)) if wide.any() else segments
    assert (segments.low == segments.high).all()
    single = SingleRows(distance[finite], group[finite], None if weight is None else weight[finite]).coarse
    assert (single.low == single.high).all()
    assert single.count.sum() == segments.count.sum()


def test_the_nearest_flip_first_and_the_last_in_part() -> None:
    distance, group = np.array([0.3, 0.1, 0.2, np.inf, 0.1]), np.array([0, 0, 0, 0, 1])
    assert fractions(distance, group, np.array([1.5, 0.0])).tolist() == [0.0, 1.0, 0.5, 0.0, 0.0]
    weight = np.array([1.0, 2.0, 4.0, 1.0, 1.0])
    assert fractions(distance, group, np.array([3.0, 0.5]), weight).tolist() == [0.0, 1.0, 0.25, 0.0, 0.5]


def drawn(distance: FloatArray) -> tuple[MeasuredArrays, FloatArray]:
    rng = np.random.default_rng(1)
    decision, outcome = rng.integers(0, 2, distance.size), rng.integers(0, 2, distance.size)
    groups = tuple(Group.from_mapping({"group": level}) for level in "ab")
    partition = Partition(("group",), groups, rng.integers(0, 2, distance.size))
    sample = Sample({"outcome": outcome, "prediction": decision}, None, (partition,), {}, distance.size)
    cells = DecisionCells(sample)
    return MeasuredArrays(distance, cells.lines, cells), np.where(decision == 1, distance, -distance)


def test_the_spread_is_the_smaller_of_two() -> None:
    rows, _ = drawn(np.append(np.random.default_rng(0).exponential(size=999), 1e9))
    assert rows.spread < 3
    assert robust(2.0, 0.0, 0.0) == 2.0
    assert robust(2.0, -1.0, 1.0) == pytest.approx(2 / 1.3489795003921634)
    none, _ = drawn(np.full(10, np.inf))
    assert none.spread == 0.0


# Two cells: refused and selected.
CELLS = DecisionCells(Sample({"prediction": np.repeat([0, 1], 90)}, None, (), {}, 180))


def places(refused: list[float], selected: list[float], rows: float = 30.0) -> tuple[FloatArray, IntArray, FloatArray]:
    cell = np.repeat([0, 1], [len(refused), len(selected)])
    parts = smooth(CELLS, cell, np.array([*refused, *selected]), np.full(cell.size, rows))
    assert parts is not None
    assert parts.weight is not None
    return parts.distance, parts.cell, parts.weight


@pytest.mark.parametrize("threshold", [0.0, 0.03, 0.1])
def test_rows_fill_the_steps_whichever_side_the_threshold_is_on(threshold: float) -> None:
    """Scores ..., -0.2, -0.1, 0, 0.1, ...: any threshold above -0.1 and up to 0 gives the same decisions."""
    shift = threshold - 0.1
    distance, cell, mass = places([0.1 * k + shift for k in (1, 2, 3)], [0.1 * k - shift for k in (0, 1, 2)])
    for side in (0, 1):
        here = np.sort(distance[cell == side])
        assert here == pytest.approx((np.arange(90) + 0.5) * 0.3 / 90)
    assert mass.sum() == 180


@pytest.mark.parametrize(
    ("refused", "selected", "rows"),
    [
        ([0.1, 0.2], [0.0, 0.1, 0.2], 30.0),  # too few places
        ([0.1, 0.2, 0.3], [0.0, 0.1, 0.3, 0.9], 30.0),  # steps that differ
        ([0.1, 0.2, 0.3], [0.0, 0.2, 0.4], 30.0),  # steps that differ between the sides
        ([0.1, 0.2, 0.3], [0.0, 0.1, 0.2], 1.0),  # no shared positions
    ],
)
def test_what_is_no_lattice(refused: list[float], selected: list[float], rows: float) -> None:
    cell = np.repeat([0, 1], [len(refused), len(selected)])
    assert smooth(CELLS, cell, np.array([*refused, *selected]), np.full(cell.size, rows)) is None


def test_heaped_scores_are_no_lattice() -> None:
    cell, distance = np.repeat([0, 1], 5), np.tile(np.arange(5) + 0.5, 2)
    for heap, lattice in ((40.0, True), (300.0, False)):
        count = np.where(distance == 2.5, heap, 40.0)
        assert (smooth(CELLS, cell, distance, count) is not None) == lattice


def test_many_rows_cost_no_more_than_their_places() -> None:
    distance, _, mass = places([0.1, 0.2, 0.3], [0.0, 0.1, 0.2], rows=1e12)
    assert distance.size <= 2**20
    assert mass.sum() == pytest.approx(6e12)
