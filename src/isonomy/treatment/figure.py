"""Charts: errors and biases by group, densities before and after correction, t statistics, risk of strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray
from isonomy.results import phrases, theme
from isonomy.treatment.density import REACH, density
from isonomy.treatment.result import CorrectionsResult, TreatmentBiasResult

MAXIMUM_GROUPS = 80
_TITLES = {
    "bias": "bias (error of the group minus error of the others)",
    "error": "error (predicted minus observed effect)",
}


def groups(result: TreatmentBiasResult, quantity: str = "bias") -> Any:
    """Biases or errors by group with their intervals, largest first; the most notable ones if there are many."""
    choose("quantity", quantity, _TITLES)
    value = getattr(result, quantity)
    there = np.flatnonzero(np.isfinite(value))
    notable = there[np.argsort(-np.abs(np.nan_to_num(result.statistic[there])), kind="stable")][:MAXIMUM_GROUPS]
    order = notable[np.argsort(-value[notable], kind="stable")]
    pvalue = result.adjusted_pvalue if quantity == "bias" else result.error_adjusted_pvalue
    low, high = (getattr(result, f"{quantity}_{end}")[order] for end in ("low", "high"))
    reach = _reach(value[order], np.concatenate([low, high]))
    data = theme.data(
        {
            "group": [theme.short(result.groups[i].label) for i in order],
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
    names = [theme.short(result.groups[i].label) for i in order]
    tooltip = [alt.Tooltip(name, type=kind) for name, kind in _TOOLTIP.items()]  # type: ignore[arg-type]
    base = alt.Chart(data).encode(
        y=alt.Y("group:N", sort=list(dict.fromkeys(names)), title=None),
        color=alt.Color(
            "verdict:N",
            scale=alt.Scale(domain=list(theme.VERDICT_COLOURS), range=list(theme.VERDICT_COLOURS.values())),
        ),
        tooltip=tooltip,
    )
    title = f"{_TITLES[quantity]}, {100 * (1 - result.alpha):g} % intervals"
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("from:Q", title=title), x2="to:Q")
    points = base.mark_point(filled=True, size=50, opacity=1).encode(x="value:Q")
    return theme.finish(
        alt.layer(_zero(result.tolerance if quantity == "bias" else None), bars, points).properties(width=520)
    )


_TOOLTIP = {
    "group": "nominal",
    "value": "quantitative",
    "low": "quantitative",
    "high": "quantitative",
    "rows": "quantitative",
    "adjusted": "nominal",
    "verdict": "nominal",
}


def _reach(value: FloatArray, ends: FloatArray) -> float:
    """How far the axis goes: every estimate fits, and no single wide or open interval makes the others invisible."""
    finite = np.abs(ends[np.isfinite(ends)])
    if not len(finite):
        return 2 * float(np.abs(value).max(initial=0.5))
    return max(float(np.abs(value).max()), min(1.5 * float(np.quantile(finite, 0.8)), float(finite.max())))


def _zero(tolerance: float | None) -> Any:
    rule = alt.Chart(theme.data({"at": [0.0]})).mark_rule(color=theme.RULE).encode(x="at:Q")
    if tolerance is None:
        return rule
    edges = alt.Chart(theme.data({"at": [-tolerance, tolerance]}))
    return rule + edges.mark_rule(color=theme.RULE, strokeDash=[4, 4]).encode(x="at:Q")


def _lines(name: str, names: Sequence[str], title: Any = alt.Undefined) -> dict[str, Any]:
    """One colour and one dash a line, in one legend."""
    scale = alt.Scale(domain=list(names))
    return {
        "color": alt.Color(f"{name}:N", scale=scale, title=title),
        "strokeDash": alt.StrokeDash(f"{name}:N", scale=scale, title=title),
    }


def densities(result: CorrectionsResult, quantity: str = "bias") -> Any:
    """What remains after each strategy, over groups, splits, swaps and replicates (the paper's Figures 1 and 3)."""
    choose("quantity", quantity, _TITLES)
    curves = getattr(result, f"{quantity}_density")
    scale = getattr(result, f"{quantity}_scale")
    points = len(result.density_at)
    data = theme.data(
        {
            "strategy": np.repeat(np.array(result.strategies), points),
            "at": np.tile(result.density_at, len(result.strategies)),
            "density": curves.ravel(),
        }
    )
    chart = (
        alt.Chart(data)
        .mark_line()
        .encode(
            x=alt.X("at:Q", title=f"remaining {quantity} on held-out rows, in units of {phrases.number(scale)}"),
            y=alt.Y("density:Q", title="density"),
            **_lines("strategy", result.strategies),
        )
        .properties(width=520, height=280)
    )
    return theme.finish(alt.layer(_zero(None), chart))


def statistics(result: CorrectionsResult) -> Any:
    """The t statistics of bias before correction against their law without bias (the paper's Figure 2)."""
    found = result.detection_statistic[np.isfinite(result.detection_statistic)]
    reach = max(REACH, min(float(np.abs(found).max(initial=0.0)), 3 * REACH))
    at = np.linspace(-reach, reach, 161)
    normal = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
    seen = density(found, at) if len(found) > 1 else np.full(at.shape, np.nan)
    names = ("observed", "without bias")
    data = theme.data(
        {"law": np.repeat(np.array(names), len(at)), "at": np.tile(at, 2), "density": np.concatenate([seen, normal])}
    )
    chart = (
        alt.Chart(data)
        .mark_line()
        .encode(
            x=alt.X("at:Q", title="t statistic of the bias, before correction"),
            y=alt.Y("density:Q", title="density over groups, splits and swaps"),
            **_lines("law", names, title=None),
        )
        .properties(width=520, height=280)
    )
    return theme.finish(chart)


def risk(risks: Mapping[str, FloatArray]) -> Any:
    """Risk of every strategy over b / sd, from `correction_risk`."""
    names = [name for name in risks if name != "ratio"]
    at = risks["ratio"]
    data = theme.data(
        {
            "strategy": np.repeat(np.array(names), len(at)),
            "ratio": np.tile(at, len(names)),
            "risk": np.concatenate([risks[name] for name in names]),
        }
    )
    chart = (
        alt.Chart(data)
        .mark_line(clip=True)
        .encode(
            x=alt.X("ratio:Q", title="true error / its standard error"),
            y=alt.Y("risk:Q", title="mean squared remaining error / variance", scale=alt.Scale(domain=[0, 3])),
            **_lines("strategy", names),
        )
        .properties(width=520, height=280)
    )
    return theme.finish(chart)
