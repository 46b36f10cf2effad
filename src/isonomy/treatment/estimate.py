"""Errors and biases of all groups with their tests and intervals, and what remains of them after corrections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from isonomy.frames import Group
from isonomy.inference import rejected
from isonomy.inference.designs import FEWEST, DesignEffect, Influence, spread
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.results.progress import tracked
from isonomy.treatment.effects.borrow import welch_q
from isonomy.treatment.effects.density import Densities, beside_normal
from isonomy.treatment.effects.designs import laws_of
from isonomy.treatment.effects.errors import Effects, Errors, Known, effects_of, errors_of, errors_of_halves
from isonomy.treatment.effects.events import Difference, Law, law_of, normal_quantile, rest_of
from isonomy.treatment.effects.heldout import Evaluation, Halves, Remainders, Sample, judged
from isonomy.treatment.effects.price import Score, scores, standard_error
from isonomy.treatment.effects.ratio import Ratio, of_others, t_critical, t_tail
from isonomy.treatment.effects.resample import resample_rows, resample_sums
from isonomy.treatment.effects.sums import Sums
from isonomy.treatment.plan import CorrectionsPlan, ObservedEffects, Plan, PricePlan
from isonomy.treatment.tally import PriceTally, Tally
from isonomy.treatment.wording import PROGRESS

MANY_EVENTS = 400  # from so many on, Welch's law and that of the counts agree to what a table shows
SKEWED = 25.0  # equivalents of events that Welch's law needs at 0.05 (Cochran 1977, section 2.15)
BUCKETS = (np.array([0]), np.array([1]))  # rows of predictions, and rows of estimation


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates:
    """One entry per group of every partition; NaN where a group cannot be answered."""

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    n: FloatArray
    treated: FloatArray
    events: FloatArray  # that the arm with fewer of them stands on
    counted: BoolArray  # tested by the law of the counts
    binary: bool  # whether every outcome is 0 or 1
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
    within_pvalue: FloatArray  # of a bias at least as large as the tolerance
    statistic: FloatArray
    critical_bias: FloatArray
    detectable_bias: FloatArray
    families: tuple[str, ...]  # one entry per partition, as in the following: what its groups are made of
    omnibus_statistic: FloatArray
    omnibus_pvalue: FloatArray  # that all errors are equal
    arms_differ: bool  # whether treated shares differ between groups
    least_events: float  # groups that stand on fewer are not tested
    lost: float  # largest share of resamples that gave a group no error
    design: DesignEffect | None  # where rows have weights, clusters, propensities or strata


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Errors and biases of all groups, with their tests and intervals."""
    parts, lost = _errors(tally, plan, rng)
    parts, design = _under_design(parts, tally, plan)
    kept = [len(groups) for groups in tally.groups]
    status = tuple(s for part, size in zip(parts, kept, strict=True) for s in part.status[:size])
    answered = np.array([s is Status.OK for s in status])
    rows = tally.sizes or tuple(sums.counts.n for sums in tally.sums)
    tests = [_tests(part, sums, plan, n) for part, sums, n in zip(parts, tally.sums, rows, strict=True)]

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
    with np.errstate(invalid="ignore"):
        shares = joined(n[..., 1] / n.sum(-1) for n in rows)
    shares = shares[np.isfinite(shares)]
    least = least_events(int(answered.sum()), tally, plan)
    together = zip(parts, tests, kept, strict=True)
    omnibus = np.array([_omnibus(part, test, least, size) for part, test, size in together])
    normal = t_critical(plan.alpha / 2, np.inf) + t_critical(1 - plan.power, np.inf)
    events = tested("events")
    if design is not None:
        # Events are worth fewer by the design effect; an arm that is all 0 or all 1 shows no spread to judge by.
        worth = np.where(joined(constant_arm(sums) for sums in tally.sums) == 1, 0.0, 1.0)
        events = events * worth / np.fmax(design.effect, 1.0)
    return Estimates(
        groups=tuple(group for groups in tally.groups for group in groups),
        status=status,
        n=joined(n.sum(-1) for n in rows),
        treated=joined(n[..., 1] for n in rows),
        events=events,
        counted=tested("counted") == 1,
        binary=all(sums.binary for sums in tally.sums),
        predicted=joined(part.effects.predicted for part in parts),
        observed=joined(part.effects.observed for part in parts),
        error=np.where(answered, joined(part.error.value for part in parts), np.nan),
        error_se=np.where(answered, joined(part.error.se for part in parts), np.nan),
        error_low=tested("error_low"),
        error_high=tested("error_high"),
        error_pvalue=np.minimum(2 * t_tail(np.abs(tested("error_statistic")), tested("error_df")), 1.0),
        rest_error=np.where(answered, joined(part.rest.value for part in parts), np.nan),
        bias=bias,
        bias_se=bias_se,
        bias_low=low,
        bias_high=high,
        # P(|estimate| as large) at the edge of the tolerance; twice the tail when there is none.
        bias_pvalue=np.minimum(t_tail(near, df) + t_tail(far, df), 1.0),
        within_pvalue=np.maximum(t_tail(-above, df), t_tail(below, df)),
        statistic=tested("statistic"),
        # Had the predictions of a group been higher by c, its interval would have moved by c: so far to 0.
        critical_bias=np.where(upward, bias - low, high - bias),
        detectable_bias=normal * bias_se,
        families=tuple(" & ".join(name for name, _ in groups[0].items) if groups else "" for groups in tally.groups),
        omnibus_statistic=omnibus[:, 0],
        omnibus_pvalue=omnibus[:, 1],
        arms_differ=bool(len(shares) and np.ptp(shares) > 0.05),
        least_events=least,
        lost=lost,
        design=design,
    )


def _under_design(parts: list[Errors], tally: Tally, plan: Plan) -> tuple[list[Errors], DesignEffect | None]:
    """Errors held against the law of the design, where there is one, and what the reader is told of it."""
    if tally.designs is None or tally.lines is None:
        return parts, None
    under, told = [], []
    for part, sums, design, groups, own, sizes, strata in zip(
        parts, tally.sums, tally.designs, tally.groups, tally.lines.groups, tally.sizes, tally.strata, strict=True
    ):
        lines = replace(tally.lines, weight=design.mass, groups=(own,))
        error, bias, totals = laws_of(lines, design, part, plan.formula, sums.moments(), strata)
        under.append(part.under(error, bias, totals.effective < FEWEST))
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = bias.effect * sizes.sum(-1) / sums.moments().n.sum(-1)  # beside as many rows of weight 1
        told.append([array[: len(groups)] for array in (effect, totals.own, totals.effective)])
    return under, DesignEffect(*(np.concatenate(arrays) for arrays in zip(*told, strict=True)))


def constant_arm(sums: Sums) -> FloatArray:
    """1 for groups with an arm in which a 0/1 outcome is always the same, else 0."""
    moments = sums.moments()
    mean = moments.mean[..., moments.columns.index("y")]
    return (((mean <= 0) | (mean >= 1)).any(axis=-1) & sums.binary).astype(float)


def least_events(groups: int, tally: Tally, plan: Plan) -> float:
    """Events in the smaller arm below which a group is not tested; they grow with the number of groups.

    With fewer than log(2 groups / alpha) expected events of a 0/1 outcome not even an arm without any could be told
    from chance, since that has probability exp(-expected). The mean of any other outcome must be near enough to normal
    in the tail that counts.
    """
    if plan.test == "welch" or plan.observed_effects is not None:
        return 0.0
    needed = float(np.log(2 * (max(groups, 1) if plan.adjust != "none" else 1) / plan.alpha))
    binary = all(sums.binary for sums in tally.sums)
    return needed if binary else SKEWED * needed / float(np.log(2 / plan.alpha))


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
        quantiles = normal_quantile(t_tail(t, welch.df), t_tail(-t, welch.df))
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
    law: Law | None = None  # of the errors of the counted groups


def _tests(part: Errors, sums: Sums, plan: Plan, rows: FloatArray) -> Tests:
    error, gap, tolerance = part.error, part.gap, plan.tolerance or 0.0
    error_low, error_high = error.limits(t_critical(plan.alpha / 2, error.df))
    bias_low, bias_high = gap.limits(t_critical(plan.alpha / 2, gap.df))
    with np.errstate(divide="ignore", invalid="ignore"):
        events = _events(part, sums, plan) * rows.sum(-1) / sums.counts.n.sum(-1)  # masses may be more than rows
    others = of_others(np.nan_to_num(events, posinf=1e300), part.in_rest)  # a rest of few events is no better known
    events = np.minimum(events, np.where(others > 0, others, np.inf))
    tests = Tests(
        events=events,
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
    )
    if not (plan.of_counts and sums.binary):
        return tests
    fewest = sums.counts.x.min(-1)
    others = of_others(sums.counts.x.T, part.in_rest).min(0)  # two groups are each other's rest: one law for both
    few = part.usable & (np.minimum(fewest, np.where(others > 0, others, np.inf)) < MANY_EVENTS)
    return _counted(tests, few, part, sums, plan) if few.any() else tests


def _counted(tests: Tests, few: BoolArray, part: Errors, sums: Sums, plan: Plan) -> Tests:
    """The tests of groups with few events, from the law of the counts."""
    relative, tolerance = plan.formula.measure == "relative", plan.tolerance or 0.0
    common = np.where(np.isfinite(part.rest.value), part.rest.value, part.error.value)
    own = law_of(sums.counts.at(few), part.error.at(few), common[few], relative=relative)
    rest = rest_of(sums.counts, part.rest, sums.counts.n.sum(-1), part.in_rest, few, relative=relative)
    bias, critical = Difference(own, rest), float(t_critical(plan.alpha / 2, np.inf))
    (error_low, error_high), (bias_low, bias_high) = own.limits(critical), bias.limits(critical)
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
    }
    return replace(tests, law=own, **{name: _set(getattr(tests, name), few, new) for name, new in changes.items()})


def _set(array: FloatArray, at: BoolArray, values: FloatArray) -> FloatArray:
    changed = np.array(array, dtype=float)
    changed[at] = values
    return changed


def _events(part: Errors, sums: Sums, plan: Plan) -> FloatArray:
    """How many events the smaller arm of each group stands on; infinitely many where effects were brought.

    Of a 0/1 outcome, as many as the null expects. Of any other, as many as would make the comparison of the arms
    equally skewed, since the skewness of m events is 1 / sqrt(m): the tails of equal arms cancel out. And no more than
    are worth the outcomes other than zero that the smaller arm may expect.
    """
    if plan.observed_effects is not None:
        return np.full(part.error.value.shape, np.inf)
    rest = np.where(np.isfinite(part.rest.value), part.rest.value, 0.0)
    effect, relative = part.effects.predicted - rest, plan.formula.measure == "relative"
    if sums.binary:
        return sums.counts.expected(effect, relative=relative)
    skewness = sums.skewness(effect if relative else np.ones(effect.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        nonzero = sums.nonzero * sums.counts.n.min(-1) / sums.counts.n.sum(-1)
        return np.fmin(1 / skewness**2, nonzero * SKEWED / np.log(2 / plan.alpha))


def _errors(tally: Tally, plan: Plan, rng: np.random.Generator) -> tuple[list[Errors], float]:
    """Errors of every partition, and the largest share of resamples that were lost."""
    parts = [_errors_of(sums, groups, plan) for sums, groups in zip(tally.sums, tally.groups, strict=True)]
    if plan.variance == "influence":
        return parts, 0.0
    draws = _draws(tally, plan, parts, rng)
    lost = max(part.lost(drawn) for part, drawn in zip(parts, draws, strict=True))
    return [part.resampled(drawn) for part, drawn in zip(parts, draws, strict=True)], lost


def _errors_of(sums: Sums, groups: tuple[Group, ...], plan: Plan) -> Errors:
    if plan.split is not None:
        prediction, estimation = (sums.moments(half) for half in BUCKETS)
        return errors_of_halves(prediction, estimation, plan.formula)
    known = None if plan.observed_effects is None else known_effects(plan.observed_effects, groups, len(sums.n))
    return errors_of(sums.moments(), plan.formula, known)


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


def known_effects(effects: ObservedEffects, groups: tuple[Group, ...], size: int) -> Known:
    """The caller's effects in the order of the groups; everybody else (the last, unnamed group) has none."""
    by_name: Mapping[object, tuple[float, float]] = dict(effects.items())
    pairs = np.full((size, 2), np.nan)
    for i, group in enumerate(groups):
        single = [value for _, value in group.items] if len(group.items) == 1 else []
        names = (group.label, *single, *map(str, single))
        pairs[i] = next((by_name[name] for name in names if name in by_name), (np.nan, np.nan))
    return Known(pairs[:, 0], pairs[:, 1])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsEstimates:
    """What remains of every group after every correction, over groups and runs, and its densities."""

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    n: FloatArray
    remainders: Remainders  # (strategy, run, group)
    statistic: FloatArray  # (run, group): of the bias before correction
    factor_mean: FloatArray  # this and the following: one entry per strategy
    error_mean: FloatArray
    error_rms: FloatArray
    error_mae: FloatArray
    error_rejected: FloatArray
    bias_mean: FloatArray
    bias_rms: FloatArray
    bias_mae: FloatArray
    bias_rejected: FloatArray
    bias_left: FloatArray  # root mean square without the sampling error of the held-out rows
    less_pvalue: FloatArray  # of "no less bias than without correction"; NaN for none
    error_densities: Densities
    bias_densities: Densities
    statistic_at: FloatArray
    statistic_density: FloatArray


def estimate_corrections(tally: Tally, plan: CorrectionsPlan, rng: np.random.Generator) -> CorrectionsEstimates:
    """Find corrections on one half of the rows and judge them on the other, split by split and swap by swap."""
    alpha = plan.errors.alpha
    evaluation = Evaluation(
        formula=plan.errors.formula,
        strategies=plan.strategies,
        single=plan.rest_correction == "single",
        resamples=plan.errors.resamples,
        alpha=alpha,
        form=plan.form,
        inner=plan.inner,
    )
    kept = [len(groups) for groups in tally.groups]
    samples: tuple[Sample, ...] = tally.clustered or tally.sums
    brought = plan.errors.observed_effects
    known = [
        None if brought is None else known_effects(brought, groups, len(sums.n))
        for groups, sums in zip(tally.groups, tally.sums, strict=True)
    ]
    runs = [
        replace(evaluation, known=own).run(sample, size, _tracked(_halves(plan, child), plan.progress), child)
        for sample, size, own, child in zip(samples, kept, known, rng.spawn(len(kept)), strict=True)
    ]
    remainders, statistics = zip(*runs, strict=True)
    rows = tally.sizes or tuple(sums.counts.n for sums in tally.sums)
    whole = [
        judged(sample, plan.errors.formula, own).status[:size]
        for sample, size, own in zip(samples, kept, known, strict=True)
    ]
    together = Remainders.beside(remainders)
    status = tuple(one for part in whole for one in part)
    if tally.clustered:  # enough clusters in all, but too few in every half
        lost: BoolArray = np.asarray(np.isnan(together.bias).all((0, 1)))
        status = tuple(
            Status.FEW_CLUSTERS if no and one is Status.OK else one for one, no in zip(status, lost, strict=True)
        )
    statistic = np.concatenate(statistics, axis=-1)
    statistic_at, statistic_density = beside_normal(statistic)
    return CorrectionsEstimates(
        groups=tuple(group for groups in tally.groups for group in groups),
        status=status,
        n=np.concatenate([n.sum(-1)[:size] for n, size in zip(rows, kept, strict=True)]),
        remainders=together,
        statistic=statistic,
        factor_mean=_mean(together.factor),
        error_mean=_mean(together.error),
        error_rms=np.sqrt(_mean(together.error**2)),
        error_mae=_mean(np.abs(together.error)),
        error_rejected=_share(together.error_pvalue, alpha),
        bias_mean=_mean(together.bias),
        bias_rms=np.sqrt(_mean(together.bias**2)),
        bias_mae=_mean(np.abs(together.bias)),
        bias_rejected=_share(together.bias_pvalue, alpha),
        bias_left=np.sqrt(np.maximum(_mean(together.bias**2 - together.bias_se**2), 0.0)),
        less_pvalue=_less(together, plan.strategies.index("none"), clusters=bool(tally.clustered)),
        error_densities=Densities.of(_samples([r.error_draws for r in remainders])),
        bias_densities=Densities.of(_samples([r.bias_draws for r in remainders])),
        statistic_at=statistic_at,
        statistic_density=statistic_density,
    )


def _less(remainders: Remainders, none: int, *, clusters: bool) -> FloatArray:
    """P-values of "at least as much squared bias as without correction", one per strategy.

    Given the half that found it, a correction moves each bias by a known amount d: its square falls by 2 d A - d^2,
    which is linear in the bias A on held-out rows, so the noise of A has mean 0 there. Splits reuse rows, and their
    p-values are dependent: twice the median is a p-value whatever the dependence. With ``clusters`` the law is
    Student's, with the degrees of freedom of the group that has fewest.
    """
    decrease = _over_groups(remainders.bias[none] ** 2 - remainders.bias**2)
    draws = _over_groups(remainders.bias_draws[none] ** 2 - remainders.bias_draws**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        fewest = np.min(np.where(np.isfinite(remainders.bias_df), remainders.bias_df, np.inf), axis=-1)
        df = fewest if clusters else np.array(np.inf)
        pvalue = t_tail(decrease / np.std(draws, axis=-1, ddof=1), df)
        idle = np.isfinite(remainders.bias).any(-1) & (decrease == 0)  # nothing was corrected in this run
        pvalue = np.where(idle, 1.0, pvalue)
    pvalue[none] = np.nan
    known = np.asarray(np.isfinite(pvalue).all(-1))
    return np.where(known, np.minimum(2 * np.median(np.where(known[:, None], pvalue, 1.0), axis=-1), 1.0), np.nan)


def _over_groups(array: FloatArray) -> FloatArray:
    """Mean over groups (the last axis) that were answered."""
    answered = np.isfinite(array)
    return np.where(answered, array, 0.0).sum(-1) / np.maximum(answered.sum(-1), 1)


def _share(pvalue: FloatArray, alpha: float) -> FloatArray:
    """Share of tests that reject, by strategy."""
    return _mean(np.where(np.isfinite(pvalue), rejected(pvalue, alpha), np.nan))


def _mean(array: FloatArray) -> FloatArray:
    """Mean over runs and groups that were answered; NaN where none was."""
    answered = np.isfinite(array)
    number = answered.sum((1, 2))
    return np.where(number > 0, np.where(answered, array, 0.0).sum((1, 2)) / np.maximum(number, 1), np.nan)


def _samples(draws: Sequence[FloatArray]) -> list[FloatArray]:
    """One sample per strategy: all its draws, of all partitions."""
    return [np.concatenate([np.ravel(part[s]) for part in draws]) for s in range(len(draws[0]))]


def _halves(plan: CorrectionsPlan, rng: np.random.Generator) -> list[Halves]:
    """Random halves of the buckets, each followed by its swap."""
    halves: list[Halves] = []
    for _ in range(plan.splits):
        order = rng.permutation(plan.buckets)
        one, two = np.sort(order[: plan.buckets // 2]), np.sort(order[plan.buckets // 2 :])
        halves += [(one, two), (two, one)]
    return halves


def _tracked(halves: list[Halves], progress: bool) -> Iterable[Halves]:
    return tracked(halves, PROGRESS, len(halves), bar=progress)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PriceEstimates:
    """Quantities before correction and their change. Axes: corrected column, then `QUANTITIES`."""

    groups: tuple[Group, ...]
    before: FloatArray  # (quantity,)
    before_se: FloatArray
    after: FloatArray
    change: FloatArray
    change_se: FloatArray
    change_low: FloatArray
    change_high: FloatArray
    pvalue: FloatArray
    few_clusters: bool  # too few to judge their spread by: no p-values
    bias_before: float  # root mean square over groups, without sampling error
    bias_after: FloatArray  # (column,)


def estimate_price(tally: PriceTally, plan: PricePlan) -> PriceEstimates:
    """Every quantity of every column, and its change on the same rows."""
    p, weight = tally.propensity, tally.weight
    transformed = tally.outcome * (tally.arm - p) / (p * (1 - p))
    relative = plan.errors.formula.measure == "relative"

    def difference(effect: FloatArray) -> FloatArray:
        if not relative:
            return effect
        return np.full(effect.shape, np.nan) if tally.baseline is None else (effect - 1) * tally.baseline

    def of(effect: FloatArray) -> tuple[Score, ...]:
        known = difference(effect)
        return scores(transformed, known, known if np.isfinite(known).all() else effect, weight, plan.budget)

    before, *after = (of(effect) for effect in tally.effects)
    changes = np.array([[two.value - one.value for one, two in zip(before, own, strict=True)] for own in after])
    influences = [[one.influence for one in before]]
    influences += [[two.influence - one.influence for one, two in zip(before, own, strict=True)] for own in after]
    (before_se, *rows), (_, *freedom), few = _spreads(influences, tally)
    errors, df = np.array(rows), np.array(freedom)
    critical = t_critical(plan.errors.alpha / 2, df)
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = 2 * t_tail(np.abs(changes) / errors, df)
    biases = [_root_mean_bias(own, plan.errors) for own in tally.tallies]
    return PriceEstimates(
        groups=tally.groups,
        before=np.array([one.value for one in before]),
        before_se=before_se,
        after=np.array([[one.value for one in own] for own in after]),
        change=changes,
        change_se=errors,
        change_low=changes - critical * errors,
        change_high=changes + critical * errors,
        pvalue=np.where(few, np.nan, np.where(changes == 0, 1.0, pvalue)),
        few_clusters=few,
        bias_before=biases[0],
        bias_after=np.array(biases[1:]),
    )


def _spreads(
    influences: Sequence[Sequence[FloatArray]], tally: PriceTally
) -> tuple[list[FloatArray], list[FloatArray], bool]:
    """Standard errors and degrees of freedom of means with these influences; and whether clusters are too few."""
    if tally.design is None:
        errors = [np.array([standard_error(one, tally.weight) for one in row]) for row in influences]
        return errors, [np.full(row.shape, np.inf) for row in errors], False
    spreads = [
        spread(tally.design, Influence.of(np.nan_to_num(np.stack(row, -1)) / tally.weight.sum())) for row in influences
    ]
    known = [np.array([np.isfinite(one).all() for one in row]) for row in influences]
    errors = [np.where(there, np.sqrt(one.variance), np.nan) for one, there in zip(spreads, known, strict=True)]
    return errors, [one.df for one in spreads], bool((spreads[0].effective < FEWEST).any())


def _root_mean_bias(tally: Tally, plan: Plan) -> float:
    """Root mean square of the groups' biases, without their sampling error."""
    (errors,), _ = _under_design([errors_of(tally.sums[0].moments(), plan.formula)], tally, plan)
    gap = errors.gap
    square = np.where(errors.usable, gap.value**2 - gap.se**2, np.nan)
    return float(np.sqrt(max(float(np.nanmean(square)), 0.0))) if np.isfinite(square).any() else np.nan
