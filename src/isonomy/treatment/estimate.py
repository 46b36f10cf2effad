"""Errors and biases of all groups with their tests and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.inference.designs import FEWEST, DesignEffect
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_isf, t_sf
from isonomy.results import phrases
from isonomy.treatment.effects.borrow import welch_q
from isonomy.treatment.effects.designs import laws_of
from isonomy.treatment.effects.errors import (
    Effects,
    Errors,
    KnownEffects,
    as_differences,
    constant_arm,
    effects_of,
    errors_of,
    errors_of_halves,
    events_expected,
    null_effect,
    with_rest,
    worth,
)
from isonomy.treatment.effects.events import (
    MANY_EVENTS,
    SKEW_EVENTS,
    Counts,
    Difference,
    Law,
    law_of,
    least_events,
    normal_quantile,
    rest_of,
)
from isonomy.treatment.effects.ratio import Ratio, of_others
from isonomy.treatment.effects.resample import resample_rows, resample_sums
from isonomy.treatment.effects.sums import Sums
from isonomy.treatment.plan import ObservedEffects, Plan
from isonomy.treatment.tally import Tally

BUCKETS = (np.array([0]), np.array([1]))  # rows of predictions, and rows of estimation


@dataclass(frozen=True, eq=False, kw_only=True)
class BiasNumbers:
    """What the result reports as it was estimated: one entry per group of every partition."""

    __slots__ = ()  # its fields have theirs in the estimates and in the result

    n: FloatArray
    treated: FloatArray
    events: FloatArray  # that the smaller arm of each group stands on
    binary: bool  # every outcome is 0 or 1: differences are of shares
    predicted: FloatArray
    observed: FloatArray
    error: FloatArray
    error_se: FloatArray
    error_low: FloatArray
    error_high: FloatArray
    error_pvalue: FloatArray
    rest_error: FloatArray
    bias: FloatArray
    bias_se: FloatArray
    bias_low: FloatArray
    bias_high: FloatArray
    bias_pvalue: FloatArray
    statistic: FloatArray
    critical_bias: FloatArray
    detectable_bias: FloatArray
    families: tuple[str, ...]  # one entry per partition, as in the following: what its groups are made of
    omnibus_statistic: FloatArray  # Cochran's Q over its degrees of freedom
    omnibus_pvalue: FloatArray  # that all errors are equal
    hypotheses: int  # about biases: two groups that are compared with each other have one
    arms_differ: bool  # treated shares do between groups, by more than 5 points and more than chance explains
    least_events: float  # groups that stand on fewer are not tested


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates(BiasNumbers):
    """One entry per group of every partition; NaN where a group cannot be answered."""

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    hypothesis: IntArray  # of each group's bias: equal numbers are the same hypothesis
    counted: BoolArray  # tested by the law of the counts
    of_counts: bool  # whether that law can be used with these options
    within_pvalue: FloatArray  # of a bias at least as large as the tolerance
    lost: float  # largest share of resamples that gave a group no error
    design: DesignEffect | None  # where rows have weights, clusters, propensities or strata


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Errors and biases of all groups, with their tests and intervals."""
    check_measure(tally.sums[0], plan, _known(tally.sums[0], tally.groups[0], plan))
    plain = [_errors_of(sums, groups, plan) for sums, groups in zip(tally.sums, tally.groups, strict=True)]
    parts, lost = _resampled(plain, tally, plan, rng)
    parts, design = under_design(parts, tally, plan)
    kept = [len(groups) for groups in tally.groups]
    status = tuple(s for part, size in zip(parts, kept, strict=True) for s in part.status[:size])
    answered = np.array([s is Status.OK for s in status])
    rows = tally.sizes or tuple(sums.counts.n for sums in tally.sums)
    tests = [_tests(*each, plan) for each in zip(parts, plain, tally.sums, rows, strict=True)]

    def joined(arrays: Iterable[FloatArray]) -> FloatArray:
        return np.concatenate([array[:size] for array, size in zip(arrays, kept, strict=True)])

    def tested(name: str) -> FloatArray:
        return np.where(answered, joined(getattr(one, name) for one in tests), np.nan)

    bias, bias_se = (
        np.where(answered, joined(getattr(part.gap, name) for part in parts), np.nan) for name in ("value", "se")
    )
    df, above, below = tested("bias_df"), tested("above"), tested("below")
    low, high, upward = tested("bias_low"), tested("bias_high"), bias >= 0
    near, far = np.where(upward, above, -below), np.where(upward, below, -above)
    binary = all(sums.binary for sums in tally.sums)
    hypothesis = hypotheses_of(tally, [part.in_rest for part in parts])
    number = np.unique(hypothesis[answered]).size
    least = 0.0
    if plan.test != "welch" and plan.observed_effects is None:
        among = number if plan.adjust != "none" else 1
        least = least_events(among, plan.alpha, binary=binary, counted=plan.of_counts)
    together = zip(parts, tests, kept, strict=True)
    omnibus = np.array([_omnibus(part, test, least, size) for part, test, size in together])
    events = tested("events")
    testable = ~(events < least)
    return Estimates(
        groups=tuple(group for groups in tally.groups for group in groups),
        status=status,
        hypothesis=hypothesis,
        hypotheses=number,
        n=joined(n.sum(-1) for n in rows),
        treated=joined(n[..., 1] for n in rows),
        events=events,
        counted=tested("counted") == 1,
        of_counts=plan.of_counts,
        binary=binary,
        predicted=joined(part.effects.predicted for part in parts),
        observed=joined(part.effects.observed for part in parts),
        error=np.where(answered, joined(part.error.value for part in parts), np.nan),
        error_se=np.where(answered, joined(part.error.se for part in parts), np.nan),
        error_low=tested("error_low"),
        error_high=tested("error_high"),
        error_pvalue=np.minimum(2 * t_sf(np.abs(tested("error_statistic")), tested("error_df")), 1.0),
        rest_error=np.where(answered, joined(part.rest.value for part in parts), np.nan),
        bias=bias,
        bias_se=bias_se,
        bias_low=low,
        bias_high=high,
        # P(|estimate| as large) at the edge of the tolerance; twice the tail when there is none.
        bias_pvalue=np.minimum(t_sf(near, df) + t_sf(far, df), 1.0),
        within_pvalue=np.maximum(t_sf(-above, df), t_sf(below, df)),
        statistic=tested("statistic"),
        # Had the predictions of a group been higher by c, its interval would have moved by c: so far to 0.
        # So far, and as far again as it takes to be beyond it with that power. Nothing rejects where nothing is tested.
        critical_bias=np.where(testable, np.where(upward, bias - low, high - bias), np.nan),
        detectable_bias=np.where(testable, tested("detectable"), np.nan),
        families=tuple(" & ".join(name for name, _ in groups[0].items) if groups else "" for groups in tally.groups),
        omnibus_statistic=omnibus[:, 0],
        omnibus_pvalue=omnibus[:, 1],
        arms_differ=any(arms_differ(n[:size]) for n, size in zip(rows, kept, strict=True)),
        least_events=least,
        lost=lost,
        design=design,
    )


def hypotheses_of(tally: Tally, in_rest: Sequence[BoolArray]) -> IntArray:
    """A number for the bias of each group. Groups with the same one are compared with the same people, or each other.

    ``in_rest``: for each partition, the groups that take part in the rest of others.
    """
    pairs = []
    for members, groups, used in zip(tally.members, tally.groups, in_rest, strict=True):
        part = np.where(used, members, 0)
        pairs.append(np.sort(np.stack([members, part.sum() - part], -1), axis=-1)[: len(groups)])
    return np.unique(np.concatenate(pairs), axis=0, return_inverse=True)[1].ravel()


def under_design(parts: list[Errors], tally: Tally, plan: Plan) -> tuple[list[Errors], DesignEffect | None]:
    """Errors held against the law of the design, where there is one, and what the reader is told of it."""
    if tally.designs is None or tally.lines is None:
        return parts, None
    under, effects = [], []
    for part, sums, design, groups, own, sizes, strata in zip(
        parts, tally.sums, tally.designs, tally.groups, tally.lines.groups, tally.sizes, tally.strata, strict=True
    ):
        lines = replace(tally.lines, weight=design.mass, groups=(own,))
        error, bias, totals = laws_of(lines, design, part, plan.formula, sums.moments(), strata)
        under.append(part.under(error, bias, totals.effective < FEWEST))
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = bias.effect * sizes.sum(-1) / sums.moments().n.sum(-1)  # beside as many rows of weight 1
        effects.append([array[: len(groups)] for array in (effect, totals.own, totals.effective)])
    return under, DesignEffect(*(np.concatenate(arrays) for arrays in zip(*effects, strict=True)))


def arms_differ(n: FloatArray) -> bool:
    """Whether treated shares (rows by group and arm) differ by more than 5 points, and by more than chance at 0.01."""
    there = n[n.sum(-1) > 0]
    if len(there) < 2:
        return False
    share, whole = there[:, 1] / there.sum(-1), float(there[:, 1].sum() / there.sum())
    chance = max(whole * (1 - whole), 1e-300)
    square = float((there.sum(-1) * (share - whole) ** 2).sum()) / chance
    return bool(np.ptp(share) > 0.05) and float(special.chdtrc(len(there) - 1, square)) < 0.01


def _omnibus(part: Errors, tests: Tests, least: float, size: int) -> tuple[float, float]:
    """The test that all groups which can be tested share one error."""
    used = part.usable & (tests.events >= least) & np.isfinite(part.error.variance + part.error.df)
    used[size:] = False
    return equal_errors(part.error, used, tests.counted == 1, tests.law)


def equal_errors(errors: Ratio, used: BoolArray, counted: BoolArray, law: Law | None) -> tuple[float, float]:
    """Cochran's Q over its degrees of freedom and its p-value: that all ``used`` groups share one error.

    Where the law of counts is used, the sum over groups of the squared quantiles at the error that fits all best.
    ``law``: of the ``counted`` groups.
    """
    error = errors.at(used)
    if law is None or used.sum() < 2:
        return welch_q(error.value, error.variance, error.df)
    among, welch = used[counted], errors.at(used & ~counted)

    def q(common: float) -> float:
        t = welch.statistic(common)
        quantiles = normal_quantile(t_sf(t, welch.df), t_sf(-t, welch.df))
        return float((law.quantile(np.full(among.shape, common))[among] ** 2).sum() + (quantiles**2).sum())

    ends = float(error.value.min()), float(error.value.max())
    total = q(ends[0]) if ends[0] == ends[1] else float(optimize.minimize_scalar(q, bounds=ends, method="bounded").fun)
    freedom = int(used.sum()) - 1
    return total / freedom, float(special.chdtrc(freedom, total))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tests:
    """Tests and limits of the errors and biases of one partition, by Welch's law or by that of the counts."""

    events: FloatArray  # in the arm with fewer: expected under the null, or as many as would be as skewed
    counted: FloatArray  # 1 where the law of the counts was used
    error_low: FloatArray
    error_high: FloatArray
    error_statistic: FloatArray
    error_df: FloatArray
    bias_low: FloatArray
    bias_high: FloatArray
    statistic: FloatArray
    above: FloatArray  # statistics of a bias at the upper and at the lower edge of the tolerance
    below: FloatArray
    bias_df: FloatArray
    detectable: FloatArray  # the bias that is found with the power asked for
    law: Law | None = None  # of the errors of the counted groups


def _tests(part: Errors, plain: Errors, sums: Sums, rows: FloatArray, plan: Plan) -> Tests:
    """``plain``: the errors with the variances of influence functions, which the law of the counts starts from."""
    error, gap, tolerance = part.error, part.gap, plan.tolerance or 0.0
    error_low, error_high = error.limits(t_isf(plan.alpha / 2, error.df))
    bias_low, bias_high = gap.limits(t_isf(plan.alpha / 2, gap.df))
    tests = Tests(
        events=_events(part, sums, plan, rows),
        counted=np.zeros(error.value.shape),
        error_low=error_low,
        error_high=error_high,
        error_statistic=error.statistic(),
        error_df=error.df,
        bias_low=bias_low,
        bias_high=bias_high,
        statistic=gap.statistic(),
        above=gap.statistic(tolerance),
        below=gap.statistic(-tolerance),
        bias_df=gap.df,
        detectable=(t_isf(plan.alpha / 2, np.inf) + t_isf(1 - plan.power, np.inf)) * gap.se,
    )
    if not (plan.of_counts and sums.binary):
        return tests
    counts, others = sums.counts, of_others(np.concatenate([sums.counts.x, sums.counts.n], -1).T, part.in_rest)
    rest = Counts(others[2:].T, others[:2].T).fewest  # two groups are each other's rest: one law for both
    there = others[2:].sum(0) > 0
    few = part.usable & (np.minimum(counts.fewest, np.where(there, rest, np.inf)) < MANY_EVENTS)
    return _counted(tests, few, plain, sums, plan) if few.any() else tests


def _counted(tests: Tests, few: BoolArray, part: Errors, sums: Sums, plan: Plan) -> Tests:
    """The tests of groups with few events, from the law of the counts."""
    relative, tolerance = plan.formula.measure == "relative", plan.tolerance or 0.0
    common = np.where(np.isfinite(part.rest.value), part.rest.value, part.error.value)
    own = law_of(sums.counts.at(few), part.error.at(few), common[few], relative=relative)
    if few.size == 2 and few.all() and part.in_rest.all():  # each is the other's rest: one law for both
        other = np.array([1, 0])
        rest = law_of(sums.counts.at(other), part.error.at(other), common[other], relative=relative)
    else:
        rest = rest_of(sums.counts, part.rest, sums.counts.n.sum(-1), part.in_rest, few, relative=relative)
    bias, critical = Difference(own, rest), float(t_isf(plan.alpha / 2, np.inf))
    (error_low, error_high), (bias_low, bias_high) = own.limits(critical), bias.limits(critical)
    short, long = bias.limits(float(t_isf(1 - plan.power, np.inf)))
    upward, downward = bias.value - bias_low + long - bias.value, bias_high - bias.value + bias.value - short
    changes = {
        "counted": np.ones(int(few.sum())),
        "error_low": error_low,
        "error_high": error_high,
        "error_statistic": own.quantile(np.zeros(own.value.shape)),
        "error_df": np.full(own.value.shape, np.inf),
        "bias_low": bias_low,
        "bias_high": bias_high,
        "statistic": bias.quantile(),
        "above": bias.quantile(tolerance),
        "below": bias.quantile(-tolerance),
        "bias_df": np.full(own.value.shape, np.inf),
        "detectable": np.fmax(upward, downward),
    }
    return replace(tests, law=own, **{name: _set(getattr(tests, name), few, new) for name, new in changes.items()})


def _set(array: FloatArray, at: BoolArray, values: FloatArray) -> FloatArray:
    changed = np.array(array, dtype=float)
    changed[at] = values
    return changed


def _events(part: Errors, sums: Sums, plan: Plan, rows: FloatArray) -> FloatArray:
    """How many events the smaller arm of each group stands on; infinitely many where effects were brought.

    Of a 0/1 outcome, as many as the null expects. Of any other, as many as would make the comparison of the arms
    equally skewed, since the skewness of m events is 1 / sqrt(m): the tails of equal arms cancel out. And no more than
    are worth the outcomes other than zero that the smaller arm may expect.
    """
    if plan.observed_effects is not None:
        return np.full(part.error.value.shape, np.inf)
    own = sums if plan.split is None else sums.part(BUCKETS[1])  # effects are observed in these rows alone
    events = events_expected(part, own, plan.formula)
    if not own.binary:
        effect = null_effect(part)
        skewness = own.skewness(effect if plan.formula.measure == "relative" else np.ones(effect.shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            events = np.fmin(1 / skewness**2, events * SKEW_EVENTS / np.log(2 / plan.alpha))
    elif not plan.of_counts:  # an arm that is all 0 or all 1 shows no spread to judge by
        events = np.where(constant_arm(own), 0.0, events)
    return with_rest(worth(events, part, own, rows.sum(-1)) if plan.designed else events, part)


def _resampled(parts: list[Errors], tally: Tally, plan: Plan, rng: np.random.Generator) -> tuple[list[Errors], float]:
    """Errors of every partition with the variance asked for, and the largest share of resamples that were lost."""
    if plan.variance == "influence":
        return parts, 0.0
    draws = _draws(tally, plan, parts, rng)
    lost = max(part.lost(drawn) for part, drawn in zip(parts, draws, strict=True))
    return [part.resampled(drawn) for part, drawn in zip(parts, draws, strict=True)], lost


def _errors_of(sums: Sums, groups: tuple[Group, ...], plan: Plan) -> Errors:
    if plan.split is not None:
        prediction, estimation = (sums.moments(half) for half in BUCKETS)
        return errors_of_halves(prediction, estimation, plan.formula)
    return errors_of(sums.moments(), plan.formula, _known(sums, groups, plan))


def _known(sums: Sums, groups: tuple[Group, ...], plan: Plan) -> KnownEffects | None:
    return None if plan.observed_effects is None else known_effects(plan.observed_effects, groups, len(sums.n))


def check_measure(sums: Sums, plan: Plan, known: KnownEffects | None = None) -> None:
    """Refuse predictions that are clearly differences where nobody said what they are."""
    if plan.measure_named:
        return
    moments = sums.moments()
    errors = errors_of(moments, plan.formula, known)
    if known is None:  # an arm that is all 0 or all 1 shows no spread to judge by
        errors = errors.without(constant_arm(sums), Status.FEW_EVENTS)
    read = as_differences(errors, moments.n)
    if read is not None:
        predicted, difference, ratio = map(phrases.number, read)
        raise UsageError(
            f"measure: none given, and predicted effects average {predicted}, while the observed difference of mean "
            f'outcomes is {difference} and their ratio {ratio}. Give measure="difference" if the predictions are '
            'differences, or measure="relative" if they are ratios.'
        )


def _draws(tally: Tally, plan: Plan, parts: Sequence[Errors], rng: np.random.Generator) -> list[Effects]:
    """Effects of every partition, resample by resample."""
    if plan.variance == "bootstrap_rows":
        assert tally.lines is not None
        moments = resample_rows(tally.lines, plan.formula.columns, plan.resamples, rng)
        return [
            effects_of(drawn, plan.formula, part.in_rest, fitted=sums.moments())
            for drawn, part, sums in zip(moments, parts, tally.sums, strict=True)
        ]

    def drawn(sums: Sums, part: Errors) -> Effects:
        moments = resample_sums(sums, plan.resamples, rng)
        return effects_of(moments, plan.formula, part.in_rest, fitted=sums.moments())

    pairs = list(zip(tally.sums, parts, strict=True))
    if plan.split is None:
        return [drawn(sums, part) for sums, part in pairs]
    halves = [[drawn(sums.part(half), part) for half in BUCKETS] for sums, part in pairs]
    return [prediction.observed_in(estimation) for prediction, estimation in halves]


def known_effects(effects: ObservedEffects, groups: tuple[Group, ...], size: int) -> KnownEffects:
    """The caller's effects in the order of the groups; everybody else (the last, unnamed group) has none."""
    by_name: Mapping[object, tuple[float, float]] = dict(effects.items())
    pairs = np.full((size, 2), np.nan)
    for i, group in enumerate(groups):
        single = [value for _, value in group.items] if len(group.items) == 1 else []
        names = (group.label, *single, *map(str, single))
        pairs[i] = next((by_name[name] for name in names if name in by_name), (np.nan, np.nan))
    return KnownEffects(pairs[:, 0], pairs[:, 1])
