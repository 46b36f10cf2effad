"""Charts of groups: intervals by group with the null and the tolerance; adverse impact, ratios by cutoff."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from isonomy.frames.groups import Group
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
_COLORS = ["#E9A26B", "#F4F2EE", "#6BA6CC"]  # lower, equal, higher: black letters can be read on each
_UNKNOWN = "#D9D9D9"  # the reference, and groups that are not tested
_FRAME = theme.VERDICT_COLORS["violation"]
_ALL, _CROSSED = "(all)", 3  # the margin of a table of intersections, and how many tables and trees are drawn
_PLAIN: dict[str, Any] = {"grid": False, "domain": False, "ticks": False, "labelAngle": 0}
_WIDEST = 180  # pixels of a column of boxes
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
        first, name = metric == metrics[0], phrases.metric(metric)
        titles = [] if len(metrics) == 1 else [f"{name[:1].upper()}{name[1:]}"]
        titles += [f"{words.intervals(kind, result.alpha)}{several}"] if first else []
        limits: list[Any] = [getattr(result, f"estimate_{end}", None) for end in ("low", "high")]
        beside = [] if limits[0] is None else [_rates(result, order, name, *limits)]
        beside += _crossed(result, drawn) if len(metrics) == 1 else []
        panel = charts.panel(
            "disparity",
            _lines(result, verdicts, order, more),
            axis=words.measured(result, metric),
            title=": ".join(titles),
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
    numbers = {"value": result.estimate, "low": low, "high": high, "n": result.n}
    columns: Columns = {"group": [result.labels[i] for i in order], **{key: v[order] for key, v in numbers.items()}}
    unit = "%" if result.all_shares else ""
    return charts.panel("value", columns, axis=name, title="Each group alone", unit=unit, width=140, labeled=False)


def _crossed(result: GroupEvidence, drawn: IntArray) -> list[Any]:
    """Charts of intersections, one below the other: a table of two columns, a tree of more. None without verdicts."""
    columns = [tuple(name for name, _ in result.groups[i].items) for i in drawn if hasattr(result, "verdicts")]
    crossings = sorted(dict.fromkeys(names for names in columns if len(names) > 1), key=len, reverse=True)
    longest = [names for names in crossings if not any(names == other[: len(names)] != other for other in crossings)]
    parts = [(_table if len(set(names)) == len(names) == 2 else _tree)(result, names, drawn) for names in longest]
    return [alt.vconcat(*parts[:_CROSSED]).resolve_scale(color="independent")] if len(parts) > 1 else parts


def _table(result: GroupEvidence, pair: tuple[str, ...], drawn: IntArray) -> Panel:
    """Two columns crossed, with the groups of either column alone at the margins."""
    names = [[name for name, _ in group.items] for group in result.groups]  # named conditions share theirs
    places = [i for i in drawn if set(names[i]) <= set(pair) and len(names[i]) == len(set(names[i]))]
    levels = [{item[0]: _level(result, item) for item in result.groups[i].items} for i in places]
    first, second = ([level.get(name, _ALL) for level in levels] for name in pair)
    top = alt.Axis(orient="top", labelLimit=_WIDEST, **_PLAIN)
    x = alt.X("column:N", title=theme.short(pair[1]), sort=_last(second), axis=top)
    y = alt.Y("row:N", title=theme.short(pair[0]), sort=_last(first), axis=alt.Axis(labelPadding=6, **_PLAIN))
    longest = max(map(len, second))
    return _boxes(result, places, {"row": first, "column": second}, {"x": x, "y": y}, y, longest).properties(
        height=alt.Step(26)
    )


def _tree(result: GroupEvidence, names: tuple[str, ...], drawn: IntArray) -> Panel:
    """Boxes of the first column, each divided into those of the next, and so on; the last ones are one row high."""
    items = [group.items for group in result.groups]
    branches = [items[i] for i in drawn if tuple(name for name, _ in items[i]) == names[: len(items[i])]]
    inside = [i for i, path in enumerate(items) if any(branch[: len(path)] == path for branch in branches)]
    paths = {i: tuple(_level(result, item) for item in items[i]) for i in inside}
    places = sorted(inside, key=paths.__getitem__)
    order = [paths[i] for i in places]
    leaves = [path for path, after in zip(order, [*order[1:], ()], strict=True) if after[: len(path)] != path]
    rows = [[k for k, leaf in enumerate(leaves) if leaf[: len(path)] == path] for path in order]
    more: dict[str, Any] = {"level": [len(path) - 1 for path in order], "name": [path[-1] for path in order]}
    more |= {"top": [float(part[0]) for part in rows], "bottom": [part[-1] + 1.0 for part in rows]}
    more["middle"] = [(part[0] + part[-1] + 1) / 2 for part in rows]
    # Levels are numbers here, because all named conditions have the same column name.
    heads = f"{json.dumps([theme.short(name) for name in names])}[datum.value]"
    scale = alt.Scale(domain=[0, len(leaves)], reverse=True, nice=False)
    sides = {
        "x": alt.X("level:O", title=None, axis=alt.Axis(orient="top", labelExpr=heads, **_PLAIN)),
        "y": alt.Y("top:Q", axis=None, scale=scale),
        "y2": "bottom:Q",
    }
    longest = 6 + max(len(path[-1]) for path in order)
    chart = _boxes(result, places, more, sides, alt.Y("middle:Q", axis=None, scale=scale), longest)
    return chart.properties(height=charts.ROW * len(leaves))


def _level(result: GroupEvidence, item: tuple[str, object]) -> str:
    """The value of a column, or the whole label of a cut or a condition."""
    alone = next((group for group in result.groups if group.items == (item,)), Group((item,)))
    return theme.short(alone.label.removeprefix(f"{item[0]}="), 24)


def _boxes(
    result: GroupEvidence, places: Sequence[int], more: Columns, sides: Mapping[str, Any], y: alt.Y, longest: int
) -> Panel:
    """A box for each group, colored by its disparity and framed if it is flagged; ``y`` is where its text stands."""
    value, unit = result.link.delta(result.disparity[places]), result.units().get("disparity", "")
    shown = [phrases.percent(x) if unit else phrases.number(x) for x in result.disparity[places].tolist()]
    names = more.get("name", [""] * len(shown))
    columns = {**more, "value": value, "text": shown}
    parts = zip(names, np.where(np.isfinite(value), shown, "").tolist(), strict=True)
    columns["label"] = [": ".join(filter(None, part)) for part in parts]
    columns["flagged"] = [result.verdicts[i] is Verdict.VIOLATION for i in places]  # type: ignore[attr-defined]
    columns["group"] = [theme.short(result.labels[i], 200) for i in places]  # no control characters
    most = float(np.nanmax(np.abs(value), initial=1e-9))
    scale = alt.Scale(domain=[-most, 0.0, most], range=_COLORS, interpolate="rgb")
    base = alt.Chart(theme.data(columns)).encode(x=sides["x"], tooltip=["group:N", "text:N", "flagged:N"])
    boxes = base.encode(**sides)
    color = alt.Color("value:Q", legend=None, scale=scale)
    known = alt.condition("isValid(datum.value)", color, alt.value(_UNKNOWN))
    scale_name = ", in points" if unit else " (ratios)" if result.link.ratio else ""
    return alt.layer(
        boxes.mark_rect(stroke="white", invalid=None).encode(color=known),
        boxes.transform_filter("datum.flagged").mark_rect(filled=False, stroke=_FRAME, strokeWidth=2.5),
        base.mark_text(color="black", fontSize=12).encode(y=y, text="label:N"),
    ).properties(
        width=alt.Step(min(_WIDEST, max(66, 7 * longest))),
        title=alt.TitleParams(f"Intersections{scale_name}", subtitle=["Framed: a difference was shown."]),
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
