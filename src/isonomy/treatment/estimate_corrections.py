"""What remains of every group's error and bias after every correction, on rows that took no part in finding it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isonomy.frames import Group
from isonomy.inference import rejected
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_sf
from isonomy.results.progress import tracked
from isonomy.treatment.effects.density import Densities, beside_normal
from isonomy.treatment.effects.events import least_events
from isonomy.treatment.effects.heldout import Evaluation, Halves, Remainders, Sample, judged
from isonomy.treatment.estimate import arms_differ, check_measure, hypotheses_of, known_effects
from isonomy.treatment.plan import CorrectionsPlan
from isonomy.treatment.tally import Tally
from isonomy.treatment.wording import PROGRESS


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectionsNumbers:
    """What the result reports as it was estimated."""

    __slots__ = ()  # its fields have theirs in the estimates and in the result

    n: FloatArray
    factor_mean: FloatArray  # this and the following: one entry per strategy, over runs and groups
    error_mean: FloatArray
    error_rms: FloatArray
    error_mae: FloatArray
    error_rejected: FloatArray
    bias_mean: FloatArray
    bias_rms: FloatArray
    bias_mae: FloatArray
    bias_rejected: FloatArray
    bias_left: FloatArray  # root mean square without the sampling error of the held-out rows
    statistic_at: FloatArray  # (point,)
    statistic_density: FloatArray  # (2, point): of the detection statistics, and the standard normal one
    arms_differ: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsEstimates(CorrectionsNumbers):
    """What remains of every group after every correction, over groups and runs, and its densities."""

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    remainders: Remainders  # (strategy, run, group)
    statistic: FloatArray  # (run, group): of the bias before correction
    less_pvalue: FloatArray  # of "no less bias than without correction"; NaN for none
    error_densities: Densities
    bias_densities: Densities
    predicted: FloatArray  # effects before correction, on all rows
    observed: FloatArray
    binary: bool


def estimate_corrections(tally: Tally, plan: CorrectionsPlan, rng: np.random.Generator) -> CorrectionsEstimates:
    """Find corrections on one half of the rows and judge them on the other, split by split and swap by swap."""
    alpha, kept = plan.errors.alpha, [len(groups) for groups in tally.groups]
    everybody = [np.ones(len(sums.n), dtype=bool) for sums in tally.sums]
    least = least_events(np.unique(hypotheses_of(tally, everybody)).size, alpha)
    evaluation = Evaluation(
        formula=plan.errors.formula,
        strategies=plan.strategies,
        single=plan.rest_correction == "single",
        resamples=plan.errors.resamples,
        alpha=alpha,
        form=plan.form,
        inner=plan.inner,
        least=least,
    )
    samples: tuple[Sample, ...] = tally.clustered or tally.sums
    brought = plan.errors.observed_effects
    known = [
        None if brought is None else known_effects(brought, groups, len(sums.n))
        for groups, sums in zip(tally.groups, tally.sums, strict=True)
    ]
    check_measure(tally.sums[0], plan.errors, known[0])
    runs = [
        replace(evaluation, known=own).run(
            sample, size, tracked(_halves(plan, child), PROGRESS, 2 * plan.splits, bar=plan.progress), child
        )
        for sample, size, own, child in zip(samples, kept, known, rng.spawn(len(kept)), strict=True)
    ]
    remainders, statistics = zip(*runs, strict=True)
    rows = tally.sizes or tuple(sums.counts.n for sums in tally.sums)
    together = Remainders.beside(remainders)
    # Groups that no half could answer: for the reason that all rows give twice as many events, or that halves alone do.
    whole = [judged(sample, plan.errors.formula, 2 * least, own) for sample, own in zip(samples, known, strict=True)]
    reasons = [one for part, size in zip(whole, kept, strict=True) for one in part.status[:size]]
    otherwise = Status.FEW_CLUSTERS if tally.clustered else Status.FEW_EVENTS
    lost = np.asarray(np.isnan(together.error).all((0, 1)))
    status = tuple(
        Status.OK if not no else reason if reason is not Status.OK else otherwise
        for reason, no in zip(reasons, lost, strict=True)
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
        predicted=np.concatenate([part.effects.predicted[:size] for part, size in zip(whole, kept, strict=True)]),
        observed=np.concatenate([part.effects.observed[:size] for part, size in zip(whole, kept, strict=True)]),
        binary=all(sums.binary for sums in tally.sums),
        arms_differ=any(arms_differ(n[:size]) for n, size in zip(rows, kept, strict=True)),
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
        pvalue = t_sf(decrease / np.std(draws, axis=-1, ddof=1), df)
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
