"""Compare two audits: which verdicts changed, and which numbers changed by more than their error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from isonomy.audit import state
from isonomy.audit.outcome import AuditResult
from isonomy.inference.decide import rejected
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.tails import normal_isf, normal_sf
from isonomy.options import checked
from isonomy.report import Document, Entry, wording
from isonomy.report.markdown import comparison_markdown
from isonomy.report.render import comparison_html
from isonomy.results import Evidence, Movement, phrases

ALPHA = 0.05
_FINGERPRINT = "Fingerprint of the rows"
# Options that may differ although the tests are the same.
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
    kind: str = ""  # as in `Movement`; the error of a ratio is that of its logarithm

    @property
    def change(self) -> float:
        """The change of the number; for a ratio, the factor."""
        return self.after / self.before if self.kind == "ratio" else self.after - self.before

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the change, for this number only."""
        reach = float(normal_isf(ALPHA)) * self.error
        if self.kind == "ratio":
            return self.change * float(np.exp(-reach)), self.change * float(np.exp(reach))
        return self.change - reach, self.change + reach


@dataclass(frozen=True, slots=True)
class Change:
    """One test in two audits."""

    name: str
    heading: str
    before: str  # the verdict in words, or that the test was not asked
    after: str
    numbers: tuple[Move, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the verdicts differ."""
        return self.before != self.after

    @property
    def moves(self) -> tuple[str, ...]:
        """Sentences about the numbers."""
        moved = [move for move in self.numbers if bool(rejected(move.adjusted, ALPHA))]
        sentences = [wording.moved(move, ALPHA) for move in moved]
        still = len(self.numbers) - len(moved)
        return (*sentences, *([wording.unmoved(still)] if still else []), *self.notes)


@dataclass(frozen=True, slots=True)
class AuditComparison:
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
        state.write(place / "compare.md", comparison_markdown(self))
        state.write(place / "compare.html", comparison_html(self))
        return [place / "compare.html", place / "compare.md"]


@checked
def compare(before: AuditResult, after: AuditResult) -> AuditComparison:
    """Compare two audits, test by test of the same id.

    The standard error of a change is the root of the sum of the two squared errors, which is right if the two tables
    are independent. p-values are adjusted by Holm's method over all numbers compared. If both audits read the same
    rows, only verdicts are compared.
    """
    old = {entry.name: entry for entry in before.entries}
    new = {entry.name: entry for entry in after.entries}
    same = _fingerprint(before.document) == _fingerprint(after.document) != ""
    names = list(dict.fromkeys([*old, *new]))
    changes = [_change(name, old.get(name), new.get(name), same) for name in names]
    notes = [wording.SAME_ROWS if same else wording.INDEPENDENT_ROWS]
    if before.document.suppress_below != after.document.suppress_below:
        notes.append(wording.other_minimum(before.document.suppress_below, after.document.suppress_below))
    return AuditComparison(before.document, after.document, _adjusted(changes), tuple(notes))


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
    earlier, later = old.result.movement(), new.result.movement()
    if isinstance(earlier, str) or isinstance(later, str):
        return replace(change, notes=(later if isinstance(later, str) else str(earlier),))
    numbers = tuple(_moves(old.result, new.result, earlier, later))
    against = [set(getattr(result, "against", ())) for result in (old.result, new.result)]
    why = phrases.VERDICTS_ALONE if against[0] == against[1] else wording.OTHER_COMPARATOR
    return replace(change, numbers=numbers, notes=() if numbers and against[0] == against[1] else (why,))


def _words(entry: Entry | None) -> str:
    return wording.NOT_ASKED if entry is None else entry.badge


def _asked_differently(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    keys = [key for key in dict.fromkeys([*old, *new]) if key not in _UNCOMPARED]
    return [key for key in keys if old.get(key) != new.get(key)]


def _moves(old: Evidence, new: Evidence, before: Movement, after: Movement) -> Iterator[Move]:
    """The lines that are in both results, with the change of their number."""
    ratio = after.kind == "ratio"
    places = {key: i for i, key in enumerate(old.keys())}
    for j, (key, name) in enumerate(zip(new.keys(), new.names, strict=True)):
        if key not in places:
            continue
        i = places[key]
        first, second = float(before.value[i]), float(after.value[j])
        errors = np.array([before.error[i], after.error[j]])
        if not np.isfinite([first, second, *errors]).all() or (ratio and min(first, second) <= 0):
            continue
        moved = float(np.log(second / first)) if ratio else second - first
        spread = float(np.hypot(*(errors / (first, second) if ratio else errors)))
        if spread > 0:
            yield Move(name, first, second, spread, float(normal_sf(moved / spread)), kind=after.kind)


def _adjusted(changes: list[Change]) -> tuple[Change, ...]:
    """Adjust the p-values over the numbers of all tests."""
    pvalues = [move.pvalue for change in changes for move in change.numbers]
    adjusted = iter(adjust(pvalues, "holm").tolist() if pvalues else [])
    return tuple(
        replace(change, numbers=tuple(replace(move, adjusted=next(adjusted)) for move in change.numbers))
        for change in changes
    )
