"""Charts: intervals by group, sorted, with the null and the tolerance drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from isonomy.likelihood import wording
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Verdict, theme

if TYPE_CHECKING:
    from isonomy.likelihood.result import GroupResult


# Groups drawn: the largest differences; the table has them all.
DRAWN = 60
ROW = 18


def intervals(
    result: GroupResult, verdicts: tuple[Verdict, ...], null_low: FloatArray, null_high: FloatArray, kind: str
) -> alt.TopLevelMixin:
    """Each group's disparity with its interval, largest first, coloured by verdict, the nulls behind them.

    ``kind`` is what the intervals hold for: "pointwise", "simultaneous" or "one-sided".
    """
    known = np.flatnonzero(~np.isnan(result.ci_low))
    order = known[np.argsort(-np.abs(result.disparity[known]), kind="stable")][:DRAWN]
    order = order[np.argsort(-result.disparity[order], kind="stable")]
    ends = _clipped(result, order)
    labels = [theme.short(str(result.groups[i])) for i in order]
    data = theme.data(
        {
            "group": _distinct(labels),
            "disparity": result.disparity[order],
            "low": ends[0],
            "high": ends[1],
            "n": result.n[order],
            "verdict": [verdicts[i].value for i in order],
            "null": null_low[order],
            "status": [result.status[i].value for i in order],
        }
    )
    y = alt.Y("group:N", sort=_distinct(labels), title=None)
    colours = theme.VERDICT_COLOURS
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(title="verdict", orient="bottom"),
    )
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=list(colours), range=["diamond", "square", "circle"]))
    tooltip = ["group:N", "disparity:Q", "low:Q", "high:Q", "n:Q", "verdict:N", "status:N"]
    base = alt.Chart(data)
    title = wording.difference(result.metric, result.reference)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title), x2="high:Q", y=y, color=colour, tooltip=tooltip
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="disparity:Q", y=y, color=colour, shape=shape, tooltip=tooltip
    )
    layers = [*_nulls(base, y, result.tolerance, null_low[order], null_high[order]), bars, points]
    level = wording.intervals(kind, result.alpha)
    drawn = "" if known.size <= DRAWN else f", the {DRAWN} largest of {known.size:,} groups"
    chart = alt.layer(*layers).properties(width=480, height=max(60, ROW * len(labels)), title=f"{level}{drawn}")
    return theme.finish(chart)


def _nulls(base: alt.Chart, y: alt.Y, tolerance: float | None, low: FloatArray, high: FloatArray) -> list[Any]:
    """The tolerance, or an interval null, as a band; a null that is one number as a rule, or a tick for each group."""
    if tolerance is not None:
        low, high = np.full(low.shape, -tolerance), np.full(high.shape, tolerance)
    if not low.size:
        return []
    if np.ptp(low) > 0:
        return [base.mark_tick(color=theme.RULE, thickness=2).encode(x="null:Q", y=y)]
    marks: list[Any] = []
    if low[0] < high[0]:
        band = alt.Chart(theme.data({"low": low[:1], "high": high[:1]}))
        marks.append(band.mark_rect(opacity=0.15, color=theme.RULE).encode(x="low:Q", x2="high:Q"))
    if low[0] == high[0] or tolerance is not None:
        rule = alt.Chart(theme.data({"null": 0.5 * (low[:1] + high[:1])}))
        marks.append(rule.mark_rule(color=theme.RULE, strokeDash=[4, 3]).encode(x="null:Q"))
    return marks


def _clipped(result: GroupResult, order: Any) -> tuple[Any, Any]:
    """Interval ends, with infinite ones cut at the chart's edge."""
    low, high = result.ci_low[order], result.ci_high[order]
    finite = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], result.disparity[order], [0.0]])
    span = float(np.ptp(finite)) or 1.0
    left, right = float(finite.min()) - 0.1 * span, float(finite.max()) + 0.1 * span
    return np.clip(low, left, None), np.clip(high, None, right)


def _distinct(labels: list[str]) -> list[str]:
    """Shortened labels may coincide; a number keeps them apart."""
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return result
