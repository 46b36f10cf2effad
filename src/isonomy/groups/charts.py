"""Charts of groups: intervals by group with the null and the tolerance; adverse impact, ratios by cutoff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from isonomy.groups import words
from isonomy.inference import Verdict, inside
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.results import Columns, charts, phrases, theme

if TYPE_CHECKING:
    from isonomy.groups.certify import CertifyResult
    from isonomy.groups.disparities import GroupEvidence
    from isonomy.groups.flag import FlagResult
    from isonomy.groups.impact import AdverseImpactResult
    from isonomy.groups.proxy import ProxyEvidence

Panel = alt.LayerChart | alt.FacetChart
_BOXES = ["#E9A26B", "#F4F2EE", "#6BA6CC"]  # lower, equal, higher: black letters can be read on each
_ALL, _PAIRS = "(all)", 3  # the margin of a table of intersections, and how many tables are drawn
_RATIO_WORDS = (
    "{violation: 'shown to be below the threshold', within_tolerance: 'shown to reach the threshold', "
    "inconclusive: 'neither was shown', reference: 'comparator'}[datum.label] || datum.label"
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
    """Disparities, worst first, with the null from ``low`` to ``high``; ``adjust``: the family of verdicts."""
    known = ~np.isnan(result.ci_low)
    drawn = charts.notable(known, result.link.delta(result.disparity), result.ranking())
    counted = words.counted(int(known.sum()), len(set(result.metrics)) > 1)
    several = "" if known.sum() <= charts.DRAWN else f", the {charts.DRAWN} largest of {counted}"
    metrics = list(dict.fromkeys(result.metrics[i] for i in drawn)) or [""]
    parts: list[Any] = []
    for metric in metrics:  # one panel for each
        order = np.array([i for i in drawn if result.metrics[i] == metric], dtype=np.intp)
        beyond = (result.ci_low[drawn] > high[drawn]) | (result.ci_high[drawn] < low[drawn])
        disagree = bool((beyond != [verdicts[i] is Verdict.VIOLATION for i in drawn]).any())
        first, title = metric == metrics[0], f"{words.intervals(kind, result.alpha)}{several}"
        name = phrases.metric(metric)
        limits: list[Any] = [getattr(result, f"estimate_{end}", None) for end in ("low", "high")]
        beside = [] if limits[0] is None else [_rates(result, order, name, *limits)]
        beside += _crossed(result, drawn) if len(metrics) == 1 else []
        panel = charts.panel(
            "disparity",
            _lines(result, verdicts, order, more),
            axis=words.measured(result, metric),
            title=title
            if len(metrics) == 1
            else f"{name[:1].upper()}{name[1:]}: {title}"
            if first
            else f"{name[:1].upper()}{name[1:]}",
            subtitle=words.error_rates(kind, adjust, result.alpha, disagree=disagree) if first and adjust else (),
            null=(low[order], high[order]),
            tolerance=result.tolerance,
            ratio=result.link.ratio,
            unit=result.units().get("disparity", ""),
            width=300 if beside else 480,
        )
        parts.append(charts.in_a_row([panel, *beside]))
    return charts.stacked([*parts, *([_by_share(result)] if result.proxy else [])])


def _lines(result: GroupEvidence, verdicts: Sequence[Verdict], order: IntArray, more: Columns) -> Columns:
    return {
        "group": [result.names[i] for i in order],
        "disparity": np.where(result.ranged, np.nan, result.disparity[order]),  # no point before a range
        "low": result.ci_low[order],
        "high": result.ci_high[order],
        "n": result.n[order],
        "verdict": [verdicts[i].value for i in order],
        "status": [result.status[i].value for i in order],
        **{name: [values[i] for i in order] for name, values in more.items()},
    }


def _rates(result: GroupEvidence, order: IntArray, name: str, low: FloatArray, high: FloatArray) -> Panel:
    """The metric itself with its own interval, next to its disparity."""
    numbers = {"value": result.estimate, "low": low, "high": high, "n": result.n}
    columns: Columns = {"group": [result.labels[i] for i in order], **{key: v[order] for key, v in numbers.items()}}
    unit = "%" if result.all_shares else ""
    return charts.panel("value", columns, axis=name, title="Each group alone", unit=unit, width=140, labeled=False)


def _crossed(result: GroupEvidence, drawn: IntArray) -> list[Panel]:
    """Intersections of two columns as a table of boxes, each column alone at its margin; flagged boxes have a frame."""
    flagged = [result.verdicts[i] is Verdict.VIOLATION for i in drawn] if hasattr(result, "verdicts") else []
    columns = [tuple(name for name, _ in result.groups[i].items) for i in drawn]
    pairs = [pair for pair in dict.fromkeys(columns) if len(pair) == 2]
    return [_boxes(result, pair, drawn, flagged) for pair in pairs[:_PAIRS] if flagged]


def _boxes(result: GroupEvidence, pair: tuple[str, ...], drawn: IntArray, flagged: Sequence[bool]) -> Panel:
    places = [dict(result.groups[i].items) for i in drawn]
    inside = [k for k, items in enumerate(places) if set(items) <= set(pair)]
    alone = {group.items[0]: group.label for group in result.groups if len(group.items) == 1}
    named = {item: str(item[1]) if "=" in label else theme.short(label, 24) for item, label in alone.items()}

    def level(name: str, items: Mapping[str, object]) -> str:
        # A control character would end the process that draws it.
        return theme.short(named.get((name, items[name]), str(items[name])), 200) if name in items else _ALL

    first, second = ([level(name, places[k]) for k in inside] for name in pair)
    value = result.link.delta(result.disparity[drawn[inside]])
    unit, ratio = result.units().get("disparity", ""), result.link.ratio
    shown = [phrases.percent(x) if unit else phrases.number(x) for x in result.disparity[drawn[inside]].tolist()]
    columns = {"row": first, "column": second, "value": value, "text": shown}
    labels = [theme.short(result.labels[drawn[k]], 200) for k in inside]
    columns |= {"flagged": [bool(flagged[k]) for k in inside], "group": labels}
    most = float(np.nanmax(np.abs(value), initial=1e-9))
    color = alt.Color(
        "value:Q", legend=None, scale=alt.Scale(domain=[-most, 0.0, most], range=_BOXES, interpolate="rgb")
    )
    axes = (
        alt.Axis(grid=False, domain=False, ticks=False, labelPadding=6),
        alt.Axis(grid=False, domain=False, ticks=False, labelAngle=0, labelLimit=64, orient="top"),
    )
    y = alt.Y("row:N", title=theme.short(pair[0]), sort=_last(first), axis=axes[0])
    x = alt.X("column:N", title=theme.short(pair[1]), sort=_last(second), axis=axes[1])
    base = alt.Chart(theme.data(columns)).encode(x=x, y=y, tooltip=["group:N", "text:N", "flagged:N"])
    frame = base.transform_filter("datum.flagged").mark_rect(filled=False, stroke="black", strokeWidth=2.5)
    title = f"Intersections{', in points' if unit else ' (ratios)' if ratio else ''}"
    return alt.layer(
        base.mark_rect().encode(color=color), frame, base.mark_text(color="black", fontSize=12).encode(text="text:N")
    ).properties(
        width=alt.Step(66),
        height=alt.Step(26),
        title=alt.TitleParams(title, subtitle=["Framed: a difference was shown."]),
    )


def _last(names: Sequence[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (name == _ALL, name))


def impact(result: AdverseImpactResult) -> alt.TopLevelMixin:
    order = charts.notable(~np.isnan(result.disparity), np.log(np.maximum(result.disparity, 1e-9)), result.ranking())
    compared = result.compared_with()
    flagged = np.array([result.verdicts[i] is Verdict.VIOLATION for i in order], dtype=bool)
    disagree = bool(((result.ci_high[order] < result.threshold) != flagged).any())
    adjust = str(result.provenance.options.get("adjust"))
    by_cutoff = result.cutoffs.size and np.isfinite(result.cutoff_ratio).any()
    return charts.forest(
        "ratio",
        {
            "group": [result.labels[i] for i in order],
            "ratio": np.where(result.ranged & ~compared[order], np.nan, result.disparity[order]),
            "low": result.ci_low[order],
            "high": result.ci_high[order],
            "n": result.n[order],
            "selected": result.selected[order],
            "adjusted p-value": result.adjusted_pvalue[order],
            "verdict": [charts.REFERENCE if compared[i] else result.verdicts[i].value for i in order],
        },
        axis="impact ratio",
        title=f"Impact ratios with {100 * (1 - result.alpha):g} % intervals; dashed: {result.threshold:g} and 1",
        subtitle=words.error_rates("pointwise", adjust, result.alpha, "category", "categories", disagree=disagree),
        ratio=True,
        rules=(result.threshold, 1.0),
        words=_RATIO_WORDS,
        below=[_by_share(result)] if result.proxy else [_by_cutoff(result)] if by_cutoff else [],
    )


def _by_share(result: ProxyEvidence) -> alt.LayerChart | alt.FacetChart:
    """The disparity and its interval for every share of it that may remain among people with the same probabilities."""
    assert result.curves is not None
    known = np.flatnonzero(np.isfinite(result.curves[0]).any(axis=0))
    drawn = known[: len(theme.PALETTE)]
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
    title += charts.of_all(drawn.size, known.size, "groups")
    return alt.layer(charts.rule("y", float(ratio)), band, line).properties(width=480, height=240, title=title)


def _by_cutoff(result: AdverseImpactResult) -> alt.LayerChart | alt.FacetChart:
    """The ratio at every cutoff, with a band that holds at all cutoffs of a category together."""
    known = [i for i in result.ranking() if np.isfinite(result.cutoff_ratio[:, i]).any()]
    drawn = np.array(known[: len(theme.PALETTE)], dtype=np.intp)
    names = [theme.short(result.labels[i]) for i in drawn]
    curves = {name: getattr(result, f"cutoff_{name}")[:, drawn].T for name in ("ratio", "low", "high")}
    base = charts.curves("category", names, "cutoff", result.cutoffs, **curves)
    x = alt.X("cutoff:Q", scale=alt.Scale(zero=False, nice=False))
    color = alt.Color("category:N", sort=names, legend=alt.Legend(title=None, symbolOpacity=1))
    band = base.mark_area(opacity=0.08).encode(x=x, y="low:Q", y2="high:Q", color=color)
    line = base.mark_line().encode(x=x, y=alt.Y("ratio:Q", title="impact ratio"), color=color)
    banded = bool(np.isfinite(curves["low"]).any())  # bands assume independent rows of equal weight
    level = f"{100 * (1 - result.alpha):g} %"
    title = f"Impact ratio by cutoff{f', with simultaneous {level} bands' if banded else ''}"
    title += charts.of_all(drawn.size, len(known), "categories")
    return alt.layer(charts.rule("y", result.threshold), band, line).properties(width=480, height=240, title=title)
