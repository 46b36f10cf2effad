"""Batches as strata: which of them are closed, and the sums over closed strata.

A batch has n1 rows of the group with the sum s1, and n0 rows of its reference with the sum s0. A batch in which one
side is absent, or with fewer than 20 rows of both, waits: it is added to the next batches until both sides are there.
That depends on sizes only, so it costs no validity. With N = n1 + n0, a = n0/N, c = n1/N, w = n1 n0/N, T = s1 + s0:

    W = sum w     P1 = sum s1 a    P0 = sum s0 c    VC = sum w T (N - T) / (N (N - 1))
    H1 = sum w a  H0 = sum w c     K1 = sum w a^2   K0 = sum w c^2

g = P1/W and r = P0/W are the standardized rates of both sides: g - r is the common difference of Mantel and Haenszel,
g/r their common ratio. W^2/H1 and W^2/H0 are effective sizes. A reference that is a number has a = 1, c = 0, w = n1.

All arrays are looks x comparisons.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray

LEAST = 20  # rows of both sides with which a stratum closes


class BatchCounts(NamedTuple):
    """Rows and sums of both sides; zero where nothing is counted."""

    n1: FloatArray
    s1: FloatArray
    n0: FloatArray
    s0: FloatArray


class BatchMoments(NamedTuple):
    """Rows, means, and sums of squared and cubed deviations of both sides."""

    n1: FloatArray
    mean1: FloatArray
    square1: FloatArray
    cube1: FloatArray
    n0: FloatArray
    mean0: FloatArray
    square0: FloatArray
    cube0: FloatArray


class StratumSums(NamedTuple):
    """StratumSums over closed strata to date; ``vc`` is NaN for metrics that are not 0/1."""

    w: FloatArray
    p1: FloatArray
    p0: FloatArray
    h1: FloatArray
    h0: FloatArray
    k1: FloatArray
    k0: FloatArray
    vc: FloatArray


def closes(n1: FloatArray, n0: FloatArray, *, number: bool, least: int = LEAST) -> BoolArray:
    """Which strata have enough rows; with a ``number`` as the reference, any row of the group is enough."""
    return np.asarray(n1 > 0 if number else (n1 > 0) & (n0 > 0) & (n1 + n0 >= least))


def close_counts(counts: BatchCounts, *, number: bool = False, least: int = LEAST) -> BatchCounts:
    """The strata that close at each look; zero where none does."""
    given = np.stack(counts)
    strata, waiting = np.zeros_like(given), np.zeros(given[:, 0].shape)
    for t in range(given.shape[1]):
        waiting = waiting + given[:, t]
        full = closes(waiting[0], waiting[2], number=number, least=least)
        strata[:, t] = np.where(full, waiting, 0.0)
        waiting = np.where(full, 0.0, waiting)
    return BatchCounts(*strata)


def close_moments(moments: BatchMoments, *, number: bool = False, least: int = LEAST) -> BatchMoments:
    """The same for metrics that are not 0/1."""
    given = np.stack(moments)
    strata, waiting = np.zeros_like(given), np.zeros(given[:, 0].shape)
    for t in range(given.shape[1]):
        sides = [merge_moments(waiting[side], given[side, t]) for side in (slice(0, 4), slice(4, 8))]
        waiting = np.concatenate(sides)
        full = closes(waiting[0], waiting[4], number=number, least=least)
        strata[:, t] = np.where(full, waiting, 0.0)
        waiting = np.where(full, 0.0, waiting)
    return BatchMoments(*strata)


def merge_moments(first: FloatArray, second: FloatArray) -> FloatArray:
    """Rows, mean and central sums of two samples together (Chan, Golub and LeVeque; Pebay for cubes)."""
    (n, mean, square, cube), (m, other, more, further) = first, second
    total = n + m
    safe = np.where(total > 0, total, 1.0)
    gap = np.where((n > 0) & (m > 0), other - mean, 0.0)
    merged = np.where(n > 0, np.where(m > 0, mean + gap * m / safe, mean), other)
    squares = square + more + gap**2 * n * m / safe
    cubes = cube + further + gap**3 * n * m * (n - m) / safe**2 + 3.0 * gap * (n * more - m * square) / safe
    return np.stack([total, merged, squares, cubes])


def weights(n1: FloatArray, n0: FloatArray, *, number: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """w, a and c of each stratum; zero where there is none."""
    if number:
        return n1, (n1 > 0).astype(float), np.zeros_like(n1)
    total = np.where(n1 + n0 > 0, n1 + n0, 1.0)
    return n1 * n0 / total, n0 / total, n1 / total


def sum_counts(strata: BatchCounts, number: float | None = None) -> StratumSums:
    n1, s1, n0, s0 = strata
    w, a, c = weights(n1, n0, number=number is not None)
    if number is not None:
        terms = [w, s1, number * w, w, 0.0 * w, w, 0.0 * w, number * (1.0 - number) * w]
    else:
        total, cases = n1 + n0, s1 + s0
        spread = np.where(total > 1, total * (total - 1.0), 1.0)
        terms = [w, s1 * a, s0 * c, w * a, w * c, w * a**2, w * c**2, w * cases * (total - cases) / spread]
    return StratumSums(*np.cumsum(np.stack(terms), axis=1))


def sum_moments(strata: BatchMoments, number: float | None = None) -> StratumSums:
    n1, n0 = strata.n1, strata.n0
    w, a, c = weights(n1, n0, number=number is not None)
    facing = number * w if number is not None else n0 * strata.mean0 * c
    terms = [w, n1 * strata.mean1 * a, facing, w * a, w * c, w * a**2, w * c**2, np.full_like(w, np.nan)]
    return StratumSums(*np.cumsum(np.stack(terms), axis=1))
