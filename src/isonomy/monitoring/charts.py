"""The chart of a monitor: the disparity to date over batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from isonomy.results import charts, theme

if TYPE_CHECKING:
    from isonomy.monitoring.monitor import MonitorResult

DRAWN = 12  # groups, worst first


def over_time(result: MonitorResult) -> alt.TopLevelMixin:
    """For each group its disparity to date with its band, dots for single batches, the tolerance, a solid rule where a
    violation was first shown, a flag at each alarm with a line from its start, and dashed rules at restarts."""
    order = (result.worst_first or list(range(len(result.groups))))[:DRAWN]
    unit = result.units().get("disparity", "")
    names, places = result.batch_names, np.arange(len(result.batch_names))
    thin = theme.thin(places.size, max(2, theme.MAXIMUM_POINTS // max(1, len(order))))
    equal = 0.0 if result.scale == "difference" else 1.0
    series = {
        "disparity": result.disparity_by_batch,
        "low": result.low_by_batch,
        "high": result.high_by_batch,
        "batch_disparity": result.batch_disparity,
    }
    wide = max(1, places.size // 8)
    axis = alt.Axis(
        values=places[::wide].tolist(),
        labelExpr=f"{json.dumps([theme.short(name, 20) for name in names])}[datum.value]",
        labelAngle=-30,
    )
    x = alt.X("place:Q", title="batch", axis=axis, scale=alt.Scale(nice=False, padding=8))
    y = alt.Y("disparity:Q", title=f"disparity to date{f', in {unit}' if unit else ''}", axis=charts.hundredths(unit))
    panels = []
    for j in order:
        columns: dict[str, Any] = {"place": thin.tolist(), "batch": [names[t] for t in thin]}
        for name, values in series.items():
            columns[name] = np.where(np.isfinite(line := values[thin, j]), line, np.nan).tolist()
        base = alt.Chart(theme.data(columns)).encode(x=x)
        layers: list[alt.Chart] = []
        center = result.accepted(j)
        if result.tolerance is not None:
            ends = (center - result.tolerance, center + result.tolerance)
            if result.scale != "difference":
                ends = (center * result.tolerance, center / result.tolerance)
            strip = alt.Chart(theme.data({"low": [ends[0]], "high": [ends[1]]}))
            layers.append(strip.mark_rect(opacity=0.15, color=theme.RULE).encode(y="low:Q", y2="high:Q"))
        layers.append(charts.rule("y", center))
        layers.append(base.mark_area(opacity=0.2, color=theme.PALETTE[0]).encode(y="low:Q", y2="high:Q"))
        layers.append(base.mark_circle(size=12, color=theme.RULE, opacity=0.5).encode(y="batch_disparity:Q"))
        tooltip = ["batch:N", "disparity:Q", "low:Q", "high:Q", "batch_disparity:Q"]
        layers.append(base.mark_line(color=theme.PALETTE[0]).encode(y=y, tooltip=tooltip))
        if result.first_shown[j]:
            layers.append(_rule([len(names) - 1 - names[::-1].index(result.first_shown[j])], [1, 0]))
        if result.restarts:
            layers.append(_rule([place - 0.5 for place in result.restarts], [6, 4]))
        alarms = np.flatnonzero(~np.isnan(result.alarm_by_batch[:, j]))
        if alarms.size:
            top = float(np.nanmax([*columns["high"], *columns["batch_disparity"], equal]))
            since = result.alarm_by_batch[alarms, j]
            flags = alt.Chart(theme.data({"place": alarms, "since": since, "top": np.full(alarms.size, top)}))
            layers.append(
                flags.mark_rule(color=theme.PALETTE[1], strokeWidth=2).encode(x="since:Q", x2="place:Q", y="top:Q")
            )
            layers.append(
                flags.mark_point(
                    shape="triangle-right", filled=True, size=90, opacity=1, color=theme.PALETTE[1]
                ).encode(x="place:Q", y="top:Q")
            )
        cut = charts.of_all(len(order), len(result.groups), "groups, worst first") if j == order[0] else ""
        panels.append(
            alt.layer(*layers).properties(width=480, height=140, title=f"{theme.short(result.names[j])}{cut}")
        )
    return theme.finish(alt.vconcat(*panels))


def _rule(places: list[float], dash: list[int]) -> alt.Chart:
    return (
        alt.Chart(theme.data({"place": places})).mark_rule(color=theme.PALETTE[1], strokeDash=dash).encode(x="place:Q")
    )
