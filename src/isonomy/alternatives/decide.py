"""What was shown, by the one rule of `isonomy.inference.decide`, and what the reader must know before relying on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isonomy import inference
from isonomy.alternatives import wording
from isonomy.alternatives.estimate import Estimates, Round
from isonomy.alternatives.plan import Plan
from isonomy.inference import Verdict
from isonomy.numerics.status import Status

FEW = 30  # rows in a denominator below which the bootstrap's law is called rough
NEAR = 2.0  # standard errors within which the status quo's unfairness is called close to zero


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The verdict on the null, and the warnings."""

    verdict: Verdict
    warnings: tuple[str, ...]

    @property
    def reject(self) -> bool:
        """Whether an alternative was shown to exist."""
        return self.verdict is Verdict.VIOLATION


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Conclude from the combined p-value."""
    verdict = inference.conclude([estimates.pvalue], alpha=plan.alpha).overall
    return Decisions(verdict, _warnings(estimates, plan))


def verdict_without_gains(supported: float) -> Verdict:
    """The verdict where no gain is required: some gain is supported exactly where the test of none rejects."""
    return Verdict.INCONCLUSIVE if np.isnan(supported) else Verdict.VIOLATION


def _warnings(estimates: Estimates, plan: Plan) -> tuple[str, ...]:
    """Warnings, each naming the rounds it concerns."""
    rounds, criteria = estimates.rounds, estimates.criteria
    tested = [r.comparison for r in rounds if r.comparison is not None]

    def where(holds: Callable[[Round], bool]) -> list[int]:
        return [number for number, r in enumerate(rounds, start=1) if holds(r)]

    warnings: list[str] = []
    if lost := where(lambda r: r.comparison is None):
        note = rounds[lost[0] - 1].note
        warnings.append(wording.nothing_found(lost, plan.rule_name, note or "no reason given"))
    if late := where(lambda r: r.comparison is not None and r.status == Status.TIME_LIMIT):
        gap = max(rounds[number - 1].details.get("gap", np.nan) for number in late)
        warnings.append(wording.stopped(late, gap))
    if empty := where(lambda r: r.comparison is not None and r.comparison.undefined > 0):
        warnings.append(wording.undefined(empty, max(c.undefined for c in tested), plan.resamples))
    if rough := where(lambda r: r.comparison is not None and r.comparison.fewest < FEW):
        warnings.append(wording.few(rough, min(c.fewest for c in tested), criteria.accuracy.name))
    if criteria.protected is not None:
        label = criteria.labels[criteria.protected]
        for k, utility in enumerate(criteria.fairness):
            zero = [number for number, r in enumerate(rounds, start=1) if r.fairness[k, 1] == 0]
            if zero:
                warnings.append(wording.not_disadvantaged(zero, utility.name, label))
    distance = float(np.median([c.distance for c in tested])) if tested else np.inf
    if distance < NEAR:
        warnings.append(wording.near_fair(", ".join(u.name for u in criteria.fairness), distance))
    if plan.rule is None and plan.capacity is None and plan.training_share(criteria):
        several = len(criteria.pairs) > 1
        warnings.append(wording.SPLIT_FOR_PAIRS if several and len(rounds) == 1 else wording.NOTHING_LEARNED)
    return tuple(warnings)
