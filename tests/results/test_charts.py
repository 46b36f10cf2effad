"""The two charts that several methods share: intervals by group, and curves."""

from __future__ import annotations

import re
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
    assert charts.notable(~np.isnan(value), value, [2, 1, 3, 0]).tolist() == [2, 3, 0]
    many, known = np.arange(1_000.0), np.ones(1_000, dtype=bool)
    assert charts.notable(known, many, range(1_000)).tolist() == list(range(1_000 - charts.DRAWN, 1_000))
    assert charts.notable(known, many, range(999, -1, -1))[0] == 999  # selected by one, ordered by the other


def test_an_infinite_end_is_cut_at_the_edge() -> None:
    _, rows = drawing(forest())
    ends = [(row["from"], row["to"]) for row in rows]
    np.testing.assert_allclose(ends, [(0.0, 0.2), (-0.24, -0.1)])  # a tenth of the range beyond it
    assert rows[1]["low"] is None  # in the tooltip, the end is still not a number
    _, rows = drawing(forest(reach=0.15))
    np.testing.assert_allclose([(row["from"], row["to"]) for row in rows], [(0.0, 0.15), (-0.15, -0.1)])


def test_a_cut_end_has_an_arrow_head() -> None:
    def arrows(chart: alt.TopLevelMixin) -> dict[str, list[str]]:
        layers, (rows, *_) = theme.specification(chart)["layer"], theme.specification(chart)["datasets"].values()
        heads = {one["mark"]["shape"]: one for one in layers if "shape" in one["mark"]}
        flags = {shape: one["transform"][0]["filter"].removeprefix("datum.") for shape, one in heads.items()}
        return {shape: [row["group"] for row in rows if row[flag]] for shape, flag in flags.items()}

    assert arrows(forest()) == {"triangle-left": ["race=b"]}  # -inf
    assert arrows(forest(reach=0.15)) == {"triangle-left": ["race=b"], "triangle-right": ["race=a"]}
    whole = {"low": np.array([0.0, -0.3])}
    assert arrows(forest(columns=whole)) == {}
    tooltip = drawing(forest(reach=0.15))[0]["rule"]["encoding"]["tooltip"]
    assert {"low", "high"} <= {one["field"] for one in tooltip}
    assert "<svg" in theme.to_svg(forest(reach=0.15, columns={"verdict": ["violation", "inconclusive"]}))
    ratios = {"disparity": np.array([1.1, 0.8]), "low": np.array([0.9, 0.0]), "high": np.array([1.3, np.inf])}
    assert arrows(forest(ratio=True, columns=ratios)) == {"triangle-left": ["race=b"], "triangle-right": ["race=b"]}


def test_labels_that_coincide_are_kept_apart() -> None:
    long = "x" * 100
    _, rows = drawing(forest(columns={"group": [f"{long} 1", f"{long} 2"]}))
    first, second = (row["group"] for row in rows)
    assert second == f"{first} (2)"


def test_verdicts_have_a_colour_and_a_shape() -> None:
    marks, _ = drawing(forest(columns={"verdict": ["violation", "inconclusive"]}))
    assert marks["point"]["encoding"]["color"]["scale"]["domain"] == list(theme.VERDICT_COLORS)
    assert "shape" in marks["point"]["encoding"]
    assert "color" not in drawing(forest())[0]["point"]["encoding"]


def test_how_a_null_is_drawn() -> None:
    zero, one = np.zeros(2), np.ones(2)
    assert "rect" not in drawing(forest(null=(zero, zero)))[0]
    assert "rect" in drawing(forest(null=(zero, one)))[0]
    assert "rect" in drawing(forest(null=(zero, zero), tolerance=0.05))[0]
    assert "tick" in drawing(forest(null=(np.array([0.0, 0.5]), one)))[0]


def test_the_axis_of_ratios_follows_the_ratios() -> None:
    """Rounded to powers of ten, it would extend from 0.1 to 10."""
    columns = {
        "disparity": np.array([0.79, 1.02]),
        "low": np.array([0.75, 0.97]),
        "high": np.array([0.84, 1.05]),
    }
    chart = forest(columns=columns, ratio=True, null=(np.ones(2), np.ones(2)))
    svg = theme.to_svg(chart)
    values = [float(label) for label in re.findall(r">(\d*\.?\d+)</text>", svg)]
    assert values
    assert min(values) >= 0.7
    assert max(values) <= 1.1
    marks, _ = drawing(chart)
    assert marks["rule"]["encoding"]["x"]["scale"]["nice"] is False


def test_a_subtitle_stands_below_the_title() -> None:
    specification = theme.specification(forest(subtitle=["one", "two"]))
    assert specification["title"] == {"text": "tpr", "subtitle": ["one", "two"]}
    assert theme.specification(forest())["title"] == "tpr"


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
