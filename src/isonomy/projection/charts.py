"""The picture of a projection: the share of each group that would move, and how far its rows would go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.projection import words
from isonomy.results import Columns, theme

if TYPE_CHECKING:
    from isonomy.projection.project import ProjectionResult


def projection(result: ProjectionResult) -> alt.TopLevelMixin:
    return theme.finish(movement(result) if result.curve is None else alt.vconcat(movement(result), curve(result)))


def curve(result: ProjectionResult) -> alt.LayerChart | alt.FacetChart:
    """p-values by tolerance: up to where a tolerance is rejected, from where it is shown to hold, and alpha."""
    known = result.curve
    assert known is not None
    size = known.tolerance.size
    points: Columns = {
        "tolerance": np.tile(known.tolerance, 2),
        "p": np.concatenate([known.pvalue, known.within_pvalue]),
        "test": [words.WITHIN] * size + [words.BEYOND] * size,
    }
    x, y = alt.X("tolerance:Q", title="tolerance"), alt.Y("p:Q", title="p-value", scale=alt.Scale(domain=[0, 1]))
    color = alt.Color("test:N", title=None, legend=alt.Legend(orient="bottom", labelLimit=400))
    lines = alt.Chart(theme.data(points), title="p-value by tolerance").mark_line(point=True)
    level = alt.Chart(theme.data({"p": [result.alpha]})).mark_rule(strokeDash=[4, 4]).encode(y="p:Q")
    tips = ["test:N", _tip("tolerance:Q", ".4f"), _tip("p:Q", ".4f")]
    return alt.layer(lines.encode(x=x, y=y, color=color, tooltip=tips), level).properties(width=560, height=200)


def movement(result: ProjectionResult) -> alt.HConcatChart:
    """Two panels by group and label: shares that move, and how far on average. No single row is drawn."""
    order = result.ranking()
    both = ((result.labels[i], result.outcome[i]) for i in order)
    names = [theme.short(name if label is None else f"{name}, outcome {label}") for name, label in both]
    y = alt.Y("group:N", title=None, sort=names)
    ways = words.directions(result.chosen)
    scale = alt.Scale(domain=list(ways), range=list(theme.PALETTE[:2]))
    rows = np.concatenate([result.moved_up[order], result.moved_down[order]])
    moves: Columns = {
        "group": names * 2,
        "direction": [way for way in ways for _ in names],
        "share": rows / np.tile(result.n[order], 2),
        "rows": rows,
    }
    shares = alt.Chart(theme.data(moves), title="Share that would have to change decision").mark_bar()
    means = alt.Chart(
        theme.data({"group": names, "mean": result.mean_distance[order]}), title="Mean distance of those who would move"
    )
    return alt.hconcat(
        shares.encode(
            y=y,
            x=alt.X("share:Q", title="share of the group", axis=alt.Axis(format="%")),
            color=alt.Color("direction:N", title=None, scale=scale, legend=alt.Legend(orient="bottom")),
            tooltip=["group:N", "direction:N", _tip("share:Q", ".2%"), _tip("rows:Q", ",.1f")],
        ).properties(width=260),
        means.mark_point(filled=True, size=60, opacity=1, color=theme.PALETTE[2])
        .encode(
            y=y,
            x=alt.X("mean:Q", title="distance", scale=alt.Scale(zero=True)),
            tooltip=["group:N", _tip("mean:Q", ".4g")],
        )
        .properties(width=260),
    )


def _tip(field: str, digits: str) -> alt.Tooltip:
    return alt.Tooltip(field, format=digits)
