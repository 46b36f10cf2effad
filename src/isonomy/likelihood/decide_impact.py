"""What was shown about the threshold, and what the reader of a table of adverse impact should be told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy import inference
from isonomy.inference import Verdict, conclude, rejected
from isonomy.inference.multiplicity import adjust
from isonomy.likelihood import wording_impact as wording
from isonomy.likelihood.estimate_impact import ImpactEstimates
from isonomy.likelihood.plan_impact import ImpactPlan
from isonomy.likelihood.tally_impact import ImpactTally
from isonomy.likelihood.wording import CONCERNS
from isonomy.numerics.arrays import BoolArray
from isonomy.numerics.status import Status
from isonomy.results import phrases


@dataclass(frozen=True, slots=True, eq=False)
class ImpactDecisions(inference.Decisions):
    """Three separate facts of each category: its ratio as observed is below the threshold; a difference was shown;
    a ratio below the threshold was shown, which is the verdict."""

    below_threshold: BoolArray
    difference_shown: BoolArray
    status: tuple[Status, ...]
    warnings: tuple[str, ...]


def decide_impact(sums: ImpactTally, estimates: ImpactEstimates, plan: ImpactPlan) -> ImpactDecisions:
    """P-values are adjusted over all categories of all tables."""
    itself = estimates.status == Status.REFERENCE
    if plan.reference is None:  # the best of a table as observed is compared with the others too, but cannot be below
        tested = np.where(itself, np.nan, estimates.below_pvalue)
        pvalue = np.where(itself, np.nan, estimates.pvalue)
    else:
        tested, pvalue = estimates.below_pvalue, estimates.pvalue
    shown = conclude(
        tested, alpha=plan.alpha, adjust=plan.adjust, within_pvalue=estimates.at_least_pvalue, concerned=~itself
    )
    with np.errstate(invalid="ignore"):
        below = estimates.impact_ratio < plan.threshold
    return ImpactDecisions(
        below_threshold=below,
        difference_shown=rejected(adjust(pvalue, plan.adjust), plan.alpha),
        adjusted=shown.adjusted,
        verdicts=tuple(  # the comparator itself is not judged
            Verdict.INCONCLUSIVE if own else verdict for own, verdict in zip(itself, shown.verdicts, strict=True)
        ),
        verdict=shown.verdict,
        status=tuple(Status(one) for one in estimates.status),
        warnings=_warnings(sums, estimates, plan),
    )


def _warnings(sums: ImpactTally, estimates: ImpactEstimates, plan: ImpactPlan) -> tuple[str, ...]:
    sentences = [
        wording.unknown_warning(counts.name, counts.unknown_rows, counts.unknown_rows + counts.rows.sum())
        for counts in sums.tables
        if counts.unknown_rows
    ]
    small = [str(estimates.groups[i]) for i in np.flatnonzero(estimates.status == Status.TOO_SMALL)]
    if small:
        sentences.append(wording.left_out_warning(small, plan.min_size, plan.smallest_share))
    few = [str(estimates.groups[i]) for i in np.flatnonzero(estimates.status == Status.FEW_CLUSTERS)]
    if few:
        sentences.append(phrases.about(CONCERNS[Status.FEW_CLUSTERS], few))
    nobody = [str(estimates.groups[i]) for i in np.flatnonzero(estimates.status == Status.ZERO_BASELINE)]
    if nobody:
        sentences.append(wording.zero_warning(nobody))
    alone = [counts.name for counts in sums.tables if _compared(estimates, counts.name) < 2]
    if alone:
        sentences.append(wording.alone_warning(alone))
    return tuple(sentences)


def _compared(estimates: ImpactEstimates, table: str) -> int:
    """How many categories of a table can be set beside each other."""
    return sum(
        name == table and status not in (Status.TOO_SMALL, Status.FEW_CLUSTERS)
        for name, status in zip(estimates.tables, estimates.status, strict=True)
    )
