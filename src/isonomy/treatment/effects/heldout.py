"""Corrections found on one half of the rows and judged on the other, for one partition into groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.treatment.effects.collapse import Formula
from isonomy.treatment.effects.errors import effects_of, errors_of
from isonomy.treatment.effects.moments import Moments
from isonomy.treatment.effects.ratio import Gap, t_tail
from isonomy.treatment.effects.resample import draw_moments, resample_sums
from isonomy.treatment.effects.shrinkage import Detected, Strategy, factor
from isonomy.treatment.effects.sums import Sums

Halves = tuple[IntArray, IntArray]  # the buckets that find corrections, and those that judge them


@dataclass(frozen=True, slots=True, eq=False)
class Remainders:
    """What remains after correction. One entry per group on the last axis, `joined`: after strategy and run."""

    factor: FloatArray
    error: FloatArray
    bias: FloatArray
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
    strategies: tuple[Strategy, ...]
    single: bool  # one factor for the whole rest, instead of each group's own
    resamples: int
    alpha: float  # of the strategy "significant"

    def run(
        self, sums: Sums, size: int, halves: Iterable[Halves], rng: np.random.Generator
    ) -> tuple[Remainders, FloatArray]:
        """What remains of the first ``size`` groups in every run, and the statistics (run, group) of bias before."""
        runs, statistics = [], []
        for detection, mitigation in halves:
            detected, rest, statistic = self._detect(sums.part(detection), rng)
            statistics.append(statistic)
            runs.append(list(self._correct(sums.part(mitigation), detected, rest, rng)))
        return Remainders.joined(runs, size), np.array(statistics)[:, :size]

    def _detect(self, part: Sums, rng: np.random.Generator) -> tuple[Detected, Detected, FloatArray]:
        """Errors of the groups and of their rests on the detection rows, and the statistic of their bias."""
        errors = errors_of(part.moments(), self.formula)
        drawn = effects_of(resample_sums(part, self.resamples, rng), self.formula, errors.in_rest)
        error, rest_error = np.where(errors.usable, errors.effects.error, np.nan), errors.effects.rest_error
        detected = Detected.from_draws(error, drawn.error, errors.error.df)
        rest = Detected.from_draws(rest_error, drawn.rest_error, errors.rest.df)
        gap = Detected.from_draws(error - rest_error, drawn.error - drawn.rest_error)
        with np.errstate(divide="ignore", invalid="ignore"):
            return detected, rest, gap.error / gap.se

    def _correct(
        self, part: Sums, detected: Detected, rest: Detected, rng: np.random.Generator
    ) -> Iterator[Remainders]:
        """What remains on held-out rows, strategy by strategy; all strategies see the same replicates."""
        moments = part.moments()
        held = errors_of(moments, self.formula)
        replicates = resample_sums(part, self.resamples, rng)
        answered = held.usable & np.isfinite(detected.error)
        for strategy in self.strategies:
            gamma = factor(strategy, detected, self.alpha)
            shift = np.nan_to_num(gamma * detected.error)
            rest_shift = None
            if self.single:
                rest_shift = np.nan_to_num(factor(strategy, rest, self.alpha) * rest.error)
            (error, bias), (error_draws, bias_draws) = (
                [np.where(answered, a, np.nan) for a in self._remaining(m, shift, rest_shift, held.in_rest)]
                for m in (moments, replicates)
            )
            yield Remainders(
                factor=np.where(answered, gamma, np.nan),
                error=error,
                bias=bias,
                error_pvalue=_pvalue(error, error_draws, held.error.df),
                bias_pvalue=_pvalue(bias, bias_draws, Gap(held.error, held.rest).df),
                error_draws=error_draws,
                bias_draws=bias_draws,
            )

    def _remaining(
        self, moments: Moments, shift: FloatArray, rest_shift: FloatArray | None, in_rest: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Error and bias after subtracting ``shift`` from every prediction of a group."""
        effects = effects_of(moments.shifted(shift), self.formula, in_rest)
        rest = effects.rest_error
        if rest_shift is not None:
            rest = effects_of(moments, self.formula, in_rest).rest_error - rest_shift
        return effects.error, effects.error - rest


def _pvalue(value: FloatArray, draws: FloatArray, df: FloatArray) -> FloatArray:
    """The tests (50) and (51) of what remains, with the bootstrap's standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2 * t_tail(np.abs(value) / np.sqrt(draw_moments(draws)[0]), df)
