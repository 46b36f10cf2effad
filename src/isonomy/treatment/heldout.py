"""Corrections found on one half of the rows and judged on the other, for one partition into groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.frames import Group
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.treatment.estimate import Estimates, estimate, values
from isonomy.treatment.mitigate import Detected, factor
from isonomy.treatment.moments import Moments
from isonomy.treatment.plan import Plan
from isonomy.treatment.ratio import Gap, t_tail
from isonomy.treatment.resample import draw_moments, resample_cells
from isonomy.treatment.tally import Cells


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """One partition's runs; arrays (strategy, run, group) but for the detection statistic (run, group)."""

    groups: tuple[Group, ...]
    n: FloatArray
    status: tuple[Status, ...]
    factor: FloatArray
    error: FloatArray
    bias: FloatArray
    error_pvalue: FloatArray
    bias_pvalue: FloatArray
    statistic: FloatArray
    error_draws: list[list[FloatArray]]  # by strategy, then run: (replicate, group)
    bias_draws: list[list[FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Splits and swaps of one partition: what to correct by, and what to judge."""

    cells: Cells
    plan: Plan
    strategies: tuple[str, ...]
    rest_correction: str
    alpha: float = 0.05  # of the strategy "significant"

    def run(self, halves: list[tuple[Any, Any]], rng: np.random.Generator, progress: bool) -> Runs:
        """All splits and swaps."""
        keep = len(self.cells.groups)
        moments = self.cells.moments()
        whole = estimate(moments, self.plan)
        shape = (len(self.strategies), len(halves), keep)
        made = {name: np.full(shape, np.nan) for name in ("factor", "error", "bias", "error_pvalue", "bias_pvalue")}
        statistic = np.full(shape[1:], np.nan)
        draws: dict[str, list[list[FloatArray]]] = {k: [[] for _ in self.strategies] for k in ("error", "bias")}
        for i, (detection, mitigation) in enumerate(_tracked(halves, progress)):
            first, second = self.cells.part(detection), self.cells.part(mitigation)
            detected, rest_detected, statistic[i] = self._detect(first, rng, keep)
            for s, (outcome, remaining) in enumerate(self._correct(second, detected, rest_detected, rng)):
                for name, array in outcome.items():
                    made[name][s, i] = array[:keep]
                for name, array in remaining.items():
                    draws[name][s].append(array[:, :keep])
        return Runs(
            self.cells.groups,
            moments.n.sum(-1)[:keep],
            whole.status[:keep],
            **made,
            statistic=statistic,
            error_draws=draws["error"],
            bias_draws=draws["bias"],
        )

    def _detect(self, part: Cells, rng: np.random.Generator, keep: int) -> tuple[Detected, Detected, FloatArray]:
        """Errors of the groups and of their rests on the detection rows, and the statistic of their bias."""
        found = estimate(part.moments(), self.plan)
        drawn = values(resample_cells(part, self.plan.resamples, rng), self.plan, found.in_rest)
        error = np.where(found.usable, found.effects.error, np.nan)
        detected = Detected.from_draws(error, drawn.error, found.error.df)
        rest = Detected.from_draws(found.effects.rest_error, drawn.rest_error, found.rest.df)
        gap = Detected.from_draws(error - found.effects.rest_error, drawn.error - drawn.rest_error)
        with np.errstate(divide="ignore", invalid="ignore"):
            return detected, rest, (gap.error / gap.se)[:keep]

    def _correct(
        self, part: Cells, detected: Detected, rest_detected: Detected, rng: np.random.Generator
    ) -> Iterable[tuple[dict[str, FloatArray], dict[str, FloatArray]]]:
        """What remains on held-out rows, strategy by strategy; all strategies see the same replicates."""
        moments = part.moments()
        held = estimate(moments, self.plan)
        replicates = resample_cells(part, self.plan.resamples, rng)
        answered = held.usable & np.isfinite(detected.error)
        for strategy in self.strategies:
            gamma = factor(strategy, detected, self.alpha)
            shift = np.nan_to_num(gamma * detected.error)
            rest_shift = None
            if self.rest_correction == "single":
                rest_shift = np.nan_to_num(factor(strategy, rest_detected, self.alpha) * rest_detected.error)
            point, drawn = (
                [np.where(answered, a, np.nan) for a in self._remaining(m, shift, rest_shift, held.in_rest)]
                for m in (moments, replicates)
            )
            yield (
                {"factor": np.where(answered, gamma, np.nan), **_tested(point, drawn, held)},
                {
                    "error": drawn[0],
                    "bias": drawn[1],
                },
            )

    def _remaining(
        self, moments: Moments, shift: FloatArray, rest_shift: FloatArray | None, in_rest: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Error and bias after subtracting ``shift`` from every prediction of a group."""
        effects = values(moments.shifted(shift), self.plan, in_rest)
        rest = effects.rest_error
        if rest_shift is not None:
            rest = values(moments, self.plan, in_rest).rest_error - rest_shift
        return effects.error, effects.error - rest


def _tested(point: list[FloatArray], drawn: list[FloatArray], held: Estimates) -> dict[str, FloatArray]:
    """What remains and the p-values of (50) and (51), with the bootstrap's standard errors."""
    made: dict[str, FloatArray] = {}
    laws = (held.error.df, Gap(held.error, held.rest).df)
    for name, value, draws, df in zip(("error", "bias"), point, drawn, laws, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            made |= {name: value, f"{name}_pvalue": 2 * t_tail(np.abs(value) / np.sqrt(draw_moments(draws)[0]), df)}
    return made


def _tracked(halves: list[tuple[Any, Any]], progress: bool) -> Iterable[tuple[Any, Any]]:
    if not progress:
        return halves
    from rich.progress import track

    return track(halves, description="Splits and swaps")
