"""The picture of a projection: the share of each group that would move, and how far its rows would go."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.results import theme
from isonomy.transport import wording

_COLOURS = alt.Scale(domain=[wording.UP, wording.DOWN], range=[theme.PALETTE[0], theme.PALETTE[1]])
_COLOUR = theme.PALETTE[2]  # of both directions together


def movement_chart(
    group: Sequence[str],
    outcome: Sequence[int | None],
    n: FloatArray,
    up: FloatArray,
    down: FloatArray,
    mean: FloatArray,
) -> alt.TopLevelMixin:
    """Two panels by group and label: shares that move, and how far on average. No single row is drawn."""
    names = [
        theme.short(name if label is None else f"{name}, outcome {label}")
        for name, label in zip(group, outcome, strict=True)
    ]
    return theme.finish(alt.hconcat(_shares(names, n, up, down), _distances(names, mean)))


def _shares(names: list[str], n: FloatArray, up: FloatArray, down: FloatArray) -> alt.Chart:
    rows = np.concatenate([up, down])
    columns = {
        "group": names * 2,
        "direction": [wording.UP] * len(names) + [wording.DOWN] * len(names),
        "share": rows / np.tile(n, 2),
        "rows": rows,
    }
    return (
        alt.Chart(theme.data(columns), title="Share that would have to change decision")
        .mark_bar()
        .encode(
            y=alt.Y("group:N", title=None, sort=names),
            x=alt.X("share:Q", title="share of the group", axis=alt.Axis(format="%")),
            color=alt.Color("direction:N", title=None, scale=_COLOURS, legend=alt.Legend(orient="bottom")),
            tooltip=["group:N", "direction:N", _tip("share:Q", ".2%"), _tip("rows:Q", ",.1f")],
        )
        .properties(width=260)
    )


def _distances(names: list[str], mean: FloatArray) -> alt.Chart:
    return (
        alt.Chart(theme.data({"group": names, "mean": mean}), title="Mean distance of those who would move")
        .mark_point(filled=True, size=60, opacity=1, color=_COLOUR)
        .encode(
            y=alt.Y("group:N", title=None, sort=names),
            x=alt.X("mean:Q", title="distance", scale=alt.Scale(zero=True)),
            tooltip=["group:N", _tip("mean:Q", ".4g")],
        )
        .properties(width=260)
    )


def _tip(field: str, digits: str) -> alt.Tooltip:
    return alt.Tooltip(field, format=digits)
