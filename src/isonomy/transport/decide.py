"""What was shown, what the reader has to be warned of, and which comparisons were tested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.inference import Verdict, conclude
from isonomy.numerics.status import Status
from isonomy.results import phrases
from isonomy.transport import wording
from isonomy.transport.estimate import Estimates
from isonomy.transport.plan import Plan
from isonomy.transport.program.inference import FEW


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The verdict, the status of each event, and the warnings."""

    verdict: Verdict
    statuses: tuple[Status, ...]
    warnings: tuple[str, ...]


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Conclude by the one rule for all tests: within tolerance is what the test of equivalence shows."""
    inference = estimates.inference
    decisions = conclude([inference.pvalue], alpha=plan.alpha, within_pvalue=[inference.equivalence_pvalue])
    statuses = [Status.REFERENCE] * len(estimates.events)
    for at, constant, few in zip(estimates.place, inference.constant, inference.few_events, strict=True):
        statuses[at] = Status.CONSTANT if constant else Status.FEW_EVENTS if few else Status.OK
    return Decisions(decisions.verdict, tuple(statuses), tuple(_warnings(estimates, plan)))


def _warnings(estimates: Estimates, plan: Plan) -> list[str]:
    asked, inference = estimates.asked, estimates.inference
    warnings = []
    if inference.redundant.size:
        warnings.append(phrases.about(wording.REDUNDANT, [asked.names[t] for t in inference.redundant]))
    if inference.left_out:
        untested = np.flatnonzero(inference.constant)
        labels = [asked.events[asked.component[t]].label for t in untested]
        warnings.append(wording.constant([asked.names[t] for t in untested], labels))
    few = sorted({event.name for event in asked.events if event.rows < FEW})
    if few:
        warnings.append(phrases.few(FEW, "rows in", few))
    if inference.pooled:
        warnings.append(wording.POOLED)
    if inference.few_events.any():
        names = [asked.names[t] for t in np.flatnonzero(inference.few_events)]
        events = [asked.events[i] for i in asked.component[inference.few_events]] if asked.events else []
        warnings.append(wording.few_events(names, [event.label for event in events]))
    if not plan.distance.tested:
        warnings.append(wording.SQUARED)
    elif inference.status not in (Status.OK, Status.FEW_EVENTS):
        warnings.append(wording.STATUSES[inference.status])
    if plan.law == "published":
        warnings.append(wording.PUBLISHED)
    if inference.smoothed:
        warnings.append(wording.SMOOTHED)
    if inference.permuted:
        warnings.append(wording.PERMUTED)
    if plan.distance.note:
        warnings.append(plan.distance.note)
    return warnings
