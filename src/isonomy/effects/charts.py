"""Charts of effects: errors and biases by group, densities of what corrections leave, and what corrections cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from isonomy.effects.estimators.shrinkage import density_and_normal
from isonomy.effects.words import QUANTITY_NAMES
from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Columns, charts, phrases, theme

if TYPE_CHECKING:
    from isonomy.effects.bias import Quantity, TreatmentBiasResult
    from isonomy.effects.corrections import CorrectionsResult
    from isonomy.effects.price import PriceResult

_TITLES = {
    "bias": "bias (error of the group minus error of the others)",
    "error": "error (predicted minus observed effect)",
}


def groups(result: TreatmentBiasResult, quantity: Quantity = "bias") -> alt.TopLevelMixin:
    choose("quantity", quantity, _TITLES)
    bias = quantity == "bias"
    value = result.disparity if bias else result.estimate
    order = charts.notable(np.isfinite(value), result.statistic, result.ranking())
    pvalue = result.adjusted_pvalue if bias else result.error_adjusted_pvalue
    ends = (result.ci_low, result.ci_high) if bias else (result.error_low, result.error_high)
    low, high = (end[order] for end in ends)
    columns: Columns = {
        "group": [result.labels[i] for i in order],
        quantity: value[order],
        "low": low,
        "high": high,
        "rows": result.n[order],
        "adjusted": [phrases.pvalue(float(pvalue[i])) for i in order],
        "verdict": [result.verdicts[i].value for i in order],
    }
    zero = np.zeros(order.size)
    return charts.forest(
        quantity,
        columns,
        axis=_TITLES[quantity],
        title=f"{100 * (1 - result.alpha):g} % intervals",
        null=(zero, zero),
        tolerance=result.tolerance if bias else None,
        reach=_reach(value[order], np.concatenate([low, high])),
    )


def _reach(value: FloatArray, ends: FloatArray) -> float:
    """How far the axis goes: to every estimate, and to intervals up to four times as far as most others reach."""
    finite = np.abs(ends[np.isfinite(ends)])
    if not len(finite):
        return 2 * float(np.abs(value).max(initial=0.5))
    return max(float(np.abs(value).max()), min(4 * float(np.quantile(finite, 0.8)), float(finite.max())))


def _lines(base: alt.Chart, name: str, x: str, y: str, legend: str | None, names: Sequence[str]) -> alt.Chart:
    scale = alt.Scale(domain=list(names))
    color = alt.Color(f"{name}:N", scale=scale, title=legend)
    dash = alt.StrokeDash(f"{name}:N", scale=scale, title=legend)
    axes = alt.X("at:Q", title=x), alt.Y("density:Q", title=y)
    return base.mark_line().encode(*axes, color, dash).properties(width=520, height=280)


def densities(result: CorrectionsResult, quantity: Quantity = "bias") -> alt.TopLevelMixin:
    choose("quantity", quantity, _TITLES)
    bias = quantity == "bias"
    curves, scale = (result.bias_density, result.bias_scale) if bias else (result.error_density, result.error_scale)
    base = charts.curves("strategy", result.strategies, "at", result.density_at, density=curves)
    x = f"remaining {quantity} on held-out rows, in units of {phrases.number(scale)}"
    chart = _lines(base, "strategy", x, "density", "strategy", result.strategies)
    return theme.finish(alt.layer(charts.rule("x"), chart))


def statistics(result: CorrectionsResult) -> alt.TopLevelMixin:
    """The t statistics of bias before correction against their law without bias (the paper's Figure 2)."""
    names = ("observed", "without bias")
    at, densities = density_and_normal(result.detection_statistic)
    base = charts.curves("law", names, "at", at, density=densities)
    x, y = "t statistic of the bias, before correction", "density over groups, splits and swaps"
    return theme.finish(_lines(base, "law", x, y, None, names))


def trade(result: PriceResult, quantity: str) -> alt.TopLevelMixin:
    choose("quantity", quantity, (*dict.fromkeys(result.metric), "targeted", "curves"))
    lines = [i for i, metric in enumerate(result.metric) if metric == quantity]
    none = np.zeros(1)
    names = ["before correction", *(result.candidates[i] for i in lines)]
    columns = {
        "predictions": names,
        "bias": np.append(result.bias_before[:1], result.bias_after[lines]),
        "change": np.append(none, result.disparity[lines]),
        "low": np.append(none, result.ci_low[lines]),
        "high": np.append(none, result.ci_high[lines]),
    }
    base = alt.Chart(theme.data(columns)).encode(
        x=alt.X("bias:Q", title="bias left (root mean square over groups)"),
        color=alt.Color("predictions:N", sort=names, title=None),
        tooltip=["predictions:N", "bias:Q", "change:Q", "low:Q", "high:Q"],
    )
    title = f"change of {QUANTITY_NAMES[quantity]}, {100 * (1 - result.alpha):g} % interval"
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    points = base.mark_point(filled=True, size=80, opacity=1).encode(y="change:Q")
    return theme.finish(alt.layer(charts.rule("y"), bars, points).properties(width=420, height=280))


def targeted(result: PriceResult) -> alt.TopLevelMixin:
    table = result.targeted()
    labels, shares = list(result.labels), np.asarray(table["of_targeted_after"])
    names = ["before correction", *dict.fromkeys(result.candidates)]
    columns: Columns = {
        "predictions": [name for name in names for _ in labels],
        "group": labels * len(names),
        "share": 100 * np.concatenate([np.asarray(table["of_targeted_before"])[: len(labels)], shares]),
    }
    base = alt.Chart(theme.data(columns)).encode(
        y=alt.Y("group:N", sort=labels, title=None),
        yOffset=alt.YOffset("predictions:N", sort=names),
        x=alt.X("share:Q", title=f"% of those targeted, budget {phrases.share(result.budget)}"),
        color=alt.Color("predictions:N", sort=names, title=None),
        tooltip=["group:N", "predictions:N", "share:Q"],
    )
    return theme.finish(base.mark_bar().properties(width=420))


def qini_curves(result: PriceResult) -> alt.TopLevelMixin:
    curves = result.curves()
    quantity = "profit" if "profit" in curves else "gain"
    names = [str(name) for name in dict.fromkeys(curves["predictions"])]
    heights = np.asarray(curves[quantity]).reshape(len(names), -1)
    base = charts.curves("predictions", names, "at", result.budgets, density=heights)
    return theme.finish(_lines(base, "predictions", "share of people treated", f"{quantity} per person", None, names))
