"""From p-values and intervals to verdicts, and what the reader should be told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.inference import Verdict, conclude, inside, rejected
from isonomy.inference.multiplicity import adjust, intersections
from isonomy.likelihood import wording
from isonomy.likelihood.estimate import Estimates, JointEstimates
from isonomy.likelihood.plan import Plan, To
from isonomy.likelihood.ratio.region import HANDFUL
from isonomy.numerics.arrays import FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.results import phrases


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What was shown of each group, and of the whole; ``contrast`` is what treating the reference's error otherwise
    would have shown, in words."""

    adjusted: FloatArray
    verdicts: tuple[Verdict, ...]
    verdict: Verdict
    status: tuple[Status, ...]
    warnings: tuple[str, ...]
    contrast: str = ""


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Each group's verdict, its p-value adjusted for the other groups'."""
    assert plan.hypothesis is not None
    adjusted = _adjusted(estimates.pvalue, estimates, plan)
    within = inside(estimates.low, estimates.high, plan.tolerance, plan.hypothesis.side)
    shown = conclude(adjusted, alpha=plan.alpha, within=within, concerned=estimates.status != Status.REFERENCE)
    status = estimates.status.copy()
    status[np.isinf(estimates.statistic)] = Status.OUTSIDE_RANGE
    _mark_intervals(status, estimates, one_sided=plan.interval == "one-sided")
    status[estimates.tested & np.isnan(estimates.statistic)] = Status.NOT_CONVERGED
    sentences = _warnings(estimates, plan, status)
    if estimates.uncorrected:
        sentences.append(wording.uncorrected_warning(estimates.uncorrected))
    shared = plan.overlapping or plan.reference.to is not To.NUMBER
    if plan.adjust in ("bh", "bh-tree") and shared and int(estimates.tested.sum()) > 1:
        sentences.append(wording.dependence_warning(plan.adjust))
    if plan.adjust == "bh-tree":
        sentences.append(wording.tree_warning(int((np.isnan(adjusted) & ~np.isnan(estimates.pvalue)).sum())))
    if plan.tolerance is None and Verdict.VIOLATION in shown.verdicts:
        sentences.append(wording.LARGE_SAMPLE)
    near = (adjusted > plan.alpha / 1.5) & (adjusted < 1.5 * plan.alpha)
    if plan.correction == "bartlett" and plan.reference.joint and near.any():
        sentences.append(wording.resampled_warning(plan.resamples))
    contrast = _contrast(adjusted, estimates, plan)
    return Decisions(adjusted, shown.verdicts, shown.overall, _statuses(status), tuple(sentences), contrast)


def decide_joint(estimates: JointEstimates, plan: Plan) -> Decisions:
    """One verdict: on the joint null or, with a tolerance, on the groups' p-values and intervals."""
    each, joint = estimates.each, estimates.joint
    adjusted = adjust(each.pvalue, plan.adjust)
    within = inside(each.low, each.high, plan.tolerance)
    if plan.tolerance is None:
        shown = conclude([estimates.pvalue], alpha=plan.alpha)
    else:
        shown = conclude(adjusted, alpha=plan.alpha, within=within, concerned=each.status != Status.REFERENCE)
    status = each.status.copy()
    _mark_intervals(status, each)
    sentences = _warnings(each, plan, status)
    if not estimates.corrected:
        sentences.append(wording.uncorrected_warning(()))
    if joint.left_out:
        tested = np.flatnonzero(each.tested)
        names = [str(each.groups[tested[i]]) for i in joint.left_out]
        sentences.append(wording.left_out_warning(names, plan.min_size))
    if estimates.spare is not None:
        least = min(plan.min_size, HANDFUL)
        sentences.append(wording.spare_warning(estimates.spare, least, int(each.tested.sum())))
    if joint.status is not Status.OK:
        sentences.append(wording.JOINT_STATUSES.get(joint.status, wording.JOINT_APPROXIMATE))
    return Decisions(adjusted, shown.verdicts, shown.overall, _statuses(status), tuple(sentences))


def _adjusted(pvalue: FloatArray, estimates: Estimates, plan: Plan) -> FloatArray:
    """P-values adjusted over all tested groups, or level by level down the tree of intersections."""
    if plan.adjust != "bh-tree":
        return adjust(pvalue, plan.adjust)
    return intersections(pvalue, [group.items for group in estimates.groups], plan.alpha).adjusted


def _contrast(adjusted: FloatArray, estimates: Estimates, plan: Plan) -> str:
    """What the other treatment of the reference's error would have decided."""
    if estimates.contrast is None:
        return ""
    other = rejected(_adjusted(estimates.contrast, estimates, plan), plan.alpha)
    differ = [str(estimates.groups[i]) for i in np.flatnonzero(other != rejected(adjusted, plan.alpha))]
    if plan.reference.joint:
        return wording.plugin_contrast(int(estimates.tested.sum()), differ)
    return wording.joint_contrast(differ, plan.correction is not None)


def _statuses(status: ObjectArray) -> tuple[Status, ...]:
    return tuple(Status(one) for one in status)  # numpy makes plain strings of an enum's members


def _mark_intervals(status: ObjectArray, estimates: Estimates, *, one_sided: bool = False) -> None:
    """Mark the tested groups whose interval has no end where it should, or was not found."""
    low, high, tested = estimates.low, estimates.high, estimates.tested
    fine = tested & (status == Status.OK)
    if not one_sided:
        # A constant 0/1 group too: that it is constant has its own warning.
        endless = np.isinf(low) | np.isinf(high)
        status[(fine | (tested & (status == Status.CONSTANT))) & endless] = Status.UNBOUNDED
    status[fine & (np.isnan(low) | np.isnan(high))] = Status.NOT_CONVERGED


def _warnings(estimates: Estimates, plan: Plan, status: ObjectArray) -> list[str]:
    """Groups that are not plainly fine, by kind, and a reference whose error is left out."""
    sentences = []
    if too_small := int((status == Status.TOO_SMALL).sum()):
        sentences.append(wording.small_warning(too_small, plan.min_size))
    if constant := int((estimates.status == Status.CONSTANT).sum()):
        sentences.append(wording.constant_warning(constant, plan.measure.binary))
    for kind, sentence in wording.CONCERNS.items():
        if names := [str(estimates.groups[i]) for i in np.flatnonzero(status == kind)]:
            sentences.append(phrases.about(sentence, names))
    if not plan.reference.joint and plan.reference.to is not To.NUMBER:
        sentences.append(wording.PLUGIN_WARNING)
    return sentences
