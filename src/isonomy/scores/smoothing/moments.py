"""Rows as votes at sites of the score axis: the sums behind every estimate, and the products behind every variance.

A row is known by its group, its user, its outcome and the bin of the score axis in which it lies. A bin stands at the
mean of its scores, which changes a kernel estimate by about (bin / bandwidth)^2 / 24 of its curvature. Estimates are
functions of the votes, and of the votes times outcomes, at each site. To first order they are linear in both, so a
covariance needs only products of these two numbers at every two sites, summed over users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.scores.smoothing.kernels import AT_ONCE, BINS, Axis, Bandwidth, Widths
from isonomy.scores.smoothing.products import SITES, Products

_LINES = 2**13  # users at a time, in products with functionals
MANY = 2**19  # rows of users from which products of sites are summed once, for
FEW = 8  # groups at most: products of a group fill 32 MB
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class VoteMoments:
    """The groups of one table: sums over their rows, and over their users of products of these sums.

    A functional is an array (2, BINS, P): what a vote, and a vote times its outcome, adds to each of P numbers at each
    site. ``diagonal`` is used if rows are independent. Otherwise ``tables`` has users x (votes, votes times outcomes at
    each site) of each group, or, if tables would be large, ``blocks`` has their `Products`.
    Independent rows have ``tables`` only for `composite_parity`.
    """

    title: str
    groups: tuple[Group, ...]
    binary: bool  # whether every outcome is 0 or 1
    axis: Axis
    place: FloatArray  # (BINS,): sums of votes times scores
    weight: FloatArray  # (G, BINS): sums of votes
    total: FloatArray  # (G, BINS): sums of votes times outcomes
    square: FloatArray  # (G, BINS): sums over users (rows, without users) of squared votes
    rows: FloatArray  # (G,)
    users: FloatArray  # (G,): users of each group; its rows, if there are no users
    spanning: int = 0  # users with rows in more than one group
    diagonal: FloatArray | None = None  # (3, G, BINS): sums of squared votes times 1, Y and Y^2
    # (4, G, BINS): sums of cubed votes times 1, Y, Y^2 and Y^3; with blocks, of a user's votes and outcomes together,
    # all at the first site. None: users are at hand.
    cubes: FloatArray | None = None
    tables: tuple[sparse.csr_array, ...] = ()
    blocks: Mapping[Pair, FloatArray] | None = None

    @classmethod
    def from_rows(
        cls,
        title: str,
        groups: tuple[Group, ...],
        binary: bool,
        axis: Axis,
        code: IntArray,
        score: FloatArray,
        outcome: FloatArray,
        vote: FloatArray,
        lines: FloatArray | None = None,
        user: IntArray | None = None,
        *,
        products: Products | None = None,
    ) -> VoteMoments:
        """Sum rows whose group has the number ``code`` (negative: none).

        ``lines``: how many rows each stands for. ``products``: the products of sites so far, to which these rows add
        theirs; call `with_products` after the last part of a table. None: the result has the users themselves.
        """
        size = len(groups)
        if np.any(code < 0):
            inside = code >= 0
            code, score, outcome, vote = code[inside], score[inside], outcome[inside], vote[inside]
            lines, user = None if lines is None else lines[inside], None if user is None else user[inside]
        cells: IntArray = np.empty(code.size, dtype=np.int32)  # (group, bin)
        place, counts, sums = np.zeros(BINS), np.zeros(size), np.zeros((2, size * BINS))
        for start in range(0, code.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            bins, votes = axis.bins.index(score[part]), vote[part]
            cell = code[part] * BINS + bins
            cells[part] = cell
            place += np.bincount(bins, votes * score[part], BINS)
            sums += [np.bincount(cell, values, size * BINS) for values in (votes, votes * outcome[part])]
            counts += np.bincount(code[part], None if lines is None else lines[part], size)

        def at_sites(values: FloatArray) -> FloatArray:
            return np.bincount(cells, values, size * BINS).astype(np.float64).reshape(size, BINS)

        weight, total = sums.reshape(2, size, BINS)
        moments = cls(title, groups, binary, axis, place, weight, total, np.zeros_like(weight), counts, counts)
        if user is None:
            squared = vote * vote if lines is None else vote * vote / lines
            diagonal = np.stack([at_sites(squared * outcome**k) for k in range(3)])
            cubed = squared * vote if lines is None else squared * vote / lines
            cubes = np.stack([at_sites(cubed * outcome**k) for k in range(4)])
            return replace(moments, square=diagonal[0], diagonal=diagonal, cubes=cubes)
        people = int(user.max(initial=-1)) + 1
        users = np.zeros((size, people), dtype=bool)
        users[code, user] = True
        spanning = int((users.sum(axis=0, dtype=np.uint16) > 1).sum())
        moments = replace(moments, users=users.sum(axis=1).astype(np.float64), spanning=spanning)
        members = (np.flatnonzero(code == g) for g in range(size))
        if products is None:
            bins = cells % BINS
            tables = tuple(_table(user[rows], bins[rows], vote[rows], outcome[rows], people) for rows in members)
            square = [np.bincount(table.indices, table.data**2, SITES)[:BINS] for table in tables]
            return replace(moments, square=np.stack(square), tables=tables)
        products.extend([pair for pair in combinations(range(size), 2) if np.logical_and(*users[list(pair)]).any()])
        cells += BINS * code.astype(np.int32)
        products.add(user, people, cells, vote, outcome)
        cubes = np.zeros((4, size, BINS))
        for g, rows in enumerate(() if products.binary else members):  # the skewness of rates is not needed
            ones, totals = (np.bincount(user[rows], v, people) for v in (vote[rows], (vote * outcome)[rows]))
            cubes[:, g, 0] = [np.sum(ones ** (3 - k) * totals**k) for k in range(4)]
        return replace(moments, cubes=cubes)

    def with_products(self, products: Products) -> VoteMoments:
        """These sums with the products of all parts of the table, to which nothing can be added afterwards."""
        blocks = products.blocks()
        square = [2 * np.diagonal(blocks[g, g])[:BINS] for g in range(self.size)]
        return replace(self, square=np.stack(square), blocks=blocks)

    def __add__(self, other: VoteMoments) -> VoteMoments:
        """The sums over the rows of both, which have no user in common."""
        names = ("place", "weight", "total", "square", "rows", "users", "spanning")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        diagonal = None if self.diagonal is None or other.diagonal is None else self.diagonal + other.diagonal
        cubes = None if self.cubes is None or other.cubes is None else self.cubes + other.cubes
        binary = self.binary and other.binary
        return replace(self, **sums, binary=binary, diagonal=diagonal, cubes=cubes)

    def entries(self, products: Products | None) -> Iterator[tuple[IntArray, FloatArray]]:
        """The numbers that are not 0, with their places in one long array in which parts add up (`from_entries`)."""
        start = 0
        for name, shape in _shapes(self.size).items():
            if (numbers := getattr(self, name)) is not None:
                values = np.ravel(numbers)
                yield start + (place := np.flatnonzero(values)), values[place].astype(np.float64)
            start += math.prod(shape)
        for (a, b), sums in () if products is None else products.sums.items():
            flat = np.ravel(sums)
            yield start + (a * self.size + b) * flat.size + (place := np.flatnonzero(flat)), flat[place]

    @classmethod
    def from_entries(
        cls,
        title: str,
        groups: tuple[Group, ...],
        binary: bool,
        axis: Axis,
        place: IntArray,
        value: FloatArray,
        *,
        users: bool,
    ) -> VoteMoments:
        """From the entries of all parts, summed by place and in order; ``users``: whether rows have users."""

        def filled(start: int, shape: tuple[int, ...]) -> FloatArray:
            numbers = np.zeros(shape)
            first, last = np.searchsorted(place, [start, start + numbers.size])
            numbers.reshape(-1)[place[first:last] - start] = value[first:last]
            return numbers

        start, size = 0, len(groups)
        sums: dict[str, Any] = {}
        for name, shape in _shapes(size).items():
            sums[name] = filled(start, shape)
            start += math.prod(shape)
        diagonal, spanning = sums.pop("diagonal"), round(float(sums.pop("spanning")[0]))
        moments = cls(title, groups, binary, axis, **sums, spanning=spanning)
        if not users:
            return replace(moments, diagonal=diagonal)
        products = Products(size, binary=binary)
        products.extend(list(combinations(range(size), 2)) if spanning else [])
        for (a, b), block in products.sums.items():
            block[:] = filled(start + (a * size + b) * SITES**2, (SITES, SITES))
        return moments.with_products(products)

    @property
    def size(self) -> int:
        return len(self.weight)

    @property
    def site(self) -> FloatArray:
        """Where each bin stands: at the mean of its scores, or at its end if scores beyond the axis move the mean."""
        votes, half = self.weight.sum(axis=0), self.axis.length / BINS / 2
        centers = self.axis.bins.centers
        mean = np.divide(self.place, votes, out=centers.copy(), where=votes > 0)
        return np.clip(mean, centers - half, centers + half)

    @property
    def default_grid(self) -> FloatArray:
        return self.axis.grid(self.weight.sum(axis=0))

    def pairs(self, reference: Mapping[str, object] | None) -> list[Pair]:
        if reference is None:
            return list(combinations(range(self.size), 2))
        wanted = {str(name): value for name, value in reference.items()}
        base = next((i for i, group in enumerate(self.groups) if dict(group.mapping) == wanted), None)
        if base is None:
            labels = ", ".join(group.label for group in self.groups[:20])
            raise UsageError(f"reference: there is no group {reference!r}; the groups are {labels}.")
        return [(i, base) for i in range(self.size) if i != base]

    def bandwidth(self, given: Widths, points: FloatArray, *, published: bool = False) -> Bandwidth:
        """The caller's bandwidth or the rule, where n is the number of users (or rows) of the average group.

        ``published``: the rule is scaled to all scores, as in the paper, and not to the range of most of them.
        """
        axis = replace(self.axis, span=self.axis.whole) if published else self.axis
        average = float(self.users.sum()) / self.size
        if not isinstance(given, str):
            return Bandwidth.checked(axis, average, given, points)
        weight, total = self.weight.sum(axis=0), self.total.sum(axis=0)
        occupied = weight > 0
        points = axis.bins.centers[occupied]
        return Bandwidth(axis, average).cross_validated(points, weight[occupied], total[occupied])

    def cross(self, a: int, first: FloatArray, b: int, second: FloatArray) -> FloatArray:
        """Covariances (P, Q) of functionals of the rows of groups ``a`` and ``b``."""
        covariance = np.zeros((first.shape[-1], second.shape[-1]))
        if a != b and not self.spanning:
            return covariance
        if self.diagonal is not None:
            vote, outcome, squared = self.diagonal[:, a, :, None]
            ends = vote * second[0] + outcome * second[1], outcome * second[0] + squared * second[1]
            return np.asarray(first[0].T @ ends[0] + first[1].T @ ends[1])
        if self.blocks is not None:
            if a > b:
                return self.cross(b, second, a, first).T
            if (block := self.blocks.get((a, b))) is None:
                return covariance
            product = _bilinear(first, block, second)
            if a != b:
                return product
            return product + (product if first is second else _bilinear(second, block, first)).T
        f, h = (functional.reshape(2 * BINS, -1) for functional in (first, second))
        for start in range(0, self.tables[a].shape[0], _LINES):
            lines = slice(start, start + _LINES)
            left = self.tables[a][lines] @ f
            covariance += left.T @ (left if a == b and first is second else self.tables[b][lines] @ h)
        return covariance

    def third(self, g: int, functional: FloatArray) -> FloatArray:
        """Sums (P,) over the users (or rows) of a group of the cubes of what each adds to a functional.

        If only products of sites are known, users are taken to be as skewed near a score as they are over all scores.
        """
        if self.cubes is None:
            lines = range(0, self.tables[g].shape[0], _LINES)
            flat = functional.reshape(2 * BINS, -1)
            return np.sum([((self.tables[g][k : k + _LINES] @ flat) ** 3).sum(axis=0) for k in lines], axis=0)
        if self.blocks is None:
            return _cubed(functional, self.cubes[:, g, :, None]).sum(axis=0)
        mean = self.total[g].sum() / max(float(self.weight[g].sum()), 1e-300)
        whole = np.broadcast_to(np.array([-mean, 1.0])[:, None, None], (2, BINS, 1))
        second, third = float(self.cross(g, whole, g, whole)[0, 0]), _cubed(whole[:, :1], self.cubes[:, g, :1, None])
        skewness = float(third.item()) / second**1.5 * self.users[g] ** 0.5 if second > 0 else 0.0
        spread = np.diagonal(self.cross(g, functional, g, functional))
        near = np.maximum(self.effective(g, np.abs(functional[1])), 1.0)
        return np.asarray(np.sign(functional[1].sum(axis=0)) * skewness * np.maximum(spread, 0.0) ** 1.5 / near**0.5)

    def effective(self, g: int, inside: FloatArray) -> FloatArray:
        """Effective users (sum of w)^2 / sum of w^2 of a group, where votes are multiplied by ``inside`` (BINS, P)."""
        functional = np.stack([inside, np.zeros_like(inside)])
        squares = np.diagonal(self.cross(g, functional, g, functional))
        votes = self.weight[g] @ inside
        return np.divide(votes**2, squares, out=np.zeros(votes.size), where=squares > 0)


def _bilinear(first: FloatArray, block: FloatArray, second: FloatArray) -> FloatArray:
    """The product first' block second of two functionals."""
    sums = np.zeros((first.shape[-1], second.shape[-1]))
    for k, left in enumerate(first):
        for m, right in enumerate(second):
            if left.any() and right.any():  # a functional of votes alone is zero in its second half
                sums += left.T @ block[k * BINS : (k + 1) * BINS, m * BINS : (m + 1) * BINS] @ right
    return sums


def _cubed(functional: FloatArray, cubes: FloatArray) -> FloatArray:
    """Sums of the cubes of votes times (a + b Y), from those of cubed votes times powers of Y."""
    a, b = functional
    return np.asarray(a * a * (a * cubes[0] + 3 * b * cubes[1]) + b * b * (3 * a * cubes[2] + b * cubes[3]))


def _shapes(size: int) -> dict[str, tuple[int, ...]]:
    """The sums of ``size`` groups and their shapes, in the order of `VoteMoments.entries`; blocks come after them."""
    sums = dict.fromkeys(("weight", "total", "square"), (size, BINS))
    counts: dict[str, tuple[int, ...]] = {"rows": (size,), "users": (size,), "spanning": (1,)}
    return {"place": (BINS,), **sums, **counts, "diagonal": (3, size, BINS), "cubes": (4, size, BINS)}


def _table(user: IntArray, bins: IntArray, vote: FloatArray, outcome: FloatArray, people: int) -> sparse.csr_array:
    """Users x (votes at each site, then votes times outcomes) of one group."""
    if (other := np.flatnonzero(outcome)).size:
        user, bins = np.append(user, user[other]), np.append(bins, bins[other] + BINS)
        vote = np.append(vote, vote[other] * outcome[other])
    entries = (user.astype(np.int32), bins.astype(np.int32))
    return sparse.coo_array((vote, entries), shape=(people, SITES)).tocsr()
