"""Disparities that may be looked at any time: score statistics, and the normal-mixture boundary.

At the null, U is a martingale over looks with predictable variance V, so that z = U/sqrt(V) is a Brownian motion at
time V. Mixing over a normal prior N(0, sigma^2) on the disparity (Robbins 1970) gives the e-value

    log E = (z'^2 k/(1 + k) - log(1 + k)) / 2,    k = sigma^2 I0,

which exceeds 1/alpha at any time with probability at most alpha. z' is z with its skewness taken into account
(Cornish-Fisher, as for rates of few cases in `flag`). I0 is the information at no difference, for every null: with
that at the null the ratios not rejected form no interval. The critical value therefore does not depend on the null.

All arrays are looks x comparisons.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import log_ndtr

from isonomy.inference.decide import Alternative
from isonomy.monitoring.sequences.strata import StratumSums, central_sums, sum_strata, weights
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.roots import bisection
from isonomy.numerics.tails import normal_isf, t_as_rare, t_sf

EXTREME = 1e6  # the largest ratio; the smallest is its inverse
FARTHEST = 40.0  # of critical values
HALVINGS = 48
BUCKETS = 64  # of people
Ends = tuple[FloatArray, FloatArray]


def difference_rates(g: FloatArray, r: FloatArray, ratio: FloatArray, null: FloatArray) -> FloatArray:
    """The likeliest p1 with p1 - p0 = null (Farrington and Manning 1990); ``ratio`` is n0/n1."""
    a = 1.0 + ratio
    b = -(a + g + ratio * r + null * (ratio + 2.0))
    c = null**2 + null * (2.0 * g + a) + g + ratio * r
    d = -g * null * (1.0 + null)
    third = b / (3.0 * a)
    v = third**3 - b * c / (6.0 * a**2) + d / (2.0 * a)
    u = np.sign(v) * np.sqrt(np.maximum(third**2 - c / (3.0 * a), 0.0))
    turn = np.clip(v / np.where(u == 0, 1.0, u**3), -1.0, 1.0)
    root = 2.0 * u * np.cos((np.pi + np.arccos(turn)) / 3.0) - third
    return np.clip(root, np.maximum(0.0, null), np.minimum(1.0, 1.0 + null))


def ratio_rates(g: FloatArray, r: FloatArray, ratio: FloatArray, null: FloatArray) -> FloatArray:
    """The likeliest p1 with p1 / p0 = null."""
    a = 1.0 + ratio
    b = -(null * (1.0 + ratio * r) + ratio + g)
    c = null * (g + ratio * r)
    root = 2.0 * c / (-b + np.sqrt(np.maximum(b**2 - 4.0 * a * c, 0.0)))  # the smaller root, without cancellation
    return np.clip(root, 0.0, np.minimum(1.0, null))


def rates_at(
    g: FloatArray, r: FloatArray, ratio: FloatArray | None, null: FloatArray, pooled: FloatArray, scale: str
) -> tuple[FloatArray, FloatArray]:
    """The likeliest rates of both sides at a null; ``ratio``: None if the reference is a number."""
    equal = null == (0.0 if scale == "difference" else 1.0)
    if scale == "difference":
        p1 = r + null if ratio is None else difference_rates(g, r, ratio, null)
    else:
        p1 = null * r if ratio is None else ratio_rates(g, r, ratio, null)
    p1 = np.where(equal, pooled, np.clip(p1, 0.0, 1.0))
    return p1, np.where(equal, p1, p1 - null if scale == "difference" else p1 / null)


def unskewed(z: FloatArray, third: FloatArray, variance: FloatArray) -> FloatArray:
    """z with the skewness of U taken into account; ``third`` is the third cumulant of U."""
    a = third / (6.0 * variance**1.5)
    safe = np.where(np.abs(a) < 1e-9, 1.0, a)
    root = (-1.0 + np.sqrt(np.maximum(1.0 + 4.0 * safe * (z + safe), 0.0))) / (2.0 * safe)
    return np.where(np.abs(a) < 1e-9, z, root)


def log_evidence(z: FloatArray, k: FloatArray, side: Alternative = "two-sided") -> FloatArray:
    with np.errstate(all="ignore"):
        both = 0.5 * (z**2 * k / (1.0 + k) - np.log1p(k))
        if side == "two-sided":
            return both
        toward = z if side == "greater" else -z
        return both + np.log(2.0) + log_ndtr(toward * np.sqrt(k / (1.0 + k)))


def critical_value(k: FloatArray, alpha: FloatArray | float, side: Alternative = "two-sided") -> FloatArray:
    """The z' whose e-value is 1/alpha; infinite if alpha is 0."""
    with np.errstate(all="ignore"):
        bound = np.sqrt((1.0 + 1.0 / k) * (np.log1p(k) - 2.0 * np.log(alpha)))
        if side == "two-sided":
            return bound
        # A half-normal prior doubles the e-value of a large z'.
        level = -np.log(alpha)
        short = bisection(
            lambda z: log_evidence(z, k, "greater") < level, np.zeros_like(k), np.full_like(k, FARTHEST), HALVINGS
        )
        return np.where(np.isfinite(bound), np.minimum(short, bound), bound)


def batches_to_reach(information: FloatArray, prior: FloatArray, reach: float, alpha: FloatArray) -> FloatArray:
    """How many more batches make the half-width of an interval ``reach``, at the pace of the last ten."""
    with np.errstate(all="ignore"):
        known = np.nan_to_num(information)
        before = np.concatenate([np.zeros_like(known[:10]), known[:-10]])[: len(known)]
        pace = (known - before) / np.minimum(np.arange(1, len(known) + 1), 10)[:, None]

        def wide(log_information: FloatArray) -> BoolArray:
            there = np.exp(log_information)
            return np.asarray(critical_value(prior**2 * there, alpha) > reach * np.sqrt(there))

        needed = np.exp(bisection(wide, np.full_like(known, -20.0), np.full_like(known, 40.0), HALVINGS))
        return np.where(pace > 0, np.ceil(np.maximum(needed - information, 0.0) / pace), np.nan)


class Sequence(ABC):
    """Disparities to date with a test of every null that is valid at all looks at once.

    ``value`` is the disparity, ``information`` that at no difference, on the scale of the prior (logarithms of ratios).
    """

    sums: StratumSums
    value: FloatArray
    information: FloatArray

    @abstractmethod
    def statistic(self, null: FloatArray | float) -> FloatArray:
        """z' at a null; it decreases in the null."""

    @abstractmethod
    def limits(self, critical: FloatArray) -> Ends:
        """The nulls at which z' is ``critical`` and its negative."""

    def evidence(
        self, low: FloatArray | float, high: FloatArray | float, prior: FloatArray, side: Alternative = "two-sided"
    ) -> FloatArray:
        """The logarithm of the e-value against low <= disparity <= high; on one side, against the end it faces."""
        k = prior**2 * self.information
        if side != "two-sided":
            return log_evidence(self.statistic(high if side == "greater" else low), k, side)
        above, below = self.value > high, self.value < low
        z = np.where(above, self.statistic(high), np.where(below, self.statistic(low), 0.0))
        return log_evidence(z, k)

    def least_evidence(self, prior: FloatArray, side: Alternative = "two-sided") -> FloatArray:
        """A lower bound for the logarithm of the e-value against any null; on one side there is none."""
        least = log_evidence(np.zeros_like(self.value), prior**2 * self.information)
        return least if side == "two-sided" else np.full_like(least, -np.inf)

    def interval(self, prior: FloatArray, alpha: FloatArray | float, side: Alternative = "two-sided") -> Ends:
        """The nulls that are not rejected at ``alpha``, at any look; a bound if one side is tested."""
        with np.errstate(all="ignore"):
            critical = critical_value(prior**2 * self.information, alpha, side)
            lower, upper = self.limits(critical)
        unknown = np.isnan(critical) | np.isnan(self.value)
        lower = np.full_like(lower, -np.inf) if side == "less" else lower
        upper = np.full_like(upper, np.inf) if side == "greater" else upper
        return np.where(unknown, np.nan, lower), np.where(unknown, np.nan, upper)


class RateSequence(Sequence):
    """Rates of 0/1 metrics, by difference or ratio; ``number``: the reference, if it is a number."""

    def __init__(self, sums: StratumSums, scale: str = "difference", number: float | None = None) -> None:
        self.sums, self.scale, self.number = sums, scale, number
        with np.errstate(all="ignore"):
            g, r, n1, n0 = sums.p1 / sums.w, sums.p0 / sums.w, sums.w**2 / sums.h1, sums.w**2 / sums.h0
            self.rates, self.ratio = (g, r), None if number is not None else n0 / n1
            self.pooled = r if number is not None else (n1 * g + n0 * r) / (n1 + n0)
            self.value = g - r if scale == "difference" else np.where(r > 0, g / r, np.nan)
            plain = np.where(sums.vc > 0, sums.w**2 / sums.vc, np.nan)
            self.information = plain if scale == "difference" else self.pooled**2 * plain

    def statistic(self, null: FloatArray | float) -> FloatArray:
        s, (g, r) = self.sums, self.rates
        null = np.broadcast_to(np.asarray(null, dtype=float), g.shape)
        factor, shift = (np.ones_like(g), null) if self.scale == "difference" else (null, 0.0)
        with np.errstate(all="ignore"):
            u = s.w * (g - factor * r - shift)
            p1, p0 = rates_at(g, r, self.ratio, null, self.pooled, self.scale)
            v1, v0 = p1 * (1.0 - p1), p0 * (1.0 - p0)
            equal = null == (0.0 if self.scale == "difference" else 1.0)
            variance = np.where(equal, s.vc, s.h1 * v1 + factor**2 * s.h0 * v0)
            third = s.k1 * v1 * (1.0 - 2.0 * p1) - factor**3 * s.k0 * v0 * (1.0 - 2.0 * p0)
            z = u / np.sqrt(variance)
            return np.where(variance > 0, unskewed(z, third, variance), np.sign(u) * np.inf)

    def limits(self, critical: FloatArray) -> Ends:
        if self.scale == "difference":
            r = 0.0 if self.number is None else self.number
            near, ends, at = self.value, (-1.0 if self.number is None else -r, 1.0 - r), self.statistic
        else:
            near, ends = np.log(np.clip(self.value, 1.0 / EXTREME, EXTREME)), (-np.log(EXTREME), np.log(EXTREME))

            def at(null: FloatArray | float) -> FloatArray:
                return self.statistic(np.exp(null))

        low, high = (np.full_like(near, end) for end in ends)
        lower = bisection(lambda x: at(x) < critical, near, low, HALVINGS)
        upper = bisection(lambda x: at(x) > -critical, near, high, HALVINGS)
        if self.scale == "difference":
            return lower, upper
        outside = lower <= np.log(1.0001 / EXTREME), upper >= np.log(0.9999 * EXTREME)
        lower = np.where((self.value == 0) | outside[0], 0.0, np.exp(lower))
        return lower, np.where(outside[1], np.inf, np.exp(upper))


class StudentSequence(Sequence):
    """Differences with an estimated variance: t is (value - null) over its error, with Student's law."""

    df: FloatArray

    @abstractmethod
    def squared_error(self, null: FloatArray | float) -> FloatArray:
        """The variance of the value, as it is estimated at a null."""

    def statistic(self, null: FloatArray | float) -> FloatArray:
        with np.errstate(all="ignore"):
            t = (self.value - null) / np.sqrt(self.squared_error(null))
            return np.sign(t) * normal_isf(t_sf(np.abs(t), self.df), sides="one")


class MeanSequence(StudentSequence):
    """Differences of means within strata. ``sides``: variance of U, df, variance, skewness and rows of each side."""

    def __init__(self, strata: FloatArray, number: float | None = None) -> None:
        self.strata, self.number = central_sums(strata), number
        self.sums = sums = sum_strata(strata, number)
        _, *shares = weights(strata[..., 0, 0], strata[..., 1, 0], number=number is not None)
        self.sides = []
        for side, share in enumerate(shares):
            n, _, square, cube = np.moveaxis(self.strata[:, :, side], -1, 0)
            several = n >= 2
            spread = np.where(several, share**2 * n * square / np.where(several, n - 1.0, 1.0), 0.0)
            terms = [spread, np.where(several, n - 1.0, 0.0), square, cube, n, share**2 * (n == 1)]
            total, df, squares, cubes, rows, alone = np.cumsum(terms, axis=1)
            with np.errstate(all="ignore"):
                variance, skewness = squares / df, (cubes / rows) / (squares / rows) ** 1.5
                total = total + np.where(alone > 0, variance * alone, 0.0)
            self.sides.append((total, df, variance, skewness, rows))
        (v1, df1, *_), (v0, df0, *_) = self.sides
        with np.errstate(all="ignore"):
            self.value = (sums.p1 - sums.p0) / sums.w
            self.variance = v1 + v0
            self.information = np.where(self.variance > 0, sums.w**2 / self.variance, np.nan)
            self.df = self.variance**2 / (v1**2 / df1 + np.where(v0 > 0, v0**2 / df0, 0.0))

    def squared_error(self, null: FloatArray | float) -> FloatArray:
        return 1.0 / self.information

    def limits(self, critical: FloatArray) -> Ends:
        margin = t_as_rare(critical, self.df) * np.sqrt(self.squared_error(0.0))
        return self.value - margin, self.value + margin

    def skewness(self) -> tuple[FloatArray, FloatArray]:
        """The larger absolute skewness of the two sides, and the rows of the smaller side."""
        (_, _, _, skew1, n1), (_, _, _, skew0, n0) = self.sides
        if self.number is not None:
            return np.abs(skew1), n1
        return np.fmax(np.abs(skew1), np.abs(skew0)), np.minimum(n1, n0)


class PeopleSequence(StudentSequence):
    """Differences with errors between buckets of people.

    B_k(d) = A_k - d C_k, V(d) = K/(K - 1) sum (B_k - mean B)^2 over K buckets; ``spread`` has the centered sums of
    A A, A C and C C, and ``df`` the buckets with rows of the group, less 1.
    """

    def __init__(self, sums: StratumSums, spread: FloatArray, buckets: FloatArray) -> None:
        self.sums, self.spread, self.df = sums, spread, buckets - 1.0
        with np.errstate(all="ignore"):
            self.value = (sums.p1 - sums.p0) / sums.w
            self.information = np.where(spread[0] > 0, sums.w**2 / spread[0], np.nan)

    def squared_error(self, null: FloatArray | float) -> FloatArray:
        aa, ac, cc = self.spread
        return (aa - 2.0 * np.asarray(null) * ac + np.asarray(null) ** 2 * cc) / self.sums.w**2

    def limits(self, critical: FloatArray) -> Ends:
        """(U - d W)^2 = t^2 V(d), a quadratic in d; no limits where its leading term is not positive."""
        (aa, ac, cc), w, t = self.spread, self.sums.w, t_as_rare(critical, self.df)
        u = w * self.value
        lead, middle, last = w**2 - t**2 * cc, u * w - t**2 * ac, u**2 - t**2 * aa
        root = np.sqrt(np.maximum(middle**2 - lead * last, 0.0))
        return (
            np.where(lead <= 0, -np.inf, (middle - root) / lead),
            np.where(lead <= 0, np.inf, (middle + root) / lead),
        )


def bucket_terms(open_sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A_k and C_k of one stratum, from the bucket sums (n1, s1, n0, s0) x comparisons x buckets."""
    n1, s1, n0, s0 = open_sums
    rows1, rows0 = n1.sum(axis=-1, keepdims=True), n0.sum(axis=-1, keepdims=True)
    total = rows1 + rows0
    mean = (s1 + s0).sum(axis=-1, keepdims=True) / total
    a, c = rows0 / total, rows1 / total
    return a * (s1 - n1 * mean) - c * (s0 - n0 * mean), a**2 * n1 + c**2 * n0


def bucket_spread(a: FloatArray, c: FloatArray) -> FloatArray:
    """K/(K - 1) times the centered sums of A A, A C and C C over buckets (the last axis)."""
    factor = a.shape[-1] / (a.shape[-1] - 1.0)
    a, c = a - a.mean(axis=-1, keepdims=True), c - c.mean(axis=-1, keepdims=True)
    return factor * np.stack([(a * a).sum(axis=-1), (a * c).sum(axis=-1), (c * c).sum(axis=-1)])
