"""Charts of effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UnknownOption
from isonomy.results import charts
from isonomy.results.theme import specification, to_svg

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def points(chart: Any) -> int:
    def count(part: Any) -> int:
        if isinstance(part, dict):
            here = len(part["values"]) if isinstance(part.get("values"), list) else 0
            return here + sum(count(v) for k, v in part.items() if k != "values")
        return sum(count(v) for v in part) if isinstance(part, list) else 0

    return count(specification(chart))


def test_groups() -> None:
    result = iso.treatment_bias(iso.simulate.uplift(30_000, groups=150, baseline=0.3).columns, **ROLES, tolerance=0.5)
    for chart in (result.plot("bias"), result.plot("error")):
        assert points(chart) <= charts.DRAWN + 3
    assert "<svg" in to_svg(result.plot())
    with pytest.raises(UnknownOption, match="quantity"):
        result.plot("size")  # type: ignore[arg-type]


def drawn(chart: Any) -> tuple[list[dict[str, Any]], set[str]]:
    """The rows of a chart's intervals, and the shapes of its marks."""
    spec = specification(chart)
    (rows,) = (rows for rows in spec["datasets"].values() if "from" in rows[0])
    return rows, {layer["mark"].get("shape") for layer in spec["layer"]}


def test_intervals_are_drawn_as_the_table_has_them() -> None:
    made = iso.simulate.uplift(6_000, 2, groups={"a": 0.49, "b": 0.48, "c": 0.03}, baseline=0.2, error={"c": 3.0})
    result = iso.treatment_bias(made.columns, **ROLES)
    rows, shapes = drawn(result.plot())
    widest = max(rows, key=lambda row: row["high"])
    assert widest["high"] > 1.5 * np.quantile(np.abs([result.ci_low, result.ci_high]), 0.8)  # was cut there
    for row in rows:
        assert (row["from"], row["to"]) == (row["low"], row["high"])
    assert not shapes & {"triangle-left", "triangle-right"}


def test_an_interval_that_is_cut_is_marked() -> None:
    """Nine precise groups, and one whose interval would make the others invisible."""
    sizes = {f"g{i}": 0.997 / 9 for i in range(9)} | {"tiny": 0.003}
    result = iso.treatment_bias(
        iso.simulate.uplift(40_000, 3, groups=sizes, baseline=0.3).columns, **ROLES, method="welch"
    )
    rows, shapes = drawn(result.plot())
    (cut,) = (row for row in rows if row["group"] == "group=tiny")
    assert cut["to"] < cut["high"]  # the tooltip still has it
    assert "triangle-right" in shapes


def test_labels_are_text() -> None:
    made = dict(iso.simulate.uplift(2_000, groups=["<script>alert(1)</script>", "b"], baseline=0.3).columns)
    svg = to_svg(iso.treatment_bias(made, **ROLES).plot())
    assert "<script" not in svg


def test_nothing_to_draw() -> None:
    made = {
        "group": np.array(["a", "b"]),
        "treatment": np.array([0, 1]),
        "outcome": np.array([0, 1]),
        "effect": np.ones(2),
    }
    assert points(iso.treatment_bias(made, **ROLES).plot()) <= 3
