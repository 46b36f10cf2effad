"""Empirical likelihood of a group's mean, for many groups at once.

Maximizing the likelihood of a group's n rows subject to a mean m gives each row the weight p_i = 1 / (n (1 + λ (x_i
- m))), where λ is the multiplier of the constraint, and

    T(m) = 2 Σ log(1 + λ (x_i - m)),        dT/dm = -2 n λ.

λ runs over the whole line while m runs from the largest row to the smallest, so every question about a group is
a question about one curve. A `Means` gives the curve by a coordinate in which it is explicit:

`Binary` (0/1 rows)     the coordinate is λ itself. λ m (1 - m) = p - m is a quadratic in m, and T is the binomial
                        likelihood ratio, from two counts, with 0 log 0 = 0.
`Real` (any rows)       the coordinate is w in p_i ∝ 1 / (1 + w x_i'), x' = x - mean. With q = mean x'/(1 + w x') and
                        h = 1 - w q:  m = mean + q/h,  λ = w h,  T = 2 n (mean log(1 + w x') + log h).
                        Each point takes three sums, over the rows or, when |w| max|x'| is small, from power sums with a
                        bounded remainder (`Moments`).

For |r| < 1, r = w max|x'|, the three sums are power series in r whose coefficients are the group's scaled moments
a_k = mean (x' / max|x'|)^k, with R = max|x'|:

    mean x'/(1+wx')      = R Σ_{k>=0} (-r)^k a_{k+1}
    mean x'²/(1+wx')²    = R² Σ_{k>=0} (k+1) (-r)^k a_{k+2}
    mean log(1+wx')      = Σ_{k>=1} (-1)^{k+1} r^k a_k / k

|a_k| never exceeds a_K for k >= K even, so truncation at K leaves a remainder below a geometric series, which is known
in advance. At an interval's end r is about 2 max|x'| / (sd sqrt n): small for large groups unless the tails are very
heavy. Where the series of a large group does not converge, a sketch of its rows replaces them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import comb, expit, logit, xlog1py

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.roots import roots

# Plain Newton steps before a bracketed search, and the relative step that ends them.
NEWTON, CLOSE = 4, 1e-13
# Rows from which a rest is sketched where its power series does not converge.
SKETCHED = 100_000
# The highest power of the series; even, as the bound on the remainder requires.
ORDER = 24
POWERS = np.arange(ORDER + 1)[:, None]
# The largest remainder relative to the leading term: the level of rounding in a sum of 1e4 rows.
REMAINDER = 1e-13
# The largest loss of digits, as a factor, that subtracting and re-centering may cause.
LOSS = 1e3
# Rows, and groups, per block: a block and its temporaries stay in the processor's cache.
BLOCK_ROWS = 1 << 17
BLOCK_GROUPS = 1 << 13
# The size of a sketch's bin, as a share of the rows between it and the nearer end.
BIN_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """φ (``forward``), its ``inverse``, and 1/φ' (``unit``) with its derivative, as functions of arrays."""

    name: str
    ratio: bool  # whether a disparity is reported as exp δ instead of δ
    equal: float  # the disparity of groups that do not differ
    forward: Callable[[FloatArray], FloatArray]
    inverse: Callable[[FloatArray], FloatArray]
    unit: Callable[[FloatArray], FloatArray]
    dunit: Callable[[FloatArray], FloatArray]

    def reported(self, delta: npt.ArrayLike) -> FloatArray:
        values = np.asarray(delta, dtype=float)
        with np.errstate(over="ignore"):
            return np.exp(values) if self.ratio else values

    def delta(self, disparity: npt.ArrayLike) -> FloatArray:
        """The δ of a disparity; a negative ratio counts as 0."""
        values = np.asarray(disparity, dtype=float)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(values, 0.0)) if self.ratio else values

    def reach(self, tolerance: float | None) -> float | None:
        """A tolerance on the scale of δ, where it is symmetric about no difference."""
        return float(-self.delta(tolerance)) if tolerance and self.ratio else tolerance

    def compared(self, mean: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
        """The disparity of means from references; NaN where there is nothing to compare with."""
        mean, reference = np.asarray(mean, dtype=float), np.asarray(reference, dtype=float)
        if self is IDENTITY:
            return mean - reference
        comparable = self.comparable(reference)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self is LOGIT:
                mean, reference = mean / (1.0 - mean), reference / (1.0 - reference)
            return np.where(comparable, mean / reference, np.nan)

    def comparable(self, reference: npt.ArrayLike) -> BoolArray:
        """Whether anything can be compared with a reference: there is no ratio to 0, nor to infinite odds."""
        values = np.asarray(reference, dtype=float)
        return ~(((values == 0) | ((values == 1) & (self is LOGIT))) & self.ratio)

    def moved(self, reference: npt.ArrayLike, delta: npt.ArrayLike) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.inverse(self.forward(np.asarray(reference, dtype=float)) + np.asarray(delta, dtype=float))


def _identity(x: FloatArray) -> FloatArray:
    return x


IDENTITY = Link("difference", False, 0.0, _identity, _identity, np.ones_like, np.zeros_like)
LOG = Link("ratio", True, 1.0, np.log, np.exp, _identity, np.ones_like)
LOGIT = Link("odds_ratio", True, 1.0, logit, expit, lambda m: m * (1.0 - m), lambda m: 1.0 - 2.0 * m)
LINKS = {link.name: link for link in (IDENTITY, LOG, LOGIT)}


class Point(NamedTuple):
    """One point of each group's curve, with the derivatives along the coordinate."""

    multiplier: FloatArray
    mean: FloatArray
    statistic: FloatArray
    dmultiplier: FloatArray
    dmean: FloatArray


class Means(ABC):
    """The means of many groups, each with its own empirical likelihood.

    ``n`` rows, ``mean``, ``variance`` (divided by n) and the range ``low``..``high`` of possible means, one entry per
    group. ``index`` selects groups in every method, and may repeat them.
    """

    n: FloatArray
    mean: FloatArray
    variance: FloatArray
    low: FloatArray
    high: FloatArray
    link = IDENTITY

    @abstractmethod
    def point(self, coordinate: FloatArray, index: IntArray) -> Point:
        """The point of the curve at each coordinate."""

    @abstractmethod
    def ends(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The open interval of the coordinate; the multiplier increases along it."""

    @abstractmethod
    def coordinate(self, multiplier: FloatArray, index: IntArray) -> FloatArray:
        """The coordinate at which each group has this multiplier."""

    @abstractmethod
    def locate(self, mean: FloatArray, index: IntArray) -> Point:
        """The point with this mean; T is infinite outside the range."""

    def statistic(self, mean: FloatArray, index: IntArray) -> FloatArray:
        return self.locate(mean, index).statistic


class Binary(Means):
    def __init__(self, n: npt.ArrayLike, ones: npt.ArrayLike) -> None:
        self.n = np.asarray(n, dtype=float)
        self.ones = np.asarray(ones, dtype=float)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.mean = self.ones / self.n
        self.variance = self.mean * (1.0 - self.mean)
        self.low = np.zeros_like(self.mean)
        self.high = np.ones_like(self.mean)

    def ends(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        return np.full(index.shape, -np.inf), np.full(index.shape, np.inf)

    def coordinate(self, multiplier: FloatArray, index: IntArray) -> FloatArray:
        return multiplier

    def point(self, coordinate: FloatArray, index: IntArray) -> Point:
        """The root of λ m² - (1 + λ) m + p = 0 in [0, 1], in the form that loses no digits."""
        p, lam = self.mean[index], coordinate
        with np.errstate(all="ignore"):
            root = np.sqrt((1.0 - lam) ** 2 + 4.0 * lam * (1.0 - p))
            m = np.where(lam > 0, 2.0 * p / (1.0 + lam + root), 1.0 - 2.0 * (1.0 - p) / (1.0 - lam + root))
            rest = np.where(lam > 0, 1.0 - m, 2.0 * (1.0 - p) / (1.0 - lam + root))
            # p/m = 1 + λ(1 - m) and (1-p)/(1-m) = 1 - λ m on the curve. A group with only zeros or only ones stays
            # at its end of the range, at no cost, until the multiplier passes one.
            deviance = xlog1py(p, lam * rest) + xlog1py(1.0 - p, -lam * m)
            stuck = ((p == 0) & (lam >= -1)) | ((p == 1) & (lam <= 1))
            slope = np.where(stuck, 0.0, -m * rest / (1.0 + lam * (rest - m)))
        statistic = np.where(stuck, 0.0, 2.0 * self.n[index] * np.maximum(deviance, 0.0))
        return Point(lam, np.where(stuck, p, m), statistic, np.ones_like(lam), slope)

    def locate(self, mean: FloatArray, index: IntArray) -> Point:
        """Closed form: T = 2 [k log(p/m) + (n - k) log((1 - p)/(1 - m))]."""
        p, m = self.mean[index], np.asarray(mean, dtype=float)
        with np.errstate(all="ignore"):
            gap = p - m
            deviance = xlog1py(p, gap / m) + xlog1py(1.0 - p, -gap / (1.0 - m))
            lam = np.where(gap == 0, 0.0, gap / (m * (1.0 - m)))
            slope = -m * (1.0 - m) / (1.0 + lam * (1.0 - 2.0 * m))
        outside = (m < 0) | (m > 1) | ((m == 0) & (p > 0)) | ((m == 1) & (p < 1))
        statistic = np.where(outside, np.inf, np.where(gap == 0, 0.0, 2.0 * self.n[index] * deviance))
        return Point(lam, m, np.maximum(statistic, 0.0), np.ones_like(lam), slope)

    def rest(self) -> Binary:
        return Binary(self.n.sum() - self.n, self.ones.sum() - self.ones)


class Tilted(Means):
    """The common part of `Real` and `Rest`: what follows from the three sums of the module docstring."""

    below: FloatArray  # the smallest x'
    above: FloatArray  # the largest x'
    moments: Moments

    @abstractmethod
    def values(self, group: int) -> tuple[FloatArray, FloatArray | None]:
        """The rows of one group, and their counts if they have any."""

    @abstractmethod
    def exact(self, w: FloatArray, index: IntArray) -> FloatArray:
        """The three sums, divided by n, over the rows: x'/(1+wx'), its square, log(1+wx')."""

    def _center(self, mean: FloatArray) -> FloatArray:
        """Set the mean, and the range of x' about it. Returns the radius max|x'|."""
        # Rounding of the mean must not make a constant group vary.
        self.mean = np.where(self.low == self.high, self.low, mean)
        self.below, self.above = self.low - self.mean, self.high - self.mean
        return np.maximum(-self.below, self.above)

    def sums(self, w: FloatArray, index: IntArray) -> FloatArray:
        """The same sums, from power sums where their remainder is negligible and over the rows elsewhere."""
        sums, enough = self.moments.sums(w, index)
        rows = np.flatnonzero(~enough)
        if rows.size:
            sums[:, rows] = self.exact(w[rows], index[rows])
        return sums

    def ends(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Weights are positive strictly between these."""
        with np.errstate(divide="ignore"):
            return -1.0 / self.above[index], -1.0 / self.below[index]

    def point(self, coordinate: FloatArray, index: IntArray) -> Point:
        """The module's formulas, with mean x'/(1+wx')² = q - w s and mean 1/(1+wx')² = h - w (q - w s)."""
        w, n = coordinate, self.n[index]
        with np.errstate(all="ignore"):
            q, s, log = self.sums(w, index)
            h = 1.0 - w * q
            first = q - w * s
            mean = self.mean[index] + q / h
            statistic = 2.0 * n * np.maximum(log + np.log1p(-w * q), 0.0)
            dmean = (q * first - s * h) / h**2
        return Point(w * h, mean, statistic, h - w * first, dmean)

    def coordinate(self, multiplier: FloatArray, index: IntArray) -> FloatArray:
        """Solve w h(w) = multiplier; the left side increases from -inf to inf.

        A small multiplier, as the rest of a large population always has, takes one or two plain Newton steps; others
        are bracketed.
        """
        low, high = self.ends(index)
        start = multiplier / (1.0 + multiplier**2 * self.variance[index])
        w, hard = start, np.arange(start.size)
        with np.errstate(all="ignore"):
            for _ in range(NEWTON):
                point = self.point(w, index)
                step = (point.multiplier - multiplier) / point.dmultiplier
                w = w - step
                hard = np.flatnonzero(~((np.abs(step) <= CLOSE * np.abs(w)) & (w > low) & (w < high)))
                if not hard.size:
                    return w

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            point = self.point(x, index[hard[active]])
            return point.multiplier - multiplier[hard[active]], point.dmultiplier

        w[hard] = roots(gap, low[hard], high[hard], x0=start[hard], direction="increasing").x
        return w

    def locate(self, mean: FloatArray, index: IntArray) -> Point:
        """Solve m(w) = mean; the left side decreases from the largest row to the smallest."""
        where = np.flatnonzero((mean > self.low[index]) & (mean < self.high[index]))
        picked, target = index[where], mean[where]

        def gap(w: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            point = self.point(w, picked[active])
            return point.mean - target[active], point.dmean

        beyond = np.where(mean <= self.low[index], np.inf, -np.inf)
        result = np.full((5, mean.size), np.nan)
        result[:3] = beyond, mean, np.where(mean == self.mean[index], 0.0, np.inf)
        coordinate = roots(gap, *self.ends(picked), x0=np.zeros(where.size), direction="decreasing").x
        result[:, where] = self.point(coordinate, picked)
        result[1] = mean
        return Point(*result)


class Real(Tilted):
    """Groups of real-valued rows: the first column of ``rows``, with their counts as weights."""

    def __init__(self, rows: Ragged) -> None:
        values = np.asarray(rows.columns[0], dtype=float)
        self.rows = rows
        self.n = rows.totals
        self.low, self.high = rows.min(values), rows.max(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            radius = self._center(rows.weighted_sum(values) / self.n)
        self.centered = values - rows.repeat(self.mean)
        self.moments = Moments.from_rows(rows, self.centered, radius, self.n)
        self.variance = self.moments.central(2)

    def exact(self, w: FloatArray, index: IntArray) -> FloatArray:
        """Segment sums, a block of groups at a time."""
        sizes = self.rows.sizes[index]
        sums = np.empty((3, index.size))
        for start, stop in _blocks(sizes):
            chosen = index[start:stop]
            starts = np.cumsum(sizes[start:stop]) - sizes[start:stop]
            contiguous = chosen[-1] - chosen[0] == chosen.size - 1 and bool((np.diff(chosen) == 1).all())
            first, last = self.rows.offsets[chosen[0]], self.rows.offsets[chosen[-1] + 1]
            rows = slice(first, last) if contiguous else self.rows.positions(chosen)
            x = self.centered[rows]
            weights = None if self.rows.weights is None else self.rows.weights[rows]
            terms = _terms(x, x * np.repeat(w[start:stop], sizes[start:stop]), weights)
            sums[:, start:stop] = [np.add.reduceat(term, starts) for term in terms]
        return sums / self.n[index]

    @property
    def carrying(self) -> float:
        """The share of rows that carry the spread: (Σ|d|)²/(n Σd²), weighted by Σd²; k/n if k rows deviate equally."""
        total = self.rows.weighted_sum(np.abs(self.centered))
        with np.errstate(all="ignore"):
            return float(np.nansum(total**2 / self.n) / np.nansum(self.n * self.variance))

    def values(self, group: int) -> tuple[FloatArray, FloatArray | None]:
        rows = slice(self.rows.offsets[group], self.rows.offsets[group + 1])
        return self.rows.columns[0][rows], None if self.rows.weights is None else self.rows.weights[rows]

    def rest(self) -> Rest:
        return Rest(self)


class Rest(Tilted):
    """For each group of a `Real`, the rows of all other groups.

    Power sums of the rest are those of all rows minus those of the group, so a thousand groups cost no more than one.
    The rows are read only where subtraction loses digits or the series does not converge, which takes groups that are
    large relative to the rest.
    """

    def __init__(self, groups: Real) -> None:
        self.groups = groups
        self.n = groups.n.sum() - groups.n
        self.low, self.high = _others(groups.low, np.minimum), _others(groups.high, np.maximum)
        sums = groups.n * np.nan_to_num(groups.mean)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (sums.sum() - sums) / self.n
        # A group that holds most of the data leaves few digits of the rest's mean in a difference of sums.
        for g in np.flatnonzero((self.n < 0.01 * groups.n) & (self.n > 0)):
            values, weights = self.values(int(g))
            mean[g] = np.average(values, weights=weights)
        radius = self._center(mean)
        self.moments = groups.moments.excluding(groups.n, groups.mean, self.n, self.mean, radius)
        self.variance = self.moments.central(2)
        for g in np.flatnonzero(~self.moments.usable & (self.n > 0)):
            self.variance[g] = self.exact(np.zeros(1), np.array([g]))[1, 0]

    def values(self, group: int) -> tuple[FloatArray, FloatArray | None]:
        rows = self.groups.rows
        keep = np.r_[0 : rows.offsets[group], rows.offsets[group + 1] : rows.n_rows]
        return rows.columns[0][keep], None if rows.weights is None else rows.weights[keep]

    def exact(self, w: FloatArray, index: IntArray) -> FloatArray:
        """All rows of each rest; if these are very many, a sketch of all rows minus the group's rows."""
        # If the group holds the most extreme row of all, the sketch would still contain that row.
        inner = (self.groups.low[index] >= self.low[index]) & (self.groups.high[index] <= self.high[index])
        sketched = inner & (self.groups.rows.n_rows > SKETCHED)
        sums = np.zeros((3, index.size))
        for i, g in enumerate(index):
            if sketched[i]:
                pieces = [(*self._sketch, 1.0), (*self.groups.values(int(g)), -1.0)]
            else:
                pieces = [(*self.values(int(g)), 1.0)]
            for values, mass, sign in pieces:
                x = values - self.mean[g]
                sums[:, i] += [sign * np.sum(term) for term in _terms(x, w[i] * x, mass)]
        return sums / self.n[index]

    @cached_property
    def _sketch(self) -> tuple[FloatArray, FloatArray]:
        return sketch(self.groups.rows.columns[0], self.groups.rows.weights)


class Linked(Means):
    """Means on the scale of a link: ``mean``, ``low`` and ``high`` are φ of theirs, the variance is divided by φ'²."""

    def __init__(self, natural: Means, link: Link) -> None:
        self.natural, self.link, self.n = natural, link, natural.n
        with np.errstate(divide="ignore", invalid="ignore"):
            self.mean, self.low, self.high = (link.forward(x) for x in (natural.mean, natural.low, natural.high))
            self.variance = natural.variance / link.unit(natural.mean) ** 2

    def ends(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        return self.natural.ends(index)

    def point(self, coordinate: FloatArray, index: IntArray) -> Point:
        return self.renamed(self.natural.point(coordinate, index))

    def locate(self, mean: FloatArray, index: IntArray) -> Point:
        with np.errstate(over="ignore"):
            return self.renamed(self.natural.locate(self.link.inverse(mean), index))

    def renamed(self, point: Point) -> Point:
        with np.errstate(all="ignore"):
            unit, dunit = self.link.unit(point.mean), self.link.dunit(point.mean)
            return Point(
                multiplier=point.multiplier * unit,
                mean=self.link.forward(point.mean),
                statistic=point.statistic,
                dmultiplier=point.dmultiplier * unit + point.multiplier * dunit * point.dmean,
                dmean=np.where(point.dmean == 0, 0.0, point.dmean / unit),
            )

    def coordinate(self, multiplier: FloatArray, index: IntArray) -> FloatArray:
        """Where λ/φ' has this value; infinite if it never has, because no mean is so far out."""
        if isinstance(self.natural, Binary):
            return self._count_coordinate(multiplier, self.natural.mean[index])
        low, high = self.ends(index)
        w = np.zeros(multiplier.shape)
        moving = np.flatnonzero(multiplier != 0)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            point = self.point(x, index[moving[active]])
            return point.multiplier - multiplier[moving[active]], point.dmultiplier

        with np.errstate(all="ignore"):
            start = multiplier[moving] / self.link.unit(self.natural.mean[index[moving]])
        solution = roots(gap, low[moving], high[moving], x0=start, direction="increasing")
        w[moving] = np.where(solution.ok, solution.x, np.sign(multiplier[moving]) * np.inf)
        return w

    def _count_coordinate(self, multiplier: FloatArray, p: FloatArray) -> FloatArray:
        """For 0/1 rows the mean is explicit: (p - a)/(1 - a) for a ratio, p - a for odds."""
        with np.errstate(all="ignore"):
            mean = (p - multiplier) / (1.0 - multiplier) if self.link is LOG else p - multiplier
            inside = (mean > 0) & (mean < 1) & ((multiplier < 1.0) | (self.link is not LOG))
            away = np.where(inside, multiplier / self.link.unit(mean), np.sign(multiplier) * np.inf)
        if self.link is LOG:  # rows that are all 1 keep their mean while λ m = λ is below 1
            away = np.where((p == 1) & (multiplier < 1.0), multiplier, away)
        return np.where(multiplier == 0, 0.0, away)


def natural(means: Means) -> Means:
    """Means on their natural scale, whatever scale they are compared on."""
    return means.natural if isinstance(means, Linked) else means


def linked(means: Means, link: Link) -> Means:
    return means if link is IDENTITY else Linked(means, link)


def _terms(x: FloatArray, wx: FloatArray, mass: FloatArray | None) -> list[FloatArray]:
    """The terms of the three sums, multiplied by the rows that each line represents."""
    ratio = x / (1.0 + wx)
    terms = [ratio, ratio * ratio, np.log1p(wx)]
    return terms if mass is None else [term * mass for term in terms]


def _others(values: FloatArray, ufunc: np.ufunc) -> FloatArray:
    """The smallest (or largest) value of all other groups, by running results from both ends."""
    identity = np.inf if ufunc is np.minimum else -np.inf
    padded = np.concatenate([[identity], values, [identity]])
    return ufunc(ufunc.accumulate(padded)[:-2], ufunc.accumulate(padded[::-1])[::-1][2:])


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Scaled moments ``scaled[k, g]`` = mean (x'/radius)^k of each group, k = 0..ORDER, where ``usable``."""

    radius: FloatArray
    scaled: FloatArray
    usable: BoolArray

    @classmethod
    def from_rows(cls, rows: Ragged, centered: FloatArray, radius: FloatArray, n: FloatArray) -> Moments:
        """Compute moments a block of groups at a time, so that the powers stay in cache."""
        scaled = np.zeros((ORDER + 1, n.size))
        scaled[0] = n
        sizes = rows.sizes
        filled = np.flatnonzero(sizes > 0)
        scale = np.where(radius > 0, radius, 1.0)
        for start, stop in _blocks(sizes[filled]):
            chosen = filled[start:stop]
            first, last = rows.offsets[chosen[0]], rows.offsets[chosen[-1] + 1]
            y = centered[first:last] / np.repeat(scale[chosen], sizes[chosen])
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
        return self.scaled[order] * self.radius**order

    def sums(self, w: FloatArray, index: IntArray) -> tuple[FloatArray, BoolArray]:
        """The three series at ``w``, and where their remainder is negligible; 0 elsewhere."""
        radius, highest, second = self.radius[index], self.scaled[ORDER, index], self.scaled[2, index]
        size = np.abs(w) * radius
        with np.errstate(all="ignore"):
            remainder = ORDER * size ** (ORDER - 1) * highest / ((1.0 - size) ** 2 * second)
            enough = (size < 1) & ((remainder <= REMAINDER) | (radius == 0) | (w == 0)) & self.usable[index]
        result, part = np.zeros((3, w.size)), np.flatnonzero(enough)
        if not part.size:
            return result, enough
        largest, order = float(np.max(size[part])), 4
        # The lowest even order with a negligible remainder for every |r| up to the largest; a_K never exceeds a_2.
        while order < ORDER and order * largest ** (order - 1) > REMAINDER * (1.0 - largest) ** 2:
            order += 2
        a, radius, r = self.scaled[: order + 1, index[part]], radius[part], (w * radius)[part]
        q, s, log = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r)
        for k in range(order, 1, -1):  # Horner
            q = a[k] - r * q
            s = (k - 1) * a[k] - r * s
            log = a[k] / k - r * log
        # Σ_{k>=2} starts two powers late for log, one for q (a_1 = 0) and none for s.
        result[:, part] = -radius * r * q, radius**2 * s, -r * r * log
        return result, enough

    def excluding(
        self, n: FloatArray, mean: FloatArray, rest: FloatArray, rest_mean: FloatArray, radius: FloatArray
    ) -> Moments:
        """The moments of the rows of all other groups about their mean ``rest_mean``."""
        total = float(n.sum())
        mean, rest_mean = np.nan_to_num(mean), np.nan_to_num(rest_mean)
        center = float(np.sum(n * mean)) / total if total else 0.0
        scale = float(np.max(self.radius + np.abs(mean - center), initial=0.0, where=n > 0)) or 1.0
        steps = [slice(i, i + BLOCK_GROUPS) for i in range(0, n.size, BLOCK_GROUPS)]

        def about(part: slice) -> FloatArray:  # power sums of each group about the common center
            moved = _moved(self.scaled[:, part], self.radius[part] / scale, (mean[part] - center) / scale)
            return np.nan_to_num(moved * n[part])

        every = np.sum([about(part).sum(axis=1) for part in steps], axis=0)[:, None]
        scaled, usable = np.zeros_like(self.scaled), np.zeros(n.size, dtype=bool)
        for part in steps:
            shift = (rest_mean[part] - center) / scale
            with np.errstate(all="ignore"):
                left = every - about(part)
                others = left / rest[part]
                spread = np.sqrt(np.maximum(others[2] - shift**2, 0.0))
                # Subtraction costs every/left, moving the center by c standard deviations about (1 + c)^ORDER.
                loss = np.maximum(every[0] / left[0], every[ORDER] / left[ORDER])
                usable[part] = loss * (1.0 + np.abs(shift) / spread) ** ORDER <= LOSS
                back = scale / np.where(radius[part] > 0, radius[part], 1.0)
                moved = _moved(others, np.ones_like(shift), -shift) * back**POWERS
            scaled[:, part] = np.where(usable[part], moved, 0.0)
        scaled[1] = 0.0
        return Moments(radius, scaled, usable)


def _blocks(sizes: IntArray) -> list[tuple[int, int]]:
    """Ranges of consecutive groups with about `BLOCK_ROWS` rows each."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // BLOCK_ROWS)) + 1
    return list(pairwise([0, *cuts.tolist(), sizes.size])) if sizes.size else []


def _moved(moments: FloatArray, scale: FloatArray, shift: FloatArray) -> FloatArray:
    """Moments of ``scale * y + shift`` from the moments of y (both per group)."""
    result = np.zeros_like(moments)
    powers = shift**POWERS
    scaled = moments * scale**POWERS
    for k in range(ORDER + 1):
        result[k] = np.einsum("j,jg,jg->g", comb(k, np.arange(k + 1)), scaled[: k + 1], powers[k::-1])
    return result


def sketch(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Replace rows by a few thousand weighted values with nearly the same smooth sums.

    The outermost rows stay as they are. A bin holds at most a fixed share of the rows between it and the nearer end, so
    bins are narrow in the tails too; two values with the bin's mean and variance replace it.
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
