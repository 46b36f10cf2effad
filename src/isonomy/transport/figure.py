"""The picture of a projection: the share of each group that would move, and how far its rows would go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from isonomy.results import theme
from isonomy.transport import wording

if TYPE_CHECKING:
    from isonomy.transport.result import ProjectionResult

_COLOURS = alt.Scale(domain=[wording.UP, wording.DOWN], range=[theme.PALETTE[0], theme.PALETTE[1]])
_LEGEND = alt.Legend(orient="bottom", symbolOpacity=1)  # the ticks are faint, the key is not


def plan_chart(result: ProjectionResult) -> alt.TopLevelMixin:
    """Two panels: shares that move by group and label, and the distances of the listed rows."""
    return theme.finish(alt.hconcat(_shares(result), _distances(result)).resolve_scale(color="shared"))


def _shares(result: ProjectionResult) -> Any:
    names = [_name(group, label) for group, label in zip(result.group, result.outcome, strict=True)]
    columns = {
        "group": names * 2,
        "direction": [wording.UP] * len(names) + [wording.DOWN] * len(names),
        "share": np.concatenate([result.moved_up, result.moved_down]) / np.tile(result.n, 2),
        "rows": np.concatenate([result.moved_up, result.moved_down]),
    }
    return (
        alt.Chart(theme.data(columns), title="Share that would have to change decision")
        .mark_bar()
        .encode(
            y=alt.Y("group:N", title=None, sort=names),
            x=alt.X("share:Q", title="share of the group", axis=alt.Axis(format="%")),
            color=alt.Color("direction:N", title=None, scale=_COLOURS, legend=_LEGEND),
            tooltip=[
                alt.Tooltip("group:N"),
                alt.Tooltip("direction:N"),
                alt.Tooltip("share:Q", format=".2%"),
                alt.Tooltip("rows:Q", format=",.1f"),
            ],
        )
        .properties(width=260)
    )


def _distances(result: ProjectionResult) -> Any:
    plan = result.plan
    keep = theme.thin(plan.distance.size)
    columns = {
        "group": [_name(plan.group[i], int(plan.outcome[i]) if plan.outcome[i] >= 0 else None) for i in keep],
        "direction": [wording.flip(int(plan.decision[i])) for i in keep],
        "distance": plan.distance[keep],
        "fraction": plan.fraction[keep],
    }
    return (
        alt.Chart(theme.data(columns), title="Distance of the rows that would move")
        .mark_tick(thickness=1, opacity=0.6)
        .encode(
            y=alt.Y("group:N", title=None),
            x=alt.X("distance:Q", title="distance to the boundary"),
            color=alt.Color("direction:N", title=None, scale=_COLOURS, legend=_LEGEND),
            tooltip=[
                alt.Tooltip("group:N"),
                alt.Tooltip("distance:Q", format=".4g"),
                alt.Tooltip("fraction:Q", format=".3f"),
            ],
        )
        .properties(width=260)
    )


def _name(group: str, label: int | None) -> str:
    return theme.short(group if label is None else f"{group}, outcome {label}")
