"""Charts: intervals by group, sorted, with the null and the tolerance drawn."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from isonomy.inference import Verdict
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.results import theme

# Groups drawn: the largest differences; the table has them all.
DRAWN = 60
ROW = 18


def intervals(
    groups: Sequence[str],
    disparity: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    n: FloatArray,
    verdicts: Sequence[Verdict],
    status: Sequence[Status],
    *,
    null: tuple[FloatArray, FloatArray],
    tolerance: float | None,
    title: str,
    axis: str,
) -> alt.TopLevelMixin:
    """Each group's disparity with the ``ends`` of its interval, largest first, the ``null`` from one end to the other.

    ``title`` says what the intervals hold for, ``axis`` what a disparity is.
    """
    known = np.flatnonzero(~np.isnan(ends[0]))
    order = known[np.argsort(-np.abs(disparity[known]), kind="stable")][:DRAWN]
    order = order[np.argsort(-disparity[order], kind="stable")]
    low, high = _clipped(disparity[order], ends[0][order], ends[1][order])
    labels = _distinct([theme.short(groups[i]) for i in order])
    data = theme.data(
        {
            "group": labels,
            "disparity": disparity[order],
            "low": low,
            "high": high,
            "n": n[order],
            "verdict": [verdicts[i].value for i in order],
            "null": null[0][order],
            "status": [status[i].value for i in order],
        }
    )
    y = alt.Y("group:N", sort=labels, title=None)
    colours = theme.VERDICT_COLOURS
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(title="verdict", orient="bottom"),
    )
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=list(colours), range=["diamond", "square", "circle"]))
    tooltip = ["group:N", "disparity:Q", "low:Q", "high:Q", "n:Q", "verdict:N", "status:N"]
    base = alt.Chart(data)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=axis), x2="high:Q", y=y, color=colour, tooltip=tooltip
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="disparity:Q", y=y, color=colour, shape=shape, tooltip=tooltip
    )
    nulls = _nulls(base, y, tolerance, null[0][order], null[1][order])
    drawn = "" if known.size <= DRAWN else f", the {DRAWN} largest of {known.size:,} groups"
    chart = alt.layer(*nulls, bars, points).properties(
        width=480, height=max(60, ROW * len(labels)), title=f"{title}{drawn}"
    )
    return theme.finish(chart)


def _nulls(base: alt.Chart, y: alt.Y, tolerance: float | None, low: FloatArray, high: FloatArray) -> list[alt.Chart]:
    """The tolerance, or an interval null, as a band; a null that is one number as a rule, or a tick for each group."""
    if tolerance is not None:
        low, high = np.full(low.shape, -tolerance), np.full(high.shape, tolerance)
    if not low.size:
        return []
    if np.ptp(low) > 0:
        return [base.mark_tick(color=theme.RULE, thickness=2).encode(x="null:Q", y=y)]
    marks: list[alt.Chart] = []
    if low[0] < high[0]:
        band = alt.Chart(theme.data({"low": low[:1], "high": high[:1]}))
        marks.append(band.mark_rect(opacity=0.15, color=theme.RULE).encode(x="low:Q", x2="high:Q"))
    if low[0] == high[0] or tolerance is not None:
        rule = alt.Chart(theme.data({"null": 0.5 * (low[:1] + high[:1])}))
        marks.append(rule.mark_rule(color=theme.RULE, strokeDash=[4, 3]).encode(x="null:Q"))
    return marks


def _clipped(disparity: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Interval ends, with infinite ones cut at the chart's edge."""
    finite = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], disparity, [0.0]])
    span = float(np.ptp(finite)) or 1.0
    left, right = float(finite.min()) - 0.1 * span, float(finite.max()) + 0.1 * span
    return np.clip(low, left, None), np.clip(high, None, right)


def _distinct(labels: Sequence[str]) -> list[str]:
    """Shortened labels may coincide; a number keeps them apart."""
    times: dict[str, int] = {}
    result = []
    for label in labels:
        times[label] = times.get(label, 0) + 1
        result.append(label if times[label] == 1 else f"{label} ({times[label]})")
    return result
