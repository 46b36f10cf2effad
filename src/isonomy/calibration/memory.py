"""Kernel sums over rows held in memory: sorted by group and user once, then block by block.

A block holds some thousand rows of one group and never cuts a user in two. From `MANY` rows on, kernels are
interpolated between knots instead of computed at every row (see `sites`): several times as fast, and the numbers differ
by less than 1e-8 of their size (tested).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from isonomy.calibration.plan import Fit, Marks, Plan, Products, Totals, polynomial
from isonomy.calibration.sites import NODES, Adder, Block, Knots
from isonomy.calibration.smoothing import BINS, Axis
from isonomy.numerics.arrays import FloatArray

BLOCK = 4_096
MANY = 2**20
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Rows sorted by group, then user. ``user`` is None when every row is on its own."""

    score: FloatArray
    outcome: FloatArray
    vote: FloatArray  # weight of a row: 1/n_m at user level, 1 at aggregate level, times its count
    count: FloatArray | None  # how many rows a line stands for, where lines have a count
    user: NDArray[np.int64] | None
    offsets: NDArray[np.intp]  # group g is offsets[g]:offsets[g + 1]
    axis: Axis
    shared: NDArray[np.int64]  # users with rows in more than one group, sorted
    binary: bool  # whether every outcome is 0 or 1

    @property
    def size(self) -> int:
        """How many groups there are."""
        return self.offsets.size - 1

    def pair(self, first: int, second: int) -> Memory:
        """The rows of two groups, as groups 0 and 1. Votes stay: a user's rows elsewhere still count in n_m."""
        if self.size == 2 and (first, second) == (0, 1):
            return self
        parts = [slice(self.offsets[g], self.offsets[g + 1]) for g in (first, second)]

        def both(values: Any) -> Any:
            return None if values is None else np.concatenate([values[part] for part in parts])

        offsets, user = np.cumsum([0, *(part.stop - part.start for part in parts)]), both(self.user)
        return replace(
            self,
            score=both(self.score),
            outcome=both(self.outcome),
            vote=both(self.vote),
            count=both(self.count),
            user=user,
            offsets=offsets,
            shared=spanning(user, offsets) if self.shared.size else self.shared,
        )

    def histogram(self) -> tuple[FloatArray, FloatArray]:
        """Votes, and votes times outcomes, by group and bin of the axis."""
        weight, total = np.zeros((2, self.size, BINS))

        def count(block: Block) -> tuple[int, FloatArray, FloatArray]:
            bins, vote = self.axis.bin(self.score[block.rows]).astype(np.intp), self.vote[block.rows]
            return block.group, _sums(bins, vote, BINS), _sums(bins, vote * self.outcome[block.rows], BINS)

        for group, votes, outcomes in self._each(count, 16 * BLOCK):
            weight[group] += votes
            total[group] += outcomes
        return weight, total

    def blocks(self, length: int = BLOCK) -> Iterator[Block]:
        """The rows in pieces that end where a user ends."""
        for g in range(self.size):
            low, high = int(self.offsets[g]), int(self.offsets[g + 1])
            if self.user is None:
                yield from (Block(g, a, min(a + length, high), None) for a in range(low, high, length))
                continue
            user = self.user[low:high]
            first = np.flatnonzero(np.r_[True, user[1:] != user[:-1]]) if high > low else np.empty(0, np.intp)
            wanted = np.searchsorted(first, np.arange(0, high - low, length))
            cuts = np.unique(np.append(wanted, first.size))
            for a, b in itertools.pairwise(cuts):
                start, stop = first[a], first[b] if b < first.size else high - low
                yield Block(g, int(low + start), int(low + stop), first[a:b] - start)

    def totals(self, plan: Plan) -> Totals:
        """First pass; see `plan`."""
        knots = self._knots(plan)
        d, size = plan.degree, self.size

        def spread(block: Block) -> tuple[Block, FloatArray]:
            weights = self._adder(block, knots).spread(np.column_stack(self._columns(plan, block)))
            return block, weights.T if knots else _moments(plan, self.score[block.rows], weights.T)

        if knots is None:
            sums = np.zeros((3 * d + 4, size, plan.points.size))
            for block, part in self._each(spread):
                sums[:, block.group] += part
        else:
            weights = np.zeros((size, len(self._columns(plan, Block(0, 0, 0, None))), knots.size))
            for block, part in self._each(spread, 4 * BLOCK):
                weights[block.group] += part
            sums = np.stack([_moments(plan, knots.scores, weight) for weight in weights], axis=1)
        power, outcome = sums[: 2 * d + 1], sums[2 * d + 1 : 3 * d + 2]
        mark = np.empty(0) if plan.marks is None else sums[3 * d + 2]
        shared = plan.marks is not None and plan.marks.share is not None
        return Totals(power, outcome, mark, sums[3 * d + 3] if shared else None)

    def _columns(self, plan: Plan, block: Block) -> list[FloatArray]:
        """The columns that are summed with the kernel: 1, the outcome, the mark and its denominator."""
        columns = [np.ones(block.stop - block.start), self.outcome[block.rows]]
        if plan.marks is not None:
            columns += [column for column in self._marks(plan.marks, block) if column is not None]
        return columns

    def products(self, plan: Plan, fit: Fit) -> Products:
        """Second pass; see `plan`."""
        size, points = self.size, plan.points.size
        second = np.zeros((2 if plan.curves else 1, size, size, points, points))
        square = np.zeros((size, points))
        shared = self.shared
        knots = self._knots(plan)
        tables = None if knots is None else [Influence.of(plan, fit, g, knots.scores) for g in range(size)]
        kept: list[tuple[int, NDArray[np.int64], list[FloatArray]]] = []

        def work(block: Block) -> tuple[Any, ...]:
            at = Influence.of(plan, fit, block.group, self.score[block.rows]) if tables is None else tables[block.group]
            return self._block_products(plan, fit, block, knots, at, shared)

        for group, own, mass, spanning in self._each(work, BLOCK if knots is None else 4 * BLOCK):
            second[:, group, group] += own
            square[group] += mass
            if spanning is not None:
                kept.append((group, *spanning))
        if kept:
            _cross(second, kept, shared)
        return Products(second[0], second[1] if plan.curves else np.empty(0), square)

    def _block_products(
        self, plan: Plan, fit: Fit, block: Block, knots: Knots | None, at: Influence, shared: NDArray[np.int64]
    ) -> tuple[Any, ...]:
        add, rows, g = self._adder(block, knots), block.rows, block.group
        _, outcome, *marks = self._columns(plan, block)
        mass = add(at.kernel)
        off = mass if len(marks) < 2 else add(at.kernel, marks[1])
        gap = add(at.kernel, marks[0] if marks else outcome) - off * fit.centre[g]
        curve = at.curves(add, outcome, self.binary) if plan.curves else None
        influences = [gap / _nonzero(fit.divisor[g])] + ([] if curve is None else [curve])
        if block.first is None and self.count is not None:
            # A line that stands for c rows is c independent rows, not one row of weight c.
            root = 1 / np.sqrt(self.count[rows])[:, None]
            influences, mass = [influence * root for influence in influences], mass * root
        own = np.stack([influence.T @ influence for influence in influences])
        spanning = None
        if shared.size and block.first is not None and self.user is not None:
            users = self.user[block.start + block.first]
            mine = np.isin(users, shared)
            if mine.any():
                spanning = users[mine], [influence[mine] for influence in influences]
        return g, own, np.einsum("ij,ij->j", mass, mass), spanning

    def _adder(self, block: Block, knots: Knots | None) -> Adder:
        n, vote = block.stop - block.start, self.vote[block.rows, None]
        first = np.arange(n) if block.first is None else block.first
        if knots is None:
            own: Any = np.arange(n, dtype=np.int32)
            return Adder(first, own, vote, n)
        left, weight = knots.weights(self.score[block.rows])
        indices: Any = (left[:, None] + np.arange(NODES, dtype=np.int32)).ravel()
        return Adder(first, indices, weight * vote, knots.size)

    def _knots(self, plan: Plan) -> Knots | None:
        if self.score.size < MANY:
            return None
        return Knots.of(plan, float(self.score.min()), float(self.score.max()))

    def increments(self, marks: Marks, cell: NDArray[np.intp], cells: int) -> tuple[FloatArray, FloatArray]:
        """Sums of the marks in each of ``cells`` score intervals (``cell`` maps a bin to its interval), and the sums of
        products over users. For the cumulative test."""
        index = cell[self.axis.bin(self.score).astype(np.intp)]
        mark = np.concatenate([self._marks(marks, block)[0] for block in self.blocks()])
        value = self.vote * mark
        total = _sums(index, value, cells)
        if self.user is None:
            square = value * mark if self.count is not None else value * value
            return total, np.diag(_sums(index, square, cells))
        _, user = np.unique(self.user, return_inverse=True)
        table = sparse.csr_array((value, (user, index)), shape=(int(user.max()) + 1, cells))
        return total, np.asarray((table.T @ table).todense(), dtype=np.float64)

    def _marks(self, marks: Marks, block: Block) -> tuple[FloatArray, FloatArray | None]:
        at = {name: curve(self.score[block.rows]) for name, curve in marks.curves.items()}
        return marks.row(self.outcome[block.rows], block.group, at)

    def _each(self, work: Callable[[Block], T], length: int = 0) -> list[T]:
        blocks = list(self.blocks(length or BLOCK))
        if len(blocks) < 32:
            return [work(block) for block in blocks]
        # Products of blocks are small: threads of the linear algebra library would only get in one another's way.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(work, blocks))


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """At each site and grid point: K, and a row's influence on the curve, which is linear in its outcome."""

    kernel: FloatArray
    at_zero: FloatArray  # with the outcome 0
    at_either: FloatArray  # with the outcome 0, and below that with the outcome 1
    slope: FloatArray  # what a unit of the outcome adds

    @classmethod
    def of(cls, plan: Plan, fit: Fit, g: int, score: FloatArray) -> Influence:
        """For group ``g``, at the scores of the sites."""
        u = (score[:, None] - plan.points) * (1.0 / plan.width)
        k = plan.weigh(u)
        if not plan.curves:
            none = np.empty((0, plan.points.size))
            return cls(k, none, none, none)
        slope = k * polynomial(fit.lever[:, g], u)
        at_zero = -slope * polynomial(fit.beta[:, g], u)
        return cls(k, at_zero, np.vstack([at_zero, at_zero + slope]), slope)

    def curves(self, add: Adder, outcome: FloatArray, binary: bool) -> FloatArray:
        """Sums by user of the influences on the curves."""
        if binary:
            return add.below(outcome)(self.at_either)
        return add(self.at_zero) + add(self.slope, outcome)


def spanning(user: NDArray[np.int64] | None, offsets: NDArray[np.intp]) -> NDArray[np.int64]:
    """Users with rows in more than one group, sorted; ``user`` is sorted within each group."""
    if user is None:
        return np.empty(0, np.int64)
    each = [user[a:b] for a, b in itertools.pairwise(offsets)]
    distinct = [part[np.r_[True, part[1:] != part[:-1]]] if part.size else part for part in each]
    together = np.sort(np.concatenate(distinct))
    return np.unique(together[1:][together[1:] == together[:-1]])


def _sums(cell: NDArray[Any], values: FloatArray, cells: int) -> FloatArray:
    return np.bincount(cell, weights=values, minlength=cells).astype(np.float64, copy=False)


def _moments(plan: Plan, score: FloatArray, weights: FloatArray) -> FloatArray:
    """Sums of K v^k times each weight (1, outcome, mark, denominator), in the order of `Totals`."""
    d = plan.degree
    sums = np.zeros((3 * d + 4, plan.points.size))
    u = (score[:, None] - plan.points) * (1.0 / plan.width)
    k = plan.weigh(u)
    weighted = weights @ k
    sums[0], sums[2 * d + 1], sums[3 * d + 2 : 3 * d + len(weighted)] = weighted[0], weighted[1], weighted[2:]
    for power in range(1, 2 * d + 1):
        k *= u
        sums[power] = weights[0] @ k
        if power <= d:
            sums[2 * d + 1 + power] = weights[1] @ k
    return sums


def _nonzero(values: FloatArray) -> FloatArray:
    return np.where(values == 0, np.nan, values)


def _cross(second: FloatArray, kept: list[Any], shared: NDArray[np.int64]) -> None:
    """Add the products between groups, for users who appear in several."""
    size, points = second.shape[1], second.shape[-1]
    for kind in range(second.shape[0]):
        table = np.zeros((size, shared.size, points))
        for group, users, influences in kept:
            table[group, np.searchsorted(shared, users)] = influences[kind]
        for a in range(size):
            for b in range(size):
                if a != b:
                    second[kind, a, b] += table[a].T @ table[b]
