"""Estimates to adjusted p-values, verdicts, statuses and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.frames import Group
from isonomy.inference import Verdict, conclude, rejected
from isonomy.inference.multiplicity import adjust
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.results import phrases
from isonomy.treatment import wording
from isonomy.treatment.effects.collapse import Measure
from isonomy.treatment.effects.shrinkage import name_of
from isonomy.treatment.estimate import Estimates
from isonomy.treatment.estimate_corrections import CorrectionsEstimates
from isonomy.treatment.estimate_price import PriceEstimates
from isonomy.treatment.plan import CorrectionsPlan, Plan, PricePlan

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
    few = _are_answered(estimates) & (estimates.events < estimates.least_events)
    pvalue, within_pvalue, error_pvalue = (
        np.where(few, np.nan, p) for p in (estimates.bias_pvalue, estimates.within_pvalue, estimates.error_pvalue)
    )
    within = None if plan.tolerance is None else within_pvalue
    decisions = conclude(pvalue, alpha=plan.alpha, adjust=plan.adjust, same=estimates.hypothesis, within_pvalue=within)
    bounded = np.isfinite(estimates.error_low) & np.isfinite(estimates.error_high)
    open_ended = _are_answered(estimates) & ~bounded
    status = tuple(
        Status.FEW_EVENTS if no_test else Status.UNBOUNDED if unbounded else old
        for old, unbounded, no_test in zip(estimates.status, open_ended, few, strict=True)
    )
    return Decisions(
        adjusted_pvalue=decisions.adjusted,
        error_adjusted_pvalue=adjust(error_pvalue, plan.adjust),
        verdicts=decisions.verdicts,
        verdict=decisions.verdict,
        status=status,
        warnings=(*_group_warnings(estimates, plan, open_ended, few), *_plan_warnings(estimates, plan)),
    )


def _group_warnings(estimates: Estimates, plan: Plan, open_ended: BoolArray, untested: BoolArray) -> list[str]:
    answered = _are_answered(estimates)
    alone = answered & ~np.isfinite(estimates.bias)
    few = answered & ~untested & ~estimates.counted & (estimates.events < FEW_EVENTS)
    warnings = [wording.lost_replicates(estimates.lost)] if estimates.lost > 0 else []
    warnings += _unanswered(estimates.groups, estimates.status)
    for sentence, concerned in ((wording.UNBOUNDED, open_ended), (wording.NO_REST, alone)):
        if concerned.any():
            warnings.append(phrases.about(sentence, _labels(estimates.groups, concerned)))
    if untested.any():
        least = estimates.least_events
        law: wording.Floor = "counts" if estimates.of_counts else "normal"
        law = law if estimates.binary else "skewed"
        warnings.append(wording.untested(_labels(estimates.groups, untested), least, law))
    if few.any():
        rows = "rows with an outcome above zero in an arm of"
        warnings.append(phrases.few(FEW_EVENTS, rows, _labels(estimates.groups, few)))
    return warnings


def _plan_warnings(estimates: Estimates, plan: Plan) -> list[str]:
    formula = plan.formula
    warnings = other_measure(
        formula.measure, _are_answered(estimates), estimates.predicted, estimates.observed, binary=estimates.binary
    )
    if formula.rest == "pooled":
        warnings.append(wording.POOLED_REST)
    if formula.estimator == "aipw":
        warnings.append(wording.SHARED_NUISANCE)
    if formula.measure == "relative" and formula.collapse in wording.COLLAPSES:
        warnings.append(wording.COLLAPSES[formula.collapse])
    return warnings


def other_measure(
    measure: Measure, answered: BoolArray, predicted: FloatArray, observed: FloatArray, *, binary: bool
) -> list[str]:
    """A warning where the predicted effects of all answered groups look like those of the other measure."""
    predicted, observed = predicted[answered], observed[answered]
    if not predicted.size:
        return []
    means = float(predicted.mean()), float(observed.mean())
    if measure == "relative":
        return [wording.like_differences(*means)] if np.abs(predicted).max() < 0.5 < observed.min() else []
    return [wording.like_ratios(*means)] if binary and predicted.min() > 0.5 > np.abs(observed).max() else []


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
    """Which corrections were shown to leave less bias. That is no verdict on the model: none is given."""

    verdict: Verdict
    less_pvalue: FloatArray  # adjusted over strategies
    shown: tuple[bool, ...]
    best: str  # the strategy that left least, of those shown to leave less; of all, if none was
    warnings: tuple[str, ...]


def decide_corrections(estimates: CorrectionsEstimates, plan: CorrectionsPlan) -> CorrectionsDecisions:
    """Adjust the strategies' p-values for one another, and conclude."""
    pvalue = adjust(estimates.less_pvalue, "holm")
    shown = rejected(pvalue, plan.errors.alpha)
    left = np.where(shown if shown.any() else True, estimates.bias_left, np.inf)
    return CorrectionsDecisions(
        verdict=Verdict.INCONCLUSIVE,
        less_pvalue=pvalue,
        shown=tuple(bool(one) for one in shown),
        best=name_of(plan.strategies[int(np.argmin(np.where(np.isfinite(left), left, np.inf)))]),
        warnings=(
            *_unanswered(estimates.groups, estimates.status),
            *other_measure(
                plan.errors.formula.measure,
                np.array([status is Status.OK for status in estimates.status]),
                estimates.predicted,
                estimates.observed,
                binary=estimates.binary,
            ),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PriceDecisions:
    """Which changes were shown, adjusted over all of them. A price is no verdict on the model: none is given."""

    verdict: Verdict
    adjusted_pvalue: FloatArray
    shown: tuple[tuple[bool, ...], ...]
    warnings: tuple[str, ...]


def decide_price(estimates: PriceEstimates, plan: PricePlan) -> PriceDecisions:
    """Adjust the p-values of all changes for one another."""
    pvalue = adjust(estimates.pvalue.ravel(), "holm").reshape(estimates.pvalue.shape)
    unknown = plan.errors.formula.measure == "relative" and plan.baseline is None
    return PriceDecisions(
        verdict=Verdict.INCONCLUSIVE,
        adjusted_pvalue=pvalue,
        shown=tuple(tuple(bool(one) for one in row) for row in rejected(pvalue, plan.errors.alpha)),
        warnings=(
            *other_measure(
                plan.errors.formula.measure,
                np.isfinite(estimates.predicted + estimates.observed),
                estimates.predicted,
                estimates.observed,
                binary=estimates.binary,
            ),
            *((wording.NO_LOSS,) if unknown else ()),
            *((wording.SHARES_DIFFER,) if estimates.arms_differ and plan.propensity is None else ()),
            *((wording.FEW_CLUSTERS,) if estimates.few_clusters else ()),
        ),
    )
