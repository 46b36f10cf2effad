"""Charts of adverse impact: ratios with intervals and the threshold, and ratios by cut-off with their band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.inference import Verdict
from isonomy.likelihood import wording_impact as wording
from isonomy.likelihood.wording import error_rates
from isonomy.results import charts, theme

if TYPE_CHECKING:
    from isonomy.likelihood.result_impact import AdverseImpactResult

_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
FLOOR = 0.01  # the logarithmic axis ends here; a ratio of 0 is drawn at its end


def impact(result: AdverseImpactResult) -> alt.TopLevelMixin:
    """The ratios and, where there is a score, the ratios by cut-off."""
    parts = [_ratios(result)]
    if result.cutoffs.size and np.isfinite(result.cutoff_ratio).any():
        parts.append(_by_cutoff(result))
    return theme.finish(alt.vconcat(*parts).resolve_scale(color="independent") if len(parts) > 1 else parts[0])


def _ratios(result: AdverseImpactResult) -> alt.LayerChart | alt.FacetChart:
    """One row per category, the smallest ratio last, on a logarithmic axis with the threshold."""
    order = charts.notable(result.impact_ratio, -result.impact_ratio)
    names = [theme.short(result.labels[i]) for i in order]
    low, high = np.maximum(result.ci_low[order], FLOOR), np.minimum(result.ci_high[order], 1.0 / FLOOR)
    columns = {
        "category": names,
        "ratio": np.maximum(result.impact_ratio[order], FLOOR),
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
    subtitle = error_rates(
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
    title = wording.cutoffs(result.alpha, bool(np.isfinite(curves["low"]).any()))
    return alt.layer(charts.rule("y", result.threshold), band, line).properties(width=480, height=240, title=title)
