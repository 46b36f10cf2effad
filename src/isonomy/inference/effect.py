"""Effects: estimates with a test statistic at every value. Tests, limits and planning are written here once.

An `Effect` holds one or many estimates, one array entry each. ``statistic(x)`` is T for the hypothesis that the effect
is x: a squared Student's t with `df` degrees of freedom, or a chi-square with one where they are infinite.
``interval(critical)`` are the values with T at most ``critical``. Likelihood ratios, Wald contrasts, Fieller's ratios
and score statistics differ in these two functions alone.

A group against the best (the highest or lowest of all groups, which is itself estimated) is an effect too. ρ_g is the
smallest disparity of g from the others, and at most 0: that of the best group. Taking the largest observed mean for the
best would blame the runner-up and ignore its error. Multiple comparisons with the best (Hsu 1984, 1996) do not:

ρ_g below r     is shown by any of the k - 1 others: the smallest of their one-sided p-values, times k - 1;
ρ_g above r     needs all of them: the largest of the one-sided p-values, unadjusted.

One limit is therefore the smallest of the others' lower limits, unadjusted, and the other the smallest of their upper
limits at a level divided by k - 1. As one statistic: T of the deciding pair below the estimate, and above it the T
whose tail is k - 1 times as large.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from isonomy.inference.decide import Alternative
from isonomy.inference.designs import Contribution, Law
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import (
    chi2_isf,
    chi2_sf,
    interval_isf,
    normal_isf,
    normal_sf,
    rows_for,
    t_as_rare,
    t_isf,
    t_sf,
)

Against = Literal["two-sided", "greater", "less", "outside", "outside-published"]
Interval = Literal["pointwise", "simultaneous", "one-sided"]
Limits = tuple[FloatArray, FloatArray]

# Rows, in squared skewnesses, below which an estimate is too skewed for any verdict. By simulation, the smallest number
# that holds 0.05 at the edge of a tolerance for lognormal, gamma and exponential metrics in groups of 20 to 500 rows.
SKEWED = 30.0
# Where T is bent by the skewness of all rows (`Bent`), this many rows on each side must carry its spread, and a
# difference must have `SHOWN` of the squared skewnesses that its own rows show. Skewness that n rows show beyond that
# of all rows is multiplied by 1 + HIDDEN / n: they seldom show how far a tail reaches. By simulation of gamma (shapes
# 0.1 and 0.25), exponential, Pareto and lognormal metrics and of such amounts among zeros, in 1 to 100 groups, against
# rows of the same and of another shape: with 20 rows that carry the spread, the intervals of 200 amounts among 95 %
# zeros miss in 0.11 of the tables with an interval. Of several tests, each needs more of these rows, or `REACH` squared
# skewnesses of rows, as its level lies further out: 60 groups of 100 Beta(0.1, 2) rows otherwise reject 0.12.
CARRYING, REACH, SHOWN, HIDDEN = 30.0, 3.5, 2.5, 300.0
# The skewness that few rows show may be this many standard errors of that of normal rows, and counts this many times:
# for 10 lognormal rows among normal ones, Welch's t then rejects about 0.07 of true nulls (0.20 if it is not bent).
CALM, HIDDEN_FEW = 2.5, 1.5
# The same for a joint test of many groups, in which errors of both signs offset each other.
SKEWED_JOINTLY = 2.0
# A level shared by many tests lies further out in the tail, where skewness matters more: rows grow with this power of
# the quantile. It holds 0.05 where it was chosen: 5, 40 and 200 simulated exponential, squared normal and gamma groups.
FURTHER = 2.5


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The null hypothesis about each effect ε.

    ``two-sided``  ε = low;  ``greater``  ε <= low, so that a rejection shows a larger effect;  ``less``  ε >= low;
    ``outside``  low <= ε <= high, with p = ½ [P(χ²₁ > T(nearer end)) + P(χ²₁ > T(other end))] outside and 1 inside:
    the two-sided p when the ends meet, the one-sided p when they are far apart, and never too small in between.
    ``outside-published`` is the paper's p = ½ P(χ²₁ > T(nearer end)), whose size reaches twice alpha as the ends
    meet.
    """

    low: float
    high: float
    alternative: Against

    @property
    def side(self) -> Alternative:
        return self.alternative if self.alternative in ("greater", "less") else "two-sided"

    def direction(self, value: FloatArray) -> FloatArray:
        """-1 for an effect below the null, 1 above it, 0 inside."""
        return np.where(value < self.low, -1.0, np.where(value > self.high, 1.0, 0.0))


class Effect(ABC):
    """Estimates, their errors and their test statistics; one array entry per contrast."""

    __slots__ = ()

    @property
    @abstractmethod
    def value(self) -> FloatArray:
        """The estimates."""

    @property
    @abstractmethod
    def standard_error(self) -> FloatArray:
        """Their large-sample standard errors."""

    @property
    def df(self) -> FloatArray | float:
        """The degrees of freedom of the root of T; infinite for the normal law."""
        return np.inf

    @abstractmethod
    def statistic(self, null: npt.ArrayLike, /) -> FloatArray:
        """T for the hypothesis that each effect is ``null``."""

    @abstractmethod
    def interval(self, critical: npt.ArrayLike, /) -> Limits:
        """The effects with T at most ``critical``."""

    def root(self, null: npt.ArrayLike) -> FloatArray:
        """The square root of T with the sign of the estimate less ``null``: a Student's t."""
        with np.errstate(invalid="ignore"):
            return np.sign(self.value - np.asarray(null, dtype=float)) * np.sqrt(np.maximum(self.statistic(null), 0.0))

    def test(self, null: Hypothesis) -> Limits:
        """T and the p-value of each effect; T is 0 where the estimate lies inside a one-sided or interval null."""
        with np.errstate(invalid="ignore"):
            if null.alternative == "two-sided":
                statistic = self.statistic(null.low)
                return statistic, 2.0 * self._tail(statistic)
            if null.alternative in ("greater", "less"):
                beyond = self.value > null.low if null.alternative == "greater" else self.value < null.low
                statistic = np.where(beyond, self.statistic(null.low), 0.0)
                return statistic, np.where(beyond, self._tail(statistic), 1.0)
            inside = (self.value >= null.low) & (self.value <= null.high)
            ends = self.statistic(null.low), self.statistic(null.high)
            above = self.value > null.high
            near, far = np.where(above, ends[1], ends[0]), np.where(above, ends[0], ends[1])
            tail = self._tail(near)
            if null.alternative == "outside":
                tail = tail + self._tail(far)
            return np.where(inside, 0.0, near), np.where(inside, 1.0, tail)

    def pvalue(self, null: npt.ArrayLike = 0.0) -> FloatArray:
        return np.minimum(2.0 * self._tail(self.statistic(null)), 1.0)

    def within_pvalue(self, tolerance: npt.ArrayLike, side: Alternative = "two-sided") -> FloatArray:
        """The p-value of an effect outside the tolerance: the larger of two one-sided tests (TOST), or one of them."""
        reach = np.asarray(tolerance, dtype=float)
        above = t_sf(-self.root(reach), self.df) if side != "less" else 0.0
        below = t_sf(self.root(-reach), self.df) if side != "greater" else 0.0
        return np.maximum(above, below)

    def limits(
        self, alpha: float, kind: Interval = "pointwise", side: Alternative = "two-sided", tests: int = 1
    ) -> Limits:
        """Simultaneous limits use Šidák's level, 1 - (1 - alpha)^(1/tests): exact for independent effects and, by
        Šidák's inequality, conservative for (asymptotically) normal ones whatever their dependence. A one-sided limit
        faces the alternative.
        """
        if kind == "one-sided":
            low, high = self.interval(t_isf(min(alpha, 0.5), self.df) ** 2)
            unlimited = np.full(low.shape, np.inf)
            return (low, unlimited) if side == "greater" else (-unlimited, high)
        level = -np.expm1(np.log1p(-alpha) / max(tests, 1)) if kind == "simultaneous" else alpha
        return self.interval(t_isf(level / 2.0, self.df) ** 2)

    def lopsided(self, alpha: float, tests: int) -> BoolArray:
        """Which effects are too skewed for any verdict at ``alpha`` over all ``tests``."""
        return np.zeros(self.value.shape, dtype=bool)

    def band(self, critical: npt.ArrayLike) -> Limits:
        """Limits at a critical value for normal statistics (sup-t, Bonferroni): at the t with the same tail."""
        return self.interval(np.square(t_as_rare(critical, self.df)))

    def detectable(
        self,
        alpha: float,
        power: float,
        tolerance: npt.ArrayLike = 0.0,
        side: Alternative = "two-sided",
        width: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """The smallest effect shown beyond the tolerance with this power. ``width``: twice the tolerance by default."""
        with np.errstate(all="ignore"):
            reach, error = np.asarray(tolerance, dtype=float), self.standard_error
            room = np.where(np.isnan(error), np.nan, np.asarray(2.0 * reach if width is None else width) / error)
            critical = interval_isf(room, alpha, self.df) if side == "two-sided" else t_isf(alpha, self.df)
            return np.asarray(reach + (critical + t_isf(1.0 - power, self.df)) * error)

    def rows_needed(
        self, distance: npt.ArrayLike, rows: npt.ArrayLike, alpha: float, failure: npt.ArrayLike
    ) -> FloatArray:
        """The rows with which an effect ``distance`` away is shown at the one-sided level ``alpha``.

        ``failure`` is the probability that it is not. The error, with its degrees of freedom, is that of ``rows`` rows.
        """
        with np.errstate(all="ignore"):
            return rows_for(distance, self.standard_error, np.asarray(rows, dtype=float), (alpha, failure), self.df)

    def _tail(self, statistic: FloatArray) -> FloatArray:
        """The probability beyond the root of T, on one side."""
        return np.asarray(t_sf(np.sqrt(np.maximum(statistic, 0.0)), self.df))


@dataclass(frozen=True, slots=True, eq=False)
class Wrapper(Effect):
    """The same estimates with another law, or on another scale."""

    inner: Effect

    @property
    def value(self) -> FloatArray:
        return self.inner.value

    @property
    def standard_error(self) -> FloatArray:
        return self.inner.standard_error

    @property
    def df(self) -> FloatArray | float:
        return self.inner.df

    def lopsided(self, alpha: float, tests: int) -> BoolArray:
        return self.inner.lopsided(alpha, tests)


def too_skewed(
    third: FloatArray, variance: FloatArray, alpha: float = 0.05, tests: int = 1, rows: float = SKEWED
) -> BoolArray:
    """Which estimates are too skewed for any verdict at ``alpha`` over all ``tests``: the gate of every mean.

    ``third`` and ``variance`` are the third central moment and the variance of the estimate itself, such as the sums of
    cubed and squared influence values over rows or clusters. For a mean of n rows the gate closes below ``rows``
    squared skewnesses.
    """
    further = float(normal_isf(alpha / max(tests, 1)) / normal_isf(alpha)) ** FURTHER
    return np.asarray(rows * further * third**2 > variance**3)


class Combined(NamedTuple):
    """Both sides of each difference: its third moment and variance, and Welch's degrees of freedom.

    In ``third`` and ``variance`` rows count as at least as skewed and as variable as those of all groups and references
    together, since few rows seldom show how far a tail reaches.
    """

    third: FloatArray
    variance: FloatArray
    df: FloatArray


def combined(sides: Sequence[Contribution]) -> Combined:
    """Add up the absolute third moments and the variances of two sides: equal groups err by as much as their means."""
    sides = [side for side in sides if np.nansum(side.variance) > 0]
    if not sides:
        return Combined(np.zeros(1), np.zeros(1), np.full(1, np.inf))
    with np.errstate(all="ignore"):
        skewness = max(
            abs(np.nansum(side.third * side.rows**3)) / np.nansum(side.variance**1.5 * side.rows**2.5) for side in sides
        )
        square = _pooled_square(sides)
        third, variance, squared, errors = np.zeros((4, sides[0].variance.size))
        for side in sides:
            wide = np.maximum(side.variance, square / side.rows)
            at_least = np.maximum(skewness * side.variance**1.5 / np.sqrt(side.rows), np.abs(side.third))
            third += np.nan_to_num(at_least * np.maximum(wide / side.variance, 1.0) ** 1.5, posinf=0.0)
            variance += np.nan_to_num(wide, posinf=0.0)
            unbiased = side.variance * (side.df + 1.0) / side.df
            squared += np.nan_to_num(unbiased)
            errors += np.nan_to_num(unbiased**2 / side.df)
        df = squared**2 / errors
    return Combined(third, variance, np.where(np.isnan(df), np.inf, df))


def _pooled_square(sides: Sequence[Contribution]) -> float:
    """The mean square of all rows about their means."""
    squares = sum(np.nansum(side.variance * side.rows**2) for side in sides)
    return float(squares / sum(np.nansum(side.rows * (side.variance > 0)) for side in sides))


class Bend(NamedTuple):
    """How far T of skewed estimates is bent (see `Bent`), and for which of them that restores the level.

    In ``excess`` and ``level`` the first row is for estimates above the null, the second for those below it. T of
    ``few`` rows is bent even if they do not look skewed.
    """

    excess: FloatArray
    level: FloatArray
    trusted: BoolArray
    few: BoolArray


def bend(
    mine: Contribution,
    theirs: Contribution,
    alpha: float,
    tests: int,
    pairs: tuple[IntArray, IntArray] | None = None,
    *,
    carrying: float,
    corrected: bool,
    welch: float = 0.0,
) -> Bend:
    """How far T is bent: the skewness of each difference is between that of its rows and that of all rows together.

    A low mean of skewed rows comes with a low variance, which would make the second skewness too small. The second is
    therefore computed with the geometric mean of the side's own variance and that of all rows, if the latter is larger.

    ``corrected``: T is a likelihood ratio, which takes the skewness of the rows into account, unless a side has fewer
    than ``welch`` rows. The law is trusted for a difference with at least `CARRYING` rows on each side that carry the
    spread, of which all rows have the share ``carrying``, if the difference does not rest on two rows (`SHOWN`). With
    several ``tests``, either these rows or the rows in squared skewnesses (`REACH`) must be more. The law is also
    trusted for a side of fewer than ``welch`` rows that look no more skewed than normal ones, if the same holds
    for all groups together and for their references. T is then bent by `HIDDEN_FEW` times their skewness.
    With ``pairs``, differences are those of ``mine`` between the groups of each pair, and the bend of a group is the
    largest of its pairs.
    """
    with np.errstate(all="ignore"):
        parts = [(mine, 1.0, float(mine.rows.size))]
        if pairs is None:
            # A reference that all groups share counts once: exchanging a group and its reference changes nothing.
            parts.append((theirs, -1.0, 1.0))
        parts = [part for part in parts if np.nansum(part[0].variance) > 0]
        if not parts:
            none = np.zeros((2, mine.rows.size))
            return Bend(none, none, none[0] > 0, none[0] > 0)
        sums = [
            times * np.nanmean([sign * third * n**3, variance**1.5 * n**2.5, n, variance * n**2], 1)
            for (third, variance, n, _), sign, times in parts
        ]
        cubes, scale, rows, squares = np.sum(sums, axis=0)
        pooled, square = cubes / scale, squares / rows
        fewest = np.min([side.rows for side, *_ in parts], axis=0)
        harmless = np.all([_harmless(a / b, total, fewest, alpha, tests) for a, b, total, _ in sums], axis=0)
        columns = []
        for side, sign, _ in parts:
            wide = np.sqrt(side.variance * np.maximum(side.variance, square / side.rows))
            expected = sign * pooled * wide**1.5 / np.sqrt(side.rows)
            unbiased = np.sqrt(side.rows * (side.rows - 1.0)) / (side.rows - 2.0)
            more = np.where(np.abs(side.third) > np.abs(expected), side.third - expected, 0.0)
            apparent = side.third + more * HIDDEN / side.rows
            apparent = np.where(side.rows < welch, HIDDEN_FEW * unbiased * side.third, apparent)
            noise = normal_skewness(side.rows) ** 2 * side.variance**3 / side.rows
            columns.append(np.nan_to_num([side.third, apparent, expected, side.variance, wide, noise]))
        if pairs is None:
            total = np.sum(columns, axis=0)
        else:
            first, second = pairs
            fewest, harmless = np.minimum(fewest[first], fewest[second]), harmless[first] & harmless[second]
            third, apparent, expected, *rest = columns[0]
            total = columns[0][:, first] + np.array([-third, -apparent, -expected, *rest])[:, second]
        third, apparent, expected, variance, wide, noise = total
        third, apparent, expected = third / variance**1.5, apparent / variance**1.5, expected / wide**1.5
        few = harmless & (fewest < welch) & (third**2 <= CALM**2 * noise / variance**3)
        # The skewness of so few rows could show: that of n rows is at most (n - 2) / √(n - 1).
        few &= (fewest - 2.0) / np.sqrt(fewest - 1.0) > CALM * normal_skewness(fewest)
        trusted = (carrying * fewest >= CARRYING) & (SHOWN * third**2 <= 1.0)
        times = np.maximum(carrying * fewest / CARRYING, fewest / (REACH * pooled**2))
        trusted &= ~too_skewed(1.0 / np.sqrt(times), np.ones_like(times), alpha, tests, rows=1.0)
        base = np.where(corrected & (fewest >= welch), third, 0.0)
        level = np.stack([-np.minimum(apparent, expected), np.maximum(apparent, expected)])
        excess, level = np.maximum(level + np.stack([base, -base]), 0.0), np.maximum(level, 0.0)
    if pairs is not None:
        starts = np.flatnonzero(np.diff(first, prepend=-1))
        excess, level = (np.maximum.reduceat(part, starts, axis=1) for part in (excess, level))
        trusted, few = (np.logical_and.reduceat(part, starts) for part in (trusted | few, few))
    return Bend(excess, level, trusted | few, few)


def _harmless(skewness: float, total: float, rows: FloatArray, alpha: float, tests: int) -> BoolArray:
    """Whether the skewness of ``total`` rows may be 0 in truth, or is too small to matter for a group of ``rows``."""
    noise = abs(skewness) <= CALM * normal_skewness(np.array(total))
    return noise | ~too_skewed(skewness / np.sqrt(rows), np.ones_like(rows), alpha, tests)


def normal_skewness(rows: FloatArray) -> FloatArray:
    """The standard error of the sample skewness of so many normal rows."""
    return np.asarray(np.sqrt(6.0 * (rows - 2.0) / ((rows + 1.0) * (rows + 3.0))))


@dataclass(frozen=True, slots=True, eq=False)
class Bent(Wrapper):
    """Skewed estimates: the root of T becomes normal by Hall's (1992) cubic transformation.

    With a skewness of A, the root r of T becomes r + A (r²/3 + 1/6) + A² r³/27, which increases with r, so that a
    test can be inverted. A is only known to lie in a range, and the end of it that makes T smaller is used: where the
    estimate lies above the null the lower end, and otherwise the upper end. ``level`` is the distance of
    that end from 0, ``excess`` that from the skewness which the root already takes into account; T is at least 0.
    """

    excess: FloatArray
    level: FloatArray

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        statistic, target = self.inner.statistic(null), np.asarray(null, dtype=float)
        with np.errstate(invalid="ignore"):
            above = self.value > target
            excess, level = (np.where(above, ends[0], ends[1]) for ends in (self.excess, self.level))
            root = np.sqrt(np.maximum(statistic, 0.0))
            part = excess * root / 3.0
            bent = np.maximum(root * (1.0 - part + part**2 / 3.0) - level / 6.0, 0.0) ** 2
        return np.where((excess + level > 0) & np.isfinite(statistic), bent, statistic)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.sqrt(np.broadcast_to(np.asarray(critical, dtype=float), self.value.shape))
        above, below = np.square(unbend(level, self.excess, self.level))
        return self.inner.interval(above)[0], self.inner.interval(below)[1]


def unbend(root: FloatArray | float, excess: FloatArray | float, level: FloatArray | float) -> FloatArray:
    """The root of T that `Bent` turns into ``root``."""
    reached = root + level / 6.0
    rest = np.cbrt(1.0 - excess * reached)
    return np.asarray(3.0 * reached / (1.0 + rest + rest**2))


@dataclass(frozen=True, slots=True, eq=False)
class Wald(Effect):
    """Estimates with standard errors: T is the squared distance in standard errors.

    >>> wald = Wald(np.array([0.3]), np.array([0.1]), df=10.0)
    >>> wald.pvalue().round(4), np.concatenate(wald.limits(0.05)).round(4)
    (array([0.0133]), array([0.0772, 0.5228]))
    """

    value: FloatArray = field()
    standard_error: FloatArray = field()
    df: FloatArray | float = np.inf

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.square((self.value - np.asarray(null, dtype=float)) / self.standard_error)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        margin = np.sqrt(np.asarray(critical, dtype=float)) * self.standard_error
        return self.value - margin, self.value + margin


@dataclass(frozen=True, slots=True, eq=False)
class Fieller(Effect):
    """Ratios top / bottom: r is tested as top - r bottom = 0, a linear contrast (Fieller 1954).

    ``tt``, ``tb`` and ``bb`` are the variance of the top, its covariance with the bottom, and the bottom's variance.
    The interval is unbounded where the bottom may be zero. With a bottom of 1 without error this is a `Wald` effect.
    """

    top: FloatArray
    bottom: FloatArray
    tt: FloatArray
    tb: FloatArray
    bb: FloatArray
    df: FloatArray | float = np.inf

    @property
    def value(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.top / self.bottom

    @property
    def standard_error(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(self.contrast_variance(self.value) / self.bottom**2)

    def contrast_variance(self, null: npt.ArrayLike) -> FloatArray:
        ratio = np.asarray(null, dtype=float)
        return np.maximum(self.tt - 2.0 * ratio * self.tb + ratio**2 * self.bb, 0.0)

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = self.top - np.asarray(null, dtype=float) * self.bottom
            return distance**2 / self.contrast_variance(null)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        square = np.asarray(critical, dtype=float)
        with np.errstate(all="ignore"):
            a = self.bottom**2 - square * self.bb
            b = self.top * self.bottom - square * self.tb
            half = np.sqrt(np.maximum(b**2 - a * (self.top**2 - square * self.tt), 0.0))
            low, high = (b - half) / a, (b + half) / a
        unknown = np.isnan(self.top + self.tt + square)
        bounded = a > 0
        return (
            np.where(unknown, np.nan, np.where(bounded, low, -np.inf)),
            np.where(unknown, np.nan, np.where(bounded, high, np.inf)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Logarithmic(Wrapper):
    """The logarithms of positive ratios."""

    @property
    def value(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.inner.value)

    @property
    def standard_error(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.inner.standard_error / self.inner.value

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        return self.inner.statistic(np.exp(null))

    def interval(self, critical: npt.ArrayLike) -> Limits:
        low, high = self.inner.interval(critical)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.maximum(low, 0.0)), np.log(np.maximum(high, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Rescaled(Wrapper):
    """An effect multiplied by ``scale``, a change of units; -1 exchanges group and reference."""

    scale: float

    @property
    def value(self) -> FloatArray:
        return self.scale * self.inner.value

    @property
    def standard_error(self) -> FloatArray:
        return abs(self.scale) * self.inner.standard_error

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        return self.inner.statistic(np.asarray(null, dtype=float) / self.scale)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        low, high = (self.scale * end for end in self.inner.interval(critical))
        return (low, high) if self.scale > 0 else (high, low)


@dataclass(frozen=True, slots=True, eq=False)
class Designed(Wrapper):
    """An effect of weighted or clustered rows: its T becomes the chi-square with the same tail under the ``law``."""

    law: Law

    @property
    def standard_error(self) -> FloatArray:
        return self.inner.standard_error * np.sqrt(self.law.effect)

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        return self.law.chi_square(self.inner.statistic(null))

    def interval(self, critical: npt.ArrayLike) -> Limits:
        return self.inner.interval(self.law.critical(critical))


Part = tuple[IntArray, Effect]


@dataclass(frozen=True, slots=True, eq=False)
class Parts(Effect):
    """The effects of several solvers, each with its positions among all; NaN where no part has an entry."""

    value: FloatArray = field()
    parts: tuple[Part, ...]
    df: FloatArray | float = np.inf

    def under(self, law: Law) -> Parts:
        """The same effects with weights or clusters; ``law`` has one entry per effect."""
        parts = tuple((where, Designed(part, law.select(where))) for where, part in self.parts)
        return Parts(self.value, parts)

    @property
    def tested(self) -> BoolArray:
        tested = np.zeros(self.value.shape, dtype=bool)
        for where, _ in self.parts:
            tested[where] = True
        return tested

    @property
    def standard_error(self) -> FloatArray:
        error = np.full(self.value.shape, np.nan)
        for where, part in self.parts:
            error[where] = part.standard_error
        return error

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        target = np.broadcast_to(np.asarray(null, dtype=float), self.value.shape)
        statistic = np.full(self.value.shape, np.nan)
        for where, part in self.parts:
            statistic[where] = part.statistic(target[where])
        return statistic

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.value.shape)
        low, high = np.full((2, *self.value.shape), np.nan)
        for where, part in self.parts:
            low[where], high[where] = part.interval(level[where])
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class AgainstBest(Effect):
    """The disparities of groups from the highest of all (``sign`` 1), or the lowest (-1); 0 means no difference.

    ``pairs`` are the disparities of each group from each other one, and ``group`` the group of each pair: 0, 1, ..., at
    least one pair each. On the scale of a link they are its δ.
    """

    pairs: Effect
    group: IntArray
    sign: float = 1.0

    @property
    def others(self) -> FloatArray:
        return np.bincount(self.group).astype(float)

    @property
    def nearest(self) -> IntArray:
        """The pair that decides each group's disparity."""
        return self._least(self.sign * self.pairs.value)

    @property
    def value(self) -> FloatArray:
        return self.sign * np.minimum(self.sign * self.pairs.value[self.nearest], 0.0)

    @property
    def standard_error(self) -> FloatArray:
        return self.pairs.standard_error[self.nearest]

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        target = np.broadcast_to(np.asarray(null, dtype=float), self.others.shape)
        tested, estimate = self.sign * target, self.sign * self.value
        pairs = np.nan_to_num(self.pairs.statistic(target[self.group]), nan=0.0, posinf=np.inf)
        away = self.sign * self.pairs.value - tested[self.group]
        below, above = self._least(np.where(away < 0, -pairs, 0.0)), self._least(np.where(away > 0, pairs, 0.0))
        tail = chi2_sf(pairs[below], 1)
        shared = np.where(tail > 0, chi2_isf(np.minimum(1.0, self.others * tail), 1), pairs[below])
        statistic = np.where(tested > estimate, np.where(away[below] < 0, shared, 0.0), pairs[above])
        return np.where(tested > 0, np.inf, np.where(tested == estimate, 0.0, statistic))

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.others.shape)
        shared = chi2_isf(chi2_sf(level, 1) / self.others, 1)
        alone, jointly = (self.pairs.interval(square[self.group]) for square in (level, shared))
        near, far = (alone[0], jointly[1]) if self.sign > 0 else (-alone[1], -jointly[0])
        # Two groups without a single case carry no information about one another.
        low, high = np.where(np.isnan(near), -np.inf, near), np.where(np.isnan(far), np.inf, far)
        low, high = (np.minimum(end[self._least(end)], 0.0) for end in (low, high))
        return (low, high) if self.sign > 0 else (-high, -low)

    def _least(self, values: FloatArray) -> IntArray:
        order = np.lexsort((values, self.group))
        return order[np.flatnonzero(np.diff(self.group[order], prepend=-1))]


def every_pair(size: int) -> tuple[IntArray, IntArray]:
    """Each of ``size`` groups with each other one, the pairs of a group in a row."""
    first, second = (part.ravel() for part in np.indices((size, size)))
    return first[first != second], second[first != second]


def widest(pairs: Effect, alpha: float, tests: int) -> tuple[int, float, float]:
    """The pair with the largest gap, and limits for the largest gap, whose pair is itself unknown.

    The lower limit is the largest that any pair shows, at a level shared by all ``tests`` pairs; the upper limit is
    the largest that any pair's own interval allows.
    """
    least, most = gap_limits(pairs, alpha, tests)
    return int(np.nanargmax(np.abs(pairs.value))), max(float(np.nanmax(least)), 0.0), float(np.nanmax(most))


def gap_limits(pairs: Effect, alpha: float, tests: int) -> Limits:
    """Each pair's lower limit for its gap at a level shared by ``tests`` pairs, and its own upper limit."""
    low, high = pairs.limits(alpha)
    most = np.maximum(-low, high)
    low, high = pairs.limits(alpha / tests)
    return np.maximum(low, -high), most


# Draws of all effects together where p-values are adjusted by them, and where only a rejection rate is estimated (0.05
# then has an error of 0.0034); the largest number of values drawn.
DRAWS, RATE_DRAWS, NUMBERS = 10_000, 4_000, 20_000_000


def null_pvalues(
    root: FloatArray,
    hypothesis: Hypothesis,
    width: FloatArray,
    sign: FloatArray,
    rng: np.random.Generator,
    *,
    most: float = 1.0,
    draws: int = DRAWS,
) -> FloatArray:
    """P-values (draws x effects) under the null; those above ``most`` may be 1.

    The effects have the correlation of root' root. An interval null is ``width`` standard errors wide, with each
    effect at the end that ``sign`` points to.
    """
    length = np.linalg.norm(root, axis=0)
    number = max(min(draws, NUMBERS // max(width.size, 1)), 1_000)
    normal = rng.standard_normal((number, len(root))) @ (root / np.where(length > 0, length, 1.0))
    if hypothesis.alternative == "two-sided":
        away, pvalues = np.abs(normal, out=normal).ravel(), np.ones(normal.size)
        far = np.flatnonzero(away >= (1.0 - 1e-9) * normal_isf(most))
        pvalues[far] = normal_sf(away[far])
        return pvalues.reshape(normal.shape)
    if hypothesis.alternative in ("greater", "less"):
        beyond = normal if hypothesis.alternative == "greater" else -normal
        return np.where(beyond > 0, normal_sf(beyond, sides="one"), 1.0)
    outward = normal * sign
    near, far = np.asarray(normal_sf(np.abs(outward))), np.asarray(normal_sf(np.abs(outward + width)))
    inside = (outward <= 0) & (outward >= -width)
    tail = 0.5 * (near + far)
    if hypothesis.alternative == "outside-published":
        tail = np.where(outward > 0, 0.5 * near, 0.5 * far)
    return np.asarray(np.where(inside, 1.0, tail))
