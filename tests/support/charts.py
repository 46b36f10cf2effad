"""Parts of charts."""

from __future__ import annotations

from typing import Any


def main_panel(chart: Any) -> dict[str, Any]:
    """The first panel of a chart: that of the disparities, next to which the rates may stand."""
    part: dict[str, Any] = chart.to_dict()
    while "layer" not in part:
        part = (part.get("vconcat") or part["hconcat"])[0]
    return part
