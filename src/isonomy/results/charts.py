"""The two charts that several topics draw: intervals by group, and curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.results import theme
from isonomy.results.evidence import Columns

# Verdicts as a legend names them, a Vega expression.
WORDS = "{violation: 'difference shown', within_tolerance: 'within tolerance'}[datum.label] || datum.label"
_HUNDREDTHS = "format(100 * datum.value, '~g')"  # shares in percent, their differences in points
DRAWN = 80  # groups at most; the table has them all
REFERENCE = "reference"  # in place of a verdict: the group that others are compared with
ROW = 18
_APART: dict[str, Any] = {"color": "independent", "shape": "independent"}
# The ticks of a logarithmic axis.
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)


def hundredths(unit: str) -> alt.Axis | alt.UndefinedType:
    """The axis of shares ("%") or of their differences ("points"); the usual axis without a ``unit``."""
    return alt.Axis(labelExpr=_HUNDREDTHS) if unit else alt.Undefined


def notable(known: BoolArray, by: FloatArray, order: Sequence[int]) -> IntArray:
    """Places of the groups to draw: of many, those with the largest ``by``, in the ``order`` of the report."""
    places = np.flatnonzero(known)
    drawn = places[np.argsort(-np.abs(np.nan_to_num(by[places])), kind="stable")][:DRAWN]
    return np.array([i for i in order if i in set(drawn.tolist())], dtype=np.intp)


def forest(
    name: str, columns: Columns, *, below: Sequence[alt.LayerChart | alt.FacetChart] = (), **options: Any
) -> alt.TopLevelMixin:
    """The intervals of `panel`, and other charts ``below``."""
    return stacked([panel(name, columns, **options), *below])


def stacked(parts: Sequence[Any]) -> alt.TopLevelMixin:
    """Charts below each other; a single one stays as it is."""
    return theme.finish(parts[0] if len(parts) == 1 else alt.vconcat(*parts).resolve_scale(**_APART))


def in_a_row(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else alt.hconcat(*parts).resolve_scale(**_APART)


def panel(
    name: str,
    columns: Columns,
    *,
    axis: str,
    title: str,
    subtitle: Sequence[str] = (),
    null: tuple[FloatArray, FloatArray] | None = None,
    tolerance: float | None = None,
    reach: float = np.inf,
    ratio: bool = False,
    unit: str = "",
    rules: Sequence[float] = (),
    words: str = WORDS,
    width: int = 480,
    labeled: bool = True,
) -> alt.LayerChart | alt.FacetChart:
    """One row per group: the column ``name`` as a point, with its interval from ``low`` to ``high``.

    All columns are shown on hovering. A column ``verdict`` is shown as color and shape, a column ``direction`` as
    shape. ``null``: the two ends of the null in each group; ``reach``: how far the axis may extend for the end of an
    interval. ``ratio``: the values and the tolerance are ratios, and the axis is logarithmic. ``unit``: "%" for shares,
    "points" for their differences. ``subtitle``: lines below the title. ``rules``: values with a dashed line across the
    chart, which an axis of ratios labels; ``words``: the verdicts in the legend; ``labeled``: whether groups are named.
    """
    groups = _distinct([theme.short(str(label)) for label in columns["group"]])
    numbers = [np.asarray(columns[end], dtype=np.float64) for end in (name, "low", "high")]
    low, high = _clipped(numbers, reach, ratio=ratio)
    beyond = {"left": numbers[1] < low, "right": numbers[2] > high}
    drawn = {**columns, "group": groups, "from": low, "to": high, **beyond}
    if ratio:  # a ratio of 0 has no place on the axis, and is drawn at its edge
        drawn["point"] = np.clip(numbers[0], low.min(initial=np.inf), high.max(initial=0.0))
    kinds = {key: "Q" if np.asarray(values).dtype.kind in "fiu" else "N" for key, values in columns.items()}
    base = alt.Chart(theme.data(drawn if null is None else {**drawn, "null": null[0]})).encode(
        y=alt.Y("group:N", sort=groups, title=None, axis=alt.Undefined if labeled else None),
        tooltip=[f"{key}:{kind}" for key, kind in kinds.items()],
    )
    bars = base.mark_rule(strokeWidth=2, color=theme.PALETTE[0]).encode(
        x=alt.X(
            "from:Q",
            title=f"{axis}, in {unit}" if unit else axis,
            axis=_ratio_axis(low, high, rules) if ratio else hundredths(unit),
            # Rounded to powers of ten, the axis of ratios between 0.8 and 1.1 would go from 0.1 to 10.
            scale=alt.Scale(type="log", nice=False, padding=10) if ratio else alt.Scale(zero=False),
        ),
        x2="to:Q",
    )
    arrows = [  # an interval that goes on beyond the edge
        base.mark_point(shape=f"triangle-{side}", filled=True, size=60, opacity=1, color=theme.PALETTE[0])
        .transform_filter(f"datum.{side}")
        .encode(x=f"{end}:Q")
        for side, end in (("left", "from"), ("right", "to"))
        if beyond[side].any()
    ]
    dots = base.mark_point(filled=True, size=70, opacity=1, color=theme.PALETTE[0]).encode(
        x="point:Q" if ratio else f"{name}:Q"
    )
    if "verdict" in columns:
        looks = theme.VERDICT_COLORS | ({REFERENCE: theme.REFERENCE} if REFERENCE in columns["verdict"] else {})
        verdicts, colors = list(looks), list(looks.values())
        scale, shapes = alt.Scale(domain=verdicts, range=colors), ["diamond", "square", "circle", "cross"]
        color = alt.Color(
            "verdict:N", scale=scale, legend=alt.Legend(title=None, orient="bottom", columns=2, labelExpr=words)
        )
        shape = alt.Shape("verdict:N", scale=alt.Scale(domain=verdicts, range=shapes[: len(verdicts)]))
        if any(columns.get("direction", ())):
            ways = {"disfavored": "triangle-down", "favored": "triangle-up", "": "circle"}
            gray: Any = theme.RULE  # on white and on dark
            named = alt.Legend(
                title=None, orient="bottom", values=list(ways)[:2], symbolFillColor=gray, symbolStrokeColor=gray
            )
            shape = alt.Shape(
                "direction:N", scale=alt.Scale(domain=list(ways), range=list(ways.values())), legend=named
            )
        arrows = [arrow.encode(color=color) for arrow in arrows]
        bars, dots = bars.encode(color=color), dots.encode(color=color, shape=shape)
    if tolerance is not None and null is not None:
        ends = (tolerance, 1.0 / tolerance) if ratio else (-tolerance, tolerance)
        null = np.full(null[0].shape, ends[0]), np.full(null[1].shape, ends[1])
    nulls = [rule("x", value) for value in rules]
    nulls += [] if null is None else _nulls(base, None if tolerance is None else float(ratio), *null)
    height = max(60, ROW * len(groups))
    heading = alt.TitleParams(title, subtitle=list(subtitle)) if subtitle else title
    return alt.layer(*nulls, bars, *arrows, dots).properties(width=width, height=height, title=heading)


def _ratio_axis(low: FloatArray, high: FloatArray, rules: Sequence[float]) -> alt.Axis:
    """Ticks where the data are; the thresholds among them are always labeled, and ticks next to them are not."""
    first, last = min(low.min(initial=1), *rules, 1), max(high.max(initial=1), *rules, 1)
    near = 0.04 * np.log(last / first)
    ticks = [x for x in TICKS if first <= x <= last and all(abs(np.log(x / rule)) > near for rule in rules)]
    return alt.Axis(values=sorted({*ticks, *rules}), labelOverlap=False)


def _nulls(base: alt.Chart, equal: float | None, low: FloatArray, high: FloatArray) -> list[alt.Chart]:
    """A tolerance about ``equal``, or an interval null, as a band; one number as a rule, or a tick for each group."""
    if not low.size:
        return []
    if np.ptp(low) > 0:
        return [base.mark_tick(color=theme.RULE, thickness=2).encode(x="null:Q")]
    marks: list[alt.Chart] = []
    if low[0] < high[0]:
        band = alt.Chart(theme.data({"low": low[:1], "high": high[:1]}))
        marks.append(band.mark_rect(opacity=0.15, color=theme.RULE).encode(x="low:Q", x2="high:Q"))
    if low[0] == high[0] or equal is not None:
        marks.append(rule("x", float(low[0]) if equal is None else equal))
    return marks


def of_all(drawn: int, total: int, what: str) -> str:
    """', 8 of 12 categories' if not all are drawn; the table has them all."""
    return "" if drawn == total else f", {drawn:,} of {total:,} {what}"


def rule(axis: str, at: float = 0.0) -> alt.Chart:
    line = alt.Chart(theme.data({"null": [at]})).mark_rule(color=theme.RULE, strokeDash=[4, 3])
    return line.encode(**{axis: "null:Q"})


def _clipped(numbers: Sequence[FloatArray], reach: float, *, ratio: bool) -> tuple[FloatArray, FloatArray]:
    """The ends of the intervals, clipped at the edges of the chart if they are infinite (for ratios, also 0)."""
    ends = np.concatenate([*numbers, [float(ratio)]])
    finite = ends[np.isfinite(ends) & ((ends > 0) | (not ratio))]
    margin = 0.1 * (float(np.ptp(finite)) or 1.0)
    left, right = max(float(finite.min()) - margin, -reach), min(float(finite.max()) + margin, reach)
    if ratio:
        left, right = float(finite.min()) / 1.2, float(finite.max()) * 1.2
    _, low, high = numbers
    return np.clip(low, left, right), np.clip(high, left, right)


def _distinct(labels: Sequence[str]) -> list[str]:
    """Labels with a number after those that were equal once shortened."""
    times: Counter[str] = Counter()
    result = []
    for label in labels:
        times[label] += 1
        result.append(label if times[label] == 1 else f"{label} ({times[label]})")
    return result


def curves(name: str, names: Sequence[str], x: str, at: FloatArray, **values: FloatArray) -> alt.Chart:
    """The base of a chart with one curve per name; ``values``, each of shape (names, points), become its columns."""
    points = theme.thin(at.size, max(2, theme.MAXIMUM_POINTS // max(1, len(names))))
    columns = {name: np.repeat(np.array(names, dtype=object), points.size), x: np.tile(at[points], len(names))}
    return alt.Chart(theme.data(columns | {key: part[:, points].ravel() for key, part in values.items()}))
