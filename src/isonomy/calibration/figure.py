"""Charts: curves with intervals, differences with their bands and the null, before against after, user against row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.results import Columns, charts, theme

if TYPE_CHECKING:
    from isonomy.calibration.result import MarginalFamily, ParityFamily
    from isonomy.calibration.result_composite import CompositeResult
    from isonomy.calibration.result_thresholds import ThresholdsResult

WIDTH, HEIGHT = 320, 240
DRAWN_PAIRS = 6
Panel = alt.LayerChart | alt.FacetChart


def parity(families: Sequence[ParityFamily], *, pointwise: bool, binary: bool) -> alt.TopLevelMixin:
    """Curves and differences of each set of groups, one under the other; ``binary``: outcomes are 0 and 1."""
    rows = [
        (_curves(f, theme.short(" & ".join(f.dimensions)), binary), _differences(f, pointwise, binary))
        for f in families
    ]
    panels = [alt.hconcat(*row).resolve_scale(color="independent") for row in rows]
    return theme.finish(alt.vconcat(*panels).resolve_scale(color="independent"))


def side_by_side(
    pairs: Sequence[tuple[ParityFamily, ParityFamily]], names: tuple[str, str], *, binary: bool
) -> alt.TopLevelMixin:
    """The curves of two results beside each other, on one scale."""
    rows = [[_curves(family, name, binary) for family, name in zip(pair, names, strict=True)] for pair in pairs]
    return theme.finish(alt.vconcat(*(alt.hconcat(*row).resolve_scale(y="shared") for row in rows)))


def _curves(family: ParityFamily, title: str, binary: bool) -> Panel:
    """Expected outcome by score and group, with pointwise intervals; the diagonal if scores lie in [0, 1]."""
    names, grid = [theme.short(group.label) for group in family.groups], family.grid
    numbers = {"outcome": family.curve, "low": family.curve_low, "high": family.curve_high}
    base = charts.curves("group", names, "score", grid, **numbers)
    under = []
    if grid.min() >= 0 and grid.max() <= 1:
        ends = theme.data({"score": [0.0, 1.0], "outcome": [0.0, 1.0]})
        diagonal = alt.Chart(ends).mark_line(strokeDash=[4, 4], color=theme.RULE)
        under.append(diagonal.encode(x="score:Q", y="outcome:Q"))
    return _banded(base, "group", "outcome", ("Expected outcome", "%" if binary else ""), under, 2).properties(
        title=title
    )


def _differences(family: ParityFamily, pointwise: bool, binary: bool) -> Panel:
    """Difference of the clearest pairs with their bands, and the null."""
    drawn = np.argsort(np.nan_to_num(family.pair_adjusted, nan=np.inf), kind="stable")[:DRAWN_PAIRS]
    names = [" minus ".join(theme.short(label, 28) for label in family.labels(int(pair))) for pair in drawn]
    numbers = {name: getattr(family, name)[drawn] for name in ("difference", "low", "high")}
    base = charts.curves("pair", names, "score", family.grid, **numbers)
    axis = "Difference, pointwise intervals" if pointwise else "Difference, simultaneous band"
    chart = _banded(base, "pair", "difference", (axis, "points" if binary else ""), [charts.rule("y")], 1)
    return chart.properties(title="Difference, and none (dashed)")


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


def composite(result: CompositeResult) -> alt.TopLevelMixin:
    """The clearest difference of each pair against the weight of the first score."""
    pairs, many = result.difference.shape
    values = theme.data(
        {
            "pair": [
                " minus ".join(theme.short(label, 28) for label in pair) for pair in result.labels for _ in range(many)
            ],
            "weight": np.tile(result.weights[:, 0], pairs),
            "difference": result.difference.ravel(),
        }
    )
    chart = (
        alt.Chart(values)
        .mark_point(filled=True)
        .encode(
            x=alt.X("weight:Q", title=f"Weight of {theme.short(result.scores[0])}"),
            y=alt.Y("difference:Q", title="Clearest difference of outcomes"),
            color=alt.Color("pair:N", title=None, sort=None, legend=alt.Legend(orient="bottom", columns=1)),
        )
    )
    return theme.finish(alt.layer(charts.rule("y"), chart).properties(width=WIDTH, height=HEIGHT))


def marginal(families: Sequence[MarginalFamily], *, binary: bool) -> alt.TopLevelMixin:
    """Outcome at the threshold in each group, with its interval."""
    fields = {"outcome": "estimate", "low": "estimate_low", "high": "estimate_high"}
    columns: Columns = {
        "group": [group.label for family in families for group in family.groups],
        **{name: np.concatenate([getattr(family, key) for family in families]) for name, key in fields.items()},
    }
    unit = "%" if binary else ""
    return charts.forest("outcome", columns, axis="Expected outcome", title="Outcome at the threshold", unit=unit)


def thresholds(result: ThresholdsResult) -> alt.TopLevelMixin:
    """Each group's threshold and its metrics there, before and after, with the interval of the new threshold."""
    panels = [_moves(result, k) for k in range(len(result.metrics))]
    return theme.finish(alt.hconcat(*panels) if len(panels) > 1 else panels[0])


def _moves(result: ThresholdsResult, k: int) -> Panel:
    groups, size = [theme.short(label) for label in result.labels], len(result.labels)
    present = [result.threshold] * size
    values = theme.data(
        {
            "group": groups * 2,
            "when": ["before"] * size + ["after"] * size,
            "threshold": present + result.thresholds.tolist(),
            "low": present + result.thresholds_low.tolist(),
            "high": present + result.thresholds_high.tolist(),
            "value": np.concatenate([result.before[k], result.after[k]]),
        }
    )
    title = result.words[result.metrics[k]]
    unit = "%" if result.binary or result.metrics[k] != "outcome_at_margin" else ""
    named = title[:1].upper() + title[1:] + (f", in {unit}" if unit else "")
    base = alt.Chart(values).encode(
        y=alt.Y("value:Q", title=named, axis=charts.hundredths(unit), scale=alt.Scale(zero=False)),
        color=alt.Color("group:N", title=None, sort=None),
    )
    at = alt.X("threshold:Q", title="Threshold", scale=alt.Scale(zero=False))
    interval = base.mark_rule().encode(x=alt.X("low:Q", title="Threshold"), x2="high:Q")
    line = base.mark_line().encode(x=at, detail="group:N")
    point = base.mark_point(filled=True, size=80).encode(x=at, shape=alt.Shape("when:N", title=None, sort=None))
    chart = alt.layer(line, interval, point)
    return chart.properties(width=WIDTH, height=HEIGHT, title="Thresholds before and after")
