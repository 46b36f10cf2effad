"""Corrections found on one half of the rows and judged on the other, for one partition into groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.designs import Clustered
from isonomy.effects.estimators.errors import (
    Errors,
    GroupEffects,
    KnownEffects,
    constant_arm,
    effects_of,
    errors_of,
    events_expected,
    with_rest,
    worth,
)
from isonomy.effects.estimators.moments import ArmMoments, Sums, draw_moments, resample_sums
from isonomy.effects.estimators.shrinkage import AnyStrategy, Detected, Form, correction
from isonomy.errors import UsageError
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_sf
from isonomy.options import Draws, Number, Option


@dataclass(frozen=True)
class Heldout(Option):
    """Corrections are found on one random half of the rows and judged on the other, and both halves swap roles.

    Parameters
    ----------
    splits : int, default 10
        Random splits, each followed by its swap.
    resamples : int, default 50
        Bootstrap replicates on each half.
    over : {"cells", "rows"}, default "cells"
        What is resampled: cells, for any number of rows, or rows in memory.
    split : {"independent", "swapped"}, optional
        Steps 5 to 7 of the paper's Algorithm 1: within each half, predicted effects come from one half of the rows and
        observed effects from the other; "swapped" averages over both ways round (Appendix E). It is not needed,
        because variances count the covariance of the two.
    buckets : int, default 20
        Random parts that the rows are spread over: an even number, and a multiple of 4 with ``split``. A half of the
        rows is a half of the parts, so the table is read once, whatever the number of splits.
    """

    name: ClassVar[str] = "heldout"
    splits: Draws = 10
    resamples: Annotated[int, Number(least=2, most=100_000, whole=True)] = 50
    over: Literal["cells", "rows"] = "cells"
    split: Literal["independent", "swapped"] | None = None
    buckets: Annotated[int, Number(least=2, most=1_000, whole=True)] = 20

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        parts = 2 if self.split is None else 4
        if self.buckets % parts:
            raise UsageError(
                f"buckets: {self.buckets!r} is not allowed with split={self.split!r}; give a multiple of {parts}."
            )


Halves = tuple[IntArray, IntArray]  # the buckets that find corrections, and those that judge them
SplitSample = Sums | Clustered
Remainders = dict[str, FloatArray]  # what remains after correction, one entry per group on the last axis


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """How corrections are found and judged."""

    formula: Formula
    strategies: tuple[AnyStrategy, ...]
    single: bool  # one factor for the whole rest, instead of each group's own
    resamples: int
    alpha: float  # of the strategy "significant"
    form: Form = "additive"
    inner: Literal["independent", "swapped"] | None = None  # predicted and observed effects from different rows
    known: KnownEffects | None = None  # effects that corrections are found with; what remains is judged on rows
    least: float = 0.0  # groups that may expect fewer events in an arm of a half take no part in it

    def run(
        self, sums: SplitSample, size: int, halves: Iterable[Halves], rng: np.random.Generator
    ) -> tuple[Remainders, FloatArray]:
        """What remains of the first ``size`` groups, and the statistics (run, group) of the bias before correction.

        Axes of what remains: strategy, run, group; of resamples: strategy, run, resample, group.
        """
        runs, statistics = [], []
        for detection, mitigation in halves:
            detected, rest, predicted, statistic = self._detect(self._sets(sums, detection), rng)
            statistics.append(statistic)
            runs.append(list(self._correct(self._sets(sums, mitigation), detected, rest, predicted, rng)))
        remainders = {
            name: np.array([[one[name] for one in run] for run in runs]).swapaxes(0, 1)[..., :size]
            for name in runs[0][0]
        }
        return remainders, np.array(statistics)[:, :size]

    def _sets(self, sums: SplitSample, buckets: IntArray) -> tuple[SplitSample, ...]:
        """The rows of a half; or those that predicted, and those that observed effects are taken from."""
        whole = sums.part(buckets)
        return (whole,) if self.inner is None else (whole, sums.part(buckets[::2]), sums.part(buckets[1::2]))

    def _effects(
        self,
        sets: tuple[ArmMoments, ...],
        fitted: tuple[ArmMoments, ...],
        in_rest: BoolArray,
        known: KnownEffects | None = None,
    ) -> GroupEffects:
        """Effects of the sets; ``fitted``: the moments that slopes of an adjustment are taken from."""
        pairs = zip(sets[-2:], fitted[-2:], strict=True)
        one, *rest = (effects_of(part, self.formula, in_rest, known, fitted=fit) for part, fit in pairs)
        if self.inner is None:
            return one
        two = rest[0]
        first, second = one.observed_in(two), two.observed_in(one)
        return first.averaged(second) if self.inner == "swapped" else first

    def _draw(self, sets: tuple[SplitSample, ...], rng: np.random.Generator) -> tuple[ArmMoments, ...]:
        return tuple(
            part.resampled(self.resamples, rng)
            if isinstance(part, Clustered)
            else resample_sums(part, self.resamples, rng)
            for part in sets[-2:]
        )

    def _detect(
        self, sets: tuple[SplitSample, ...], rng: np.random.Generator
    ) -> tuple[Detected, Detected, FloatArray, FloatArray]:
        """Errors of the groups and of their rests on the detection rows, predicted effects, statistics of the bias."""
        moments = tuple(part.moments() for part in sets)
        errors = judged(sets[0], self.formula, self.least, self.known)
        effects = self._effects(moments, moments, errors.in_rest, self.known)
        drawn_known = None if self.known is None else self.known.drawn(self.resamples, rng)
        drawn = self._effects(self._draw(sets, rng), moments, errors.in_rest, drawn_known)
        error, rest_error = np.where(errors.usable, effects.error, np.nan), effects.rest_error
        detected = Detected.from_draws(error, drawn.error, errors.error.df)
        rest = Detected.from_draws(rest_error, drawn.rest_error, errors.rest.df)
        gap = Detected.from_draws(error - rest_error, drawn.error - drawn.rest_error)
        with np.errstate(divide="ignore", invalid="ignore"):
            return detected, rest, effects.predicted, gap.error / gap.se

    def _correct(
        self,
        sets: tuple[SplitSample, ...],
        detected: Detected,
        rest: Detected,
        predicted: FloatArray,
        rng: np.random.Generator,
    ) -> Iterator[Remainders]:
        """What remains on held-out rows, strategy by strategy; all strategies see the same replicates."""
        moments = tuple(part.moments() for part in sets)
        held = judged(sets[0], self.formula, self.least)
        replicates = self._draw(sets, rng)
        answered = held.usable & np.isfinite(detected.error)
        for strategy in self.strategies:
            shift = correction(strategy, detected, self.alpha)
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(shift == 0, 0.0, shift / detected.error)
            rest_shift = correction(strategy, rest, self.alpha) if self.single else None
            (error, bias), (error_draws, bias_draws) = (
                [
                    np.where(answered, a, np.nan)
                    for a in self._remaining(m, moments, shift, rest_shift, held.in_rest, predicted)
                ]
                for m in (moments, replicates)
            )
            error_se, bias_se = (np.sqrt(draw_moments(draws)[0]) for draws in (error_draws, bias_draws))
            with np.errstate(divide="ignore", invalid="ignore"):  # the tests (50) and (51) of what remains
                error_pvalue = 2 * t_sf(np.abs(error) / error_se, held.error.df)
                bias_pvalue = 2 * t_sf(np.abs(bias) / bias_se, held.gap.df)
            yield {
                "factor": np.where(answered, share, np.nan),
                "error": error,
                "bias": bias,
                "bias_se": np.where(answered, bias_se, np.nan),
                "bias_df": np.where(answered, held.gap.df, np.nan),
                "error_pvalue": error_pvalue,
                "bias_pvalue": bias_pvalue,
                "error_draws": error_draws,
                "bias_draws": bias_draws,
            }

    def _remaining(
        self,
        sets: tuple[ArmMoments, ...],
        fitted: tuple[ArmMoments, ...],
        shift: FloatArray,
        rest_shift: FloatArray | None,
        in_rest: BoolArray,
        predicted: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Error and bias after subtracting ``shift`` from the predictions of a group, or its share of ``predicted``."""

        def corrected(parts: tuple[ArmMoments, ...]) -> tuple[ArmMoments, ...]:
            if self.form == "additive":
                return tuple(part.shifted(shift) for part in parts)
            return tuple(part.scaled(multiple_of(shift, predicted)) for part in parts)

        effects = self._effects(corrected(sets), corrected(fitted), in_rest)
        rest = effects.rest_error
        if rest_shift is not None:
            rest = self._effects(sets, fitted, in_rest).rest_error - rest_shift
        return effects.error, effects.error - rest


def judged(sample: SplitSample, formula: Formula, least: float, known: KnownEffects | None = None) -> Errors:
    """The errors of a sample under the law that applies to them; ``known``: compared with effects that are given.

    An arm without events shows no spread, and whatever is found in it looks certain: groups that may expect fewer than
    ``least`` events in an arm are not answered, nor those with an arm in which outcomes do not vary.
    """
    if known is not None:
        return errors_of(sample.moments(), formula, known)
    if isinstance(sample, Clustered):
        errors, sums = sample.errors(formula), sample.sums
        events = worth(events_expected(errors, sums, formula), errors, sums, sample.rows)
    else:
        errors, sums = errors_of(sample.moments(), formula), sample
        events = events_expected(errors, sums, formula)
    return errors.without((with_rest(events, errors) < least) | constant_arm(sums), Status.FEW_EVENTS)


def multiple_of(correction: FloatArray, predicted: FloatArray) -> FloatArray:
    """By what to multiply predicted ratios so that their collapsed effect falls by ``correction``; never below 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = 1 - correction / predicted
    return np.where(np.isfinite(multiple) & (predicted > 0), np.maximum(multiple, 0.0), 1.0)


def fewer_squares(remainders: Remainders, none: int, *, clusters: bool) -> FloatArray:
    """P-values of "at least as much squared bias as without correction", one per strategy.

    Given the half that found it, a correction moves each bias by a known amount d: its square falls by 2 d A - d^2,
    which is linear in the bias A on held-out rows, so the noise of A has mean 0 there. Splits reuse rows, and their
    p-values are dependent: twice the median is a p-value whatever the dependence. With ``clusters`` the law is
    Student's, with the degrees of freedom of the group that has fewest.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        decrease = _over_groups(remainders["bias"][none] ** 2 - remainders["bias"] ** 2)
        draws = _over_groups(remainders["bias_draws"][none] ** 2 - remainders["bias_draws"] ** 2)
        fewest = np.min(np.where(np.isfinite(remainders["bias_df"]), remainders["bias_df"], np.inf), axis=-1)
        df = fewest if clusters else np.array(np.inf)
        pvalue = t_sf(decrease / np.std(draws, axis=-1, ddof=1), df)
        idle = np.isfinite(remainders["bias"]).any(-1) & (decrease == 0)  # nothing was corrected in this run
        pvalue = np.where(idle, 1.0, pvalue)
    pvalue[none] = np.nan
    known = np.asarray(np.isfinite(pvalue).all(-1))
    return np.where(known, np.minimum(2 * np.median(np.where(known[:, None], pvalue, 1.0), axis=-1), 1.0), np.nan)


def _over_groups(array: FloatArray) -> FloatArray:
    """Mean over groups (the last axis) that were answered."""
    answered = np.isfinite(array)
    return np.where(answered, array, 0.0).sum(-1) / np.maximum(answered.sum(-1), 1)


# Kernel densities as the paper draws them: Gaussian kernel, twice Silverman's bandwidth, standardized.

REACH = 4.0  # standard deviations drawn on either side of zero
_POINTS, _BINS = 161, 2_400


def densities(samples: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray, float]:
    """Points, the densities of ``samples`` there, and the standard deviation of the first sample, the unit of both.

    NaN is left out.
    """
    at = np.linspace(-REACH, REACH, _POINTS)
    known = [sample[np.isfinite(sample)] for sample in samples]
    scale = float(np.std(known[0])) if len(known[0]) > 1 else np.nan
    if not (np.isfinite(scale) and scale > 0):
        return at, np.full((len(samples), _POINTS), np.nan), np.nan
    return at, np.stack([density(sample / scale, at) for sample in known]), scale


def beside_normal(statistics: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The density of statistics, and the standard normal one, on an axis that holds most of them."""
    known = statistics[np.isfinite(statistics)]
    reach = max(REACH, min(float(np.abs(known).max(initial=0.0)), 3 * REACH))
    at = np.linspace(-reach, reach, _POINTS)
    normal = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
    return at, np.stack([density(known, at) if len(known) > 1 else np.full(at.shape, np.nan), normal])


def density(sample: FloatArray, at: FloatArray) -> FloatArray:
    """Gaussian kernel density at the points ``at``; values are binned first, far finer than the bandwidth."""
    width = 2 * silverman(sample)
    if not width > 0:
        return np.full(at.shape, np.nan)
    edges = np.linspace(-3 * REACH, 3 * REACH, _BINS + 1)
    counts = np.histogram(sample, edges)[0]
    middles = (edges[1:] + edges[:-1]) / 2
    used = counts > 0
    z = (at[:, None] - middles[used]) / width
    return np.exp(-(z**2) / 2) @ counts[used] / (len(sample) * width * np.sqrt(2 * np.pi))


def silverman(sample: FloatArray) -> float:
    """Silverman's rule of thumb (1986, p. 48): 0.9 min(sd, IQR / 1.34) n^(-1/5)."""
    low, high = np.quantile(sample, [0.25, 0.75])
    spread = min(float(np.std(sample)), float(high - low) / 1.34)
    return 0.9 * spread * len(sample) ** -0.2
