"""Tables 1 to 3 of the paper: coverage, also of the bootstrap (500 resamples), cost, false flagging rate and power.

    python papers/groups_tables.py [replications]

The designs of Table 3 are those of studies/groups.py. The script prints the published numbers next to ours.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from isonomy.groups.likelihood.means import Real
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.tails import chi2_isf
from studies.groups import TABLE_1, TABLE_3, flagging

SIZES = (2_000, 4_000, 8_000)
# Coverage of the bootstrap, in the order of Table 1.
BOOTSTRAP = (
    *(0.9, 0.904, 0.8985, 0.9285, 0.9125, 0.917, 0.933, 0.929, 0.928),
    *(0.894, 0.9125, 0.8985, 0.9145, 0.8965, 0.898, 0.925, 0.918, 0.915),
)


def certified_coverage(model: str, m: int, n: int, replications: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often the joint EL and EEL regions cover the true disparities; solves many tables at once."""
    el, eel = [], []
    block = max(1, 2_000_000 // n)
    for start in range(0, replications, block):
        tables = min(block, replications - start)
        x = rng.random((tables, n))
        scale = np.ones_like(x) if model == "5.1" else np.sqrt(x)
        loss = (scale * rng.standard_normal((tables, n))) ** 2
        group = np.minimum((x * m).astype(int), m - 1) + m * np.arange(tables)[:, None]
        truth = np.ones(m) if model == "5.1" else (2 * np.arange(1, m + 1) - 1) / (2 * m)
        means = Real(Ragged.from_codes(group.ravel(), m * tables, loss.ravel()))
        at = np.tile(truth, tables)
        statistic = means.statistic(at, np.arange(m * tables)).reshape(tables, m).sum(axis=1)
        total = means.n * (means.mean - at)
        second = means.n * (means.variance + (means.mean - at) ** 2)
        tu = (total**2 / second).reshape(tables, m).sum(axis=1)
        el.append(statistic <= chi2_isf(0.05, m))
        eel.append(tu / (1 - tu / n) <= chi2_isf(0.05, m))
    return float(np.mean(np.concatenate(el))), float(np.mean(np.concatenate(eel)))


def critical_value(loss: FloatArray, group: IntArray, m: int, resamples: int, rng: np.random.Generator) -> float:
    """The 95 % quantile over resamples of max_j P_j P*_j (e*_j - e_j), with group means e and group shares P.

    The group counts of rows drawn with replacement are multinomial, and each draw within a group is any of its rows
    with equal probability. P*_j (e*_j - e_j) is the sum of the deviations of these draws from e_j, divided by n.
    """
    n = loss.size
    count = np.bincount(group, minlength=m)
    drawn = rng.multinomial(n, count / n, resamples)
    largest = np.full(resamples, -np.inf)
    for j in range(m):
        centered = loss[group == j] - loss[group == j].mean()
        draws = centered[rng.integers(0, count[j], drawn[:, j].sum(), dtype=np.uint32)]
        sums = np.add.reduceat(draws, np.cumsum(drawn[:, j]) - drawn[:, j])  # with 200 rows or more, none is empty
        largest = np.maximum(largest, count[j] / n * sums / n)
    return float(np.sort(largest)[int(np.ceil(resamples * 0.95)) - 1])


def bootstrap_coverage(model: str, m: int, n: int, replications: int, rng: np.random.Generator) -> float:
    """Cherian and Candès' bootstrap region as used in the paper, with 500 resamples: all |error_j| <= t / P_j²."""
    covered = []
    truth = np.ones(m) if model == "5.1" else (2 * np.arange(1, m + 1) - 1) / (2 * m)
    for _ in range(replications):
        x = rng.random(n)
        loss = (rng.standard_normal(n) * (1 if model == "5.1" else np.sqrt(x))) ** 2
        group = np.minimum((x * m).astype(int), m - 1)
        count = np.bincount(group, minlength=m)
        mean = np.bincount(group, weights=loss, minlength=m) / count
        t = critical_value(loss, group, m, 500, rng)
        covered.append(bool((np.abs(mean - truth) <= t / (count / n) ** 2).all()))
    return float(np.mean(covered))


def table_1(replications: int) -> None:
    rng = np.random.default_rng(1)
    print(f"Table 1: coverage of joint 95 % regions, {replications:,} replications (published / ours)")
    print("model   m      n   bootstrap           EL                  EEL")
    designs = [(model, m, n, el[k], eel[k]) for model, m, el, eel in TABLE_1 for k, n in enumerate(SIZES)]
    for (model, m, n, el, eel), bootstrap in zip(designs, BOOTSTRAP, strict=True):
        ours = certified_coverage(model, m, n, replications, rng)
        boot = bootstrap_coverage(model, m, n, replications, rng)
        print(
            f"{model:5}{m:>4}{n:>7}   {bootstrap:.4f} / {boot:.4f}     {el:.4f} / {ours[0]:.4f}"
            f"     {eel:.4f} / {ours[1]:.4f}",
            flush=True,
        )


def table_2() -> None:
    print("\nTable 2: minutes for 2,000 replications, EL and EEL together (published EL / ours, scaled from 200)")
    for m, n, published in (
        (2, 400, 0.2926),
        (2, 4000, 0.9382),
        (5, 4000, 5.8104),
        (10, 400, 5.5183),
        (10, 4000, 28.2695),
    ):
        start = time.process_time()
        certified_coverage("5.1", m, n, 200, np.random.default_rng(2))
        ours = (time.process_time() - start) * 10 / 60
        print(f"m = {m:<3} n = {n:<5} {published:8.4f} / {ours:.4f}   ({published / ours:,.0f} times)")


def table_3(replications: int) -> None:
    rng = np.random.default_rng(3)
    print(f"\nTable 3: n = 1000, {replications:,} replications (published / ours)\ntau      FFR                 power")
    for tau, (ffr, power) in TABLE_3.items():
        ours = flagging(rng, replications, tau).mean(axis=0)
        print(f"{tau:5.2f}    {ffr:.4f} / {ours[0]:.4f}     {power:.4f} / {ours[1]:.4f}")


if __name__ == "__main__":
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    table_1(chosen)
    table_2()
    table_3(chosen)
