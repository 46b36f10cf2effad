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
from isonomy.results.columns import NOTHING, cell_text


class KeyLine:
    """The line of a result that the first page shows."""

    def __init__(self, result: Evidence, place: int) -> None:
        self.columns: Mapping[str, Any] = result.table()
        self.result, self.place, self.described = result, place, result.described(self.columns)
        # Two algorithms are compared, not two groups, if there is a criterion.
        against = self.columns["against"][place] if "against" in self.columns else getattr(result, "reference", "")
        self.against = against if isinstance(against, str) else ""
        name = f"{result.labels[place]} against {against}" if "criterion" in self.columns else result.names[place]
        self.group = name if result.labels else NOTHING

    def __getitem__(self, name: str) -> float:
        """The number in a column; NaN without one."""
        return float(self.columns[name][self.place]) if name in self.columns else np.nan

    def value(self, name: str) -> str:
        column = self.described[name]
        return f"{cell_text(column, self.columns[name][self.place])} {column.unit}".strip()

    def cell(self, name: str) -> str:
        value = self.columns[name][self.place] if name in self.columns else None
        shown = NOTHING if value is None else cell_text(self.described[name], value)
        if shown == NOTHING:
            return shown
        adjusted = self.described[name].heading.startswith("Adjusted")
        return visible(f"{shown}\u00a0{self.unit(name)}".strip() + " (adjusted)" * adjusted)

    def unit(self, name: str) -> str:
        return self.described[name].unit.rpartition(" in ")[2]

    def interval(self, low: str, high: str) -> str:
        shares = "ci_low" in self.columns and bool(self.described["ci_low"].unit)
        limits = phrases.ends(self[low], self[high], shares=shares) if not np.isnan(self[low] + self[high]) else ("",)
        return " to ".join(end.replace("-", "−") for end in limits) or NOTHING

    def others(self) -> list[float]:
        """The numbers of rows that the other value may rest on: those of its group, or all rows."""
        if "n" not in self.columns:
            return []
        known = zip(self.columns.get("group", ()), self.columns["n"], strict=False)
        return [float(n) for label, n in known if label == self.against] or [float(self.result.provenance.rows or 0)]


def key_line(result: Evidence) -> KeyLine | None:
    place = result.key_line()
    return None if place is None else KeyLine(result, place)


def overview(result: Evidence) -> tuple[str, ...] | None:
    """The line of the first page about this result: the group, its value, the other value, the difference, the
    interval and p. None if nothing was compared."""
    line = key_line(result) if result.answered else None
    if line is None:
        return None
    other, against = line.cell("reference"), line.against
    if "criterion" in line.columns:
        against = line.described["reference"].title.partition(" (")[0]
    if against:
        other = visible(f"{against}: {other}" if other != NOTHING else against)
    joint: Any = getattr(result, "pvalue", None)
    pvalues = [line[name] for name in ("adjusted_pvalue", "pair_adjusted_pvalue", "pvalue")]
    pvalues += [float(joint)] if joint is not None and np.ndim(joint) == 0 else []
    p = next((phrases.probability(p) for p in pvalues if not np.isnan(p)), NOTHING)
    if p != NOTHING and (claim := result.tested_claim()):
        p = f"{p} ({claim})"
    p, interval = p.replace(" ", "\u00a0"), line.interval("ci_low", "ci_high")
    if getattr(result, "ranged", False):  # no single rate or difference is estimated
        unit = line.described["ci_low"].unit if "ci_low" in line.columns else ""
        span = f"{line.interval('low', 'high')} {unit}".strip()
        return visible(line.group), NOTHING, visible(against), span, interval, p
    return visible(line.group), line.cell("estimate"), other, line.cell("disparity"), interval, p


def direct(result: Evidence) -> bool:
    """Whether the difference of the first page is not that of the two values next to it."""
    line = key_line(result)
    if line is None or getattr(result, "ranged", False) or "disparity" not in line.columns:
        return False
    apart = abs(line["estimate"] - line["reference"] - line["disparity"]) > 5e-4
    return line.described["disparity"].unit == "points" and apart


def worked(result: Evidence) -> str:
    """The arithmetic of the number on the first page, with the counts of this report; empty if it has other parts."""
    line = key_line(result)
    if line is None:
        return ""
    mine, other, value = (line[name] for name in ("estimate", "reference", "disparity"))
    if "rate_after" in line.columns:
        return visible(_moved(line))
    if getattr(result, "ranged", False) or not np.isfinite([mine, other, value]).all():
        return ""
    if "effective_n" in line.columns:
        return visible(_smoothed(line))
    own = _fraction(mine, [line["n"]], line.unit("estimate"))
    rest = _fraction(other, line.others(), line.unit("reference"))
    label = f"{line.group}{', adjusted' * bool(getattr(result, 'given', ()))}: " if result.labels else ""
    if {"predicted", "observed"} <= set(line.columns):
        effects = (
            f"the predicted effect, {line.value('predicted')}, minus the observed effect, {line.value('observed')}"
        )
        label += f"{effects}, is an error of {own}; "
    shown = line.value("disparity")
    with np.errstate(all="ignore"):
        if abs(mine - other - value) < 1e-9:
            return visible(f"{label}{own} minus {rest} is {shown}.")
        if abs(mine / other - value) < 1e-9:
            return visible(f"{label}{own} divided by {rest} is {shown}.{_deviations(line)}")
        if abs(1.0 - mine / other - value) < 1e-9:
            return visible(f"{label}1 minus {own} divided by {rest} is {shown}.")
        if abs(mine / (1 - mine) / (other / (1 - other)) - value) < 1e-9:
            odds, others = (phrases.number(rate / (1 - rate)) for rate in (mine, other))
            parts = f"odds of {odds} ({own}) divided by odds of {others} ({rest})"
            return visible(f"{label}{parts} give {shown}.")
    return ""


def _moved(line: KeyLine) -> str:
    old, new, change = (line[name] for name in ("reference", "estimate", "selected_change"))
    if not np.isfinite([line["size"], old, new, change]).all() or old == new:
        return ""
    before, after = (_fraction(line[f"rate_{when}"], [line["size"]], "%") for when in ("before", "after"))
    what = f"{phrases.count(abs(change))} {'more' if change >= 0 else 'fewer'}"
    return (
        f"{line.group}: with the threshold {phrases.number(old)}, {before} are "
        f"{getattr(line.result, 'chosen', 'selected')}; with {phrases.number(new)}, {after} are: {what}."
    )


def _smoothed(line: KeyLine) -> str:
    rows, others, error = (line[name] for name in ("effective_n", "reference_effective_n", "se"))
    if not np.isfinite([rows, others, error]).all() or not error > 0:
        return ""
    spread = phrases.points(error) if line.described["disparity"].unit == "points" else phrases.number(error)
    where = f"Near a score of {phrases.number(line['score'])}" if "score" in line.columns else "At the threshold"
    count = f"{line['disparity'] / error:,.1f}".replace("-", "−")
    return (
        f"{where}, with a bandwidth of {phrases.number(line['bandwidth'])}, the outcome of {line.group} averages "
        f"{line.value('estimate')} (effective number {rows:,.0f}), and that of {line.columns['against'][line.place]} "
        f"{line.value('reference')} ({others:,.0f}). Their difference, estimated in one step, is "
        f"{line.value('disparity')}; divided by its standard error, {spread}, it is {count} standard errors."
    )


def _deviations(line: KeyLine) -> str:
    """How many standard deviations the number selected is from the number expected at equal rates; empty if unknown."""
    deviations = line["deviations"]
    if np.isnan(deviations) or deviations == 0:
        return ""
    rows, others = line["n"], line.others()[0]
    selected, theirs = line["estimate"] * rows, line["reference"] * others
    total, share = rows + others, selected + theirs
    expected = rows * share / total
    return (
        f" At equal rates, {rows:,.0f} times {share:,.0f}/{total:,.0f}, which is {expected:,.1f}, would be expected; "
        f"{selected:,.0f} minus {expected:,.1f}, divided by a standard deviation of "
        f"{(selected - expected) / deviations:,.2f}, is {deviations:,.1f} standard deviations."
    ).replace("-", "−")


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
