"""Distances as arrays: cells, kernel sums, ties and spread, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from isonomy.numerics.arrays import FloatArray
from isonomy.transport.program.cells import Attribute, Coding, total
from isonomy.transport.program.measured import MeasuredArrays, robust, tie


def drawn(distance: FloatArray) -> tuple[MeasuredArrays, FloatArray]:
    rng = np.random.default_rng(1)
    decision, outcome = rng.integers(0, 2, distance.size), rng.integers(0, 2, distance.size)
    coding = Coding((Attribute("group", ("a", "b"), ("group=a", "group=b")),), True, (), ())
    cell, codes = coding.dense(coding.code([rng.integers(0, 2, distance.size)], [outcome, decision], []))
    cells = coding.cells(codes, total(cell, None, codes.size))
    return MeasuredArrays(distance, cell, cells), np.where(decision == 1, distance, -distance)


def test_sums_at_the_boundary() -> None:
    rows, _ = drawn(np.random.default_rng(0).exponential(size=2_000))
    boundary = rows.boundary(0.3)
    assert rows.cells.count.size == 8
    assert boundary.near.sum() == (rows.distance <= 0.3).sum()
    assert boundary.kernel.sum() == pytest.approx(stats.norm.pdf(rows.distance / 0.3).sum(), rel=1e-12)
    assert boundary.tie == 0.0


def test_ties_are_told_apart_by_the_side_they_are_on() -> None:
    rows, signed = drawn(np.full(100, 0.1))
    n = np.array([(signed > 0).sum(), (signed < 0).sum()], dtype=float)
    assert rows.boundary(1.0).tie == pytest.approx((n**2).sum() / 100 - 1)
    assert tie(0.0, 0.0) == 0.0


def test_the_spread_is_the_smaller_of_two() -> None:
    rows, _ = drawn(np.append(np.random.default_rng(0).exponential(size=999), 1e9))
    assert rows.spread < 3
    assert robust(2.0, 0.0, 0.0) == 2.0
    assert robust(2.0, -1.0, 1.0) == pytest.approx(2 / 1.3489795003921634)
    none, _ = drawn(np.full(10, np.inf))
    assert none.spread == 0.0
