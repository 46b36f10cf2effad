"""The widest gap between two groups, which is one of several unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from isonomy.likelihood.estimate_comparison import side_of
from isonomy.likelihood.estimate_likelihood import Solver
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import Reference, To
from isonomy.likelihood.ratio.best import widest
from isonomy.likelihood.ratio.disparity import Likelihood
from isonomy.likelihood.ratio.links import Link
from isonomy.likelihood.ratio.means import Means
from isonomy.likelihood.ratio.profile import Profile, counted, linked
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import IntArray

# Pairs of one partition's groups among which the widest gap is looked for, if there are more: by normal theory.
PAIRS = 90
# The same for standardised differences, each of which is a joint likelihood of all rows.
STANDARDISED_PAIRS = 12
# Groups whose pairs are all looked at; of more, those that lie furthest out.
MANY = 1_000


@dataclass(frozen=True, slots=True)
class Widest:
    """The largest gap between two groups that the same columns make, with its interval; of ratios the smallest.

    ``groups`` are the pair, the lower one first.
    """

    value: float
    ci_low: float
    ci_high: float
    groups: tuple[str, str]
    metric: str


class Gaps:
    """The widest gap, worked out when it is asked for.

    It is what it was when the rows were counted: it is copied and pickled as the `Widest` it is.
    """

    def __init__(self, sums: Sequence[Tally], plan: Plan) -> None:
        self._sums, self._plan = sums, plan

    @cached_property
    def widest(self) -> Widest | None:
        """The largest gap; None where there is no pair."""
        return _widest_gap(self._sums, self._plan)

    def __reduce__(self) -> tuple[object, tuple[Widest | None]]:
        return _itself, (self.widest,)


def _itself(gap: Widest | None) -> Widest | None:
    return gap


def gaps(sums: Sequence[Tally], plan: Plan) -> Gaps | Widest | None:
    """The widest gap, later where counts are enough for it; where a result would have to keep rows until then, now."""
    if plan.given and not plan.jointly:
        return None
    counted = not any(one.by_row or t.design is not None for t, one in zip(sums, plan.each, strict=True))
    later = Gaps(sums, plan)
    return later if counted else later.widest


def _widest_gap(sums: Sequence[Tally], plan: Plan) -> Widest | None:
    """The largest gap between two tested groups of one partition, over all metrics; None where there is no pair."""
    every: list[tuple[Likelihood, list[tuple[str, str, str]]]] = []
    tests = 0
    for t, one in zip(sums, plan.each, strict=True):
        solver = replace(Solver.of(t, one, np.random.default_rng(0)).referring(joint=True), correction=None)
        for i in range(len(t.partitions)):
            side = side_of(t, replace(one, reference=Reference(To.HIGHEST, True)), i)
            able = side.tested
            if able.size < 2:
                continue
            tests += able.size * (able.size - 1) // 2
            able = _outermost(side.own, able, plan.link)
            first, second = (able[part] for part in np.triu_indices(able.size, 1))
            number = PAIRS if plan.sigma is None else STANDARDISED_PAIRS
            first, second = _largest_pairs(side.own, first, second, plan.link, number)
            pairs = solver.pair(side, first, second)
            names, metric = side.partition.groups, one.measure.name
            label = [(str(names[a]), str(names[b]), metric) for a, b in zip(first, second, strict=True)]
            every.append((pairs, label))
    best: tuple[float, tuple[str, str], str] | None = None
    least = most = 0.0
    counts = [part for part, _ in every if isinstance(part, Profile) and counted(part.own)]
    if counts and len(counts) == len(every):  # many small solves cost more than one large one
        every = [(Profile.pooled(counts), [label for _, labels in every for label in labels])]
    for pairs, labels in every:
        place, low, high = widest(pairs, plan.alpha, tests)
        gap = float(pairs.disparity[place])
        if np.isnan(gap):
            continue
        least, most = max(least, low), max(most, high)
        if best is None or abs(gap) > best[0]:
            first_, second_, metric = labels[place]
            best = (abs(gap), (first_, second_) if gap <= 0 else (second_, first_), metric)
    if best is None:
        return None
    value, ends = plan.link.reported(-best[0] if plan.link.ratio else best[0]), (least, most)
    if plan.link.ratio:
        ends = float(np.exp(-most)), float(np.exp(-least))
    return Widest(float(value), *ends, best[1], best[2])


def _outermost(own: Means, groups: IntArray, link: Link) -> IntArray:
    """Of very many groups those that may be an end of the widest gap, or of its limits, by normal theory.

    √(a² + b²) is the largest a cos t + b sin t, so the group at an end of the widest upper limit has the largest mean
    plus some multiple of its error among all groups: a few multiples, and several groups for each, stand for all.
    """
    if groups.size <= MANY:
        return groups
    scaled = linked(own, link)
    with np.errstate(all="ignore"):
        mean = np.nan_to_num(scaled.mean[groups])
        error = np.nan_to_num(np.sqrt(scaled.variance[groups] / scaled.n[groups]), posinf=0.0)
    each = MANY // 10
    reach = [sign * mean + factor * error for sign in (1.0, -1.0) for factor in (-4.0, -2.0, 0.0, 1.0, 2.0)]
    return groups[np.unique(np.concatenate([np.argpartition(-one, each)[:each] for one in reach]))]


def _largest_pairs(own: Means, first: IntArray, second: IntArray, link: Link, most: int) -> tuple[IntArray, IntArray]:
    """Of very many pairs those whose gap, or the upper limit of whose gap, is largest by normal theory."""
    if first.size <= most:
        return first, second
    scaled = linked(own, link)
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(scaled.mean[first] - scaled.mean[second]), nan=0.0)
        error = np.sqrt(scaled.variance[first] / scaled.n[first] + scaled.variance[second] / scaled.n[second])
        limits = [gap, gap + 2.0 * np.nan_to_num(error), gap - 4.0 * np.nan_to_num(error)]
    kept = np.unique(np.concatenate([np.argpartition(-limit, most // 3)[: most // 3] for limit in limits]))
    return first[kept], second[kept]
