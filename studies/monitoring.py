"""`monitor` on batches whose truth is known: error rates over whole lives, coverage, alarms, times to detection.

python -m studies.monitoring [--tables N] [--only TEXT]        writes docs/monitoring/simulations.md

Every table is the whole life of a monitor. Lives are simulated side by side, with the mathematics that `monitor` uses
and its rules: strata of at least 20 rows, a start after 10 cases and 10 others, groups of at least 10 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from isonomy.inference.effect import too_skewed
from isonomy.monitoring.monitor import late_shares
from isonomy.monitoring.sequences import alarm, exact
from isonomy.monitoring.sequences.score import (
    BUCKETS,
    MeanSequence,
    PeopleSequence,
    RateSequence,
    bucket_spread,
    bucket_terms,
    log_evidence,
)
from isonomy.monitoring.sequences.strata import close, sum_strata
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import normal_isf
from studies.lines import Asked, Line, Page, Run, Section, at_most, main

ALPHA, LIMIT = 0.05, np.log(20.0)
FIVE, FOUR = (0.4, 0.25, 0.2, 0.1, 0.05), (0.55, 0.25, 0.15, 0.05)
TWENTY = tuple(np.arange(20, 0, -1) / 210)


@dataclass(frozen=True)
class Design:
    """Batches of people: shares of the groups, rows of a batch, base rate, and what moves.

    ``batch`` 0 stands for lognormal sizes (median 100, standard deviation of the logarithm 1.2). ``swing``: the base
    rate moves by so much, and the share of the last group with it. ``gaps`` are added to (or, for ``ratio``, multiply)
    the base rate of each group, from batch ``start`` on; ``moving``: they move by so much.
    """

    shares: Sequence[float]
    batch: int
    rate: float
    looks: int = 500
    swing: float = 0.0
    gaps: Sequence[float] | None = None
    ratio: bool = False
    moving: float = 0.0
    start: int = 0
    together: bool = True  # whether the shares move with the base rate

    def draw(self, rng: np.random.Generator, tables: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows and cases of each group, and its rate: looks x tables x groups."""
        groups = len(self.shares)
        wave = np.sin(2 * np.pi * np.arange(self.looks) / 50)
        shares = np.tile(np.asarray(self.shares, dtype=float), (self.looks, 1))
        if self.swing and self.together:
            shares[:, -1] *= 1 + 0.8 * wave
            shares /= shares.sum(axis=1, keepdims=True)
        size = np.full((self.looks, tables), self.batch)
        if not self.batch:
            size = np.maximum(rng.lognormal(np.log(100), 1.2, size.shape), 1).astype(int)
        n = rng.multinomial(size, shares[:, None]) if groups > 1 else size[..., None]
        rate = np.tile((self.rate + self.swing * wave)[:, None], (1, groups))
        if self.gaps is not None:
            slow = self.moving * np.sin(2 * np.pi * np.arange(self.looks) / 170)[:, None]
            gaps = np.asarray(self.gaps) + slow * (np.asarray(self.gaps) != (1.0 if self.ratio else 0.0))
            shifted = rate * gaps if self.ratio else rate + gaps
            rate = np.where(np.arange(self.looks)[:, None] >= self.start, shifted, rate)
        rates = np.broadcast_to(rate[:, None], n.shape)
        return n.astype(float), rng.binomial(n, rates).astype(float), rates


def batches(n1: FloatArray, s1: FloatArray, n0: FloatArray, s0: FloatArray) -> FloatArray:
    """Looks x comparisons x sides x sums; comparisons of all tables side by side."""
    parts = np.stack([n1, s1, n0, s0], axis=-1).astype(float)
    return parts.reshape(len(parts), -1, 2, 2)


def against_rest(n: FloatArray, s: FloatArray) -> FloatArray:
    return batches(n, s, n.sum(axis=2, keepdims=True) - n, s.sum(axis=2, keepdims=True) - s)


def against_first(n: FloatArray, s: FloatArray) -> FloatArray:
    others = [np.broadcast_to(part[..., :1], part[..., 1:].shape) for part in (n, s)]
    return batches(n[..., 1:], s[..., 1:], *others)


def default_prior(n: FloatArray, s: FloatArray, tolerance: float = 0.0, *, ratio: bool = False) -> FloatArray:
    """The prior of each life (looks x tables), NaN before its start."""
    rows, cases = (np.cumsum(part.sum(axis=2), axis=0) for part in (n, s))
    ready = np.minimum(cases, rows - cases) >= 10
    first = ready.argmax(axis=0)
    p = np.take_along_axis(cases, first[None], 0)[0] / np.take_along_axis(rows, first[None], 0)[0]
    sigma = np.maximum(tolerance, 0.2 if ratio else 0.1 * np.sqrt(p * (1 - p)))
    return np.where(ready, sigma, np.nan)


def judged(z: FloatArray, prior: FloatArray, information: FloatArray, rows: FloatArray, side: Any) -> FloatArray:
    """log E, and minus infinity where nothing is judged."""
    log_e = log_evidence(z, prior**2 * information, side)
    return np.where(np.isfinite(log_e) & (np.cumsum(rows, axis=0) >= 10), log_e, -np.inf)


def by_table(values: Any, tables: int) -> Any:
    """Looks x tables x comparisons."""
    return values.reshape(len(values), tables, -1)


def no_disparity(design: Design, rng: np.random.Generator, tables: int) -> FloatArray:
    """Whether a life ever shows a difference: of a group alone, of any group (Holm); and with a test at each look."""
    n, s, _ = design.draw(rng, tables)
    counts = against_rest(n, s)
    prior = np.repeat(default_prior(n, s), n.shape[2], axis=1)
    rates = RateSequence(sum_strata(close(counts)))
    z = rates.statistic(0.0)
    ever = by_table(judged(z, prior, rates.information, counts[..., 0, 0], "two-sided"), tables).max(axis=0)
    comparisons = 1 if n.shape[2] == 2 else n.shape[2]
    naive = by_table(np.nan_to_num(np.abs(z) * ~np.isnan(prior)) > 1.959964, tables).any(axis=0)
    family = (ever >= LIMIT + np.log(comparisons)).any(axis=1)
    return np.column_stack([(ever >= LIMIT).mean(axis=1), family, naive.mean(axis=1), naive.any(axis=1)])


def appearing(arrivals: Sequence[int], batch: int, rate: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """Groups that appear at later looks, no disparity: whether any group is ever shown, and with equal shares."""
    looks, size = 500, len(arrivals)
    here = np.arange(looks)[:, None] >= np.asarray(arrivals)
    n = rng.multinomial(batch, (here / here.sum(axis=1, keepdims=True))[:, None], size=(looks, tables)).astype(float)
    s = rng.binomial(n.astype(int), rate).astype(float)
    counts, prior = against_rest(n, s), np.repeat(default_prior(n, s), size, axis=1)
    rates = RateSequence(sum_strata(close(counts)))
    z = rates.statistic(0.0)
    evidence = by_table(log_evidence(z, prior**2 * rates.information), tables)
    log_e = by_table(judged(z, prior, rates.information, counts[..., 0, 0], "two-sided"), tables)
    outcomes = []
    for k in range(tables):
        present = np.cumsum(n[:, k], axis=0) > 0
        number = present.sum(axis=1)
        limit = LIMIT + np.log(np.where(number == 2, 1, number))[:, None]
        shares = late_shares(present, evidence[:, k])
        outcomes.append([(log_e[:, k] + np.log(part) >= limit).any() for part in (shares, np.ones(size))])
    return np.array(outcomes)


def against_number(rate: float, batch: int, rng: np.random.Generator, tables: int) -> FloatArray:
    n, s, _ = Design((1.0,), batch, rate).draw(rng, tables)
    prior = default_prior(n, s)
    counts = batches(n[..., 0], s[..., 0], 0 * n[..., 0], 0 * n[..., 0])
    rates = RateSequence(sum_strata(close(counts, number=True), rate), number=rate)
    log_e = judged(rates.statistic(0.0), prior, rates.information, counts[..., 0, 0], "two-sided")
    return log_e.max(axis=0) >= LIMIT


def one_sided(design: Design, rng: np.random.Generator, tables: int) -> FloatArray:
    n, s, _ = design.draw(rng, tables)
    counts, prior = against_rest(n, s), np.repeat(default_prior(n, s), n.shape[2], axis=1)
    rates = RateSequence(sum_strata(close(counts)))
    z = rates.statistic(0.0)
    sides = [judged(z, prior, rates.information, counts[..., 0, 0], side) for side in ("greater", "less")]
    return np.column_stack([(by_table(log_e, tables).max(axis=0) >= LIMIT).mean(axis=1) for log_e in sides])


def misses(design: Design, tolerance: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """Whether the interval ever misses the average so far: in all, above and below it."""
    n, s, p = design.draw(rng, tables)
    counts = against_first(n, s)
    prior = np.repeat(default_prior(n, s, tolerance, ratio=design.ratio), n.shape[2] - 1, axis=1)
    strata = close(counts)
    rates = RateSequence(sum_strata(strata), "ratio" if design.ratio else "difference")
    # The average of the strata's own disparities: expected cases take the place of cases.
    expected = against_first(n, n * p)
    truth = RateSequence(sum_strata(close(expected)), rates.scale).value
    z = rates.statistic(truth)
    log_e = judged(z, prior, rates.information, counts[..., 0, 0], "two-sided")
    missed = np.where(np.isfinite(truth), log_e, -np.inf) >= LIMIT
    above, below = (by_table(missed & side, tables).any(axis=0) for side in (z < 0, z > 0))
    return np.column_stack([(above | below).mean(axis=1), above.mean(axis=1), below.mean(axis=1)])


def centered(design: Design, center: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """Whether a disparity that is exactly the center is ever shown, and how often it raises an alarm."""
    n, s, _ = design.draw(rng, tables)
    counts, prior = against_first(n, s), np.repeat(default_prior(n, s), n.shape[2] - 1, axis=1)
    strata = close(counts)
    rates = RateSequence(sum_strata(strata))
    log_e = judged(rates.statistic(center), prior, rates.information, counts[..., 0, 0], "two-sided")
    steps = alarm.rate_increments(strata, prior, center, center)
    alarms = alarm.detect(*steps, np.full(prior.shape, 100.0 * (n.shape[2] - 1)))
    raised = by_table(alarms.raised, tables)
    return np.column_stack(
        [(by_table(log_e, tables).max(axis=0) >= LIMIT).mean(axis=1), raised.any(axis=2).sum(axis=0)]
    )


Draws = Callable[[np.random.Generator, Any], Any]


def numbers(draw: Draws, batch: int, factor: float, drift: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """Two groups (30 % and 10 %) against a reference group of 60 %, 300 looks: shown at 0.05, and at 0.05/20."""
    looks, shares = 300, (0.6, 0.3, 0.1)
    outcomes = []
    for _ in range(tables):
        code = rng.choice(3, size=(looks, batch), p=shares)
        center = draw(rng, 200_000).mean() if factor != 1 else 0.0
        x = draw(rng, (looks, batch))
        x = np.where(code == 2, center + factor * (x - center), x) + drift * np.sin(np.arange(looks) / 8)[:, None]
        means = against_first_mean(x, code)
        first = x[: -(-30 // batch)]
        skewness, rows = means.skewness()
        with np.errstate(all="ignore"):
            gate = ~too_skewed(skewness / rows**2, 1 / rows)
        log_e = log_evidence(means.statistic(0.0), (0.1 * first.std()) ** 2 * means.information)
        best = np.where(gate & np.isfinite(log_e), log_e, -np.inf).max(axis=0)
        outcomes.append([np.mean(best >= LIMIT), np.mean(best >= LIMIT + np.log(20)), gate[-1].mean()])
    return np.array(outcomes)


def against_first_mean(x: FloatArray, code: Any) -> MeanSequence:
    """Each group of numbers (looks x rows) against the first."""
    powers = [[((code == k) * x**power).sum(axis=1) for power in range(4)] for k in range(int(code.max()) + 1)]
    sides = np.moveaxis(np.array(powers, dtype=float), -1, 0)
    return MeanSequence(
        close(np.stack([np.stack([side, sides[:, 0]], 1) for side in np.moveaxis(sides[:, 1:], 1, 0)], 1))
    )


def people(mine: int, others: int, active: float, icc: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """Repeated people, 200 looks: shown with rows as independent, with buckets; square root of the design effect; and
    alarms of a run length of 100, with rows as independent and with the design effect."""
    looks, rate, outcomes = 200, 0.3, []
    concentration = 1 / icc - 1
    for _ in range(tables):
        size = mine + others
        side = np.arange(size) >= mine
        chance = rng.beta(rate * concentration, (1 - rate) * concentration, size)
        bucket = rng.integers(0, BUCKETS, size)
        sums, buckets = np.zeros((looks, 4)), np.zeros((2, 1, BUCKETS))
        rows, spread, number = np.zeros((1, BUCKETS)), np.zeros((looks, 3)), np.zeros(looks)
        for t in range(looks):
            here = np.flatnonzero(rng.random(size) < active)
            y = rng.random(here.size) < chance[here]
            place = bucket[here] + BUCKETS * side[here]
            n, s = (np.bincount(place, part, minlength=2 * BUCKETS).reshape(2, BUCKETS) for part in (None, y))
            parts = np.stack([n[0], s[0], n[1], s[1]]).astype(float)[:, None]
            sums[t] = parts.sum(axis=(1, 2))
            buckets += np.stack(bucket_terms(parts))
            rows += parts[0]
            spread[t], number[t] = bucket_spread(*buckets)[:, 0], (rows > 0).sum()
        counts = batches(*sums.T[:, :, None])
        total = sum_strata(close(counts))
        plain = RateSequence(total)
        grouped = PeopleSequence(total, spread.T[..., None], number[:, None])
        prior = np.full((looks, 1), 0.1 * np.sqrt(rate * (1 - rate)))
        found = [
            judged(q.statistic(0.0), prior, q.information, counts[..., 0, 0], "two-sided").max()
            for q in (plain, grouped)
        ]
        effect = np.maximum(np.append(1.0, spread[:-1, 0] / total.vc[:-1, 0]), 1.0)[:, None]
        steps = [alarm.rate_increments(close(counts), prior, 0.0, 0.0, effect=part) for part in (None, effect)]
        alarms = [alarm.detect(*part, np.full(prior.shape, 100.0)).raised.sum() for part in steps]
        outcomes.append([*(np.array(found) >= LIMIT), np.sqrt(spread[-1, 0] / total.vc[-1, 0]), *alarms])
    return np.array(outcomes)


def people_summary(values: FloatArray) -> list[float | str]:
    lengths = 200 * len(values) / np.maximum(values[:, 3:].sum(axis=0), 1.0)
    return [*values[:, :3].mean(axis=0).tolist(), *(f"{length:.0f}" for length in lengths)]


def false_alarms(design: Design, tolerance: float, rest: bool, rng: np.random.Generator, tables: int) -> FloatArray:
    """The looks at which a life raises an alarm for any group, with a run length of 100."""
    n, s, _ = design.draw(rng, tables)
    counts = against_rest(n, s) if rest else against_first(n, s)
    size = counts[..., 0, 0].shape[1] // tables
    prior = np.repeat(default_prior(n, s, tolerance), size, axis=1)
    steps = alarm.rate_increments(close(counts), prior, -tolerance, tolerance)
    comparisons = 1 if rest and size == 2 else size
    raised = by_table(alarm.detect(*steps, np.full(prior.shape, 100.0 * comparisons)).raised, tables).any(axis=2)
    return raised.sum(axis=0)


def false_ratio_alarms(design: Design, tolerance: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """The same on the ratio scale; groups against the first."""
    n, s, _ = design.draw(rng, tables)
    counts, size = against_first(n, s), n.shape[2] - 1
    prior = np.repeat(default_prior(n, s, -np.log(tolerance), ratio=True), size, axis=1)
    steps = alarm.rate_increments(close(counts), prior, tolerance, 1 / tolerance, scale="ratio")
    raised = alarm.detect(*steps, np.full(prior.shape, 100.0 * size)).raised
    return by_table(raised, tables).any(axis=2).sum(axis=0)


def false_number_alarms(draw: Draws, batch: int, rng: np.random.Generator, tables: int) -> FloatArray:
    """The same for numbers: two groups against the first."""
    outcomes = []
    for _ in range(tables):
        code, x = rng.choice(3, size=(LOOKS, batch), p=THREE), draw(rng, (LOOKS, batch))
        means = against_first_mean(x, code)
        skewness, rows = means.skewness()
        with np.errstate(all="ignore"):
            gate = ~too_skewed(skewness / rows**2, 1 / rows)
        prior = np.full(gate.shape, 0.1 * x[0].std())
        steps = alarm.mean_increments(means, prior, 0.0, 0.0, gate)
        outcomes.append(alarm.detect(*steps, np.full(gate.shape, 200.0)).raised.any(axis=1).sum())
    return np.array(outcomes, dtype=float)


def run_length(looks: int) -> Callable[[FloatArray], list[float | str]]:
    """The mean number of batches for one alarm."""
    return lambda alarms: [looks * len(alarms) / max(float(alarms.sum()), 1.0)]


def first(hit: Any) -> FloatArray:
    """The first look, from 1 up, at which something holds; infinite if it never does."""
    return np.where(hit.any(axis=0), hit.argmax(axis=0) + 1.0, np.inf)


def detection(sizes: tuple[int, int], rates: tuple[float, float], rng: np.random.Generator, tables: int) -> FloatArray:
    """The look at which a difference is shown: default prior, doubled, halved, exact, and a test at each look."""
    looks = 80
    n0, n1 = (np.full((looks, tables), float(size)) for size in sizes)
    s0, s1 = (rng.binomial(n.astype(int), p).astype(float) for n, p in zip((n0, n1), rates, strict=True))
    counts = batches(n1, s1, n0, s0)
    sequence = RateSequence(sum_strata(close(counts)))
    z, prior = sequence.statistic(0.0), default_prior(np.stack([n0, n1], 2), np.stack([s0, s1], 2))
    found = [judged(z, f * prior, sequence.information, n1, "two-sided") >= LIMIT for f in (1, 2, 0.5)]
    grid = exact.ExactSequence(counts, exact.LEAST_PRIOR).evidence(np.ones(1), np.ones(1), prior)
    size = np.abs(z)
    planned = float(normal_isf(ALPHA / looks))
    return np.column_stack([first(hit) for hit in (*found, grid >= LIMIT, size > 1.959964, size > planned)])


def within(sizes: tuple[int, int], rng: np.random.Generator, tables: int) -> FloatArray:
    """The look at which no difference is shown to be within 0.05."""
    looks = 80
    n0, n1 = (np.full((looks, tables), float(size)) for size in sizes)
    s0, s1 = (rng.binomial(n.astype(int), 0.3).astype(float) for n in (n0, n1))
    sequence = RateSequence(sum_strata(close(batches(n1, s1, n0, s0))))
    prior = default_prior(np.stack([n0, n1], 2), np.stack([s0, s1], 2), 0.05)
    low, high = sequence.interval(prior, ALPHA)
    return first((low >= -0.05) & (high <= 0.05))


def quantiles(values: FloatArray) -> list[float | str]:
    return [f"{np.median(part):.0f} ({np.quantile(part, 0.8, method='higher'):.0f})" for part in values.T]


def late(design: Design, tolerance: float, rng: np.random.Generator, tables: int) -> FloatArray:
    """After a start at batch 101: delay of the alarm and of the verdict, since when, and alarms before."""
    n, s, _ = design.draw(rng, tables)
    counts, size = against_rest(n, s), n.shape[2]
    prior = np.repeat(default_prior(n, s, tolerance), size, axis=1)
    strata = close(counts)
    rates = RateSequence(sum_strata(strata))
    steps = alarm.rate_increments(strata, prior, -tolerance, tolerance)
    alarms = alarm.detect(*steps, np.full(prior.shape, 500.0 * size))
    worst = int(np.argmax(np.abs(np.asarray(design.gaps))))
    raised, since = (by_table(part, tables)[..., worst] for part in (alarms.raised, alarms.since))
    z = np.where(rates.value > 0, rates.statistic(tolerance), rates.statistic(-tolerance))
    z = np.where(np.abs(rates.value) > tolerance, z, 0.0)
    log_e = by_table(judged(z, prior, rates.information, counts[..., 0, 0], "two-sided"), tables)[..., worst]
    after = raised[design.start :]
    delay = first(after)
    place = np.minimum(delay - 1, len(after) - 1).astype(int) + design.start
    begun = since[place, np.arange(tables)] + 1
    shown = first(log_e[design.start :] >= LIMIT + np.log(size))
    return np.column_stack([delay, shown, begun, by_table(alarms.raised, tables)[: design.start].any(axis=(0, 2))])


def late_summary(values: FloatArray) -> list[float | str]:
    quartiles = np.nanquantile(values[:, 2], (0.5, 0.25, 0.75))
    since = f"{quartiles[0]:.0f} ({quartiles[1]:.0f} to {quartiles[2]:.0f})"
    return [f"{np.median(values[:, 0]):.0f}", f"{np.median(values[:, 1]):.0f}", since, float(values[:, 3].mean())]


def many(rng: np.random.Generator, tables: int) -> FloatArray:
    """20 groups against a reference group, 5 differ by 6 points: false discoveries of e-BH, and false flags of Holm."""
    design = Design((0.3, *[0.035] * 20), 2000, 0.3, 150, gaps=(0.0, *[0.06] * 5, *[0.0] * 15))
    n, s, _ = design.draw(rng, tables)
    counts, prior = against_first(n, s), np.repeat(default_prior(n, s), 20, axis=1)
    rates = RateSequence(sum_strata(close(counts)))
    log_e = by_table(judged(rates.statistic(0.0), prior, rates.information, counts[..., 0, 0], "two-sided"), tables)
    ranked = -np.sort(-log_e, axis=2)
    enough = ranked >= np.log(20 / (np.arange(1, 21) * ALPHA))
    number = np.where(enough.any(axis=2), 20 - enough[..., ::-1].argmax(axis=2), 0)
    bar = np.where(number > 0, np.take_along_axis(ranked, np.maximum(number - 1, 0)[..., None], 2)[..., 0], np.inf)
    flagged = log_e >= bar[..., None]
    share = flagged[..., 5:].sum(axis=2) / np.maximum(flagged.sum(axis=2), 1)
    start = np.minimum(first(number > 0), 150).astype(int) - 1
    best = np.maximum.accumulate(log_e, axis=0)
    holm = (best[-1, :, 5:] >= LIMIT + np.log(20)).any(axis=1)
    times = [
        np.median(first(hit[..., :5].reshape(150, -1)).reshape(tables, 5), axis=1)
        for hit in (best >= LIMIT + np.log(20), flagged)
    ]
    return np.column_stack([*share[[29, 74, 149]], share[start, np.arange(tables)], holm, *times])


def many_summary(values: FloatArray) -> list[float | str]:
    return [*values[:, :5].mean(axis=0).tolist(), *(f"{np.median(values[:, k]):.0f}" for k in (5, 6))]


def exact_level(
    rate: float, batch: int, ratio: float, swing: float, rng: np.random.Generator, tables: int
) -> FloatArray:
    """Whether the exact e-value ever rejects the true odds ratio, in 300 looks."""
    looks = 300
    base = rate + swing * np.sin(2 * np.pi * np.arange(looks) / 50)
    odds = ratio * base / (1 - base)
    n1 = rng.binomial(batch, 0.3, (looks, tables)).astype(float)
    n0 = batch - n1
    s1 = rng.binomial(n1.astype(int), (odds / (1 + odds))[:, None]).astype(float)
    s0 = rng.binomial(n0.astype(int), base[:, None]).astype(float)
    evidence = exact.ExactSequence(close(batches(n1, s1, n0, s0)), exact.LEAST_PRIOR).grid
    place = int(np.argmin(np.abs(exact.GRID - np.log(ratio))))
    # The truth lies between grid points, unless it is 1; the interval adds a step on each side.
    near = evidence[..., max(place - 1, 0) : place + 2] if ratio != 1 else evidence[..., [place]]
    return near.min(axis=-1).max(axis=0) >= LIMIT


FALSE: dict[str, Design] = {
    "2 groups, batches of 1,000, rate 0.3": Design((0.5, 0.5), 1000, 0.3),
    "5 groups (40 to 5 %), batches of 500, rate 0.1": Design(FIVE, 500, 0.1),
    "20 groups, batches of 1,000, rate 0.3": Design(TWENTY, 1000, 0.3),
    "4 groups (55 to 5 %), batches of 20, rate 0.3": Design(FOUR, 20, 0.3),
    "4 groups, batches of 20, rate 0.01": Design(FOUR, 20, 0.01),
    "4 groups, batches of 200, rate 0.01": Design(FOUR, 200, 0.01),
    "4 groups, batches of 2,000, rate 0.01": Design(FOUR, 2000, 0.01),
    "20 groups, batches of 20, rate 0.3": Design(TWENTY, 20, 0.3),
    "20 groups, batches of 200, rate 0.01": Design(TWENTY, 200, 0.01),
    "4 groups, lognormal batch sizes, rate 0.2": Design(FOUR, 0, 0.2),
    "4 groups, rates and shares swing together": Design(FOUR, 500, 0.4, swing=0.3),
    "2 groups, batches of 1,000, rate 0.3, 5,000 looks": Design((0.5, 0.5), 1000, 0.3, 5000),
    "4 groups, batches of 20, rate 0.3, 5,000 looks": Design(FOUR, 20, 0.3, 5000),
}
THREE, SMALL = (0.6, 0.3, 0.1), (0.9, 0.08, 0.02)
COVERED: dict[str, tuple[Design, float]] = {
    "difference 0.05, batches of 500, base 0.3": (Design(THREE, 500, 0.3, gaps=(0, 0.05, 0.05)), 0.0),
    "difference at the tolerance 0.02": (Design(THREE, 500, 0.3, gaps=(0, 0.02, 0.02)), 0.02),
    "difference -0.05, batches of 20": (Design(THREE, 20, 0.3, gaps=(0, -0.05, -0.05)), 0.0),
    "difference 0.01, base 0.01, batches of 20": (Design(THREE, 20, 0.01, gaps=(0, 0.01, 0.01)), 0.0),
    "difference -0.01, base 0.02, batches of 20": (Design(THREE, 20, 0.02, gaps=(0, -0.01, -0.01)), 0.0),
    "groups of 8 and 2 %, base 0.02, -0.01, batches of 200": (Design(SMALL, 200, 0.02, gaps=(0, -0.01, -0.01)), 0.0),
    "groups of 8 and 2 %, base 0.01, +0.01, batches of 200": (Design(SMALL, 200, 0.01, gaps=(0, 0.01, 0.01)), 0.0),
    "lognormal batch sizes, difference 0.05": (Design(THREE, 0, 0.3, gaps=(0, 0.05, 0.05)), 0.0),
    "base rate swings by 0.2, difference 0.05": (
        Design(THREE, 500, 0.4, swing=0.2, gaps=(0, 0.05, 0.05), together=False),
        0.0,
    ),
    "the difference moves by 0.1": (Design(THREE, 500, 0.4, gaps=(0, 0.05, 0.05), moving=0.1), 0.0),
    "the difference moves by 0.1, base swings": (
        Design(THREE, 500, 0.4, swing=0.2, gaps=(0, 0.05, 0.05), moving=0.1, together=False),
        0.0,
    ),
    "ratio 0.8, batches of 500": (Design(THREE, 500, 0.3, gaps=(1, 0.8, 0.8), ratio=True), 0.0),
    "ratio 0.8, batches of 20": (Design(THREE, 20, 0.3, gaps=(1, 0.8, 0.8), ratio=True), 0.0),
    "ratio 0.8, base 0.02, groups of 8 and 2 %": (Design(SMALL, 200, 0.02, gaps=(1, 0.8, 0.8), ratio=True), 0.0),
    "ratio 2, base 0.01": (Design(THREE, 200, 0.01, gaps=(1, 2, 2), ratio=True), 0.0),
    "ratio 0.8, base swings": (
        Design(THREE, 500, 0.4, swing=0.2, gaps=(1, 0.8, 0.8), ratio=True, together=False),
        0.0,
    ),
    "the ratio moves by 0.2": (Design(THREE, 500, 0.4, gaps=(1, 0.8, 0.8), ratio=True, moving=0.2), 0.0),
}
REAL: dict[str, tuple[Draws, int, float, float]] = {
    "normal, batches of 20": (lambda rng, n: rng.normal(size=n), 20, 1, 0),
    "normal, batches of 20, means drift by 2": (lambda rng, n: rng.normal(size=n), 20, 1, 2),
    "exponential, batches of 20": (lambda rng, n: rng.exponential(size=n), 20, 1, 0),
    "exponential, batches of 20, one group's deviation doubled": (lambda rng, n: rng.exponential(size=n), 20, 2, 0),
    "lognormal(0.5), batches of 20": (lambda rng, n: rng.lognormal(0, 0.5, n), 20, 1, 0),
    "lognormal(1), batches of 50": (lambda rng, n: rng.lognormal(0, 1, n), 50, 1, 0),
    "lognormal(1), batches of 200": (lambda rng, n: rng.lognormal(0, 1, n), 200, 1, 0),
}
LOOKS = 1000
NUMBERS: dict[str, tuple[Draws, int]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 100),
    "exponential": (lambda rng, n: rng.exponential(size=n), 100),
    "lognormal(0.5)": (lambda rng, n: rng.lognormal(0, 0.5, n), 100),
    "lognormal(1)": (lambda rng, n: rng.lognormal(0, 1, n), 100),
    "Pareto(4.5)": (lambda rng, n: rng.pareto(4.5, n), 100),
    "lognormal(1), batches of 400": (lambda rng, n: rng.lognormal(0, 1, n), 400),
}
RATIOS: dict[str, tuple[Design, float]] = {
    "no disparity, batches of 1,000, rate 0.3": (Design(THREE, 1000, 0.3, LOOKS), 1.0),
    "no disparity, batches of 20, rate 0.3": (Design(THREE, 20, 0.3, LOOKS), 1.0),
    "no disparity, batches of 200, rate 0.02": (Design(THREE, 200, 0.02, LOOKS), 1.0),
    "no disparity, rates and shares swing": (Design(THREE, 500, 0.4, LOOKS, swing=0.3), 1.0),
    "ratio at the tolerance 0.8, batches of 1,000": (
        Design(THREE, 1000, 0.3, LOOKS, gaps=(1, 0.8, 0.8), ratio=True),
        0.8,
    ),
    "ratio at 1.25, batches of 1,000": (Design(THREE, 1000, 0.3, LOOKS, gaps=(1, 1.25, 1.25), ratio=True), 0.8),
    "ratio at 0.8, batches of 20": (Design(THREE, 20, 0.3, LOOKS, gaps=(1, 0.8, 0.8), ratio=True), 0.8),
    "ratio at 1.25, rate 0.02, batches of 200": (
        Design(THREE, 200, 0.02, LOOKS, gaps=(1, 1.25, 1.25), ratio=True),
        0.8,
    ),
    "ratio at 0.8, rates swing": (
        Design(THREE, 500, 0.4, LOOKS, swing=0.2, gaps=(1, 0.8, 0.8), ratio=True, together=False),
        0.8,
    ),
}
ARRIVALS: dict[str, tuple[Sequence[int], int, float]] = {
    "2 groups, another every 60 batches, batches of 500, rate 0.3": ((0, 0, *range(60, 480, 60)), 500, 0.3),
    "2 groups, another at batches 5, 10 and 20, batches of 200, rate 0.1": ((0, 0, 5, 10, 20), 200, 0.1),
    "4 groups, 4 more at batch 100, batches of 1,000, rate 0.3": ((0,) * 4 + (100,) * 4, 1000, 0.3),
    "1 group, another every 20 batches, batches of 20, rate 0.3": (tuple(range(0, 200, 20)), 20, 0.3),
    "3 groups, another every 100 batches, batches of 200, rate 0.02": ((0, 0, 0, 100, 200, 300), 200, 0.02),
}
FALSE_ALARMS: dict[str, tuple[Design, float, bool]] = {
    "2 groups, batches of 1,000": (Design((0.5, 0.5), 1000, 0.3, LOOKS), 0.0, True),
    "4 groups, batches of 1,000": (Design(FOUR, 1000, 0.3, LOOKS), 0.0, True),
    "20 groups, batches of 1,000": (Design(TWENTY, 1000, 0.3, LOOKS), 0.0, True),
    "4 groups, batches of 200, rate 0.05": (Design(FOUR, 200, 0.05, LOOKS), 0.0, True),
    "4 groups, batches of 20, rate 0.05": (Design(FOUR, 20, 0.05, LOOKS), 0.0, True),
    "4 groups, batches of 20, rate 0.01": (Design(FOUR, 20, 0.01, LOOKS), 0.0, True),
    "4 groups, batches of 5, rate 0.3": (Design(FOUR, 5, 0.3, LOOKS), 0.0, True),
    "4 groups, single rows, rate 0.3": (Design(FOUR, 1, 0.3, LOOKS), 0.0, True),
    "4 groups, batches of 5,000": (Design(FOUR, 5000, 0.3, LOOKS), 0.0, True),
    "4 groups, rates and shares swing together": (Design(FOUR, 500, 0.4, LOOKS, swing=0.3), 0.0, True),
    "4 groups, lognormal batch sizes": (Design(FOUR, 0, 0.2, LOOKS), 0.0, True),
    "difference at the tolerance 0.02, batches of 1,000": (
        Design(THREE, 1000, 0.3, LOOKS, gaps=(0, 0.02, 0.02)),
        0.02,
        False,
    ),
    "difference at -0.02, batches of 1,000": (Design(THREE, 1000, 0.3, LOOKS, gaps=(0, -0.02, -0.02)), 0.02, False),
    "difference at the tolerance 0.02, batches of 20": (
        Design(THREE, 20, 0.3, LOOKS, gaps=(0, 0.02, 0.02)),
        0.02,
        False,
    ),
    "difference at the tolerance 0.01, rate 0.03, batches of 200": (
        Design(THREE, 200, 0.03, LOOKS, gaps=(0, 0.01, 0.01)),
        0.01,
        False,
    ),
}
LATE: dict[str, tuple[Design, float]] = {
    "4 groups, batches of 1,000, 5 % group drops by 6 points": (
        Design(FOUR, 1000, 0.3, 400, gaps=(0, 0, 0, -0.06), start=100),
        0.0,
    ),
    "tolerance 0.02, batches of 1,000, 15 % group, 6 points": (
        Design(FOUR, 1000, 0.3, 400, gaps=(0, 0, -0.06, 0), start=100),
        0.02,
    ),
    "tolerance 0.02, batches of 5,000, 15 % group, 6 points": (
        Design(FOUR, 5000, 0.3, 400, gaps=(0, 0, -0.06, 0), start=100),
        0.02,
    ),
    "batches of 200, 15 % group, 10 points": (Design(FOUR, 200, 0.3, 400, gaps=(0, 0, -0.1, 0), start=100), 0.0),
    "rate 0.02 to 0.04, batches of 1,000, 15 % group": (
        Design(FOUR, 1000, 0.02, 400, gaps=(0, 0, 0.02, 0), start=100),
        0.0,
    ),
}
TIMES: dict[str, tuple[tuple[int, int], tuple[float, float]]] = {
    "100 and 100 rows, 0.30 and 0.36": ((100, 100), (0.3, 0.36)),
    "180 and 20 rows, 0.30 and 0.40": ((180, 20), (0.3, 0.4)),
    "900 and 100 rows, 0.30 and 0.35": ((900, 100), (0.3, 0.35)),
    "800 and 200 rows, 0.01 and 0.02": ((800, 200), (0.01, 0.02)),
}
AT_LEAST = Asked(100.0, "least", exact=True)
EVER, ALONE = at_most(0.05), (at_most(0.05),)


def fixed(sizes: tuple[int, int], rates: tuple[float, float]) -> str:
    """The batches at which one test at 0.05 has power 0.8."""
    variance = sum(p * (1 - p) / n for n, p in zip(sizes, rates, strict=True))
    return f"{(1.96 + 0.8416) ** 2 * variance / (rates[1] - rates[0]) ** 2:.1f}"


PAGE = Page(
    "monitoring/simulations",
    (
        Section(
            "No disparity, 500 looks",
            ("batches",),
            (
                "one group, ever",
                "any group, ever (Holm)",
                "test at each look, one group",
                "test at each look, any group",
            ),
            tuple(
                Run((Line((name,), (EVER, EVER)),), partial(no_disparity, design), 400 if design.looks > 500 else 2_000)
                for name, design in FALSE.items()
            ),
        ),
        Section(
            "Groups that appear later, no disparity, 500 looks",
            ("groups",),
            ("any group, ever (Holm)", "the same with equal shares of the level"),
            tuple(
                Run((Line((name,), (EVER,)),), partial(appearing, *design), 2_000) for name, design in ARRIVALS.items()
            ),
        ),
        Section(
            "Against a number, 500 looks",
            ("rate and batches",),
            ("ever",),
            tuple(
                Run((Line((f"{rate:g}, {batch} rows",), ALONE),), partial(against_number, rate, batch), 3_000)
                for rate, batch in ((0.3, 5), (0.3, 500), (0.01, 50), (0.01, 500), (0.98, 50))
            ),
        ),
        Section(
            "One side, 500 looks",
            ("batches",),
            ("greater, ever", "less, ever"),
            tuple(
                Run((Line((name,), (EVER, EVER)),), partial(one_sided, FALSE[name]), 1_500) for name in list(FALSE)[1:6]
            ),
        ),
        Section(
            "Coverage at all of 500 looks",
            ("disparity",),
            ("missed, ever", "above", "below"),
            tuple(Run((Line((name,), (EVER,)),), partial(misses, *design), 1_000) for name, design in COVERED.items()),
        ),
        Section(
            "A center other than zero, 500 looks",
            ("center",),
            ("shown, ever", "false alarms in 500 looks, run length 100"),
            tuple(
                Run(
                    (
                        Line(
                            (f"{center:+g}, base {base:g}, batches of {batch}",), (EVER, Asked(5.0, "most", exact=True))
                        ),
                    ),
                    partial(centered, Design(THREE, batch, base, gaps=(0, center, center)), center),
                    1_000,
                )
                for center, base, batch in ((0.05, 0.3, 500), (-0.05, 0.3, 20), (0.01, 0.02, 200))
            ),
        ),
        Section(
            "Numbers, 300 looks",
            ("metric",),
            ("at 0.05, ever", "at 0.0025, ever", "share of groups judged by look 300"),
            tuple(
                Run((Line((name,), (EVER, at_most(0.0025))),), partial(numbers, *design), 400)
                for name, design in REAL.items()
            ),
            4,
        ),
        Section(
            "People who return, 200 looks",
            ("people in group and reference, active in a batch, intraclass correlation",),
            (
                *("rows as independent", "64 buckets", "root of the design effect"),
                *("batches for one alarm, rows as independent", "the same with the design effect (at least 100)"),
            ),
            tuple(
                Run(
                    (Line((f"{a:,} and {b:,}, {active:g}, {icc:g}",), (None, EVER)),),
                    partial(people, a, b, active, icc),
                    400,
                    people_summary,
                )
                for a, b, active, icc in (
                    (300, 1000, 0.2, 0.3),
                    (300, 1000, 0.2, 0.1),
                    (2000, 4000, 0.05, 0.1),
                    (2000, 2000, 0.05, 0.001),
                )
            ),
        ),
        Section(
            "Mean batches to a false alarm of any group, run length 100, lives of 1,000 batches",
            ("batches",),
            ("batches for one alarm",),
            tuple(
                Run((Line((name,), (AT_LEAST,)),), partial(false_alarms, *design), 100, run_length(LOOKS))
                for name, design in FALSE_ALARMS.items()
            ),
            0,
        ),
        Section(
            "Mean batches to a false alarm, numbers",
            ("metric, batches of 100",),
            ("batches for one alarm",),
            tuple(
                Run((Line((name,), (AT_LEAST,)),), partial(false_number_alarms, *design), 100, run_length(LOOKS))
                for name, design in NUMBERS.items()
            ),
            0,
        ),
        Section(
            "Mean batches to a false alarm, ratio scale",
            ("batches",),
            ("batches for one alarm",),
            tuple(
                Run((Line((name,), (AT_LEAST,)),), partial(false_ratio_alarms, *design), 100, run_length(LOOKS))
                for name, design in RATIOS.items()
            ),
            0,
        ),
        Section(
            "Batches until a difference is shown: median (80 % quantile)",
            ("rows of reference and group, rates", "one planned test with power 0.8"),
            (
                *("monitor", "prior doubled", "prior halved", "exact"),
                *("test at each look (invalid)", "Bonferroni over 80 planned looks"),
            ),
            tuple(
                Run((Line((name, fixed(*design))),), partial(detection, *design), 500, quantiles)
                for name, design in TIMES.items()
            ),
        ),
        Section(
            "Batches until no difference is shown to be within 0.05: median (80 % quantile)",
            ("rows of reference and group, rate 0.3",),
            ("monitor",),
            tuple(
                Run((Line((f"{a} and {b}",)),), partial(within, (a, b)), 500, quantiles)
                for a, b in ((100, 100), (900, 100))
            ),
        ),
        Section(
            "A disparity that begins at batch 101, run length 500: median delay",
            ("change",),
            ("alarm", "average to date", "since (101 is true)", "lives with an alarm before"),
            tuple(
                Run((Line((name,), (None, None, None, at_most(0.2))),), partial(late, *design), 400, late_summary)
                for name, design in LATE.items()
            ),
        ),
        Section(
            "Twenty groups, five differ by 6 points",
            ("adjustment",),
            (
                *("e-BH, false share at look 30", "at look 75", "at look 150", "at the first flag"),
                *("Holm, any false flag ever", "median batches, Holm", "median batches, e-BH"),
            ),
            (Run((Line(("e-BH and Holm",), (EVER,) * 5),), many, 300, many_summary),),
        ),
        Section(
            "Exact odds ratios, 300 looks",
            ("rate, batch, odds ratio",),
            ("true odds ratio rejected, ever",),
            tuple(
                Run(
                    (Line((f"{rate:g}, {batch} rows, {odds:g}{', rates swing' if swing else ''}",), ALONE),),
                    partial(exact_level, rate, batch, odds, swing),
                    500,
                )
                for rate, batch, odds, swing in (
                    (0.3, 20, 1, 0.0),
                    (0.05, 20, 1, 0.0),
                    (0.01, 50, 1, 0.0),
                    (0.3, 20, 2, 0.0),
                    (0.4, 20, 0.6, 0.2),
                )
            ),
        ),
    ),
)

if __name__ == "__main__":
    main(PAGE)
