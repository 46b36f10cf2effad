"""All groups of all metrics as one family of tests: their laws, their dependence, and the widest gap between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Design
from isonomy.groups.likelihood.comparison import Solver, able_groups, likelihoods
from isonomy.groups.likelihood.correction import plugged
from isonomy.groups.likelihood.disparity import (
    DRAWS,
    RATE_DRAWS,
    Hypothesis,
    Likelihood,
    Parts,
    null_pvalues,
    widest,
)
from isonomy.groups.likelihood.links import IDENTITY, Link
from isonomy.groups.likelihood.means import Means
from isonomy.groups.likelihood.profile import Profile, counted, linked
from isonomy.groups.likelihood.reference import Reference, To
from isonomy.inference.designs import FEWEST, Influence, Law, Spread, covariance
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status

# Groups up to which max-t is worked out, and up to which (and how many lines by groups) the false flagging rate of
# Benjamini-Hochberg is measured.
FAMILY, RATE_GROUPS, RATE_ENTRIES = 2_000, 1_000, 20_000_000
# Numbers drawn to measure that rate.
RATE_NUMBERS = 2_000_000
# Tested groups up to which the other treatment of the reference is worked out for comparison.
CONTRASTS = 20_000

# Pairs of one partition's groups among which the widest gap is looked for, if there are more: by normal theory.
PAIRS = 90
# The same for standardised differences, each of which is a joint likelihood of all rows.
STANDARDISED_PAIRS = 12
# Groups whose pairs are all looked at; of more, those that lie furthest out.
MANY = 1_000


def places_of(solvers: Sequence[Solver]) -> list[slice]:
    """Where the groups of each metric stand among all."""
    ends = np.cumsum([0, *(sum(side.status.size for side in solver.sides) for solver in solvers)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def combined_spread(solvers: Sequence[Solver]) -> Spread | None:
    """The spread of all groups' disparities over rows with weights, or over clusters; None without either."""
    each = [totals for solver in solvers if (totals := solver.spread()) is not None]
    return Spread.together(each) if each else None


def mark_few_clusters(solvers: Sequence[Solver], totals: Spread) -> None:
    """Groups of too few clusters to judge their spread by are listed, not tested."""
    sides = [side for solver in solvers for side in solver.sides]
    ends = np.cumsum([side.status.size for side in sides])[:-1]
    for side, effective in zip(sides, np.split(totals.effective, ends), strict=True):
        side.status[able_groups(side.status) & ~(effective >= FEWEST)] = Status.FEW_CLUSTERS


def law_of_design(solvers: Sequence[Solver], totals: Spread) -> Law:
    """The law of each group's T under the design: that of its difference, whatever the scale it is reported on."""
    sides = [side for solver in solvers for side in solver.sides]
    constant = np.concatenate([side.status == Status.CONSTANT for side in sides])
    if solvers[0].reference.to.best:  # pairs have laws of their own
        assumed = np.concatenate([(side.own.variance / side.own.n)[: side.status.size] for side in sides])
    else:
        plain = [replace(solver, link=IDENTITY, correction=None) for solver in solvers]
        assumed = likelihoods(plain).standard_error ** 2
    return totals.law(assumed, constant=constant)


def treated_otherwise(solvers: Sequence[Solver], parts: Parts) -> Parts | None:
    """The likelihoods with the reference's error left out if it counts, and counted (uncorrected) if it does not."""
    first = solvers[0]
    known = first.reference.to is To.NUMBER or first.sigma is not None
    if known or first.reference.to.best or not 0 < int(parts.tested.sum()) <= CONTRASTS:
        return None
    if not first.reference.joint:
        return _under_design([replace(solver.referring(joint=True), correction=None) for solver in solvers])
    if first.sums.design is None:
        plain = [(where, other) for where, part in parts.parts if (other := plugged(part)) is not None]
        if len(plain) == len(parts.parts):
            return replace(parts, parts=tuple(plain))
    return _under_design([solver.referring(joint=False) for solver in solvers])


def _under_design(solvers: Sequence[Solver]) -> Parts:
    parts, totals = likelihoods(solvers), combined_spread(solvers)
    return parts if totals is None else parts.under(law_of_design(solvers, totals))


def planning_error(
    solver: Solver, disparity: FloatArray, error: FloatArray, tested: BoolArray, effect: FloatArray
) -> FloatArray:
    """Standard errors on the scale of the link, of which a plan is made.

    A group that does not differ has the rate of its reference, and the variance that goes with it.
    """
    sides, link = solver.sides, solver.link
    with np.errstate(all="ignore"):
        error = error / disparity if link.ratio else error
        if not solver.sums.measure.binary or solver.sums.strata is not None:
            return error
        parts = [(s.own.n[: s.status.size], s.own.mean[: s.status.size], s.reference, s.own.n.sum()) for s in sides]
        n, own, theirs = (np.concatenate([part[i] for part in parts]) for i in range(3))
        share = np.concatenate([part[0] / part[3] for part in parts]) if solver.reference.to is To.POPULATION else 0.0
        weight = effect * (1.0 - share) ** 2 / n
        mine, usual = (weight * rate * (1.0 - rate) / link.unit(rate) ** 2 for rate in (own, theirs))
        squared = np.maximum(error**2 - mine, 0.0) + usual
        return np.where(tested & ~np.isfinite(squared), np.sqrt(2.0 * usual), np.sqrt(squared))


def same_hypotheses(solvers: Sequence[Solver], null: Hypothesis | None) -> IntArray:
    """A number for each group's null. Two groups that are everybody have the same one, where it is symmetric:
    against each other (the rest) two-sided, and against the population if it says that they are equal."""
    reference, link = solvers[0].reference, solvers[0].link
    symmetric = null is not None and null.side == "two-sided"
    if symmetric and null is not None:
        low, high = link.delta(np.array([null.low, null.high]))
        symmetric = low == -high and (reference.to is To.REST or (reference.to is To.POPULATION and low == 0))
    numbers, start = [], 0
    for side in (side for solver in solvers for side in solver.sides):
        size = len(side.partition.groups)
        everybody = size == 2 and bool((side.partition.codes >= 0).all())
        numbers.append(np.full(2, start) if symmetric and everybody else start + np.arange(size))
        start += size
    return np.concatenate(numbers)


# ---- the dependence of the tests


def max_t_draws(
    solvers: Sequence[Solver], null: Hypothesis, disparity: FloatArray, error: FloatArray, tested: BoolArray
) -> tuple[FloatArray, ...]:
    """P-values of all groups of each metric (draws x groups) under their nulls, with the dependence they have."""
    every = []
    for solver, at in zip(solvers, places_of(solvers), strict=True):
        if (number := int(tested[at].sum())) > FAMILY:
            raise UsageError(f"adjust: 'max-t' takes at most {FAMILY:,} groups, saw {number:,}; use 'holm'.")
        joint = _covariance(solver, tested[at]) if number else np.empty((0, 0))
        drawn = _null_draws(joint, null, solver.link, disparity[at], error[at], tested[at], solver.rng, 1.0, DRAWS)
        every.append(drawn)
    return tuple(every)


def rate_draws(
    solvers: Sequence[Solver],
    null: Hypothesis,
    disparity: FloatArray,
    error: FloatArray,
    tested: BoolArray,
    *,
    alpha: float,
    one_pass: bool,
) -> tuple[FloatArray, ...]:
    """The same of all metrics together, by which Benjamini and Hochberg's adjustment is looked at; none for very many.

    ``one_pass``: one pass counted all metrics, so that their lines are the same.
    """
    lines = 1 + max(int(solver.sums.lines_kept.max(initial=0)) for solver in solvers)
    if not 1 < int(tested.sum()) <= RATE_GROUPS or tested.size * lines > RATE_ENTRIES:
        return ()
    if len(solvers) == 1:
        common = _covariance(solvers[0], tested)
    elif not one_pass or any(solver.sums.design is not None or solver.sums.dropped for solver in solvers):
        return ()
    else:
        common = _covariance_of_metrics(solvers, tested, lines)
    draws = min(RATE_DRAWS, RATE_NUMBERS // int(tested.sum()))
    rng = np.random.default_rng(0)
    return (_null_draws(common, null, solvers[0].link, disparity, error, tested, rng, alpha, draws),)


def _covariance(solver: Solver, tested: BoolArray) -> FloatArray:
    """That of the disparities of one metric."""
    sums = solver.sums
    masses = sums.design or Design(sums.mass, sums.mass, sums.mass, sums.counts, None)
    return covariance(masses, Influence.together([solver.influence(side) for side in solver.sides], tested))


def _covariance_of_metrics(solvers: Sequence[Solver], tested: BoolArray, lines: int) -> FloatArray:
    """That of all metrics' disparities, whose lines are the same."""
    values, mass = np.zeros((lines, tested.size)), np.zeros(lines)
    for solver, at in zip(solvers, places_of(solvers), strict=True):
        kept = solver.sums.lines_kept
        values[kept, at] = np.hstack([solver.influence(side).dense() for side in solver.sides])
        mass[kept] = solver.sums.mass
    return covariance(Design(mass, mass, mass, mass, None), Influence.of(values[:, tested]))


def _null_draws(
    joint: FloatArray,
    null: Hypothesis,
    link: Link,
    disparity: FloatArray,
    error: FloatArray,
    tested: BoolArray,
    rng: np.random.Generator,
    most: float,
    draws: int,
) -> FloatArray:
    """P-values (draws x groups) with this covariance of the tested groups; those above ``most`` may be given as 1."""
    if not tested.any():
        return np.full((0, tested.size), np.nan)
    error = error[tested] / disparity[tested] if link.ratio else error[tested]
    ends = link.delta(np.array([null.low, null.high]))
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((ends[1] - ends[0]) / error, posinf=np.inf)
    sign = np.where(link.delta(disparity[tested]) < ends.mean(), -1.0, 1.0)
    values = null_pvalues(joint, null, width, sign, rng, most=most, draws=draws)
    every = np.full((len(values), tested.size), np.nan)
    every[:, tested] = values
    return every


# ---- the widest gap


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

    def __init__(self, solvers: Sequence[Solver], alpha: float, min_size: int) -> None:
        self._asked = solvers, alpha, min_size

    @cached_property
    def widest(self) -> Widest | None:
        """The largest gap; None where there is no pair."""
        return _widest_gap(*self._asked)

    def __reduce__(self) -> tuple[object, tuple[Widest | None]]:
        return _itself, (self.widest,)


def _itself(gap: Widest | None) -> Widest | None:
    return gap


def _widest_gap(solvers: Sequence[Solver], alpha: float, min_size: int) -> Widest | None:
    """The largest gap between two tested groups of one partition, over all metrics; None where there is no pair."""
    every: list[tuple[Likelihood, list[tuple[str, str, str]]]] = []
    tests, link = 0, solvers[0].link
    for one in solvers:
        joint = replace(one.referring(joint=True), correction=None, rng=np.random.default_rng(0))
        for side in replace(one, reference=Reference(To.HIGHEST, True)).beside(min_size).sides:
            able = side.tested
            if able.size < 2:
                continue
            tests += able.size * (able.size - 1) // 2
            able = _outermost(side.own, able, link)
            first, second = (able[part] for part in np.triu_indices(able.size, 1))
            number = PAIRS if one.sigma is None else STANDARDISED_PAIRS
            first, second = _largest_pairs(side.own, first, second, link, number)
            pairs = joint.pair(side, first, second)
            names, metric = side.partition.groups, one.sums.measure.name
            label = [(str(names[a]), str(names[b]), metric) for a, b in zip(first, second, strict=True)]
            every.append((pairs, label))
    best: tuple[float, tuple[str, str], str] | None = None
    least = most = 0.0
    counts = [part for part, _ in every if isinstance(part, Profile) and counted(part.own)]
    if counts and len(counts) == len(every):  # many small solves cost more than one large one
        every = [(Profile.pooled(counts), [label for _, labels in every for label in labels])]
    for pairs, labels in every:
        place, low, high = widest(pairs, alpha, tests)
        gap = float(pairs.disparity[place])
        if np.isnan(gap):
            continue
        least, most = max(least, low), max(most, high)
        if best is None or abs(gap) > best[0]:
            first_, second_, metric = labels[place]
            best = (abs(gap), (first_, second_) if gap <= 0 else (second_, first_), metric)
    if best is None:
        return None
    value, ends = link.reported(-best[0] if link.ratio else best[0]), (least, most)
    if link.ratio:
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
