"""Pictures of the improvability test. Only style here: every number comes from the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.alternatives import words
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Columns, charts, phrases, theme

if TYPE_CHECKING:
    from isonomy.alternatives.followup import SurfaceResult
    from isonomy.alternatives.improvability import ImprovabilityResult

_ALGORITHMS = alt.Scale(domain=["alternative", "status quo"], range=[theme.PALETTE[0], theme.PALETTE[1]])
_SHAPES = alt.Scale(domain=["alternative", "status quo"], range=["circle", "square"])
_PVALUES = alt.Scale(type="sqrt", scheme="viridis", domain=[0, 1], reverse=True)
_SHOWN = ["shown to be an alternative", "not shown"]
_CELLS = 60  # of the heat map on each axis: with the contour, within the points a chart may have


def result_chart(result: ImprovabilityResult) -> alt.TopLevelMixin:
    if len(result.candidates) > 1:
        return theme.finish(frontier_chart(result))
    if result.trials == 1:
        row = charts.in_a_row([criteria_chart(result), surface_chart(result.surface(), 260)])
        return theme.finish(row)
    scatter = [scatter_chart(result)] if result.lines("accuracy").shape[1] == 2 else []
    return theme.finish(alt.vconcat(rounds_chart(result), *scatter, surface_chart(result.surface())))


def criteria_chart(result: ImprovabilityResult) -> alt.LayerChart:
    """One row per criterion: the status quo, the alternative, and the change from one to the other."""
    lines = [int(i) for name in ("unfairness", "accuracy") for i in result.lines(name)[0]]
    unit = "%, unfairness in points" if "estimate" in result.units() else ""
    metrics = {phrases.metric(result.metric[i]) for i in result.lines("accuracy")[0]}
    short = [result.labels[i] if result.criteria[i] == "accuracy" else "unfairness" for i in lines]
    names = [
        theme.short(name, 34) for name in (short if len(metrics) == 1 else [words.criterion(result, i) for i in lines])
    ]
    title = f"{phrases.listed(sorted(metrics))}, and unfairness"
    columns: Columns = {
        "criterion": names,
        "alternative": result.estimate[lines],
        "status quo": result.reference[lines],
        "pvalue": result.pvalues[lines],
    }
    axis = alt.X("value:Q", title=f"in {unit}" if unit else "value", axis=charts.hundredths("%" if unit else ""))
    chart = _dumbbells(columns, alt.Y("criterion:N", title=None, sort=names), axis, "criterion:N")
    return chart.properties(width=220, height=36 * len(lines), title=f"{title[:1].upper()}{title[1:]}")


def _dumbbells(columns: Columns, y: alt.Y, x: alt.X, name: str) -> alt.LayerChart:
    """A point for each algorithm, in its color and shape, and a line from one to the other."""
    rows = theme.data(columns)
    bars = alt.Chart(rows).mark_rule(color=theme.RULE).encode(y=y, x="alternative:Q", x2="status quo:Q")
    points = alt.Chart(rows).transform_fold(["alternative", "status quo"], as_=["algorithm", "value"])
    return bars + points.mark_point(filled=True, size=70, opacity=1).encode(
        y=y,
        x=x,
        color=alt.Color("algorithm:N", scale=_ALGORITHMS, title=None, legend=alt.Legend(orient="bottom")),
        shape=alt.Shape("algorithm:N", scale=_SHAPES, legend=None),
        tooltip=[name, "algorithm:N", "value:Q", "pvalue:Q"],
    )


def scatter_chart(result: ImprovabilityResult) -> alt.LayerChart | alt.FacetChart:
    """The accuracy for one group against that for the other (the paper's Figure 2); on the line both are equal."""
    drawn = theme.thin(result.trials, 200)
    lines = result.lines("accuracy")[drawn]
    sides = (("alternative", result.estimate), ("status quo", result.reference))
    columns = {
        "first": np.concatenate([values[lines[:, 0]] for _, values in sides]),
        "second": np.concatenate([values[lines[:, 1]] for _, values in sides]),
        "algorithm": [name for name, _ in sides for _ in drawn],
    }
    known = np.concatenate([columns["first"], columns["second"]])
    ends = [float(np.nanmin(known)), float(np.nanmax(known))]
    axis = alt.Scale(zero=False)
    titles = [theme.short(result.labels[i], 40) for i in lines[0]]
    points = alt.Chart(theme.data(columns)).mark_point(filled=True, size=70, opacity=1)
    equal = alt.Chart(theme.data({"first": ends, "second": ends})).mark_line(color=theme.RULE, strokeDash=[4, 3])
    return alt.layer(
        equal.encode(x="first:Q", y="second:Q"),
        points.encode(
            x=alt.X("first:Q", title=titles[0], scale=axis),
            y=alt.Y("second:Q", title=titles[1], scale=axis),
            color=alt.Color("algorithm:N", scale=_ALGORITHMS, title=None),
            shape=alt.Shape("algorithm:N", scale=_SHAPES, legend=None),
            tooltip=["algorithm:N", "first:Q", "second:Q"],
        ),
    ).properties(width=260, height=260, title=theme.short(f"{phrases.metric(result.metric[lines[0, 0]])} by group", 60))


def frontier_chart(result: ImprovabilityResult) -> alt.TopLevelMixin:
    """Each candidate's smallest gain in accuracy against its smallest cut in unfairness, with simultaneous limits.

    A candidate above and to the right of both lines is as accurate and less unequal.
    """
    drawn = theme.thin(len(result.candidates), 60)
    overall = result.lines("all")[drawn, 0]
    columns = {
        "candidate": [theme.short(result.candidate[i], 30) for i in overall],
        "shown": [_SHOWN[0] if result.verdicts[i] == "violation" else _SHOWN[1] for i in overall],
    }
    for name, criterion in (("gain", "accuracy"), ("cut", "unfairness")):
        for end, part in (("", "disparity"), (" low", "ci_low"), (" high", "ci_high")):
            columns[f"{name}{end}"] = result.values(criterion, part)[drawn].min(axis=1).tolist()
    unit = " (share of the status quo's)" if result.scale == "ratio" else ""
    x, y = alt.X("cut:Q", title=f"cut in unfairness{unit}"), alt.Y("gain:Q", title=f"least gain in accuracy{unit}")
    color = alt.Color("shown:N", title=None, scale=alt.Scale(domain=_SHOWN, range=[theme.PALETTE[0], theme.RULE]))
    points = alt.Chart(theme.data(columns)).encode(x=x, y=y)
    base = points.encode(color=color)
    zero = alt.Chart(theme.data({"zero": [0.0]})).mark_rule(strokeDash=[4, 3])
    return alt.layer(
        zero.encode(x="zero:Q"),
        zero.encode(y=alt.datum(-result.margin)),
        base.mark_rule().encode(x="cut low:Q", x2="cut high:Q"),
        base.mark_rule().encode(y="gain low:Q", y2="gain high:Q"),
        base.mark_point(filled=True, size=80, opacity=1).encode(tooltip=["candidate:N", "gain:Q", "cut:Q", "shown:N"]),
        points.mark_text(align="left", dx=7, dy=-7).encode(text="candidate:N"),
    ).properties(width=460, height=320)


def rounds_chart(result: ImprovabilityResult) -> alt.HConcatChart:
    shares = "estimate" in result.units()
    parts = []
    for criterion, unit in (("accuracy", "%"), ("unfairness", "points")):
        for lines in result.lines(criterion).T:
            metric, label = phrases.metric(result.metric[lines[0]]), result.labels[lines[0]]
            title = [f"{metric},", label] if criterion == "accuracy" else ["unfairness in", metric]
            title = [*(theme.short(line, 40) for line in title), *([f"in {unit}"] if shares else [])]
            drawn = lines[theme.thin(len(lines), 200)]
            columns = {"round": result.rounds, "alternative": result.estimate, "status quo": result.reference}
            values = {name: values[drawn] for name, values in {**columns, "pvalue": result.pvalues}.items()}
            y = alt.Y("round:O", title="round") if len(lines) > 1 else alt.Y("round:O", axis=None)
            hundredths = charts.hundredths(unit if shares else "")
            x = alt.X("value:Q", title=title, axis=hundredths, scale=alt.Scale(zero=False))
            parts.append(_dumbbells(values, y, x, "round:O").properties(width=220))
    return alt.hconcat(*parts)


def surface_chart(surface: SurfaceResult, width: int = 420) -> alt.LayerChart:
    gains, cuts = surface.grids
    rows, columns = theme.thin(len(gains), _CELLS), theme.thin(len(cuts), _CELLS)
    a, f = gains[rows], cuts[columns]
    low_a, low_f = np.meshgrid(a, f, indexing="ij")
    high_a, high_f = np.meshgrid(_next(a), _next(f), indexing="ij")
    p = surface.pvalue.reshape(len(gains), len(cuts))[np.ix_(rows, columns)]
    drawn = {"low_f": low_f, "high_f": high_f, "low_a": low_a, "high_a": high_a, "p": p}
    cells = theme.data({name: values.ravel() for name, values in drawn.items()})
    heat = (
        alt.Chart(cells)
        .mark_rect(strokeWidth=1)  # stroked in the same color: no seams between cells
        .encode(
            x=alt.X("low_f:Q", title="required cut in unfairness", scale=alt.Scale(nice=False)),
            x2="high_f:Q",
            y=alt.Y("low_a:Q", title="required gain in accuracy", scale=alt.Scale(nice=False)),
            y2="high_a:Q",
            color=alt.Color("p:Q", title="p-value", scale=_PVALUES),
            stroke=alt.Stroke("p:Q", scale=_PVALUES, legend=None),
            tooltip=[alt.Tooltip("low_f:Q", title="cut"), alt.Tooltip("low_a:Q", title="gain"), "p:Q"],
        )
    )
    title = f"Supported (p ≤ {surface.alpha:g}): below the line"
    if not surface.supported.any():  # there is no line
        title = f"Nothing is supported: p > {surface.alpha:g} everywhere"
    return (heat + _contour(surface) + _crossings(surface)).properties(
        width=width, height=round(width / 1.4), title=title
    )


def _next(grid: FloatArray) -> FloatArray:
    return np.append(grid[1:], 2 * grid[-1] - grid[-2])


def _contour(surface: SurfaceResult) -> alt.Chart:
    gains, cuts = surface.grids
    drawn = theme.thin(len(cuts), 200)
    f, reach = cuts[drawn], surface.contour[drawn]
    f, reach = np.append(f, _next(f)[-1]), np.append(reach, reach[-1])  # to the far side of the last cells
    beyond = np.isnan(reach) & np.append(False, ~np.isnan(reach[:-1]))  # the line ends by falling to the floor
    line = theme.data({"f": f, "a": np.where(beyond, gains[0], reach)})
    return alt.Chart(line).mark_line(color="black", strokeWidth=2, interpolate="step-after").encode(x="f:Q", y="a:Q")


def _crossings(surface: SurfaceResult) -> alt.LayerChart:
    cut, gain = surface.supported_fairness_gain, surface.supported_accuracy_gain
    points = [(x, y, f"{x + y:.3g}") for x, y in ((cut, 0.0), (0.0, gain)) if not np.isnan(x + y)]
    columns = {name: [point[i] for point in points] for i, name in enumerate(("f", "a", "label"))}
    base = alt.Chart(theme.data(columns)).encode(x="f:Q", y="a:Q")
    labels = base.mark_text(align="left", dx=8, dy=-8, fontWeight="bold").encode(text="label:N")
    return base.mark_point(color="black", fill="white", size=80, opacity=1) + labels
