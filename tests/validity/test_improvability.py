"""Size and power of the improvability test on designs with known truth.

    python -m pytest tests/validity/test_improvability.py -m validity     checks every line below
    python tests/validity/test_improvability.py > docs/validity/improvability.md      writes the table

One run of K = 7 rounds gives K = 1 too: its first round.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from isonomy.alternatives import evidence as ev
from isonomy.alternatives import rounds, simulate_reruns
from isonomy.alternatives.evidence import Criteria
from isonomy.alternatives.requirements import Plan
from isonomy.alternatives.tally import Table
from isonomy.alternatives.utilities import READY, Utility
from isonomy.frames import Group
from isonomy.numerics.resampling import collapse

ALPHA = 0.05
RESAMPLES = 400
REPLICATIONS = 1000
SHORT = 20


@dataclass(frozen=True)
class Design:
    """A population, the question, and whether the null holds there."""

    name: str
    draw: Callable[[np.random.Generator], Table]
    accuracy: Utility
    fairness: Utility
    groups: int = 2
    fairness_gain: float = 0.0
    fairness_test: str = "two_one_sided"
    null: bool = True

    @property
    def plan(self) -> Plan:
        labels = tuple(f"g={g}" for g in range(self.groups))
        criteria = Criteria(self.accuracy, (self.fairness,), labels, fairness_test=self.fairness_test)
        return Plan(
            criteria=criteria,
            accuracy_gains=(0.0,) * self.groups,
            fairness_gains=(self.fairness_gain,),
            rule=None,
            capacity=None,
            threshold=None,
            train_fraction=0.5,
            resamples=RESAMPLES,
            pvalue_form="add_one",
            min_size=1,
        )


def table(group: np.ndarray, y: np.ndarray, d0: np.ndarray, d1: np.ndarray, groups: int) -> Table:
    """Distinct lines with their counts, as `tally` makes them of rows."""
    cells = collapse([group, y, d0, d1])
    code, y, d0, d1 = cells.values.T
    return Table(
        outcomes={None: y},
        status_quo=d0,
        candidate=d1,
        features={},
        group=code.astype(np.intp),
        groups=tuple(Group((("g", g),)) for g in range(groups)),
        weight=cells.counts.astype(np.int64),
        dropped={},
    )


def classified(
    accuracy: list[tuple[float, float]], selected: list[tuple[float, float]], n: int
) -> Callable[[np.random.Generator], Table]:
    """0/1 outcomes; for each group (status quo, candidate) the classification rate and the selection rate."""

    def draw(rng: np.random.Generator) -> Table:
        group = rng.integers(0, len(accuracy), n)
        y = rng.integers(0, 2, n)
        decisions = []
        for k in (0, 1):
            a, s = np.array(accuracy)[group, k], np.array(selected)[group, k]
            decisions.append(rng.random(n) < np.where(y == 1, s + a - 0.5, s - a + 0.5))
        return table(group, y, decisions[0], decisions[1], len(accuracy))

    return draw


def calibrated(slopes: list[tuple[float, float]], n: int) -> Callable[[np.random.Generator], Table]:
    """Poisson outcomes; decisions rise with the outcome by a slope for each group (status quo, candidate)."""

    def draw(rng: np.random.Generator) -> Table:
        group, y = rng.integers(0, len(slopes), n), rng.poisson(2.0, n)
        chance = [1 / (1 + np.exp(2.2 - np.array(slopes)[group, k] * (y - 1))) for k in (0, 1)]
        return table(group, y, rng.random(n) < chance[0], rng.random(n) < chance[1], len(slopes))

    return draw


RATE, SELECTED, AMONG = READY["accuracy"], READY["selection_rate"], READY["outcome_among_selected"]


def tied(groups: int) -> Callable[[np.random.Generator], Table]:
    """Equal largest gaps: many pairs tie for it under the status quo, one pair has it under the candidate.

    The largest of several tied gaps comes out too large, so a bootstrap of the largest gap sees an improvement.
    """
    half = groups // 2
    before = [0.6] * half + [0.42] * (groups - half)
    after = [0.6] + [0.51] * (groups - 2) + [0.42]
    return classified([(0.6, 0.85)] * groups, list(zip(before, after, strict=True)), 400 * groups)


EQUAL_UNFAIRNESS = classified([(0.62, 0.8)] * 2, [(0.6, 0.6), (0.45, 0.45)], 800)
STEEP = classified([(0.62, 0.85)] * 2, [(0.62, 0.535), (0.38, 0.465)], 800)

DESIGNS = [
    Design(
        "equal accuracy of one group",
        classified([(0.7, 0.7), (0.7, 0.85)], [(0.65, 0.5), (0.4, 0.45)], 800),
        RATE,
        SELECTED,
    ),
    Design("equal accuracy, outcome among selected", calibrated([(0.5, 0.5), (0.0, 0.45)], 3000), AMONG, AMONG),
    Design("equal unfairness", EQUAL_UNFAIRNESS, RATE, SELECTED),
    Design("equal unfairness, 3 groups, ties", tied(3), RATE, SELECTED, groups=3),
    Design("equal unfairness, 6 groups, ties", tied(6), RATE, SELECTED, groups=6),
    Design("unfairness cut by 70 %, 70 % asked for", STEEP, RATE, SELECTED, fairness_gain=1 - 0.07 / 0.24),
]
PAPER = [
    replace(DESIGNS[2], fairness_test="paper", name=f"{DESIGNS[2].name}, the paper's form"),
    replace(DESIGNS[5], fairness_test="paper", name=f"{DESIGNS[5].name}, the paper's form"),
]
POWER = Design(
    "both better: accuracy 0.62 to 0.80, gap 0.30 to 0.03",
    classified([(0.62, 0.8)] * 2, [(0.6, 0.515), (0.3, 0.485)], 800),
    RATE,
    SELECTED,
    null=False,
)


def once(design: Design, rng: np.random.Generator) -> tuple[bool, bool]:
    """Whether one round, and seven rounds, reject on one simulated table."""
    drawn, plan = design.draw(rng), design.plan
    ps = [rounds.one_round(drawn, plan, k, child).pvalue for k, child in enumerate(rng.spawn(7), start=1)]
    return float(ev.combined(ps[:1])) < ALPHA, float(ev.combined(ps)) < ALPHA


def rejections(design: Design, replications: int, seed: int = 2025) -> tuple[int, int]:
    """How often one round, and seven rounds, reject. Every table has its own generator."""
    both = [once(design, rng) for rng in np.random.default_rng(seed).spawn(replications)]
    return sum(one for one, _ in both), sum(seven for _, seven in both)


def naive_rejections(design: Design, replications: int, seed: int = 2025) -> int:
    """What the bootstrap of the largest gap over pairs would do (one round; the fairness component alone)."""
    count = 0
    criteria = design.plan.criteria
    for rng in np.random.default_rng(seed).spawn(replications):
        drawn = design.draw(rng)
        values = ev.summands(criteria.utilities, {}, drawn.outcomes, (drawn.status_quo, drawn.candidate))
        observed = ev.group_sums(values, drawn.group, drawn.weight, design.groups)
        draws = ev.resampled_sums(values, drawn.group, drawn.weight, design.groups, RESAMPLES, rng)
        worst = [criteria.unfairness(criteria.gaps(ev.rates_of(sums), 0)).max(axis=-1) for sums in (observed, draws)]
        gain, gains = worst[0][0] - worst[0][1], worst[1][:, 0] - worst[1][:, 1]
        count += (1 + (gains - gain >= gain).sum()) / (1 + RESAMPLES) < ALPHA
    return int(count)


def limit(replications: int) -> float:
    """alpha + 3 standard errors of the simulated share."""
    return ALPHA + 3 * float(np.sqrt(ALPHA * (1 - ALPHA) / replications))


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
def test_size_short(design: Design) -> None:
    one, seven = rejections(design, SHORT)
    assert one / SHORT <= limit(SHORT)
    assert seven / SHORT <= limit(SHORT)


def test_power_short() -> None:
    one, seven = rejections(POWER, 20)
    assert one >= 14
    assert seven >= 14


@pytest.mark.validity
@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
def test_size(design: Design) -> None:
    one, seven = rejections(design, REPLICATIONS)
    assert one / REPLICATIONS <= limit(REPLICATIONS)
    assert seven / REPLICATIONS <= limit(REPLICATIONS)


@pytest.mark.validity
def test_power() -> None:
    one, seven = rejections(POWER, REPLICATIONS)
    assert one / REPLICATIONS > 0.8
    assert seven / REPLICATIONS > 0.8


@pytest.mark.validity
def test_the_papers_form_over_rejects() -> None:
    """The reason for two one-sided questions; if this fails the paper's form could be the default again."""
    one, _ = rejections(PAPER[1], REPLICATIONS)
    assert one / REPLICATIONS > limit(REPLICATIONS)


def report(replications: int) -> None:
    """The table of docs/validity/improvability.md."""
    print("# Validity of the improvability test\n")
    print(f"Made by `python {sys.argv[0]} {replications}`: share of {replications:,} simulated tables in which the")
    print(f"test rejects at alpha = {ALPHA}, {RESAMPLES} resamples a round. Under a null at most")
    print(f"{limit(replications):.3f} (alpha + 3 standard errors) is expected.\n")
    print("| design | truth | K = 1 | K = 7 |\n|---|---|---|---|")
    for design in (*DESIGNS, *PAPER, POWER):
        one, seven = rejections(design, replications)
        truth = "null, boundary" if design.null else "alternative"
        print(f"| {design.name} | {truth} | {one / replications:.3f} | {seven / replications:.3f} |", flush=True)
    for design in DESIGNS[3:5]:
        share = naive_rejections(design, replications) / replications
        name = f"{design.name}, bootstrap of the largest gap (fairness alone)"
        print(f"| {name} | null, boundary | {share:.3f} | not run |", flush=True)
    print("\n## Analysts who re-run the test until it rejects\n")
    print(
        "Share of 10,000 simulated tables with a false rejection, p-values of splits correlated on the normal scale.\n"
    )
    print("| re-runs | correlation | one split | median of 7 |\n|---|---|---|---|")
    rng = np.random.default_rng(1)
    for correlation in (0.0, 0.5, 0.9):
        for reruns in (1, 10, 50):
            shares = [
                simulate_reruns(reruns, splits=k, correlation=correlation, replications=10_000, rng=rng) for k in (1, 7)
            ]
            print(f"| {reruns} | {correlation} | {shares[0]:.3f} | {shares[1]:.3f} |", flush=True)


if __name__ == "__main__":
    report(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS)
