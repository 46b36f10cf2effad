"""Products of the votes of a user at any two sites, summed over users: variances need them if users have several rows.

Rows are sorted by user, and each is multiplied by the rows of its user that follow it. Most users have few rows, so
this takes far less time than a product of sparse matrices. If a user has many, rows at the same site are first added.
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
_MANY = 32  # rows of a user; with more, rows at the same site are added
_AT_ONCE = 2**19  # rows multiplied at once: more do not fit into a processor's cache


class Products:
    """The sums of products for any two sites of a group, and of two groups that have a user in common.

    ``binary``: outcomes are 0 or 1. A row then counts once, at the site of its score and outcome, until `blocks` turns
    the sums into those of votes and of votes times outcomes. Otherwise it counts at both sites.

    Any two rows of a user are multiplied once, and the product is added at the smaller site and the larger one. Squares
    are halved, so the products of a group are these sums plus their transpose.
    """

    def __init__(self, groups: int, *, binary: bool) -> None:
        self.groups, self.binary = groups, binary
        # (`SITES`, `SITES`) for each pair of groups (a, b) with a <= b that have a user in common.
        self.sums = defaultdict[tuple[int, int], FloatArray](lambda: np.zeros((SITES, SITES)))

    def add(self, user: IntArray, people: int, place: IntArray, vote: FloatArray, outcome: FloatArray) -> None:
        """Add all rows of some users. ``place``: the site of each row's vote, counted through all groups."""
        place = place.astype(np.int32)
        if self.binary:
            place += BINS * (outcome != 0).astype(np.int32)
        elif (other := np.flatnonzero(outcome)).size:
            user, place = np.append(user, user[other]), np.append(place, place[other] + np.int32(BINS))
            vote = np.append(vote, vote[other] * outcome[other])
        # Sorts rows by user: the conversion of a matrix with one entry per column counts, which is faster.
        entries = (place, user.astype(np.int32), np.arange(user.size + 1, dtype=np.int32))
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
        """Add the products of rows sorted by user; ``sizes``: how many rows each user has."""
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
                cell = ((low & (SITES - 1)) << _BITS) + (high & (SITES - 1))
                groups = (low >> _BITS) * self.groups + (high >> _BITS)
                for number in np.flatnonzero(np.bincount(groups)).tolist():
                    chosen = groups == number
                    sums = self.sums[divmod(number, self.groups)]
                    np.add.at(sums.reshape(-1), cell[chosen], product[chosen])

    def blocks(self) -> Mapping[tuple[int, int], FloatArray]:
        """The sums of each pair of groups, of votes and votes times outcomes. Nothing can be added afterwards."""
        for sums in self.sums.values() if self.binary else ():
            sums[:, :BINS] += sums[:, BINS:]
            sums[:BINS] += sums[BINS:]
        return self.sums


def _rows_left(sizes: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Parts with all rows of some users: the first row, and how many rows of the same user follow each row."""
    ends = np.cumsum(sizes)
    targets = np.arange(_AT_ONCE, int(ends[-1]) if ends.size else 0, _AT_ONCE)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ends, targets) + 1, [ends.size]]))
    for a, b in pairwise(cuts.tolist()):
        first = int(ends[a] - sizes[a])
        yield first, np.repeat(ends[a:b] - first, sizes[a:b]) - np.arange(1, int(ends[b - 1]) - first + 1)
