"""Charts: curves with intervals, differences with their bands and the null, before against after, user against row."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from isonomy.calibration.margins import MarginalResult, ThresholdsResult
from isonomy.calibration.result import ParityFamily, ParityResult
from isonomy.results import theme

WIDTH, HEIGHT = 320, 240
MOST_PAIRS = 6


def parity(result: ParityResult, beside: ParityResult | None = None, names: tuple[str, str] = ("", "")) -> Any:
    """Curves and differences of one result; with ``beside`` the curves of two results side by side."""
    if beside is not None:
        pairs = zip(result.families, beside.families, strict=False)
        both = [[curves(own, title) for own, title in zip(pair, names, strict=True)] for pair in pairs]
        return theme.finish(alt.vconcat(*(alt.hconcat(*panels).resolve_scale(y="shared") for panels in both)))
    rows = []
    adjust = result.provenance.options.get("adjust")
    band = "Difference, pointwise intervals" if adjust == "none" else "Difference, simultaneous band"
    for family in result.families:
        name = theme.short(" & ".join(family.dimensions))
        rows.append(alt.hconcat(curves(family, name), differences(family, band)).resolve_scale(color="independent"))
    return theme.finish(alt.vconcat(*rows).resolve_scale(color="independent"))


def curves(family: ParityFamily, title: str = "") -> Any:
    """Expected outcome by score and group, with pointwise intervals; the diagonal if scores lie in [0, 1]."""
    points = family.grid.size
    kept = theme.thin(points, max(2, theme.MAXIMUM_POINTS // max(1, len(family.groups))))
    groups = len(family.groups)
    values = theme.data(
        {
            "group": [theme.short(group.label) for group in family.groups for _ in kept],
            "score": np.tile(family.grid[kept], groups),
            "outcome": family.curve[:, kept].ravel(),
            "low": family.curve_low[:, kept].ravel(),
            "high": family.curve_high[:, kept].ravel(),
        }
    )
    colour = alt.Color("group:N", title=None, sort=None, legend=alt.Legend(orient="bottom", columns=2, symbolOpacity=1))
    base = alt.Chart(values).encode(x=alt.X("score:Q", title="Score", scale=alt.Scale(zero=False)))
    y = alt.Y("outcome:Q", title="Expected outcome", scale=alt.Scale(zero=False))
    area = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title="Expected outcome"), y2="high:Q", color=colour)
    line = base.mark_line(point=True).encode(
        y=y,
        color=colour,
        tooltip=[alt.Tooltip(f"{c}:{t}", format=f) for c, t, f in _TOOLTIP],
    )
    layers = [area, line]
    if family.grid.min() >= 0 and family.grid.max() <= 1:
        ends = theme.data({"score": [0.0, 1.0], "outcome": [0.0, 1.0]})
        layers.insert(
            0, alt.Chart(ends).mark_line(strokeDash=[4, 4], color=theme.RULE).encode(x="score:Q", y="outcome:Q")
        )
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)


_TOOLTIP = (
    ("group", "N", ""),
    ("score", "Q", ".3f"),
    ("outcome", "Q", ".3f"),
    ("low", "Q", ".3f"),
    ("high", "Q", ".3f"),
)


def differences(family: ParityFamily, title: str) -> Any:
    """Difference of each pair with its band, and the null."""
    order = np.argsort(np.where(np.isnan(family.pair_adjusted), np.inf, family.pair_adjusted), kind="stable")[
        :MOST_PAIRS
    ]
    kept = theme.thin(family.grid.size, theme.MAXIMUM_POINTS // MOST_PAIRS)
    names = [" minus ".join(theme.short(label, 28) for label in family.labels(int(pair))) for pair in order]
    values = theme.data(
        {
            "pair": [name for name in names for _ in kept],
            "score": np.tile(family.grid[kept], len(order)),
            "difference": family.difference[np.ix_(order, kept)].ravel(),
            "low": family.low[np.ix_(order, kept)].ravel(),
            "high": family.high[np.ix_(order, kept)].ravel(),
        }
    )
    colour = alt.Color("pair:N", title=None, sort=None, legend=alt.Legend(orient="bottom", columns=1, symbolOpacity=1))
    base = alt.Chart(values).encode(x=alt.X("score:Q", title="Score", scale=alt.Scale(zero=False)), color=colour)
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("difference:Q", title=title))
    null = alt.Chart(theme.data({"zero": [0.0]})).mark_rule(color=theme.RULE, strokeDash=[4, 4]).encode(y="zero:Q")
    return alt.layer(null, band, line).properties(width=WIDTH, height=HEIGHT, title="Difference, and none (dashed)")


def marginal(result: MarginalResult) -> Any:
    """Outcome at the threshold in each group, with its interval."""
    columns: dict[str, list[Any]] = {"group": [], "outcome": [], "low": [], "high": []}
    for family in result.families:
        columns["group"] += [theme.short(group.label) for group in family.groups]
        columns["outcome"] += family.estimate.tolist()
        columns["low"] += family.estimate_low.tolist()
        columns["high"] += family.estimate_high.tolist()
    base = alt.Chart(theme.data(columns)).encode(y=alt.Y("group:N", title=None, sort=None))
    interval = base.mark_rule(color=theme.PALETTE[0]).encode(x=alt.X("low:Q", title="Expected outcome"), x2="high:Q")
    point = base.mark_point(filled=True, size=70, color=theme.PALETTE[0]).encode(
        x=alt.X("outcome:Q", scale=alt.Scale(zero=False), title="Expected outcome")
    )
    return theme.finish(alt.layer(interval, point).properties(width=2 * WIDTH, title="Outcome at the threshold"))


def thresholds(result: ThresholdsResult) -> Any:
    """Each group's threshold and its outcome there, before and after."""
    labels = [theme.short(group.label) for group in result.groups]
    when = ["before"] * len(labels) + ["after"] * len(labels)
    values = theme.data(
        {
            "group": labels * 2,
            "when": when,
            "threshold": [result.threshold] * len(labels) + result.thresholds.tolist(),
            "outcome": result.marginal_before.tolist() + result.marginal_after.tolist(),
        }
    )
    base = alt.Chart(values).encode(
        x=alt.X("threshold:Q", title="Threshold", scale=alt.Scale(zero=False)),
        y=alt.Y("outcome:Q", title="Outcome at the margin", scale=alt.Scale(zero=False)),
        color=alt.Color("group:N", title=None, sort=None),
    )
    line = base.mark_line().encode(detail="group:N")
    point = base.mark_point(filled=True, size=80).encode(shape=alt.Shape("when:N", title=None, sort=None))
    return theme.finish(
        alt.layer(line, point).properties(width=WIDTH, height=HEIGHT, title="Thresholds before and after")
    )
