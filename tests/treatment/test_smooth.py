"""Gradients against finite differences, through every formula that is built from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isonomy.treatment.collapse import COLLAPSES, pieces, slopes
from isonomy.treatment.moments import Arms, Moments

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
def test_gradients_are_derivatives(collapse: str, measure: str, estimator: str) -> None:
    base = moments()
    adjust = slopes(base, estimator, ("x:a", "x:b"))
    made = pieces(Arms(base, adjust), measure, collapse)
    for part in ("predicted", "observed", "bottom"):
        smooth = getattr(made, part)
        for group, arm, k in ((0, 0, 0), (1, 1, 1), (2, 0, 5), (0, 1, 2), (1, 0, 6), (2, 1, 7)):
            step = 1e-6
            moved = base.mean.copy()
            moved[group, arm, k] += step
            shifted = pieces(Arms(replace(base, mean=moved), adjust), measure, collapse)
            slope = (getattr(shifted, part).value[group] - smooth.value[group]) / step
            assert smooth.gradient[group, arm, k] == pytest.approx(slope, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("collapse", COLLAPSES)
def test_values_do_not_need_gradients(collapse: str) -> None:
    with_them = pieces(Arms(moments(), {}), "relative", collapse)
    without = pieces(Arms(moments(), {}, gradients=False), "relative", collapse)
    assert without.predicted.gradient is None
    np.testing.assert_array_equal(with_them.predicted.value, without.predicted.value)
