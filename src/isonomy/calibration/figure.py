"""Charts: curves with intervals, differences with their bands and the null, before against after, user against row."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.results import theme

WIDTH, HEIGHT = 320, 240
Panel = alt.LayerChart | alt.FacetChart
_FORMATS = {"score": ".3f", "outcome": ".3f", "low": ".3f", "high": ".3f"}


def title(dimensions: Sequence[str]) -> str:
    """The heading of a set of groups."""
    return theme.short(" & ".join(dimensions))


def parity(rows: Sequence[tuple[Panel, Panel]]) -> alt.TopLevelMixin:
    """Curves and differences of each set of groups, one under the other."""
    panels = [alt.hconcat(*row).resolve_scale(color="independent") for row in rows]
    return theme.finish(alt.vconcat(*panels).resolve_scale(color="independent"))


def side_by_side(rows: Sequence[Sequence[Panel]]) -> alt.TopLevelMixin:
    """The curves of two results beside each other, on one scale."""
    return theme.finish(alt.vconcat(*(alt.hconcat(*row).resolve_scale(y="shared") for row in rows)))


def curves(
    labels: Sequence[str],
    grid: FloatArray,
    outcome: FloatArray,
    low: FloatArray,
    high: FloatArray,
    title: str = "",
) -> Panel:
    """Expected outcome by score and group, with pointwise intervals; the diagonal if scores lie in [0, 1]."""
    kept = theme.thin(grid.size, max(2, theme.MAXIMUM_POINTS // max(1, len(labels))))
    values = theme.data(
        {
            "group": [theme.short(label) for label in labels for _ in kept],
            "score": np.tile(grid[kept], len(labels)),
            "outcome": outcome[:, kept].ravel(),
            "low": low[:, kept].ravel(),
            "high": high[:, kept].ravel(),
        }
    )
    base = alt.Chart(values).encode(x=_score(), color=_colour("group:N", 2))
    area = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title="Expected outcome"), y2="high:Q")
    line = base.mark_line(point=True).encode(
        y=alt.Y("outcome:Q", title="Expected outcome", scale=alt.Scale(zero=False)),
        tooltip=[alt.Tooltip("group:N"), *(alt.Tooltip(f"{name}:Q", format=form) for name, form in _FORMATS.items())],
    )
    layers = [area, line]
    if grid.min() >= 0 and grid.max() <= 1:
        ends = theme.data({"score": [0.0, 1.0], "outcome": [0.0, 1.0]})
        diagonal = alt.Chart(ends).mark_line(strokeDash=[4, 4], color=theme.RULE)
        layers.insert(0, diagonal.encode(x="score:Q", y="outcome:Q"))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)


def differences(
    pairs: Sequence[tuple[str, str]],
    grid: FloatArray,
    difference: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    pointwise: bool,
) -> Panel:
    """Difference of each pair with its band, and the null."""
    kept = theme.thin(grid.size, theme.MAXIMUM_POINTS // max(1, len(pairs)))
    names = [" minus ".join(theme.short(label, 28) for label in pair) for pair in pairs]
    values = theme.data(
        {
            "pair": [name for name in names for _ in kept],
            "score": np.tile(grid[kept], len(pairs)),
            "difference": difference[:, kept].ravel(),
            "low": low[:, kept].ravel(),
            "high": high[:, kept].ravel(),
        }
    )
    title = "Difference, pointwise intervals" if pointwise else "Difference, simultaneous band"
    base = alt.Chart(values).encode(x=_score(), color=_colour("pair:N", 1))
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("difference:Q", title=title))
    null = alt.Chart(theme.data({"zero": [0.0]})).mark_rule(color=theme.RULE, strokeDash=[4, 4]).encode(y="zero:Q")
    return alt.layer(null, band, line).properties(width=WIDTH, height=HEIGHT, title="Difference, and none (dashed)")


def marginal(labels: Sequence[str], outcome: FloatArray, low: FloatArray, high: FloatArray) -> alt.TopLevelMixin:
    """Outcome at the threshold in each group, with its interval."""
    groups = [theme.short(label) for label in labels]
    values = theme.data({"group": groups, "outcome": outcome, "low": low, "high": high})
    base = alt.Chart(values).encode(y=alt.Y("group:N", title=None, sort=None))
    interval = base.mark_rule(color=theme.PALETTE[0]).encode(x=alt.X("low:Q", title="Expected outcome"), x2="high:Q")
    point = base.mark_point(filled=True, size=70, color=theme.PALETTE[0]).encode(
        x=alt.X("outcome:Q", scale=alt.Scale(zero=False), title="Expected outcome")
    )
    return theme.finish(alt.layer(interval, point).properties(width=2 * WIDTH, title="Outcome at the threshold"))


def thresholds(labels: Sequence[str], before: float, after: FloatArray, outcomes: FloatArray) -> alt.TopLevelMixin:
    """Each group's threshold and its outcome there; ``outcomes``: of all groups before, then after."""
    groups = [theme.short(label) for label in labels]
    values = theme.data(
        {
            "group": groups * 2,
            "when": ["before"] * len(groups) + ["after"] * len(groups),
            "threshold": [before] * len(groups) + after.tolist(),
            "outcome": outcomes,
        }
    )
    base = alt.Chart(values).encode(
        x=alt.X("threshold:Q", title="Threshold", scale=alt.Scale(zero=False)),
        y=alt.Y("outcome:Q", title="Outcome at the margin", scale=alt.Scale(zero=False)),
        color=alt.Color("group:N", title=None, sort=None),
    )
    line = base.mark_line().encode(detail="group:N")
    point = base.mark_point(filled=True, size=80).encode(shape=alt.Shape("when:N", title=None, sort=None))
    chart = alt.layer(line, point).properties(width=WIDTH, height=HEIGHT, title="Thresholds before and after")
    return theme.finish(chart)


def _score() -> alt.X:
    return alt.X("score:Q", title="Score", scale=alt.Scale(zero=False))


def _colour(field: str, columns: int) -> alt.Color:
    legend = alt.Legend(orient="bottom", columns=columns, symbolOpacity=1)
    return alt.Color(field, title=None, sort=None, legend=legend)
