"""What was shown, by the one rule of `isonomy.inference.decide`, and what the reader must know before relying on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isonomy import inference
from isonomy.alternatives import wording
from isonomy.alternatives.estimate import Estimates
from isonomy.alternatives.estimate_comparison import Trial
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.rules import rounds as together
from isonomy.inference import Verdict
from isonomy.numerics.status import Status

FEW = 30  # rows in a denominator below which the bootstrap's law is called rough
NEAR = 2.0  # standard errors within which the status quo's unfairness is called close to zero


@dataclass(frozen=True, slots=True, eq=False)
class Decisions(inference.Decisions):
    """The verdict on the null, on every candidate where there are several, and the warnings.

    P-values are adjusted for all attempts: one per candidate, or one for all rounds.
    """

    warnings: tuple[str, ...]

    @property
    def reject(self) -> bool:
        """Whether an alternative was shown to exist."""
        return self.verdict is Verdict.VIOLATION


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Conclude from the p-value of each candidate, or of all rounds together; every attempt made before counts."""
    trials = estimates.trials
    alone = len(trials) == 1 or plan.merge != "smallest"
    single = together.combined([trial.pvalue for trial in trials], plan.merge)
    pvalues = [float(single)] if alone else [trial.pvalue for trial in trials]
    concluded = inference.conclude([*pvalues, *[1.0] * len(plan.tried)], alpha=plan.alpha, adjust="holm")
    own = slice(0, len(pvalues))
    return Decisions(concluded.adjusted[own], concluded.verdicts[own], concluded.verdict, _warnings(estimates, plan))


def _warnings(estimates: Estimates, plan: Plan) -> tuple[str, ...]:
    """Warnings, each naming the rounds or candidates it concerns."""
    trials, criteria = estimates.trials, estimates.criteria
    tested = [t.comparison for t in trials if t.comparison is not None]
    rounds = plan.evidence in ("splits", "paper")

    def concerned(holds: Sequence[bool]) -> str:
        names = plan.candidates if len(plan.candidates) > 1 else None
        return wording.concerned([i for i, here in enumerate(holds) if here], names, rounds=rounds)

    def where(holds: Callable[[Trial], bool]) -> str:
        return concerned([holds(trial) for trial in trials])

    fits = plan.folds * plan.repeats if plan.evidence == "crossfit" else len(trials)
    warnings: list[str] = []
    if lost := where(lambda t: t.comparison is None):
        note = next(t.note for t in trials if t.comparison is None)
        warnings.append(wording.nothing_found(lost, plan.rule_name, note or "no reason given"))
    elif estimates.failures:
        warnings.append(wording.failed(len(estimates.failures), fits, estimates.failures[0]))
    remarks = estimates.remarks
    warnings += [wording.remark(remarks.count(note), fits, note) for note in dict.fromkeys(remarks)]
    late = [t for t in trials if t.comparison is not None and t.status == Status.TIME_LIMIT]
    if late:
        gap = max((gap for t in late if not np.isnan(gap := t.details.get("gap", np.nan))), default=np.nan)
        warnings.append(wording.stopped(where(lambda t: t in late), gap))
    if empty := where(lambda t: t.comparison is not None and t.comparison.undefined > 0):
        warnings.append(wording.undefined(empty, max(c.undefined for c in tested), plan.resamples))
    if rough := where(lambda t: t.comparison is not None and t.comparison.fewest < FEW):
        warnings.append(wording.few(rough, min(c.fewest for c in tested), criteria.accuracy.name))
    if same := where(lambda t: t.comparison is not None and bool(t.identical.all())):
        warnings.append(wording.same(same))
    for i, name in enumerate(criteria.accuracies):
        untouched = [t.comparison is not None and bool(t.identical[i]) and not t.identical.all() for t in trials]
        if alike := concerned(untouched):
            warnings.append(wording.alike(alike, name, plan.evidence == "paper"))
    if criteria.protected is not None:
        label = criteria.labels[criteria.protected]
        for k, utility in enumerate(criteria.fairness):
            if zero := concerned([t.fairness[k, 1] == 0 for t in trials]):
                warnings.append(wording.not_disadvantaged(zero, utility.name, label))
    distance = float(np.median([c.distance for c in tested])) if tested else np.inf
    if distance < NEAR:
        warnings.append(wording.near_fair(", ".join(u.name for u in criteria.fairness), distance))
    if rounds and plan.rule is None and plan.capacity is None and plan.training_share(criteria):
        several = len(criteria.pairs) > 1
        warnings.append(wording.SPLIT_FOR_PAIRS if several and len(trials) == 1 else wording.NOTHING_LEARNED)
    return tuple(warnings)
