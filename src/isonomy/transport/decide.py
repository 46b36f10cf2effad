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
    for at, constant in zip(estimates.place, inference.constant, strict=True):
        statuses[at] = Status.CONSTANT if constant else Status.OK
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
    if not plan.distance.tested:
        warnings.append(wording.SQUARED)
    elif inference.status is not Status.OK:
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
