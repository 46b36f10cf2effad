"""Disparities that may be looked at any time: score statistics, and the normal-mixture boundary.

At the null, U is a martingale over looks with predictable variance V, so that z = U/sqrt(V) is a Brownian motion at
time V. Mixing over a normal prior N(0, sigma^2) on the disparity (Robbins 1970) gives the e-value

    log E = (z'^2 k/(1 + k) - log(1 + k)) / 2,    k = sigma^2 I0,

which exceeds 1/alpha at any time with probability at most alpha. z' is z with its skewness taken into account
(Cornish-Fisher, as for rates of few cases in `flag`). I0 is the information at no difference, for every null: with
that at the null the ratios not rejected form no interval. The critical value therefore does not depend on the null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from isonomy.inference.decide import Alternative
from isonomy.monitoring.sequences.strata import BatchMoments, StratumSums, weights
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.roots import bisection
from isonomy.numerics.tails import normal_isf, t_as_rare, t_sf

EXTREME = 1e6  # the largest ratio; the smallest is its inverse
FARTHEST = 40.0  # of critical values

Scale = Literal["difference", "ratio"]


def difference_rates(g: FloatArray, r: FloatArray, n1: FloatArray, n0: FloatArray, null: FloatArray) -> FloatArray:
    """The likeliest p1 with p1 - p0 = null (Farrington and Manning 1990)."""
    ratio = n0 / n1
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


def ratio_rates(g: FloatArray, r: FloatArray, n1: FloatArray, n0: FloatArray, null: FloatArray) -> FloatArray:
    """The likeliest p1 with p1 / p0 = null."""
    ratio = n0 / n1
    a = 1.0 + ratio
    b = -(null * (1.0 + ratio * r) + ratio + g)
    c = null * (g + ratio * r)
    root = 2.0 * c / (-b + np.sqrt(np.maximum(b**2 - 4.0 * a * c, 0.0)))  # the smaller root, without cancellation
    return np.clip(root, 0.0, np.minimum(1.0, null))


def unskewed(z: FloatArray, third: FloatArray, variance: FloatArray) -> FloatArray:
    """z with the skewness of U taken into account; ``third`` is the third cumulant of U."""
    a = third / (6.0 * variance**1.5)
    safe = np.where(np.abs(a) < 1e-9, 1.0, a)
    root = (-1.0 + np.sqrt(np.maximum(1.0 + 4.0 * safe * (z + safe), 0.0))) / (2.0 * safe)
    return np.where(np.abs(a) < 1e-9, z, root)


def critical_value(k: FloatArray, alpha: FloatArray | float, side: Alternative = "two-sided") -> FloatArray:
    """The z' whose e-value is 1/alpha."""
    with np.errstate(all="ignore"):
        bound = np.sqrt((1.0 + 1.0 / k) * (np.log1p(k) - 2.0 * np.log(alpha)))
    if side == "two-sided":
        return bound
    # A half-normal prior doubles the e-value of a large z'.
    short = bisection(
        lambda z: log_evidence(z, k, "greater") < -np.log(alpha), np.zeros_like(k), np.full_like(k, FARTHEST)
    )
    return np.where(np.isnan(bound), np.nan, np.minimum(short, bound))


def batches_to_reach(
    information: FloatArray, prior: FloatArray, pace: FloatArray, reach: float, alpha: FloatArray
) -> FloatArray:
    """How many more batches make the half-width of an interval ``reach``, at the pace of the last ten."""
    with np.errstate(all="ignore"):
        total = np.cumsum(np.nan_to_num(pace), axis=0)
        last = np.minimum(np.arange(1, len(pace) + 1), 10)[:, None]
        recent = (total - np.concatenate([np.zeros_like(total[:10]), total[:-10]])[: len(pace)]) / last

        def wide(log_information: FloatArray) -> BoolArray:
            there = np.exp(log_information)
            return np.asarray(critical_value(prior**2 * there, alpha) > reach * np.sqrt(there))

        needed = np.exp(bisection(wide, np.full_like(information, -20.0), np.full_like(information, 40.0)))
        return np.where(recent > 0, np.ceil(np.maximum(needed - information, 0.0) / recent), np.nan)


def log_evidence(z: FloatArray, k: FloatArray, side: Alternative = "two-sided") -> FloatArray:
    """The logarithm of the e-value of z'."""
    with np.errstate(all="ignore"):
        both = 0.5 * (z**2 * k / (1.0 + k) - np.log1p(k))
        if side == "two-sided":
            return both
        toward = z if side == "greater" else -z
        return both + np.log(2.0) + log_ndtr(toward * np.sqrt(k / (1.0 + k)))


class Sequence(ABC):
    """Disparities to date, looks x comparisons, with a test of every null that is valid at all looks at once.

    ``value`` is the disparity, ``information`` that at no difference, on the scale of the prior (logarithms of ratios).
    """

    value: FloatArray
    information: FloatArray
    scale: Scale = "difference"

    @abstractmethod
    def statistic(self, null: FloatArray | float) -> FloatArray:
        """z' at a null; it decreases in the null."""

    @abstractmethod
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """How far an interval may reach."""

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

    def interval(
        self, prior: FloatArray, alpha: FloatArray | float, side: Alternative = "two-sided"
    ) -> tuple[FloatArray, FloatArray]:
        """The nulls that are not rejected at ``alpha``, at any look; a bound if one side is tested."""
        critical = critical_value(prior**2 * self.information, alpha, side)
        start, (low, high) = self.value, self.ends()
        known = ~np.isnan(critical) & ~np.isnan(start)
        if self.scale == "ratio":
            start, low, high = (np.log(np.clip(x, 1.0 / EXTREME, EXTREME)) for x in (start, low, high))

        def at(x: FloatArray) -> FloatArray:
            return self.statistic(np.exp(x) if self.scale == "ratio" else x)

        with np.errstate(all="ignore"):
            lower = bisection(lambda x: at(x) < critical, start, low)
            upper = bisection(lambda x: at(x) > -critical, start, high)
        if self.scale == "ratio":
            lower = np.where(self.value == 0, 0.0, np.exp(lower))
            lower, upper = np.where(lower <= 1.0001 / EXTREME, 0.0, lower), np.exp(upper)
            upper = np.where(upper >= 0.9999 * EXTREME, np.inf, upper)
        if side != "two-sided":
            lower, upper = (lower, np.full_like(upper, np.inf)) if side == "greater" else (-np.inf + 0 * lower, upper)
        return np.where(known, lower, np.nan), np.where(known, upper, np.nan)


@dataclass(frozen=True, eq=False)
class RateSequence(Sequence):
    """Rates of 0/1 metrics, by difference or ratio; ``number``: the reference, if it is a number."""

    sums: StratumSums
    scale: Scale = "difference"
    number: float | None = None

    @cached_property
    def rates(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Standardized rates and effective sizes of both sides."""
        s = self.sums
        with np.errstate(all="ignore"):
            size0 = np.full_like(s.w, np.inf) if self.number is not None else s.w**2 / s.h0
            return s.p1 / s.w, s.p0 / s.w, s.w**2 / s.h1, size0

    @cached_property
    def value(self) -> FloatArray:  # type: ignore[override]
        g, r, _, _ = self.rates
        with np.errstate(all="ignore"):
            return g - r if self.scale == "difference" else np.where(r > 0, g / r, np.nan)

    @cached_property
    def pooled(self) -> FloatArray:
        """The common rate if there is no difference."""
        g, r, n1, n0 = self.rates
        with np.errstate(all="ignore"):
            return r if self.number is not None else (n1 * g + n0 * r) / (n1 + n0)

    @cached_property
    def information(self) -> FloatArray:  # type: ignore[override]
        with np.errstate(all="ignore"):
            plain = np.where(self.sums.vc > 0, self.sums.w**2 / self.sums.vc, np.nan)
            return plain if self.scale == "difference" else self.pooled**2 * plain

    def statistic(self, null: FloatArray | float) -> FloatArray:
        s, (g, r, n1, n0) = self.sums, self.rates
        null = np.broadcast_to(np.asarray(null, dtype=float), g.shape)
        factor = np.ones_like(g) if self.scale == "difference" else null
        equal = null == (0.0 if self.scale == "difference" else 1.0)
        with np.errstate(all="ignore"):
            if self.scale == "difference":
                u = s.w * (g - r - null)
                p1 = r + null if self.number is not None else difference_rates(g, r, n1, n0, null)
                p1 = np.where(equal, self.pooled, np.clip(p1, 0.0, 1.0))
                p0 = np.where(equal, p1, p1 - null)
            else:
                u = s.w * (g - null * r)
                p1 = null * r if self.number is not None else ratio_rates(g, r, n1, n0, null)
                p1 = np.where(equal, self.pooled, np.clip(p1, 0.0, 1.0))
                p0 = np.where(equal, p1, p1 / null)
            v1, v0 = p1 * (1.0 - p1), p0 * (1.0 - p0)
            variance = np.where(equal, s.vc, s.h1 * v1 + factor**2 * s.h0 * v0)
            third = s.k1 * v1 * (1.0 - 2.0 * p1) - factor**3 * s.k0 * v0 * (1.0 - 2.0 * p0)
            z = u / np.sqrt(variance)
            return np.where(variance > 0, unskewed(z, third, variance), np.sign(u) * np.inf)

    def ends(self) -> tuple[FloatArray, FloatArray]:
        if self.scale == "ratio":
            return np.full_like(self.value, 1.0 / EXTREME), np.full_like(self.value, EXTREME)
        r = 0.0 * self.value + (0.0 if self.number is None else self.number)
        return (-1.0 + 0.0 * r, 1.0 + 0.0 * r) if self.number is None else (-r, 1.0 - r)


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

    def ends(self) -> tuple[FloatArray, FloatArray]:
        return np.full_like(self.value, -np.inf), np.full_like(self.value, np.inf)

    def interval(
        self, prior: FloatArray, alpha: FloatArray | float, side: Alternative = "two-sided"
    ) -> tuple[FloatArray, FloatArray]:
        with np.errstate(all="ignore"):
            critical = t_as_rare(critical_value(prior**2 * self.information, alpha, side), self.df)
            lower, upper = self.limits(np.asarray(critical))
        infinite = np.where(np.isnan(lower), np.nan, np.inf)
        return (-infinite if side == "less" else lower), (infinite if side == "greater" else upper)

    def limits(self, critical: FloatArray) -> tuple[FloatArray, FloatArray]:
        margin = critical * np.sqrt(self.squared_error(0.0))
        return self.value - margin, self.value + margin


class MeanSequence(StudentSequence):
    """Differences of means within strata."""

    def __init__(self, strata: BatchMoments, sums: StratumSums, number: float | None = None) -> None:
        _, a, c = weights(strata.n1, strata.n0, number=number is not None)
        self.strata, self.sums, self.number = strata, sums, number
        parts = []
        for share, (n, _, square, cube) in ((a, strata[:4]), (c, strata[4:])):
            several = n >= 2
            spread = np.where(several, share**2 * n * square / np.where(several, n - 1.0, 1.0), 0.0)
            df = np.cumsum(np.where(several, n - 1.0, 0.0), axis=0)
            squares, cubes, rows = (np.cumsum(x, axis=0) for x in (square, cube, n))
            with np.errstate(all="ignore"):
                variance = squares / df
                total = np.cumsum(spread, axis=0) + np.where(
                    (alone := np.cumsum(share**2 * (n == 1), axis=0)) > 0, variance * alone, 0.0
                )
                skewness = (cubes / rows) / (squares / rows) ** 1.5
            parts.append((total, df, variance, skewness, rows))
        self.sides = parts
        (v1, df1, *_), (v0, df0, *_) = parts
        if number is not None:
            v0, df0 = np.zeros_like(v1), np.ones_like(df1)
        with np.errstate(all="ignore"):
            self.value = sums.p1 / sums.w - sums.p0 / sums.w
            self.variance = v1 + v0
            self.information = np.where(self.variance > 0, sums.w**2 / self.variance, np.nan)
            self.df = self.variance**2 / (v1**2 / df1 + np.where(v0 > 0, v0**2 / df0, 0.0))

    def squared_error(self, null: FloatArray | float) -> FloatArray:
        return 1.0 / self.information

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
            self.value = sums.p1 / sums.w - sums.p0 / sums.w
            self.information = np.where(spread[0] > 0, sums.w**2 / spread[0], np.nan)

    def squared_error(self, null: FloatArray | float) -> FloatArray:
        aa, ac, cc = self.spread
        return (aa - 2.0 * np.asarray(null) * ac + np.asarray(null) ** 2 * cc) / self.sums.w**2

    def limits(self, critical: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(U - d W)^2 = t^2 V(d), a quadratic in d; no limits where its leading term is not positive."""
        (aa, ac, cc), w = self.spread, self.sums.w
        u = w * self.value
        lead, middle, last = w**2 - critical**2 * cc, u * w - critical**2 * ac, u**2 - critical**2 * aa
        root = np.sqrt(np.maximum(middle**2 - lead * last, 0.0))
        open_ = lead <= 0
        low = np.where(open_, -np.inf, (middle - root) / lead)
        return np.where(np.isnan(lead), np.nan, low), np.where(open_, np.inf, (middle + root) / lead)


BUCKETS = 64


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
