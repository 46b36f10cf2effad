"""Size and power of the improvability test, `improvability`, on designs with known truth.

    python -m studies.alternatives [--tables N] [--only TEXT]        writes docs/validity/improvability.md

One run of K = 7 rounds gives K = 1 too: its first round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.alternatives import simulate_reruns
from isonomy.numerics.arrays import FloatArray
from studies.lines import Asked, Line, Page, Run, Section, at_most, each, main, rejected

TABLES = 1_000
RESAMPLES = 400
Columns = dict[str, Any]


def classified(
    rng: np.random.Generator, accuracy: list[tuple[float, float]], selected: list[tuple[float, float]], rows: int
) -> Columns:
    """0/1 outcomes; for each group (status quo, candidate) the share classified rightly and the share selected."""
    group = rng.integers(0, len(accuracy), rows)
    y = rng.integers(0, 2, rows)
    decisions = []
    for k in (0, 1):
        a, s = np.array(accuracy)[group, k], np.array(selected)[group, k]
        decisions.append((rng.random(rows) < np.where(y == 1, s + a - 0.5, s - a + 0.5)).astype(int))
    return {"g": group, "y": y, "d0": decisions[0], "d1": decisions[1]}


def rising(rng: np.random.Generator, slopes: list[tuple[float, float]], rows: int) -> Columns:
    """Poisson outcomes; decisions rise with the outcome by a slope for each group (status quo, candidate)."""
    group, y = rng.integers(0, len(slopes), rows), rng.poisson(2.0, rows)
    chance = [1 / (1 + np.exp(2.2 - np.array(slopes)[group, k] * (y - 1))) for k in (0, 1)]
    decisions = [(rng.random(rows) < c).astype(int) for c in chance]
    return {"g": group, "y": y, "d0": decisions[0], "d1": decisions[1]}


def tied(groups: int) -> Callable[[np.random.Generator], Columns]:
    """Equal largest gaps: many pairs tie for it under the status quo, one pair has it under the candidate.

    The largest of several tied gaps comes out too large, so a bootstrap of the largest gap sees an improvement.
    """
    half = groups // 2
    before = [0.6] * half + [0.42] * (groups - half)
    after = [0.6] + [0.51] * (groups - 2) + [0.42]
    pairs = list(zip(before, after, strict=True))
    return partial(classified, accuracy=[(0.6, 0.85)] * groups, selected=pairs, rows=400 * groups)


@dataclass(frozen=True)
class Design:
    """A population and the question asked of it."""

    draw: Callable[[np.random.Generator], Columns]
    options: dict[str, Any] = field(default_factory=dict)

    def ask(self, rng: np.random.Generator) -> list[float]:
        """Whether one round, and seven rounds, reject on one table."""
        options = {"accuracy": "accuracy", "fairness": "selection_rate"} | self.options
        result = iso.improvability(
            self.draw(rng),
            outcome="y",
            groups="g",
            status_quo="d0",
            candidate="d1",
            splits=7,
            resamples=RESAMPLES,
            min_size=1,
            rng=rng,
            **options,
        )
        return [float(rejected(result.round_pvalues[0])), float(rejected(result.pvalue))]


def largest_gap(rng: np.random.Generator, groups: int) -> float:
    """Whether a bootstrap of the largest gap over pairs would reject (the fairness component alone)."""
    columns = tied(groups)(rng)
    cells = np.zeros((groups, 4))  # of each group: d0, d1 = 00, 01, 10, 11
    np.add.at(cells, (columns["g"], 2 * columns["d0"] + columns["d1"]), 1)
    rows = cells.sum(axis=1)
    draws = np.stack([rng.multinomial(int(n), c / n, size=RESAMPLES) for n, c in zip(rows, cells, strict=True)], axis=1)

    def gain(counts: Any) -> Any:
        before, after = (counts[..., k].sum(axis=-1) / rows for k in ([2, 3], [1, 3]))
        return np.ptp(before, axis=-1) - np.ptp(after, axis=-1)

    observed = float(gain(cells))
    p = (1 + (gain(draws) - observed >= observed).sum()) / (1 + RESAMPLES)
    return float(rejected(p))


EQUAL_UNFAIRNESS = partial(classified, accuracy=[(0.62, 0.8)] * 2, selected=[(0.6, 0.6), (0.45, 0.45)], rows=800)
STEEP = partial(classified, accuracy=[(0.62, 0.85)] * 2, selected=[(0.62, 0.535), (0.38, 0.465)], rows=800)
AMONG = {"accuracy": "outcome_among_selected", "fairness": "outcome_among_selected"}
CUT = {"fairness_gain": 1 - 0.07 / 0.24}

NULLS = {
    "equal accuracy of one group": Design(
        partial(classified, accuracy=[(0.7, 0.7), (0.7, 0.85)], selected=[(0.65, 0.5), (0.4, 0.45)], rows=800)
    ),
    "equal accuracy, outcome among selected": Design(
        partial(rising, slopes=[(0.5, 0.5), (0.0, 0.45)], rows=3_000), AMONG
    ),
    "equal unfairness": Design(EQUAL_UNFAIRNESS),
    "equal unfairness, 3 groups, ties": Design(tied(3)),
    "equal unfairness, 6 groups, ties": Design(tied(6)),
    "unfairness cut by 70 %, 70 % asked for": Design(STEEP, CUT),
}
# For comparison: the reason for two one-sided questions. If it kept its level the paper's form could be the default.
PAPER = {
    "equal unfairness, the paper's form": Design(EQUAL_UNFAIRNESS, {"fairness_test": "paper"}),
    "unfairness cut by 70 %, 70 % asked for, the paper's form": Design(STEEP, CUT | {"fairness_test": "paper"}),
}
BETTER = {
    "both better: accuracy 0.62 to 0.80, gap 0.30 to 0.03": Design(
        partial(classified, accuracy=[(0.62, 0.8)] * 2, selected=[(0.6, 0.515), (0.3, 0.485)], rows=800)
    ),
}


def line(name: str, truth: str, asked: Asked | None, draw: Callable[[np.random.Generator], Any]) -> Run:
    """A run that fills one line; the same is asked of one round and of seven."""
    return Run((Line((name, truth), (asked, asked)),), each(draw), TABLES)


def with_one_round(outcomes: FloatArray) -> list[Any]:
    """One round only."""
    return [float(outcomes.mean()), "not run"]


def reruns(rng: np.random.Generator, tables: int, times: int, correlation: float) -> FloatArray:
    """How often an analyst who may run the test so often gets a rejection under the null: one split, and seven."""
    shares = [
        simulate_reruns(times, splits=splits, correlation=correlation, replications=tables, rng=rng)
        for splits in (1, 7)
    ]
    return np.tile(shares, (tables, 1))


NULL, ALTERNATIVE = "null, boundary", "alternative"
NAIVE = "equal unfairness, {} groups, ties, bootstrap of the largest gap (fairness alone)"
PAGE = Page(
    "improvability",
    (
        Section(
            "Size and power",
            ("design", "truth"),
            ("K = 1", "K = 7"),
            (
                *(line(name, NULL, at_most(0.05), design.ask) for name, design in NULLS.items()),
                *(line(name, NULL, None, design.ask) for name, design in PAPER.items()),
                *(
                    line(name, ALTERNATIVE, Asked(0.8, "least", exact=True), design.ask)
                    for name, design in BETTER.items()
                ),
                *(
                    Run((Line((NAIVE.format(k), NULL)),), each(partial(largest_gap, groups=k)), TABLES, with_one_round)
                    for k in (3, 6)
                ),
            ),
        ),
        Section(
            "Analysts who re-run the test until it rejects",
            ("re-runs", "correlation"),
            ("one split", "median of 7"),
            tuple(
                Run(
                    (Line((str(times), f"{correlation:.1f}"), (None, at_most(0.05))),),
                    partial(reruns, times=times, correlation=correlation),
                    10_000,
                )
                for correlation in (0.0, 0.5, 0.9)
                for times in (1, 10, 50)
            ),
        ),
    ),
)


if __name__ == "__main__":
    main(PAGE)
