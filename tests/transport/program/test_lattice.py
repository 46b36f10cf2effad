"""Lattices spread over their steps, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.numerics.arrays import FloatArray
from isonomy.transport.program.cells import Cells
from isonomy.transport.program.lattice import spread_out

# Two cells: refused and selected.
CELLS = Cells(np.array([90.0, 90.0]), np.array([0, 1]), None, (), (), np.empty((2, 0)))


def places(
    refused: list[float], selected: list[float], rows: float = 30.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    cell = np.repeat([0, 1], [len(refused), len(selected)])
    parts = spread_out(CELLS, cell, np.array([*refused, *selected]), np.full(cell.size, rows))
    assert parts is not None
    return parts[0], np.asarray(parts[1], dtype=float), parts[2]


@pytest.mark.parametrize("threshold", [0.0, 0.03, 0.1])
def test_rows_fill_the_steps_whichever_side_the_threshold_is_on(threshold: float) -> None:
    """Scores ..., -0.2, -0.1, 0, 0.1, ...: any threshold above -0.1 and up to 0 decides alike."""
    shift = threshold - 0.1
    distance, cell, mass = places([0.1 * k + shift for k in (1, 2, 3)], [0.1 * k - shift for k in (0, 1, 2)])
    for side in (0, 1):
        here = np.sort(distance[cell == side])
        assert here == pytest.approx((np.arange(90) + 0.5) * 0.3 / 90)
    assert mass.sum() == 180


def test_rows_that_cannot_move_stay() -> None:
    distance, _, mass = places([0.1, 0.2, 0.3, np.inf], [0.0, 0.1, 0.2])
    assert mass[np.isinf(distance)].tolist() == [30.0]


@pytest.mark.parametrize(
    ("refused", "selected", "rows"),
    [
        ([0.1, 0.2], [0.0, 0.1, 0.2], 30.0),  # too few places
        ([0.1, 0.2, 0.3], [0.0, 0.1, 0.3, 0.9], 30.0),  # steps that differ
        ([0.1, 0.2, 0.3], [0.0, 0.2, 0.4], 30.0),  # from side to side
        ([0.1, 0.2, 0.3], [0.0, 0.1, 0.2], 1.0),  # nobody shares a place
    ],
)
def test_what_is_no_lattice(refused: list[float], selected: list[float], rows: float) -> None:
    cell = np.repeat([0, 1], [len(refused), len(selected)])
    assert spread_out(CELLS, cell, np.array([*refused, *selected]), np.full(cell.size, rows)) is None


def test_heaped_scores_are_no_lattice() -> None:
    cell, distance = np.repeat([0, 1], 5), np.tile(np.arange(5) + 0.5, 2)
    for heap, lattice in ((40.0, True), (300.0, False)):
        count = np.where(distance == 2.5, heap, 40.0)
        assert (spread_out(CELLS, cell, distance, count) is not None) == lattice


def test_many_rows_cost_no_more_than_their_places() -> None:
    distance, _, mass = places([0.1, 0.2, 0.3], [0.0, 0.1, 0.2], rows=1e12)
    assert distance.size <= 2**20
    assert mass.sum() == pytest.approx(6e12)
