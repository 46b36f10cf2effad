"""Influence on a disparity: the derivative of the disparity in a row's mass, times the mass of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.groups.likelihood import functionals as influence
from isonomy.groups.likelihood.means import Real
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.ragged import Ragged

RNG = np.random.default_rng(5)
VALUE, CODES, MASS = RNG.normal(2.0, 1.0, 40), RNG.integers(0, 3, 40), RNG.random(40) + 0.5
INSIDE = np.ones(40, dtype=bool)


def own(mass: FloatArray) -> Real:
    return Real(Ragged.from_codes(CODES, 3, VALUE, weights=mass))


def disparities(mass: FloatArray, kind: str) -> FloatArray:
    means = np.array([np.average(VALUE[g == CODES], weights=mass[g == CODES]) for g in range(3)])
    if kind == "alone":
        return means - 1.0
    if kind == "population":
        return means - np.average(VALUE, weights=mass)
    return means - np.array([np.average(VALUE[g != CODES], weights=mass[g != CODES]) for g in range(3)])


@pytest.mark.parametrize("kind", ["alone", "population", "rest"])
def test_influence_is_the_derivative_in_the_mass(kind: str) -> None:
    means = own(MASS)
    mean = np.average(VALUE, weights=MASS)
    formed = {
        "alone": lambda: influence.alone(CODES, VALUE, means, 3),
        "population": lambda: influence.against(CODES, VALUE, means, 3, (VALUE - mean) / MASS.sum()),
        "rest": lambda: influence.against_rest(CODES, VALUE, means, 3, INSIDE),
    }[kind]()
    values = formed.own.toarray().real + formed.base @ formed.loading
    step = 1e-6
    for row in range(0, 40, 7):
        more = MASS.copy()
        more[row] += step
        slope = (disparities(more, kind) - disparities(MASS, kind)) / step
        assert values[row] == pytest.approx(slope, abs=1e-6)
