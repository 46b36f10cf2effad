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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.groups.likelihood.means import Binary, Means, Point
from isonomy.inference.effect import Effect, Limits, Part, Parts
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import Values, roots

# The relative step by which the score statistic is differentiated.
STEP = 1e-6
# The relative tolerance with which the root of the score statistic must meet the level at an interval's end.
MET = 1e-6
# Cases, or non-cases, below which a 0/1 group is tested by its score. By enumeration of all tables, the likelihood
# ratio of two groups with more rejects at most 0.055 of true nulls at 0.05.
FEW_CASES = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """φ (``forward``), its ``inverse``, and 1/φ' (``unit``) with its derivative, as functions of arrays.

    ``ratio``: whether a disparity is reported as exp δ, which is 1 for equal groups, instead of δ.
    """

    name: str
    ratio: bool
    forward: Callable[[FloatArray], FloatArray]
    inverse: Callable[[FloatArray], FloatArray]
    unit: Callable[[FloatArray], FloatArray]
    dunit: Callable[[FloatArray], FloatArray]

    @property
    def equal(self) -> float:
        """The disparity of groups that do not differ."""
        return 1.0 if self.ratio else 0.0

    def reported(self, delta: npt.ArrayLike) -> FloatArray:
        """The disparity with this δ."""
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
        """The mean at a distance of ``delta`` from a reference."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.inverse(self.forward(np.asarray(reference, dtype=float)) + np.asarray(delta, dtype=float))


def _identity(x: FloatArray) -> FloatArray:
    return x


IDENTITY = Link("difference", False, _identity, _identity, np.ones_like, np.zeros_like)
LOG = Link("ratio", True, np.log, np.exp, _identity, np.ones_like)
LOGIT = Link("odds_ratio", True, special.logit, special.expit, lambda m: m * (1.0 - m), lambda m: 1.0 - 2.0 * m)
LINKS = {link.name: link for link in (IDENTITY, LOG, LOGIT)}


class Linked(Means):
    """Means on the scale of a link: ``mean``, ``low`` and ``high`` are φ of theirs, the variance is divided by φ'²."""

    def __init__(self, natural: Means, link: Link) -> None:
        self.natural, self.link, self.n = natural, link, natural.n
        with np.errstate(divide="ignore", invalid="ignore"):
            self.mean, self.low, self.high = (link.forward(x) for x in (natural.mean, natural.low, natural.high))
            self.variance = natural.variance / link.unit(natural.mean) ** 2

    def ends(self, index: IntArray) -> Limits:
        return self.natural.ends(index)

    def point(self, coordinate: FloatArray, index: IntArray) -> Point:
        return self.renamed(self.natural.point(coordinate, index))

    def locate(self, mean: FloatArray, index: IntArray) -> Point:
        with np.errstate(over="ignore"):
            return self.renamed(self.natural.locate(self.link.inverse(mean), index))

    def renamed(self, point: Point) -> Point:
        """A point of the natural means' curve, on this scale."""
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
    """Means on the scale of a link."""
    return means if link is IDENTITY else Linked(means, link)


class Kind(StrEnum):
    """How a group and its reference share rows."""

    FIXED = "fixed"
    DISJOINT = "disjoint"
    NESTED = "nested"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Disparity and T at some coordinates, with their derivatives and that of ν (``dforce``)."""

    disparity: FloatArray
    statistic: FloatArray
    ddisparity: FloatArray
    dstatistic: FloatArray
    dforce: FloatArray


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
    theta: FloatArray = field(default_factory=lambda: np.empty(0))
    other: Means = field(default_factory=lambda: Binary([], []))
    partner: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    scored: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))

    @classmethod
    def pooled(cls, parts: Sequence[ProfileLikelihood]) -> ProfileLikelihood:
        """The problems of several profiles of one kind and link, all of 0/1 rows, as one profile."""
        first, every = parts[0], np.arange(sum(part.group.size for part in parts))

        def counts(sides: list[tuple[Means, IntArray]]) -> Means:
            binary = [(means, index) for side, index in sides if isinstance(means := natural(side), Binary)]
            n, ones = (np.concatenate([getattr(m, name)[i] for m, i in binary]) for name in ("n", "ones"))
            return linked(Binary(n, ones), first.link)

        scored = np.concatenate([np.broadcast_to(part.scored, part.group.shape) for part in parts])
        groups = counts([(part.groups, part.group) for part in parts])
        if first.kind is Kind.FIXED:
            theta = np.concatenate([part.reference for part in parts])
            return cls(first.kind, groups, every, theta=theta, scored=scored)
        other = counts([(part.other, part.partner) for part in parts])
        return cls(first.kind, groups, every, other=other, partner=every, scored=scored)

    def scoring_few(self) -> ProfileLikelihood:
        """The same problems, with the score statistic if either side has few cases or few non-cases."""
        few = np.zeros(self.group.size, dtype=bool)
        for means, index in ((self.groups, self.group), (self.other, self.partner)):
            if index.size and isinstance(counts := natural(means), Binary):
                few |= np.minimum(counts.ones, counts.n - counts.ones)[index] < FEW_CASES
        return replace(self, scored=few)

    def plugged(self) -> ProfileLikelihood:
        """The same groups, with their estimated references taken as known."""
        return ProfileLikelihood(Kind.FIXED, natural(self.groups), self.group, theta=self.reference)

    @property
    def link(self) -> Link:
        """The scale of the disparities."""
        return self.groups.link if isinstance(self.groups, Linked) else IDENTITY

    @property
    def counted(self) -> bool:
        """Whether the rows are 0/1, given by counts."""
        return isinstance(natural(self.groups), Binary)

    @property
    def share(self) -> FloatArray:
        """The group's share of its reference's rows; 0 unless nested."""
        if self.kind is not Kind.NESTED:
            return np.zeros(self.group.size)
        n = self.groups.n[self.group]
        return n / (n + self.other.n[self.partner])

    @property
    def reference(self) -> FloatArray:
        """The estimated or given reference."""
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
            i, j, share, unit = self.group, self.partner, self.share, self.link.unit(self.reference)
            mine, theirs = natural(self.groups), natural(self.other)
            span, rows = mine.mean[i] - theirs.mean[j], mine.n[i] + theirs.n[j]
            # The group's mean moves the whole's mean too, by the group's share.
            squared = (1.0 / self.link.unit(mine.mean[i]) - share / unit) ** 2 * mine.variance[i] / mine.n[i]
            squared += ((1.0 - share) / unit) ** 2 * theirs.variance[j] / theirs.n[j]
            return np.sqrt(squared + (span / unit) ** 2 * share * (1.0 - share) / rows)

    def _from_whole(self, mean: FloatArray, other: FloatArray, share: FloatArray) -> FloatArray:
        """The disparity from a whole that contains the group with this ``share``."""
        if self.link is IDENTITY:
            return (1.0 - share) * (mean - other)
        return self.link.forward(mean) - self.link.forward(other + share * (mean - other))

    def curve(self, coordinate: FloatArray, index: IntArray, *, led: bool = False) -> Curve:
        """The curve of the problems ``index`` at each coordinate.

        The coordinate is that of the group or, if ``led``, that of the other rows with the opposite sign.
        """
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
            unit = self.link.unit(whole)
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
        for index, led in self._led((target > low) & (target < high), target > self.value):

            def gap(x: FloatArray, active: IntArray, index: IntArray = index, led: bool = led) -> Limits:
                curve = self.curve(x, index[active], led=led)
                return curve.disparity - target[index[active]], curve.ddisparity

            start = np.zeros(index.size)
            solution = roots(gap, *self._coordinate_range(index, led), x0=start, direction="decreasing")
            with np.errstate(all="ignore"):
                result[index] = np.where(solution.ok, self.curve(solution.x, index, led=led).statistic, np.nan)
        return result

    def _led(self, chosen: BoolArray, upwards: BoolArray) -> list[tuple[IntArray, bool]]:
        """The chosen problems, by whose coordinate is followed.

        On the scale of ratios, other rows that are all 1 leave that end of their range at one multiplier, upwards; if
        they are all 0, the share of a nested group moves before they do. The curve then has no jump along their
        coordinate.
        """
        led = np.zeros_like(chosen)
        if self.link is LOG and isinstance(other := natural(self.other), Binary):
            mean = other.mean[self.partner]
            led = chosen & (((mean == 1) & upwards) | ((mean == 0) & (self.kind is Kind.NESTED)))
        sides = ((chosen & ~led, False), (led, True))
        return [(np.flatnonzero(part), by_other) for part, by_other in sides if part.any()]

    def _coordinate_range(self, index: IntArray, led: bool) -> Limits:
        if not led:
            return self.groups.ends(self.group[index])
        left, right = self.other.ends(self.partner[index])
        return -right, -left

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.group.shape)
        low, high = (limit.copy() for limit in self.range)
        every = np.ones(self.group.shape, dtype=bool)
        for end, sign in ((low, 1.0), (high, -1.0)):
            for index, led in self._led(every, every & (sign < 0)):
                end[index] = self._end(level[index], sign, end[index], index, led)
        return low, high

    def _end(self, level: FloatArray, sign: float, limit: FloatArray, index: IntArray, led: bool) -> FloatArray:
        """Follow the curve in one direction until T reaches ``level``; ``limit`` if it never does."""
        left, right = self._coordinate_range(index, led)
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
        solution = roots(gap, np.zeros(index.size), right if sign > 0 else -left, x0=guess, direction="increasing")
        with np.errstate(all="ignore"):
            there = self.curve(sign * solution.x, index, led=led)
            # The score statistic is bounded: it may jump over the level where the curve ends.
            jumped = scored & ~(np.abs(np.sqrt(there.statistic) - target) <= MET * target)
        return np.where(solution.ok & ~jumped, there.disparity, limit)


def _points(means: Means, coordinate: FloatArray, index: IntArray) -> tuple[Point, Point]:
    """A point of each curve, on the natural scale and on the scale of the means."""
    if not isinstance(means, Linked):
        return (point := means.point(coordinate, index)), point
    point = means.natural.point(coordinate, index)
    return point, means.renamed(point)


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

    def outward(self, gap: Values, start: FloatArray, far: FloatArray, sign: float) -> FloatArray:
        """Where ``gap`` is 0, at most ``far`` standard errors from the estimate; infinite if it never is."""
        solution = roots(gap, np.zeros(far.size), far, x0=start, rtol=1e-11, direction="increasing")
        end = self.value + sign * solution.x * self.standard_error
        return np.where((far > 0) & solution.ok, end, sign * np.inf)


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
        """Report an effect on the scale of a link, whether its reference is known or not."""
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
    """The effects of all groups, reported as the link does.

    Problems given by counts are pooled: many small solves cost more than one large one.
    """
    counted = [(where, part) for where, part in parts if isinstance(part, ProfileLikelihood) and part.counted]
    others = [part for part in parts if not (isinstance(part[1], ProfileLikelihood) and part[1].counted)]
    pooled: list[Part] = []
    for sort in dict.fromkeys((part.kind, part.link) for _, part in counted):
        chosen = [(where, part) for where, part in counted if (part.kind, part.link) == sort]
        places = np.concatenate([where for where, _ in chosen])
        pooled.append((places, ProfileLikelihood.pooled([part for _, part in chosen])))
    every = (*pooled, *others)
    if link is not IDENTITY:
        every = tuple((where, OnScale.report(part, link)) for where, part in every)
    return Parts(value, every)
