"""The surface, each point of which is a test, and the charts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import ImprovabilityResult, SurfaceResult
from isonomy.results.theme import specification


@pytest.mark.parametrize(("a", "f"), [(0.0, 0.0), (0.1, 0.3), (-0.2, 0.8), (0.5, 0.0)])
def test_every_point_is_the_test_at_that_point(
    data: dict[str, Any], ask: dict[str, Any], result: ImprovabilityResult, a: float, f: float
) -> None:
    surface = result.surface()
    nearest = int(np.argmin(np.abs(surface.accuracy_gain - a) + np.abs(surface.fairness_gain - f)))
    a, f = float(surface.accuracy_gain[nearest]), float(surface.fairness_gain[nearest])
    point = iso.improvability(data, **ask, gain=iso.gain(accuracy=a, fairness=f))
    assert surface.pvalue[nearest] == point.pvalue


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


def test_the_frontier_of_several_candidates(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ready | {"candidate": ["need_score", "lab", "cost_score"]}))
    drawn = str(specification(result.plot()))
    assert "shown to be an alternative" in drawn
    assert "cut in unfairness" in drawn
