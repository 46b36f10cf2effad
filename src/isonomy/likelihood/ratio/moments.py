"""Sums over a large group without going back to its rows: power series, and a sketch where they do not converge.

For |r| < 1, r = w max|x'|, the three sums a mean's likelihood needs are power series in r whose coefficients are
the group's scaled moments a_k = mean (x' / max|x'|)^k:

    mean x'/(1+wx')      = R Σ_{k>=0} (-r)^k a_{k+1}
    mean x'²/(1+wx')²    = R² Σ_{k>=0} (k+1) (-r)^k a_{k+2}
    mean log(1+wx')      = Σ_{k>=1} (-1)^{k+1} r^k a_k / k

|a_k| never exceeds a_K for k >= K even, so cutting at K leaves a remainder below a geometric series, known before it is
used. At an interval's end r is about 2 max|x'| / (sd sqrt n): small for large groups unless tails are very heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import comb

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged

# Highest power kept; even, as the bound on the remainder needs.
ORDER = 24
# The remainder may be this large relative to the leading term: the level of rounding in a sum of 1e4 rows.
REMAINDER = 1e-13
# Digits lost to subtracting and re-centring that are still acceptable, as a factor.
LOSS = 1e3
POWERS = np.arange(ORDER + 1)[:, None]
# Rows, and groups, worked on at a time: a block and its temporaries stay in the processor's cache.
BLOCK_ROWS = 1 << 17
BLOCK_GROUPS = 1 << 13
# A bin of a sketch: its share of the rows between it and the nearer end.
BIN_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Scaled moments ``scaled[k, g]`` = mean (x'/radius)^k of each group, k = 0..ORDER, where ``usable``."""

    radius: FloatArray
    scaled: FloatArray
    usable: BoolArray

    @classmethod
    def of_rows(cls, rows: Ragged, centred: FloatArray, radius: FloatArray, n: FloatArray) -> Moments:
        """From the rows, a block of groups at a time so that the powers stay in cache."""
        scaled = np.zeros((ORDER + 1, n.size))
        scaled[0] = n
        sizes = rows.sizes
        filled = np.flatnonzero(sizes > 0)
        scale = np.where(radius > 0, radius, 1.0)
        for start, stop in blocks(sizes[filled]):
            chosen = filled[start:stop]
            first, last = rows.offsets[chosen[0]], rows.offsets[chosen[-1] + 1]
            y = centred[first:last] / np.repeat(scale[chosen], sizes[chosen])
            power = y.copy() if rows.weights is None else y * rows.weights[first:last]
            starts = rows.offsets[chosen] - first
            for k in range(1, ORDER + 1):
                scaled[k, chosen] = np.add.reduceat(power, starts)
                power *= y
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled /= n
        scaled[1] = 0.0
        return cls(radius, scaled, n > 0)

    def central(self, order: int) -> FloatArray:
        """Mean x'^order of each group."""
        return self.scaled[order] * self.radius**order

    def sums(self, w: FloatArray, index: IntArray) -> tuple[FloatArray, BoolArray]:
        """The three series at ``w``, and where their remainder is negligible."""
        radius = self.radius[index]
        r = w * radius
        size = np.abs(r)
        order = _enough(float(np.max(size, initial=0.0)))
        every = index.size == self.radius.size and bool((index == np.arange(index.size)).all())
        a = self.scaled[: order + 1] if every else self.scaled[: order + 1, index]
        q, s, log = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r)
        for k in range(order, 1, -1):  # Horner
            q = a[k] - r * q
            s = (k - 1) * a[k] - r * s
            log = a[k] / k - r * log
        # Σ_{k>=2} starts two powers late for log, one for q (a_1 = 0) and none for s.
        result = np.stack([-radius * r * q, radius**2 * s, -r * r * log])
        with np.errstate(all="ignore"):
            remainder = order * size ** (order - 1) * a[order] / ((1.0 - size) ** 2 * a[2])
            enough = (size < 1) & ((remainder <= REMAINDER) | (radius == 0) | (w == 0))
        return result, enough & self.usable[index]

    def of_rest(
        self, n: FloatArray, mean: FloatArray, rest: FloatArray, rest_mean: FloatArray, radius: FloatArray
    ) -> Moments:
        """The moments of all other groups together, about their own mean ``rest_mean``."""
        total = float(n.sum())
        mean, rest_mean = np.nan_to_num(mean), np.nan_to_num(rest_mean)
        centre = float(np.sum(n * mean)) / total if total else 0.0
        scale = float(np.max(self.radius + np.abs(mean - centre), initial=0.0, where=n > 0)) or 1.0
        steps = [slice(i, i + BLOCK_GROUPS) for i in range(0, n.size, BLOCK_GROUPS)]

        def about(part: slice) -> FloatArray:  # power sums of each group about the common centre
            moved = _moved(self.scaled[:, part], self.radius[part] / scale, (mean[part] - centre) / scale)
            return np.nan_to_num(moved * n[part])

        every = np.sum([about(part).sum(axis=1) for part in steps], axis=0)[:, None]
        scaled, usable = np.zeros_like(self.scaled), np.zeros(n.size, dtype=bool)
        for part in steps:
            shift = (rest_mean[part] - centre) / scale
            with np.errstate(all="ignore"):
                left = every - about(part)
                others = left / rest[part]
                spread = np.sqrt(np.maximum(others[2] - shift**2, 0.0))
                # Subtraction costs every/left, moving the centre by c standard deviations about (1 + c)^ORDER.
                loss = np.maximum(every[0] / left[0], every[ORDER] / left[ORDER])
                usable[part] = loss * (1.0 + np.abs(shift) / spread) ** ORDER <= LOSS
                back = scale / np.where(radius[part] > 0, radius[part], 1.0)
                moved = _moved(others, np.ones_like(shift), -shift) * back**POWERS
            scaled[:, part] = np.where(usable[part], moved, 0.0)
        scaled[1] = 0.0
        return Moments(radius, scaled, usable)


def blocks(sizes: IntArray) -> list[tuple[int, int]]:
    """Ranges of consecutive groups that together hold about `BLOCK_ROWS` rows."""
    if sizes.size == 0:
        return []
    number = np.cumsum(sizes) // BLOCK_ROWS
    cuts = np.flatnonzero(np.diff(number)) + 1
    edges = [0, *cuts.tolist(), sizes.size]
    return list(pairwise(edges))


def _enough(largest: float) -> int:
    """The lowest even order whose remainder is negligible for every |r| up to ``largest``; a_K never exceeds a_2."""
    for order in range(4, ORDER, 2):
        if largest < 1 and order * largest ** (order - 1) <= REMAINDER * (1.0 - largest) ** 2:
            return order
    return ORDER


def _moved(moments: FloatArray, scale: FloatArray, shift: FloatArray) -> FloatArray:
    """Moments of ``scale * y + shift`` from the moments of y (both per group)."""
    result = np.zeros_like(moments)
    powers = shift**POWERS
    scaled = moments * scale**POWERS
    for k in range(ORDER + 1):
        result[k] = np.einsum("j,jg,jg->g", comb(k, np.arange(k + 1)), scaled[: k + 1], powers[k::-1])
    return result


def sketch(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Weighted values with nearly the same smooth sums: the outermost rows as they are, the others in bins.

    A bin holds at most a fixed share of the rows between it and the nearer end, so bins are narrow in the tails too.
    Each is replaced by two values with its mean and variance.
    """
    order = np.argsort(values, kind="stable")
    x = values[order]
    mass = np.ones(x.size) if weights is None else weights[order]
    ranks = [0]
    while ranks[-1] < x.size // 2:
        ranks.append(ranks[-1] + max(1, int(BIN_SHARE * ranks[-1])))
    half = np.array([r for r in ranks if r < x.size // 2])
    starts = np.unique(np.concatenate([half, x.size - half[half > 0]]))
    total = np.add.reduceat(mass, starts)
    mean = np.add.reduceat(mass * x, starts) / total
    spread = np.add.reduceat(mass * (x - np.repeat(mean, np.diff(np.append(starts, x.size)))) ** 2, starts) / total
    away = np.sqrt(spread)
    return np.concatenate([mean - away, mean + away]), np.concatenate([total, total]) / 2.0
