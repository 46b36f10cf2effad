"""Compare two audits: which verdicts changed, and which numbers changed by more than their error."""

from __future__ import annotations

from collections.abc import Iterator
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
from isonomy.report.document import FINGERPRINT
from isonomy.report.render import comparison_html, comparison_markdown
from isonomy.results import Evidence, Movement, phrases

ALPHA = 0.05
_UNCOMPARED = ("count", "missing", "missing_group")  # options that may differ although the tests are the same


@dataclass(frozen=True, slots=True)
class Move:
    """One number of one group in two audits of independent rows. A ratio changes by a factor."""

    group: str
    before: float
    after: float
    kind: str  # as in `Movement`
    change: float
    error: float  # the standard error of the change, for a ratio of its logarithm
    interval: tuple[float, float]  # of the change, for this number only
    pvalue: float
    hypothesis: str  # opposite changes of two groups that are compared with each other are one
    adjusted: float = np.nan  # by Holm, over every number that is compared


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
        return self.before != self.after

    @property
    def moves(self) -> tuple[str, ...]:
        moved = [move for move in self.numbers if bool(rejected(move.adjusted, ALPHA))]
        still = len(self.numbers) - len(moved)
        number = wording.plural(still, "number", "numbers")
        unmoved = [f"{number} did not change by more than chance explains."] if still else []
        return (*(wording.moved(move, ALPHA) for move in moved), *unmoved, *self.notes)


@dataclass(frozen=True, slots=True)
class AuditComparison:
    """What changed from one audit to another."""

    before: Document
    after: Document
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def headline(self) -> str:
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
    are independent. p-values are adjusted by Holm's method over all numbers compared; opposite changes of two groups
    that are compared with each other count once. If both audits read the same rows, only verdicts are compared.
    """
    old, new = ({entry.name: entry for entry in audit.entries} for audit in (before, after))
    fingerprints = [dict(audit.document.facts).get(FINGERPRINT) for audit in (before, after)]
    same = fingerprints[0] == fingerprints[1] is not None
    changes = [_change(name, old.get(name), new.get(name), same) for name in dict.fromkeys([*old, *new])]
    moves = [move for change in changes for move in change.numbers]
    hypotheses = [f"{change.name} {move.hypothesis}" for change in changes for move in change.numbers]
    adjusted = iter(adjust([move.pvalue for move in moves], "holm", same=hypotheses) if moves else ())
    notes = [wording.SAME_ROWS if same else wording.INDEPENDENT_ROWS]
    minimums = before.document.suppress_below, after.document.suppress_below
    if minimums[0] != minimums[1]:
        notes.append(wording.OTHER_MINIMUM.format(*minimums))
    settled = tuple(
        replace(change, numbers=tuple(replace(move, adjusted=float(next(adjusted))) for move in change.numbers))
        for change in changes
    )
    return AuditComparison(before.document, after.document, settled, tuple(notes))


def _change(name: str, old: Entry | None, new: Entry | None, same: bool) -> Change:
    before, after = (wording.NOT_ASKED if entry is None else entry.badge for entry in (old, new))
    heading = next(entry.heading for entry in (new, old) if entry is not None)
    change = Change(name, heading, before, after)
    if old is None or new is None or old.result is None or new.result is None:
        return change
    if type(old.result) is not type(new.result):
        return replace(change, notes=(wording.OTHER_KIND,))
    options = [result.provenance.options for result in (old.result, new.result)]
    names = [key for key in {**options[0], **options[1]} if key not in _UNCOMPARED]
    differing = [key for key in names if options[0].get(key) != options[1].get(key)]
    if differing:
        return replace(change, notes=(wording.OTHER_OPTIONS.format(phrases.listed(differing)),))
    if same:
        return change
    earlier, later = old.result.movement(), new.result.movement()
    if isinstance(earlier, str) or isinstance(later, str):
        return replace(change, notes=(later if isinstance(later, str) else str(earlier),))
    numbers = tuple(_moves(old.result, new.result, earlier, later))
    against = [set(getattr(result, "against", ())) for result in (old.result, new.result)]
    why = phrases.VERDICTS_ALONE if against[0] == against[1] else wording.OTHER_COMPARATOR
    return replace(change, numbers=numbers, notes=() if numbers and against[0] == against[1] else (why,))


def _moves(old: Evidence, new: Evidence, before: Movement, after: Movement) -> Iterator[Move]:
    ratio = after.kind == "ratio"
    places = {key: i for i, key in enumerate(old.keys())}
    for j, (key, name) in enumerate(zip(new.keys(), new.names, strict=True)):
        if key not in places:
            continue
        i = places[key]
        values, errors = np.array([before.value[i], after.value[j]]), np.array([before.error[i], after.error[j]])
        if not np.isfinite([*values, *errors]).all() or (ratio and values.min() <= 0):
            continue
        error = float(np.hypot(*(errors / values if ratio else errors)))
        if not error > 0:
            continue
        change = float(values[1] / values[0] if ratio else values[1] - values[0])
        distance = float(np.log(change)) if ratio else change  # in the units of its error
        reach = float(normal_isf(ALPHA)) * error
        ends = distance - reach, distance + reach
        limits = (float(np.exp(ends[0])), float(np.exp(ends[1]))) if ratio else ends
        pvalue, hypothesis = float(normal_sf(distance / error)), f"{abs(distance):.9g} {error:.9g}"
        yield Move(name, float(values[0]), float(values[1]), after.kind, change, error, limits, pvalue, hypothesis)
