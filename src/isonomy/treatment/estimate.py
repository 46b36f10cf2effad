"""Moments to estimates: predicted and observed effect, the error, the error of the rest, and a status a group."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.treatment.collapse import Pieces, pieces, slopes
from isonomy.treatment.moments import CONTROL, TREATED, Arms, Moments
from isonomy.treatment.plan import Plan
from isonomy.treatment.ratio import Ratio, of_others, plain, ratio, standardised_rest
from isonomy.treatment.resample import draw_moments


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Effects that the caller brought, one a group, with their standard errors; NaN where none was brought."""

    effect: FloatArray
    se: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Values only: predicted and observed effect of each group and of its rest."""

    predicted: FloatArray
    observed: FloatArray
    rest_predicted: FloatArray
    rest_observed: FloatArray

    @property
    def error(self) -> FloatArray:
        """Predicted minus observed."""
        return self.predicted - self.observed

    @property
    def rest_error(self) -> FloatArray:
        """Predicted minus observed, of the rest."""
        return self.rest_predicted - self.rest_observed


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Effects with the law of the error of each group and of its rest."""

    effects: Effects
    error: Ratio
    rest: Ratio
    status: tuple[Status, ...]
    in_rest: BoolArray  # groups that take part in the rest of others

    @property
    def usable(self) -> BoolArray:
        """Groups that are answered."""
        return np.array([s is Status.OK for s in self.status])


def estimate(moments: Moments, plan: Plan, known: Known | None = None) -> Estimates:
    """Everything from one sample: the error is a single ratio, its top and bottom correlated."""
    made = _pieces(moments, plan, known)
    error = ratio(made.predicted - made.observed, made.bottom, moments, plan.lost)
    if known is not None:
        error = replace(error, tt=error.tt + (made.bottom.value * known.se) ** 2, df=np.full(error.df.shape, np.inf))
    status = statuses(moments, plan, error, known)
    in_rest = _in_rest(status, error)
    if plan.rest == "pooled":
        others = _only(moments, in_rest).others()
        pooled = _pieces(others, plan, None)
        rest = ratio(pooled.predicted - pooled.observed, pooled.bottom, others, plan.lost)
    else:
        rest = standardised_rest(error, moments.n.sum(-1), in_rest)
    return Estimates(values(moments, plan, in_rest, known), error, rest, status, in_rest)


def estimate_split(prediction: Moments, estimation: Moments, plan: Plan) -> Estimates:
    """Predicted effects from one half of the rows, observed ones from the other: independent by construction."""
    ahead, behind = _pieces(prediction, plan, None), _pieces(estimation, plan, None)
    predicted = ratio(ahead.predicted, ahead.bottom, prediction, plan.lost)
    observed = ratio(behind.observed, behind.bottom, estimation, plan.lost)
    error = predicted.minus(observed)
    status = tuple(
        first if first is not Status.OK else second
        for first, second in zip(
            statuses(prediction, plan, predicted, None), statuses(estimation, plan, observed, None), strict=True
        )
    )
    in_rest = _in_rest(status, predicted) & _in_rest(status, observed)
    if plan.rest == "pooled":
        rests = [_only(m, in_rest).others() for m in (prediction, estimation)]
        one, two = (_pieces(m, plan, None) for m in rests)
        rest = ratio(one.predicted, one.bottom, rests[0], plan.lost).minus(
            ratio(two.observed, two.bottom, rests[1], plan.lost)
        )
    else:
        rest = standardised_rest(predicted, prediction.n.sum(-1), in_rest).minus(
            standardised_rest(observed, estimation.n.sum(-1), in_rest)
        )
    effects = joined(values(prediction, plan, in_rest), values(estimation, plan, in_rest))
    return Estimates(effects, error, rest, status, in_rest)


def joined(prediction: Effects, estimation: Effects) -> Effects:
    """Predicted effects of the one, observed effects of the other."""
    return Effects(prediction.predicted, estimation.observed, prediction.rest_predicted, estimation.rest_observed)


def values(
    moments: Moments, plan: Plan, in_rest: BoolArray, known: Known | None = None, fitted: Moments | None = None
) -> Effects:
    """Values only; ``moments`` may have further leading axes (resamples).

    ``fitted``: the moments that slopes of an adjustment are taken from, where ``moments`` has no covariances.
    """
    made = _pieces(moments, plan, known, fitted, gradients=False)
    there = (moments.n > 0).all(-1) if known is None else moments.n[..., CONTROL] > 0
    if plan.rest == "pooled":
        fit = None if fitted is None else _only(fitted, in_rest).others()
        rest = _pieces(_only(moments, in_rest).others(), plan, None, fit, gradients=False)
        predicted, observed, bottom = rest.predicted.value, rest.observed.value, rest.bottom.value
    else:
        size = moments.n.sum(-1)
        predicted, observed, bottom = (
            of_others(size * top.value, in_rest & there) for top in (made.predicted, made.observed, made.bottom)
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        own = [np.where(there, top.value / made.bottom.value, np.nan) for top in (made.predicted, made.observed)]
        return Effects(own[0], own[1], predicted / bottom, observed / bottom)


def from_resamples(estimates: Estimates, resampled: Effects) -> Estimates:
    """The same estimates, their variances taken from resamples."""
    error = _with_variance(estimates.error, resampled.error, estimates.effects.error)
    rest = _with_variance(estimates.rest, resampled.rest_error, estimates.effects.rest_error)
    return replace(estimates, error=error, rest=rest)


def _with_variance(law: Ratio, draws: FloatArray, value: FloatArray) -> Ratio:
    variance, _ = draw_moments(draws)
    return plain(value, np.where(np.isfinite(law.tt), variance, np.nan), law.df)


def _pieces(
    moments: Moments, plan: Plan, known: Known | None, fitted: Moments | None = None, *, gradients: bool = True
) -> Pieces:
    adjust = slopes(moments if fitted is None else fitted, plan.estimator, plan.covariates)
    with np.errstate(divide="ignore", invalid="ignore"):
        arms = Arms(moments, adjust, gradients)
        return pieces(arms, plan.measure, plan.collapse, None if known is None else known.effect)


def _only(moments: Moments, in_rest: BoolArray) -> Moments:
    """Groups that cannot be used take no part in a pooled rest."""
    return replace(moments, n=np.where(in_rest[..., None], moments.n, 0.0))


def statuses(moments: Moments, plan: Plan, law: Ratio, known: Known | None) -> tuple[Status, ...]:
    """Why a group cannot be answered, or `Status.OK`."""
    n = moments.n
    with np.errstate(invalid="ignore"):
        fewest = n.min(-1) if known is None else n[..., CONTROL]
        conditions = [
            (n.sum(-1) == 0, Status.EMPTY),
            (np.zeros(len(n), bool) if known is None else ~np.isfinite(known.effect + known.se), Status.UNSUPPORTED),
            (n[..., CONTROL] == 0, Status.NO_CONTROL),
            ((n[..., TREATED] == 0) & (known is None), Status.NO_TREATED),
            ((law.bottom <= 0) & (plan.measure == "relative"), Status.ZERO_BASELINE),
            (fewest <= 1 + plan.lost, Status.TOO_SMALL),
            (law.variance == 0, Status.CONSTANT),
            (~np.isfinite(law.value + law.variance), Status.FAILED),
        ]
    found = np.full(len(n), Status.OK, dtype=object)
    for condition, status in reversed(conditions):
        found[condition] = status
    return tuple(Status(str(s)) for s in found)  # numpy keeps enum members as plain text


def _in_rest(status: tuple[Status, ...], law: Ratio) -> BoolArray:
    """A group without control outcomes still belongs to the rest of the others; one without an arm cannot."""
    allowed = np.array([s in (Status.OK, Status.ZERO_BASELINE, Status.CONSTANT) for s in status])
    return allowed & np.isfinite(law.top + law.tt + law.bottom)
