"""From p-values and intervals to verdicts, and what the reader should be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy import inference
from isonomy.inference import Verdict, conclude, inside, rejected
from isonomy.inference.multiplicity import adjust, false_discoveries, intersections, max_t, siblings
from isonomy.likelihood import wording, wording_joint
from isonomy.likelihood.estimate import Estimates
from isonomy.likelihood.estimate_joint import JointEstimates
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import To
from isonomy.likelihood.ratio.region import HANDFUL
from isonomy.numerics.arrays import BoolArray, FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.results import phrases

# A skewed group's p-value that is this small, relative to alpha, decides nevertheless. By simulation of lognormal
# groups of 20 rows and more at the edge of a tolerance, true hypotheses have one in at most 0.6 % of tables. Of several
# groups one must be smaller still: of 20 lognormal rows the chance of a p-value falls only with its eighth root.
OVERWHELMING, ROOT = 1e-3, 8.0
_POINT = 0.01  # a percentage point, or about one percent of a ratio


@dataclass(frozen=True, slots=True, eq=False)
class Decisions(inference.Decisions):
    """What was shown of each group, and of the whole; ``contrast`` is what treating the reference's error otherwise
    would have shown, in words."""

    direction: tuple[str, ...]
    status: tuple[Status, ...]
    warnings: tuple[str, ...]
    contrast: str = ""


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Each group's verdict, its p-value adjusted for the other groups'."""
    assert plan.hypothesis is not None
    adjusted = _adjusted(estimates.pvalue, estimates, plan)
    within = inside(plan.link.delta(estimates.low), plan.link.delta(estimates.high), plan.reach, plan.hypothesis.side)
    withheld = _withheld(estimates, plan)
    within &= ~withheld
    shown = conclude(
        np.where(withheld, np.nan, adjusted),
        alpha=plan.alpha,
        within=within,
        concerned=estimates.status != Status.REFERENCE,
    )
    status = estimates.status.copy()
    status[np.isinf(estimates.statistic)] = Status.OUTSIDE_RANGE
    _mark_intervals(status, estimates, one_sided=plan.interval == "one-sided")
    status[withheld & (status == Status.OK)] = Status.SKEWED
    status[estimates.tested & np.isnan(estimates.statistic)] = Status.NOT_CONVERGED
    sentences = _warnings(estimates, plan, status)
    if estimates.uncorrected:
        sentences.append(wording.uncorrected_warning(estimates.uncorrected))
    shared = plan.overlapping or plan.reference.to is not To.NUMBER
    if plan.adjust.startswith("bh") and shared and int(estimates.tested.sum()) > 1:
        sentences += _dependence(adjusted, estimates, plan)
    if plan.adjust == "bh-tree":
        unreached = int((np.isnan(adjusted) & ~np.isnan(estimates.pvalue)).sum())
        sentences.append(wording.tree_warning(unreached, several=bool(plan.others)))
    flagged = np.array([verdict is Verdict.VIOLATION for verdict in shown.verdicts], dtype=bool)
    equality = plan.hypothesis.low == plan.hypothesis.high == plan.link.equal
    if equality and (flagged & ~_large(estimates, plan)).any():
        sentences.append(wording.LARGE_SAMPLE)
    near = (adjusted > plan.alpha / 1.5) & (adjusted < 1.5 * plan.alpha)
    if plan.correction == "bartlett" and plan.reference.joint and near.any():
        sentences.append(wording.resampled_warning(plan.resamples))
    contrast = _contrast(adjusted, estimates, plan)
    direction = _direction(estimates, plan, shown.verdicts)
    return Decisions(adjusted, shown.verdicts, shown.verdict, direction, _statuses(status), tuple(sentences), contrast)


def decide_joint(estimates: JointEstimates, plan: Plan) -> Decisions:
    """One verdict: on the joint null or, with a tolerance, on the groups' p-values and intervals."""
    each, joint = estimates.each, estimates.joint
    adjusted = adjust(each.pvalue, plan.adjust, each.hypothesis)
    within = inside(plan.link.delta(each.low), plan.link.delta(each.high), plan.reach)
    withheld = _withheld(each, plan)
    within &= ~withheld
    uncorrected = bool(np.isnan(estimates.factor))
    if plan.tolerance is None:
        # A correction that is needed and cannot be had: the p-value does not hold its level.
        unsure = uncorrected and plan.correction == "auto"
        shown = conclude([np.nan if unsure else estimates.pvalue], alpha=plan.alpha)
    else:
        decisive = np.where(withheld, np.nan, adjusted)
        shown = conclude(decisive, alpha=plan.alpha, within=within, concerned=each.status != Status.REFERENCE)
    status = each.status.copy()
    _mark_intervals(status, each)
    status[withheld & (status == Status.OK)] = Status.SKEWED
    sentences = _warnings(each, plan, status)
    if uncorrected:
        sentences.append(wording.uncorrected_warning((), needed=plan.correction == "auto"))
    elif plan.correction == "auto" and estimates.factor != 1:
        sentences.append(wording_joint.corrected_warning(estimates.factor))
    if joint.left_out:
        tested = np.flatnonzero(each.tested)
        names = each.names(tested[list(joint.left_out)])
        sentences.append(wording_joint.left_out_warning(names, plan.min_size))
    if estimates.spare is not None:
        least = min(plan.min_size, HANDFUL)
        tests, equal = int(each.tested.sum()), bool(each.unvaried.any())
        sentences.append(wording_joint.spare_warning(estimates.spare, least, tests, equal=equal))
    equality = plan.tolerance is None and (np.isnan(estimates.null) | (estimates.null == plan.link.equal)).all()
    if equality and shown.verdict is Verdict.VIOLATION and not _large(each, plan).any():
        sentences.append(wording.LARGE_SAMPLE)
    if joint.status is not Status.OK:
        sentences.append(wording_joint.JOINT_STATUSES.get(joint.status, wording_joint.JOINT_APPROXIMATE))
    return Decisions(adjusted, shown.verdicts, shown.verdict, (), _statuses(status), tuple(sentences))


def _large(estimates: Estimates, plan: Plan) -> BoolArray:
    """Differences of shares that cannot be ones that nobody would call a difference: at least a point."""
    low, high = (plan.link.delta(ends) for ends in (estimates.low, estimates.high))
    large: BoolArray = (np.sign(low) == np.sign(high)) & (np.minimum(np.abs(low), np.abs(high)) >= _POINT)
    return large if all(one.measure.binary for one in plan.each) else np.zeros_like(large)


def _direction(estimates: Estimates, plan: Plan, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Whether a flagged group is better off or worse than what was tested, by default its reference."""
    assert plan.hypothesis is not None
    better = {one.measure.name: 1.0 if one.better == "higher" else -1.0 for one in plan.each}
    away = plan.hypothesis.side_of(plan.link.delta(estimates.disparity), plan.link)
    signs = np.array([better[m] for m in estimates.metrics]) * away
    words = np.where(signs > 0, wording.FAVOURED, wording.DISFAVOURED)
    return tuple(
        str(word) if verdict is Verdict.VIOLATION else "" for word, verdict in zip(words, verdicts, strict=True)
    )


def _adjusted(pvalue: FloatArray, estimates: Estimates, plan: Plan) -> FloatArray:
    """P-values adjusted over all tested groups, or level by level down the tree of intersections.

    Max-t is within each metric, and Bonferroni's over them.
    """
    if plan.adjust == "max-t":
        number = len(estimates.drawn)
        parts, same = np.split(pvalue, number), np.split(estimates.hypothesis, number)
        each = [number * max_t(p, drawn, s) for p, drawn, s in zip(parts, estimates.drawn, same, strict=True)]
        return np.minimum(np.concatenate(each), 1.0)
    if plan.adjust == "bh-siblings":
        named = zip(estimates.groups, estimates.metrics, strict=True)
        return siblings(pvalue, [(("metric", name), *group.items) for group, name in named])
    if plan.adjust != "bh-tree":
        return adjust(pvalue, plan.adjust, estimates.hypothesis)
    return intersections(pvalue, estimates.items, plan.alpha).adjusted


def _dependence(adjusted: FloatArray, estimates: Estimates, plan: Plan) -> list[str]:
    """What the dependence of the tests does to the false flagging rate: measured, and told only if it matters."""
    if len(estimates.drawn) != 1:
        return [wording.dependence_warning()]
    drawn = estimates.drawn[0][:, estimates.tested]
    rate = false_discoveries(drawn, plan.alpha, rejected(adjusted, plan.alpha)[estimates.tested])
    error = float(np.sqrt(plan.alpha * (1.0 - plan.alpha) / len(drawn)))
    return [wording.measured_dependence(rate, plan.alpha)] if rate > plan.alpha + 3.0 * error else []


def _contrast(adjusted: FloatArray, estimates: Estimates, plan: Plan) -> str:
    """What the other treatment of the reference's error would have decided."""
    if estimates.contrast is None:
        return ""
    other = rejected(_adjusted(estimates.contrast, estimates, plan), plan.alpha)
    differ = estimates.names(other != rejected(adjusted, plan.alpha))
    if plan.reference.joint:
        return wording.plugin_contrast(differ)
    return wording.joint_contrast(differ, plan.correction is not None)


def _withheld(estimates: Estimates, plan: Plan) -> BoolArray:
    """Groups on which no verdict is given: too few rows for so skewed a metric, and no overwhelming evidence."""
    tests = 1 if plan.adjust == "none" else max(np.unique(estimates.hypothesis[estimates.tested]).size, 1)
    return estimates.skewed & ~(estimates.pvalue <= OVERWHELMING * plan.alpha / tests**ROOT)


def _statuses(status: ObjectArray) -> tuple[Status, ...]:
    return tuple(Status(one) for one in status)  # numpy makes plain strings of an enum's members


def _mark_intervals(status: ObjectArray, estimates: Estimates, *, one_sided: bool = False) -> None:
    """Mark the tested groups whose interval has no end where it should, or was not found."""
    low, high, tested = estimates.low, estimates.high, estimates.tested
    fine = tested & (status == Status.OK)
    if not one_sided:
        # A constant 0/1 group too: that it is constant has its own warning.
        endless = np.isinf(low) | np.isinf(high)  # a ratio's lower end is never below 0
        status[(fine | (tested & (status == Status.CONSTANT))) & endless] = Status.UNBOUNDED
    status[fine & (np.isnan(low) | np.isnan(high))] = Status.NOT_CONVERGED


def _warnings(estimates: Estimates, plan: Plan, status: ObjectArray) -> list[str]:
    """Groups that are not plainly fine, by kind, and a reference whose error is left out."""
    sentences = []
    if too_small := estimates.names(status == Status.TOO_SMALL):
        sentences.append(wording.small_warning(too_small, plan.min_size))
    for binary in (True, False):
        constant = np.flatnonzero((estimates.status == Status.CONSTANT) & (estimates.binary == binary))
        if constant.size:
            sentences.append(wording.constant_warning(estimates.names(constant), binary))
    known = estimates.status != Status.TOO_SMALL
    if plan.measure.name == "tpr" and known.any() and (estimates.estimate[known] == 1).all():
        sentences.append(wording.ALWAYS_SELECTED)
    for kind, sentence in wording.CONCERNS.items():
        if names := estimates.names(status == kind):
            undefined = kind is Status.UNSUPPORTED and not plan.given
            sentences.append(phrases.about(wording.UNDEFINED if undefined else sentence, names))
    if not plan.reference.joint and plan.reference.to is not To.NUMBER:
        sentences.append(wording.PLUGIN_WARNING)
    return sentences
