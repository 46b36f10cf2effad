"""Influence on a disparity: its derivative in a row's mass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isonomy.frames import Group, Partition
from isonomy.groups.likelihood.comparison import ComparedGroups
from isonomy.groups.likelihood.lines import MetricRows
from isonomy.groups.options import Reference, To
from isonomy.numerics.arrays import FloatArray

RNG = np.random.default_rng(5)
VALUE, CODES, MASS = RNG.normal(2.0, 1.0, 40), RNG.integers(0, 3, 40), RNG.random(40) + 0.5
KINDS = [Reference(To.NUMBER, False, value=1.0), Reference(To.POPULATION, True), Reference(To.REST, True)]


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
    common |= {"design": None, "whole": None, "roles": {}, "lines_kept": np.arange(40)}
    sizes = (np.bincount(CODES).astype(float),)
    sums = MetricRows(
        False, VALUE, MASS, measure=measure, partitions=(partition,), sizes=sizes, rows=40, used=40, **common
    )
    options: dict[str, Any] = {"method": "el", "correction": None, "resamples": 100, "rng": RNG, "min_size": 1}
    options |= {"size": sizes[0], "places": slice(0, 3)}
    part = ComparedGroups(sums=sums, partition=partition, reference=reference, **options).prepared()
    values = part.influence().dense()
    step = 1e-6
    for row in range(0, 40, 7):
        more = MASS.copy()
        more[row] += step
        slope = (disparities(more, reference.to) - disparities(MASS, reference.to)) / step
        assert values[row] == pytest.approx(slope, abs=1e-6)
