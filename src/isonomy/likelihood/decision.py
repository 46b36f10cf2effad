"""From likelihoods to decisions: adjusted p-values, intervals, verdicts, and what the reader should be told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from isonomy.frames import Group
from isonomy.inference.multiplicity import METHODS, adjust, tree
from isonomy.likelihood import wording
from isonomy.likelihood.comparison import Comparison, Tools, compare
from isonomy.likelihood.correction import Corrected, known_factor
from isonomy.likelihood.euclid import Euclidean
from isonomy.likelihood.hypotheses import Hypothesis, Likelihood, intervals
from isonomy.likelihood.profile import Profile
from isonomy.likelihood.reference import Reference, To
from isonomy.likelihood.tally import Evidence
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.results import Verdict

ADJUSTMENTS = (*METHODS, "bh-tree")
# Tested groups up to which the other treatment of the reference is worked out for comparison.
CONTRASTED = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Numbers and verdicts of all groups, and of the whole."""

    statistic: FloatArray
    pvalue: FloatArray
    adjusted: FloatArray
    low: FloatArray
    high: FloatArray
    status: npt.NDArray[np.object_]
    verdicts: tuple[Verdict, ...]
    overall: Verdict


def decide(
    comparison: Comparison,
    tested: Hypothesis,
    interval: str,
    alpha: float,
    adjustment: str,
    tolerance: float | None,
) -> Decided:
    """Test every group, adjust, form intervals and verdicts."""
    able = comparison.tested
    statistic, pvalue = tested.test(comparison)
    pvalue = np.where(able & ~np.isnan(statistic), pvalue, np.nan)
    statistic = np.where(able, statistic, np.nan)
    adjusted = adjusted_pvalues(comparison.groups, pvalue, adjustment, alpha)
    low, high = intervals(comparison, interval, tested.alternative, alpha, int(able.sum()))
    status = comparison.status.copy()
    status[able & np.isinf(statistic)] = Status.OUTSIDE_RANGE
    mark_intervals(status, able, low, high, one_sided=interval == "one-sided")
    status[able & np.isnan(statistic)] = Status.NOT_CONVERGED
    verdicts = _verdicts(adjusted <= alpha, low, high, tested.alternative, tolerance)
    return Decided(
        statistic, pvalue, adjusted, low, high, status, verdicts, _overall(verdicts, comparison.status, tolerance)
    )


def mark_intervals(
    status: npt.NDArray[np.object_],
    able: npt.NDArray[np.bool_],
    low: FloatArray,
    high: FloatArray,
    *,
    one_sided: bool = False,
) -> None:
    """Mark the tested groups whose interval has no end where it should, or was not found."""
    fine = able & (status == Status.OK)
    if not one_sided:
        # A constant 0/1 group too: that it is constant has its own warning.
        endless = np.isinf(low) | np.isinf(high)
        status[(fine | (able & (status == Status.CONSTANT))) & endless] = Status.UNBOUNDED
    status[fine & (np.isnan(low) | np.isnan(high))] = Status.NOT_CONVERGED


def adjusted_pvalues(groups: tuple[Group, ...], pvalue: FloatArray, adjustment: str, alpha: float) -> FloatArray:
    """P-values adjusted over all tested groups, or level by level down the tree of intersections."""
    if adjustment != "bh-tree":
        return adjust(pvalue, adjustment)
    place = {frozenset(group.items): i for i, group in enumerate(groups)}
    parents = [
        [place[key] for item in group.items if (key := frozenset(group.items) - {item}) in place] for group in groups
    ]
    return tree(pvalue, [len(group.items) for group in groups], parents, alpha).adjusted


def _verdicts(
    rejected: npt.NDArray[np.bool_], low: FloatArray, high: FloatArray, alternative: str, tolerance: float | None
) -> tuple[Verdict, ...]:
    within = np.zeros(rejected.shape, dtype=bool)
    if tolerance is not None:
        above = np.zeros_like(within) if alternative == "less" else ~(high <= tolerance)
        below = np.zeros_like(within) if alternative == "greater" else ~(low >= -tolerance)
        within = ~above & ~below & ~np.isnan(low)
    kinds = np.where(rejected, 0, np.where(within, 1, 2))
    names = (Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
    return tuple(names[k] for k in kinds)


def _overall(verdicts: tuple[Verdict, ...], status: npt.NDArray[np.object_], tolerance: float | None) -> Verdict:
    """A violation anywhere; within tolerance only if every group was shown to be."""
    if Verdict.VIOLATION in verdicts:
        return Verdict.VIOLATION
    concerned = [v for v, s in zip(verdicts, status, strict=True) if s is not Status.REFERENCE]
    shown = tolerance is not None and concerned and all(v is Verdict.WITHIN_TOLERANCE for v in concerned)
    return Verdict.WITHIN_TOLERANCE if shown else Verdict.INCONCLUSIVE


def contrast(
    evidence: Evidence,
    reference: Reference,
    comparison: Comparison,
    decided: Decided,
    tested: Hypothesis,
    tools: Tools,
    alpha: float,
    adjustment: str,
) -> str:
    """What the other treatment of the reference's error would have decided."""
    total = int(comparison.tested.sum())
    if reference.to is To.NUMBER or not 0 < total <= CONTRASTED:
        return ""
    if reference.joint:
        parts = [(where, plugged(part)) for where, part in comparison.parts]
        known = [(where, part) for where, part in parts if part is not None]
        if len(known) == len(parts):
            other = replace(comparison, parts=tuple(known))
        else:
            other = compare(evidence, replace(reference, joint=False), tools)
    else:
        other = compare(evidence, replace(reference, joint=True), replace(tools, correction=None))
    pvalue = np.where(other.tested, tested.test(other)[1], np.nan)
    rejected = adjusted_pvalues(comparison.groups, pvalue, adjustment, alpha) <= alpha
    differ = [str(comparison.groups[i]) for i in np.flatnonzero(rejected != (decided.adjusted <= alpha))]
    if reference.joint:
        return wording.plugin_contrast(total, differ)
    return wording.joint_contrast(differ, tools.correction is not None)


def plugged(likelihood: Likelihood) -> Likelihood | None:
    """The same problems with the estimated reference taken as known; None if that takes another look at the rows."""
    if isinstance(likelihood, Profile):
        return likelihood.plugged()
    if isinstance(likelihood, Euclidean):
        return replace(likelihood, problem=likelihood.problem.plugged())
    if isinstance(likelihood, Corrected):
        return Corrected(problem := likelihood.problem.plugged(), known_factor(problem))
    return None


def warnings(
    evidence: Evidence,
    reference: Reference,
    comparison: Comparison,
    decided: Decided,
    adjustment: str,
    min_size: int,
    tolerance: float | None,
) -> tuple[str, ...]:
    """Everything a reader should know before trusting a number."""
    shared = (len(evidence.partitions) > 1 or reference.to is not To.NUMBER) and int(comparison.tested.sum()) > 1
    lines = status_warnings(evidence, reference, comparison, decided.status, min_size)
    if comparison.uncorrected:
        lines.append(wording.uncorrected_warning(comparison.uncorrected))
    if adjustment in ("bh", "bh-tree") and shared:
        lines.append(wording.dependence_warning(adjustment))
    if adjustment == "bh-tree":
        lines.append(wording.tree_warning(int((np.isnan(decided.adjusted) & ~np.isnan(decided.pvalue)).sum())))
    if tolerance is None and Verdict.VIOLATION in decided.verdicts:
        lines.append(wording.large_sample_note())
    return tuple(lines)


def status_warnings(
    evidence: Evidence,
    reference: Reference,
    comparison: Comparison,
    status: npt.NDArray[np.object_],
    min_size: int,
) -> list[str]:
    """Groups that are not plainly fine, by kind, and a reference whose error is left out."""

    def named(kind: Status) -> list[str]:
        return [str(comparison.groups[i]) for i in np.flatnonzero(status == kind)]

    lines = []
    if evidence.dropped:
        lines.append(wording.dropped_warning(list(evidence.dropped.items())))
    if too_small := int((status == Status.TOO_SMALL).sum()):
        lines.append(wording.small_warning(too_small, min_size))
    if constant := int((comparison.status == Status.CONSTANT).sum()):
        lines.append(wording.constant_warning(constant, evidence.binary))
    for kind, sentence in (
        (Status.EMPTY, wording.empty_warning),
        (Status.OUTSIDE_RANGE, wording.range_warning),
        (Status.UNBOUNDED, wording.unbounded_warning),
        (Status.NOT_CONVERGED, wording.unsolved_warning),
    ):
        if found := named(kind):
            lines.append(sentence(found))
    if not reference.joint and reference.to is not To.NUMBER:
        lines.append(wording.plugin_warning())
    return lines
