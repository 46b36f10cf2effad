"""The surface, each point of which is a test, and the charts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import ImprovabilityResult, SurfaceResult
from isonomy.errors import UsageError
from isonomy.results.theme import specification


@pytest.mark.parametrize(("a", "f"), [(0.0, 0.0), (0.1, 0.3), (-0.2, 0.8), (0.5, 0.0)])
def test_every_point_is_the_test_at_that_point(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult, a: float, f: float
) -> None:
    point = iso.improvability(data, **ask, gain=iso.gain(accuracy=a, fairness=f))
    surface = result.surface(accuracy_gains=[a, 2.0], fairness_gains=[f, 2.0])
    assert surface.pvalue[0] == point.pvalue


def test_default_grid_is_the_papers(result: ImprovabilityResult) -> None:
    surface = result.surface()
    gains, cuts = surface.grids
    assert (gains[0], gains[-1], len(gains)) == (-1, 1, 201)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, 1, 101)
    at_zero = surface.pvalue[np.isclose(surface.accuracy_gain, 0) & (surface.fairness_gain == 0)]
    assert at_zero.tolist() == [result.pvalue]
    assert len(surface.to_frame()) == 201 * 101


def test_crossings_are_where_the_test_stops_rejecting(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult
) -> None:
    gain = result.supported_fairness_gain
    assert 0 < gain < 1
    assert iso.improvability(data, **ask, gain=iso.gain(fairness=gain - 1e-6)).reject
    assert not iso.improvability(data, **ask, gain=iso.gain(fairness=gain + 1e-6)).reject
    more = result.supported_accuracy_gain
    assert iso.improvability(data, **ask, gain=iso.gain(accuracy=more - 1e-6)).reject
    assert not iso.improvability(data, **ask, gain=iso.gain(accuracy=more + 1e-6)).reject


def test_contour_meets_the_crossings(result: ImprovabilityResult) -> None:
    surface = result.surface()
    assert surface.contour[0] == pytest.approx(result.supported_accuracy_gain, abs=0.011)
    above = surface.contour >= 0
    assert surface.grids[1][above].max() == pytest.approx(result.supported_fairness_gain, abs=0.011)


def test_nothing_supported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    swapped = ask | {"status_quo": "need_score", "candidate": "cost_score"}
    result = iso.improvability(data, **swapped)
    assert np.isnan(result.supported_fairness_gain)
    assert np.isnan(result.surface().supported_fairness_gain)
    assert result.surface().verdict == "inconclusive"
    assert "the data support no cut in unfairness" in result.surface().summary()


@pytest.mark.parametrize("grid", [[0.1, 0.0], [], [np.nan], [[0.0]]])
def test_bad_grids(result: ImprovabilityResult, grid: Any) -> None:
    with pytest.raises(UsageError, match="increasing"):
        result.surface(accuracy_gains=grid)


def test_difference_grid_is_in_the_utilitys_unit(data: dict[str, Any], ask: dict[str, Any]) -> None:
    surface = iso.improvability(data, **ask, gain=iso.gain(scale="difference")).surface()
    assert surface.accuracy_gain[-1] > 2


def line_and_title(surface: SurfaceResult) -> tuple[list[tuple[float, float]], str]:
    """The finite points of the contour, and the title of the chart."""
    drawn = specification(surface.plot())
    (layer,) = (layer for layer in drawn["layer"] if layer.get("mark", {}).get("type") == "line")
    points = [(point["f"], point["a"]) for point in drawn["datasets"][layer["data"]["name"]] if point["a"] is not None]
    return points, drawn["title"]


def test_charts(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    drawn = specification(result.plot())
    surface = specification(result.surface().plot())
    assert drawn["vconcat"]
    assert len(str(surface)) > 1000
    nothing = iso.improvability(data, **ask, gain=iso.gain(accuracy=0.9, fairness=0.9))
    assert specification(nothing.plot())["vconcat"]


def test_the_title_speaks_of_a_line_only_where_one_is_drawn(data: dict[str, Any], ready: dict[str, Any]) -> None:
    points, title = line_and_title(iso.improvability(data, **ready).surface())
    assert len(points) > 1
    assert title == "Supported (p ≤ 0.05): below the line"
    same = iso.improvability(data, **(ready | {"candidate": "cost_score"})).surface()
    assert not same.supported.any()
    points, title = line_and_title(same)
    assert not points
    assert title == "Nothing is supported: p > 0.05 everywhere"


def test_one_fairness_gain_has_a_line_across_its_cells(data: dict[str, Any], ready: dict[str, Any]) -> None:
    """A line through a single point would be invisible."""
    surface = iso.improvability(data, **ready).surface(accuracy_gains=[-0.1, 0.0, 0.1], fairness_gains=[0.2])
    points, title = line_and_title(surface)
    assert points == [(0.2, 0.1), (1.2, 0.1)]
    assert "below the line" in title


def test_the_frontier_of_several_candidates(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ready | {"candidate": ["need_score", "lab", "cost_score"]}))
    drawn = str(specification(result.plot()))
    assert "shown to be an alternative" in drawn
    assert "cut in unfairness" in drawn
