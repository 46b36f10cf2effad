"""Two audits side by side: which verdicts changed, and which disparities moved by more than their error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from isonomy.audit import state
from isonomy.audit.outcome import AuditResult
from isonomy.frames import Group
from isonomy.inference.decide import rejected
from isonomy.inference.multiplicity import adjust
from isonomy.likelihood import AdverseImpactResult
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import normal_isf, normal_sf
from isonomy.options import checked
from isonomy.report import Document, Entry, wording
from isonomy.report.comparison import comparison_html, comparison_markdown
from isonomy.results import Result, Status

ALPHA = 0.05
# The number of a group that is compared, and its standard error.
_EFFECTS = (("disparity", "standard_error"), ("bias", "bias_se"))
_FINGERPRINT = "Fingerprint of the rows"
# Options that may differ without a test being asked differently.
_UNCOMPARED = ("count", "missing", "missing_group")


@dataclass(frozen=True, slots=True)
class Move:
    """One number of one group in two audits of independent rows."""

    group: str
    before: float
    after: float
    error: float  # the standard error of the change
    pvalue: float
    adjusted: float = np.nan  # by Holm, over every number that is compared
    kind: str = (
        ""  # "points": differences of shares; "ratio": one number over the other, with the error of its logarithm
    )

    @property
    def change(self) -> float:
        """How far the number moved; for a ratio, by which factor."""
        return self.after / self.before if self.kind == "ratio" else self.after - self.before

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the change, for this number alone."""
        reach = float(normal_isf(ALPHA)) * self.error
        if self.kind == "ratio":
            return self.change * float(np.exp(-reach)), self.change * float(np.exp(reach))
        return self.change - reach, self.change + reach


@dataclass(frozen=True, slots=True)
class Change:
    """One test in two audits."""

    name: str
    heading: str
    before: str  # the verdict in words, or that it was not asked
    after: str
    numbers: tuple[Move, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the verdict is another one."""
        return self.before != self.after

    @property
    def moves(self) -> tuple[str, ...]:
        """What is to be said about the numbers."""
        moved = [move for move in self.numbers if bool(rejected(move.adjusted, ALPHA))]
        sentences = [
            wording.moved(
                move.group, move.before, move.after, move.change, move.interval, move.adjusted, ALPHA, kind=move.kind
            )
            for move in moved
        ]
        still = len(self.numbers) - len(moved)
        return (*sentences, *([wording.unmoved(still)] if still else []), *self.notes)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one audit to another."""

    before: Document
    after: Document
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def headline(self) -> str:
        """The comparison in one sentence."""
        both = [change for change in self.changes if wording.NOT_ASKED not in (change.before, change.after)]
        numbers = [move for change in both for move in change.numbers]
        moved = sum(bool(rejected(move.adjusted, ALPHA)) for move in numbers)
        changed = sum(change.changed for change in both)
        return wording.compared(changed, len(both), len(self.changes) - len(both), moved, len(numbers))

    def write(self, folder: str | Path) -> list[Path]:
        """Write compare.html and compare.md; returns both."""
        place = state.place(folder)
        state.prepare(place)
        titles = (self.before.title, self.before.created), (self.after.title, self.after.created)
        rows = [(c.heading, c.before, c.after, c.changed, c.moves) for c in self.changes]
        state.write(place / "compare.md", comparison_markdown(self.headline, titles, rows, self.notes))
        state.write(place / "compare.html", comparison_html(self.headline, titles, rows, self.notes))
        return [place / "compare.html", place / "compare.md"]


@checked
def compare(before: AuditResult, after: AuditResult) -> Comparison:
    """Compare two audits, test by test of the same id.

    A change is judged by its own standard error, the root of the two squared, which is right where the two tables
    are independent of one another; p-values are adjusted by Holm over every number compared. Of audits of the same
    rows only the verdicts are compared.
    """
    old = {entry.name: entry for entry in before.entries}
    new = {entry.name: entry for entry in after.entries}
    same = _fingerprint(before.document) == _fingerprint(after.document) != ""
    names = list(dict.fromkeys([*old, *new]))
    changes = [_change(name, old.get(name), new.get(name), same) for name in names]
    notes = [wording.SAME_ROWS if same else wording.INDEPENDENT_ROWS]
    if before.document.suppress_below != after.document.suppress_below:
        notes.append(wording.other_minimum(before.document.suppress_below, after.document.suppress_below))
    return Comparison(before.document, after.document, _adjusted(changes), tuple(notes))


def _fingerprint(document: Document) -> str:
    return dict(document.facts).get(_FINGERPRINT, "")


def _change(name: str, old: Entry | None, new: Entry | None, same: bool) -> Change:
    one = new or old
    assert one is not None
    change = Change(name, one.heading, _words(old), _words(new))
    if old is None or new is None or old.result is None or new.result is None:
        return change
    if type(old.result) is not type(new.result):
        return replace(change, notes=(wording.OTHER_KIND,))
    differing = _asked_differently(old.result.provenance.options, new.result.provenance.options)
    if differing:
        return replace(change, notes=(wording.asked_differently(differing),))
    if same:
        return change
    if isinstance(old.result, AdverseImpactResult) and old.result.provenance.options.get("weight") is not None:
        return replace(change, notes=(wording.WEIGHTED_RATIOS,))
    numbers = tuple(_moves(old.result, new.result))
    told = [set(_compared_with(result)) for result in (old.result, new.result)]
    why = wording.VERDICTS_ALONE if told[0] == told[1] else wording.OTHER_COMPARATOR
    return replace(change, numbers=numbers, notes=() if numbers and told[0] == told[1] else (why,))


def _words(entry: Entry | None) -> str:
    return wording.NOT_ASKED if entry is None else entry.badge


def _asked_differently(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    keys = [key for key in dict.fromkeys([*old, *new]) if key not in _UNCOMPARED]
    return [key for key in keys if old.get(key) != new.get(key)]


def _moves(old: Result, new: Result) -> Iterator[Move]:
    """The groups that are in both results (for each of several metrics), with the change of their number."""
    kind, measured = "ratio", [_impact(result) for result in (old, new)]
    if not all(measured):
        effect, error = next(((e, s) for e, s in _EFFECTS if hasattr(old, e) and hasattr(old, s)), ("", ""))
        if not effect:
            return
        scale = old.provenance.options.get("scale", "difference")
        kind = "ratio" if scale in ("ratio", "odds_ratio") else old.units().get(effect, "")
        measured = [(getattr(result, effect), getattr(result, error)) for result in (old, new)]
    ratio = kind == "ratio"
    place = {key: i for i, (key, _) in enumerate(_keys(old))}
    for j, (key, name) in enumerate(_keys(new)):
        if key not in place:
            continue
        i = place[key]
        numbers = [float(values[k]) for pair, k in zip(measured, (i, j), strict=True) for values in pair]
        if not np.isfinite(numbers).all() or (ratio and min(numbers[0], numbers[2]) <= 0):
            continue
        before, first, after, second = numbers
        moved = float(np.log(after / before)) if ratio else after - before
        spread = float(np.hypot(first / before, second / after) if ratio else np.hypot(first, second))
        if spread > 0:
            yield Move(name, before, after, spread, float(normal_sf(moved / spread)), kind=kind)


def _impact(result: Result) -> tuple[FloatArray, ...]:
    """Impact ratios and their standard errors, from the counts of both categories; nothing of another result.

    The comparator's own ratio is not compared; with clusters, those in both categories are counted as if apart.
    """
    if not isinstance(result, AdverseImpactResult):
        return ()
    places = {(table, label): i for i, (table, label) in enumerate(zip(result.tables, result.labels, strict=True))}
    others = [places.get(pair, i) for i, pair in enumerate(zip(result.tables, result.comparator, strict=True))]
    with np.errstate(all="ignore"):
        squared = (1.0 - result.rate) / (result.n * result.rate)
        if result.design is not None:
            squared = squared * result.design.effect
        error = result.impact_ratio * np.sqrt(squared + squared[others])
    error[[status is Status.REFERENCE for status in result.status]] = np.nan
    return result.impact_ratio, error


def _compared_with(result: Result) -> tuple[tuple[str, str], ...]:
    """The table and the comparator of every impact ratio; nothing of another result."""
    return tuple(zip(result.tables, result.comparator, strict=True)) if isinstance(result, AdverseImpactResult) else ()


def _keys(result: Result) -> Iterator[tuple[tuple[Group, object], str]]:
    """What each number of a result is about, and what it is called."""
    groups: tuple[Group, ...] = result.groups  # type: ignore[attr-defined]
    metrics = getattr(result, "metrics", _compared_with(result) or ("",) * len(groups))
    names = getattr(result, "names", tuple(group.label for group in groups))
    return ((key, name) for key, name in zip(zip(groups, metrics, strict=True), names, strict=True))


def _adjusted(changes: list[Change]) -> tuple[Change, ...]:
    """Adjust the p-values over all tests together: many numbers are looked at for one that moved."""
    pvalues = [move.pvalue for change in changes for move in change.numbers]
    adjusted = iter(adjust(pvalues, "holm").tolist() if pvalues else [])
    return tuple(
        replace(change, numbers=tuple(replace(move, adjusted=next(adjusted)) for move in change.numbers))
        for change in changes
    )
