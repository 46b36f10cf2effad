"""The surface, whose points are tests of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import ImprovabilityResult
from isonomy.errors import UsageError


@pytest.mark.parametrize(("a", "f"), [(0.0, 0.0), (0.1, 0.3), (-0.2, 0.8), (0.5, 0.0)])
def test_every_point_is_the_test_at_that_point(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult, a: float, f: float
) -> None:
    point = iso.improvability(data, **ask, accuracy_gain=a, fairness_gain=f)
    surface = result.surface(accuracy_gains=[a, 2.0], fairness_gains=[f, 2.0])
    assert surface.pvalues[0, 0] == point.pvalue


def test_default_grid_is_the_papers(result: ImprovabilityResult) -> None:
    surface = result.surface()
    assert surface.accuracy_gains[[0, -1]].tolist() == [-1, 1]
    assert surface.fairness_gains[[0, -1]].tolist() == [0, 1]
    assert surface.pvalues.shape == (201, 101)
    at_zero = surface.pvalues[np.flatnonzero(np.isclose(surface.accuracy_gains, 0))[0], 0]
    assert at_zero == result.pvalue
    assert len(surface.to_frame()) == 201 * 101


def test_crossings_are_where_the_test_stops_rejecting(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult
) -> None:
    gain = result.supported_fairness_gain
    assert 0 < gain < 1
    assert iso.improvability(data, **ask, fairness_gain=gain - 1e-6).reject
    assert not iso.improvability(data, **ask, fairness_gain=gain + 1e-6).reject
    more = result.supported_accuracy_gain
    assert iso.improvability(data, **ask, accuracy_gain=more - 1e-6).reject
    assert not iso.improvability(data, **ask, accuracy_gain=more + 1e-6).reject


def test_contour_meets_the_crossings(result: ImprovabilityResult) -> None:
    surface = result.surface()
    assert surface.contour[0] == pytest.approx(result.supported_accuracy_gain, abs=0.011)
    above = surface.contour >= 0
    assert surface.fairness_gains[above].max() == pytest.approx(result.supported_fairness_gain, abs=0.011)


def test_nothing_supported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    swapped = ask | {"status_quo": "need_score", "candidate": "cost_score"}
    result = iso.improvability(data, **swapped)
    assert np.isnan(result.supported_fairness_gain)
    assert np.isnan(result.surface().fairness_gain)
    assert result.surface().verdict == "inconclusive"
    assert "no cut in unfairness is supported" in result.surface().summary()


@pytest.mark.parametrize("grid", [[0.1, 0.0], [], [np.nan], [[0.0]]])
def test_bad_grids(result: ImprovabilityResult, grid: Any) -> None:
    with pytest.raises(UsageError, match="increasing"):
        result.surface(accuracy_gains=grid)


def test_difference_grid_is_in_the_utilitys_unit(data: dict[str, Any], ask: dict[str, Any]) -> None:
    surface = iso.improvability(data, **ask, scale="difference").surface()
    assert surface.accuracy_gains[-1] > 2
