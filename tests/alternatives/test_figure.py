"""The charts."""

from __future__ import annotations

from typing import Any

import isonomy as iso
from isonomy.alternatives import SurfaceResult
from isonomy.results.theme import specification


def line_and_title(surface: SurfaceResult) -> tuple[list[tuple[float, float]], str]:
    """The points of the contour that have a place, and the chart's title."""
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
    nothing = iso.improvability(data, **ask, accuracy_gain=0.9, fairness_gain=0.9)
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
