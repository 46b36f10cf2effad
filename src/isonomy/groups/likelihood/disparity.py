"""Hypotheses about many disparities: their p-values and intervals, whatever likelihood answers for each.

The p-values of all groups together when no group differs: what their known covariance says of a family of tests.

Against the best: groups set beside the highest (or lowest) of all groups, which is itself unknown.

ρ_g is the least of the disparities of g from the others, and never above no difference: the best group's own is that.
Taking the largest mean in the data for the best would blame the runner-up and leave its error out. Multiple comparisons
with the best (Hsu 1984, 1996) count it:

ρ_g below r     is shown by any one of the k - 1 others: the smallest of their one-sided p-values, times k - 1;
ρ_g above r     needs every one of them: the largest of the one-sided p-values, as it is.

So one limit is the least of the others' lower limits, unadjusted, and the other the least of their upper limits at a
level divided by k - 1. As one statistic: T of the deciding pair below the estimate, and above it the T whose tail is k
- 1 times as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from isonomy.groups.likelihood.links import IDENTITY, LOGIT, Link
from isonomy.groups.likelihood.profile import Kind, OfProfile, Profile, counted
from isonomy.inference.decide import Alternative
from isonomy.inference.designs import Law
from isonomy.inference.simultaneous import normal_draws
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf, chi2_sf, normal_isf, normal_sf

Against = Literal["two-sided", "greater", "less", "outside", "outside-published"]
Interval = Literal["pointwise", "simultaneous", "one-sided"]


class Likelihood(Protocol):
    """What a hypothesis needs to know of some disparities: estimates, T at a value, the region where T is small."""

    @property
    def disparity(self) -> FloatArray:
        """The estimates."""

    @property
    def standard_error(self) -> FloatArray:
        """Their large-sample standard errors."""

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""


Part = tuple[IntArray, Likelihood]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The null hypothesis about each group's disparity ε.

    ``two-sided``  ε = low;  ``greater``  ε <= low, so that flagged groups are above it;  ``less``  ε >= low;
    ``outside``  low <= ε <= high, with p = ½ [P(χ²₁ > T(nearest end)) + P(χ²₁ > T(far end))] outside and 1 inside:
    the two-sided p when the ends meet, the one-sided p when they are far apart, and never too small in between.
    ``outside-published`` is the paper's p = ½ P(χ²₁ > T(nearest end)), whose size reaches twice alpha as the ends
    meet.
    """

    low: float
    high: float
    alternative: Against

    @property
    def side(self) -> Alternative:
        """The side a tolerance is asked about."""
        return self.alternative if self.alternative in ("greater", "less") else "two-sided"

    def side_of(self, delta: FloatArray, link: Link) -> FloatArray:
        """On which side of the null disparities lie: -1 below it, 1 above, 0 inside."""
        low, high = link.delta([self.low, self.high])
        return np.where(delta < low, -1.0, np.where(delta > high, 1.0, 0.0))

    def test(self, likelihood: Likelihood) -> tuple[FloatArray, FloatArray]:
        """T and the p-value of each disparity; T is 0 where the estimate lies inside a one-sided or interval null."""
        estimate = likelihood.disparity
        if self.alternative == "two-sided":
            statistic = likelihood.statistic(self.low)
            return statistic, chi2_sf(statistic, 1)
        if self.alternative in ("greater", "less"):
            beyond = estimate > self.low if self.alternative == "greater" else estimate < self.low
            statistic = np.where(beyond, likelihood.statistic(self.low), 0.0)
            return statistic, np.where(beyond, 0.5 * chi2_sf(statistic, 1), 1.0)
        inside = (estimate >= self.low) & (estimate <= self.high)
        above = estimate > self.high
        at_low, at_high = likelihood.statistic(self.low), likelihood.statistic(self.high)
        near, far = np.where(above, at_high, at_low), np.where(above, at_low, at_high)
        tail = 0.5 * chi2_sf(near, 1)
        if self.alternative == "outside":
            tail = tail + 0.5 * chi2_sf(far, 1)
        return np.where(inside, 0.0, near), np.where(inside, 1.0, tail)


def intervals(
    likelihood: Likelihood, kind: Interval, side: Alternative, alpha: float, tests: int
) -> tuple[FloatArray, FloatArray]:
    """Interval ends of each disparity.

    Simultaneous intervals use Sidak's level, 1 - (1 - alpha)^(1/m): exact for independent groups, and by Sidak's
    inequality conservative for any dependence of (asymptotically) normal estimates. A one-sided bound faces the
    alternative.
    """
    if kind == "one-sided":
        low, high = likelihood.interval(chi2_isf(2.0 * alpha, 1)) if alpha < 0.5 else likelihood.interval(0.0)
        unlimited = np.full(low.shape, np.inf)
        return (low, unlimited) if side == "greater" else (-unlimited, high)
    level = -np.expm1(np.log1p(-alpha) / max(tests, 1)) if kind == "simultaneous" else alpha
    return likelihood.interval(chi2_isf(level, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Rescaled:
    """A likelihood worked out in other units, one of which is ``scale`` of the metric's own.

    With ``scale`` -1 the roles of group and reference are exchanged.
    """

    inner: Likelihood
    scale: float

    @property
    def disparity(self) -> FloatArray:
        """The inner disparity in the metric's units."""
        return self.scale * self.inner.disparity

    @property
    def standard_error(self) -> FloatArray:
        """The inner standard error in the metric's units."""
        return abs(self.scale) * self.inner.standard_error

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T, which has no unit."""
        return self.inner.statistic(np.asarray(disparity, dtype=float) / self.scale)

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The inner interval in the metric's units."""
        low, high = (self.scale * end for end in self.inner.interval(critical))
        return (low, high) if self.scale > 0 else (high, low)


@dataclass(frozen=True, slots=True, eq=False)
class Designed:
    """A likelihood of rows that have weights or belong to clusters: T as a chi-square, by the ``law`` of its design."""

    inner: Likelihood
    law: Law

    @property
    def disparity(self) -> FloatArray:
        """The estimates."""
        return self.inner.disparity

    @property
    def standard_error(self) -> FloatArray:
        """The standard errors under the design."""
        return self.inner.standard_error * np.sqrt(self.law.effect)

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """The chi-square that is as far out as T is under the design."""
        return self.law.chi_square(self.inner.statistic(disparity))

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities whose chi-square is at most ``critical``."""
        return self.inner.interval(self.law.critical(critical))


@dataclass(frozen=True, slots=True, eq=False)
class OnScale:
    """A likelihood of δ on the scale of a link, its disparities reported as the link does: ratios as ratios."""

    inner: Likelihood
    link: Link

    @property
    def disparity(self) -> FloatArray:
        """The estimates."""
        return self.link.reported(self.inner.disparity)

    @property
    def standard_error(self) -> FloatArray:
        """Their large-sample standard errors."""
        return self.inner.standard_error * (self.disparity if self.link.ratio else 1.0)

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T, which does not depend on the scale."""
        return self.inner.statistic(self.link.delta(disparity))

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        low, high = self.inner.interval(critical)
        return self.link.reported(low), self.link.reported(high)


@dataclass(frozen=True, slots=True, eq=False)
class FromKnown:
    """A likelihood of means less known references ``theta``, its disparities reported as a link does."""

    inner: Likelihood
    theta: FloatArray
    link: Link

    @property
    def disparity(self) -> FloatArray:
        """The estimates."""
        return self._reported(self.inner.disparity)

    @property
    def standard_error(self) -> FloatArray:
        """Their large-sample standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = self.disparity / self.link.unit(self.theta + self.inner.disparity)
        return self.inner.standard_error * slope

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T, which does not depend on the scale."""
        return self.inner.statistic(self.link.moved(self.theta, self.link.delta(disparity)) - self.theta)

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        low, high = self.inner.interval(critical)
        return self._reported(low), self._reported(high)

    def _reported(self, difference: FloatArray) -> FloatArray:
        mean = self.theta + difference
        if self.link is LOGIT:
            mean = np.clip(mean, 0.0, 1.0)
        return self.link.compared(np.maximum(mean, 0.0), self.theta)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The likelihoods of those groups that are tested, each at its positions; T and intervals of others are NaN."""

    disparity: FloatArray
    parts: tuple[Part, ...]

    @classmethod
    def together(cls, disparity: FloatArray, parts: Sequence[Part]) -> Parts:
        """Problems known by counts become one: many small solves cost more than one large one."""
        alike = [(where, part) for where, part in parts if isinstance(part, Profile) and counted(part.own)]
        pooled: list[Part] = []
        for sort in dict.fromkeys((part.kind, part.link) for _, part in alike):
            chosen = [(where, part) for where, part in alike if (part.kind, part.link) == sort]
            positions = np.concatenate([where for where, _ in chosen])
            pooled.append((positions, Profile.pooled([part for _, part in chosen])))
        others = [p for p in parts if not (isinstance(p[1], Profile) and counted(p[1].own))]
        return cls(disparity, (*pooled, *others))

    def under(self, law: Law) -> Parts:
        """The same where rows have weights or clusters; ``law`` has one entry per group."""
        return Parts(self.disparity, tuple((where, Designed(part, law.at(where))) for where, part in self.parts))

    def on(self, link: Link) -> Parts:
        """The same likelihoods with their disparities reported as a link does."""
        if link is IDENTITY:
            return self
        return replace(self, parts=tuple((where, reported(part, link)) for where, part in self.parts))

    @property
    def tested(self) -> BoolArray:
        """Which groups have a likelihood."""
        mask = np.zeros(self.disparity.shape, dtype=bool)
        for positions, _ in self.parts:
            mask[positions] = True
        return mask

    @property
    def standard_error(self) -> FloatArray:
        """The large-sample standard errors of the disparities."""
        result = np.full(self.disparity.shape, np.nan)
        for positions, likelihood in self.parts:
            result[positions] = likelihood.standard_error
        return result

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.disparity.shape)
        result = np.full(self.disparity.shape, np.nan)
        for positions, likelihood in self.parts:
            result[positions] = likelihood.statistic(target[positions])
        return result

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.disparity.shape)
        low, high = np.full(self.disparity.shape, np.nan), np.full(self.disparity.shape, np.nan)
        for positions, likelihood in self.parts:
            low[positions], high[positions] = likelihood.interval(level[positions])
        return low, high


def reported(likelihood: Likelihood, link: Link) -> Likelihood:
    """A likelihood that reports its disparities as a link does, whether its reference is known or not."""
    problem = likelihood.problem if isinstance(likelihood, OfProfile) else likelihood
    if isinstance(problem, Profile) and problem.kind is Kind.FIXED:
        return FromKnown(likelihood, problem.theta, link)
    return OnScale(likelihood, link)


# Draws of all disparities together, where p-values are adjusted by them and where a rate is only looked at (0.05 then
# has an error of 0.0034), and the most numbers drawn.
DRAWS, RATE_DRAWS, NUMBERS = 10_000, 4_000, 20_000_000


def null_pvalues(
    covariance: FloatArray,
    hypothesis: Hypothesis,
    width: FloatArray,
    sign: FloatArray,
    rng: np.random.Generator,
    *,
    most: float = 1.0,
    draws: int = DRAWS,
) -> FloatArray:
    """P-values (draws x groups) where every disparity is at its null; those above ``most`` may be given as 1.

    An interval null is ``width`` standard errors wide, and each disparity at the end that ``sign`` points to.
    """
    deviation = np.sqrt(np.diagonal(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.nan_to_num(covariance / np.outer(deviation, deviation))
    np.fill_diagonal(correlation, 1.0)
    normal = normal_draws(correlation, max(min(draws, NUMBERS // max(width.size, 1)), 1_000), rng)
    if hypothesis.alternative == "two-sided":
        away = np.abs(normal)
        far, pvalues = away >= (1.0 - 1e-9) * normal_isf(most), np.ones(normal.shape)
        pvalues[far] = normal_sf(away[far])
        return pvalues
    if hypothesis.alternative in ("greater", "less"):
        beyond = normal if hypothesis.alternative == "greater" else -normal
        return np.where(beyond > 0, normal_sf(beyond, sides="one"), 1.0)
    outward = normal * sign
    near, far = (np.asarray(normal_sf(np.abs(root))) for root in (outward, outward + width))
    inside = (outward <= 0) & (outward >= -width)
    tail = 0.5 * (near + far)
    if hypothesis.alternative == "outside-published":
        tail = np.where(outward > 0, 0.5 * near, 0.5 * far)
    return np.asarray(np.where(inside, 1.0, tail))


@dataclass(frozen=True, slots=True, eq=False)
class AgainstBest:
    """The disparities of groups from the highest of all (``sign`` 1), or the lowest (-1), 0 meaning no difference.

    ``pairs`` are the disparities of each group from each other one, ``group`` (0 up, each with a pair at least) whose
    pair it is. On the scale of a link they are its δ.
    """

    pairs: Likelihood
    group: IntArray
    sign: float = 1.0

    @property
    def others(self) -> FloatArray:
        """With how many each group is compared."""
        return np.bincount(self.group).astype(float)

    @property
    def nearest(self) -> IntArray:
        """The pair that decides each group's disparity."""
        return self._least(self.sign * self.pairs.disparity)

    @property
    def disparity(self) -> FloatArray:
        """The estimates: no difference for the best group."""
        return self.sign * np.minimum(self.sign * self.pairs.disparity[self.nearest], 0.0)

    @property
    def standard_error(self) -> FloatArray:
        """That of the deciding pair."""
        return self.pairs.standard_error[self.nearest]

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``; infinite beyond no difference."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.others.shape)
        asked, estimate = self.sign * target, self.sign * self.disparity
        each = np.nan_to_num(self.pairs.statistic(target[self.group]), nan=0.0, posinf=np.inf)
        away = self.sign * self.pairs.disparity - asked[self.group]
        below, above = self._least(np.where(away < 0, -each, 0.0)), self._least(np.where(away > 0, each, 0.0))
        tail = chi2_sf(each[below], 1)
        shared = np.where(tail > 0, chi2_isf(np.minimum(1.0, self.others * tail), 1), each[below])
        statistic = np.where(asked > estimate, np.where(away[below] < 0, shared, 0.0), each[above])
        return np.where(asked > 0, np.inf, np.where(asked == estimate, 0.0, statistic))

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.others.shape)
        shared = chi2_isf(chi2_sf(level, 1) / self.others, 1)
        alone, together = (self.pairs.interval(each[self.group]) for each in (level, shared))
        near, far = (alone[0], together[1]) if self.sign > 0 else (-alone[1], -together[0])
        # Two groups without a single case say nothing of one another.
        low, high = np.where(np.isnan(near), -np.inf, near), np.where(np.isnan(far), np.inf, far)
        low, high = (np.minimum(end[self._least(end)], 0.0) for end in (low, high))
        return (low, high) if self.sign > 0 else (-high, -low)

    def _least(self, values: FloatArray) -> IntArray:
        """The place of each group's least value among the pairs."""
        order = np.lexsort((values, self.group))
        return order[np.flatnonzero(np.diff(self.group[order], prepend=-1))]


def every_pair(size: int) -> tuple[IntArray, IntArray]:
    """Each of ``size`` groups with each other one, pairs of one group together."""
    first, second = (part.ravel() for part in np.indices((size, size)))
    return first[first != second], second[first != second]


def widest(pairs: Likelihood, alpha: float, tests: int) -> tuple[int, float, float]:
    """The place of the pair with the largest gap, and an interval of the largest gap, which is one of several unknown.

    The gap is at least what some pair's interval shows, at a level shared by all ``tests`` of them, and at most what
    every pair's own interval allows.
    """
    least, most = gap_limits(pairs, alpha, tests)
    return int(np.nanargmax(np.abs(pairs.disparity))), max(float(np.nanmax(least)), 0.0), float(np.nanmax(most))


def gap_limits(pairs: Likelihood, alpha: float, tests: int) -> tuple[FloatArray, FloatArray]:
    """What each pair's interval shows of its gap at a level shared by ``tests`` of them, and what its own allows."""
    low, high = pairs.interval(chi2_isf(alpha, 1))
    most = np.maximum(-low, high)
    low, high = pairs.interval(chi2_isf(alpha / tests, 1))
    return np.maximum(low, -high), most
