"""Kernel sums over rows held in memory: sorted by group and user once, then block by block.

A block holds some thousand rows of one group and never cuts a user in two. From `MANY` rows on, kernels are
interpolated between knots instead of computed at every row (see `sites`): several times as fast, and the numbers differ
by less than 1e-8 of their size (tested).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from isonomy.calibration.smoothing.axis import BINS, Axis
from isonomy.calibration.smoothing.ranks import rank
from isonomy.calibration.smoothing.sites import NODES, Adder, Block, Influence, Knots
from isonomy.calibration.smoothing.sums import Fit, Marks, Products, Smoother, Totals
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray

BLOCK = 4_096
MANY = 2**20
T = TypeVar("T")
S = TypeVar("S", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Rows sorted by group, then user. ``user`` is None when every row is on its own."""

    score: FloatArray
    outcome: FloatArray
    vote: FloatArray  # weight of a row: 1/n_m at user level, 1 at aggregate level, times its count
    count: FloatArray | None  # how many rows a line stands for, where lines have a count
    user: NDArray[np.int64] | None
    offsets: IntArray  # group g is offsets[g]:offsets[g + 1]
    axis: Axis
    shared: NDArray[np.int64]  # users with rows in more than one group, sorted
    binary: bool  # whether every outcome is 0 or 1

    @classmethod
    def of(
        cls,
        columns: Mapping[str, AnyArray],
        size: int,
        most: int | None,
        each: FloatArray | None,
        axis: Axis,
        binary: bool,
    ) -> Memory:
        """The columns "score", "outcome" and "lines" (if lines have a count) in order of "key".

        The key is the group, of ``size``, times ``most`` plus the user, or the group where there are no users (``most``
        is None); negative: in no group. ``each``: the rows of each user, where a user has one vote.
        """
        bounds = np.searchsorted(columns["key"], np.arange(size + 1) * (most or 1))
        kept, offsets = {name: values[bounds[0] :] for name, values in columns.items()}, bounds - bounds[0]
        count = kept.get("lines")
        vote = np.ones(offsets[-1]) if count is None else count
        user = None if most is None else kept["key"] % most
        if user is not None and each is not None:
            own = (1 / np.maximum(each, 1))[user]  # a number that no user has counts no row
            vote = own if count is None else own * count
        shared = spanning(user, offsets)
        return cls(kept["score"], kept["outcome"], vote, count, user, offsets, axis, shared, binary)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return self.offsets.size - 1

    @property
    def rows(self) -> FloatArray:
        """Rows of each group."""
        if self.count is None:
            return np.diff(self.offsets).astype(np.float64)
        return np.array([self.count[a:b].sum() for a, b in itertools.pairwise(self.offsets)])

    @property
    def users(self) -> FloatArray:
        """Users of each group; its rows, when there are no users."""
        if self.user is None:
            return self.rows
        return np.array([_distinct(self.user[a:b]).size for a, b in itertools.pairwise(self.offsets)], dtype=np.float64)

    def pair(self, first: int, second: int) -> Memory:
        """The rows of two groups, as groups 0 and 1."""
        if self.size == 2 and (first, second) == (0, 1):
            return self
        parts = [slice(self.offsets[g], self.offsets[g + 1]) for g in (first, second)]

        def both(values: NDArray[S]) -> NDArray[S]:
            return np.concatenate([values[part] for part in parts])

        offsets = np.cumsum([0, *(part.stop - part.start for part in parts)])
        user = None if self.user is None else both(self.user)
        return replace(
            self,
            score=both(self.score),
            outcome=both(self.outcome),
            vote=both(self.vote),
            count=None if self.count is None else both(self.count),
            user=user,
            offsets=offsets,
            shared=spanning(user, offsets) if self.shared.size else self.shared,
        )

    def histogram(self) -> tuple[FloatArray, FloatArray]:
        """Votes, and votes times outcomes, by group and bin of the axis."""
        weight, total = np.zeros((2, self.size, BINS))

        def count(block: Block) -> tuple[int, FloatArray, FloatArray]:
            bins, vote = self.axis.bin(self.score[block.rows]), self.vote[block.rows]
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

    def totals(self, smoother: Smoother) -> Totals:
        """First pass; see `sums`."""
        knots = self._knots(smoother)
        d, size = smoother.degree, self.size

        def spread(block: Block) -> tuple[Block, FloatArray]:
            weights = self._adder(block, knots).spread(np.column_stack(self._columns(smoother, block)))
            return block, weights.T if knots else _moments(smoother, self.score[block.rows], weights.T)

        if knots is None:
            sums = np.zeros((3 * d + 4, size, smoother.points.size))
            for block, part in self._each(spread):
                sums[:, block.group] += part
        else:
            weights = np.zeros((size, len(self._columns(smoother, Block(0, 0, 0, None))), knots.size))
            for block, part in self._each(spread, 4 * BLOCK):
                weights[block.group] += part
            sums = np.stack([_moments(smoother, knots.scores, weight) for weight in weights], axis=1)
        mark = None if smoother.marks is None else sums[3 * d + 2]
        divisor = sums[3 * d + 3] if smoother.shared else None
        return Totals(sums[: 2 * d + 1], sums[2 * d + 1 : 3 * d + 2], mark, divisor)

    def products(self, smoother: Smoother, fit: Fit) -> Products:
        """Second pass; see `sums`."""
        size, points = self.size, smoother.points.size
        second = np.zeros((2 if smoother.curves else 1, size, size, points, points))
        square = np.zeros((size, points))
        knots = self._knots(smoother)
        tables = None if knots is None else [Influence.of(smoother, fit, g, knots.scores) for g in range(size)]
        several: list[_Part] = []

        def work(block: Block) -> _Part:
            score = self.score[block.rows]
            at = tables[block.group] if tables else Influence.of(smoother, fit, block.group, score)
            return self._influences(smoother, fit, block, self._adder(block, knots), at)

        for part in self._each(work, BLOCK if knots is None else 4 * BLOCK):
            second[:, part.group, part.group] += part.own
            square[part.group] += part.square
            if part.users is not None:
                several.append(part)
        if several:
            _cross(second, several, self.shared)
        return Products(second[0], second[1] if smoother.curves else np.empty(0), square)

    def increments(self, marks: Marks, cell: IntArray, cells: int) -> tuple[FloatArray, FloatArray, float]:
        """Sums of the marks in each score interval, of products over users, and of squares over rows."""
        index = cell[self.axis.bin(self.score)]
        mark = np.concatenate([self._marks(marks, block)[0] for block in self.blocks()])
        value = self.vote * mark
        total = _sums(index, value, cells)
        if self.user is None:
            square = value * mark if self.count is not None else value * value
            return total, np.diag(_sums(index, square, cells)), float(square.sum())
        _, user = np.unique(self.user, return_inverse=True)
        table = sparse.csr_array((value, (user, index)), shape=(int(user.max()) + 1, cells))
        return total, np.asarray((table.T @ table).todense(), dtype=np.float64), float(value @ value)

    def ranked(self, unit: bool) -> FloatArray:
        """ECE and AUC of everybody, then of each group."""
        parts = [slice(0, self.score.size), *(slice(a, b) for a, b in itertools.pairwise(self.offsets))]
        return np.array([rank(self.score[p], self.outcome[p], self.vote[p], unit=unit) for p in parts])

    def _columns(self, smoother: Smoother, block: Block) -> list[FloatArray]:
        """The columns that are summed with the kernel: 1, the outcome, the mark and its denominator."""
        columns = [np.ones(block.stop - block.start), self.outcome[block.rows]]
        return columns if smoother.marks is None else columns + self._marks(smoother.marks, block)

    def _marks(self, marks: Marks, block: Block) -> list[FloatArray]:
        score = self.score[block.rows]
        residual = self.outcome[block.rows] - marks.outcome(score)
        if marks.share is None:
            return [residual]
        share = marks.share(score)
        return [((1 - share) if block.group == 0 else -share) * residual, share * (1 - share)]

    def _influences(self, smoother: Smoother, fit: Fit, block: Block, add: Adder, at: Influence) -> _Part:
        """Sums of the products of the influences of a block's users, and those of users who have other groups too."""
        g = block.group
        _, outcome, *marks = self._columns(smoother, block)
        mass = add(at.kernel)
        off = mass if len(marks) < 2 else add(at.kernel, marks[1])
        gap = add(at.kernel, marks[0] if marks else outcome) - off * fit.centre[g]
        influences = [gap / np.where(fit.divisor[g] == 0, np.nan, fit.divisor[g])]
        if smoother.curves:
            influences.append(at.curves(add, outcome, self.binary))
        if block.first is None and self.count is not None:
            # A line that stands for c rows is c independent rows, not one row of weight c.
            root = 1 / np.sqrt(self.count[block.rows])[:, None]
            influences, mass = [influence * root for influence in influences], mass * root
        own = np.stack([influence.T @ influence for influence in influences])
        square = np.einsum("ij,ij->j", mass, mass)
        if not self.shared.size or block.first is None or self.user is None:
            return _Part(g, own, square)
        users = self.user[block.start + block.first]
        mine = np.isin(users, self.shared)
        return _Part(g, own, square, users[mine], [influence[mine] for influence in influences])

    def _adder(self, block: Block, knots: Knots | None) -> Adder:
        n, vote = block.stop - block.start, self.vote[block.rows, None]
        first = np.arange(n) if block.first is None else block.first
        if knots is None:
            return Adder(first, np.arange(n, dtype=np.int32), vote, n)
        left, weight = knots.weights(self.score[block.rows])
        indices = np.asarray(left[:, None] + np.arange(NODES, dtype=np.int32), dtype=np.int32)
        return Adder(first, indices.ravel(), weight * vote, knots.size)

    def _knots(self, smoother: Smoother) -> Knots | None:
        if self.score.size < MANY:
            return None
        return Knots.of(smoother, float(self.score.min()), float(self.score.max()))

    def _each(self, work: Callable[[Block], T], length: int = BLOCK) -> list[T]:
        blocks = list(self.blocks(length))
        if len(blocks) < 32:
            return [work(block) for block in blocks]
        # Products of blocks are small: threads of the linear algebra library would only get in one another's way.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(work, blocks))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A block's part of the second pass."""

    group: int
    own: FloatArray
    square: FloatArray
    users: NDArray[np.int64] | None = None  # those who appear in several groups
    influences: Sequence[FloatArray] = ()  # theirs


def spanning(user: NDArray[np.int64] | None, offsets: IntArray) -> NDArray[np.int64]:
    """Users with rows in more than one group, sorted; ``user`` is sorted within each group."""
    if user is None:
        return np.empty(0, np.int64)
    together = np.sort(np.concatenate([_distinct(user[a:b]) for a, b in itertools.pairwise(offsets)]))
    return np.unique(together[1:][together[1:] == together[:-1]])


def _distinct(users: NDArray[np.int64]) -> NDArray[np.int64]:
    return users[np.r_[True, users[1:] != users[:-1]]] if users.size else users


def _sums(cell: IntArray, values: FloatArray, cells: int) -> FloatArray:
    return np.bincount(cell, weights=values, minlength=cells).astype(np.float64, copy=False)


def _moments(smoother: Smoother, score: FloatArray, weights: FloatArray) -> FloatArray:
    """Sums of K v^k times each weight (1, outcome, mark, denominator), in the order of `Totals`."""
    d = smoother.degree
    sums = np.zeros((3 * d + 4, smoother.points.size))
    u = smoother.scaled(score)
    k = smoother.weigh(u)
    weighted = weights @ k
    sums[0], sums[2 * d + 1], sums[3 * d + 2 : 3 * d + len(weighted)] = weighted[0], weighted[1], weighted[2:]
    for power in range(1, 2 * d + 1):
        k *= u
        sums[power] = weights[0] @ k
        if power <= d:
            sums[2 * d + 1 + power] = weights[1] @ k
    return sums


def _cross(second: FloatArray, several: list[_Part], shared: NDArray[np.int64]) -> None:
    """Add the products between groups, for users who appear in several."""
    size, points = second.shape[1], second.shape[-1]
    for kind in range(second.shape[0]):
        table = np.zeros((size, shared.size, points))
        for part in several:
            if part.users is not None:
                table[part.group, np.searchsorted(shared, part.users)] = part.influences[kind]
        for a, b in itertools.permutations(range(size), 2):
            second[kind, a, b] += table[a].T @ table[b]
