"""The picture: two panels by group, labels that are text, and no single row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pytest

from isonomy.results.theme import specification, to_svg
from isonomy.transport import ProjectionResult, ToleranceCurve, wording


def test_picture(result: ProjectionResult) -> None:
    chart = specification(result.plot())
    assert len(chart["hconcat"]) == 2
    svg = to_svg(result.plot())
    assert "<b>mid" not in svg  # a label is text, never markup


def values(chart: alt.TopLevelMixin) -> list[list[dict[str, Any]]]:
    """What each panel draws."""
    drawn = specification(chart)
    return [drawn["datasets"][panel["data"]["name"]] for panel in drawn["hconcat"]]


def test_a_panel_has_one_mark_per_group_and_no_row(result: ProjectionResult) -> None:
    shares, distances = values(result.plot())
    assert len(shares) == 2 * len(result.group)
    assert len(distances) == len(result.group)
    for value, mean in zip(distances, result.mean_distance, strict=True):
        if np.isfinite(mean):
            assert value == {"group": value["group"], "mean": pytest.approx(mean)}


def test_groups_that_do_not_move_have_no_mark(result: ProjectionResult) -> None:
    one, unknown = np.array([5.0, 5.0]), np.array([np.nan, 1.0])
    two = replace(result, group=("a", "b"), outcome=(None, 1), n=one, moved_up=one, moved_down=one)
    _, distances = values(replace(two, mean_distance=unknown).plot())
    assert [value["group"] for value in distances] == ["a", "b, outcome 1"]
    assert [value["mean"] for value in distances] == [None, 1.0]


def test_the_tolerance_curve_is_drawn_below(result: ProjectionResult) -> None:
    grid = np.linspace(0.0, 0.2, 5)
    curve = ToleranceCurve(tolerance=grid, pvalue=grid * 5, within_pvalue=1 - grid * 5, least=0.01, most=0.19)
    chart = specification(replace(result, curve=curve).plot())
    movement, below = chart["vconcat"]
    assert len(movement["hconcat"]) == 2
    lines, level = below["layer"]
    points = chart["datasets"][lines["data"]["name"]]
    assert len(points) == 10
    assert {point["test"] for point in points} == {wording.WITHIN, wording.BEYOND}
    assert chart["datasets"][level["data"]["name"]] == [{"p": 0.05}]
    to_svg(replace(result, curve=curve).plot())
