"""Corrections found on one half of the rows and judged on the other, for one partition into groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_sf
from isonomy.treatment.effects.clusters import Clustered
from isonomy.treatment.effects.collapse import Formula
from isonomy.treatment.effects.errors import (
    Effects,
    Errors,
    KnownEffects,
    constant_arm,
    effects_of,
    errors_of,
    events_expected,
    with_rest,
    worth,
)
from isonomy.treatment.effects.moments import Moments
from isonomy.treatment.effects.resample import draw_moments, resample_sums
from isonomy.treatment.effects.shrinkage import AnyStrategy, Detected, Form, correction
from isonomy.treatment.effects.sums import Sums

Inner = Literal["independent", "swapped"]
Halves = tuple[IntArray, IntArray]  # the buckets that find corrections, and those that judge them
Sample = Sums | Clustered


@dataclass(frozen=True, slots=True, eq=False)
class Remainders:
    """What remains after correction. One entry per group on the last axis, `joined`: after strategy and run."""

    factor: FloatArray  # the share of the detected error that was subtracted
    error: FloatArray
    bias: FloatArray
    bias_se: FloatArray
    bias_df: FloatArray
    error_pvalue: FloatArray
    bias_pvalue: FloatArray
    error_draws: FloatArray  # one axis more, before the last: the resample
    bias_draws: FloatArray

    @classmethod
    def joined(cls, runs: list[list[Remainders]], size: int) -> Remainders:
        """Runs, each of several strategies, as arrays with the axes strategy and run; the first ``size`` groups."""
        arrays = (np.array([[getattr(one, part.name) for one in run] for run in runs]) for part in fields(cls))
        return cls(*(array.swapaxes(0, 1)[..., :size] for array in arrays))

    @classmethod
    def beside(cls, parts: Sequence[Remainders]) -> Remainders:
        """The groups of several partitions, one after another."""
        return cls(*(np.concatenate([getattr(p, part.name) for p in parts], axis=-1) for part in fields(cls)))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """How corrections are found and judged."""

    formula: Formula
    strategies: tuple[AnyStrategy, ...]
    single: bool  # one factor for the whole rest, instead of each group's own
    resamples: int
    alpha: float  # of the strategy "significant"
    form: Form = "additive"
    inner: Inner | None = None  # predicted and observed effects from different rows of each half
    known: KnownEffects | None = None  # effects that corrections are found with; what remains is judged on rows
    least: float = 0.0  # groups that may expect fewer events in an arm of a half take no part in it

    def run(
        self, sums: Sample, size: int, halves: Iterable[Halves], rng: np.random.Generator
    ) -> tuple[Remainders, FloatArray]:
        """What remains of the first ``size`` groups in every run, and the statistics (run, group) of bias before."""
        runs, statistics = [], []
        for detection, mitigation in halves:
            detected, rest, predicted, statistic = self._detect(self._sets(sums, detection), rng)
            statistics.append(statistic)
            runs.append(list(self._correct(self._sets(sums, mitigation), detected, rest, predicted, rng)))
        return Remainders.joined(runs, size), np.array(statistics)[:, :size]

    def _sets(self, sums: Sample, buckets: IntArray) -> tuple[Sample, ...]:
        """The rows of a half; or those that predicted, and those that observed effects are taken from."""
        whole = sums.part(buckets)
        return (whole,) if self.inner is None else (whole, sums.part(buckets[::2]), sums.part(buckets[1::2]))

    def _effects(
        self,
        sets: tuple[Moments, ...],
        fitted: tuple[Moments, ...],
        in_rest: BoolArray,
        known: KnownEffects | None = None,
    ) -> Effects:
        """Effects of the sets; ``fitted``: the moments that slopes of an adjustment are taken from."""
        pairs = zip(sets[-2:], fitted[-2:], strict=True)
        one, *rest = (effects_of(part, self.formula, in_rest, known, fitted=fit) for part, fit in pairs)
        if self.inner is None:
            return one
        two = rest[0]
        first, second = one.observed_in(two), two.observed_in(one)
        return first.averaged(second) if self.inner == "swapped" else first

    def _draw(self, sets: tuple[Sample, ...], rng: np.random.Generator) -> tuple[Moments, ...]:
        return tuple(
            part.resampled(self.resamples, rng)
            if isinstance(part, Clustered)
            else resample_sums(part, self.resamples, rng)
            for part in sets[-2:]
        )

    def _detect(
        self, sets: tuple[Sample, ...], rng: np.random.Generator
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
        sets: tuple[Sample, ...],
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
            yield Remainders(
                factor=np.where(answered, share, np.nan),
                error=error,
                bias=bias,
                bias_se=np.where(answered, bias_se, np.nan),
                bias_df=np.where(answered, held.gap.df, np.nan),
                error_pvalue=_pvalue(error, error_se, held.error.df),
                bias_pvalue=_pvalue(bias, bias_se, held.gap.df),
                error_draws=error_draws,
                bias_draws=bias_draws,
            )

    def _remaining(
        self,
        sets: tuple[Moments, ...],
        fitted: tuple[Moments, ...],
        shift: FloatArray,
        rest_shift: FloatArray | None,
        in_rest: BoolArray,
        predicted: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Error and bias after subtracting ``shift`` from the predictions of a group, or its share of ``predicted``."""

        def corrected(parts: tuple[Moments, ...]) -> tuple[Moments, ...]:
            if self.form == "additive":
                return tuple(part.shifted(shift) for part in parts)
            return tuple(part.scaled(multiple_of(shift, predicted)) for part in parts)

        effects = self._effects(corrected(sets), corrected(fitted), in_rest)
        rest = effects.rest_error
        if rest_shift is not None:
            rest = self._effects(sets, fitted, in_rest).rest_error - rest_shift
        return effects.error, effects.error - rest


def judged(sample: Sample, formula: Formula, least: float, known: KnownEffects | None = None) -> Errors:
    """The errors of a sample with the laws that they are held against; ``known``: against effects that were brought.

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


def _pvalue(value: FloatArray, se: FloatArray, df: FloatArray) -> FloatArray:
    """The tests (50) and (51) of what remains, with the bootstrap's standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2 * t_sf(np.abs(value) / se, df)
