"""Batches as strata: which of them are closed, and the sums over closed strata.

A batch has n1 rows of the group with the sum s1, and n0 rows of its reference with the sum s0. A batch in which one
side is absent, or with fewer than 20 rows of both, waits: it is added to the next batches until both sides are there.
That depends on sizes only, so it costs no validity. With N = n1 + n0, a = n0/N, c = n1/N, w = n1 n0/N, T = s1 + s0:

    W = sum w     P1 = sum s1 a    P0 = sum s0 c    VC = sum w T (N - T) / (N (N - 1))
    H1 = sum w a  H0 = sum w c     K1 = sum w a^2   K0 = sum w c^2

g = P1/W and r = P0/W are the standardized rates of both sides: g - r is the common difference of Mantel and Haenszel,
g/r their common ratio. W^2/H1 and W^2/H0 are effective sizes. A reference that is a number has a = 1, c = 0, w = n1.

Strata are arrays looks x comparisons x sides x sums: rows and cases or, for other metrics, rows and the sums of the
first three powers of the value about a common pivot, which are additive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray

LEAST = 20  # rows of both sides with which a stratum closes


class StratumSums(NamedTuple):
    """Sums over closed strata to date, looks x comparisons; ``vc`` is for 0/1 metrics."""

    w: FloatArray
    p1: FloatArray
    p0: FloatArray
    h1: FloatArray
    h0: FloatArray
    k1: FloatArray
    k0: FloatArray
    vc: FloatArray


def closes(n1: FloatArray, n0: FloatArray, *, number: bool = False) -> BoolArray:
    """Which strata have enough rows; with a ``number`` as the reference, any row of the group is enough."""
    return np.asarray(n1 > 0 if number else (n1 > 0) & (n0 > 0) & (n1 + n0 >= LEAST))


def close(batches: FloatArray, *, number: bool = False) -> FloatArray:
    """The strata that close at each look; zero where none does."""
    strata, waiting = np.zeros_like(batches), np.zeros(batches.shape[1:])
    for t, batch in enumerate(batches):
        waiting += batch
        full = closes(waiting[:, 0, 0], waiting[:, 1, 0], number=number)
        strata[t, full] = waiting[full]
        waiting[full] = 0.0
    return strata


def weights(n1: FloatArray, n0: FloatArray, *, number: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """w, a and c of each stratum; zero where there is none."""
    if number:
        return n1, (n1 > 0).astype(float), np.zeros_like(n1)
    total = np.where(n1 + n0 > 0, n1 + n0, 1.0)
    return n1 * n0 / total, n0 / total, n1 / total


def sum_strata(strata: FloatArray, number: float | None = None) -> StratumSums:
    (n1, s1, *_), (n0, s0, *_) = np.moveaxis(strata, (2, 3), (0, 1))
    w, a, c = weights(n1, n0, number=number is not None)
    if number is not None:
        terms = [w, s1, number * w, w, 0.0 * w, w, 0.0 * w, number * (1.0 - number) * w]
    else:
        total, cases = n1 + n0, s1 + s0
        spread = np.where(total > 1, total * (total - 1.0), 1.0)
        terms = [w, s1 * a, s0 * c, w * a, w * c, w * a**2, w * c**2, w * cases * (total - cases) / spread]
    return StratumSums(*np.cumsum(np.stack(terms), axis=1))


def central_sums(powers: FloatArray) -> FloatArray:
    """Rows, mean and sums of squared and cubed deviations, from the sums of powers on the last axis."""
    n, x, xx, xxx = np.moveaxis(powers, -1, 0)
    mean = x / np.where(n > 0, n, 1.0)
    square = np.maximum(xx - n * mean**2, 0.0)
    return np.stack([n, mean, square, xxx - 3.0 * mean * xx + 2.0 * n * mean**3], axis=-1)


def power_sums(central: FloatArray, pivot: float) -> FloatArray:
    """The sums of powers about ``pivot`` that `central_sums` came from: those about 0 would lose digits."""
    n, mean, square, cube = np.moveaxis(central, -1, 0)
    away = np.where(n > 0, mean - pivot, 0.0)
    parts = [n, n * away, square + n * away**2, cube + 3.0 * away * square + n * away**3]
    return np.stack(parts, axis=-1)
