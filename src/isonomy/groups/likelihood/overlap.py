"""Comparisons that need a small joint likelihood each: overlapping or estimated references, standardized differences.

A group and a reference that share some rows and not others, or a reference that the caller estimated, have no
one-parameter curve. Each group is a joint likelihood (`joint`) with two estimating functions, the group's and the
reference's, and the reference is profiled.

Standardized differences (μ - θ)/σ take the errors of the group's mean, of the reference and of σ into account. At the
disparity d the group's mean is ρ = θ + d σ. σ is an estimate with influence values ψ, and the estimating functions are
1_G (x - ρ) and 1_R (x - ρ + d σ) + d P(R) ψ, with ρ profiled. At d = 0 they do not depend on σ, and T is that of the
difference. σ is the root of a mean of squares about a mean m, and ψ = ((x - m)² - σ²) / 2σ: the error of m does not
matter, because the mean of squares is smallest there.

Rates with few cases have a score statistic instead. Rows fall into three patterns k: in the group alone, in the
reference alone, in both. Every row has the coefficient a = 1_G/n_G - ρ 1_R/n_R in the contrast L = Σ a x - ε, whose
null value is 0; ρ is the ratio tested (1 for a difference) and ε the difference tested (0 for a ratio). The likeliest
rates m_k with Σ n_k a_k m_k = ε satisfy p_k - m_k = ν a_k m_k (1 - m_k): one root in ν. With these rates a row has the
influence a (x - m_k) + b_k on L, where b_k = 1_G (m_k - m_G)/n_G - ρ 1_R (m_k - m_R)/n_R is due to the chance sizes of
the patterns. The sums of its square and cube are the variance and the third moment of L at the null, and the root
L/√V is corrected for skewness as in `profile`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.groups.likelihood.joint import Functions, Joint, Patterns
from isonomy.groups.likelihood.means import IDENTITY, LOG, LOGIT, Binary, Link
from isonomy.groups.likelihood.profile import FEW_ROWS, STEP, score_statistic
from isonomy.inference.effect import Effect, Fieller, Limits, Logarithmic, Part, Parts, Wald
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import outward, roots
from isonomy.numerics.status import Status

# The rows whose standard deviation is the unit: all, the group and its reference about their means, the reference.
Sigma = Literal["population", "pooled", "reference"]
# The patterns of rows that are in a group, in its reference, and in both.
IN_GROUP, IN_REFERENCE = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
# Secant steps to an interval's end, and the relative step that ends them.
SECANTS, CLOSE = 12, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One group and its reference: which patterns belong to the group, and to the reference (a named group).

    With ``estimate`` the reference is the caller's value, whose influence values are the second column. Disparities are
    those of the ``link``; on the scale of ratios the data's origin lies ``center`` above zero.
    """

    data: Patterns
    in_group: FloatArray
    in_reference: FloatArray
    estimate: float | None = None
    link: Link = IDENTITY
    center: float = 0.0

    def pair(self) -> Pair:
        return self

    @property
    def means(self) -> tuple[float, float]:
        n, first = self.data.n, self.data.first[0]
        mean = float(self.in_group @ first / (self.in_group @ n))
        if self.estimate is not None:
            return mean, self.estimate
        return mean, float(self.in_reference @ first / (self.in_reference @ n))

    @property
    def value(self) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            mine, theirs = self.link.forward(np.array(self.means) + self.center)
            return float(mine - theirs)

    @property
    def reach(self) -> float:
        """No disparity is further than this from the estimate: the metric's whole range."""
        if self.link is not IDENTITY:
            return np.inf
        if self.estimate is not None:
            return float(np.ptp(self.data.columns[0]) + np.ptp(self.data.columns[1]))
        return 2.0 * float(np.ptp(self.data.columns[0]))

    @property
    def standard_error(self) -> float:
        """From the influence function 1_G (M - mean) n/n_G minus that of the reference, each divided by n."""
        second = self.data.moments(*self.functions(self.value, self.means[1]))[1]
        other = self.data.total if self.estimate is not None else float(self.in_reference @ self.data.n)
        with np.errstate(divide="ignore", invalid="ignore"):
            mine, theirs = self.link.unit(np.array(self.means) + self.center)
            parts = np.array([1.0 / float(self.in_group @ self.data.n) / mine, -1.0 / other / theirs])
            return float(np.sqrt(parts @ second @ parts))

    @property
    def rows(self) -> float:
        return float(min(self.in_group @ self.data.n, self.in_reference @ self.data.n))

    def welch(self) -> Effect:
        """The contrast of the two means, with their unbiased variances."""
        n = np.array([self.in_group @ self.data.n, self.in_reference @ self.data.n])
        second = self.data.moments(*self.functions(self.value, self.means[1]))[1] / np.sqrt(np.outer(n - 1.0, n - 1.0))
        (tt, tb), (_, bb) = second[:, :, None] / np.sqrt(np.outer(n, n))[:, :, None]
        if self.link is IDENTITY:
            return Wald(np.array([self.value]), np.sqrt(tt - 2.0 * tb + bb))
        top, bottom = (np.array([mean + self.center]) for mean in self.means)
        return Logarithmic(Fieller(top, bottom, tt, tb, bb))

    def functions(self, disparity: float, theta: float | None = None) -> tuple[Functions, FloatArray]:
        """1_G (M - θ - ε), or 1_G (M - r θ), and the reference's equation; with a start for θ unless it is given."""
        sides = self.in_group[:, None], self.in_reference, np.array([disparity])
        functions = Functions.compared(*sides, self.estimate, self.link, self.center)
        if theta is None:
            return functions, np.array([self.means[1]])
        mean = float(self.link.moved(theta + self.center, disparity)) - self.center
        known = np.column_stack([self.in_group * mean, functions.constant(np.array([theta]))[:, 1]])
        return replace(functions, nuisance=functions.nuisance[:, :, :0], offset=known), np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class StandardizedPair(Pair):
    """A group and θ + d σ, in units of σ from θ: the columns are the metric, and P(R) times its influence on σ.

    ``known``: θ is a number; then R is all rows, and the metric does not enter its equation.
    """

    standard_error: float = 0.0  # of the disparity
    known: bool = False

    @property
    def reach(self) -> float:
        """According to its influence values σ is never below half its estimate."""
        return 8.0 * float(np.ptp(self.data.columns[0]))

    def functions(self, disparity: float, theta: float | None = None) -> tuple[Functions, FloatArray]:
        """1_G (M - ρ), and the equation of ρ; a difference of 0 from a number leaves nothing to profile."""
        slope, zero = np.zeros((self.in_group.size, 2, 2)), np.zeros_like(self.in_group)
        slope[:, 0, 0], slope[:, 1, 0] = self.in_group, 0.0 if self.known else self.in_reference
        slope[:, 1, 1] = disparity
        if self.known and disparity == 0:
            return Functions(slope[:, :1], np.zeros((zero.size, 1, 0)), zero[:, None]), np.empty(0)
        nuisance = np.stack([self.in_group, self.in_reference], axis=1)[:, :, None]
        offset = np.stack([zero, -disparity * self.in_reference], axis=1)
        return Functions(slope, nuisance, offset), np.array([disparity])


@dataclass(frozen=True, slots=True, eq=False)
class StandardizedContrast:
    """A group and its reference among all rows, which have a ``value`` and a ``mass``.

    ``group`` are the group's rows, ``referents`` those of the reference (or the number that it is), ``unit`` those
    whose standard deviation is σ; None pools the group and its reference about their own means.
    """

    value_column: FloatArray
    mass: FloatArray
    group: BoolArray
    referents: BoolArray | float
    unit: BoolArray | None

    def _average(self, values: FloatArray, rows: BoolArray) -> tuple[float, FloatArray]:
        mass = self.mass[rows]
        total = float(mass.sum())
        if not total > 0:
            return np.nan, np.zeros(values.size)
        mean = float(mass @ values[rows] / total)
        return mean, np.where(rows, (values - mean) * (self.mass.sum() / total), 0.0)

    def fit(self) -> tuple[float, float, float, FloatArray, FloatArray]:
        """The disparity, the reference and σ, and the influence of each row on the disparity and on σ.

        The disparity is NaN where nothing varies. Influence values are in units of one over all rows.
        """
        x, referents = self.value_column, self.referents
        mean, on_mean = self._average(x, self.group)
        if isinstance(referents, float):
            reference, on_reference = referents, np.zeros(x.size)
        else:
            reference, on_reference = self._average(x, referents)
        if self.unit is not None:
            square, on_square = self._average((x - self._average(x, self.unit)[0]) ** 2, self.unit)
        else:
            assert not isinstance(referents, float)
            # A row on both sides counts twice.
            sides = [(self.group, mean), (referents, reference)]
            masses = [float(self.mass[rows].sum()) for rows, _ in sides]
            squares = [self._average((x - center) ** 2, rows)[0] for rows, center in sides]
            square = sum(mass * part for mass, part in zip(masses, squares, strict=True)) / sum(masses)
            away = [self.mass.sum() / sum(masses) * rows * ((x - center) ** 2 - square) for rows, center in sides]
            on_square = away[0] + away[1]
        sigma = float(np.sqrt(square))
        with np.errstate(all="ignore"):
            value = float(np.divide(mean - reference, sigma)) if sigma > 0 else np.nan
            on_sigma = on_square / (2.0 * sigma)
            return value, reference, sigma, (on_mean - on_reference - value * on_sigma) / sigma, on_sigma

    @property
    def value(self) -> float:
        return self.fit()[0]

    @property
    def standard_error(self) -> float:
        return float(np.sqrt(self.mass @ self.fit()[3] ** 2)) / float(self.mass.sum())

    @property
    def _blocks(self) -> list[BoolArray]:
        """The rows of the two samples: if one side contains the other, it and the rows outside it."""
        if isinstance(self.referents, float):
            return [self.group]
        if not (self.group & ~self.referents).any():
            return [self.group, self.referents & ~self.group]
        if not (self.referents & ~self.group).any():
            return [self.referents, self.group & ~self.referents]
        return [self.group, self.referents]

    @property
    def rows(self) -> float:
        return min(float(self.mass[rows].sum()) for rows in self._blocks)

    def welch(self) -> Effect:
        """The difference of the two means over σ, tested as Fieller does; at 0 by Welch's t of the difference."""
        value, _, sigma, influence, on_sigma = self.fit()
        blocks, total = self._blocks, float(self.mass.sum())
        apart = (sigma * influence + value * on_sigma) / total
        # A row in both of two overlapping samples adds to both.
        double = blocks[0] & blocks[-1] if len(blocks) > 1 else np.zeros_like(self.group)
        on_mean = np.where(double, self._average(self.value_column, self.group)[1] / total, apart)
        parts = []
        for rows, on in zip(blocks, (on_mean, np.where(double, apart - on_mean, apart)), strict=False):
            n = float(self.mass[rows].sum())
            centered = np.where(rows, on - self.mass[rows] @ on[rows] / n, 0.0)
            parts.append(centered * np.sqrt(n / max(n - 1.0, 1e-300)))
        apart, unit = np.sum(parts, axis=0), on_sigma / total
        sums = (float(self.mass @ product) for product in (apart**2, apart * unit, unit**2))
        return Fieller(*(np.array([part]) for part in (value * sigma, sigma, *sums)))

    def pair(self) -> StandardizedPair:
        _, reference, sigma, influence, on_sigma = self.fit()
        known = isinstance(self.referents, float)
        referents = np.ones_like(self.group) if isinstance(self.referents, float) else self.referents
        share = float(self.mass[referents].sum() / self.mass.sum())
        # About the reference and in units of σ, so that the metric's origin and unit do not matter to the solver.
        value = np.where(self.group | referents, (self.value_column - reference) / sigma, 0.0)
        data = Patterns(self.group.astype(np.intp) + 2 * referents, 4, (value, share * on_sigma / sigma), self.mass)
        mine, theirs = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])
        error = float(np.sqrt(self.mass @ influence**2)) / float(self.mass.sum())
        return StandardizedPair(data, mine, theirs, 0.0, standard_error=error, known=known)


@dataclass(frozen=True, slots=True, eq=False)
class Overlapping(Effect):
    """The likelihood of each pair's disparity; ``method`` is "el" or "eel".

    ``rows`` is n of the Euclidean likelihood, which is centered over all rows of the audit; None: those of the pair.
    """

    pairs: tuple[Pair | StandardizedContrast, ...]
    method: str
    rows: float | None = None

    @property
    def value(self) -> FloatArray:
        return np.array([pair.value for pair in self.pairs])

    @property
    def standard_error(self) -> FloatArray:
        return np.array([pair.standard_error for pair in self.pairs])

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        target = np.broadcast_to(np.asarray(disparity, dtype=float), (len(self.pairs),))
        return np.array([self._tested(pair.pair(), float(e)) for pair, e in zip(self.pairs, target, strict=True)])

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), (len(self.pairs),))
        ends = np.empty((2, level.size))
        for i, (pair, c) in enumerate(zip(self.pairs, level, strict=True)):
            built = pair.pair()
            ends[:, i] = self._end(built, float(c), -1.0), self._end(built, float(c), 1.0)
        return ends[0], ends[1]

    def by_welch(self) -> Effect:
        """The same pairs of rows that are not 0/1, with Welch's t for T if either side has few rows."""
        large = [i for i, pair in enumerate(self.pairs) if not pair.rows < FEW_ROWS]
        small = sorted(set(range(len(self.pairs))).difference(large))
        parts: list[Part] = [(np.array([i]), self.pairs[i].welch()) for i in small]
        if large:
            parts.append((np.array(large), replace(self, pairs=tuple(self.pairs[i] for i in large))))
        return Parts(self.value, tuple(parts))

    def _tested(self, pair: Pair, disparity: float, near: list[Joint] | None = None) -> float:
        """T, or NaN if the solver did not converge; ``near`` is the likelihood of a near null, and becomes this one."""

        def solved(theta: float | None = None) -> Joint:
            functions, start = pair.functions(disparity, theta)
            if self.method != "el":
                return pair.data.euclidean(functions, start, self.rows)
            if not near:
                return pair.data.likelihood(functions, start)
            return pair.data.likelihood(functions, near[0].theta if start.size else start, near[0])

        if disparity == pair.value:
            return 0.0
        if pair.link is not LOGIT:
            joint = solved()
            if near is not None:
                near[:] = [joint] if joint.status is Status.OK else []
            return np.nan if joint.status is Status.NOT_CONVERGED else joint.statistic
        # Odds are not linear in θ: search for it.
        start, fits = pair.means[1], float(pair.link.moved(pair.means[0], -disparity))
        ends = (min(start, fits), max(start, fits))

        def known(theta: float) -> float:
            return solved(theta).statistic

        return float(optimize.minimize_scalar(known, bounds=ends, method="bounded", options={"xatol": 1e-11}).fun)

    def _end(self, pair: Pair, level: float, sign: float) -> float:
        """Where T reaches the level: by secants, as its root is nearly linear, or else outward; NaN if T is unknown."""
        estimate, error, target = pair.value, pair.standard_error, float(np.sqrt(level))
        near: list[Joint] = []

        def gap(x: float) -> float:
            return float(np.sqrt(self._tested(pair, estimate + sign * x * error, near))) - target

        if not np.isfinite(estimate):  # no case on one side
            return np.nan
        before, x = (0.0, -target), target
        for _ in range(SECANTS):
            away = gap(x)
            if not np.isfinite(away) or away == before[1]:
                break
            step = away * (x - before[0]) / (away - before[1])
            before, x = (x, away), x - step
            if abs(step) <= CLOSE * x:
                return estimate + sign * x * error
            if not 0.25 * target < x < 4.0 * target:
                break
        near.clear()
        farthest = pair.reach / error if error > 0 else np.inf
        end = outward(gap, 1.2 * max(target, 1e-3), farthest, rtol=CLOSE)
        return sign * np.inf if np.isinf(end) else estimate + sign * end * error


@dataclass(frozen=True, slots=True, eq=False)
class OverlapScore(Effect):
    """The score statistics of groups and references that overlap, for 0/1 rows.

    ``n`` and ``ones`` have one column per pair, and a row for each pattern: in the group, in the reference, in both.
    The disparities are differences or, with the link `LOG`, logarithms of ratios.
    """

    n: FloatArray
    ones: FloatArray
    link: Link = IDENTITY

    def _sides(self, rates: FloatArray, pairs: IntArray | slice = slice(None)) -> tuple[FloatArray, ...]:
        """For both sides, each pattern's share of the side's rows per row, and the rate of the side."""
        n = self.n[:, pairs]
        shares = [member[:, None] / (member @ n) for member in (IN_GROUP, IN_REFERENCE)]
        return shares[0], shares[1], (shares[0] * n * rates).sum(axis=0), (shares[1] * n * rates).sum(axis=0)

    def _moments(self, rates: FloatArray, ratio: FloatArray, pairs: IntArray | slice = slice(None)) -> Limits:
        mine, theirs, group, reference = self._sides(rates, pairs)
        slope = mine - ratio * theirs
        level = mine * (rates - group) - ratio * theirs * (rates - reference)
        n, spread = self.n[:, pairs], rates * (1.0 - rates)
        third = slope**3 * spread * (1.0 - 2.0 * rates) + 3.0 * slope**2 * spread * level + level**3
        return (n * (slope**2 * spread + level**2)).sum(axis=0), (n * third).sum(axis=0)

    @property
    def value(self) -> FloatArray:
        _, _, group, reference = self._sides(self.ones / np.maximum(self.n, 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.link.forward(group) - self.link.forward(reference))

    @property
    def standard_error(self) -> FloatArray:
        rates = self.ones / np.maximum(self.n, 1.0)
        group, reference = self._sides(rates)[2:]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = group / reference if self.link is LOG else np.ones_like(group)
            return np.asarray(np.sqrt(self._moments(rates, ratio)[0]) / self.link.unit(group))

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.value.shape)
        return self._tested(target, np.arange(target.size))

    def _tested(self, disparity: FloatArray, pairs: IntArray) -> FloatArray:
        ratio = np.exp(disparity) if self.link is LOG else np.ones_like(disparity)
        shift = np.zeros_like(disparity) if self.link is LOG else disparity
        n, rates = self.n[:, pairs], self.ones[:, pairs] / np.maximum(self.n[:, pairs], 1.0)
        mine, theirs, group, reference = self._sides(rates, pairs)
        slope, gap = mine - ratio * theirs, group - ratio * reference - shift
        counts, every = Binary(np.ones(rates.size), rates.ravel()), np.arange(rates.size).reshape(rates.shape)

        def away(force: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            point = counts.point(force * slope[:, active], every[:, active])
            weight = n[:, active] * slope[:, active]
            total = (weight * point.mean).sum(axis=0) - shift[active]
            return total, (weight * slope[:, active] * point.dmean).sum(axis=0)

        unlimited = np.full(pairs.size, np.inf)
        solution = roots(away, -unlimited, unlimited, x0=np.zeros(pairs.size), direction="decreasing")
        with np.errstate(all="ignore"):
            variance, third = self._moments(counts.point(solution.x * slope, every).mean, ratio, pairs)
            root = np.abs(gap) / np.sqrt(variance)
            skewness = np.maximum(np.sign(gap) * third / variance**1.5, -1.0 / root)
            statistic = score_statistic(root**2, skewness * root**3)
        return np.where(gap == 0, 0.0, np.where(solution.ok & (variance > 0), statistic, np.inf))

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.sqrt(np.broadcast_to(np.asarray(critical, dtype=float), self.value.shape))
        return self._end(level, -1.0), self._end(level, 1.0)

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where the root of T reaches ``level``, on one side of the estimate; NaN without an estimate."""
        value, limit = self.value, 1.0 if self.link is IDENTITY else np.inf
        known = np.flatnonzero(np.isfinite(value))

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            pairs = known[active]
            here, near = (np.sqrt(self._tested(value[pairs] + sign * at, pairs)) for at in (x, x * (1.0 + STEP)))
            return here - level[pairs], (near - here) / (STEP * x)

        room, error = limit - sign * value[known], self.standard_error[known]
        solution = roots(gap, np.zeros(known.size), room, x0=level[known] * error, direction="increasing")
        end = np.full(value.shape, np.nan)
        end[known] = np.where(solution.ok, value[known] + sign * solution.x, sign * limit)
        return end
