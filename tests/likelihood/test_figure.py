"""What the charts show."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso

RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}
RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_a_chart_says_what_its_intervals_hold_for() -> None:
    def title(chart: Any) -> str:
        return str(chart.to_dict()["title"])

    assert "Simultaneous 95 % intervals" in title(iso.certify(THREE, **RATE_P).plot())
    assert "Simultaneous 90 % intervals" in title(iso.flag(THREE, interval="simultaneous", alpha=0.1, **RATE_P).plot())
    assert "One-sided" in title(iso.flag(THREE, interval="one-sided", alternative="less", **RATE_P).plot())
    plain = title(iso.flag(THREE, **RATE_P).plot())
    assert "95 % intervals" in plain
    assert "imultaneous" not in plain


def test_the_chart_shows_the_null(lender: dict[str, Any]) -> None:
    def drawn(result: iso.CertifyResult, mark: str) -> list[float]:
        chart = result.plot().to_dict()
        layers = [
            one for one in chart["layer"] if one["mark"].get("type") == mark and one["encoding"]["x"]["field"] == "null"
        ]
        solution = [chart["datasets"][(one.get("data") or chart["data"])["name"]] for one in layers]
        return [line["null"] for lines in solution for line in lines]

    assert drawn(iso.certify(lender, null=0.1, reference=0.4, **RATE), "rule") == [0.1]
    assert drawn(iso.certify(lender, tolerance=0.1, **RATE), "rule") == [0.0]
    several = iso.certify(lender, null=[0.1, -0.1, 0.0], reference=0.4, **RATE)
    assert sorted(drawn(several, "tick")) == [-0.1, 0.0, 0.1]
    assert drawn(several, "rule") == []
    again = iso.from_json(several.to_json())
    assert again.null_disparity.tolist() == [0.1, -0.1, 0.0]


def test_the_chart_tells_favoured_groups_from_disfavoured_ones() -> None:
    data = {"p": np.r_[np.ones(150), np.zeros(150), np.ones(60), np.zeros(240)], "g": np.repeat(["a", "b"], 300)}
    result = iso.flag(data, **RATE_P)
    assert result.direction == ("favoured", "disfavoured")
    shapes = [layer["encoding"].get("shape", {}) for layer in result.plot().to_dict()["layer"]]
    shape = next(one for one in shapes if one.get("field") == "direction")
    ways = dict(zip(shape["scale"]["domain"], shape["scale"]["range"], strict=True))
    assert (ways["favoured"], ways["disfavoured"]) == ("triangle-up", "triangle-down")
    fields = [
        layer["encoding"].get("shape", {}).get("field") for layer in iso.flag(THREE, **RATE_P).plot().to_dict()["layer"]
    ]
    assert "direction" not in fields  # nobody is flagged
