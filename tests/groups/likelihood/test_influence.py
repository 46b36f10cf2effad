"""Influence on a disparity: its derivative in a row's mass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isonomy.frames import Group, Partition
from isonomy.groups.likelihood.comparison import Solver
from isonomy.groups.likelihood.lines import Lines, MetricRows
from isonomy.groups.likelihood.reference import Reference, To
from isonomy.numerics.arrays import FloatArray

RNG = np.random.default_rng(5)
VALUE, CODES, MASS = RNG.normal(2.0, 1.0, 40), RNG.integers(0, 3, 40), RNG.random(40) + 0.5
KINDS = [Reference(To.NUMBER, False, number=1.0), Reference(To.POPULATION, True), Reference(To.REST, True)]


def disparities(mass: FloatArray, kind: To) -> FloatArray:
    means = np.array([np.average(VALUE[g == CODES], weights=mass[g == CODES]) for g in range(3)])
    if kind is To.NUMBER:
        return means - 1.0
    if kind is To.POPULATION:
        return means - np.average(VALUE, weights=mass)
    return means - np.array([np.average(VALUE[g != CODES], weights=mass[g != CODES]) for g in range(3)])


@pytest.mark.parametrize("reference", KINDS, ids=lambda reference: reference.to.value)
def test_influence_is_the_derivative_in_the_mass(reference: Reference) -> None:
    measure: Any = SimpleNamespace(functional="", binary=False, name="x")
    partition = Partition(("g",), tuple(Group((("g", g),)) for g in range(3)), CODES)
    common: dict[str, Any] = {"strata": None, "inside": None, "in_reference": None, "dropped": {}}
    lines, sizes = Lines(False, VALUE, MASS), (np.bincount(CODES).astype(float),)
    sums = MetricRows(measure=measure, lines=lines, partitions=(partition,), sizes=sizes, rows=40, used=40, **common)
    solver = Solver(sums, reference, "el", None, 100, np.random.default_rng(0)).with_sides(1)
    values = solver.influence(solver.sides[0]).dense()
    step = 1e-6
    for row in range(0, 40, 7):
        more = MASS.copy()
        more[row] += step
        slope = (disparities(more, reference.to) - disparities(MASS, reference.to)) / step
        assert values[row] == pytest.approx(slope, abs=1e-6)
