"""Products of the votes of a user at any two sites, summed over users: variances need them if users have several rows.

Users are sorted by their number of rows. Those with k rows form arrays of k columns, and any two columns are
multiplied: no row is looked up. Users with many rows are multiplied as sparse matrices.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import sparse

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.scores.smoothing.kernels import BINS

SITES = 2 * BINS  # of a group: its votes, then its votes times outcomes
_BITS = SITES.bit_length() - 1  # shifts are faster than divisions
_MANY = 32  # rows of a user
_AT_ONCE = 2**16  # users: more do not fit into a processor's cache


class Products:
    """The sums of products for any two sites of a group, and of two groups that have a user in common.

    ``binary``: outcomes are 0 or 1. A row then counts once, at the site of its score and outcome, until `blocks` turns
    the sums into those of votes and of votes times outcomes. Otherwise it counts at both sites.

    Any two rows of a user are multiplied once, and the product is added at the smaller site and the larger one. Squares
    are halved, so the products of a group are these sums plus their transpose.
    """

    def __init__(self, groups: int, *, binary: bool) -> None:
        self.groups, self.binary = groups, binary
        self.pairs = [(g, g) for g in range(groups)]  # of groups (a, b) with a <= b that have a user in common
        self.table = np.empty((0, SITES, SITES))  # one matrix for each of them

    @property
    def sums(self) -> dict[tuple[int, int], FloatArray]:
        return dict(zip(self.pairs, self.table, strict=True))

    def extend(self, pairs: list[tuple[int, int]]) -> None:
        """Make room for pairs of groups that have a user in common."""
        self.pairs += [pair for pair in pairs if pair not in self.pairs]
        if more := len(self.pairs) - len(self.table):
            room = np.full((more, SITES, SITES), 0.0)  # in large pages of memory, unlike np.zeros: 10 times faster
            self.table = np.concatenate([self.table, room]) if len(self.table) else room

    def add(self, user: IntArray, people: int, place: IntArray, vote: FloatArray, outcome: FloatArray) -> None:
        """Add all rows of some users. ``place``: the site of each row's vote, counted through all groups."""
        if self.binary:
            place = place + BINS * (outcome != 0).astype(np.int32)
        elif (other := np.flatnonzero(outcome)).size:
            user, place = np.append(user, user[other]), np.append(place, place[other] + np.int32(BINS))
            vote = np.append(vote, vote[other] * outcome[other])
        sizes = np.minimum(np.bincount(user, minlength=people), _MANY + 1).astype(np.uint8)
        rank = np.empty(people, dtype=np.int32)
        rank[np.argsort(sizes, kind="stable")] = np.arange(people, dtype=np.int32)
        entries = sparse.coo_array((vote, (rank[user], place)), shape=(people, self.groups * SITES))
        entries.has_canonical_format = True  # rows at the same site stay apart, which takes less time
        by_user = entries.tocsr()
        users = np.bincount(sizes, minlength=_MANY + 2)
        many = people - int(users[-1])
        if users[-1]:
            self._multiply(by_user[many:])
        first, squares = 0, np.zeros(self.groups * SITES)
        for k, number in enumerate(users[:-1].tolist()):
            for start in range(first, first + k * number, k * _AT_ONCE) if k else ():
                rows = slice(start, min(start + k * _AT_ONCE, first + k * number))
                places = np.ascontiguousarray(by_user.indices[rows].reshape(-1, k).T)
                votes = np.ascontiguousarray(by_user.data[rows].reshape(-1, k).T)
                squares += np.bincount(places.ravel(), (votes * votes).ravel(), squares.size)
                for i, j in combinations(range(k), 2):
                    self._add(np.minimum(places[i], places[j]), np.maximum(places[i], places[j]), votes[i] * votes[j])
            first += k * number
        np.einsum("gii->gi", self.table[: self.groups])[:] += squares.reshape(self.groups, SITES) / 2

    def _add(self, low: IntArray, high: IntArray, product: FloatArray) -> None:
        start = np.zeros(self.groups**2, dtype=np.intp)
        start[[a * self.groups + b for a, b in self.pairs]] = SITES**2 * np.arange(len(self.pairs))
        cell = ((low & (SITES - 1)) << _BITS) + (high & (SITES - 1))
        np.add.at(self.table.reshape(-1), start[(low >> _BITS) * self.groups + (high >> _BITS)] + cell, product)

    def _multiply(self, users: sparse.csr_array) -> None:
        users.sum_duplicates()
        groups = [users[:, g * SITES : (g + 1) * SITES] for g in range(self.groups)]
        for (a, b), sums in self.sums.items():
            sums += (groups[a].T @ groups[b]).toarray() / (2 if a == b else 1)

    def blocks(self) -> dict[tuple[int, int], FloatArray]:
        """The sums of each pair of groups, of votes and votes times outcomes. Nothing can be added afterwards."""
        if self.binary:
            self.table[:, :, :BINS] += self.table[:, :, BINS:]
            self.table[:, :BINS] += self.table[:, BINS:]
        return self.sums
