"""The two pictures that several methods draw: intervals by group, and curves."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.results import theme
from isonomy.results.shape import Columns

DRAWN = 80  # groups at most; the table has them all
ROW = 18


def notable(value: FloatArray, by: FloatArray) -> IntArray:
    """Places of the groups to draw: those with the largest ``by``, if there are many, in the order of ``value``."""
    known = np.flatnonzero(~np.isnan(value))
    drawn = known[np.argsort(-np.abs(np.nan_to_num(by[known])), kind="stable")][:DRAWN]
    return drawn[np.argsort(-value[drawn], kind="stable")]


def forest(
    name: str,
    columns: Columns,
    *,
    axis: str,
    title: str,
    null: tuple[FloatArray, FloatArray] | None = None,
    tolerance: float | None = None,
    reach: float = np.inf,
) -> alt.TopLevelMixin:
    """One row per group: the column ``name`` as a point, with its interval from ``low`` to ``high``.

    All columns are shown on hovering, and a column ``verdict`` as colour and shape. ``null``: its two ends in each
    group; ``reach``: how far the axis may go for the end of an interval.
    """
    groups = _distinct([theme.short(str(label)) for label in columns["group"]])
    low, high = _cut([np.asarray(columns[end], dtype=np.float64) for end in (name, "low", "high")], reach)
    drawn = {**columns, "group": groups, "from": low, "to": high}
    kinds = {key: "Q" if np.asarray(values).dtype.kind in "fiu" else "N" for key, values in columns.items()}
    base = alt.Chart(theme.data(drawn if null is None else {**drawn, "null": null[0]})).encode(
        y=alt.Y("group:N", sort=groups, title=None), tooltip=[f"{key}:{kind}" for key, kind in kinds.items()]
    )
    bars = base.mark_rule(strokeWidth=2, color=theme.PALETTE[0]).encode(
        x=alt.X("from:Q", title=axis, scale=alt.Scale(zero=False)), x2="to:Q"
    )
    points = base.mark_point(filled=True, size=70, opacity=1, color=theme.PALETTE[0]).encode(x=f"{name}:Q")
    if "verdict" in columns:
        verdicts, colours = list(theme.VERDICT_COLOURS), list(theme.VERDICT_COLOURS.values())
        scale, shapes = alt.Scale(domain=verdicts, range=colours), ["diamond", "square", "circle"]
        colour = alt.Color("verdict:N", scale=scale, legend=alt.Legend(title="verdict", orient="bottom"))
        shape = alt.Shape("verdict:N", scale=alt.Scale(domain=verdicts, range=shapes))
        bars, points = bars.encode(color=colour), points.encode(color=colour, shape=shape)
    nulls = [] if null is None else _nulls(base, tolerance, *null)
    height = max(60, ROW * len(groups))
    return theme.finish(alt.layer(*nulls, bars, points).properties(width=480, height=height, title=title))


def _nulls(base: alt.Chart, tolerance: float | None, low: FloatArray, high: FloatArray) -> list[alt.Chart]:
    """The tolerance, or an interval null, as a band; a null that is one number as a rule, or a tick for each group."""
    if tolerance is not None:
        low, high = np.full(low.shape, -tolerance), np.full(high.shape, tolerance)
    if not low.size:
        return []
    if np.ptp(low) > 0:
        return [base.mark_tick(color=theme.RULE, thickness=2).encode(x="null:Q")]
    marks: list[alt.Chart] = []
    if low[0] < high[0]:
        band = alt.Chart(theme.data({"low": low[:1], "high": high[:1]}))
        marks.append(band.mark_rect(opacity=0.15, color=theme.RULE).encode(x="low:Q", x2="high:Q"))
    if low[0] == high[0] or tolerance is not None:
        marks.append(rule("x", float(0.5 * (low[0] + high[0]))))
    return marks


def rule(axis: str, at: float = 0.0) -> alt.Chart:
    """A dashed line across the chart, where there would be no difference."""
    line = alt.Chart(theme.data({"null": [at]})).mark_rule(color=theme.RULE, strokeDash=[4, 3])
    return line.encode(**{axis: "null:Q"})


def _cut(numbers: Sequence[FloatArray], reach: float) -> tuple[FloatArray, FloatArray]:
    """The ends of intervals (after the estimates), with infinite ones cut at the chart's edge."""
    every = np.concatenate([*numbers, [0.0]])
    finite = every[np.isfinite(every)]
    margin = 0.1 * (float(np.ptp(finite)) or 1.0)
    left, right = max(float(finite.min()) - margin, -reach), min(float(finite.max()) + margin, reach)
    _, low, high = numbers
    return np.clip(low, left, right), np.clip(high, left, right)


def _distinct(labels: Sequence[str]) -> list[str]:
    """Shortened labels may coincide; a number keeps them apart."""
    times: dict[str, int] = {}
    result = []
    for label in labels:
        times[label] = times.get(label, 0) + 1
        result.append(label if times[label] == 1 else f"{label} ({times[label]})")
    return result


def curves(name: str, names: Sequence[str], x: str, at: FloatArray, **values: FloatArray) -> alt.Chart:
    """The base of a chart with one curve per name; ``values``, each of shape (names, points), become its columns."""
    kept = theme.thin(at.size, max(2, theme.MAXIMUM_POINTS // max(1, len(names))))
    columns = {name: np.repeat(np.array(names, dtype=object), kept.size), x: np.tile(at[kept], len(names))}
    return alt.Chart(theme.data(columns | {key: part[:, kept].ravel() for key, part in values.items()}))
