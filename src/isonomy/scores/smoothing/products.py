"""Products of the votes of a user at every two sites, summed over users: what a variance needs of people with rows.

Rows are sorted by user, and each is multiplied by those that follow it: most users have few rows, so this takes far
less time than a product of sparse matrices. The rows of a user with many are first joined by site.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from scipy import sparse

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.scores.smoothing.kernels import BINS

SITES = 2 * BINS  # of a group: its votes, then its votes times outcomes
_BITS = SITES.bit_length() - 1  # shifts are faster than divisions
_MANY = 32  # rows of a user from which they are joined by site
_AT_ONCE = 2**19  # rows whose products are summed at once: more do not fit into a processor's cache


class Products:
    """The sums for every two sites of ``groups``, and of two groups if a user is in both.

    ``binary``: outcomes are 0 or 1. Then a row counts once, as a vote with its outcome, until `blocks` are made;
    otherwise as a vote, and as a vote times its outcome.

    Each two rows of a user are multiplied once, at the site that comes first and the other, and squares are halved:
    the products of a group are these sums plus their transpose.
    """

    def __init__(self, groups: int, *, binary: bool) -> None:
        self.groups, self.binary = groups, binary
        # (`SITES`, `SITES`) of each two groups, in their order; none if no user is in both.
        self.sums = defaultdict[tuple[int, int], FloatArray](lambda: np.zeros((SITES, SITES)))

    def add(self, user: IntArray, people: int, place: IntArray, vote: FloatArray, outcome: FloatArray) -> None:
        """Add rows of all of ``people`` users. ``place``: the site of each row's vote, after those of other groups."""
        place = place.astype(np.int32)
        if self.binary:
            place += BINS * (outcome != 0).astype(np.int32)
        elif (other := np.flatnonzero(outcome)).size:
            user, place = np.append(user, user[other]), np.append(place, place[other] + np.int32(BINS))
            vote = np.append(vote, vote[other] * outcome[other])
        # Converting a matrix with one entry per column to rows counts instead of sorting, which is faster.
        ends = np.arange(user.size + 1, dtype=np.int32)
        entries = (place, user.astype(np.int32), ends)
        by_user = sparse.csc_array(entries, shape=(people, user.size)).tocsr()
        place, vote, sizes = by_user.data, vote[by_user.indices], np.diff(by_user.indptr)
        del by_user
        if (sizes > _MANY).any():
            many = np.repeat(sizes > _MANY, sizes)
            starts = np.append(0, np.cumsum(sizes[sizes > _MANY]))
            joined = sparse.csr_array((vote[many], place[many], starts), shape=(starts.size - 1, self.groups * SITES))
            joined.sum_duplicates()
            self._multiply(np.diff(joined.indptr), joined.indices.astype(np.intp), joined.data)
            place, vote, sizes = place[~many], vote[~many], sizes[sizes <= _MANY]
        self._multiply(sizes, place, vote)

    def _multiply(self, sizes: IntArray, place: IntArray, vote: FloatArray) -> None:
        """``sizes``: how many of the rows in turn are those of each user."""
        squares = np.bincount(place, vote * vote, self.groups * SITES).reshape(self.groups, SITES)
        for g in np.flatnonzero(squares.any(axis=1)).tolist():
            np.einsum("ii->i", self.sums[g, g])[:] += squares[g] / 2
        for first, left in _rows_left(sizes):
            places, votes = place[first : first + left.size], vote[first : first + left.size]
            row = np.arange(left.size)
            for lag in range(1, int(left.max(initial=0)) + 1):
                row = row[left[row] >= lag]
                pair, product = (places[row], places[row + lag]), votes[row] * votes[row + lag]
                low, high = np.minimum(*pair), np.maximum(*pair)
                at = ((low & (SITES - 1)) << _BITS) + (high & (SITES - 1))
                groups = (low >> _BITS) * self.groups + (high >> _BITS)
                for number in np.flatnonzero(np.bincount(groups)).tolist():
                    chosen = groups == number
                    sums = self.sums[divmod(number, self.groups)]
                    np.add.at(sums.reshape(-1), at[chosen], product[chosen])

    def blocks(self) -> Mapping[tuple[int, int], FloatArray]:
        """The sums of every pair of groups, as votes and votes times outcomes. Nothing can be added afterwards."""
        for sums in self.sums.values() if self.binary else ():
            sums[:, :BINS] += sums[:, BINS:]
            sums[:BINS] += sums[BINS:]
        return self.sums


def _rows_left(sizes: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Rows of whole users: the first of them, and how many rows of its user follow each."""
    ends = np.cumsum(sizes)
    wanted = np.arange(_AT_ONCE, int(ends[-1]) if ends.size else 0, _AT_ONCE)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ends, wanted) + 1, [ends.size]]))
    for a, b in pairwise(cuts.tolist()):
        first = int(ends[a] - sizes[a])
        yield first, np.repeat(ends[a:b] - first, sizes[a:b]) - np.arange(1, int(ends[b - 1]) - first + 1)
