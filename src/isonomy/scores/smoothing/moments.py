"""Rows as votes at sites of the score axis: the sums behind every estimate, and the products behind every variance.

A row is known by its group, its user, its outcome and the bin of the score axis in which it lies; a bin stands at the
mean of its scores, which changes a kernel estimate by about (bin / bandwidth)^2 / 24 of its curvature. Estimates are
functions of the votes, and of the votes times outcomes, at each site. To first order they are linear in both, so that a
covariance needs no more than products of these two numbers at every two sites, added up over users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.scores.smoothing.kernels import BINS, Axis

HEAVY = 512  # rows of a user from which the user's products are those of a full line
_LINES = 2**13  # users at a time
_PAIRS = 2**21  # of rows at a time
_ROWS = 2**20  # of users at a time, in each of two threads
MANY = 2**19  # rows of users from which products of sites are added up once, for
FEW = 8  # groups at most: products of a group fill 32 MB
Products = Mapping[tuple[int, int], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class VoteMoments:
    """Sums over the rows of some groups, and over their users of products of these sums.

    A functional is an array (2, BINS, P): what a vote, and a vote times its outcome, adds to each of P numbers at each
    site. ``diagonal``: where every row is on its own; ``tables``: users x (votes, votes times outcomes at each site) of
    each group; ``blocks``: the products of two groups' tables, (2, 2, BINS, BINS), without which tables would be large.
    """

    axis: Axis
    place: FloatArray  # (BINS,): sums of votes times scores
    weight: FloatArray  # (G, BINS): sums of votes
    total: FloatArray  # (G, BINS): sums of votes times outcomes
    square: FloatArray  # (G, BINS): sums over users (rows, without users) of squared votes
    rows: FloatArray  # (G,)
    users: FloatArray  # (G,): users of each group; its rows, where there are no users
    spanning: int  # users with rows in more than one group
    diagonal: FloatArray | None = None  # (3, G, BINS): sums of squared votes times 1, Y and Y^2
    tables: tuple[sparse.csr_array, ...] = ()
    blocks: Products | None = None

    @classmethod
    def of(
        cls,
        axis: Axis,
        group: IntArray,
        size: int,
        score: FloatArray,
        outcome: FloatArray,
        vote: FloatArray,
        lines: FloatArray | None = None,
        user: NDArray[np.int64] | None = None,
        *,
        products: bool | None = None,
    ) -> VoteMoments:
        """Of rows in groups 0 to ``size`` - 1 (negative: in none).

        ``lines``: how many rows each stands for; ``products``: whether products of sites are kept, which can be added
        to those of other parts of a table, in place of users. None: where there are many rows and few groups.
        """
        if np.any(group < 0):
            kept = group >= 0
            group, score, outcome, vote = group[kept], score[kept], outcome[kept], vote[kept]
            lines = None if lines is None else lines[kept]
            user = None if user is None else user[kept]
        bins = axis.bin(score)
        flat = group * BINS + bins

        def at_sites(values: FloatArray) -> FloatArray:
            return np.bincount(flat, values, size * BINS).astype(np.float64).reshape(size, BINS)

        squared = vote * vote if lines is None else vote * vote / lines
        moments = cls(
            axis=axis,
            place=np.bincount(bins, vote * score, BINS).astype(np.float64),
            weight=at_sites(vote),
            total=at_sites(vote * outcome),
            square=at_sites(squared),
            rows=np.bincount(group, lines, size).astype(np.float64),
            users=np.bincount(group, lines, size).astype(np.float64),
            spanning=0,
        )
        if user is None:
            first = at_sites(squared * outcome)
            return replace(moments, diagonal=np.stack([moments.square, first, at_sites(squared * outcome**2)]))
        present = np.zeros((size, int(user.max(initial=-1)) + 1), dtype=bool)
        present[group, user] = True
        moments = replace(
            moments, users=present.sum(axis=1).astype(np.float64), spanning=int((present.sum(axis=0) > 1).sum())
        )
        multiplied = (score.size > MANY and size <= FEW) if products is None else products
        if (
            multiplied
            and not moments.spanning
            and (share := _shares(user, vote, outcome, present.shape[1])) is not None
        ):
            own = _products_by_count(group, user, 2 * bins + (outcome > 0), share, size)
            square = np.stack([np.diagonal(block[0, 0]) for block in own])
            return replace(moments, square=square, blocks={(g, g): block for g, block in enumerate(own)})
        who, where, at = (values.astype(np.int32) for values in (user, group, bins))  # half the memory
        rows = _Rows(who, where, at, vote, vote * outcome).in_order(present.shape[1])
        if not multiplied or moments.spanning:
            moments = replace(moments, tables=tuple(rows.table(g, present.shape[1]) for g in range(size)))
        if not multiplied:
            return replace(moments, square=np.stack([_squares(table) for table in moments.tables]))
        blocks = {(g, g): rows[rows.group == g].products(present.shape[1]) for g in range(size)}
        square = np.stack([np.diagonal(blocks[g, g][0, 0]) for g in range(size)])
        if moments.spanning:
            blocks |= {(a, b): _gram(moments.tables[a], moments.tables[b]) for a, b in combinations(range(size), 2)}
        return replace(moments, square=square, blocks=blocks, tables=())

    def __add__(self, other: VoteMoments) -> VoteMoments:
        """Of the rows of both, which have no user in common."""
        names = ("place", "weight", "total", "square", "rows", "users", "spanning")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        diagonal = None if self.diagonal is None or other.diagonal is None else self.diagonal + other.diagonal
        blocks = None
        if self.blocks is not None and other.blocks is not None:
            mine, theirs = self.blocks, other.blocks
            none = np.zeros((2, 2, BINS, BINS))  # of two groups that share no user in one of the parts
            blocks = {key: mine.get(key, none) + theirs.get(key, none) for key in {*mine, *theirs}}
        return replace(self, **sums, diagonal=diagonal, blocks=blocks)

    def entries(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """What is not 0, with its place in one long array: sums of parts add up there (`from_entries`)."""
        start = 0
        for name, shape in _shapes(self.size).items():
            values = None if (numbers := getattr(self, name)) is None else np.ravel(numbers)
            if values is not None:
                yield start + (place := np.flatnonzero(values)), values[place].astype(np.float64)
            start += math.prod(shape)
        for (a, b), block in (self.blocks or {}).items():
            flat = np.ravel(block)
            yield start + (a * self.size + b) * flat.size + (place := np.flatnonzero(flat)), flat[place]

    @classmethod
    def from_entries(cls, axis: Axis, size: int, place: IntArray, value: FloatArray, *, users: bool) -> VoteMoments:
        """From the entries of all parts, added up by place and in order; ``users``: rows have users."""

        def filled(start: int, shape: tuple[int, ...]) -> FloatArray:
            numbers = np.zeros(shape)
            first, last = np.searchsorted(place, [start, start + numbers.size])
            numbers.reshape(-1)[place[first:last] - start] = value[first:last]
            return numbers

        start, sums = 0, {}
        for name, shape in _shapes(size).items():
            sums[name] = filled(start, shape)
            start += math.prod(shape)
        spanning = round(float(sums["spanning"][0]))
        moments = cls(
            axis=axis,
            place=sums["place"],
            weight=sums["weight"],
            total=sums["total"],
            square=sums["square"],
            rows=sums["rows"],
            users=sums["users"],
            spanning=spanning,
        )
        if not users:
            return replace(moments, diagonal=sums["diagonal"])
        shape = (2, 2, BINS, BINS)
        pairs = [(g, g) for g in range(size)] + (list(combinations(range(size), 2)) if spanning else [])
        blocks = {(a, b): filled(start + (a * size + b) * math.prod(shape), shape) for a, b in pairs}
        return replace(moments, blocks=blocks)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.weight)

    @property
    def site(self) -> FloatArray:
        """Where each bin stands: at the mean of its scores, and in it, should there be scores beyond the axis."""
        votes, half = self.weight.sum(axis=0), self.axis.length / BINS / 2
        centers = self.axis.centers
        mean = np.divide(self.place, votes, out=centers.copy(), where=votes > 0)
        return np.clip(mean, centers - half, centers + half)

    def between(self, low: float, high: float) -> BoolArray:
        """The sites from one score to another, up to some rounding."""
        rounding = 1e-9 * self.axis.length
        return np.asarray((self.site >= low - rounding) & (self.site <= high + rounding))

    def cross(self, a: int, first: FloatArray, b: int, second: FloatArray) -> FloatArray:
        """Covariances (P, Q) of functionals of the rows of groups ``a`` and ``b``."""
        shape = first.shape[-1], second.shape[-1]
        if a != b and not self.spanning:
            return np.zeros(shape)
        if self.diagonal is not None:
            one, outcome, squared = self.diagonal[:, a, :, None]
            ends = one * second[0] + outcome * second[1], outcome * second[0] + squared * second[1]
            return np.asarray(first[0].T @ ends[0] + first[1].T @ ends[1])
        covariance = np.zeros(shape)
        if self.blocks is not None:
            block = self.blocks[a, b] if a <= b else self.blocks[b, a].transpose(1, 0, 3, 2)
            for k, left in enumerate(first):
                for m, right in enumerate(second):
                    if left.any() and right.any():  # functionals of votes alone are half of nothing
                        covariance += left.T @ (block[k, m] @ right)
            return covariance
        f, h = (functional.reshape(2 * BINS, -1) for functional in (first, second))
        for start in range(0, self.tables[a].shape[0], _LINES):
            lines = slice(start, start + _LINES)
            left = self.tables[a][lines] @ f
            covariance += left.T @ (left if a == b and first is second else self.tables[b][lines] @ h)
        return covariance

    def covariance(self, functionals: Mapping[int, FloatArray]) -> FloatArray:
        """Covariance (P, P) of numbers to which each of some groups adds its functional."""
        parts = [self.cross(a, f, b, h) for a, f in functionals.items() for b, h in functionals.items()]
        return np.asarray(np.sum(parts, axis=0))


def _shapes(size: int) -> dict[str, tuple[int, ...]]:
    """The sums of ``size`` groups and their shapes, in the order of `VoteMoments.entries`; blocks come after them."""
    each = dict.fromkeys(("weight", "total", "square"), (size, BINS))
    counts: dict[str, tuple[int, ...]] = {"rows": (size,), "users": (size,), "spanning": (1,)}
    return {"place": (BINS,), **each, **counts, "diagonal": (3, size, BINS)}


def _shares(user: NDArray[np.int64], vote: FloatArray, outcome: FloatArray, most: int) -> FloatArray | None:
    """The vote of each user's rows, where they are alike and every outcome is 0 or 1; else None."""
    if np.any(outcome * (1 - outcome) != 0):
        return None
    share = np.zeros(most)
    share[user] = vote
    return share if np.array_equal(share[user], vote) else None


def _products_by_count(
    group: IntArray, user: NDArray[np.int64], place: IntArray, share: FloatArray, size: int
) -> list[FloatArray]:
    """Products (2, 2, BINS, BINS) of each group's sites, added up over users whose rows have equal votes.

    ``place`` is twice the bin, plus the outcome. One sort puts a group's rows in order of users and places; nothing
    else has to be carried along, and a pair of rows is counted once, in the upper half of a table of places.
    """
    width, square = np.int64(2 * BINS), share * share

    def in_order(g: int) -> NDArray[np.int64]:
        own = group == g
        keys = user[own] * width + place[own]
        keys.sort()
        return keys

    def products(keys: NDArray[np.int64]) -> FloatArray:
        who, at = np.divmod(keys, width)
        low, high = int(who[0]), int(who[-1])
        return _place_products((who - low).astype(np.int32), at.astype(np.int32), square[low : high + 1])

    blocks = []
    with ThreadPoolExecutor(2) as pool:  # no more: each has tables of its own
        for keys in pool.map(in_order, range(size)):
            # A part begins with the first row of a user.
            begin = np.unique(np.searchsorted(keys, keys[::_ROWS] // width * width))
            table = np.zeros((2 * BINS, 2 * BINS))
            for one in pool.map(products, np.split(keys, begin[1:]) if keys.size else ()):
                table += one
            blocks.append(_by_outcome(table))
    return blocks


def _place_products(user: NDArray[np.int32], place: NDArray[np.int32], square: FloatArray) -> FloatArray:
    """A symmetric table of the products of users' counts at two places, times the user's ``square``."""
    count = np.bincount(user, minlength=square.size)
    table = np.zeros((2 * BINS, 2 * BINS))
    for start in range(0, (heavy := np.flatnonzero(count > HEAVY)).size, 1024):
        lines = heavy[start : start + 1024]
        first = np.searchsorted(user, lines.astype(user.dtype))
        each = [np.bincount(place[a : a + n], minlength=2 * BINS) for a, n in zip(first, count[lines], strict=True)]
        counts = np.stack(each).astype(np.float64)
        table += counts.T @ (counts * square[lines, None])
    if heavy.size:
        light = count[user] <= HEAVY
        user, place, count = user[light], place[light], np.where(count > HEAVY, 0, count)
    weight, above = square[user], np.zeros(table.size)
    np.einsum("ii->i", table)[...] += np.bincount(place, weight, 2 * BINS)
    first = np.arange(user.size, dtype=np.int32)
    left = np.cumsum(count, dtype=np.int32)[user] - first - 1  # rows of the same user that come after
    line, lag, pairs, waiting = place * np.int32(2 * BINS), 1, [], 0
    while first.size:
        kept = left >= lag
        first, left, line, weight = first[kept], left[kept], line[kept], weight[kept]
        pairs.append((line + place[first + lag], weight))
        waiting += first.size
        lag += 1
        if not first.size or waiting > _PAIRS:
            at, products = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
            above += np.bincount(at, products, table.size)
            pairs, waiting = [], 0
    above = above.reshape(table.shape)
    table += above
    table += above.T
    return table


def _by_outcome(table: FloatArray) -> FloatArray:
    """Products of votes, and of votes times outcomes (first two axes), from those of places."""
    both = table.reshape(BINS, 2, BINS, 2)
    block = np.empty((2, 2, BINS, BINS))
    block[1, 1], block[0, 1] = both[:, 1, :, 1], both[:, :, :, 1].sum(axis=1)
    block[0, 0], block[1, 0] = both.sum(axis=(1, 3)), block[0, 1].T
    return block


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of users: their group and site, their vote and their vote times the outcome."""

    user: NDArray[np.int32]
    group: NDArray[np.int32]
    bins: NDArray[np.int32]
    vote: FloatArray
    outcome: FloatArray

    def __getitem__(self, chosen: IntArray | NDArray[np.int32] | BoolArray) -> _Rows:
        names = ("user", "group", "bins", "vote", "outcome")
        return _Rows(*(getattr(self, name)[chosen] for name in names))

    def in_order(self, most: int) -> _Rows:
        """By user. A table of single entries is turned round, which is a counting sort."""
        n = self.user.size
        single = sparse.csc_array((np.ones(n, dtype=np.int8), self.user, np.arange(n + 1)), shape=(most, n))
        return self[single.tocsr().indices]

    def table(self, g: int, most: int) -> sparse.csr_array:
        """Users x (votes at each site, then votes times outcomes) of a group; rows at one site are not added up yet."""
        own = self[self.group == g]
        entries = np.column_stack([own.vote, own.outcome]).ravel()
        places = np.column_stack([own.bins, own.bins + BINS]).ravel().astype(np.int32)
        held = entries != 0  # outcomes of 0 take no place
        held[::2] = True
        ends = np.concatenate([[0], np.cumsum(np.bincount(own.user, 1 + held[1::2], minlength=most))]).astype(np.int64)
        return sparse.csr_array((entries[held], places[held], ends), shape=(most, 2 * BINS))

    def products(self, most: int) -> FloatArray:
        """Products of every two sites of one group, added up over users; rows are in order of users.

        Rows are paired with the next of the same user, then with the one after that, and so on.
        """
        many = np.bincount(self.user, minlength=most)[self.user] > HEAVY
        if many.any():
            heavy = self[many].table(int(self.group[0]), most)
            return _gram(heavy, heavy) + self[~many].products(most)
        block = np.zeros((2, 2, BINS, BINS))
        first, pairs, lag = np.arange(self.user.size), [np.empty((2, 0), dtype=np.intp)], 1
        while first.size:
            first = first[first < self.user.size - lag]
            first = first[self.user[first] == self.user[first + lag]]
            pairs.append(np.stack([first, first + lag]))
            lag += 1
            if not first.size or sum(pair.shape[1] for pair in pairs) > _PAIRS:
                i, j = np.concatenate(pairs, axis=1)
                place = self.bins[i] * BINS + self.bins[j]
                for k, left in enumerate((self.vote[i], self.outcome[i])):
                    for m, right in enumerate((self.vote, self.outcome)):
                        block[k, m] += np.bincount(place, left * right[j], BINS * BINS).reshape(BINS, BINS)
                pairs = []
        for k, m in ((0, 0), (1, 1)):  # each pair counts both ways round
            block[k, m] += block[k, m].T.copy()
        block[0, 1] += block[1, 0].T
        for k, left in enumerate((self.vote, self.outcome)):
            for m, right in enumerate((self.vote, self.outcome)):
                if k <= m:
                    np.einsum("ii->i", block[k, m])[...] += np.bincount(self.bins, left * right, BINS)
        block[1, 0] = block[0, 1].T
        return block


def _gram(a: sparse.csr_array, b: sparse.csr_array) -> FloatArray:
    """Products of two tables (2, 2, BINS, BINS), added up over users; of those with many rows as full matrices."""
    heavy = np.flatnonzero(np.maximum(np.diff(a.indptr), np.diff(b.indptr)) > HEAVY)
    products = np.zeros((2 * BINS, 2 * BINS))
    for start in range(0, heavy.size, 1024):
        lines = heavy[start : start + 1024]
        products += a[lines].toarray().T @ b[lines].toarray()
    if heavy.size:
        light = np.setdiff1d(np.arange(a.shape[0]), heavy)
        a, b = a[light], b[light]
    products += (a.T.tocsr() @ b).toarray()
    return np.asarray(products.reshape(2, BINS, 2, BINS).swapaxes(1, 2), dtype=np.float64)


def _squares(table: sparse.csr_array) -> FloatArray:
    """Sums over users of their squared votes at each site."""
    line = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    votes = table.indices < BINS
    cell, place = np.unique(line[votes] * BINS + table.indices[votes], return_inverse=True)
    each = np.bincount(place, table.data[votes])
    return np.bincount(cell % BINS, each**2, BINS).astype(np.float64)
