"""Gradients against finite differences, through every formula that is built from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isonomy.treatment.effects.adjust import slopes
from isonomy.treatment.effects.collapse import COLLAPSES, CollapseName, Estimator, Formula, Measure, pieces
from isonomy.treatment.effects.moments import Moments
from isonomy.treatment.effects.smooth import Arms

COLUMNS = ("y", "yf", "y/f", "f", "h", "hf", "x:a", "x:b")


def moments() -> Moments:
    rng = np.random.default_rng(4)
    groups, width = 3, len(COLUMNS)
    rows = rng.gamma(2.0, 0.5, size=(groups, 2, 400, width)) + 0.2
    mean = rows.mean(2)
    cov = np.einsum("gani,ganj->gaij", rows - mean[:, :, None], rows - mean[:, :, None]) / 399
    return Moments(COLUMNS, np.array([[400.0, 300.0], [250.0, 500.0], [90.0, 80.0]]), mean, cov)


@pytest.mark.parametrize("estimator", ["arm_means", "regression"])
@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("collapse", COLLAPSES)
def test_gradients_are_derivatives(collapse: CollapseName, measure: Measure, estimator: Estimator) -> None:
    base = moments()
    formula = Formula(measure, collapse, estimator, ("x:a", "x:b"))
    adjust = slopes(base, formula)
    parts = pieces(Arms(base, adjust), formula)
    for part in ("predicted", "observed", "bottom"):
        smooth = getattr(parts, part)
        for group, arm, k in ((0, 0, 0), (1, 1, 1), (2, 0, 5), (0, 1, 2), (1, 0, 6), (2, 1, 7)):
            step = 1e-6
            moved = base.mean.copy()
            moved[group, arm, k] += step
            shifted = pieces(Arms(replace(base, mean=moved), adjust), formula)
            slope = (getattr(shifted, part).value[group] - smooth.value[group]) / step
            assert smooth.gradient[group, arm, k] == pytest.approx(slope, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("collapse", COLLAPSES)
def test_values_do_not_need_gradients(collapse: CollapseName) -> None:
    formula = Formula(collapse=collapse)
    with_them = pieces(Arms(moments(), {}), formula)
    without = pieces(Arms(moments(), {}, gradients=False), formula)
    assert without.predicted.gradient is None
    np.testing.assert_array_equal(with_them.predicted.value, without.predicted.value)
