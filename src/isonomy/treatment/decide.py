"""Estimates to adjusted p-values, verdicts, statuses and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.frames import Group
from isonomy.inference import Verdict, conclude
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.results import phrases
from isonomy.treatment import wording
from isonomy.treatment.estimate import CorrectionsEstimates, Estimates
from isonomy.treatment.plan import CorrectionsPlan, Plan

FEW_EVENTS = 10


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Decisions:
    """What was shown about each group's bias, and about all of them."""

    adjusted_pvalue: FloatArray
    error_adjusted_pvalue: FloatArray
    verdicts: tuple[Verdict, ...]
    verdict: Verdict
    status: tuple[Status, ...]
    warnings: tuple[str, ...]


def decide(estimates: Estimates, plan: Plan) -> Decisions:
    """Adjust over all groups of the call, and conclude; verdicts are about the bias."""
    within = None if plan.tolerance is None else estimates.within_pvalue
    decisions = conclude(estimates.bias_pvalue, alpha=plan.alpha, adjust=plan.adjust, within_pvalue=within)
    bounded = np.isfinite(estimates.error_low) & np.isfinite(estimates.error_high)
    open_ended = _are_answered(estimates) & ~bounded
    status = tuple(
        Status.UNBOUNDED if unbounded else old for old, unbounded in zip(estimates.status, open_ended, strict=True)
    )
    return Decisions(
        adjusted_pvalue=decisions.adjusted,
        error_adjusted_pvalue=adjust(estimates.error_pvalue, plan.adjust),
        verdicts=decisions.verdicts,
        verdict=decisions.overall,
        status=status,
        warnings=(*_group_warnings(estimates, plan, open_ended), *_plan_warnings(estimates, plan)),
    )


def _group_warnings(estimates: Estimates, plan: Plan, open_ended: BoolArray) -> list[str]:
    answered = _are_answered(estimates)
    alone = answered & ~np.isfinite(estimates.bias)
    few = answered & (estimates.events < FEW_EVENTS) & (plan.treatment is not None)
    warnings = [wording.lost_replicates(estimates.lost)] if estimates.lost > 0 else []
    warnings += _unanswered(estimates.groups, estimates.status)
    for sentence, concerned in ((wording.UNBOUNDED, open_ended), (wording.NO_REST, alone)):
        if concerned.any():
            warnings.append(phrases.about(sentence, _labels(estimates.groups, concerned)))
    if few.any():
        rows = "rows with an outcome above zero in an arm of"
        warnings.append(phrases.few(FEW_EVENTS, rows, _labels(estimates.groups, few)))
    return warnings


def _plan_warnings(estimates: Estimates, plan: Plan) -> list[str]:
    formula, warnings = plan.formula, []
    answered = _are_answered(estimates)
    predicted, observed = estimates.predicted[answered], estimates.observed[answered]
    relative = formula.measure == "relative"
    if relative and predicted.size and np.all(np.abs(predicted) < 0.5) and np.all(observed > 0.5):
        warnings.append(wording.like_differences(float(predicted.mean()), float(observed.mean())))
    if formula.rest == "pooled":
        warnings.append(wording.POOLED_REST)
    if formula.estimator == "aipw":
        warnings.append(wording.SHARED_NUISANCE)
    if relative and formula.collapse in wording.COLLAPSES:
        warnings.append(wording.COLLAPSES[formula.collapse])
    return warnings


def _are_answered(estimates: Estimates) -> BoolArray:
    return np.array([status is Status.OK for status in estimates.status])


def _unanswered(groups: Sequence[Group], status: Sequence[Status]) -> list[str]:
    """One warning per reason."""
    kinds = [kind for kind in dict.fromkeys(status) if kind is not Status.OK]
    return [wording.unanswered(_labels(groups, [one is kind for one in status]), kind) for kind in kinds]


def _labels(groups: Sequence[Group], chosen: Sequence[bool] | BoolArray) -> list[str]:
    return [group.label for group, is_one in zip(groups, chosen, strict=True) if is_one]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsDecisions:
    """Whether any bias was shown before correction."""

    verdict: Verdict
    warnings: tuple[str, ...]


def decide_corrections(estimates: CorrectionsEstimates, plan: CorrectionsPlan) -> CorrectionsDecisions:
    """Adjust the groups' p-values of bias without correction for one another, and conclude."""
    decisions = conclude(estimates.combined_pvalue, alpha=plan.errors.alpha, adjust="holm")
    return CorrectionsDecisions(
        verdict=decisions.overall, warnings=tuple(_unanswered(estimates.groups, estimates.status))
    )
