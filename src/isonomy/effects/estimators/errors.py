"""Errors of groups: ratios of means with their laws, the rest of each group, the bias, and the law of a design.

An error is B = (M - m1) / m0, so B = b holds exactly when M - m1 - b m0 = 0: a linear contrast of means, tested with
Welch's degrees of freedom. The interval contains the b that are not rejected (`Fieller`), so testing an end of the
interval gives p = alpha. A difference is a ratio whose bottom is 1, and all formulas then reduce to estimate +- t se.

Known propensities and strata of the randomization are weights: a treated row stands for 1 / p people of its group, a
control row for 1 / (1 - p). Means are then weighted by mass (Hajek), and every estimate is a smooth function of them.
Its variance is the sum over clusters of squared sums of influences, as in `isonomy.inference.designs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from isonomy.effects.estimators.collapse import Formula, gradients, pieces
from isonomy.effects.estimators.moments import CONTROL, TREATED, ArmMoments, ExperimentRows, draw_moments
from isonomy.inference.designs import FEWEST, Influence, Law, Spread, spread
from isonomy.inference.effect import Effect, Fieller, Limits
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray
from isonomy.numerics.roots import bisection
from isonomy.numerics.status import Status

# Below this effective number of clusters in an arm its variance is too uncertain, even with its degrees of freedom. By
# simulation: clusters that are treated as a whole, 40 to 100 of them, with correlations of 0.1 and 0.2.
FEWEST_IN_ARM = 5.0


def fieller_ratio(values: Limits, gradients: Limits, moments: ArmMoments, lost: int = 0) -> Fieller:
    """The ratio of two smooth functions of arm means. ``lost``: coefficients estimated in each arm."""
    (top, bottom), (up, down), cov = values, gradients, moments.cov
    assert cov is not None
    used = ((up != 0) | (down != 0)).any(-1)
    free = np.where(used, moments.n - 1 - lost, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(used, (moments.n - 1) / free / moments.n, 0.0)

        def product(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.einsum("...i,...ij,...j->...", left, cov, right) * scale

        contrast = up - (top / bottom)[..., None, None] * down
        per_arm = np.maximum(product(contrast, contrast), 0.0)
        df = per_arm.sum(-1) ** 2 / (per_arm**2 / free).sum(-1)
        # No variance at all: any law will do, and the normal law has no further parameter.
        df = np.where(per_arm.sum(-1) > 0, df, np.inf)
        tt, tb, bb = (product(*pair).sum(-1) for pair in ((up, up), (up, down), (down, down)))
    bad = (free < 1).any(-1)
    tt, df = np.where(bad, np.nan, np.maximum(tt, 0.0)), np.where(bad, np.nan, df)
    return Fieller(top, bottom, tt, tb, np.maximum(bb, 0.0), df)


def plain_ratio(value: FloatArray, variance: FloatArray, df: FloatArray | float = np.inf) -> Fieller:
    """An estimate with a variance, as the ratio whose bottom is one."""
    value = np.asarray(value, dtype=float)
    zero = np.zeros(value.shape)
    return Fieller(value, np.ones(value.shape), np.asarray(variance, dtype=float), zero, zero, zero + df)


def select(ratios: Fieller, groups: AnyArray | slice) -> Fieller:
    return Fieller(*(np.asarray(getattr(ratios, part.name))[..., groups] for part in fields(ratios)))


def under(ratios: Fieller, law: Law) -> Fieller:
    """The same ratios, their covariance multiplied by a design effect, with the design's degrees of freedom."""
    effect = law.effect
    return replace(ratios, tt=ratios.tt * effect, tb=ratios.tb * effect, bb=ratios.bb * effect, df=law.df)


def total_of_others(values: FloatArray, usable: BoolArray) -> FloatArray:
    values = np.where(usable, values, 0.0)
    return values.sum(-1, keepdims=True) - values


def standardized_rest(groups: Fieller, size: FloatArray, usable: BoolArray) -> Fieller:
    """All other groups as one, each with its share of their rows: sum share top / sum share bottom.

    Pooling the rows instead is confounded when treated shares differ between groups. Shares are estimated too, and
    their multinomial variance is counted. Groups that are not usable are left out of every rest.
    """
    others = partial(total_of_others, usable=usable)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = others(size)
        total = np.where(total > 0, total, np.nan)
        mean = {name: others(size * getattr(groups, name)) / total for name in ("top", "bottom")}

        def covariance(within: FloatArray, left: str, right: str) -> FloatArray:
            shares = others(size * getattr(groups, left) * getattr(groups, right)) / total - mean[left] * mean[right]
            return others(size**2 * within) / total**2 + shares / total

        tt, tb = covariance(groups.tt, "top", "top"), covariance(groups.tb, "top", "bottom")
        bb = covariance(groups.bb, "bottom", "bottom")
        # Satterthwaite over groups; evaluated at one common value, since df only matters where rows are few.
        common = np.where(usable, size * groups.top, 0).sum(-1) / np.where(usable, size * groups.bottom, 0).sum(-1)
        within = size**2 * groups.contrast_variance(common[..., None])
        df = others(within) ** 2 / others(within**2 / groups.df)
    df = np.where(np.isfinite(total), np.where(np.isfinite(df), df, np.inf), np.nan)
    return Fieller(mean["top"], mean["bottom"], np.maximum(tt, 0.0), tb, np.maximum(bb, 0.0), df)


def all_groups(groups: Fieller, size: FloatArray, usable: BoolArray) -> Fieller:
    """All usable groups as one, each with its share of rows: the rest of a further group that has no rows."""
    further = Fieller(*(np.append(getattr(groups, part.name), 1.0) for part in fields(groups)))
    return select(standardized_rest(further, np.append(size, 0.0), np.append(usable, False)), slice(-1, None))


def satterthwaite(left: Fieller, right: Fieller) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = left.standard_error**2, right.standard_error**2
        df = (first + second) ** 2 / (first**2 / left.df + second**2 / right.df)
    return np.where(np.isnan(df) & np.isfinite(first + second), np.inf, df)


@dataclass(frozen=True, slots=True, eq=False)
class Gap(Effect):
    """The difference of two independent effects: the same, up to sign, whichever of the two is called the group.

    Limits are built from theirs (Zou and Donner's MOVER), which keeps the skewness of both.
    """

    left: Effect
    right: Effect
    df: FloatArray | float = np.inf

    @property
    def value(self) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return self.left.value - self.right.value

    @property
    def standard_error(self) -> FloatArray:
        return np.hypot(self.left.standard_error, self.right.standard_error)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        left, right = self.left, self.right
        (low_left, high_left), (low_right, high_right) = left.interval(critical), right.interval(critical)
        with np.errstate(invalid="ignore"):
            below = np.hypot(left.value - low_left, high_right - right.value)
            above = np.hypot(high_left - left.value, right.value - low_right)
            return left.value - right.value - below, left.value - right.value + above

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        return np.square(self.root(null))

    def root(self, null: npt.ArrayLike = 0.0) -> FloatArray:
        """The critical value at which a limit reaches ``null``, with the sign of value - null."""
        target, unknown = np.asarray(null, dtype=float), np.isnan(self.standard_error)
        sign = np.sign(self.value - target)

        def short(t: FloatArray) -> BoolArray:
            low, high = self.interval(t**2)
            return np.asarray(np.where(sign > 0, low - target, target - high) > 0)

        low, high, reached = np.zeros(sign.shape), np.ones(sign.shape), unknown | (sign == 0)
        with np.errstate(invalid="ignore"):
            for _ in range(20):  # double until the limit has passed the null: up to a million standard errors
                reached = reached | ~short(high)
                if reached.all():
                    break
                low, high = np.where(reached, low, high), np.where(reached, high, 2 * high)
            high = bisection(short, low, high)
        root = np.where(sign == 0, 0.0, np.copysign(np.where(reached, high, np.inf), sign))
        return np.where(unknown, np.nan, root)


@dataclass(frozen=True, slots=True, eq=False)
class GroupEffects:
    """Values only: predicted and observed effect of each group and of its rest."""

    predicted: FloatArray
    observed: FloatArray
    rest_predicted: FloatArray
    rest_observed: FloatArray

    @property
    def error(self) -> FloatArray:
        return self.predicted - self.observed

    @property
    def rest_error(self) -> FloatArray:
        return self.rest_predicted - self.rest_observed

    def observed_in(self, other: GroupEffects) -> GroupEffects:
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
        return np.array([s is Status.OK for s in self.status])

    def without(self, groups: BoolArray, reason: Status) -> Errors:
        lost = self.usable & groups
        return replace(self, status=tuple(reason if no else old for old, no in zip(self.status, lost, strict=True)))

    def resampled(self, draws: GroupEffects) -> Errors:
        def law(old: Fieller, drawn: FloatArray, value: FloatArray) -> Fieller:
            return plain_ratio(value, np.where(np.isfinite(old.tt), draw_moments(drawn)[0], np.nan), old.df)

        error = law(self.error, draws.error, self.effects.error)
        rest = law(self.rest, draws.rest_error, self.effects.rest_error)
        return replace(self, error=error, rest=rest, gap=Gap(error, rest, satterthwaite(error, rest)))


def predicted_laws(moments: ArmMoments, formula: Formula) -> Fieller:
    values, slopes = pieces(moments, formula), gradients(moments, formula)
    return fieller_ratio((values[0], values[2]), (slopes[0], slopes[2]), moments, formula.lost)


def others_shares(errors: Errors, moments: ArmMoments) -> FloatArray:
    """The weight of each group (columns) in the error of the rest of every group (rows)."""
    weight = np.where(errors.in_rest, moments.n.sum(-1) * errors.error.bottom, 0.0)
    shares = np.tile(weight, (weight.size, 1))
    np.fill_diagonal(shares, 0.0)
    return shares / np.maximum(shares.sum(-1, keepdims=True), 1e-300)


def errors_of(
    moments: ArmMoments, formula: Formula, known: FloatArray | None = None, estimation: ArmMoments | None = None
) -> Errors:
    """Errors and biases. From one sample, the error is a single ratio, its top and bottom correlated.

    ``known``: effects and standard errors (last axis) that the caller gives; NaN for a group without. ``estimation``:
    another half of the rows, from which observed effects are taken: independent by construction.
    """
    samples = (moments,) if estimation is None else (moments, estimation)

    def ratios(parts: Sequence[ArmMoments], known: FloatArray | None = None) -> list[Fieller]:
        laws = []
        for i, part in enumerate(parts):
            terms = pieces(part, formula, known), gradients(part, formula, known)
            value, gradient = ((term[0] - term[1] if estimation is None else term[i], term[2]) for term in terms)
            laws.append(fieller_ratio(value, gradient, part, formula.lost))
        return laws

    def difference(pair: list[Fieller]) -> Fieller:
        if estimation is None:
            return pair[0]
        value = pair[0].value - pair[1].value
        return plain_ratio(value, pair[0].standard_error ** 2 + pair[1].standard_error ** 2, satterthwaite(*pair))

    laws = ratios(samples, known)
    if known is not None:
        variance = laws[0].tt + (laws[0].bottom * known[..., 1]) ** 2
        laws = [replace(laws[0], tt=variance, df=np.full(variance.shape, np.inf))]
    reasons = [statuses(sample, formula, law, known) for sample, law in zip(samples, laws, strict=True)]
    status = tuple(
        first if first is not Status.OK else last for first, last in zip(reasons[0], reasons[-1], strict=True)
    )
    # A group without control outcomes still belongs to the rest of the others; one without an arm cannot.
    in_rest = np.array([s in (Status.OK, Status.ZERO_BASELINE, Status.CONSTANT) for s in status])
    in_rest &= np.isfinite([law.top + law.tt + law.bottom for law in laws]).all(0)
    if formula.rest == "pooled":
        rests = ratios([sample.others(in_rest) for sample in samples])
    else:
        rests = [standardized_rest(law, part.n.sum(-1), in_rest) for law, part in zip(laws, samples, strict=True)]
    effects = effects_of(moments, formula, in_rest, known)
    if estimation is not None:
        effects = effects.observed_in(effects_of(estimation, formula, in_rest))
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
    tops = pieces(moments, formula, known, fitted)
    there = (moments.n > 0).all(-1) if known is None else moments.n[..., CONTROL] > 0
    if formula.rest == "pooled":
        fit = None if fitted is None else fitted.others(in_rest)
        rest = pieces(moments.others(in_rest), formula, None, fit)
    else:
        rest = total_of_others(moments.n.sum(-1) * tops, in_rest & there)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [np.where(there, top / tops[2], np.nan) for top in tops[:2]] + [top / rest[2] for top in rest[:2]]
    return GroupEffects(*(np.where(np.isfinite(ratio), ratio, np.nan) for ratio in ratios))  # a control mean of 0


def statuses(moments: ArmMoments, formula: Formula, law: Fieller, known: FloatArray | None) -> tuple[Status, ...]:
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


def _line_sums(
    lines: ExperimentRows, formula: Formula, moments: ArmMoments
) -> tuple[FloatArray, list[FloatArray], FloatArray]:
    """The bottom of each group's error, and what a unit of mass in each line adds: to its group's top and bottom, and
    to the totals over groups of size times top and bottom.
    """
    ((group, _),), size = lines.groups, moments.n.sum(-1)
    values = np.stack([lines.values(name) for name in moments.columns], -1)
    top, slope = ((term[0] - term[1], term[2]) for term in (pieces(moments, formula), gradients(moments, formula)))
    parts = [_influence(values, lines, moments, gradient) for gradient in slope]
    return top[1], parts, np.stack([size[group] * part + v[group] for part, v in zip(parts, top, strict=True)], -1)


def under_design(errors: Errors, lines: ExperimentRows, formula: Formula, moments: ArmMoments) -> tuple[Errors, Spread]:
    """Errors under the law of the design of ``lines``, and the sums over clusters behind the biases."""
    ((group, groups),), usable, rest = lines.groups, errors.in_rest, errors.rest
    bottom, parts, added = _line_sums(lines, formula, moments)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.nan_to_num((parts[0] - errors.error.value[group] * parts[1]) / bottom[group])
        total = total_of_others(moments.n.sum(-1), usable) * rest.bottom
        loading = np.nan_to_num(np.stack([-1 / total, rest.value / total]))
        base = np.nan_to_num(added * usable[group][:, None])
        shared = np.einsum("li,il->l", base, loading[:, group])
    alone = Influence.from_groups(group, error, groups)
    both = Influence.from_groups(group, error - shared, groups, base, loading, usable[group])
    single = law_by_arm(lines, alone, errors.error.standard_error**2)[0]
    biased, totals, few = law_by_arm(lines, both, errors.gap.standard_error**2)
    designed = replace(
        errors,
        error=under(errors.error, single),
        gap=Gap(under(errors.error, biased), under(errors.rest, biased), biased.df),
        design_effect=biased.effect,
    )
    return designed.without(few, Status.FEW_CLUSTERS), totals


def whole_under_design(errors: Errors, lines: ExperimentRows, formula: Formula, moments: ArmMoments) -> Fieller:
    """All usable groups as one, under the law of the design; ``errors`` are those without the design."""
    ((group, _),), size = lines.groups, moments.n.sum(-1)
    whole = all_groups(errors.error, size, errors.usable)
    with np.errstate(divide="ignore", invalid="ignore"):
        answered = np.nan_to_num(_line_sums(lines, formula, moments)[2] * errors.usable[group][:, None])
        influence = (answered[:, 0] - whole.value * answered[:, 1]) / (whole.bottom * size[errors.usable].sum())
    law = law_by_arm(lines, Influence.from_values(np.nan_to_num(influence)), whole.standard_error**2)[0]
    return under(whole, law)


def law_by_arm(lines: ExperimentRows, influence: Influence, assumed: FloatArray) -> tuple[Law, Spread, BoolArray]:
    """The law of a T that assumes these variances, the sums over clusters, and which contrasts have too few clusters.

    If no cluster has rows of both arms, each arm has a variance with degrees of freedom, and the law those of their sum
    (Welch and Satterthwaite). The number of all clusters would hide that few of them are treated.
    """
    assert lines.design is not None
    totals = spread(lines.design, influence)
    arms = [spread(lines.design, influence.among(lines.arm == arm)) for arm in (CONTROL, TREATED)]
    apart = arms[0].clusters + arms[1].clusters <= totals.clusters
    parts = np.stack([arm.variance for arm in arms])
    with np.errstate(divide="ignore", invalid="ignore"):
        df = parts.sum(0) ** 2 / (parts**2 / np.stack([arm.df for arm in arms])).sum(0)
        law, by_arm = totals.law(assumed), Law(parts.sum(0) / assumed, np.maximum(df, 1e-3))
    chosen = apart & np.isfinite(by_arm.effect + by_arm.df)
    law = Law(np.where(chosen, by_arm.effect, law.effect), np.where(chosen, by_arm.df, law.df))
    few = (totals.effective < FEWEST) | (np.min([arm.effective for arm in arms], axis=0) < FEWEST_IN_ARM)
    return law, totals, few


def _influence(values: FloatArray, lines: ExperimentRows, moments: ArmMoments, gradient: FloatArray) -> FloatArray:
    """The influence of one unit of each line's mass on a smooth function of arm means."""
    ((group, _),) = lines.groups
    arm, stratum = lines.arm, lines.stratum
    n = np.maximum(moments.n, 1e-300)
    if stratum is None or not stratum.any():
        centered = values - moments.mean[group, arm]
        return np.einsum("lk,lk->l", gradient[group, arm], centered) / n[group, arm]
    width = int(stratum.max()) + 1
    cell, cells = group * width + stratum, moments.n.shape[0] * width
    columns = [np.ones(arm.size), *values.T]
    mass, *sums = (np.bincount(cell * 2 + arm, lines.weight * v, 2 * cells).reshape(cells, 2) for v in columns)
    mean = np.stack(sums, -1) / np.maximum(mass, 1e-300)[..., None]
    owner = np.arange(cells) // width
    within = np.einsum("lk,lk->l", gradient[group, arm], values - mean[cell, arm]) / n[group, arm]
    assert lines.chance is not None
    # A row of a stratum moves the stratum's share, and with it the means of both arms. A row has mass 1 / chance.
    between = (np.einsum("cak,cak->ca", gradient[owner], mean - moments.mean[owner]) / n[owner]).sum(-1)
    return np.asarray(within + between[cell] * lines.chance)
