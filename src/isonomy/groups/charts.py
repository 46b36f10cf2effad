"""Charts of groups: intervals by group with the null and the tolerance; adverse impact, ratios by cutoff."""

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
    from isonomy.groups.disparities import GroupEvidence
    from isonomy.groups.flag import FlagResult
    from isonomy.groups.impact import AdverseImpactResult
    from isonomy.groups.proxy import ProxyEvidence

_RATIO_WORDS = (
    "{violation: 'shown to be below the threshold', within_tolerance: 'shown to reach the threshold'}[datum.label]"
    " || datum.label"
)


def flagged(result: FlagResult) -> alt.TopLevelMixin:
    low, high = (np.full(result.n.shape, end) for end in (result.null_low, result.null_high))
    more: Columns = {"direction": result.direction, "adjusted p-value": result.adjusted_pvalue}
    return _intervals(result, result.verdicts, low, high, result.interval, more, result.adjust)


def certified(result: CertifyResult) -> alt.TopLevelMixin:
    reach, null = result.reach or 0.0, result.link.delta(result.null_disparity)
    low, high = (result.link.reported(null + sign * reach) for sign in (-1.0, 1.0))
    beyond = (result.ci_low > high) | (result.ci_high < low)
    within = inside(result.link.delta(result.ci_low), result.link.delta(result.ci_high), result.reach)
    verdicts = [
        Verdict.VIOLATION if out else Verdict.WITHIN_TOLERANCE if tolerated else Verdict.INCONCLUSIVE
        for out, tolerated in zip(beyond, within, strict=True)
    ]
    return _intervals(result, verdicts, low, high, "simultaneous", {}, None)


def _intervals(
    result: GroupEvidence,
    verdicts: Sequence[Verdict],
    low: FloatArray,
    high: FloatArray,
    kind: str,
    more: Columns,
    adjust: str | None,
) -> alt.TopLevelMixin:
    """Disparities, the largest first, with the null from ``low`` to ``high``; ``adjust``: the family of verdicts."""
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
    beyond = (result.ci_low[order] > high[order]) | (result.ci_high[order] < low[order])
    disagree = bool((beyond != [verdicts[i] is Verdict.VIOLATION for i in order]).any())
    counted = words.counted(int(known.sum()), len(set(result.metrics)) > 1)
    several = "" if known.sum() <= charts.DRAWN else f", the {charts.DRAWN} largest of {counted}"
    return charts.forest(
        "disparity",
        columns,
        axis=words.measured(result),
        title=f"{words.intervals(kind, result.alpha)}{several}",
        subtitle=() if adjust is None else words.error_rates(kind, adjust, result.alpha, disagree=disagree),
        null=(low[order], high[order]),
        tolerance=result.tolerance,
        ratio=result.link.ratio,
        unit=result.units().get("disparity", ""),
        below=_by_share(result) if result.proxy else None,
    )


def impact(result: AdverseImpactResult) -> alt.TopLevelMixin:
    order = charts.notable(result.disparity, -result.disparity)
    flagged = np.array([result.verdicts[i] is Verdict.VIOLATION for i in order], dtype=bool)
    disagree = bool(((result.ci_high[order] < result.threshold) != flagged).any())
    adjust = str(result.provenance.options.get("adjust"))
    by_cutoff = result.cutoffs.size and np.isfinite(result.cutoff_ratio).any()
    return charts.forest(
        "ratio",
        {
            "group": [result.labels[i] for i in order],
            "ratio": result.disparity[order],
            "low": result.ci_low[order],
            "high": result.ci_high[order],
            "n": result.n[order],
            "selected": result.selected[order],
            "adjusted p-value": result.adjusted_pvalue[order],
            "verdict": [result.verdicts[i].value for i in order],
        },
        axis="impact ratio",
        title=f"Impact ratios with {100 * (1 - result.alpha):g} % intervals; dashed: {result.threshold:g} and 1",
        subtitle=words.error_rates("pointwise", adjust, result.alpha, "category", "categories", disagree=disagree),
        ratio=True,
        rules=(result.threshold, 1.0),
        words=_RATIO_WORDS,
        below=_by_share(result) if result.proxy else _by_cutoff(result) if by_cutoff else None,
    )


def _by_share(result: ProxyEvidence) -> alt.LayerChart | alt.FacetChart:
    """The disparity and its interval for every share of it that may remain among people with the same probabilities."""
    assert result.curves is not None
    drawn = np.flatnonzero(np.isfinite(result.curves[0]).any(axis=0))[: len(theme.PALETTE)]
    names = [theme.short(result.labels[i]) for i in drawn]
    value, low, high = (part[:, drawn].T for part in result.curves[:3])
    base = charts.curves("group", names, "share", 100 * np.array(result.gammas), value=value, low=low, high=high)
    x = alt.X("share:Q", title="share of the disparity that remains among people with the same probabilities, in %")
    color = alt.Color("group:N", legend=alt.Legend(title=None, symbolOpacity=1))
    band = base.mark_area(opacity=0.12).encode(x=x, y="low:Q", y2="high:Q", color=color)
    ratio = result.provenance.options.get("scale") == "ratio" or "threshold" in result.provenance.options
    axis = charts.hundredths(result.units().get("disparity", ""))
    y = alt.Y("value:Q", title="ratio" if ratio else "difference", axis=axis)
    line = base.mark_line(point=True).encode(x=x, y=y, color=color)
    title = f"By share, with {100 * (1 - result.alpha):g} % intervals at each share"  # type: ignore[attr-defined]
    return alt.layer(charts.rule("y", float(ratio)), band, line).properties(width=480, height=240, title=title)


def _by_cutoff(result: AdverseImpactResult) -> alt.LayerChart | alt.FacetChart:
    """The ratio at every cutoff, with a band that holds at all cutoffs of a category together."""
    drawn = np.flatnonzero(np.isfinite(result.cutoff_ratio).any(axis=0))[: len(theme.PALETTE)]
    names = [theme.short(result.labels[i]) for i in drawn]
    curves = {name: getattr(result, f"cutoff_{name}")[:, drawn].T for name in ("ratio", "low", "high")}
    base = charts.curves("category", names, "cutoff", result.cutoffs, **curves)
    x = alt.X("cutoff:Q", scale=alt.Scale(zero=False, nice=False))
    color = alt.Color("category:N", legend=alt.Legend(title=None, symbolOpacity=1))
    band = base.mark_area(opacity=0.08).encode(x=x, y="low:Q", y2="high:Q", color=color)
    line = base.mark_line().encode(x=x, y=alt.Y("ratio:Q", title="impact ratio"), color=color)
    banded = bool(np.isfinite(curves["low"]).any())  # bands assume independent rows of equal weight
    level = f"{100 * (1 - result.alpha):g} %"
    title = f"Impact ratio by cutoff{f', with simultaneous {level} bands' if banded else ''}"
    return alt.layer(charts.rule("y", result.threshold), band, line).properties(width=480, height=240, title=title)
