"""The search for subgroups: conjunctions of up to three conditions whose mean stands out from the rest.

Every feature is a row of small codes, its bins; -1 is in no bin. A *literal* is a condition on one feature: one bin, or
consecutive bins of an ordered feature. With Z the one-hot matrix of all bins and L the 0/1 matrix (literals x bins),

    n = L (Z'WZ) L',    s = L (Z'WYZ) L'

are the mass and the sum of the outcome in every pair of literals, and in single ones on the diagonal. The score is

    z = d sqrt(n (N - n) / (N v)),    d = how far the mean lies beyond that of the rest, moved by the tolerance,

with N the mass and v the variance of all rows. A further condition must raise z by its `SLACK`. The search needs no
validity of its own: what it finds is tested on other rows, or with every subgroup counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

Codes = npt.NDArray[np.int8]  # features x rows
Literal = tuple[int, int, int]  # a feature, and its first and last bin

# How much a second and a third condition must raise the score. There are many more triples than pairs, so a third
# condition raises it further by chance: with 1 for both, subgroups of one condition were found less often.
SLACK = 1.0, 2.0
POOL, BEAM, BRANCHES = 200, 20, 5  # singles and pairs that are kept; pairs that are extended; extensions of each
OVERLAP = 0.5  # of subgroups whose Jaccard index exceeds it, only the first is chosen
BLOCK, LOOKED_AT = 20_000, 20_000  # rows multiplied at once; rows on which overlaps are measured
EVENTS = 30.0  # rows that a skewed outcome needs, in units of the squared skewness


@dataclass(frozen=True, eq=False)
class Literals:
    """``sizes``: the number of bins of each feature; ``ordered``: how many of its first bins are in order (levels are
    not). Bins after them, such as that of missing values, stand alone."""

    sizes: tuple[int, ...]
    ordered: tuple[int, ...]

    def __len__(self) -> int:
        spans = sum(max(k * (k + 1) // 2 - 1, 0) for k in self.ordered)
        return spans + sum(self.sizes) - sum(self.ordered)

    @cached_property
    def every(self) -> tuple[Literal, ...]:
        every: list[Literal] = []
        for feature, (size, k) in enumerate(zip(self.sizes, self.ordered, strict=True)):
            every += [(feature, i, j) for i in range(k) for j in range(i, k) if (i, j) != (0, k - 1)]
            every += [(feature, i, i) for i in range(k, size)]
        return tuple(every)

    @cached_property
    def feature(self) -> IntArray:
        return np.array([feature for feature, _, _ in self.every], dtype=np.intp)

    @cached_property
    def matrix(self) -> FloatArray:
        matrix, starts = np.zeros((len(self), sum(self.sizes))), np.cumsum((0, *self.sizes))
        for i, (feature, first, last) in enumerate(self.every):
            matrix[i, starts[feature] + first : starts[feature] + last + 1] = 1.0
        return matrix


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of each row, and its mass (None: 1 each)."""

    value: FloatArray
    mass: FloatArray | None = None

    @cached_property
    def sums(self) -> tuple[FloatArray, FloatArray]:
        mass = np.ones(self.value.size) if self.mass is None else self.mass
        return mass, mass * self.value

    @cached_property
    def moments(self) -> tuple[float, float, float, float]:
        mass, total = self.sums[0], float(self.sums[0].sum())
        if not total:
            return 0.0, 0.0, 0.0, 0.0
        away = self.value - float(self.sums[1].sum()) / total
        variance, third = (float(mass @ away**power) / total for power in (2, 3))
        return total, float(self.sums[1].sum()), variance, third / variance**1.5 if variance > 0 else 0.0

    def taken(self, rows: IntArray) -> Outcome:
        return Outcome(self.value[rows], None if self.mass is None else self.mass[rows])


@dataclass(frozen=True, eq=False)
class SearchScore:
    """How clearly the mean of a subgroup lies beyond its reference, on one side or on both (``signs``).

    ``moved`` shifts a reference by the tolerance, towards a sign; ``fixed`` is a reference without error (None: the
    rest). Only subgroups with at least ``least`` rows, and as many outside, have a score.
    """

    signs: tuple[float, ...]
    moved: Callable[[FloatArray, float], FloatArray]
    least: float
    fixed: float | None = None

    def __call__(self, n: FloatArray, s: FloatArray, outcome: Outcome) -> FloatArray:
        total, hits, variance, _ = outcome.moments
        with np.errstate(all="ignore"):
            rest = (hits - s) / (total - n) if self.fixed is None else np.full(n.shape, self.fixed)
            unit = np.sqrt(n * ((total - n) / total if self.fixed is None else 1.0) / variance)
            sides = [sign * (s / n - self.moved(rest, sign)) * unit for sign in self.signs]
            z = sides[0] if len(sides) == 1 else np.maximum(*sides)
        return np.where((n >= self.least) & (n <= total - self.least) & np.isfinite(z), z, -np.inf)


class Subgroup(NamedTuple):
    literals: tuple[Literal, ...]
    z: float
    n: float
    s: float

    def members(self, codes: Codes) -> BoolArray:
        parts = [(codes[feature] >= first) & (codes[feature] <= last) for feature, first, last in self.literals]
        return np.logical_and.reduce(parts)


class Crossed(NamedTuple):
    """The sums and scores of pairs of literals, single ones on the diagonal; -inf where there is no such subgroup."""

    n: FloatArray
    s: FloatArray
    z: FloatArray


def family(codes: Codes, outcome: Outcome, literals: Literals, score: SearchScore, depth: int) -> Crossed:
    if outcome.mass is None and bool(((outcome.value == 0) | (outcome.value == 1)).all()):
        ones = outcome.value == 1  # one pass: first the rows with the outcome, then the others
        hits = _product(codes[:, ones], None, literals)
        sums = hits + _product(codes[:, ~ones], None, literals), hits
    else:
        sums = tuple(_product(codes, weight, literals) for weight in outcome.sums)  # type: ignore[assignment]
    n, s = (literals.matrix @ part @ literals.matrix.T for part in sums)
    pairs = literals.feature[:, None] < literals.feature if depth > 1 else np.zeros(n.shape, dtype=bool)
    return Crossed(n, s, np.where(pairs | np.eye(len(n), dtype=bool), score(n, s, outcome), -np.inf))


def _product(codes: Codes, weight: FloatArray | None, literals: Literals) -> FloatArray:
    """Z'WZ; counts of a block are exact in single precision."""
    starts, total = np.cumsum((0, *literals.sizes)), np.zeros((sum(literals.sizes),) * 2)
    for first in range(0, codes.shape[1], BLOCK):
        part = codes[:, first : first + BLOCK]
        hot = np.empty((len(total), part.shape[1]), dtype=np.float32)
        for code, size, start in zip(part, literals.sizes, starts, strict=False):
            bins = np.arange(size, dtype=np.int8)[:, None]
            np.equal(code, bins, out=hot[start : start + size], casting="unsafe")
        total += (hot if weight is None else hot * weight[first : first + BLOCK].astype(np.float32)) @ hot.T
    return total


def candidates(found: Crossed, literals: Literals) -> list[Subgroup]:
    """Single conditions that stand out, and pairs worth their second condition, in order of their scores."""
    single = np.diagonal(found.z)
    z = np.where(found.z >= np.maximum(np.maximum(single[:, None], single), 0.0) + SLACK[0], found.z, -np.inf)
    np.fill_diagonal(z, np.where(single > 1.0, single, -np.inf))
    first, second = np.nonzero(np.isfinite(z))
    order = np.lexsort((second, first, first != second, -np.round(z[first, second], 9)))[:POOL]  # equal ones tie
    return [
        Subgroup(tuple(dict.fromkeys((literals.every[i], literals.every[j]))), *(float(part[i, j]) for part in parts))
        for parts in [(z, found.n, found.s)]
        for i, j in zip(first[order], second[order], strict=True)
    ]


def extended(
    pool: Sequence[Subgroup], codes: Codes, outcome: Outcome, literals: Literals, score: SearchScore
) -> list[Subgroup]:
    """The pool with third conditions that are worth it, for the best pairs, in order of the scores."""
    longer: dict[tuple[Literal, ...], Subgroup] = {}
    for pair in [subgroup for subgroup in pool if len(subgroup.literals) == 2][:BEAM]:
        rows = np.flatnonzero(pair.members(codes))
        inside = outcome.taken(rows)
        weights = inside.mass, inside.sums[1]
        bins = [
            [np.bincount(code, weight, size + 1)[1:] for weight in weights]
            for code, size in zip(codes[:, rows] + np.intp(1), literals.sizes, strict=True)
        ]
        n, s = literals.matrix @ np.hstack(bins)[0], literals.matrix @ np.hstack(bins)[1]
        z = np.round(score(n, s, outcome), 9)
        z[np.isin(literals.feature, [feature for feature, _, _ in pair.literals])] = -np.inf
        for i in np.argsort(-z, kind="stable")[:BRANCHES]:
            if z[i] >= pair.z + SLACK[1]:
                three = tuple(sorted((*pair.literals, literals.every[i])))
                longer.setdefault(three, Subgroup(three, float(z[i]), float(n[i]), float(s[i])))
    return sorted([*pool, *longer.values()], key=lambda subgroup: (-round(subgroup.z, 9), len(subgroup.literals)))


def distinct(pool: Sequence[Subgroup], codes: Codes, most: int) -> list[Subgroup]:
    """The first subgroups of the pool that neither overlap much with an earlier one nor are its complement."""
    chosen: list[tuple[Subgroup, BoolArray]] = []
    for subgroup in pool:
        if len(chosen) == most:
            break
        members = subgroup.members(codes[:, :LOOKED_AT])
        if all(jaccard(members, other) <= OVERLAP and not np.array_equal(members, ~other) for _, other in chosen):
            chosen.append((subgroup, members))
    return [subgroup for subgroup, _ in chosen]


def search(
    codes: Codes, outcome: Outcome, literals: Literals, score: SearchScore, *, depth: int, most: int
) -> list[Subgroup]:
    """At most ``most`` subgroups of up to ``depth`` conditions that stand out, the clearest first."""
    if not outcome.moments[2] > 0:  # the outcome is the same in every row
        return []
    pool = candidates(family(codes, outcome, literals, score, depth), literals)
    return distinct(extended(pool, codes, outcome, literals, score) if depth > 2 else pool, codes, most)


def jaccard(first: BoolArray, second: BoolArray) -> float:
    either = np.count_nonzero(first | second)
    return np.count_nonzero(first & second) / either if either else 0.0


def fisher(subgroups: Sequence[Subgroup], total: float, hits: float, signs: Sequence[float]) -> FloatArray:
    """Fisher's exact test of each subgroup against the rest: P(X <= s) for the sign -1, P(X >= s) for 1, with X
    hypergeometric; for both signs, twice the smaller."""
    from scipy.stats import hypergeom

    n, s = np.array([[g.n, g.s] for g in subgroups]).reshape(-1, 2).T
    below, above = hypergeom.logcdf(s, total, hits, n), hypergeom.logsf(s - 1.0, total, hits, n)
    tail = np.minimum(below, above) if len(signs) > 1 else above if signs[0] > 0 else below
    return np.minimum(len(signs) * np.exp(tail), 1.0)


def readable_edges(quantiles: FloatArray, low: float, high: float) -> tuple[float, ...]:
    """Edges near the quantiles with few digits: within a quarter of the way to the neighbors, the nearest of those
    with the fewest significant digits."""
    inner = np.unique(quantiles[(quantiles > low) & (quantiles <= high)])
    ends = np.concatenate([[low], inner, [high]])
    edges = []
    for before, edge, after in zip(ends, inner.tolist(), ends[2:], strict=False):
        reach = edge - 0.25 * (edge - before), edge + 0.25 * (after - edge)
        shorter = [0.0, *(float(f"{edge:.{digits}e}") for digits in range(17))]
        edges.append(next((number for number in shorter if reach[0] <= number <= reach[1]), edge))
    return tuple(edges)
