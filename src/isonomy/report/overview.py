"""The first page: one line of numbers per question, its arithmetic, and who chose the thresholds and tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from isonomy.report import wording
from isonomy.report.document import Entry
from isonomy.report.text import visible
from isonomy.results import Evidence, phrases
from isonomy.results.columns import NOTHING, Column, cell_text

Lines = Mapping[str, Any]  # the columns of a result, by name


def overview(result: Evidence) -> tuple[str, ...] | None:
    """The line of the first page about this result: the group, its value, the other value, the difference, the
    interval and p. None if nothing was compared."""
    i, columns = result.key_line(), _lines(result)
    if i is None or not result.answered:
        return None
    described = result.described(columns)

    def text(name: str) -> str:
        value = columns[name][i] if name in columns else None
        shown = NOTHING if value is None else cell_text(described[name], value)
        unit = described[name].unit.rpartition(" in ")[2] if name in columns and shown != NOTHING else ""
        adjusted = shown != NOTHING and described[name].heading.startswith("Adjusted")
        return visible(f"{shown}\u00a0{unit}".strip() + " (adjusted)" * adjusted)

    group = _group(result, columns, i)
    other, against = text("reference"), _against(result, columns, i)
    if "criterion" in columns:  # two algorithms are compared, not two groups
        against = described["reference"].title.partition(" (")[0]
    if against:
        other = visible(f"{against}: {other}" if other != NOTHING else against)
    joint: Any = getattr(result, "pvalue", None)
    single = (columns[name][i] for name in ("adjusted_pvalue", "pair_adjusted_pvalue", "pvalue") if name in columns)
    pvalues = [float(p) for p in (*single, joint if np.ndim(joint) == 0 else None) if p is not None]
    p = next((phrases.probability(p).replace(" ", "\u00a0") for p in pvalues if not np.isnan(p)), NOTHING)
    if p != NOTHING and (claim := result.tested_claim()):
        p = f"{p} ({claim})".replace(" ", "\u00a0")
    unit = described["ci_low"].unit if "ci_low" in columns else ""

    def ends(*names: str) -> str:
        low, high = (float(columns[name][i]) if name in columns else np.nan for name in names)
        limits = phrases.ends(low, high, shares=bool(unit)) if not np.isnan(low + high) else ("", "")
        return " to ".join(end.replace("-", "−") for end in limits) if limits[0] else NOTHING

    interval = ends("ci_low", "ci_high")
    if getattr(result, "ranged", False):  # no single rate or difference is estimated
        return visible(group), NOTHING, visible(against), f"{ends('low', 'high')} {unit}".strip(), interval, p
    return visible(group), text("estimate"), other, text("disparity"), interval, p


def direct(result: Evidence) -> bool:
    """Whether the difference of the first page is not that of the two values next to it."""
    i, columns = result.key_line(), _lines(result)
    names = ("estimate", "reference", "disparity")
    if i is None or getattr(result, "ranged", False) or any(name not in columns for name in names):
        return False
    mine, other, value = (float(columns[name][i]) for name in names)
    return result.described(columns)["disparity"].unit == "points" and abs(mine - other - value) > 5e-4


def worked(result: Evidence) -> str:
    """The arithmetic of the number on the first page, with the counts of this report; empty if it has other parts."""
    i, columns = result.key_line(), _lines(result)
    if i is not None and "rate_after" in columns:
        return _moved(result, columns, i)
    names = ("estimate", "reference", "disparity")
    adjusted = ", adjusted" * bool(getattr(result, "given", ()))
    if i is None or getattr(result, "ranged", False) or any(name not in columns for name in names):
        return ""
    mine, other, value = (float(columns[name][i]) for name in names)
    if not np.isfinite([mine, other, value]).all():
        return ""
    described = result.described(columns)
    if "effective_n" in columns:
        return _smoothed(result, columns, i)
    own, rest = (
        _fraction(rate, rows, described[name].unit.rpartition(" in ")[2])
        for rate, name, rows in ((mine, "estimate", _rows(columns, i)), (other, "reference", _others(result, i)))
    )
    label = f"{_group(result, columns, i)}{adjusted}: " if result.labels else ""
    if {"predicted", "observed"} <= set(columns):
        predicted, observed = (_value(described, columns, name, i) for name in ("predicted", "observed"))
        label += f"the predicted effect, {predicted}, minus the observed effect, {observed}, is an error of {own}; "
    shown = _value(described, columns, "disparity", i)
    with np.errstate(all="ignore"):
        if abs(mine - other - value) < 1e-9:
            return visible(f"{label}{own} minus {rest} is {shown}.")
        if abs(mine / other - value) < 1e-9:
            return visible(f"{label}{own} divided by {rest} is {shown}.{_deviations(result, columns, i)}")
        if abs(1.0 - mine / other - value) < 1e-9:
            return visible(f"{label}1 minus {own} divided by {rest} is {shown}.")
        if abs(mine / (1 - mine) / (other / (1 - other)) - value) < 1e-9:
            odds, others = (phrases.number(rate / (1 - rate)) for rate in (mine, other))
            parts = f"odds of {odds} ({own}) divided by odds of {others} ({rest})"
            return visible(f"{label}{parts} give {shown}.")
    return ""


def _lines(result: Evidence) -> Lines:
    return result.table()


def _moved(result: Evidence, columns: Lines, i: int) -> str:
    """How many people a group's thresholds before and after select."""
    size = [float(columns["size"][i])]
    old, new = (float(columns[name][i]) for name in ("reference", "estimate"))
    before, after = (_fraction(float(columns[f"rate_{when}"][i]), size, "%") for when in ("before", "after"))
    chosen, change = getattr(result, "chosen", "selected"), float(columns["selected_change"][i])
    if not np.isfinite([*size, old, new, change]).all() or old == new:
        return ""
    what = f"{phrases.count(abs(change))} {'more' if change >= 0 else 'fewer'}"
    return visible(
        f"{_group(result, columns, i)}: with the threshold {phrases.number(old)}, {before} are {chosen}; with "
        f"{phrases.number(new)}, {after} are: {what}."
    )


def _smoothed(result: Evidence, columns: Lines, i: int) -> str:
    """Two smoothed outcomes, the effective numbers of people behind them, and their difference in standard errors."""
    rows, others, error = (float(columns[name][i]) for name in ("effective_n", "reference_effective_n", "se"))
    if not np.isfinite([rows, others, error]).all() or not error > 0:
        return ""
    described = result.described(columns)
    mine, other, size = (_value(described, columns, name, i) for name in ("estimate", "reference", "disparity"))
    unit = described["disparity"].unit
    spread = phrases.points(error) if unit == "points" else phrases.number(error)
    where = f"Near a score of {phrases.number(columns['score'][i])}" if "score" in columns else "At the threshold"
    group, against = _group(result, columns, i), columns["against"][i]
    count = f"{float(columns['disparity'][i]) / error:,.1f}".replace("-", "−")
    return visible(
        f"{where}, with a bandwidth of {phrases.number(columns['bandwidth'][i])}, the outcome of {group} averages "
        f"{mine} (effective number {rows:,.0f}), and that of {against} {other} ({others:,.0f}). Their difference, "
        f"estimated in one step, is {size}; divided by its standard error, {spread}, it is "
        f"{count} standard errors."
    )


def _deviations(result: Evidence, columns: Lines, i: int) -> str:
    """How many standard deviations the number selected is from the number expected at equal rates; empty if unknown."""
    deviations = float(columns["deviations"][i]) if "deviations" in columns else np.nan
    if np.isnan(deviations) or deviations == 0:
        return ""
    rows, others = float(columns["n"][i]), _others(result, i)[0]
    selected, theirs = (float(columns[name][i]) * n for name, n in (("estimate", rows), ("reference", others)))
    total, share = rows + others, selected + theirs
    expected = rows * share / total
    return (
        f" At equal rates, {rows:,.0f} times {share:,.0f}/{total:,.0f}, which is {expected:,.1f}, would be expected; "
        f"{selected:,.0f} minus {expected:,.1f}, divided by a standard deviation of "
        f"{(selected - expected) / deviations:,.2f}, is {deviations:,.1f} standard deviations."
    ).replace("-", "−")


def _against(result: Evidence, columns: Lines, i: int) -> str:
    """With whom the group of a line is compared; empty if it is not a group."""
    against = columns["against"][i] if "against" in columns else getattr(result, "reference", "")
    return against if isinstance(against, str) else ""


def _value(described: Mapping[str, Column], columns: Lines, name: str, i: int) -> str:
    return f"{cell_text(described[name], columns[name][i])} {described[name].unit}".strip()


def _rows(columns: Lines, i: int) -> list[float]:
    return [float(columns["n"][i])] if "n" in columns else []


def _others(result: Evidence, i: int) -> list[float]:
    """The numbers of rows that the other value may rest on: those of its group, or all rows."""
    columns = _lines(result)
    against = _against(result, columns, i)
    if "n" not in columns:
        return []
    group = [float(columns["n"][k]) for k, label in enumerate(columns.get("group", ())) if label == against]
    return group if group else [float(result.provenance.rows or 0)]


def _group(result: Evidence, columns: Lines, i: int) -> str:
    """Whom a line is about; both groups of a pair if the line compares two algorithms by it."""
    if not result.labels:
        return NOTHING
    return f"{result.labels[i]} against {columns['against'][i]}" if "criterion" in columns else result.names[i]


def _fraction(rate: float, rows: Sequence[float], unit: str) -> str:
    """'407/808 (50.4 %)' if the rate is a number of rows divided by one of ``rows``; otherwise the rate alone."""
    if unit == "points":
        return phrases.points(rate)
    if unit != "%":
        return phrases.number(rate).replace("-", "−")
    for n in rows:
        if n > 0 and abs(rate * n - round(rate * n)) < 1e-6:
            return f"{round(rate * n):,}/{n:,.0f} ({phrases.share(rate)})"
    return phrases.share(rate)


def choices(entries: Sequence[Entry]) -> tuple[tuple[str, ...], ...]:
    """Every threshold and tolerance, the questions that use it, and who chose it, when and why."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for number, entry in enumerate(entries, start=1):
        for name in ("tolerance", "threshold"):
            value = entry.given.get(name)
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                continue
            result, decided = entry.result, entry.decided
            points = name == "tolerance" and result is not None and result.units().get("disparity") == "points"
            setting = f"{name.capitalize()}: {phrases.points(value) if points else phrases.number(value)}"
            if value == signature(entry.definition.function).parameters[name].default:
                setting = f"{setting} (the default)"
            date = decided.on.replace("-", "\u2011") if decided else ""  # a date is not broken between two lines
            who = (decided.by, date, decided.why) if decided else (wording.NOT_RECORDED,) * 3
            rows.setdefault((setting, *map(visible, who)), []).append(str(number))
    return tuple((setting, phrases.listed(numbers, 20), *who) for (setting, *who), numbers in rows.items())
