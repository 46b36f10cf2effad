"""All groups of all metrics as one family of tests: their laws, their dependence, and the widest gap between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Design
from isonomy.groups.likelihood.comparison import Side, Solver, able_groups, likelihoods
from isonomy.groups.likelihood.profile import IDENTITY, Link, ProfileLikelihood, linked
from isonomy.groups.likelihood.reference import Reference, To
from isonomy.groups.likelihood.variants import plugged
from isonomy.inference.designs import FEWEST, Influence, Law, Spread, covariance, spread
from isonomy.inference.effect import DRAWS, RATE_DRAWS, Effect, Hypothesis, Parts, null_pvalues, widest
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status

# Groups up to which max-t is available, and up to which (and for how many lines by groups) the false discovery rate of
# Benjamini-Hochberg is measured; numbers drawn to measure it.
FAMILY, RATE_GROUPS, RATE_ENTRIES, RATE_NUMBERS = 2_000, 1_000, 20_000_000, 2_000_000
# Tested groups up to which the other treatment of the reference is computed for comparison.
CONTRASTS = 20_000
# Pairs of one partition's groups that the widest gap is searched among, chosen by normal theory if there are more;
# fewer for standardized differences, each of which is a joint likelihood of all rows.
PAIRS, STANDARDIZED_PAIRS = 90, 12
# Groups up to which all pairs are considered; beyond, the outermost groups only.
MANY = 1_000


def places_of(solvers: Sequence[Solver]) -> list[slice]:
    """The places of each metric's groups among all groups."""
    ends = np.cumsum([0, *(sum(side.status.size for side in solver.sides) for solver in solvers)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def _sides(solvers: Sequence[Solver]) -> list[Side]:
    return [side for solver in solvers for side in solver.sides]


def combined_spread(solvers: Sequence[Solver]) -> Spread | None:
    """The spread of all groups' disparities over rows with weights, or over clusters; None without either."""
    spreads = []
    for solver in solvers:
        if solver.sums.design is not None:
            influences = [solver.influence(side) for side in solver.sides]
            every = np.ones(sum(side.status.size for side in solver.sides), dtype=bool)
            spreads.append(spread(solver.sums.design, Influence.join(influences, every)))
    return Spread.join(spreads) if spreads else None


def mark_few_clusters(solvers: Sequence[Solver], totals: Spread) -> None:
    """List groups with too few clusters for a variance without testing them."""
    ends = np.cumsum([side.status.size for side in _sides(solvers)])[:-1]
    for side, effective in zip(_sides(solvers), np.split(totals.effective, ends), strict=True):
        side.status[able_groups(side.status) & ~(effective >= FEWEST)] = Status.FEW_CLUSTERS


def law_of_design(solvers: Sequence[Solver], totals: Spread) -> Law:
    """The law of each group's T under the design: that of its difference, whatever scale it is reported on."""
    sides = _sides(solvers)
    constant = np.concatenate([side.status == Status.CONSTANT for side in sides])
    if solvers[0].reference.to.best:  # pairs have laws of their own
        assumed = np.concatenate([(side.means.variance / side.means.n)[: side.status.size] for side in sides])
    else:
        plain = [replace(solver, link=IDENTITY, correction=None) for solver in solvers]
        assumed = likelihoods(plain).standard_error ** 2
    return totals.law(assumed, constant=constant)


def treated_otherwise(solvers: Sequence[Solver], parts: Parts) -> Parts | None:
    """The likelihoods without the reference's error if it is taken into account, and with it (uncorrected) if not."""
    first = solvers[0]
    known = first.reference.to is To.NUMBER or first.sigma is not None
    if known or first.reference.to.best or not 0 < int(parts.tested.sum()) <= CONTRASTS:
        return None
    counted = not first.reference.joint
    if not counted and first.sums.design is None:
        plain = [(where, other) for where, part in parts.parts if (other := plugged(part)) is not None]
        if len(plain) == len(parts.parts):
            return replace(parts, parts=tuple(plain))
    again = [solver.with_reference_error(counted) for solver in solvers]
    again = [replace(solver, correction=None) for solver in again] if counted else again
    others, totals = likelihoods(again), combined_spread(again)
    return others if totals is None else others.under(law_of_design(again, totals))


def planning_error(
    solver: Solver, disparity: FloatArray, error: FloatArray, tested: BoolArray, effect: FloatArray
) -> FloatArray:
    """Standard errors for planning, on the scale of the link.

    A group that does not differ has the rate of its reference, and the variance that goes with it.
    """
    link = solver.link
    with np.errstate(all="ignore"):
        error = error / disparity if link.ratio else error
        if not solver.sums.measure.binary or solver.sums.strata is not None:
            return error
        sizes = [(side.means.n[: side.status.size], side.means.n.sum()) for side in solver.sides]
        n, share = np.concatenate([rows for rows, _ in sizes]), np.zeros(disparity.size)
        if solver.reference.to is To.POPULATION:
            share = np.concatenate([rows / total for rows, total in sizes])
        rate = np.concatenate([side.means.mean[: side.status.size] for side in solver.sides])
        reference = np.concatenate([side.reference for side in solver.sides])
        weight = effect * (1.0 - share) ** 2 / n
        mine, usual = (weight * p * (1.0 - p) / link.unit(p) ** 2 for p in (rate, reference))
        squared = np.maximum(error**2 - mine, 0.0) + usual
        return np.where(tested & ~np.isfinite(squared), np.sqrt(2.0 * usual), np.sqrt(squared))


def same_hypotheses(solvers: Sequence[Solver], null: Hypothesis | None) -> IntArray:
    """A number for each group's null hypothesis; equal numbers mean the same hypothesis.

    Two groups that are everybody have the same one if it is symmetric: against each other (the rest) if two-sided, and
    against the population if it states equality. They are the two levels of a column, or complementary conditions.
    """
    reference, link = solvers[0].reference, solvers[0].link
    symmetric = False
    if null is not None and null.side == "two-sided":
        low, high = link.delta(np.array([null.low, null.high]))
        symmetric = low == -high and (reference.to is To.REST or (reference.to is To.POPULATION and low == 0))
    numbers, start = np.arange(sum(len(side.partition.groups) for side in _sides(solvers))), 0
    for solver in solvers if symmetric else ():
        conditions: dict[int, BoolArray] = {}  # each is a partition with one group
        for side in solver.sides:
            size, inside = len(side.partition.groups), side.partition.codes >= 0
            if size == 2 and inside.all():
                numbers[start + 1] = start
            elif size == 1:
                numbers[start] = next((i for i, other in conditions.items() if (inside != other).all()), start)
                conditions[start] = inside
            start += size
    return numbers


# ---- the dependence of the tests


def max_t_draws(
    solvers: Sequence[Solver], null: Hypothesis, disparity: FloatArray, error: FloatArray, tested: BoolArray
) -> tuple[FloatArray, ...]:
    """P-values of all groups of each metric (draws x groups) under their nulls, with their dependence."""
    drawn = []
    for solver, places in zip(solvers, places_of(solvers), strict=True):
        if (number := int(tested[places].sum())) > FAMILY:
            raise UsageError(f"adjust: 'max-t' takes at most {FAMILY:,} groups, saw {number:,}; use 'holm'.")
        joint = _covariance(solver, tested[places]) if number else np.empty((0, 0))
        columns = disparity[places], error[places], tested[places]
        drawn.append(_null_draws(joint, null, solver.link, *columns, solver.rng, 1.0, DRAWS))
    return tuple(drawn)


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
    """The same for all metrics jointly, to measure the rate of Benjamini and Hochberg's adjustment; empty if too many.

    ``one_pass``: one pass counted all metrics, so their lines are the same.
    """
    lines = 1 + max(int(solver.sums.lines_kept.max(initial=0)) for solver in solvers)
    if not 1 < int(tested.sum()) <= RATE_GROUPS or tested.size * lines > RATE_ENTRIES:
        return ()
    if len(solvers) == 1:
        common = _covariance(solvers[0], tested)
    elif not one_pass or any(solver.sums.design is not None or solver.sums.dropped for solver in solvers):
        return ()
    else:
        values, mass = np.zeros((lines, tested.size)), np.zeros(lines)
        for solver, places in zip(solvers, places_of(solvers), strict=True):
            rows = solver.sums.lines_kept
            values[rows, places] = np.hstack([solver.influence(side).dense() for side in solver.sides])
            mass[rows] = solver.sums.mass
        common = covariance(Design(mass, mass, mass, mass, None), Influence.from_values(values[:, tested]))
    draws, rng = min(RATE_DRAWS, RATE_NUMBERS // int(tested.sum())), np.random.default_rng(0)
    return (_null_draws(common, null, solvers[0].link, disparity, error, tested, rng, alpha, draws),)


def _covariance(solver: Solver, tested: BoolArray) -> FloatArray:
    """The covariance of the disparities of one metric."""
    sums = solver.sums
    design = sums.design or Design(sums.mass, sums.mass, sums.mass, sums.counts, None)
    return covariance(design, Influence.join([solver.influence(side) for side in solver.sides], tested))


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
    """P-values (draws x groups) with this covariance of the tested groups; those above ``most`` may be 1."""
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
    """The largest gap between two groups of the same columns, with its interval; for ratios the smallest ratio.

    ``groups`` are the pair, the lower one first.
    """

    value: float
    ci_low: float
    ci_high: float
    groups: tuple[str, str]
    metric: str


class Gaps:
    """The widest gap, computed on first use, from the counts at the time of the call.

    It is copied and pickled as the resulting `Widest`.
    """

    def __init__(self, solvers: Sequence[Solver], alpha: float, min_size: int) -> None:
        self._arguments = solvers, alpha, min_size

    @cached_property
    def widest(self) -> Widest | None:
        """The largest gap; None if there is no pair."""
        return _widest_gap(*self._arguments)

    def __reduce__(self) -> tuple[object, tuple[Widest | None]]:
        return _unpickled, (self.widest,)


def _unpickled(gap: Widest | None) -> Widest | None:
    return gap


def _widest_gap(solvers: Sequence[Solver], alpha: float, min_size: int) -> Widest | None:
    """The largest gap between two tested groups of one partition, over all metrics; None if there is no pair."""
    effects: list[tuple[Effect, list[tuple[str, str, str]]]] = []
    tests, link = 0, solvers[0].link
    for solver in solvers:
        joint = replace(solver.with_reference_error(True), correction=None, rng=np.random.default_rng(0))
        for side in replace(solver, reference=Reference(To.HIGHEST, True)).with_sides(min_size).sides:
            able = side.tested
            if able.size < 2:
                continue
            tests += able.size * (able.size - 1) // 2
            first, second = _outermost_pairs(side, able, link, PAIRS if solver.sigma is None else STANDARDIZED_PAIRS)
            names, metric = side.partition.groups, solver.sums.measure.name
            labels = [(str(names[a]), str(names[b]), metric) for a, b in zip(first, second, strict=True)]
            effects.append((joint.pair(side, first, second), labels))
    counts = [part for part, _ in effects if isinstance(part, ProfileLikelihood) and part.counted]
    if counts and len(counts) == len(effects):  # many small solves cost more than one large one
        effects = [(ProfileLikelihood.pooled(counts), [label for _, labels in effects for label in labels])]
    largest, pair, least, most = np.nan, ("", "", ""), 0.0, 0.0
    for pairs, labels in effects:
        place, low, high = widest(pairs, alpha, tests)
        gap = float(pairs.value[place])
        if np.isnan(gap):
            continue
        least, most = max(least, low), max(most, high)
        if not abs(gap) <= largest:
            first_, second_, metric = labels[place]
            largest, pair = abs(gap), (first_, second_, metric) if gap <= 0 else (second_, first_, metric)
    if np.isnan(largest):
        return None
    ends = (float(np.exp(-most)), float(np.exp(-least))) if link.ratio else (least, most)
    return Widest(float(link.reported(-largest if link.ratio else largest)), *ends, pair[:2], pair[2])


def _outermost_pairs(side: Side, groups: IntArray, link: Link, number: int) -> tuple[IntArray, IntArray]:
    """The pairs that may have the widest gap, or the largest upper limit of a gap, by normal theory.

    √(a² + b²) is the largest a cos t + b sin t, so the group at an end of the widest upper limit has the largest mean
    plus some multiple of its error among all groups: a few multiples, and several groups for each, represent all.
    """
    means = linked(side.means, link)
    with np.errstate(all="ignore"):
        error = np.sqrt(means.variance / means.n)
    if groups.size > MANY:
        center, margin = np.nan_to_num(means.mean[groups]), np.nan_to_num(error[groups], posinf=0.0)
        limits = [sign * center + factor * margin for sign in (1.0, -1.0) for factor in (-4.0, -2.0, 0.0, 1.0, 2.0)]
        groups = groups[_largest(limits, MANY // 10)]
    first, second = (groups[part] for part in np.triu_indices(groups.size, 1))
    if first.size <= number:
        return first, second
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(np.abs(means.mean[first] - means.mean[second]), nan=0.0)
        margin = np.nan_to_num(np.sqrt(error[first] ** 2 + error[second] ** 2))
    chosen = _largest([gap, gap + 2.0 * margin, gap - 4.0 * margin], number // 3)
    return first[chosen], second[chosen]


def _largest(values: Sequence[FloatArray], number: int) -> IntArray:
    """The places of the ``number`` largest entries of each array."""
    return np.unique(np.concatenate([np.argpartition(-part, number)[:number] for part in values]))
