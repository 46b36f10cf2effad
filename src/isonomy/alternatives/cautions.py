"""What the reader must know before relying on the rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from isonomy.alternatives import wording
from isonomy.alternatives.requirements import Plan
from isonomy.alternatives.rounds import Round
from isonomy.alternatives.tally import Table
from isonomy.numerics.status import Status

FEW = 30  # rows in a denominator below which the bootstrap's law is called rough
NEAR = 2.0  # standard errors within which the status quo's unfairness is called close to zero


def cautions(table: Table, plan: Plan, done: Sequence[Round]) -> tuple[str, ...]:
    """Warnings, each naming the rounds it concerns."""

    def where(holds: Callable[[Round], bool]) -> list[int]:
        return [number for number, r in enumerate(done, start=1) if holds(r)]

    found: list[str] = []
    criteria, tested = plan.criteria, [r for r in done if r.evidence is not None]
    if lost := where(lambda r: r.evidence is None):
        note = next(r.note for r in done if r.evidence is None)
        found.append(wording.nothing_found(lost, plan.rule_name, note or "no reason given"))
    if late := where(lambda r: r.status == Status.TIME_LIMIT and r.evidence is not None):
        found.append(wording.stopped(late, max(done[k - 1].details.get("gap", np.nan) for k in late)))
    if empty := where(lambda r: r.undefined > 0):
        found.append(wording.undefined(empty, max(r.undefined for r in done), plan.resamples))
    if rough := where(lambda r: r.fewest < FEW):
        found.append(wording.few(rough, min(r.fewest for r in tested), criteria.accuracy.name))
    for k, utility in enumerate(criteria.fairness):
        zero = [number for number, r in enumerate(done, start=1) if r.fairness[k, 1] == 0]
        if criteria.protected is not None and zero:
            found.append(wording.not_disadvantaged(zero, utility.name, criteria.labels[criteria.protected]))
    distances = [r.distance for r in tested]
    if distances and np.median(distances) < NEAR:
        found.append(wording.near_fair(", ".join(u.name for u in criteria.fairness), float(np.median(distances))))
    if plan.rule is None and plan.capacity is None and plan.train_fraction:
        several = len(criteria.pairs) > 1
        found.append(wording.SPLIT_FOR_PAIRS if several and len(done) == 1 else wording.NOTHING_LEARNED)
    return tuple(found)
