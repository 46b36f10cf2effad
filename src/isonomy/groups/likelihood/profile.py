"""The likelihood of a disparity: a group's mean set beside its reference, the reference estimated too.

Every reference leads to a curve with one parameter, the group's own coordinate (`means`), along which both the
disparity and T are explicit. With ν = n_G λ_G the multiplier of the group's mean:

fixed      the reference is a number θ:              ε = m_G - θ,  T = T_G.
disjoint   a group with no common row, or the rest:  T(ε) = min over θ of T_G(θ + ε) + T_R(θ). At the minimum
           n_R λ_R = -ν, so ε = m_G - m_R and T = T_G + T_R.
nested     the group lies inside its reference (the population): with C the reference's other rows and P the group's
           share, ε = (1 - P)(m_G - m_C) and T(ε) = min over P, θ of T_binomial(P) + T_G(θ + ε/(1 - P)) + T_C(θ). At
           the minimum n_C λ_C = -ν and, with d = m_G - m_C, P = n_G / (n - ν d): the share has a closed form, and
           so has its T.

For means on the scale of a link (`links.Linked`) a disparity is δ = φ(m_G) - φ(θ), and ν = n_G λ_G/φ'(m_G). Disjoint
groups need nothing more. Nested ones on the scale of ratios have the same P = n_G / (n - ν' d) with ν' = -n_C λ_C; odds
in the population are asked about in another way (`odds_in_whole`).

T increases along the curve away from the estimate, so a test is one root (ε = ε₀) and each end of an interval another
(T = critical value). Rates of few cases have the score statistic (`score`) in the place of T, on the same curve.

Rates of few cases: the score statistic along the likelihood's curve, its skewness counted.

Where a group or its reference has few cases (or few rows that are none) the likelihood ratio rejects too often: rates
of 0.02 in 100 against 1,000 rows, 0.09 of true nulls at 0.05. Rao's score statistic of 0/1 rows is Pearson's: with
``e`` expected in a cell under the likeliest rates that meet the hypothesis and ``o = e (1 + r)`` observed,

    X² = Σ e r²,        skewness of its root  γ = Σ e r³ / (Σ e r²)^(3/2)

The root z is taken to the normal one with the same tail (Cornish and Fisher; Laud 2017, Pharmaceutical Statistics 16:
334-348): z' + γ (z'² - 1)/6 = z. Below z = 1, where nothing is decided, z' is z. Since r >= -1, γ z >= -1 and the
equation always has a solution. On the curve r is λ (1 - m) for a group's ones and -λ m for its zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from isonomy.groups.likelihood.links import IDENTITY, LOG, Link, Linked
from isonomy.groups.likelihood.means import Binary, Means, Point
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import Values, roots

# The relative step by which the score statistic is differentiated.
STEP = 1e-6
# How closely, relative to it, the root of the score statistic must meet the level at an interval's end.
MET = 1e-6


class Kind(StrEnum):
    """How a group and its reference share rows."""

    FIXED = "fixed"
    DISJOINT = "disjoint"
    NESTED = "nested"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Disparity and T at some coordinates, with derivatives along them (``dforce``: that of ν)."""

    disparity: FloatArray
    statistic: FloatArray
    ddisparity: FloatArray
    dstatistic: FloatArray
    dforce: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Many groups, each with its reference.

    Problem j compares group ``own_index[j]`` of ``own`` with the number ``theta[j]`` (fixed), or with group
    ``other_index[j]`` of ``other``: the reference itself (disjoint) or the reference's rows outside the group (nested).
    `Linked` means make the disparities those of their link, which both must share; a known reference is compared with
    as it is (`disparity.Against`). Problems that are ``scored``, of 0/1 rows all, have the score statistic for T.

    Examples
    --------
    Half of 100 against a quarter of 200:

    >>> from isonomy.groups.likelihood.means import Binary
    >>> counts = Binary(n=[100, 200], ones=[50, 50])
    >>> pair = Profile(Kind.DISJOINT, counts, np.array([0]), other=counts, other_index=np.array([1]))
    >>> pair.disparity, pair.statistic(0.0).round(3)
    (array([0.25]), array([18.345]))
    >>> np.concatenate(pair.interval(3.841)).round(3)
    array([0.135, 0.363])
    """

    kind: Kind
    own: Means
    own_index: IntArray
    theta: FloatArray = field(default_factory=lambda: np.empty(0))
    other: Means = field(default_factory=lambda: Binary([], []))
    other_index: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    scored: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))

    @classmethod
    def pooled(cls, parts: Sequence[Profile]) -> Profile:
        """The problems of several profiles of one kind, all of them of 0/1 rows, as one profile."""
        every = np.arange(sum(part.own_index.size for part in parts))
        own = _counts([(part.own, part.own_index) for part in parts])
        scored = np.concatenate([part._by_score(np.arange(part.own_index.size)) for part in parts])
        if parts[0].kind is Kind.FIXED:
            theta = np.concatenate([part.reference for part in parts])
            return cls(parts[0].kind, own, every, theta=theta, scored=scored)
        other = _counts([(part.other, part.other_index) for part in parts])
        return cls(parts[0].kind, own, every, other=other, other_index=every, scored=scored)

    def few_scored(self) -> Profile:
        """The same problems, by the score statistic where either side has few cases, or few rows that are none."""
        own, other = natural(self.own), natural(self.other)
        if not isinstance(own, Binary):
            return self
        scored = few_cases(own, self.own_index)
        if self.kind is not Kind.FIXED and isinstance(other, Binary):
            scored = scored | few_cases(other, self.other_index)
        return replace(self, scored=scored)

    def _by_score(self, index: IntArray) -> BoolArray:
        """Which of the problems ``index`` have the score statistic."""
        return np.broadcast_to(self.scored, self.own_index.shape)[index]

    @property
    def link(self) -> Link:
        """The scale of the disparities."""
        return self.own.link if isinstance(self.own, Linked) else IDENTITY

    @property
    def share(self) -> FloatArray:
        """The group's share of its reference's rows; 0 unless nested."""
        if self.kind is not Kind.NESTED:
            return np.zeros(self.own_index.size)
        n = self.own.n[self.own_index]
        return n / (n + self.other.n[self.other_index])

    @property
    def reference(self) -> FloatArray:
        """The estimated, or given, reference."""
        if self.kind is Kind.FIXED:
            return self.theta
        share, own, other = self.share, natural(self.own), natural(self.other)
        return share * own.mean[self.own_index] + (1.0 - share) * other.mean[self.other_index]

    @property
    def disparity(self) -> FloatArray:
        """The estimated disparity."""
        mean = self.own.mean[self.own_index]
        if self.kind is Kind.FIXED:
            return mean - self.theta
        with np.errstate(divide="ignore", invalid="ignore"):  # no case on either side
            if self.kind is Kind.DISJOINT:
                return mean - self.other.mean[self.other_index]
            own, other = natural(self.own).mean[self.own_index], natural(self.other).mean[self.other_index]
            return self._from_whole(own, other, self.share)

    @property
    def range(self) -> tuple[FloatArray, FloatArray]:
        """The disparities that some weighting of the rows can give lie strictly between these."""
        low, high = self.own.low[self.own_index], self.own.high[self.own_index]
        if self.kind is Kind.FIXED:
            return low - self.theta, high - self.theta
        return low - self.other.high[self.other_index], high - self.other.low[self.other_index]

    def plugged(self) -> Profile:
        """The same groups against their estimated references taken as known."""
        return Profile(Kind.FIXED, natural(self.own), self.own_index, theta=self.reference)

    @property
    def standard_error(self) -> FloatArray:
        """The large-sample standard error of the disparity."""
        own = self.own.variance[self.own_index] / self.own.n[self.own_index]
        if self.kind is Kind.FIXED:
            return np.sqrt(own)
        with np.errstate(divide="ignore", invalid="ignore"):  # no case on either side
            if self.kind is Kind.DISJOINT:
                return np.sqrt(own + self.other.variance[self.other_index] / self.other.n[self.other_index])
            mine, theirs, share, unit = (
                natural(self.own),
                natural(self.other),
                self.share,
                self.link.unit(self.reference),
            )
            i, j = self.own_index, self.other_index
            span, rows = mine.mean[i] - theirs.mean[j], mine.n[i] + theirs.n[j]
            # The group's mean moves the whole's too, by the group's share of it.
            by_own = 1.0 / self.link.unit(mine.mean[i]) - share / unit
            squared = by_own**2 * mine.variance[i] / mine.n[i]
            squared += ((1.0 - share) / unit) ** 2 * theirs.variance[j] / theirs.n[j]
            return np.sqrt(squared + (span / unit) ** 2 * share * (1.0 - share) / rows)

    def _from_whole(self, mean: FloatArray, other: FloatArray, share: FloatArray) -> FloatArray:
        """The disparity from the whole of which the group is a ``share``."""
        if self.link is IDENTITY:
            return (1.0 - share) * (mean - other)
        return self.link.forward(mean) - self.link.forward(other + share * (mean - other))

    def at(self, coordinate: FloatArray, index: IntArray, *, led: bool = False) -> Curve:
        """The curve of the problems ``index`` at each coordinate.

        The coordinate is that of the group or, if ``led``, that of the other rows with its sign turned.
        """
        group = self.own_index[index]
        n = self.own.n[group]
        if self.kind is Kind.FIXED:
            point = self.own.at(coordinate, group)
            slope = -2.0 * n * point.multiplier * point.dmean
            statistic = np.where(self._by_score(index), score_statistic(*score_sums(point, n)), point.statistic)
            return Curve(point.mean - self.theta[index], statistic, point.dmean, slope, n * point.dmultiplier)
        partner = self.other_index[index]
        m = self.other.n[partner]
        with np.errstate(all="ignore"):
            if led:
                theirs, mirror = _point(self.other, -coordinate, partner)
                force, dforce, dtheirs = -m * mirror.multiplier, m * mirror.dmultiplier, -1.0 + 0.0 * coordinate
                facing = self.own.coordinate(force / n, group)
                mine, point = _point(self.own, facing, group)
                dmine = dforce / n / point.dmultiplier
            else:
                mine, point = _point(self.own, coordinate, group)
                force, dforce, dmine = n * point.multiplier, n * point.dmultiplier, 1.0 + 0.0 * coordinate
                facing = self.other.coordinate(-force / m, partner)
                theirs, mirror = _point(self.other, facing, partner)
                dtheirs = -dforce / m / mirror.dmultiplier
            gap, dgap = point.mean - mirror.mean, dmine * point.dmean - dtheirs * mirror.dmean
            # Where no weighting of the rows exists: further than any disparity, in the direction of travel.
            exists, far = np.isfinite(facing), -np.sign(coordinate) * np.inf
            by_score = self._by_score(index)
            scores = score_statistic(*np.add(score_sums(mine, n), score_sums(theirs, m))) if by_score.any() else 0.0
            statistic = np.where(exists, np.where(by_score, scores, point.statistic + mirror.statistic), np.inf)
            if self.kind is Kind.DISJOINT:
                return Curve(np.where(exists, gap, far), statistic, dgap, -2.0 * force * dgap, dforce)
            # ν span in terms of the other rows' own multiplier, which is there even if none of them is 1.
            span, dspan = mine.mean - theirs.mean, dmine * mine.dmean - dtheirs * theirs.dmean
            pull, rows = -m * theirs.multiplier * span, n + m
            dpull = -m * (dtheirs * theirs.dmultiplier * span + theirs.multiplier * dspan)
            share = n / (rows - pull)
            exists &= pull < m  # and beyond ν span = n_C there is none either
            whole = theirs.mean + share * span
            dwhole = dtheirs * theirs.dmean + share * dspan + span * share**2 * dpull / n
            unit = self.link.unit(whole)
            slope = dmine * point.dmean - dwhole / unit
            cost = 2.0 * (rows * np.log1p(-pull / rows) - m * np.log1p(-pull / m))
            statistic = np.where(exists, statistic + np.maximum(cost, 0.0), np.inf)
            if by_score.any():
                inside, beside = score_sums(mine, n, -pull / rows), score_sums(theirs, m, n * pull / rows / (m - pull))
                scores = score_statistic(*np.add(inside, beside))
                statistic = np.where(by_score & exists, scores, statistic)
            disparity = np.where(exists, self._from_whole(mine.mean, theirs.mean, share), far)
            return Curve(
                disparity, statistic, slope, 2.0 * m * theirs.multiplier * unit / (1.0 - share) * slope, dforce
            )

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``; inf outside the range of the data."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.own_index.shape)
        if self.kind is Kind.FIXED:
            point = self.own.locate(target + self.theta, self.own_index)
            by_score = np.broadcast_to(self.scored, target.shape) & np.isfinite(point.statistic)
            scores = score_statistic(*score_sums(point, self.own.n[self.own_index])) if by_score.any() else 0.0
            return np.where(by_score, scores, point.statistic)
        if self.kind is Kind.NESTED and not target.any():
            # Equal means: the share is free, and the group may as well be compared with the other rows alone.
            return replace(self, kind=Kind.DISJOINT).statistic(target)
        low, high = self.range
        result = np.where(target == self.disparity, 0.0, np.inf)
        upwards = target > self.disparity
        for inside, led in self._led((target > low) & (target < high), upwards):
            result[inside] = self._reached(target[inside], inside, led)
        return result

    def _led(self, chosen: BoolArray, upwards: BoolArray) -> list[tuple[IntArray, bool]]:
        """Chosen problems by which side's coordinate is followed.

        On the scale of ratios other rows that are all 1 leave that end of their range at one multiplier, upwards; if
        they are all 0, the share of a nested group moves before they do. Theirs is then the coordinate along which the
        curve has no jump.
        """
        led = np.zeros_like(chosen)
        if self.link is LOG and isinstance(other := natural(self.other), Binary):
            mean = other.mean[self.other_index]
            led = chosen & (((mean == 1) & upwards) | ((mean == 0) & (self.kind is Kind.NESTED)))
        sides = ((chosen & ~led, False), (led, True))
        return [(np.flatnonzero(part), by_other) for part, by_other in sides if part.any()]

    def _reached(self, target: FloatArray, inside: IntArray, led: bool) -> FloatArray:
        """T where the curve reaches each target; NaN if it was not found."""
        left, right = self._ends(inside, led)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            curve = self.at(x, inside[active], led=led)
            return curve.disparity - target[active], curve.ddisparity

        solution = roots(gap, left, right, x0=np.zeros(inside.size), direction="decreasing")
        with np.errstate(all="ignore"):
            return np.where(solution.ok, self.at(solution.x, inside, led=led).statistic, np.nan)

    def _ends(self, index: IntArray, led: bool) -> tuple[FloatArray, FloatArray]:
        """The interval a coordinate runs over."""
        if not led:
            return self.own.ends(self.own_index[index])
        left, right = self.other.ends(self.other_index[index])
        return -right, -left

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical`` (one for all, or one per problem): lower and upper ends."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.own_index.shape)
        low, high = (limit.copy() for limit in self.range)
        every = np.ones(self.own_index.shape, dtype=bool)
        for end, sign in ((low, 1.0), (high, -1.0)):
            for index, led in self._led(every, every & (sign < 0)):
                end[index] = self._end(level[index], sign, end[index], index, led)
        return low, high

    def _end(self, level: FloatArray, sign: float, limit: FloatArray, index: IntArray, led: bool) -> FloatArray:
        """Follow the curve in one direction until T reaches ``level``; ``limit`` if it never does."""
        left, right = self._ends(index, led)
        far = right if sign > 0 else -left
        target = np.sqrt(level)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            curve = self.at(sign * x, index[active], led=led)
            # sqrt T is nearly linear along the curve, so Newton's first steps are already good.
            height = np.sqrt(curve.statistic)
            slope = sign * curve.dstatistic / (2.0 * height)
            if (by_score := self._by_score(index[active])).any():
                beside = self.at(sign * x * (1.0 + STEP), index[active], led=led)
                slope = np.where(by_score, (np.sqrt(beside.statistic) - height) / (STEP * x), slope)
            return height - target[active], slope

        with np.errstate(all="ignore"):
            start = self.at(np.zeros(index.size), index, led=led)
            guess = np.sqrt(level / (start.dforce * np.abs(start.ddisparity) / (1.0 - self.share[index])))
        solution = roots(
            gap, np.zeros(index.size), far, x0=np.where(np.isfinite(guess), guess, np.nan), direction="increasing"
        )
        with np.errstate(all="ignore"):
            there = self.at(sign * solution.x, index, led=led)
            # The score statistic is bounded: it may leap over the level where the curve ends.
            leapt = self._by_score(index) & ~(np.abs(np.sqrt(there.statistic) - target) <= MET * target)
        return np.where(solution.ok & ~leapt, there.disparity, limit)


@dataclass(frozen=True, slots=True, eq=False)
class OfProfile:
    """Another likelihood of the same problems: estimates and standard errors are the profile's."""

    problem: Profile

    @property
    def disparity(self) -> FloatArray:
        """The estimated disparity."""
        return self.problem.disparity

    @property
    def standard_error(self) -> FloatArray:
        """The large-sample standard error of the disparity."""
        return self.problem.standard_error


class Inverted(OfProfile, ABC):
    """A likelihood whose interval is found end by end, from the estimate outward."""

    __slots__ = ()

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``; an end is infinite when T never reaches it."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.problem.own_index.shape)
        return self.end(level, -1.0), self.end(level, 1.0)

    @abstractmethod
    def end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T reaches ``level``; infinite where it never does."""

    def outward(self, gap: Values, start: FloatArray, far: FloatArray, sign: float) -> FloatArray:
        """Where ``gap`` is 0, in standard errors from the estimate and at most ``far``; infinite where it is not."""
        solution = roots(gap, np.zeros(far.size), far, x0=start, rtol=1e-11, direction="increasing")
        end = self.disparity + sign * solution.x * self.standard_error
        return np.where((far > 0) & solution.ok, end, sign * np.inf)


def _point(means: Means, coordinate: FloatArray, index: IntArray) -> tuple[Point, Point]:
    """A point of each curve, of the means themselves and on their scale."""
    if not isinstance(means, Linked):
        return (point := means.at(coordinate, index)), point
    point = means.natural.at(coordinate, index)
    return point, means.renamed(point)


def natural(means: Means) -> Means:
    """Means as they are, whatever scale they are compared on."""
    return means.natural if isinstance(means, Linked) else means


def counted(means: Means) -> bool:
    """Whether the rows are 0/1, known by counts."""
    return isinstance(natural(means), Binary)


def linked(means: Means, link: Link) -> Means:
    """Means on the scale of a link."""
    return means if link is IDENTITY else Linked(means, link)


def odds_in_whole(own: Binary, own_index: IntArray, other: Binary, other_index: IntArray) -> Profile:
    """The odds ratio of groups to wholes that contain them and ``other`` rows, as a ratio of two disjoint groups.

    The odds of G to those of all rows are P(G | 1)/P(G | 0): the share of G among the rows with 1 over its share among
    the rows with 0, two groups without a common row, while the whole's own rate is free.
    """
    n, ones = own.n[own_index], own.ones[own_index]
    more, cases = other.n[other_index], other.ones[other_index]
    every = np.arange(own_index.size)
    among = Binary(ones + cases, ones), Binary(n + more - ones - cases, n - ones)
    return Profile(Kind.DISJOINT, Linked(among[0], LOG), every, other=Linked(among[1], LOG), other_index=every)


def _counts(groups: Sequence[tuple[Means, IntArray]]) -> Means:
    """The chosen groups of several sets of 0/1 rows, in one set on the same scale."""
    binary = [(means, index) for one, index in groups if isinstance(means := natural(one), Binary)]
    every = Binary(np.concatenate([m.n[i] for m, i in binary]), np.concatenate([m.ones[i] for m, i in binary]))
    first = groups[0][0]
    return linked(every, first.link) if isinstance(first, Linked) else every


# Cases, or rows that are none, below which a 0/1 group is tested by its score. By enumeration of all tables the
# likelihood ratio of two groups with more rejects at most 0.055 of true nulls at 0.05.
FEW_CASES = 20.0

ScoreSums = tuple[FloatArray, FloatArray]


def few_cases(counts: Binary, index: IntArray) -> BoolArray:
    """Which of the groups have few cases, or few rows that are none."""
    ones = counts.ones[index]
    return np.minimum(ones, counts.n[index] - ones) < FEW_CASES


def score_sums(point: Point, n: FloatArray, away: FloatArray | float = 0.0) -> ScoreSums:
    """Σ e r² and Σ e r³ over a group's two cells, 1 + ``away`` times as many rows of which are there as expected."""
    m, tilt = point.mean, (1.0 + away) * point.multiplier
    spread = np.where((m > 0) & (m < 1), m * (1.0 - m) * tilt**2, 0.0)
    expected = n / (1.0 + away)
    return expected * (away**2 + spread), expected * (away**3 + spread * (3.0 * away + tilt * (1.0 - 2.0 * m)))


def score_statistic(second: FloatArray, third: FloatArray) -> FloatArray:
    """z'², a chi-square with one degree of freedom, from Σ e r² and Σ e r³ over all cells."""
    z = np.sqrt(second)
    with np.errstate(all="ignore"):
        bend = third / (6.0 * second * z)
        tail = 2.0 * (z + bend) / (1.0 + np.sqrt(1.0 + 4.0 * bend * (z + bend)))
    return np.where(z > 1.0, np.where(np.isinf(z), np.inf, tail), z) ** 2
