"""Errors of groups from moments: predicted and observed effect, the law of the error and of the rest's, a status."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from scipy import special

from isonomy.effects.estimators.collapse import Formula, Pieces, pieces, slopes
from isonomy.effects.estimators.moments import CONTROL, TREATED, ArmMoments, Arms, Sums, draw_moments
from isonomy.effects.estimators.ratio import Gap, Ratio, of_others, plain, ratio, standardized_rest
from isonomy.inference.designs import Law
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_sf


@dataclass(frozen=True, slots=True, eq=False)
class KnownEffects:
    """Effects that the caller gives, one per group, with their standard errors; NaN where none is given."""

    effect: FloatArray
    se: FloatArray

    def drawn(self, resamples: int, rng: np.random.Generator) -> KnownEffects:
        """Effects as other studies of the same precision would have found them; a further first axis."""
        noise = rng.standard_normal((resamples, *self.effect.shape))
        return KnownEffects(self.effect + self.se * noise, np.broadcast_to(self.se, noise.shape))


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
        return GroupEffects(self.predicted, other.observed, self.rest_predicted, other.rest_observed)

    def averaged(self, other: GroupEffects) -> GroupEffects:
        """The means of both."""
        return GroupEffects(*((getattr(self, part.name) + getattr(other, part.name)) / 2 for part in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Effects with the law of the error of each group and of its rest."""

    effects: GroupEffects
    error: Ratio
    rest: Ratio
    status: tuple[Status, ...]
    in_rest: BoolArray  # groups that take part in the rest of others
    designed: Gap | None = None  # the bias under another law than Satterthwaite's
    effect: FloatArray | float = 1.0  # that design's effect on the variance of the bias

    @property
    def gap(self) -> Gap:
        """The bias of each group: its error minus that of its rest."""
        return Gap(self.error, self.rest) if self.designed is None else self.designed

    @property
    def usable(self) -> BoolArray:
        """Groups that are answered."""
        return np.array([s is Status.OK for s in self.status])

    def under(self, error: Law, bias: Law, few: BoolArray) -> Errors:
        """The same errors and biases, held against the laws of a design; ``few``: groups of too few clusters."""
        gap = Gap(self.error.under(bias.effect, bias.df), self.rest.under(bias.effect, bias.df), bias.df)
        own = replace(self, error=self.error.under(error.effect, error.df), designed=gap, effect=bias.effect)
        return own.without(few, Status.FEW_CLUSTERS)

    def without(self, groups: BoolArray, reason: Status) -> Errors:
        """The same, some groups not answered for this reason."""
        lost = self.usable & groups
        return replace(self, status=tuple(reason if no else old for old, no in zip(self.status, lost, strict=True)))

    def resampled(self, draws: GroupEffects) -> Errors:
        """The same errors, their variances taken from resamples."""

        def law(old: Ratio, drawn: FloatArray, value: FloatArray) -> Ratio:
            return plain(value, np.where(np.isfinite(old.tt), draw_moments(drawn)[0], np.nan), old.df)

        error = law(self.error, draws.error, self.effects.error)
        return replace(self, error=error, rest=law(self.rest, draws.rest_error, self.effects.rest_error))

    def with_freedom(self, df: FloatArray) -> Errors:
        """The same errors and biases with other degrees of freedom."""
        error, rest = replace(self.error, df=df), replace(self.rest, df=df)
        return replace(self, error=error, rest=rest, designed=Gap(error, rest, df))

    def lost(self, draws: GroupEffects) -> float:
        """The largest share of resamples that gave an answered group no error."""
        if not self.usable.any():
            return 0.0
        return float((~np.isfinite(draws.error[:, self.usable])).mean(0).max())


def errors_of(moments: ArmMoments, formula: Formula, known: KnownEffects | None = None) -> Errors:
    """Everything from one sample: the error is a single ratio, its top and bottom correlated."""
    own = pieces_of(moments, formula, known)
    error = ratio(own.predicted - own.observed, own.bottom, moments, formula.lost)
    if known is not None:
        error = replace(error, tt=error.tt + (own.bottom.value * known.se) ** 2, df=np.full(error.df.shape, np.inf))
    status = statuses(moments, formula, error, known)
    in_rest = _in_rest(status, error)
    if formula.rest == "pooled":
        others = _only(moments, in_rest).others()
        pooled = pieces_of(others, formula, None)
        rest = ratio(pooled.predicted - pooled.observed, pooled.bottom, others, formula.lost)
    else:
        rest = standardized_rest(error, moments.n.sum(-1), in_rest)
    return Errors(effects_of(moments, formula, in_rest, known), error, rest, status, in_rest)


def errors_of_halves(prediction: ArmMoments, estimation: ArmMoments, formula: Formula) -> Errors:
    """Predicted effects from one half of the rows, observed ones from the other: independent by construction."""
    halves = (prediction, estimation)
    predicted, observed = _predicted_and_observed(formula, prediction, estimation)
    status = tuple(
        first if first is not Status.OK else second
        for first, second in zip(
            *(statuses(half, formula, law, None) for half, law in zip(halves, (predicted, observed), strict=True)),
            strict=True,
        )
    )
    in_rest = _in_rest(status, predicted) & _in_rest(status, observed)
    if formula.rest == "pooled":
        rests = _predicted_and_observed(formula, *(_only(half, in_rest).others() for half in halves))
    else:
        rests = (
            standardized_rest(predicted, prediction.n.sum(-1), in_rest),
            standardized_rest(observed, estimation.n.sum(-1), in_rest),
        )
    effects = effects_of(prediction, formula, in_rest).observed_in(effects_of(estimation, formula, in_rest))
    return Errors(effects, predicted.minus(observed), rests[0].minus(rests[1]), status, in_rest)


def _predicted_and_observed(formula: Formula, prediction: ArmMoments, estimation: ArmMoments) -> tuple[Ratio, Ratio]:
    ahead, behind = pieces_of(prediction, formula, None), pieces_of(estimation, formula, None)
    return (
        ratio(ahead.predicted, ahead.bottom, prediction, formula.lost),
        ratio(behind.observed, behind.bottom, estimation, formula.lost),
    )


def effects_of(
    moments: ArmMoments,
    formula: Formula,
    in_rest: BoolArray,
    known: KnownEffects | None = None,
    fitted: ArmMoments | None = None,
) -> GroupEffects:
    """Values only; ``moments`` may have further leading axes (resamples).

    ``fitted``: the moments that slopes of an adjustment are taken from, where ``moments`` has no covariances.
    """
    own = pieces_of(moments, formula, known, fitted, gradients=False)
    there = (moments.n > 0).all(-1) if known is None else moments.n[..., CONTROL] > 0
    if formula.rest == "pooled":
        fit = None if fitted is None else _only(fitted, in_rest).others()
        rest = pieces_of(_only(moments, in_rest).others(), formula, None, fit, gradients=False)
        predicted, observed, bottom = rest.predicted.value, rest.observed.value, rest.bottom.value
    else:
        size = moments.n.sum(-1)
        predicted, observed, bottom = (
            of_others(size * top.value, in_rest & there) for top in (own.predicted, own.observed, own.bottom)
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        effects = [np.where(there, top.value / own.bottom.value, np.nan) for top in (own.predicted, own.observed)]
        return GroupEffects(effects[0], effects[1], predicted / bottom, observed / bottom)


def pieces_of(
    moments: ArmMoments,
    formula: Formula,
    known: KnownEffects | None = None,
    fitted: ArmMoments | None = None,
    *,
    gradients: bool = True,
) -> Pieces:
    """What the effects of each group are made of, with gradients or without."""
    adjust = slopes(moments if fitted is None else fitted, formula)
    with np.errstate(divide="ignore", invalid="ignore"):
        return pieces(Arms(moments, adjust, gradients), formula, None if known is None else known.effect)


def _only(moments: ArmMoments, in_rest: BoolArray) -> ArmMoments:
    """Groups that cannot be used take no part in a pooled rest."""
    return replace(moments, n=np.where(in_rest[..., None], moments.n, 0.0))


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
    whole = errors.error.together(size, used)
    weight = (size * errors.error.bottom)[used]
    predicted, ratio = (float(weight @ one[used] / weight.sum()) for one in (effects.predicted, effects.observed))
    difference = (ratio - 1) * float(whole.bottom[0])
    apart = abs(predicted - ratio)
    chance = float(2 * t_sf(np.abs(whole.statistic()), whole.df)[0])
    off = predicted < ratio / 2 or predicted > 2 * ratio
    near = abs(predicted - difference) <= apart / 10
    clear = ratio > 0 and off and chance <= 1e-6 and (near or predicted < 0)
    return (predicted, difference, ratio) if clear else None


def statuses(moments: ArmMoments, formula: Formula, law: Ratio, known: KnownEffects | None) -> tuple[Status, ...]:
    """Why a group cannot be answered, or `Status.OK`."""
    n = moments.n
    with np.errstate(invalid="ignore"):
        fewest = n.min(-1) if known is None else n[..., CONTROL]
        conditions = [
            (n.sum(-1) == 0, Status.EMPTY),
            (np.zeros(len(n), bool) if known is None else ~np.isfinite(known.effect + known.se), Status.UNSUPPORTED),
            (n[..., CONTROL] == 0, Status.NO_CONTROL),
            ((n[..., TREATED] == 0) & (known is None), Status.NO_TREATED),
            ((law.bottom <= 0) & (formula.measure == "relative"), Status.ZERO_BASELINE),
            (fewest <= 1 + formula.lost, Status.TOO_SMALL),
            # What rounding leaves of parts that cancel is not variance.
            (law.contrast_variance(law.value) <= 1e-13 * (law.tt + law.value**2 * law.bb), Status.CONSTANT),
            (~np.isfinite(law.value + law.variance), Status.FAILED),
        ]
    first = np.argmax([*(condition for condition, _ in conditions), np.ones(len(n), bool)], axis=0)
    kinds = [*(status for _, status in conditions), Status.OK]
    return tuple(kinds[i] for i in first)


def events_expected(errors: Errors, sums: Sums, formula: Formula) -> FloatArray:
    """How many events the smaller arm of each group may expect where it has the error of its rest.

    Of a 0/1 outcome, as in `Counts.expected`; of any other, outcomes other than zero.
    """
    counts = sums.counts
    if sums.binary:
        return counts.expected(null_effect(errors), relative=formula.measure == "relative")
    with np.errstate(divide="ignore", invalid="ignore"):
        events: FloatArray = sums.nonzero * counts.n.min(-1) / counts.n.sum(-1)
    return events


def worth(events: FloatArray, errors: Errors, sums: Sums, rows: FloatArray) -> FloatArray:
    """Events of masses as so many of independent rows. ``rows``: of each group."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return events / np.fmax(errors.effect, sums.counts.n.sum(-1) / rows)


def null_effect(errors: Errors) -> FloatArray:
    """The effect of each group if it had the error of its rest; as predicted where it has none."""
    return errors.effects.predicted - np.where(np.isfinite(errors.rest.value), errors.rest.value, 0.0)


def with_rest(events: FloatArray, errors: Errors) -> FloatArray:
    """The events that the bias of each group stands on: a rest of few events is no better known."""
    others = of_others(np.nan_to_num(events, posinf=1e300), errors.in_rest)
    return np.minimum(events, np.where(others > 0, others, np.inf))


def constant_arm(sums: Sums) -> BoolArray:
    """Groups with an arm in which outcomes do not vary: it shows no spread to judge by."""
    moments = sums.moments()
    assert moments.cov is not None
    y = moments.columns.index("y")
    return np.asarray((moments.cov[..., y, y] <= 0).any(-1))


def _in_rest(status: tuple[Status, ...], law: Ratio) -> BoolArray:
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
