"""Charts of groups: intervals by group with the null and the tolerance; adverse impact, ratios by cut-off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.groups import words
from isonomy.inference import Verdict, inside
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Columns, charts, theme

if TYPE_CHECKING:
    from isonomy.groups.certify import CertifyResult
    from isonomy.groups.flag import FlagResult, GroupEvidence
    from isonomy.groups.impact import AdverseImpactResult

_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
FLOOR = 0.01  # the logarithmic axis ends here; a ratio of 0 is drawn at its end


def flagged(result: FlagResult) -> alt.TopLevelMixin:
    """Each group's disparity with its interval, its null, and what its verdict rests on."""
    low, high = (np.full(result.n.shape, end) for end in (result.null_low, result.null_high))
    kind = str(result.provenance.options.get("interval", "pointwise"))
    shown = ~np.isnan(result.ci_low)
    order = charts.notable(np.where(shown, result.disparity, np.nan), result.link.delta(result.disparity))
    beyond = (result.ci_low[order] > high[order]) | (result.ci_high[order] < low[order])
    violated = np.array([result.verdicts[i] is Verdict.VIOLATION for i in order], dtype=bool)
    subtitle = words.error_rates(kind, result.adjust, result.alpha, disagree=bool((beyond != violated).any()))
    more: Columns = {"direction": result.direction, "adjusted p-value": result.adjusted_pvalue}
    return _intervals(result, result.verdicts, low, high, words.intervals(kind, result.alpha), more, subtitle)


def certified(result: CertifyResult) -> alt.TopLevelMixin:
    """Each group's disparity with its simultaneous interval: beyond the null or the tolerance, within, or neither."""
    reach, null = result.reach or 0.0, result.link.delta(result.null_disparity)
    low, high = (result.link.reported(null + sign * reach) for sign in (-1.0, 1.0))
    beyond = (result.ci_low > high) | (result.ci_high < low)
    within = inside(result.link.delta(result.ci_low), result.link.delta(result.ci_high), result.reach)
    verdicts = tuple(
        Verdict.VIOLATION if out else Verdict.WITHIN_TOLERANCE if kept else Verdict.INCONCLUSIVE
        for out, kept in zip(beyond, within, strict=True)
    )
    return _intervals(result, verdicts, low, high, words.intervals("simultaneous", result.alpha), {}, ())


def _intervals(
    result: GroupEvidence,
    verdicts: Sequence[Verdict],
    low: FloatArray,
    high: FloatArray,
    title: str,
    more: Columns,
    subtitle: tuple[str, ...],
) -> alt.TopLevelMixin:
    """Each group's disparity with its interval, largest first, and its null from ``low`` to ``high``."""
    known = ~np.isnan(result.ci_low)
    order = charts.notable(np.where(known, result.disparity, np.nan), result.link.delta(result.disparity))
    columns: Columns = {
        "group": [result.names[i] for i in order],
        "disparity": result.disparity[order],
        "low": result.ci_low[order],
        "high": result.ci_high[order],
        "n": result.n[order],
        "verdict": [verdicts[i].value for i in order],
        "status": [result.status[i].value for i in order],
        **{name: [values[i] for i in order] for name, values in more.items()},
    }
    counted = words.counted(int(known.sum()), several=len(set(result.metrics)) > 1)
    several = "" if known.sum() <= charts.DRAWN else f", the {charts.DRAWN} largest of {counted}"
    return charts.forest(
        "disparity",
        columns,
        axis=result.measured,
        title=f"{title}{several}",
        subtitle=subtitle,
        null=(low[order], high[order]),
        tolerance=result.tolerance,
        ratio=result.link.ratio,
        unit=result.units().get("disparity", ""),
    )


def impact(result: AdverseImpactResult) -> alt.TopLevelMixin:
    """The ratios and, where there is a score, the ratios by cut-off."""
    parts = [_ratios(result)]
    if result.cutoffs.size and np.isfinite(result.cutoff_ratio).any():
        parts.append(_by_cutoff(result))
    return theme.finish(alt.vconcat(*parts).resolve_scale(color="independent") if len(parts) > 1 else parts[0])


def _ratios(result: AdverseImpactResult) -> alt.LayerChart | alt.FacetChart:
    """One row per category, the smallest ratio last, on a logarithmic axis with the threshold."""
    order = charts.notable(result.disparity, -result.disparity)
    names = [theme.short(result.labels[i]) for i in order]
    low, high = np.maximum(result.ci_low[order], FLOOR), np.minimum(result.ci_high[order], 1.0 / FLOOR)
    columns = {
        "category": names,
        "ratio": np.maximum(result.disparity[order], FLOOR),
        "low": low,
        "high": high,
        "n": result.n[order],
        "selected": result.selected[order],
        "adjusted p-value": result.adjusted_pvalue[order],
        "verdict": [result.verdicts[i].value for i in order],
    }
    verdicts, colours = list(theme.VERDICT_COLOURS), list(theme.VERDICT_COLOURS.values())
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=verdicts, range=colours),
        legend=alt.Legend(title=None, orient="bottom", labelExpr=charts.WORDS),
    )
    base = alt.Chart(theme.data(columns)).encode(
        y=alt.Y("category:N", sort=names, title=None),
        tooltip=["category:N", "ratio:Q", "low:Q", "high:Q", "n:Q", "selected:Q", "adjusted p-value:Q", "verdict:N"],
        color=colour,
    )
    ends = np.nanmin([*low, result.threshold]), np.nanmax([*high, 1.0])
    x = alt.X(
        "low:Q",
        title="impact ratio",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(values=[tick for tick in _TICKS if ends[0] <= tick <= ends[1]]),
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(x="ratio:Q")
    limits = [charts.rule("x", at) for at in (result.threshold, 1.0)]
    title = f"Impact ratios with {100 * (1 - result.alpha):g} % intervals; dashed: {result.threshold:g} and 1"
    below = result.ci_high[order] < result.threshold
    flagged = np.array([result.verdicts[i] is Verdict.VIOLATION for i in order], dtype=bool)
    adjust = str(result.provenance.options.get("adjust"))
    subtitle = words.error_rates(
        "pointwise", adjust, result.alpha, noun="category", nouns="categories", disagree=bool((below != flagged).any())
    )
    height = max(60, charts.ROW * len(order))
    chart = alt.layer(*limits, bars, points)
    return chart.properties(width=480, height=height, title=charts.titled(title, subtitle))


def _by_cutoff(result: AdverseImpactResult) -> alt.LayerChart | alt.FacetChart:
    """The ratio at every cut-off, with a band that holds at all cut-offs of a category together."""
    drawn = np.flatnonzero(np.isfinite(result.cutoff_ratio).any(axis=0))[: len(theme.PALETTE)]
    names = [theme.short(result.labels[i]) for i in drawn]
    curves = {name: getattr(result, f"cutoff_{name}")[:, drawn].T for name in ("ratio", "low", "high")}
    base = charts.curves("category", names, "cut-off", result.cutoffs, **curves)
    x = alt.X("cut-off:Q", scale=alt.Scale(zero=False, nice=False))
    colour = alt.Color("category:N", legend=alt.Legend(title=None, symbolOpacity=1))
    band = base.mark_area(opacity=0.08).encode(x=x, y="low:Q", y2="high:Q", color=colour)
    line = base.mark_line().encode(x=x, y=alt.Y("ratio:Q", title="impact ratio"), color=colour)
    title = words.cutoffs(result.alpha, bool(np.isfinite(curves["low"]).any()))
    return alt.layer(charts.rule("y", result.threshold), band, line).properties(width=480, height=240, title=title)
