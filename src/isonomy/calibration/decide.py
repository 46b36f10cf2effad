"""What was shown: p-values adjusted over all families of groups, verdicts by the one rule, statuses and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from isonomy import inference
from isonomy.calibration import wording, wording_thresholds
from isonomy.calibration.estimate import CompositeEstimates, Estimates, MarginalEstimates, MetricsEstimates
from isonomy.calibration.estimate_thresholds import ThresholdsEstimates
from isonomy.calibration.plan import CompositePlan, MarginalPlan, MetricsPlan, Plan, ThresholdsPlan
from isonomy.inference import Verdict, conclude, inside, multiplicity, overall, settle
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.results import Status

ORDER = 0.1  # the share of alpha that the order of scores has; the differences between groups have the rest


@dataclass(frozen=True, slots=True, eq=False)
class FamilyDecisions:
    """The verdicts on the pairs of one family of groups, and on all of them together."""

    adjusted: FloatArray  # of each pair
    verdicts: tuple[Verdict, ...]
    order_pvalue: float  # of the order of scores, adjusted; NaN where it is not asked about
    order_verdict: Verdict | None = None

    @property
    def pvalue(self) -> float:
        """The smallest of its pairs and of its order."""
        return multiplicity.smallest([*self.adjusted, self.order_pvalue])

    @property
    def verdict(self) -> Verdict:
        """Of all pairs, and of the order where it is asked about."""
        return overall([*self.verdicts, *([] if self.order_verdict is None else [self.order_verdict])])


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The verdicts of a test, and what to know before reading its numbers."""

    families: tuple[FamilyDecisions, ...]
    warnings: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """The smallest of the families'."""
        return multiplicity.smallest([family.pvalue for family in self.families])

    @property
    def verdict(self) -> Verdict:
        """Of all families together."""
        return overall([family.verdict for family in self.families])


@dataclass(frozen=True, slots=True, eq=False)
class CompositeDecisions(inference.Decisions):
    """The verdicts on all pairs of all families, under every weight."""

    warnings: tuple[str, ...] = ()

    @property
    def pvalue(self) -> float:
        """The smallest of all pairs'."""
        return multiplicity.smallest(self.adjusted)


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsDecisions:
    """What was shown of the present threshold, and how each new one is to be taken."""

    verdict: Verdict
    status: tuple[Status, ...]
    warnings: tuple[str, ...]


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Parity is both: equal outcomes, and scores in order. Holm's method over all pairs, and over all families' orders.

    Each p-value is divided by its part's share of alpha, so that either is compared with alpha and both together are
    wrong at most that often; where the order is not tested, the differences have the whole of alpha. Within tolerance
    are pairs whose pointwise intervals all lie inside (two one-sided tests at every score), and orders of which every
    reversal was shown to be at most the tolerance.
    """
    families = estimates.families
    # Every score that was asked for has to be within the tolerance; on the default grid only those that are known.
    least, most = (np.minimum, np.maximum) if plan.grid is not None else (np.fmin, np.fmax)
    within = [
        inside(least.reduce(one.pointwise_low, axis=1), most.reduce(one.pointwise_high, axis=1), plan.tolerance)
        for one in families
    ]
    share = 1 - ORDER if plan.order else 1.0
    pairs = _pairs([_share(one.pair_pvalue, share) for one in families], within, plan.alpha, "holm")
    if not plan.order:
        alone = tuple(FamilyDecisions(*own, float("nan")) for own in pairs)
        return Decisions(alone, _parity_warnings(estimates, plan))
    limits = np.array([one.order.limit for one in families])
    orders = conclude(
        _share(np.array([one.order.pvalue for one in families]), ORDER),
        alpha=plan.alpha,
        adjust="holm",
        within=inside(np.where(np.isnan(limits), np.nan, 0.0), limits, plan.order_tolerance, "greater"),
    )
    decisions = tuple(
        FamilyDecisions(*own, float(order), verdict)
        for own, order, verdict in zip(pairs, orders.adjusted, orders.verdicts, strict=True)
    )
    return Decisions(decisions, _parity_warnings(estimates, plan))


def decide_composite(estimates: CompositeEstimates, plan: CompositePlan) -> CompositeDecisions:
    """All pairs of all families adjusted together; a pair's p-value is for all weights already."""
    pvalues = [np.array([test.pvalue for test in family.tests]) for family in estimates.families]
    together = conclude(np.concatenate(pvalues), alpha=plan.alpha, adjust="holm")
    return CompositeDecisions(together.adjusted, together.verdicts, together.verdict)


def decide_marginal(estimates: MarginalEstimates, plan: MarginalPlan) -> Decisions:
    """All pairs of all families adjusted together."""
    within = [inside(family.low, family.high, plan.tolerance) for family in estimates.families]
    pairs = _pairs([family.pair_pvalue for family in estimates.families], within, plan.alpha, plan.adjust)
    few = [
        [group.label for group, value in zip(family.groups, family.estimate, strict=True) if np.isnan(value)]
        for family in estimates.families
    ]
    spanning = [family.spanning for family in estimates.families]
    widths = [family.bandwidth for family in estimates.families]
    warnings = wording.marginal_warnings(estimates.unit, plan.method, estimates.nobody, few, spanning, widths)
    return Decisions(tuple(FamilyDecisions(*own, float("nan")) for own in pairs), warnings)


def _share(pvalue: FloatArray, share: float) -> FloatArray:
    """P-values to be compared with alpha, of a part that has this share of it."""
    return np.minimum(pvalue / share, 1.0)


def _pairs(
    pvalues: Sequence[FloatArray], within: Sequence[BoolArray], alpha: float, adjust: str
) -> list[tuple[FloatArray, tuple[Verdict, ...]]]:
    """Adjusted p-values and verdicts of the pairs of each family, all adjusted together."""
    together = conclude(np.concatenate(pvalues), alpha=alpha, adjust=adjust, within=np.concatenate(within))
    ends = np.cumsum([0, *(part.size for part in pvalues)])
    return [(together.adjusted[a:b], together.verdicts[a:b]) for a, b in pairwise(ends)]


def _parity_warnings(estimates: Estimates, plan: Plan) -> tuple[str, ...]:
    warnings = wording.score_warnings(estimates.unit, plan.method)
    for one in estimates.families:
        lost = int(np.isnan(one.difference).sum())
        warnings += wording.family_warnings(one.dimensions, one.grid.size, one.spanning, lost, one.difference.size)
    return tuple(warnings)


def decide_thresholds(estimates: ThresholdsEstimates, plan: ThresholdsPlan) -> ThresholdsDecisions:
    """Whether the present threshold treats groups differently, and which new ones can be used."""
    known, rate, before = estimates.known, estimates.rate_after, estimates.rate_before
    moved = int(estimates.blocks.max()) > 0 or plan.capacity is not None
    if plan.margin and moved:
        # Together they keep the rate: if one group has no margin any more, the others were moved to make up for it.
        sound = (rate > 0) & ((rate < 1) | (before == 1)) & ~estimates.falling & ~estimates.beyond
        sound &= plan.direction != "both" or bool(sound[known].all())
    else:
        sound = np.ones(known.size, dtype=bool)
    chosen = np.where(estimates.lowered & plan.margin, Status.EXTRAPOLATED, Status.OK)
    chosen = np.where(estimates.met & sound, chosen, Status.INFEASIBLE)
    status = tuple(Status(str(one)) for one in np.where(known, chosen, Status.UNSUPPORTED))
    labels = [group.label for group in estimates.groups]

    def those(which: BoolArray) -> list[str]:
        return [label for label, chosen in zip(labels, which, strict=True) if chosen]

    wanted = estimates.overall_before if plan.capacity is None else plan.capacity
    kept = estimates.reached and abs(estimates.overall_after - wanted) <= 1e-3
    rows, known_rows, _ = estimates.selected.size.sum(axis=1)
    warnings = [
        *([wording_thresholds.unknown_outcomes(known_rows, rows)] if known_rows < rows else []),
        *wording_thresholds.rate_warnings(
            plan.target, plan.direction, kept, wanted, estimates.overall_after, those(~known), plan.words
        ),
        *wording_thresholds.margin_warnings(
            *(
                [] if not moved else those(which)
                for which in (estimates.falling, known & (rate == 0), known & (rate == 1))
            )
        ),
    ]
    verdict = settle(estimates.pvalue, plan.alpha)[0]
    return ThresholdsDecisions(verdict, status, (*warnings, *_still_apart(estimates, plan, labels, moved)))


def _still_apart(estimates: ThresholdsEstimates, plan: ThresholdsPlan, labels: Sequence[str], moved: bool) -> list[str]:
    """Metrics that differ after by more than their standard errors, between groups with thresholds of their own."""
    warnings = []
    for metric, after, se in zip(estimates.metrics, estimates.after, estimates.se, strict=True):
        low, high = int(np.nanargmin(after)), int(np.nanargmax(after))
        apart = after[high] - after[low] > max(float(np.hypot(se[low], se[high])), 1e-6)
        if moved and apart and estimates.blocks[low] != estimates.blocks[high]:
            odds = plan.target == "equalized_odds" and not plan.randomize
            extremes = (labels[low], after[low], labels[high], after[high])
            warnings.append(
                wording_thresholds.still_differ(metric, *extremes, binary=estimates.binary, odds=odds, words=plan.words)
            )
    return warnings


def decide_metrics(estimates: MetricsEstimates, plan: MetricsPlan) -> tuple[str, ...]:
    """Nothing is tested; why some of the measures are NaN."""
    warnings: list[str] = []
    for name, one in estimates.scores.items():
        labels = ["overall", *(group.label for group in one.family.groups)]
        lost = [f"{label} ({n} of {one.points})" for label, n in zip(labels[1:], one.far, strict=True) if n]
        single = [label for label, auc in zip(labels, one.values[:, 3], strict=True) if np.isnan(auc)]
        warnings += wording.metric_warnings(name, lost, single, one.family.binary)
    return tuple(warnings)
