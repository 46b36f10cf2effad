"""The two pictures that several methods draw: intervals by group, and curves."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from isonomy.results import charts, theme

COLUMNS: dict[str, Any] = {
    "group": ["race=a", "race=b"],
    "disparity": np.array([0.1, -0.2]),
    "low": np.array([0.0, -np.inf]),
    "high": np.array([0.2, -0.1]),
}


def drawing(chart: alt.TopLevelMixin) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The marks of a chart by kind, and the rows of its intervals."""
    specification = theme.specification(chart)
    marks = {layer["mark"]["type"]: layer for layer in specification["layer"]}
    name = marks["point"].get("data", specification.get("data"))["name"]
    return marks, specification["datasets"][name]


def forest(**options: Any) -> alt.TopLevelMixin:
    return charts.forest("disparity", COLUMNS | options.pop("columns", {}), axis="Difference", title="tpr", **options)


def test_groups_of_many_are_the_notable_ones_in_order() -> None:
    value = np.array([0.1, np.nan, -0.3, 0.2])
    assert charts.notable(value, value).tolist() == [3, 0, 2]
    many = np.arange(1_000.0)
    assert charts.notable(many, many).tolist() == list(range(999, 999 - charts.DRAWN, -1))
    assert charts.notable(-many, many)[0] == 1_000 - charts.DRAWN  # chosen by one, put in order by the other


def test_an_infinite_end_is_cut_at_the_edge() -> None:
    _, rows = drawing(forest())
    ends = [(row["from"], row["to"]) for row in rows]
    np.testing.assert_allclose(ends, [(0.0, 0.2), (-0.24, -0.1)])  # a tenth of the range beyond it
    assert rows[1]["low"] is None  # on hovering, the end is still not a number
    _, rows = drawing(forest(reach=0.15))
    np.testing.assert_allclose([(row["from"], row["to"]) for row in rows], [(0.0, 0.15), (-0.15, -0.1)])


def test_labels_that_coincide_are_kept_apart() -> None:
    long = "x" * 100
    _, rows = drawing(forest(columns={"group": [f"{long} 1", f"{long} 2"]}))
    first, second = (row["group"] for row in rows)
    assert second == f"{first} (2)"


def test_verdicts_have_a_colour_and_a_shape() -> None:
    marks, _ = drawing(forest(columns={"verdict": ["violation", "inconclusive"]}))
    assert marks["point"]["encoding"]["color"]["scale"]["domain"] == list(theme.VERDICT_COLOURS)
    assert "shape" in marks["point"]["encoding"]
    assert "color" not in drawing(forest())[0]["point"]["encoding"]


def test_how_a_null_is_drawn() -> None:
    zero, one = np.zeros(2), np.ones(2)
    assert "rect" not in drawing(forest(null=(zero, zero)))[0]
    assert "rect" in drawing(forest(null=(zero, one)))[0]
    assert "rect" in drawing(forest(null=(zero, zero), tolerance=0.05))[0]
    assert "tick" in drawing(forest(null=(np.array([0.0, 0.5]), one)))[0]


def test_a_chart_without_groups_can_be_drawn() -> None:
    empty = {name: np.array([]) for name in COLUMNS}
    null = (np.array([]), np.array([]))
    assert theme.to_svg(charts.forest("disparity", empty, axis="x", title="none", null=null)).startswith("<svg")


def test_curves_are_thinned_together() -> None:
    at = np.linspace(0, 1, 10_000)
    values = np.stack([at, 2 * at])
    chart = charts.curves("group", ["a", "b"], "score", at, mean=values).mark_line().encode(x="score:Q", y="mean:Q")
    specification = theme.specification(chart)
    rows = specification["datasets"][specification["data"]["name"]]
    assert len(rows) <= theme.MAXIMUM_POINTS
    last = {row["group"]: row["mean"] for row in rows if row["score"] == 1.0}
    assert last == {"a": 1.0, "b": 2.0}
