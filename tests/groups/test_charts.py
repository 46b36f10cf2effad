"""What the charts show."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from isonomy.groups import charts
from isonomy.results import theme
from support.charts import main_panel

RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}
RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_the_chart_shows_the_null(lender: dict[str, Any]) -> None:
    def drawn(result: iso.CertifyResult, mark: str) -> list[float]:
        chart, panel = result.plot().to_dict(), main_panel(result.plot())
        layers = [
            one for one in panel["layer"] if one["mark"].get("type") == mark and one["encoding"]["x"]["field"] == "null"
        ]
        solution = [chart["datasets"][(one.get("data") or panel["data"])["name"]] for one in layers]
        return [line["null"] for lines in solution for line in lines]

    assert drawn(iso.certify(lender, null=0.1, reference=0.4, **RATE), "rule") == [0.1]
    assert drawn(iso.certify(lender, tolerance=0.1, **RATE), "rule") == [0.0]
    several = iso.certify(lender, null=[0.1, -0.1, 0.0], reference=0.4, **RATE)
    assert sorted(drawn(several, "tick")) == [-0.1, 0.0, 0.1]
    assert drawn(several, "rule") == []
    again = iso.from_json(several.to_json())
    assert again.null_disparity.tolist() == [0.1, -0.1, 0.0]


def test_the_chart_distinguishes_favored_from_disfavored_groups() -> None:
    data = {"p": np.r_[np.ones(150), np.zeros(150), np.ones(60), np.zeros(240)], "g": np.repeat(["a", "b"], 300)}
    result = iso.flag(data, **RATE_P)
    assert result.direction == ("favored", "disfavored")
    shapes = [layer["encoding"].get("shape", {}) for layer in main_panel(result.plot())["layer"]]
    shape = next(one for one in shapes if one.get("field") == "direction")
    ways = dict(zip(shape["scale"]["domain"], shape["scale"]["range"], strict=True))
    assert (ways["favored"], ways["disfavored"]) == ("triangle-up", "triangle-down")
    fields = [
        layer["encoding"].get("shape", {}).get("field")
        for layer in main_panel(iso.flag(THREE, **RATE_P).plot())["layer"]
    ]
    assert "direction" not in fields  # nobody is flagged


def steps(*shares: float) -> dict[str, Any]:
    """Groups of 1,000 rows with these shares selected."""
    return {
        "p": np.concatenate([np.repeat([1, 0], [round(1_000 * p), round(1_000 * (1 - p))]) for p in shares]),
        "g": np.repeat([f"g{i}" for i in range(len(shares))], 1_000),
    }


def subtitle(chart: Any) -> list[str]:
    title = main_panel(chart)["title"]
    return [] if isinstance(title, str) else list(title["subtitle"])


def test_hovering_shows_the_p_value_that_the_verdict_rests_on() -> None:
    result = iso.flag(steps(0.3, 0.7, 0.5), **RATE_P)
    chart = result.plot().to_dict()
    rows = next(rows for rows in chart["datasets"].values() if "adjusted p-value" in rows[0])
    expected = dict(zip(result.labels, result.adjusted_pvalue, strict=True))
    assert {row["group"]: row["adjusted p-value"] for row in rows} == expected
    tooltips = [
        one["field"] for layer in main_panel(result.plot())["layer"] for one in layer["encoding"].get("tooltip", [])
    ]
    assert "adjusted p-value" in tooltips


CROSSED = {
    "p": np.concatenate([np.repeat([1, 0], [k, 500 - k]) for k in (100, 250, 260, 400)]),
    "race": np.repeat(["x", "x", "y", "y"], 500),
    "sex": np.repeat(["f", "m", "f", "m"], 500),
}
BOTH: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": ["race", "sex"], "depth": 2}


def boxes(chart: dict[str, Any]) -> list[dict[str, Any]]:
    return next((rows for rows in chart["datasets"].values() if "flagged" in rows[0]), [])


def test_intersections_are_boxes_and_flagged_ones_have_a_frame() -> None:
    result = iso.flag(CROSSED, **BOTH)
    chart = result.plot().to_dict()
    drawn = {(box["row"], box["column"]): box for box in boxes(chart)}
    assert set(drawn) == {(a, b) for a in ("x", "y", "(all)") for b in ("f", "m", "(all)")} - {("(all)", "(all)")}
    flagged = {result.labels[i] for i, verdict in enumerate(result.verdicts) if verdict.value == "violation"}
    assert {box["group"] for box in drawn.values() if box["flagged"]} == flagged
    assert drawn["x", "f"]["text"] == "-30.5"
    (frame,) = [
        layer
        for part in chart["hconcat"]
        for layer in part["layer"]
        if layer.get("transform") == [{"filter": "datum.flagged"}]
    ]
    assert frame["mark"]["filled"] is False
    assert not boxes(iso.flag(CROSSED, **{**BOTH, "depth": 1}).plot().to_dict())


def test_three_columns_are_a_tree_in_which_boxes_divide_the_box_before_them() -> None:
    table = {**CROSSED, "age": np.resize(["old", "young"], 2_000)}
    result = iso.flag(table, **{**BOTH, "groups": ["race", "sex", "age"], "depth": 3, "reference": {"race": "x"}})
    chart = result.plot().to_dict()
    tree = next(rows for rows in chart["datasets"].values() if "top" in rows[0])
    drawn = {box["group"]: box for box in tree}
    assert {len(label.split(" & ")) for label in drawn} == {1, 2, 3}
    assert len(drawn) == 2 + 4 + 8
    for label, box in drawn.items():  # as high as its parts
        within = [other for name, other in drawn.items() if name.startswith(f"{label} & ") and other["level"] == 2]
        if box["level"] < 2:
            assert box["bottom"] - box["top"] == len(within)
            assert (box["top"], box["bottom"]) == (min(b["top"] for b in within), max(b["bottom"] for b in within))
    flagged = {label for label, verdict in zip(result.labels, result.verdicts, strict=True) if verdict == "violation"}
    assert flagged
    assert {label for label, box in drawn.items() if box["flagged"]} == flagged & set(drawn)
    assert drawn["race=x"]["label"] == "x: 0.0"  # the reference
    i = result.labels.index("race=y & sex=f & age=old")
    assert drawn[result.labels[i]]["label"] == f"old: {100 * result.disparity[i]:.1f}"
    tables = [rows for rows in chart["datasets"].values() if "row" in rows[0]]
    assert len(tables) == 2  # race by age and sex by age: race by sex is in the tree


def test_two_named_conditions_at_once_are_no_cell_of_one_of_them() -> None:
    conditions = [iso.where("tall", iso.col("p") >= 0), iso.where("x", iso.col("race") == "x")]
    chart = iso.flag(CROSSED, **{**BOTH, "groups": [*conditions, "sex"], "depth": 3}).plot().to_dict()
    (table,) = [rows for rows in chart["datasets"].values() if "row" in rows[0]]
    assert len({(box["row"], box["column"]) for box in table}) == len(table)


def test_each_metric_has_a_panel() -> None:
    table = {**CROSSED, "y": np.resize([1, 0], 2_000)}
    options: dict[str, Any] = {"metric": ["tpr", "fpr"], "prediction": "p", "outcome": "y", "groups": "race"}
    panels = [row["hconcat"][0] for row in iso.flag(table, **options).plot().to_dict()["vconcat"]]
    titles = [panel["title"] if isinstance(panel["title"], str) else panel["title"]["text"] for panel in panels]
    assert [title.partition(":")[0] for title in titles] == ["True positive rate", "False positive rate"]
    axes = {layer["encoding"]["x"].get("title") for panel in panels for layer in panel["layer"]} - {None}
    assert axes == {f"{name} positive rate minus that of the population, in points" for name in ("true", "false")}


def test_the_comparator_has_a_color_of_its_own_and_the_threshold_a_label() -> None:
    chart = iso.adverse_impact(steps(0.5, 0.45, 0.3), prediction="p", groups="g").plot().to_dict()
    rows = next(rows for rows in chart["datasets"].values() if "verdict" in rows[0])
    assert [(row["group"], row["verdict"]) for row in rows][-1] == ("g=g0", "reference")
    axes = [layer["encoding"]["x"]["axis"] for layer in chart["layer"] if "axis" in layer["encoding"]["x"]]
    assert axes
    assert all(0.8 in axis["values"] for axis in axes)
    colors = next(layer["encoding"]["color"]["scale"] for layer in chart["layer"] if "color" in layer["encoding"])
    assert dict(zip(colors["domain"], colors["range"], strict=True))["reference"] == theme.REFERENCE


def test_rates_have_intervals_of_their_own_where_the_result_has_them() -> None:
    result = iso.flag(steps(0.3, 0.5), **RATE_P)
    part = charts._rates(result, np.array([0, 1]), "selection rate", result.estimate - 0.03, result.estimate + 0.03)
    drawn = part.to_dict()
    (rows,) = [rows for rows in drawn["datasets"].values() if "value" in rows[0]]
    assert [(row["value"], round(row["low"], 2), round(row["high"], 2)) for row in rows] == [
        (0.3, 0.27, 0.33),
        (0.5, 0.47, 0.53),
    ]
