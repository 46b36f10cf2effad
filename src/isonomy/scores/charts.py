"""Charts of scores: curves with intervals, and differences with their bands and the null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.results import Columns, charts, theme

if TYPE_CHECKING:
    from isonomy.scores.composites import CompositeResult
    from isonomy.scores.margins import MarginalResult
    from isonomy.scores.pairs import PairEvidence
    from isonomy.scores.parity import ParityResult
    from isonomy.scores.thresholds import ThresholdsResult

WIDTH, HEIGHT = 320, 240
DRAWN_PAIRS = 6
Panel = alt.LayerChart | alt.FacetChart

# ---- predictive parity


def parity(result: ParityResult) -> alt.TopLevelMixin:
    rows = [(_curves(result, table), _differences(result, table)) for table in dict.fromkeys(result.tables)]
    panels = [alt.hconcat(*row).resolve_scale(color="independent") for row in rows]
    return theme.finish(alt.vconcat(*panels).resolve_scale(color="independent"))


def _curves(result: ParityResult, table: str) -> Panel:
    groups, grid = result.by_group(table), np.unique(result.score[result.lines_of(table)])
    numbers = {
        name: np.stack([columns[key] for columns in groups.values()])
        for name, key in (("outcome", "estimate"), ("low", "estimate_low"), ("high", "estimate_high"))
    }
    base = charts.curves("group", [theme.short(label) for label in groups], "score", grid, **numbers)
    under = []
    if grid.min() >= 0 and grid.max() <= 1:
        ends = theme.data({"score": [0.0, 1.0], "outcome": [0.0, 1.0]})
        diagonal = alt.Chart(ends).mark_line(strokeDash=[4, 4], color=theme.RULE)
        under.append(diagonal.encode(x="score:Q", y="outcome:Q"))
    axis = ("Expected outcome", "%" if result.binary else "")
    return _banded(base, "group", "outcome", axis, under, 2).properties(title=theme.short(table))


def _differences(result: ParityResult, table: str) -> Panel:
    lines = result.lines_of(table)
    grid = np.unique(result.score[lines])
    pairs = lines.reshape(-1, grid.size)
    order = np.argsort(np.nan_to_num(result.pair_adjusted_pvalue[pairs[:, 0]], nan=np.inf), kind="stable")
    drawn = pairs[order[:DRAWN_PAIRS]]
    columns = {"difference": result.disparity, "low": result.ci_low, "high": result.ci_high}
    numbers = {name: values[drawn] for name, values in columns.items()}
    base = charts.curves("pair", [_minus(result, i) for i in drawn[:, 0]], "score", grid, **numbers)
    pointwise = result.provenance.options.get("adjust") == "none"
    axis = "Difference, pointwise intervals" if pointwise else "Difference, simultaneous band"
    chart = _banded(base, "pair", "difference", (axis, "points" if result.binary else ""), [charts.rule("y")], 1)
    cut = charts.of_all(len(drawn), len(pairs), "pairs")
    return chart.properties(title=f"Difference between the groups{cut}; dashed: no difference")


def _minus(result: PairEvidence, i: int) -> str:
    return f"{theme.short(result.labels[i], 28)} minus {theme.short(result.against[i], 28)}"


def _banded(
    base: alt.Chart, name: str, value: str, axis: tuple[str, str], under: Sequence[alt.Chart], columns: int
) -> Panel:
    """Lines over the score, one per ``name``, each in its band; ``axis``: title, unit; ``columns``: of the legend."""
    title, unit = (f"{axis[0]}, in {axis[1]}" if axis[1] else axis[0]), charts.hundredths(axis[1])
    legend = alt.Legend(orient="bottom", columns=columns, symbolOpacity=1)
    both = base.encode(
        x=alt.X("score:Q", title="Score", scale=alt.Scale(zero=False)),
        color=alt.Color(f"{name}:N", title=None, sort=None, legend=legend),
    )
    area = both.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=title, axis=unit), y2="high:Q")
    numbers = [alt.Tooltip(f"{column}:Q", format=".3f") for column in ("score", value, "low", "high")]
    line = both.mark_line(point=True).encode(
        y=alt.Y(f"{value}:Q", title=title, axis=unit, scale=alt.Scale(zero=False)), tooltip=[f"{name}:N", *numbers]
    )
    return alt.layer(*under, area, line).properties(width=WIDTH, height=HEIGHT)


# ---- composite parity


def composite(result: CompositeResult) -> alt.TopLevelMixin:
    columns = {
        "pair": [_minus(result, i) for i in range(len(result.groups))],
        "weight": result.weights[0],
        "difference": result.disparity,
    }
    chart = (
        alt.Chart(theme.data(columns))
        .mark_point(filled=True)
        .encode(
            x=alt.X("weight:Q", title=f"Weight of {theme.short(result.scores[0])}"),
            y=alt.Y("difference:Q", title="Clearest difference of outcomes"),
            color=alt.Color("pair:N", title=None, sort=None, legend=alt.Legend(orient="bottom", columns=1)),
        )
    )
    return theme.finish(alt.layer(charts.rule("y"), chart).properties(width=WIDTH, height=HEIGHT))


# ---- marginal outcomes


def marginal(result: MarginalResult) -> alt.TopLevelMixin:
    groups = [item for table in dict.fromkeys(result.tables) for item in result.by_group(table).items()]
    columns: Columns = {
        "group": [label for label, _ in groups],
        "outcome": np.array([numbers["estimate"][0] for _, numbers in groups]),
        "low": np.array([numbers["estimate_low"][0] for _, numbers in groups]),
        "high": np.array([numbers["estimate_high"][0] for _, numbers in groups]),
    }
    unit = "%" if result.binary else ""
    return charts.forest("outcome", columns, axis="Expected outcome", title="Outcome at the threshold", unit=unit)


# ---- thresholds


def thresholds(result: ThresholdsResult) -> alt.TopLevelMixin:
    panels = [_moves(result, k) for k in range(len(result.metrics))]
    return theme.finish(alt.hconcat(*panels) if len(panels) > 1 else panels[0])


def _moves(result: ThresholdsResult, k: int) -> Panel:
    order = result.ranking()
    groups, size = [theme.short(result.labels[i]) for i in order], len(order)
    present = result.present[order].tolist()
    values = theme.data(
        {
            "group": groups * 2,
            "when": ["before"] * size + ["after"] * size,
            "threshold": present + result.thresholds[order].tolist(),
            "low": present + result.thresholds_low[order].tolist(),
            "high": present + result.thresholds_high[order].tolist(),
            "value": np.concatenate([result.before[k][order], result.after[k][order]]),
        }
    )
    title = result.words[result.metrics[k]]
    unit = "%" if result.binary or result.metrics[k] != "outcome_at_margin" else ""
    named = title[:1].upper() + title[1:] + (f", in {unit}" if unit else "")
    base = alt.Chart(values).encode(
        y=alt.Y("value:Q", title=named, axis=charts.hundredths(unit), scale=alt.Scale(zero=False)),
        color=alt.Color("group:N", title=None, sort=None),
    )
    place = alt.X("threshold:Q", title="Threshold", scale=alt.Scale(zero=False))
    interval = base.mark_rule().encode(x=alt.X("low:Q", title="Threshold"), x2="high:Q")
    line = base.mark_line().encode(x=place, detail="group:N")
    point = base.mark_point(filled=True, size=80).encode(x=place, shape=alt.Shape("when:N", title=None, sort=None))
    chart = alt.layer(line, interval, point)
    return chart.properties(width=WIDTH, height=HEIGHT, title="Thresholds before and after")
