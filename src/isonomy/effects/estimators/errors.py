"""Errors of groups from moments: predicted and observed effects, the laws of errors and biases, and a status."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from isonomy.effects.estimators.collapse import Formula, pieces
from isonomy.effects.estimators.moments import CONTROL, TREATED, ArmMoments, Sums, draw_moments
from isonomy.effects.estimators.ratio import (
    Gap,
    all_groups,
    fieller_ratio,
    plain_ratio,
    satterthwaite,
    standardized_rest,
    total_of_others,
    under,
)
from isonomy.inference.designs import Law
from isonomy.inference.effect import Fieller
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status


@dataclass(frozen=True, slots=True, eq=False)
class GroupEffects:
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

    def observed_in(self, other: GroupEffects) -> GroupEffects:
        """Predicted effects of these rows, observed effects of others."""
        return replace(self, observed=other.observed, rest_observed=other.rest_observed)


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Effects, with the laws of each group's error, of the error of its rest, and of the difference, the bias."""

    effects: GroupEffects
    error: Fieller
    rest: Fieller
    gap: Gap
    status: tuple[Status, ...]
    in_rest: BoolArray  # groups that take part in the rest of others
    design_effect: FloatArray | float = 1.0  # on the variance of the bias

    @property
    def usable(self) -> BoolArray:
        """Groups that are answered."""
        return np.array([s is Status.OK for s in self.status])

    def under(self, error: Law, bias: Law, few: BoolArray) -> Errors:
        """The same errors and biases under the laws of a design; ``few``: groups of too few clusters."""
        gap = Gap(under(self.error, bias), under(self.rest, bias), bias.df)
        designed = replace(self, error=under(self.error, error), gap=gap, design_effect=bias.effect)
        return designed.without(few, Status.FEW_CLUSTERS)

    def without(self, groups: BoolArray, reason: Status) -> Errors:
        """The same, with some groups not answered for this reason."""
        lost = self.usable & groups
        return replace(self, status=tuple(reason if no else old for old, no in zip(self.status, lost, strict=True)))

    def resampled(self, draws: GroupEffects) -> Errors:
        """The same errors, with the variances of resamples."""

        def law(old: Fieller, drawn: FloatArray, value: FloatArray) -> Fieller:
            return plain_ratio(value, np.where(np.isfinite(old.tt), draw_moments(drawn)[0], np.nan), old.df)

        error = law(self.error, draws.error, self.effects.error)
        rest = law(self.rest, draws.rest_error, self.effects.rest_error)
        return replace(self, error=error, rest=rest, gap=Gap(error, rest, satterthwaite(error, rest)))


def errors_of(moments: ArmMoments, formula: Formula, known: FloatArray | None = None) -> Errors:
    """Everything from one sample: the error is a single ratio, its top and bottom correlated.

    ``known``: effects and standard errors (last axis) that the caller gives; NaN for a group without.
    """
    predicted, observed, bottom = pieces(moments, formula, known)
    error = fieller_ratio(predicted - observed, bottom, moments, formula.lost)
    if known is not None:
        variance = error.tt + (bottom.value * known[..., 1]) ** 2
        error = replace(error, tt=variance, df=np.full(variance.shape, np.inf))
    status = statuses(moments, formula, error, known)
    in_rest = _in_rest(status, error)
    if formula.rest == "pooled":
        others = moments.others(in_rest)
        predicted, observed, bottom = pieces(others, formula)
        rest = fieller_ratio(predicted - observed, bottom, others, formula.lost)
    else:
        rest = standardized_rest(error, moments.n.sum(-1), in_rest)
    gap = Gap(error, rest, satterthwaite(error, rest))
    return Errors(effects_of(moments, formula, in_rest, known), error, rest, gap, status, in_rest)


def errors_of_halves(prediction: ArmMoments, estimation: ArmMoments, formula: Formula) -> Errors:
    """Predicted effects from one half of the rows, observed ones from the other: independent by construction."""
    halves = (prediction, estimation)

    def ratios(parts: tuple[ArmMoments, ...]) -> list[Fieller]:
        """The predicted effects of the first part, and the observed effects of the second."""
        both = [(pieces(part, formula), part) for part in parts]
        return [fieller_ratio(both[i][0][i], both[i][0][2], both[i][1], formula.lost) for i in (0, 1)]

    def difference(pair: list[Fieller]) -> Fieller:
        value = pair[0].value - pair[1].value
        return plain_ratio(value, pair[0].standard_error ** 2 + pair[1].standard_error ** 2, satterthwaite(*pair))

    laws = ratios(halves)
    reasons = [statuses(half, formula, law, None) for half, law in zip(halves, laws, strict=True)]
    status = tuple(first if first is not Status.OK else second for first, second in zip(*reasons, strict=True))
    in_rest = _in_rest(status, laws[0]) & _in_rest(status, laws[1])
    if formula.rest == "pooled":
        rests = ratios(tuple(half.others(in_rest) for half in halves))
    else:
        rests = [standardized_rest(law, half.n.sum(-1), in_rest) for law, half in zip(laws, halves, strict=True)]
    effects = effects_of(prediction, formula, in_rest).observed_in(effects_of(estimation, formula, in_rest))
    error, rest = difference(laws), difference(rests)
    return Errors(effects, error, rest, Gap(error, rest, satterthwaite(error, rest)), status, in_rest)


def effects_of(
    moments: ArmMoments,
    formula: Formula,
    in_rest: BoolArray,
    known: FloatArray | None = None,
    fitted: ArmMoments | None = None,
) -> GroupEffects:
    """Values only; ``moments`` may have further leading axes (resamples). ``fitted``: see `pieces`."""
    tops = [part.value for part in pieces(moments, formula, known, fitted)]
    there = (moments.n > 0).all(-1) if known is None else moments.n[..., CONTROL] > 0
    if formula.rest == "pooled":
        fit = None if fitted is None else fitted.others(in_rest)
        rest = [part.value for part in pieces(moments.others(in_rest), formula, None, fit)]
    else:
        rest = [total_of_others(moments.n.sum(-1) * top, in_rest & there) for top in tops]
    with np.errstate(divide="ignore", invalid="ignore"):
        predicted, observed = (np.where(there, top / tops[2], np.nan) for top in tops[:2])
        return GroupEffects(predicted, observed, rest[0] / rest[2], rest[1] / rest[2])


FEW_ROWS = 30  # in an arm: fewer are no clear evidence of what was predicted


def as_differences(errors: Errors, n: FloatArray) -> tuple[float, float, float] | None:
    """Predicted effect, observed difference and observed ratio of all groups, if predicted ratios are differences.

    That is clear only if, taken as ratios, they are off by a factor of two and beyond chance (p <= 1e-6), and ten
    times as far from the observed ratio as from the observed difference. None otherwise. ``n``: rows by group and arm.
    """
    used, effects, size = errors.usable, errors.effects, n.sum(-1)
    arms = n[used].sum(0)
    if arms[arms > 0].min(initial=np.inf) < FEW_ROWS or not used.any():  # given effects have one arm
        return None
    whole = all_groups(errors.error, size, used)
    weight = (size * errors.error.bottom)[used]
    predicted, ratio = (float(weight @ effect[used] / weight.sum()) for effect in (effects.predicted, effects.observed))
    difference = (ratio - 1) * float(whole.bottom[0])
    off = predicted < ratio / 2 or predicted > 2 * ratio
    near = abs(predicted - difference) <= abs(predicted - ratio) / 10
    clear = ratio > 0 and off and float(whole.pvalue()[0]) <= 1e-6 and (near or predicted < 0)
    return (predicted, difference, ratio) if clear else None


def statuses(moments: ArmMoments, formula: Formula, law: Fieller, known: FloatArray | None) -> tuple[Status, ...]:
    """Why a group cannot be answered, or `Status.OK`."""
    n = moments.n
    with np.errstate(invalid="ignore"):
        fewest = n.min(-1) if known is None else n[..., CONTROL]
        conditions = [
            (n.sum(-1) == 0, Status.EMPTY),
            (np.zeros(len(n), bool) if known is None else ~np.isfinite(known.sum(-1)), Status.UNSUPPORTED),
            (n[..., CONTROL] == 0, Status.NO_CONTROL),
            ((n[..., TREATED] == 0) & (known is None), Status.NO_TREATED),
            ((law.bottom <= 0) & (formula.measure == "relative"), Status.ZERO_BASELINE),
            (fewest <= 1 + formula.lost, Status.TOO_SMALL),
            # What rounding leaves of parts that cancel is not variance.
            (law.contrast_variance(law.value) <= 1e-13 * (law.tt + law.value**2 * law.bb), Status.CONSTANT),
            (~np.isfinite(law.value + law.standard_error), Status.FAILED),
            (np.ones(len(n), bool), Status.OK),
        ]
    first = np.argmax([condition for condition, _ in conditions], axis=0)
    return tuple(conditions[i][1] for i in first)


def events_expected(errors: Errors, sums: Sums, formula: Formula) -> FloatArray:
    """How many events the smaller arm of each group may expect if it has the error of its rest.

    For a 0/1 outcome, as in `EventCounts.expected`; for any other, outcomes other than zero.
    """
    counts = sums.counts
    if sums.binary:
        return counts.expected(null_effect(errors), relative=formula.measure == "relative")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums.n[..., 1:].sum((1, 2, 3)) * counts.n.min(-1) / counts.n.sum(-1))


def independent_events(events: FloatArray, errors: Errors, sums: Sums, rows: FloatArray) -> FloatArray:
    """The number of events of independent rows that events of masses are worth. ``rows``: of each group."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return events / np.fmax(errors.design_effect, sums.counts.n.sum(-1) / rows)


def null_effect(errors: Errors) -> FloatArray:
    """The effect of each group if it had the error of its rest; as predicted where it has none."""
    return errors.effects.predicted - np.where(np.isfinite(errors.rest.value), errors.rest.value, 0.0)


def with_rest(events: FloatArray, errors: Errors) -> FloatArray:
    """The events that the bias of each group rests on: a rest of few events is no better known."""
    others = total_of_others(np.nan_to_num(events, posinf=1e300), errors.in_rest)
    return np.minimum(events, np.where(others > 0, others, np.inf))


def _in_rest(status: tuple[Status, ...], law: Fieller) -> BoolArray:
    """A group without control outcomes still belongs to the rest of the others; one without an arm cannot."""
    allowed = np.array([s in (Status.OK, Status.ZERO_BASELINE, Status.CONSTANT) for s in status])
    return allowed & np.isfinite(law.top + law.tt + law.bottom)


def arms_differ(n: FloatArray) -> bool:
    """Whether treated shares (rows by group and arm) differ by more than 5 points, and by more than chance at 0.01."""
    there = n[n.sum(-1) > 0]
    if len(there) < 2:
        return False
    share, whole = there[:, 1] / there.sum(-1), float(there[:, 1].sum() / there.sum())
    chance = max(whole * (1 - whole), 1e-300)
    square = float((there.sum(-1) * (share - whole) ** 2).sum()) / chance
    return bool(np.ptp(share) > 0.05) and float(special.chdtrc(len(there) - 1, square)) < 0.01
