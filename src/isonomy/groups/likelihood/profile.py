"""The likelihood of a disparity: a group's mean compared with its reference, which is estimated too.

Scales. A disparity is a difference δ = φ(μ) - φ(θ) on the scale of a link φ: the mean itself (differences), its
logarithm (ratios) or its log odds (odds ratios). A ratio is exp δ. With λ the multiplier of a mean m, dT/dφ(m) = -2 n
λ/φ'(m): a `Linked` mean, φ(m) with the multiplier λ/φ'(m), is again a mean with a likelihood, and everything that holds
for differences of means holds for it. T does not change, only the names of the points along its curve, so a test of
equality is the same on every scale. Along the curve λ/φ'(m) falls as m rises: for 0/1 rows λ m = (p - m)/(1 - m) and λ
m (1 - m) = p - m; for rows that are never negative s = λ m solves Σ (x/m - 1)/(1 - s + s x/m) = 0, whose left side
falls in s and in m.

References. Every reference leads to a curve with one parameter, the group's coordinate (`means`), along which both the
disparity and T are explicit. With ν = n_G λ_G the multiplier of the group's mean:

fixed      the reference is a number θ:              ε = m_G - θ,  T = T_G.
disjoint   a group with no common row, or the rest:  T(ε) = min over θ of T_G(θ + ε) + T_R(θ). At the minimum
           n_R λ_R = -ν, so ε = m_G - m_R and T = T_G + T_R.
nested     the group lies inside its reference (the population): with C the reference's other rows and P the group's
           share, ε = (1 - P)(m_G - m_C) and T(ε) = min over P, θ of T_binomial(P) + T_G(θ + ε/(1 - P)) + T_C(θ). At
           the minimum n_C λ_C = -ν and, with d = m_G - m_C, P = n_G / (n - ν d): the share has a closed form, and
           so has its T.

For linked means ν = n_G λ_G/φ'(m_G). Disjoint groups need nothing more. Nested ones on the scale of ratios have the
same P = n_G / (n - ν' d) with ν' = -n_C λ_C; odds in the population become a ratio of other groups (`odds_in_whole`).

T increases along the curve away from the estimate, so a test is one root (ε = ε₀) and each end of an interval another
(T = critical value).

Few cases. If a group or its reference has few cases (or few non-cases), the likelihood ratio rejects too often: for
rates of 0.02 in 100 against 1,000 rows, 0.09 of true nulls at 0.05. The score statistic replaces it there, on the same
curve. Rao's score statistic of 0/1 rows is Pearson's: with ``e`` rows expected in a cell under the likeliest rates that
meet the hypothesis and ``o = e (1 + r)`` observed,

    X² = Σ e r²,        skewness of its root  γ = Σ e r³ / (Σ e r²)^(3/2)

The root z is mapped to the normal one with the same tail (Cornish and Fisher; Laud 2017, Pharmaceutical Statistics 16:
334-348): z' + γ (z'² - 1)/6 = z. Below z = 1, where nothing is decided, z' is z. Since r >= -1, γ z >= -1 and the
equation always has a solution. On the curve r is λ (1 - m) for a group's ones and -λ m for its zeros.

Other likelihoods of the same comparisons:

Euclidean   T = n ḡ'S⁻¹ḡ with S centered over all n rows equals Tu / (1 - Tu/n), where Tu = (Σg)'(Σgg')⁻¹(Σg). It needs
            two moments per group. With u = Σz and v = Σz² of a block of rows in which one function is not zero:

            fixed      Tu = u_G² / v_G, z = M - θ - ε.
            disjoint   Tu = min over θ of u_G²/v_G + u_R²/v_R.
            nested     the group's function and the population's share the group's rows. Once the first is subtracted
                       from the second, rows of the group carry (M - θ - ε, ε) and the others (0, M - θ): Σgg' is 2 x 2,
                       and the minimum over θ is scalar.

Bartlett    The mean of T is 1 + a/n + O(1/n²) with a = μ4/(2 μ2²) - μ3²/(3 μ2³) (Owen 2001, section 2.6; the reference
            known). Dividing T by 1 + a/n reduces the coverage error from O(1/n) to O(1/n²). If the reference is
            estimated too, the mean of T comes from resamples: T* at the sample's disparity.
Adjusted    Chen, Variyath and Abraham (2008): one more row at m - c (mean - m), c = max(1, log(n)/2). T is finite at
            every m, and bounded, so an interval can be unbounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import xlog1py

from isonomy.groups.likelihood.means import (
    IDENTITY,
    LOG,
    LOGIT,
    Binary,
    Link,
    Linked,
    Means,
    Point,
    Real,
    Tilted,
    linked,
    natural,
)
from isonomy.inference.effect import Effect, Fieller, Limits, Logarithmic, Part, Parts, Wald
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.roots import Values, roots

# The relative step by which the score statistic is differentiated.
STEP = 1e-6
# The relative tolerance with which the root of the score statistic must meet the level at an interval's end.
MET = 1e-6
# Cases, or non-cases, below which a 0/1 group is tested by its score. By enumeration of all tables, the likelihood
# ratio of two groups with more rejects at most 0.055 of true nulls at 0.05.
FEW_CASES = 20.0
# Rows below which a group that is not 0/1 is tested by Welch's t: the likelihood ratio of 10 normal rows exceeds the
# 0.0025 quantile of F in 0.007 of tables, since no weighting of the rows reaches beyond the largest.
FEW_ROWS = 30.0
# Grid points of the search for the minimum over θ, and golden-section steps after it (each gains a factor 0.618).
GRID, SECTIONS, GOLDEN = 65, 32, (np.sqrt(5.0) - 1.0) / 2.0
# How far beyond the fitting values the search goes if the group is nested, relative to their distance.
BEYOND = 4.0
# Distances from a block's fitting θ, as shares of the range, of more points where Tu is steeper than the grid.
CLOSER = 4.0 ** -np.arange(24.0)
# A block's mean and a θ that should meet it may differ by this relative rounding error.
ROUNDING = 8.0 * float(np.finfo(float).eps)
# The standard errors beyond which T is not searched for a level.
FAR = 1e5


class Kind(StrEnum):
    FIXED = "fixed"
    DISJOINT = "disjoint"
    NESTED = "nested"


class Curve(NamedTuple):
    """Disparity and T at some coordinates, with their derivatives and that of ν (``dforce``)."""

    disparity: FloatArray
    statistic: FloatArray
    ddisparity: FloatArray
    dstatistic: FloatArray
    dforce: FloatArray


NO_PARTNERS: IntArray = np.empty(0, dtype=np.intp)
NONE_SCORED: BoolArray = np.zeros(1, dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class ProfileLikelihood(Effect):
    """The disparities of many groups, each from its own reference.

    Problem j compares group ``group[j]`` of ``groups`` with the number ``theta[j]`` (fixed), or with group
    ``partner[j]`` of ``other``: the reference itself (disjoint) or the reference's rows outside the group (nested).
    `Linked` means, on both sides, put the disparities on the scale of their link; a known reference is compared on the
    natural scale (`OnScale`). ``scored`` problems, all of 0/1 rows, have the score statistic for T.

    Examples
    --------
    Half of 100 against a quarter of 200:

    >>> from isonomy.groups.likelihood.means import Binary
    >>> counts = Binary(n=[100, 200], ones=[50, 50])
    >>> pair = ProfileLikelihood(Kind.DISJOINT, counts, np.array([0]), other=counts, partner=np.array([1]))
    >>> pair.value, pair.statistic(0.0).round(3)
    (array([0.25]), array([18.345]))
    >>> np.concatenate(pair.interval(3.841)).round(3)
    array([0.135, 0.363])
    """

    kind: Kind
    groups: Means
    group: IntArray
    theta: FloatArray = field(default_factory=partial(np.empty, 0))
    other: Means = field(default_factory=partial(Binary, [], []))
    partner: IntArray = field(default_factory=NO_PARTNERS.copy)
    scored: BoolArray = field(default_factory=NONE_SCORED.copy)

    @classmethod
    def pooled(cls, parts: Sequence[ProfileLikelihood]) -> ProfileLikelihood:
        """The problems of several profiles of one kind and link, all of 0/1 rows, as one profile."""
        first, columns = parts[0], []
        for part in parts:
            groups, other = natural(part.groups), natural(part.other)
            assert isinstance(groups, Binary)
            assert isinstance(other, Binary)
            mine, theirs = np.stack([groups.n, groups.ones]), np.stack([other.n, other.ones])
            scored = np.broadcast_to(part.scored, part.group.shape)
            columns.append((*mine[:, part.group], *theirs[:, part.partner], part.theta, scored))
        n, ones, more, cases, theta, scored = map(np.concatenate, zip(*columns, strict=True))
        link, every = first.groups.link, np.arange(n.size)
        sides = linked(Binary(n, ones), link), linked(Binary(more, cases), link)
        return cls(first.kind, sides[0], every, theta, sides[1], every[: more.size], scored.astype(bool))

    def scoring_few(self) -> ProfileLikelihood:
        """The same problems, with the score statistic if either side has few cases or few non-cases."""
        few = np.zeros(self.group.size, dtype=bool)
        for means, index in ((self.groups, self.group), (self.other, self.partner)):
            if index.size and isinstance(natural(means), Binary):
                few |= fewest_cases(means, index) < FEW_CASES
        return replace(self, scored=few)

    def by_welch(self) -> Effect:
        """The same problems of rows that are not 0/1, with Welch's t for T if either side has few rows."""
        sizes = [self.groups.n[self.group], *([self.other.n[self.partner]] if self.partner.size else [])]
        few = np.min(sizes, axis=0) < FEW_ROWS
        if not few.any():
            return self
        places, others = np.flatnonzero(few), np.flatnonzero(~few)
        parts: list[Part] = [(places, self.select(places)._welch())]
        if others.size:
            parts.append((others, self.select(others)))
        return FewRows(self, Parts(self.value, tuple(parts)))

    def select(self, index: IntArray) -> ProfileLikelihood:
        if self.kind is Kind.FIXED:
            return replace(self, group=self.group[index], theta=self.theta[index])
        return replace(self, group=self.group[index], partner=self.partner[index])

    def _welch(self) -> Effect:
        mine, theirs, share, i, j = natural(self.groups), natural(self.other), self.share, self.group, self.partner
        with np.errstate(divide="ignore", invalid="ignore"):
            square = mine.variance[i] / np.maximum(mine.n[i] - 1.0, 0.0)
            beside = np.zeros(i.size)
            if self.kind is not Kind.FIXED:
                beside = theirs.variance[j] / np.maximum(theirs.n[j] - 1.0, 0.0)
            if self.groups.link is IDENTITY:
                return Wald(self.value, (1.0 - share) * np.sqrt(square + beside))
            covariance, bottom = share * square, share**2 * square + (1.0 - share) ** 2 * beside
            return Logarithmic(Fieller(mine.mean[i], self.reference, square, covariance, bottom))

    @property
    def share(self) -> FloatArray:
        """The group's share of its reference's rows; 0 unless nested."""
        if self.kind is not Kind.NESTED:
            return np.zeros(self.group.size)
        n = self.groups.n[self.group]
        return n / (n + self.other.n[self.partner])

    @property
    def reference(self) -> FloatArray:
        if self.kind is Kind.FIXED:
            return self.theta
        mean, other = natural(self.groups).mean[self.group], natural(self.other).mean[self.partner]
        return self.share * mean + (1.0 - self.share) * other

    @property
    def value(self) -> FloatArray:
        mean = self.groups.mean[self.group]
        if self.kind is Kind.FIXED:
            return mean - self.theta
        with np.errstate(divide="ignore", invalid="ignore"):  # no case on either side
            if self.kind is Kind.DISJOINT:
                return mean - self.other.mean[self.partner]
            mean, other = natural(self.groups).mean[self.group], natural(self.other).mean[self.partner]
            return self._from_whole(mean, other, self.share)

    @property
    def range(self) -> Limits:
        """The disparities that some weighting of the rows can give lie strictly between these."""
        low, high = self.groups.low[self.group], self.groups.high[self.group]
        if self.kind is Kind.FIXED:
            return low - self.theta, high - self.theta
        return low - self.other.high[self.partner], high - self.other.low[self.partner]

    @property
    def standard_error(self) -> FloatArray:
        squared = self.groups.variance[self.group] / self.groups.n[self.group]
        if self.kind is Kind.FIXED:
            return np.sqrt(squared)
        with np.errstate(divide="ignore", invalid="ignore"):  # no case on either side
            if self.kind is Kind.DISJOINT:
                return np.sqrt(squared + self.other.variance[self.partner] / self.other.n[self.partner])
            i, j, share, unit = self.group, self.partner, self.share, self.groups.link.unit(self.reference)
            mine, theirs = natural(self.groups), natural(self.other)
            span, rows = mine.mean[i] - theirs.mean[j], mine.n[i] + theirs.n[j]
            # The group's mean moves the whole's mean too, by the group's share.
            squared = (1.0 / self.groups.link.unit(mine.mean[i]) - share / unit) ** 2 * mine.variance[i] / mine.n[i]
            squared += ((1.0 - share) / unit) ** 2 * theirs.variance[j] / theirs.n[j]
            return np.sqrt(squared + (span / unit) ** 2 * share * (1.0 - share) / rows)

    def _from_whole(self, mean: FloatArray, other: FloatArray, share: FloatArray) -> FloatArray:
        """The disparity from a whole that contains the group with this ``share``."""
        if self.groups.link is IDENTITY:
            return (1.0 - share) * (mean - other)
        return self.groups.link.forward(mean) - self.groups.link.forward(other + share * (mean - other))

    def curve(self, coordinate: FloatArray, index: IntArray, *, led: bool = False) -> Curve:
        """The curve at coordinates of the groups or, if ``led``, of the other rows with the opposite sign."""
        group, scored = self.group[index], np.broadcast_to(self.scored, self.group.shape)[index]
        n = self.groups.n[group]
        if self.kind is Kind.FIXED:
            point = self.groups.point(coordinate, group)
            slope = -2.0 * n * point.multiplier * point.dmean
            statistic = np.where(scored, score_statistic(*score_sums(point, n)), point.statistic)
            return Curve(point.mean - self.theta[index], statistic, point.dmean, slope, n * point.dmultiplier)
        partner = self.partner[index]
        m = self.other.n[partner]
        sides, turn = [(self.groups, group, n), (self.other, partner, m)], -1.0 if led else 1.0
        (leader, i, size), (follower, j, facing_size) = sides[::-1] if led else sides
        with np.errstate(all="ignore"):
            first, renamed = _points(leader, turn * coordinate, i)
            force, dforce = turn * size * renamed.multiplier, size * renamed.dmultiplier
            facing = follower.coordinate(-turn * force / facing_size, j)
            second, mirrored = _points(follower, facing, j)
            ends = [
                (first, renamed, turn + 0.0 * coordinate),
                (second, mirrored, -turn * dforce / facing_size / mirrored.dmultiplier),
            ]
            (mine, point, dmine), (theirs, mirror, dtheirs) = ends[::-1] if led else ends
            gap, dgap = point.mean - mirror.mean, dmine * point.dmean - dtheirs * mirror.dmean
            # Where no weighting of the rows exists: further than any disparity, in the direction of travel.
            exists, far = np.isfinite(facing), -np.sign(coordinate) * np.inf
            statistic = point.statistic + mirror.statistic
            if scored.any():
                scores = score_statistic(*np.add(score_sums(mine, n), score_sums(theirs, m)))
                statistic = np.where(scored, scores, statistic)
            statistic = np.where(exists, statistic, np.inf)
            if self.kind is Kind.DISJOINT:
                return Curve(np.where(exists, gap, far), statistic, dgap, -2.0 * force * dgap, dforce)
            # ν span by the other rows' own multiplier, which exists even if none of them is 1.
            span, dspan = mine.mean - theirs.mean, dmine * mine.dmean - dtheirs * theirs.dmean
            pull, rows = -m * theirs.multiplier * span, n + m
            dpull = -m * (dtheirs * theirs.dmultiplier * span + theirs.multiplier * dspan)
            share = n / (rows - pull)
            exists &= pull < m  # there is none beyond ν span = n_C either
            whole = theirs.mean + share * span
            dwhole = dtheirs * theirs.dmean + share * dspan + span * share**2 * dpull / n
            unit = self.groups.link.unit(whole)
            slope = dmine * point.dmean - dwhole / unit
            cost = 2.0 * (rows * np.log1p(-pull / rows) - m * np.log1p(-pull / m))
            statistic = np.where(exists, statistic + np.maximum(cost, 0.0), np.inf)
            if scored.any():
                inside, outside = score_sums(mine, n, -pull / rows), score_sums(theirs, m, n * pull / rows / (m - pull))
                statistic = np.where(scored & exists, score_statistic(*np.add(inside, outside)), statistic)
            disparity = np.where(exists, self._from_whole(mine.mean, theirs.mean, share), far)
            by_force = 2.0 * m * theirs.multiplier * unit / (1.0 - share)
            return Curve(disparity, statistic, slope, by_force * slope, dforce)

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``; infinite outside the range of the data."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.group.shape)
        if self.kind is Kind.FIXED:
            point = self.groups.locate(target + self.theta, self.group)
            scored = np.broadcast_to(self.scored, target.shape) & np.isfinite(point.statistic)
            scores = score_statistic(*score_sums(point, self.groups.n[self.group])) if scored.any() else 0.0
            return np.where(scored, scores, point.statistic)
        if self.kind is Kind.NESTED and not target.any():
            # Equal means: the share is free, so the comparison with the other rows alone is the same.
            return replace(self, kind=Kind.DISJOINT).statistic(target)
        low, high = self.range
        result = np.where(target == self.value, 0.0, np.inf)
        for index, led, ends in self._led((target > low) & (target < high), target > self.value):

            def gap(x: FloatArray, active: IntArray, index: IntArray = index, led: bool = led) -> Limits:
                curve = self.curve(x, index[active], led=led)
                return curve.disparity - target[index[active]], curve.ddisparity

            solution = roots(gap, *ends, x0=np.zeros(index.size), direction="decreasing")
            with np.errstate(all="ignore"):
                result[index] = np.where(solution.ok, self.curve(solution.x, index, led=led).statistic, np.nan)
        return result

    def _led(self, chosen: BoolArray, upwards: BoolArray) -> list[tuple[IntArray, bool, Limits]]:
        """The chosen problems, by whose coordinate is followed, and its range.

        On the scale of ratios, other rows that are all 1 leave that end of their range at one multiplier, upwards; if
        they are all 0, the share of a nested group moves before they do. The curve then has no jump along their
        coordinate.
        """
        led = np.zeros_like(chosen)
        if self.groups.link is LOG and isinstance(other := natural(self.other), Binary):
            mean = other.mean[self.partner]
            led = chosen & (((mean == 1) & upwards) | ((mean == 0) & (self.kind is Kind.NESTED)))
        alone = np.flatnonzero(chosen & ~led)
        parts = [(alone, False, self.groups.ends(self.group[alone]))]
        if led.any():
            left, right = self.other.ends(self.partner[led])
            parts.append((np.flatnonzero(led), True, (-right, -left)))
        return parts

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.group.shape)
        ends, every = np.array(self.range), np.ones(self.group.shape, dtype=bool)
        for end, sign in zip(ends, (1.0, -1.0), strict=True):
            for index, led, (left, right) in self._led(every, every & (sign < 0)):
                far = right if sign > 0 else -left
                end[index] = self._end(level[index], sign, end[index], index, led, far)
        return ends[0], ends[1]

    def _end(
        self, level: FloatArray, sign: float, limit: FloatArray, index: IntArray, led: bool, far: FloatArray
    ) -> FloatArray:
        """Follow the curve in one direction until T reaches ``level``; ``limit`` if it never does."""
        target, scored = np.sqrt(level), np.broadcast_to(self.scored, self.group.shape)[index]

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            curve = self.curve(sign * x, index[active], led=led)
            # sqrt T is nearly linear along the curve, so Newton's first steps are already good.
            height = np.sqrt(curve.statistic)
            slope = sign * curve.dstatistic / (2.0 * height)
            if scored[active].any():
                near = self.curve(sign * x * (1.0 + STEP), index[active], led=led)
                slope = np.where(scored[active], (np.sqrt(near.statistic) - height) / (STEP * x), slope)
            return height - target[active], slope

        with np.errstate(all="ignore"):
            start = self.curve(np.zeros(index.size), index, led=led)
            guess = np.sqrt(level / (start.dforce * np.abs(start.ddisparity) / (1.0 - self.share[index])))
        guess = np.where(np.isfinite(guess), guess, np.nan)
        solution = roots(gap, np.zeros(index.size), far, x0=guess, direction="increasing")
        with np.errstate(all="ignore"):
            there = self.curve(sign * solution.x, index, led=led)
            # The score statistic is bounded: it may jump over the level where the curve ends.
            jumped = scored & ~(np.abs(np.sqrt(there.statistic) - target) <= MET * target)
        return np.where(solution.ok & ~jumped, there.disparity, limit)


def fewest_cases(means: Means, index: IntArray) -> FloatArray:
    """The cases or the non-cases of 0/1 groups, whichever are fewer."""
    counts = natural(means)
    assert isinstance(counts, Binary)
    return np.minimum(counts.ones, counts.n - counts.ones)[index]


def _points(means: Means, coordinate: FloatArray, index: IntArray) -> tuple[Point, Point]:
    point = natural(means).point(coordinate, index)
    return point, means.renamed(point) if isinstance(means, Linked) else point


def score_sums(point: Point, n: FloatArray, away: FloatArray | float = 0.0) -> Limits:
    """Σ e r² and Σ e r³ over a group's two cells, with 1 + ``away`` times the expected number of rows observed."""
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


def odds_in_whole(groups: Binary, group: IntArray, other: Binary, partner: IntArray) -> ProfileLikelihood:
    """The odds ratio of groups to wholes that contain them and ``other`` rows, as a ratio of two disjoint groups.

    The odds of G divided by those of all rows are P(G | 1)/P(G | 0): the share of G among the rows with 1 over its
    share among the rows with 0. These are two groups without a common row, and the whole's rate is free.
    """
    n, ones = groups.n[group], groups.ones[group]
    more, cases = other.n[partner], other.ones[partner]
    every = np.arange(group.size)
    among = Binary(ones + cases, ones), Binary(n + more - ones - cases, n - ones)
    return ProfileLikelihood(Kind.DISJOINT, Linked(among[0], LOG), every, other=Linked(among[1], LOG), partner=every)


@dataclass(frozen=True, slots=True, eq=False)
class Variant(Effect):
    """Another likelihood of the same problems: estimates and standard errors are those of ``problem``."""

    problem: ProfileLikelihood

    @property
    def value(self) -> FloatArray:
        return self.problem.value

    @property
    def standard_error(self) -> FloatArray:
        return self.problem.standard_error

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.problem.group.shape)
        return self._end(level, -1.0), self._end(level, 1.0)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        raise NotImplementedError

    def outward(self, gap: Values, start: FloatArray, far: FloatArray, sign: float) -> FloatArray:
        """Where ``gap`` is 0, at most ``far`` standard errors from the estimate; infinite if it never is."""
        solution = roots(gap, np.zeros(far.size), far, x0=start, rtol=1e-11, direction="increasing")
        end = self.value + sign * solution.x * self.standard_error
        return np.where((far > 0) & solution.ok, end, sign * np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class FewRows(Variant):
    """The likelihood of some problems, and Welch's t of those with few rows."""

    parts: Parts

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        return self.parts.statistic(disparity)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        return self.parts.interval(critical)


@dataclass(frozen=True, slots=True, eq=False)
class OnScale(Effect):
    """A likelihood with disparities reported as a link does.

    Those of ``inner`` are δ on the scale of the link or, with known references ``theta``, differences from these.
    """

    inner: Effect
    link: Link
    theta: FloatArray | None = None

    @classmethod
    def report(cls, effect: Effect, link: Link) -> OnScale:
        problem = effect.problem if isinstance(effect, Variant) else effect
        if isinstance(problem, ProfileLikelihood) and problem.kind is Kind.FIXED:
            return cls(effect, link, problem.theta)
        return cls(effect, link)

    @property
    def value(self) -> FloatArray:
        return self._reported(self.inner.value)

    @property
    def standard_error(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = 1.0 if self.theta is None else 1.0 / self.link.unit(self.theta + self.inner.value)
            return self.inner.standard_error * slope * (self.value if self.link.ratio else 1.0)

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        delta = self.link.delta(disparity)
        return self.inner.statistic(delta if self.theta is None else self.link.moved(self.theta, delta) - self.theta)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        low, high = self.inner.interval(critical)
        return self._reported(low), self._reported(high)

    def _reported(self, distance: FloatArray) -> FloatArray:
        if self.theta is None:
            return self.link.reported(distance)
        mean = np.clip(self.theta + distance, 0.0, 1.0 if self.link is LOGIT else np.inf)
        return self.link.compared(mean, self.theta)


def gathered(value: FloatArray, parts: Sequence[Part], link: Link) -> Parts:
    """The effects of all groups as the link reports them; counts are pooled, as one large solve costs less."""
    sorts: dict[object, list[Part]] = {}
    for where, part in parts:
        sort: object = len(sorts)
        if isinstance(part, ProfileLikelihood) and isinstance(natural(part.groups), Binary):
            sort = part.kind, part.groups.link.name
        sorts.setdefault(sort, []).append((where, part))
    every: list[Part] = []
    for chosen in sorts.values():
        places, effects = zip(*chosen, strict=True)
        effect = ProfileLikelihood.pooled(effects) if len(effects) > 1 else effects[0]
        every.append((np.concatenate(places), effect if link is IDENTITY else OnScale.report(effect, link)))
    return Parts(value, tuple(every))


@dataclass(frozen=True, slots=True, eq=False)
class Euclidean(Variant):
    """The Euclidean likelihood of differences; ``rows`` is n, all rows of the audit."""

    rows: float

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        index = np.arange(self.problem.group.size)
        uncentered = self._least(np.broadcast_to(np.asarray(disparity, dtype=float), index.shape), index)[0]
        with np.errstate(divide="ignore"):
            return np.where(uncentered < self.rows, uncentered / (1.0 - uncentered / self.rows), np.inf)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T = c, which is where Tu = c / (1 + c/n); infinite if it never is."""
        estimate, error, target = self.value, self.standard_error, np.sqrt(level / (1.0 + level / self.rows))

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            here = estimate[active] + sign * x * error[active]
            height, theta = self._least(here, active)
            # By the envelope theorem θ may stay where it is while the disparity moves.
            step = 1e-4 * error[active]
            change = self._uncentered(here + step, theta, active) - self._uncentered(here - step, theta, active)
            root = np.sqrt(height)
            with np.errstate(divide="ignore", invalid="ignore"):
                return root - target[active], sign * change / (2.0 * step) * error[active] / (2.0 * root)

        far = np.full(target.size, FAR)
        reached = gap(far, np.arange(target.size))[0] > 0
        end = self.outward(gap, target, np.where(reached, far, 0.0), sign)
        # Two constant blocks of rows have no second moment that could measure a disparity.
        return np.where(error > 0, end, np.nan)

    def _least(self, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu over θ, and the minimizing θ.

        It lies between the values that fit the reference and the group perfectly, unless the group is nested. A θ
        beyond them then inflates the second moments, so the search goes further.
        """
        problem = self.problem
        if problem.kind is Kind.FIXED:
            return self._uncentered(disparity, problem.theta[index], index), problem.theta[index]
        groups, other = problem.groups, problem.other
        group, partner = problem.group[index], problem.partner[index]
        fits = problem.reference[index], groups.mean[group] - disparity
        low, high = np.minimum(*fits), np.maximum(*fits)
        if problem.kind is Kind.NESTED:
            low, high = low - BEYOND * (high - low), high + BEYOND * (high - low)
        grid = low + np.linspace(0.0, 1.0, GRID)[:, None] * (high - low)
        # Tu varies on the scale of the blocks' standard deviations, and jumps where all rows of a block are equal.
        spread = np.minimum(groups.variance[group], other.variance[partner])
        steep = ((high - low) / (GRID - 1)) ** 2 > 0.25 * spread
        least, theta = np.empty(index.size), np.empty(index.size)
        smooth, hard = np.flatnonzero(~steep), np.flatnonzero(steep)
        least[smooth], theta[smooth] = self._lowest(grid[:, smooth], disparity[smooth], index[smooth])
        if hard.size:
            around = self._meeting(disparity[hard], index[hard])[:, None]
            offset = CLOSER[:, None] * (high - low)[hard]
            near = np.concatenate([around - offset, around, around + offset], axis=1).reshape(-1, hard.size)
            points = np.sort(np.concatenate([grid[:, hard], near]), axis=0)
            least[hard], theta[hard] = self._lowest(points, disparity[hard], index[hard])
        return least, theta

    def _meeting(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """The θ at which one of the functions sums to zero, one problem per column: Tu may dip there."""
        problem = self.problem
        group, partner = problem.group[index], problem.partner[index]
        groups, rest = problem.groups, problem.other
        mean, other = groups.mean[group] - disparity, rest.mean[partner]
        if problem.kind is Kind.DISJOINT:
            return np.stack([mean, other])
        # Nested: the second function is m (other - θ) + n ε v / (v + (mean - θ)²) once the first is subtracted.
        ratio, variance, theta = groups.n[group] / rest.n[partner], groups.variance[group], other
        for _ in range(3):
            with np.errstate(invalid="ignore"):
                share = np.where(variance > 0, variance / (variance + (mean - theta) ** 2), 0.0)
            theta = other + ratio * disparity * share
        return np.stack([mean, other, theta])

    def _lowest(self, points: FloatArray, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu near the best of ``points`` (sorted, one problem per column), or that point itself."""
        values = np.stack([self._uncentered(disparity, theta, index) for theta in points])
        best, every = np.argmin(values, axis=0), np.arange(index.size)
        left, right = points[np.maximum(best - 1, 0), every], points[np.minimum(best + 1, len(points) - 1), every]
        for _ in range(SECTIONS):
            inner, outer = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
            lower = self._uncentered(disparity, inner, index) <= self._uncentered(disparity, outer, index)
            left, right = np.where(lower, left, inner), np.where(lower, outer, right)
        middle = 0.5 * (left + right)
        refined, nearest = self._uncentered(disparity, middle, index), values[best, every]
        # The dip at the mean of equal rows has no width: it contains that point alone.
        return np.minimum(refined, nearest), np.where(refined <= nearest, middle, points[best, every])

    def _uncentered(self, disparity: FloatArray, theta: FloatArray, index: IntArray) -> FloatArray:
        problem = self.problem
        group, groups, other = problem.group[index], problem.groups, problem.other
        n, mean = groups.n[group], groups.mean[group]
        gap = mean - theta - disparity
        gap = np.where(np.abs(gap) <= ROUNDING * (np.abs(mean) + np.abs(theta) + np.abs(disparity)), 0.0, gap)
        first, second = n * gap, n * (groups.variance[group] + gap**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(first == 0, 0.0, first**2 / second)
            if problem.kind is Kind.FIXED:
                return alone
            partner = problem.partner[index]
            m, rest = other.n[partner], other.mean[partner] - theta
            total, square = m * rest, m * (other.variance[partner] + rest**2)
            if problem.kind is Kind.DISJOINT:
                return alone + np.where(total == 0, 0.0, total**2 / square)
            # (u1, u2) and the 2 x 2 second moments of the nested case.
            total, square = total + n * disparity, square + n * disparity**2
            cross = first * disparity
            left = total - np.where(cross == 0, 0.0, cross / second * first)
            remaining = square - np.where(cross == 0, 0.0, cross**2 / second)
            return alone + np.where(left == 0, 0.0, left**2 / remaining)


@dataclass(frozen=True, slots=True, eq=False)
class Corrected(Variant):
    """A likelihood with T divided by Bartlett's ``factor``, one per problem; T is not divided where that is NaN."""

    factor: FloatArray

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        return self.problem.statistic(disparity) / np.where(np.isnan(self.factor), 1.0, self.factor)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        return self.problem.interval(np.asarray(critical) * np.where(np.isnan(self.factor), 1.0, self.factor))


def bartlett_constant(means: Means, index: IntArray) -> FloatArray:
    """a = μ4/(2 μ2²) - μ3²/(3 μ2³) of each group; 0 for a group without variance."""
    v = means.variance[index]
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(means, Binary):
            # For 0/1 rows μ3²/μ2³ = 1/v - 4 and μ4/μ2² = 1/v - 3, v = p(1-p).
            return np.where(v > 0, 1.0 / (6.0 * v) - 1.0 / 6.0, 0.0)
        assert isinstance(means, Real)
        m2, m3, m4 = (means.moments.central(k)[index] for k in (2, 3, 4))
        return np.where(m2 > 0, m4 / (2.0 * m2**2) - m3**2 / (3.0 * m2**3), 0.0)


def bartlett_factor(problem: ProfileLikelihood, resamples: int, rng: np.random.Generator) -> FloatArray:
    """The mean of T: in closed form for a known reference, by resampling otherwise (NaN if that fails)."""
    if problem.kind is Kind.FIXED:
        return 1.0 + bartlett_constant(problem.groups, problem.group) / problem.groups.n[problem.group]
    factors, every, link = [], np.arange(resamples), problem.groups.link
    for i, j, disparity in zip(problem.group, problem.partner, problem.value, strict=True):
        n, m = round(float(problem.groups.n[i])), round(float(problem.other.n[j]))
        sizes = np.full(resamples, n)
        if problem.kind is Kind.NESTED:
            sizes = np.clip(rng.binomial(n + m, n / (n + m), size=resamples), 1, n + m - 1)
        group = _resampled(natural(problem.groups), i, sizes, rng)
        other = _resampled(natural(problem.other), j, n + m - sizes, rng)
        again = ProfileLikelihood(problem.kind, linked(group, link), every, other=linked(other, link), partner=every)
        statistic = again.statistic(disparity)
        usable = (group.variance > 0) & (other.variance > 0) & np.isfinite(statistic)
        factors.append(mean_of_usable(statistic[usable], resamples))
    return np.array(factors)


def mean_of_usable(statistic: npt.ArrayLike, resamples: int) -> float:
    usable = np.asarray(statistic, dtype=float)
    return float(np.mean(usable)) if usable.size >= (resamples + 1) // 2 else np.nan


def _resampled(means: Means, group: int, sizes: IntArray, rng: np.random.Generator) -> Means:
    if isinstance(means, Binary):
        return Binary(sizes, rng.binomial(sizes, means.mean[group]))
    assert isinstance(means, Tilted)
    values, weights = means.values(group)
    # Row by row and sorted: neither the order of the lines nor the rows per line may change the draws.
    rows = np.sort(values if weights is None else np.repeat(values, weights.astype(np.intp)))
    picked = rng.choice(rows, size=int(sizes.sum()))
    return Real(Ragged.from_codes(np.repeat(np.arange(sizes.size), sizes), sizes.size, picked))


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted(Variant):
    """Adjusted empirical likelihood against a known reference (``problem.kind`` is fixed)."""

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        index = np.arange(self.problem.group.size)
        return self._tested(np.broadcast_to(np.asarray(disparity, dtype=float), index.shape), index)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T reaches ``level``; infinite if it never does."""
        estimate, error, target, step = self.value, self.standard_error, np.sqrt(level), 1e-5

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            here, near = (
                np.sqrt(self._tested(estimate[active] + sign * distance * error[active], active))
                for distance in (x, x + step)
            )
            return here - target[active], (near - here) / step

        # T as the tested mean goes to infinity: n rows at -1 and one at c.
        n = self.problem.groups.n[self.problem.group]
        c = np.maximum(1.0, np.log(n) / 2.0)
        limit = 2.0 * (n * np.log(n * (c + 1.0) / (c * (n + 1.0))) + np.log((c + 1.0) / (n + 1.0)))
        return self.outward(gap, target, np.where(limit > level, np.inf, 0.0), sign)

    def _tested(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """Solve Σ z/(1 + λz) = 0 over the group's rows and the additional one."""
        groups, group = self.problem.groups, self.problem.group[index]
        target = self.problem.theta[index] + disparity
        n, mean = groups.n[group], groups.mean[group]
        extra = -np.maximum(1.0, np.log(n) / 2.0) * (mean - target)
        # The range of the rows: a 0/1 group without ones reaches no further than 0.
        lowest = np.where(mean == groups.high[group], mean, groups.low[group])
        highest = np.where(mean == groups.low[group], mean, groups.high[group])
        lower, upper = np.minimum(lowest - target, extra), np.maximum(highest - target, extra)

        def gap(lam: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            first, second, _ = _tilted(groups, group[active], target[active], lam)
            more = extra[active] / (1.0 + lam * extra[active])
            return first + more, -(second + more**2)

        moves = mean != target
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = np.where(moves, -1.0 / upper, 0.0), np.where(moves, -1.0 / lower, 0.0)
            solution = roots(gap, low, high, x0=np.zeros(index.size), direction="decreasing")
            log = _tilted(groups, group, target, solution.x)[2] + np.log1p(solution.x * extra)
        return np.where(moves, np.maximum(2.0 * log, 0.0), 0.0)


def _tilted(
    means: Means, group: IntArray, target: FloatArray, lam: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ z/(1+λz), Σ (z/(1+λz))² and Σ log(1+λz) over each group's rows, z = row - target."""
    n, p = means.n[group], means.mean[group]
    if isinstance(means, Binary):
        above, below = 1.0 - target, -target
        up, down = above / (1.0 + lam * above), below / (1.0 + lam * below)
        log = xlog1py(p, lam * above) + xlog1py(1.0 - p, lam * below)
        return (n * (p * up + (1.0 - p) * down), n * (p * up**2 + (1.0 - p) * down**2), n * log)
    assert isinstance(means, Real)
    # 1 + λ(x - t) = b (1 + w x') with b = 1 + λ(mean - t), w = λ/b: the sums of `means` serve here too.
    gap = p - target
    b = 1.0 + lam * gap
    w = lam / b
    q, s, log = means.sums(w, group)
    h = 1.0 - w * q
    flat = h - w * (q - w * s)
    second = (s + 2.0 * gap * (q - w * s) + gap**2 * flat) / b**2
    return n * (q + gap * h) / b, n * second, n * (log + np.log(b))
