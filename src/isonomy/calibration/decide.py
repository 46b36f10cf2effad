"""What was shown: p-values adjusted over all families of groups, verdicts by the one rule, statuses and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.calibration import wording
from isonomy.calibration.estimate import (
    Estimates,
    MarginalEstimates,
    MetricsEstimates,
    Pairs,
    ThresholdsEstimates,
)
from isonomy.calibration.plan import MarginalPlan, MetricsPlan, Plan, ThresholdsPlan
from isonomy.inference import Verdict, inside, multiplicity, overall, settle
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.results import Status


@dataclass(frozen=True, slots=True, eq=False)
class FamilyDecisions:
    """The verdicts on the pairs of one family of groups, and on all of them together."""

    adjusted: FloatArray  # of each pair
    verdicts: tuple[Verdict, ...]
    pvalue: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The verdicts of a test, and what to know before reading its numbers."""

    families: tuple[FamilyDecisions, ...]
    warnings: tuple[str, ...]
    orders: tuple[float, ...] = ()  # p-values of the order of scores in each family, adjusted for one another

    @property
    def pvalue(self) -> float:
        """The smallest of the families'."""
        return multiplicity.smallest([family.pvalue for family in self.families])

    @property
    def verdict(self) -> Verdict:
        """Of all families together."""
        return overall([family.verdict for family in self.families])


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsDecisions:
    """How each threshold is to be taken; nothing is tested."""

    status: tuple[Status, ...]
    warnings: tuple[str, ...]


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Holm's method over families and over pairs; a pair differs only where its family was shown to."""
    # Every score that was asked for has to be within the tolerance; on the default grid only those that are known.
    least, most = (np.minimum, np.maximum) if plan.grid is not None else (np.fmin, np.fmax)
    within = [
        inside(least.reduce(family.low, axis=1), most.reduce(family.high, axis=1), plan.tolerance)
        for family in estimates.families
    ]
    whole = multiplicity.adjust([family.pvalue for family in estimates.families], "holm")
    families = _families(estimates.families, "holm", within, plan.alpha, whole)
    orders = multiplicity.adjust([family.order.pvalue for family in estimates.families], "holm")
    return Decisions(families, _parity_warnings(estimates, plan), tuple(orders.tolist()))


def decide_marginal(estimates: MarginalEstimates, plan: MarginalPlan) -> Decisions:
    """All pairs of all families adjusted together."""
    within = [inside(family.low, family.high, plan.tolerance) for family in estimates.families]
    families = _families(estimates.families, plan.adjust, within, plan.alpha)
    few = [
        [group.label for group, value in zip(family.groups, family.estimate, strict=True) if np.isnan(value)]
        for family in estimates.families
    ]
    spanning = [family.spanning for family in estimates.families]
    warnings = wording.marginal_warnings(estimates.unit, plan.method, estimates.nobody, few, spanning)
    return Decisions(families, warnings)


def _families(
    pairs: Sequence[Pairs],
    adjust: str,
    within: Sequence[BoolArray],
    alpha: float,
    whole: FloatArray | None = None,
) -> tuple[FamilyDecisions, ...]:
    """P-values adjusted over all pairs of all families, and the verdicts that follow from them.

    ``whole``: the families' own p-values, adjusted for one another; a pair then differs only where its family was shown
    to. Without them a family's is the smallest of its pairs'.
    """
    every = multiplicity.adjust(np.concatenate([part.pair_pvalue for part in pairs]), adjust)
    parts = np.split(every, np.cumsum([part.pair_pvalue.size for part in pairs])[:-1])
    decisions = []
    for k, own in enumerate(parts):
        pvalue = multiplicity.smallest(own) if whole is None else float(whole[k])
        adjusted = own if whole is None else np.where(np.isnan(own), np.nan, np.fmax(own, pvalue))
        verdicts = settle(adjusted, alpha, within[k])
        (verdict,) = settle(pvalue, alpha, overall(verdicts) is Verdict.WITHIN_TOLERANCE)
        decisions.append(FamilyDecisions(adjusted, verdicts, pvalue, verdict))
    return tuple(decisions)


def _parity_warnings(estimates: Estimates, plan: Plan) -> tuple[str, ...]:
    warnings = wording.score_warnings(estimates.unit, plan.method)
    for one in estimates.families:
        lost = int(np.isnan(one.difference).sum())
        warnings += wording.family_warnings(one.dimensions, one.grid.size, one.spanning, lost, one.difference.size)
    return tuple(warnings)


def decide_thresholds(estimates: ThresholdsEstimates, plan: ThresholdsPlan) -> ThresholdsDecisions:
    """Which thresholds can be used."""
    known, after, selected = estimates.known, estimates.outcomes.after, estimates.selected
    before, rate = selected.rates
    # Together they keep the rate: if one group has no margin any more, the others were moved to make up for it.
    sound = (rate > 0) & ((rate < 1) | (before == 1)) & ~estimates.outcomes.falling
    sound &= plan.direction != "both" or bool(sound[known].all())
    met = np.abs(after - estimates.target) <= np.fmax(estimates.se, 1e-6)
    chosen = np.where(estimates.lowered, Status.EXTRAPOLATED, Status.OK)
    chosen = np.where(met & sound, chosen, Status.INFEASIBLE)
    status = tuple(Status(str(one)) for one in np.where(known, chosen, Status.UNSUPPORTED))
    labels = [group.label for group in estimates.groups]

    def those(which: BoolArray) -> list[str]:
        return [label for label, chosen in zip(labels, which, strict=True) if chosen]

    kept = estimates.reached and bool(abs((selected.after - selected.before).sum()) <= 1e-3 * selected.rows.sum())
    low, high = int(np.nanargmin(after)), int(np.nanargmax(after))
    differ = after[high] - after[low] > max(float(np.hypot(estimates.se[low], estimates.se[high])), 1e-6)
    return ThresholdsDecisions(
        status,
        (
            *wording.rate_warnings(plan.direction, kept, *selected.overall, those(~known)),
            *wording.margin_warnings(
                those(estimates.outcomes.falling), those(known & (rate == 0)), those(known & (rate == 1))
            ),
            *([wording.still_differ(labels[low], after[low], labels[high], after[high])] if differ else []),
        ),
    )


def decide_metrics(estimates: MetricsEstimates, plan: MetricsPlan) -> tuple[str, ...]:
    """Nothing is tested; why some of the measures are NaN."""
    warnings: list[str] = []
    for name, one in estimates.scores.items():
        labels = ["overall", *(group.label for group in one.family.groups)]
        lost = [f"{label} ({n} of {one.points})" for label, n in zip(labels[1:], one.far, strict=True) if n]
        single = [label for label, auc in zip(labels, one.values[:, 3], strict=True) if np.isnan(auc)]
        warnings += wording.metric_warnings(name, lost, single, one.family.binary)
    return tuple(warnings)
