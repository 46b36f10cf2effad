"""Charts: errors and biases by group, densities before and after correction, t statistics before correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray
from isonomy.results import phrases, theme
from isonomy.treatment.effects.density import REACH, density

if TYPE_CHECKING:
    from isonomy.treatment.result import CorrectionsResult, Quantity, TreatmentBiasResult

MAXIMUM_GROUPS = 80
_TITLES = {
    "bias": "bias (error of the group minus error of the others)",
    "error": "error (predicted minus observed effect)",
}


def groups(result: TreatmentBiasResult, quantity: Quantity = "bias") -> alt.TopLevelMixin:
    """Biases or errors by group with their intervals, largest first; the most notable ones if there are many."""
    choose("quantity", quantity, _TITLES)
    value = getattr(result, quantity)
    there = np.flatnonzero(np.isfinite(value))
    notable = there[np.argsort(-np.abs(np.nan_to_num(result.statistic[there])), kind="stable")][:MAXIMUM_GROUPS]
    order = notable[np.argsort(-value[notable], kind="stable")]
    pvalue = result.adjusted_pvalue if quantity == "bias" else result.error_adjusted_pvalue
    low, high = (getattr(result, f"{quantity}_{end}")[order] for end in ("low", "high"))
    reach = _reach(value[order], np.concatenate([low, high]))
    names = [theme.short(result.groups[i].label) for i in order]
    data = theme.data(
        {
            "group": names,
            "value": value[order],
            "low": low,
            "high": high,
            "from": np.clip(low, -reach, reach),
            "to": np.clip(high, -reach, reach),
            "rows": result.n[order],
            "adjusted": [phrases.pvalue(float(pvalue[i])) for i in order],
            "verdict": [result.verdicts[i].value for i in order],
        }
    )
    base = alt.Chart(data).encode(
        y=alt.Y("group:N", sort=list(dict.fromkeys(names)), title=None),
        color=alt.Color(
            "verdict:N",
            scale=alt.Scale(domain=list(theme.VERDICT_COLOURS), range=list(theme.VERDICT_COLOURS.values())),
        ),
        tooltip=["group:N", "value:Q", "low:Q", "high:Q", "rows:Q", "adjusted:N", "verdict:N"],
    )
    title = f"{_TITLES[quantity]}, {100 * (1 - result.alpha):g} % intervals"
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("from:Q", title=title), x2="to:Q")
    points = base.mark_point(filled=True, size=50, opacity=1).encode(x="value:Q")
    return theme.finish(
        alt.layer(_zero(result.tolerance if quantity == "bias" else None), bars, points).properties(width=520)
    )


def _reach(value: FloatArray, ends: FloatArray) -> float:
    """How far the axis goes: every estimate fits, and no single wide or open interval makes the others invisible."""
    finite = np.abs(ends[np.isfinite(ends)])
    if not len(finite):
        return 2 * float(np.abs(value).max(initial=0.5))
    return max(float(np.abs(value).max()), min(1.5 * float(np.quantile(finite, 0.8)), float(finite.max())))


def _zero(tolerance: float | None) -> alt.Chart | alt.LayerChart:
    rule = alt.Chart(theme.data({"at": [0.0]})).mark_rule(color=theme.RULE).encode(x="at:Q")
    if tolerance is None:
        return rule
    edges = alt.Chart(theme.data({"at": [-tolerance, tolerance]}))
    return rule + edges.mark_rule(color=theme.RULE, strokeDash=[4, 4]).encode(x="at:Q")


def _curves(
    columns: Mapping[str, Any], name: str, x: alt.X, y: alt.Y, legend: str | None, names: Sequence[str]
) -> alt.Chart:
    """One curve per name, each with a colour and a dash, in one legend."""
    scale = alt.Scale(domain=list(names))
    colour = alt.Color(f"{name}:N", scale=scale, title=legend)
    dash = alt.StrokeDash(f"{name}:N", scale=scale, title=legend)
    lines = alt.Chart(theme.data(columns)).mark_line().encode(x=x, y=y, color=colour, strokeDash=dash)
    return lines.properties(width=520, height=280)


def densities(result: CorrectionsResult, quantity: Quantity = "bias") -> alt.TopLevelMixin:
    """What remains after each strategy, over groups, splits, swaps and replicates (the paper's Figures 1 and 3)."""
    choose("quantity", quantity, _TITLES)
    bias = quantity == "bias"
    curves, scale = (result.bias_density, result.bias_scale) if bias else (result.error_density, result.error_scale)
    columns = {
        "strategy": np.repeat(np.array(result.strategies), len(result.density_at)),
        "at": np.tile(result.density_at, len(result.strategies)),
        "density": curves.ravel(),
    }
    x = alt.X("at:Q", title=f"remaining {quantity} on held-out rows, in units of {phrases.number(scale)}")
    y = alt.Y("density:Q", title="density")
    chart = _curves(columns, "strategy", x, y, "strategy", result.strategies)
    return theme.finish(alt.layer(_zero(None), chart))


def statistics(result: CorrectionsResult) -> alt.TopLevelMixin:
    """The t statistics of bias before correction against their law without bias (the paper's Figure 2)."""
    observed = result.detection_statistic[np.isfinite(result.detection_statistic)]
    reach = max(REACH, min(float(np.abs(observed).max(initial=0.0)), 3 * REACH))
    at = np.linspace(-reach, reach, 161)
    normal = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
    curve = density(observed, at) if len(observed) > 1 else np.full(at.shape, np.nan)
    names = ("observed", "without bias")
    columns = {
        "law": np.repeat(np.array(names), len(at)),
        "at": np.tile(at, 2),
        "density": np.concatenate([curve, normal]),
    }
    x = alt.X("at:Q", title="t statistic of the bias, before correction")
    y = alt.Y("density:Q", title="density over groups, splits and swaps")
    return theme.finish(_curves(columns, "law", x, y, None, names))
