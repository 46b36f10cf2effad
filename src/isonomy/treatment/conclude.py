"""Estimates to tests, intervals, adjustment, verdicts and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.frames import Group
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.results import Verdict
from isonomy.treatment import wording
from isonomy.treatment.estimate import Estimates
from isonomy.treatment.moments import Moments
from isonomy.treatment.plan import Plan
from isonomy.treatment.ratio import Gap, t_critical, t_tail
from isonomy.treatment.tally import Cells

FEW_EVENTS = 10


def conclude(
    parts: tuple[tuple[Cells, Moments, Estimates], ...],
    plan: Plan,
    *,
    adjust: str,
    tolerance: float | None,
    alpha: float,
    power: float,
) -> dict[str, Any]:
    """Tests, intervals, adjustment and verdicts over all groups of all partitions."""
    columns: dict[str, list[FloatArray]] = {}
    groups: list[Group] = []
    status: list[Status] = []
    for cells, moments, estimates in parts:
        keep = len(cells.groups)
        for name, array in numbers(moments, estimates, tolerance or 0.0, alpha, power).items():
            columns.setdefault(name, []).append(array[:keep])
        columns.setdefault("events", []).append(cells.events[:keep])
        groups += cells.groups
        status += estimates.status[:keep]
    made = {name: np.concatenate(parts) for name, parts in columns.items()}
    answered = np.array([s is Status.OK for s in status])
    for name in made:
        if name not in ("n", "treated", "events", "predicted", "observed"):
            made[name] = np.where(answered, made[name], np.nan)
    events = made.pop("events")
    made["adjusted_pvalue"] = adjust_pvalues(made["bias_pvalue"], adjust)
    made["error_adjusted_pvalue"] = adjust_pvalues(made["error_pvalue"], adjust)
    within = adjust_pvalues(made.pop("within_pvalue"), adjust)
    verdicts = tuple(
        Verdict.VIOLATION
        if p <= alpha
        else Verdict.WITHIN_TOLERANCE
        if tolerance is not None and q <= alpha
        else Verdict.INCONCLUSIVE
        for p, q in zip(made["adjusted_pvalue"], within, strict=True)
    )
    unbounded = answered & ~(np.isfinite(made["error_low"]) & np.isfinite(made["error_high"]))
    final = tuple(Status.UNBOUNDED if open_ended else s for s, open_ended in zip(status, unbounded, strict=True))
    warnings = _warnings(groups, final, events, made, plan, answered)
    return {
        **made,
        "groups": tuple(groups),
        "status": final,
        "verdicts": verdicts,
        "verdict": _overall(verdicts),
        "warnings": warnings,
    }


def numbers(
    moments: Moments, estimates: Estimates, tolerance: float, alpha: float, power: float
) -> dict[str, FloatArray]:
    """Numbers of one partition, one entry a group."""
    error, gap = estimates.error, Gap(estimates.error, estimates.rest)
    error_low, error_high = error.limits(t_critical(alpha / 2, error.df))
    critical = t_critical(alpha / 2, gap.df)
    bias_low, bias_high = gap.limits(critical)
    above, below = gap.statistic(tolerance), gap.statistic(-tolerance)
    positive = gap.value >= 0
    near, far = np.where(positive, above, -below), np.where(positive, below, -above)
    return {
        "n": moments.n.sum(-1),
        "treated": moments.n[..., 1],
        "predicted": estimates.effects.predicted,
        "observed": estimates.effects.observed,
        "error": error.value,
        "error_se": error.se,
        "error_low": error_low,
        "error_high": error_high,
        "error_pvalue": np.minimum(2 * t_tail(np.abs(error.statistic()), error.df), 1.0),
        "bias": gap.value,
        "bias_se": gap.se,
        "bias_low": bias_low,
        "bias_high": bias_high,
        # P(|estimate| as large) at the edge of the tolerance; twice the tail when there is none.
        "bias_pvalue": np.minimum(t_tail(near, gap.df) + t_tail(far, gap.df), 1.0),
        "within_pvalue": np.maximum(t_tail(-above, gap.df), t_tail(below, gap.df)),
        "statistic": gap.statistic(),
        "critical_bias": critical * gap.se,
        "detectable_bias": (t_critical(alpha / 2, np.array(np.inf)) + t_critical(1 - power, np.array(np.inf))) * gap.se,
    }


def _overall(verdicts: tuple[Verdict, ...]) -> Verdict:
    if Verdict.VIOLATION in verdicts:
        return Verdict.VIOLATION
    if verdicts and all(v is Verdict.WITHIN_TOLERANCE for v in verdicts):
        return Verdict.WITHIN_TOLERANCE
    return Verdict.INCONCLUSIVE


def _warnings(
    groups: list[Group],
    status: tuple[Status, ...],
    events: FloatArray,
    made: dict[str, FloatArray],
    plan: Plan,
    answered: Any,
) -> tuple[str, ...]:
    labels = np.array([group.label for group in groups], dtype=object)
    kinds = [kind for kind in dict.fromkeys(status) if kind not in (Status.OK, Status.UNBOUNDED)]
    said = [wording.unanswered([*labels[[s is kind for s in status]]], kind.value) for kind in kinds]
    open_ended = np.array([s is Status.UNBOUNDED for s in status])
    if open_ended.any():
        said.append(wording.unbounded([*labels[open_ended]]))
    alone = answered & ~np.isfinite(made["bias"])
    if alone.any():
        said.append(wording.no_rest([*labels[alone]]))
    few = answered & (events < FEW_EVENTS)
    if few.any() and plan.treatment is not None:
        said.append(wording.few_events([*labels[few]], FEW_EVENTS))
    predicted, observed = made["predicted"][answered], made["observed"][answered]
    if plan.measure == "relative" and predicted.size and np.all(np.abs(predicted) < 0.5) and np.all(observed > 0.5):
        said.append(wording.like_differences(float(predicted.mean()), float(observed.mean())))
    if plan.rest == "pooled":
        said.append(wording.POOLED_REST)
    if plan.estimator == "aipw":
        said.append(wording.SHARED_NUISANCE)
    if plan.measure == "relative":
        spoken = {"average": wording.AVERAGE, "positives": wording.POSITIVES, "positives_inverse": wording.INVERSE}
        said += [spoken[plan.collapse]] if plan.collapse in spoken else []
    return tuple(said)
