"""Errors and biases of all groups with their tests and intervals, and what remains of them after corrections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.treatment.effects.density import Densities
from isonomy.treatment.effects.errors import Effects, Errors, Known, effects_of, errors_of, errors_of_halves
from isonomy.treatment.effects.heldout import Evaluation, Halves, Remainders
from isonomy.treatment.effects.ratio import Gap, Ratio, t_critical, t_tail
from isonomy.treatment.effects.resample import resample_rows, resample_sums
from isonomy.treatment.effects.sums import Sums
from isonomy.treatment.plan import CorrectionsPlan, ObservedEffects, Plan
from isonomy.treatment.tally import Tally

BUCKETS = (np.array([0]), np.array([1]))  # rows of predictions, and rows of estimation


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates:
    """One entry per group of every partition; NaN where a group cannot be answered."""

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    n: FloatArray
    treated: FloatArray
    events: FloatArray  # rows with an outcome in the arm that has fewer of them
    predicted: FloatArray
    observed: FloatArray
    error: FloatArray
    error_se: FloatArray
    error_low: FloatArray
    error_high: FloatArray
    error_pvalue: FloatArray
    bias: FloatArray
    bias_se: FloatArray
    bias_low: FloatArray
    bias_high: FloatArray
    bias_pvalue: FloatArray
    within_pvalue: FloatArray  # of a bias at least as large as the tolerance
    statistic: FloatArray
    critical_bias: FloatArray
    detectable_bias: FloatArray
    lost: float  # largest share of resamples that gave a group no error


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Errors and biases of all groups, with their tests and intervals."""
    parts, lost = _errors(tally, plan, rng)
    kept = [len(groups) for groups in tally.groups]
    status = tuple(s for part, size in zip(parts, kept, strict=True) for s in part.status[:size])
    answered = np.array([s is Status.OK for s in status])

    def joined(arrays: Iterable[FloatArray]) -> FloatArray:
        return np.concatenate([array[:size] for array, size in zip(arrays, kept, strict=True)])

    def law(ratios: Sequence[Ratio]) -> Ratio:
        names = [part.name for part in fields(Ratio)]
        return Ratio(*(np.where(answered, joined(getattr(r, name) for r in ratios), np.nan) for name in names))

    error = law([part.error for part in parts])
    gap = Gap(error, law([part.rest for part in parts]))
    error_low, error_high = error.limits(t_critical(plan.alpha / 2, error.df))
    critical = t_critical(plan.alpha / 2, gap.df)
    bias_low, bias_high = gap.limits(critical)
    tolerance = plan.tolerance or 0.0
    above, below = gap.statistic(tolerance), gap.statistic(-tolerance)
    positive = gap.value >= 0
    near, far = np.where(positive, above, -below), np.where(positive, below, -above)
    rows = [sums.moments().n for sums in tally.sums]
    normal = t_critical(plan.alpha / 2, np.inf) + t_critical(1 - plan.power, np.inf)
    return Estimates(
        groups=tuple(group for groups in tally.groups for group in groups),
        status=status,
        n=joined(n.sum(-1) for n in rows),
        treated=joined(n[..., 1] for n in rows),
        events=joined(sums.events for sums in tally.sums),
        predicted=joined(part.effects.predicted for part in parts),
        observed=joined(part.effects.observed for part in parts),
        error=error.value,
        error_se=error.se,
        error_low=error_low,
        error_high=error_high,
        error_pvalue=np.minimum(2 * t_tail(np.abs(error.statistic()), error.df), 1.0),
        bias=gap.value,
        bias_se=gap.se,
        bias_low=bias_low,
        bias_high=bias_high,
        # P(|estimate| as large) at the edge of the tolerance; twice the tail when there is none.
        bias_pvalue=np.minimum(t_tail(near, gap.df) + t_tail(far, gap.df), 1.0),
        within_pvalue=np.maximum(t_tail(-above, gap.df), t_tail(below, gap.df)),
        statistic=gap.statistic(),
        critical_bias=critical * gap.se,
        detectable_bias=normal * gap.se,
        lost=lost,
    )


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
    known = None if plan.observed_effects is None else _known(plan.observed_effects, groups, len(sums.n))
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


def _known(effects: ObservedEffects, groups: tuple[Group, ...], size: int) -> Known:
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
    """What remains of every group after every correction, and its densities over groups, runs and resamples."""

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    n: FloatArray
    remainders: Remainders  # (strategy, run, group)
    statistic: FloatArray  # (run, group): of the bias before correction
    combined_pvalue: FloatArray  # of the bias without correction, over all runs
    error_densities: Densities
    bias_densities: Densities


def estimate_corrections(tally: Tally, plan: CorrectionsPlan, rng: np.random.Generator) -> CorrectionsEstimates:
    """Find corrections on one half of the rows and judge them on the other, split by split and swap by swap."""
    evaluation = Evaluation(
        formula=plan.errors.formula,
        strategies=plan.strategies,
        single=plan.rest_correction == "single",
        resamples=plan.errors.resamples,
        alpha=plan.errors.alpha,
    )
    kept = [len(groups) for groups in tally.groups]
    runs = [
        evaluation.run(sums, size, _tracked(_halves(plan, child), plan.progress), child)
        for sums, size, child in zip(tally.sums, kept, rng.spawn(len(kept)), strict=True)
    ]
    remainders, statistics = zip(*runs, strict=True)
    moments = [sums.moments() for sums in tally.sums]
    whole = [errors_of(m, plan.errors.formula).status[:size] for m, size in zip(moments, kept, strict=True)]
    together = Remainders.beside(remainders)
    pvalues = together.bias_pvalue[plan.strategies.index("none")]
    return CorrectionsEstimates(
        groups=tuple(group for groups in tally.groups for group in groups),
        status=tuple(status for part in whole for status in part),
        n=np.concatenate([m.n.sum(-1)[:size] for m, size in zip(moments, kept, strict=True)]),
        remainders=together,
        statistic=np.concatenate(statistics, axis=-1),
        # Splits reuse rows, so their p-values are dependent: twice the median is a p-value whatever the dependence.
        combined_pvalue=np.minimum(2 * np.median(pvalues, axis=0), 1.0),
        error_densities=Densities.of(_samples([r.error_draws for r in remainders])),
        bias_densities=Densities.of(_samples([r.bias_draws for r in remainders])),
    )


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
    if not progress:
        return halves
    from rich.progress import track

    return track(halves, description="Splits and swaps")
