"""The likelihood of a disparity: a group's mean less its reference, the reference estimated too.

Every reference leads to a curve with one parameter, the group's own coordinate (`means`), along which both the
disparity and T are explicit. With ν = n_G λ_G the multiplier of the group's mean:

fixed      the reference is a number θ:              ε = m_G - θ,  T = T_G.
disjoint   a group with no common row, or the rest:  T(ε) = min over θ of T_G(θ + ε) + T_R(θ). At the minimum
           n_R λ_R = -ν, so ε = m_G - m_R and T = T_G + T_R.
nested     the group lies inside its reference (the population): with C the reference's other rows and P the group's
           share, ε = (1 - P)(m_G - m_C) and T(ε) = min over P, θ of T_binomial(P) + T_G(θ + ε/(1 - P)) + T_C(θ). At
           the minimum n_C λ_C = -ν and, with d = m_G - m_C, P = n_G / (n - ν d): the share has a closed form, and
           so has its T.

T increases along the curve away from the estimate, so a test is one root (ε = ε₀) and each end of an interval another
(T = critical value).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.ratio.means import Binary, Means
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.roots import Values, roots


class Kind(StrEnum):
    """How a group and its reference share rows."""

    FIXED = "fixed"
    DISJOINT = "disjoint"
    NESTED = "nested"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Disparity and T at some coordinates, with derivatives along them."""

    disparity: FloatArray
    statistic: FloatArray
    ddisparity: FloatArray
    dstatistic: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Many groups, each with its reference.

    Problem j compares group ``own_index[j]`` of ``own`` with the number ``theta[j]`` (fixed), or with group
    ``other_index[j]`` of ``other``: the reference itself (disjoint) or the reference's rows outside the group (nested).

    Examples
    --------
    Half of 100 against a quarter of 200:

    >>> from isonomy.likelihood.ratio.means import Binary
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

    @classmethod
    def pooled(cls, parts: Sequence[Profile]) -> Profile:
        """The problems of several profiles of one kind, all of them of 0/1 rows, as one profile."""
        every = np.arange(sum(part.own_index.size for part in parts))
        own = _counts([(part.own, part.own_index) for part in parts])
        if parts[0].kind is Kind.FIXED:
            return cls(parts[0].kind, own, every, theta=np.concatenate([part.reference for part in parts]))
        other = _counts([(part.other, part.other_index) for part in parts])
        return cls(parts[0].kind, own, every, other=other, other_index=every)

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
        share = self.share
        return share * self.own.mean[self.own_index] + (1.0 - share) * self.other.mean[self.other_index]

    @property
    def disparity(self) -> FloatArray:
        """The estimated disparity."""
        mean = self.own.mean[self.own_index]
        if self.kind is Kind.FIXED:
            return mean - self.theta
        return (1.0 - self.share) * (mean - self.other.mean[self.other_index])

    @property
    def range(self) -> tuple[FloatArray, FloatArray]:
        """The disparities that some weighting of the rows can give lie strictly between these."""
        low, high = self.own.low[self.own_index], self.own.high[self.own_index]
        if self.kind is Kind.FIXED:
            return low - self.theta, high - self.theta
        return low - self.other.high[self.other_index], high - self.other.low[self.other_index]

    def plugged(self) -> Profile:
        """The same groups against their estimated references taken as known."""
        return Profile(Kind.FIXED, self.own, self.own_index, theta=self.reference)

    @property
    def standard_error(self) -> FloatArray:
        """The large-sample standard error of the disparity."""
        own = self.own.variance[self.own_index] / self.own.n[self.own_index]
        if self.kind is Kind.FIXED:
            return np.sqrt(own)
        share, other = self.share, self.other_index
        squared = (1.0 - share) ** 2 * (own + self.other.variance[other] / self.other.n[other])
        if self.kind is Kind.NESTED:
            gap = self.own.mean[self.own_index] - self.other.mean[other]
            rows = self.own.n[self.own_index] + self.other.n[other]
            squared = squared + gap**2 * share * (1.0 - share) / rows
        return np.sqrt(squared)

    def at(self, coordinate: FloatArray, index: IntArray) -> Curve:
        """The curve of the problems ``index`` at each coordinate."""
        group = self.own_index[index]
        point = self.own.at(coordinate, group)
        n = self.own.n[group]
        if self.kind is Kind.FIXED:
            slope = -2.0 * n * point.multiplier * point.dmean
            return Curve(point.mean - self.theta[index], point.statistic, point.dmean, slope)
        partner = self.other_index[index]
        m = self.other.n[partner]
        facing = self.other.coordinate(-n / m * point.multiplier, partner)
        mirror = self.other.at(facing, partner)
        dmirror = mirror.dmean / mirror.dmultiplier * (-n / m * point.dmultiplier)
        gap, dgap = point.mean - mirror.mean, point.dmean - dmirror
        statistic = point.statistic + mirror.statistic
        force = n * point.multiplier  # ν
        if self.kind is Kind.DISJOINT:
            return Curve(gap, statistic, dgap, -2.0 * force * dgap)
        rows = n + m
        pull = force * gap
        share = n / (rows - pull)
        dshare = share**2 * (n * point.dmultiplier * gap + force * dgap) / n
        # Beyond ν d = n_C no weighting of the rows exists: further than any disparity, in the direction of travel.
        exists = pull < m
        disparity = np.where(exists, (1.0 - share) * gap, -np.sign(force) * np.inf)
        slope = (1.0 - share) * dgap - gap * dshare
        cost = 2.0 * (rows * np.log1p(-pull / rows) - m * np.log1p(-pull / m))
        statistic = np.where(exists, statistic + np.maximum(cost, 0.0), np.inf)
        return Curve(disparity, statistic, slope, -2.0 * force / (1.0 - share) * slope)

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``; inf outside the range of the data."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.own_index.shape)
        if self.kind is Kind.FIXED:
            return self.own.statistic(target + self.theta, self.own_index)
        if self.kind is Kind.NESTED and not target.any():
            # Equal means: the share is free, and the group may as well be compared with the other rows alone.
            return replace(self, kind=Kind.DISJOINT).statistic(target)
        low, high = self.range
        inside = np.flatnonzero((target > low) & (target < high))
        left, right = self.own.ends(self.own_index[inside])

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            curve = self.at(x, inside[active])
            return curve.disparity - target[inside[active]], curve.ddisparity

        solution = roots(gap, left, right, x0=np.zeros(inside.size), direction="decreasing")
        result = np.where(target == self.disparity, 0.0, np.inf)
        with np.errstate(all="ignore"):
            result[inside] = self.at(solution.x, inside).statistic
        result[inside[~solution.ok]] = np.nan
        return result

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical`` (one for all, or one per problem): lower and upper ends."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.own_index.shape)
        low, high = self.range
        return self._end(level, 1.0, low), self._end(level, -1.0, high)

    def _end(self, level: FloatArray, sign: float, limit: FloatArray) -> FloatArray:
        """Follow the curve in one direction until T reaches ``level``; ``limit`` if it never does."""
        index = np.arange(self.own_index.size)
        left, right = self.own.ends(self.own_index)
        far = right if sign > 0 else -left
        target = np.sqrt(level)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            curve = self.at(sign * x, active)
            # sqrt T is nearly linear along the curve, so Newton's first steps are already good.
            height = np.sqrt(curve.statistic)
            return height - target[active], sign * curve.dstatistic / (2.0 * height)

        with np.errstate(all="ignore"):
            start = self.at(np.zeros(index.size), index)
            curvature = self.own.n[self.own_index] * np.abs(start.ddisparity) / (1.0 - self.share)
            guess = np.sqrt(level / curvature)
        solution = roots(
            gap, np.zeros(index.size), far, x0=np.where(np.isfinite(guess), guess, np.nan), direction="increasing"
        )
        with np.errstate(all="ignore"):
            end = self.at(sign * solution.x, index).disparity
        return np.where(solution.ok, end, limit)


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


def _counts(groups: Sequence[tuple[Means, IntArray]]) -> Binary:
    """The chosen groups of several sets of 0/1 rows, in one set."""
    binary = [(means, index) for means, index in groups if isinstance(means, Binary)]
    return Binary(np.concatenate([m.n[i] for m, i in binary]), np.concatenate([m.ones[i] for m, i in binary]))
