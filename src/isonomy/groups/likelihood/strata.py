"""Groups compared within strata: Mantel-Haenszel differences, ratios and odds ratios, for many groups at once.

A stratum s of a group holds n1 rows of the group and n0 rows that it is compared with, N = n1 + n0, with sums s1 and s0
of the metric. A stratum with an empty side carries no information. With w = n1 n0 / N:

difference     Σ w (s1/n1 - s0/n0) / Σ w              Sato (1989)
ratio          Σ (s1 n0 / N) / Σ (s0 n1 / N)          Greenland and Robins (1985), of its logarithm
odds ratio     Σ (s1 (n0 - s0) / N) / Σ (s0 (n1 - s1) / N)    Robins, Breslow and Greenland (1986), of its logarithm

These variances are right both for a few large strata and for many small ones. Numbers other than 0/1 have the same
weights and the strata's own variances. A stratum with a single row on one side has none, and its squared distance from
the common effect is used instead, which has the right mean if effects are equal.

The adjusted means Σ w (s1/n1) / Σ w and Σ w (s0/n0) / Σ w give the difference and the ratio. No averages of rates give
the odds ratio: there the group's adjusted rate is the one with that odds ratio to its reference.

At equality T is Cochran, Mantel and Haenszel's statistic, (Σ w (s1/n1 - s0/n0))² over its permutation variance,
Σ n1 n0 / (N (N - 1)) times the stratum's sum of squares. Elsewhere T is the squared distance in standard errors, on
Welch's degrees of freedom for numbers other than 0/1. For differences of rates it is the stratified score statistic of
Miettinen and Nurminen (1985, Statistics in Medicine 4: 213-226): the error is that of the likeliest rates with the
tested difference, stratum by stratum. At equality this is Cochran, Mantel and Haenszel's statistic again.

The strata account for the unconditional disparity minus (for ratios, divided by) the one within strata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from isonomy.frames import Design, Partition
from isonomy.groups.likelihood.joint import quadratic
from isonomy.groups.likelihood.lines import MetricRows, refuse_many
from isonomy.inference.designs import Contribution, Influence, Law, covariance, joint_law, spread
from isonomy.inference.effect import Effect, Fieller, Limits, Wald
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import roots
from isonomy.numerics.tails import chi2_isf, chi2_sf

Scale = Literal["difference", "ratio", "odds_ratio"]
# The tests of homogeneity need large strata: the smallest number of rows on a side, and the smallest fitted cell.
JUDGED_ROWS, JUDGED_CELL = 10, 1.0
# The smallest part of its variance that correcting for the error of the strata's means may leave of what they account
# for. By simulation, intervals hold at least the nominal level on either side of it.
DEGENERATE = 0.5
# Strata listed one by one: nobody reads more, and the table stays small.
SHOWN = 10_000
# With weights or clusters, the largest factor by which small strata may understate a variance: how much they do depends
# on how clusters are spread over strata, so there is no test beyond it.
CROWDED = 1.1
# The step by which the score of a difference of rates is differentiated.
STEP = 1e-7
WITHHELD = "(withheld)"  # the name of all withheld strata, as one


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """0 where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """One entry per pair of a group and a stratum in which it has rows.

    ``group`` is the group of each pair (of ``size`` groups), ``stratum`` its stratum; ``n1``, ``sum1``, ``square1`` are
    the rows, the sum and the sum of squares of the group there, ``n0``, ``sum0``, ``square0`` those of the rows that it
    is compared with. Squares are about ``center``, and so are ``cubes``, the sums of cubes on both sides (2 x pairs;
    None for 0/1 rows). ``elsewhere`` has, for each group, n0, sum0 and square0 over all strata in which the group has
    no row, and ``absent`` the number of these.
    """

    binary: bool
    center: float
    size: int
    group: IntArray
    stratum: IntArray
    n1: FloatArray
    sum1: FloatArray
    square1: FloatArray
    n0: FloatArray
    sum0: FloatArray
    square0: FloatArray
    elsewhere: FloatArray
    absent: IntArray
    cubes: FloatArray | None = None

    def total(self, values: npt.ArrayLike) -> FloatArray:
        weights = np.broadcast_to(np.asarray(values, dtype=float), self.group.shape)
        return np.bincount(self.group, weights=weights, minlength=self.size).astype(float)

    @property
    def merged(self) -> Strata:
        every = np.arange(self.size)
        n1, sum1, square1 = (self.total(part) for part in (self.n1, self.sum1, self.square1))
        others = zip((self.n0, self.sum0, self.square0), self.elsewhere, strict=True)
        n0, sum0, square0 = (self.total(part) + more for part, more in others)
        places, nowhere = (self.size, every, every * 0), np.zeros((3, self.size))
        return Strata(self.binary, self.center, *places, n1, sum1, square1, n0, sum0, square0, nowhere, every * 0)

    @property
    def rows(self) -> FloatArray:
        return self.n1 + self.n0

    @property
    def informative(self) -> BoolArray:
        return (self.n1 > 0) & (self.n0 > 0)

    @property
    def weight(self) -> FloatArray:
        return self.n1 * self.n0 / self.rows

    @property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """The means of both sides; 0 for an empty one."""
        return _ratio(self.sum1, self.n1), _ratio(self.sum0, self.n0)

    @property
    def spreads(self) -> tuple[FloatArray, FloatArray]:
        sides = zip(self.means, (self.n1, self.n0), (self.square1, self.square0), strict=True)
        first, second = (np.maximum(square - n * (mean - self.center) ** 2, 0.0) for mean, n, square in sides)
        return first, second

    @property
    def single(self) -> BoolArray:
        """Which pairs have a side with fewer than two rows, and so no variance of their own."""
        return np.minimum(self.n1, self.n0) < 2

    def sides(self, scale: Scale) -> tuple[FloatArray, FloatArray]:
        n1, n0, s1, s0, rows = self.n1, self.n0, self.sum1, self.sum0, self.rows
        if scale == "difference":
            return (s1 * n0 - s0 * n1) / rows, self.weight
        if scale == "ratio":
            return s1 * n0 / rows, s0 * n1 / rows
        return s1 * (n0 - s0) / rows, s0 * (n1 - s1) / rows

    def estimate(self, scale: Scale) -> FloatArray:
        """The common difference, ratio or odds ratio of each group; NaN if no stratum has two sides."""
        top, bottom = (self.total(side) for side in self.sides(scale))
        with np.errstate(all="ignore"):
            return top / bottom

    def adjusted(self, scale: Scale) -> tuple[FloatArray, FloatArray]:
        """The adjusted means of each group and of its reference; NaN if no stratum has two sides."""
        with np.errstate(all="ignore"):
            mine, theirs = (self.total(self.weight * mean) / self.total(self.weight) for mean in self.means)
            if scale != "odds_ratio":
                return mine, theirs
            # 0/0 where the reference's odds are 0 or infinite: the ratio is then infinite or 0 for any group.
            rate = theirs / (theirs + (1.0 - theirs) / self.estimate(scale))
        return np.where(np.isnan(rate), mine, rate), theirs

    def equality(self) -> FloatArray:
        """Cochran, Mantel and Haenszel's statistic of each group, without a continuity correction."""
        mine, theirs = self.means
        within = sum(self.spreads) + self.weight * (mine - theirs) ** 2
        with np.errstate(all="ignore"):
            variance = self.total(np.where(self.informative, self.weight * within / (self.rows - 1.0), 0.0))
            return np.where(variance > 0, self.total(self.weight * (mine - theirs)) ** 2 / variance, 0.0)

    def variance(self, scale: Scale) -> FloatArray:
        n1, n0, s1, s0, rows = self.n1, self.n0, self.sum1, self.sum0, self.rows
        top, bottom = self.sides(scale)
        with np.errstate(all="ignore"):
            if not self.binary:
                # Of Σ w (mean1 - ρ mean0 - δ) over its divisor; ρ = 1 for a difference, δ = 0 for a ratio.
                common, (mine, theirs), (first, second) = self.estimate(scale)[self.group], self.means, self.spreads
                factor, shift = (common, 0.0) if scale == "ratio" else (1.0, common)
                mean_variance = first / (n1 * (n1 - 1.0)) + factor**2 * second / (n0 * (n0 - 1.0))
                residual = mine - factor * theirs - shift
                part = self.weight**2 * np.where(self.single, residual**2, mean_variance)
                divisor = self.total(bottom if scale == "difference" else top)
                return self.total(np.where(self.informative, part, 0.0)) / divisor**2
            if scale == "difference":
                tilt = (n1**2 * s0 - n0**2 * s1 + n1 * n0 * (n0 - n1) / 2.0) / rows**2
                level = (s1 * (n0 - s0) + s0 * (n1 - s1)) / (2.0 * rows)
                squared = self.estimate(scale) * self.total(tilt) + self.total(level)
                return np.maximum(squared, 0.0) / self.total(bottom) ** 2
            above, below = self.total(top), self.total(bottom)
            if scale == "ratio":
                return self.total((n1 * n0 * (s1 + s0) - s1 * s0 * rows) / rows**2) / (above * below)
            agree = (s1 + n0 - s0) / rows
            part = self.total(agree * top) / above**2 + self.total((1.0 - agree) * bottom) / below**2
            return 0.5 * (part + self.total(agree * bottom + (1.0 - agree) * top) / (above * below))

    def effects(self, scale: Scale) -> tuple[FloatArray, FloatArray]:
        """Each pair's difference, or logarithm of a ratio, and its variance; NaN if it has none."""
        (mine, theirs), (first, second) = self.means, self.spreads
        less = 0.0 if self.binary else 1.0  # 0/1: the binomial variance of a rate, as in the usual formulas
        with np.errstate(all="ignore"):
            v1, v0 = first / (self.n1 * (self.n1 - less)), second / (self.n0 * (self.n0 - less))
            if scale == "difference":
                effect, variance = mine - theirs, v1 + v0
            elif scale == "ratio":
                effect, variance = np.log(mine / theirs), v1 / mine**2 + v0 / theirs**2
            else:
                effect = np.log((mine / (1.0 - mine)) / (theirs / (1.0 - theirs)))
                variance = v1 / (mine * (1.0 - mine)) ** 2 + v0 / (theirs * (1.0 - theirs)) ** 2
            known = self.informative & np.isfinite(effect) & np.isfinite(variance)
        return np.where(known, effect, np.nan), np.where(known, variance, np.nan)

    def limits(self, scale: Scale, alpha: float) -> FloatArray:
        """The interval of each pair's disparity: Newcombe's for differences of rates, Wald's otherwise."""
        (mine, theirs), (effect, variance) = self.means, self.effects(scale)
        square = float(chi2_isf(alpha, 1))
        with np.errstate(all="ignore"):
            reach = np.sqrt(square * variance)
            if scale != "difference" or not self.binary:
                ends = np.stack([effect - reach, effect + reach])
                return ends if scale == "difference" else np.exp(ends)
            wilson = []
            for n, rate in ((self.n1, mine), (self.n0, theirs)):
                half = np.sqrt(square * rate * (1.0 - rate) / n + (square / (2.0 * n)) ** 2)
                center, whole = rate + square / (2.0 * n), 1.0 + square / n
                wilson.append(((center - half) / whole, (center + half) / whole))
            (low1, high1), (low0, high0) = wilson
            below = np.sqrt((mine - low1) ** 2 + (high0 - theirs) ** 2)
            above = np.sqrt((high1 - mine) ** 2 + (theirs - low0) ** 2)
            return np.stack([effect - below, effect + above])

    def homogeneity(self, scale: Scale) -> tuple[FloatArray, IntArray]:
        """A test of equal effects in all strata: the statistic of each group and its degrees of freedom.

        Σ score² / information - (Σ score)² / Σ information, with scores at the common effect: Cochran's Q; for odds
        ratios Breslow and Day's statistic with Tarone's correction. Both need large strata, so only strata with at
        least `JUDGED_ROWS` rows on each side are used. NaN for fewer than two of these.
        """
        n1, n0, hits, common = self.n1, self.n0, self.sum1 + self.sum0, self.estimate(scale)[self.group]
        judged = np.minimum(n1, n0) >= JUDGED_ROWS
        with np.errstate(all="ignore"):
            if scale == "odds_ratio":
                # The root of (1 - ψ) a² + (ψ (n1 + m) + n0 - m) a - ψ n1 m in range, in the form that loses no digits.
                linear = common * (n1 + hits) + n0 - hits
                root = np.sqrt(np.maximum(linear**2 + 4.0 * (1.0 - common) * common * n1 * hits, 0.0))
                fitted = 2.0 * common * n1 * hits / (linear + root)
                cells = np.stack([fitted, n1 - fitted, hits - fitted, n0 - hits + fitted])
                judged &= cells.min(axis=0) >= JUDGED_CELL
                score, information = self.sum1 - fitted, 1.0 / np.sum(1.0 / cells, axis=0)
            else:
                effect, variance = self.effects(scale)
                judged &= variance > 0
                score = (effect - (common if scale == "difference" else np.log(common))) / variance
                information = 1.0 / variance
            square = self.total(np.where(judged, score**2 / information, 0.0))
            score, information = (self.total(np.where(judged, part, 0.0)) for part in (score, information))
            statistic = square - np.nan_to_num(score**2 / information)
        df = np.maximum(self.total(judged).astype(np.intp) - 1, 0)
        return np.where(df > 0, np.maximum(statistic, 0.0), np.nan), df

    def gradient(self, scale: Scale) -> FloatArray:
        """The derivatives of each group's difference (or logarithm of a ratio) by a pair's sum1, n1, sum0 and n0.

        They are influence values: a row x of the group has the influence d/dsum1 x + d/dn1, a row of the other side
        d/dsum0 x + d/dn0.
        """
        n1, n0, s1, s0, rows = self.n1, self.n0, self.sum1, self.sum0, self.rows
        top, bottom = self.sides(scale)
        zero = np.zeros_like(rows)
        # The derivatives of both sides by sum1, n1, sum0 and n0, times the rows.
        if scale == "difference":
            up, down = (n0, -s0 - top, -n1, s1 - top), (zero, n0 - bottom, zero, n1 - bottom)
        elif scale == "ratio":
            up, down = (n0, -top, zero, s1 - top), (zero, s0 - bottom, n1, -bottom)
        else:
            up, down = (n0 - s0, -top, -s1, s1 - top), (-s0, s0 - bottom, n1 - s1, -bottom)
        with np.errstate(all="ignore"):
            above, below = self.total(top)[self.group], self.total(bottom)[self.group]
            first, second = (1.0 / below, above / below**2) if scale == "difference" else (1.0 / above, 1.0 / below)
            return (first * np.stack(up) - second * np.stack(down)) / rows

    def contributions(self, scale: Scale) -> tuple[Contribution, Contribution]:
        """What the two sides contribute to each group's estimate, by the influence values of their rows."""
        assert self.cubes is not None
        gradient, rows, spreads = self.gradient(scale), (self.n1, self.n0), self.spreads
        squares, sides = (self.square1, self.square0), []
        for i, (n, mean, spread1, square) in enumerate(zip(rows, self.means, spreads, squares, strict=True)):
            slope, level, away = gradient[2 * i], gradient[2 * i] * mean + gradient[2 * i + 1], mean - self.center
            third = self.cubes[i] - 3.0 * away * square + 2.0 * n * away**3  # about the mean of the stratum
            cubes = slope**3 * third + 3.0 * slope**2 * level * spread1 + n * level**3
            second = slope**2 * spread1 + n * level**2
            cubes, second, loading = (np.where(self.informative, part, 0.0) for part in (cubes, second, np.abs(slope)))
            with np.errstate(all="ignore"):
                variance = self.total(second)
                effective = self.total(n * loading) ** 2 / self.total(n * loading**2)
                df = variance**2 / self.total(second**2 / np.maximum(n - 1.0, 1.0))
            sides.append(Contribution(self.total(cubes), variance, effective, df))
        return sides[0], sides[1]

    def levels(self, scale: Scale) -> FloatArray:
        """The derivatives of the mean influence of a pair's rows by its mean1 and mean0, then of the others' rows.

        That mean is (n0/N)² times (for the others (n1/N)² times) the pair's distance from the common effect.
        """
        mine, theirs = self.means
        with np.errstate(all="ignore"):
            above, below = (self.total(side)[self.group] for side in self.sides(scale))
            if scale == "odds_ratio":
                up, down = (1.0 - theirs) / above + theirs / below, -mine / above - (1.0 - mine) / below
            else:
                up, down = 1.0 / (below if scale == "difference" else above), -1.0 / below
            first, second = (self.n0 / self.rows) ** 2, (self.n1 / self.rows) ** 2
            return np.stack([first * up, first * down, second * up, second * down])

    def covariance(
        self, first: FloatArray, second: FloatArray, levels: tuple[FloatArray, FloatArray] | None = None
    ) -> FloatArray:
        """The covariance of two estimates with these gradients (4 x pairs), by group, for independent rows.

        With ``levels``, the contribution of the error of the strata's means is removed, and spreads about them are
        corrected for the degrees of freedom. A pair with a single row on one side has no spread about its mean; there
        the sums of the influence values over the stratum are multiplied, which is right if strata are many. Without,
        influence values are taken row by row as they are.
        """
        mine, theirs = self.means
        spread1, spread0 = self.spreads
        level1 = [part[0] * mine + part[1] for part in (first, second)]
        level0 = [part[2] * theirs + part[3] for part in (first, second)]
        with np.errstate(all="ignore"):
            inner = self.n1 * level1[0] * level1[1] + self.n0 * level0[0] * level0[1]
            if levels is None:
                return self.total(inner + first[0] * second[0] * spread1 + first[2] * second[2] * spread0)
            square1, square0 = _ratio(spread1, self.n1 - 1.0), _ratio(spread0, self.n0 - 1.0)
            inner = inner + self.n1 * first[0] * second[0] * square1 + self.n0 * first[2] * second[2] * square0
            error1, error0 = _ratio(square1, self.n1), _ratio(square0, self.n0)
            up1, down1, up0, down0 = levels[0] * levels[1]
            inner = inner - self.n1 * (up1 * error1 + down1 * error0) - self.n0 * (up0 * error1 + down0 * error0)
            outer = (self.n1 * level1[0] + self.n0 * level0[0]) * (self.n1 * level1[1] + self.n0 * level0[1])
        # A stratum with one side only has no estimate of its own: its rows count one by one.
        return self.total(np.where(self.single & self.informative, outer, inner))

    def crowding(self, scale: Scale) -> FloatArray:
        """The factor by which influence values row by row understate each group's variance: 1 if strata are large.

        They are deviations from the means of strata, which follow the rows more closely the fewer there are.
        """
        gradient, levels = self.gradient(scale), self.levels(scale)
        with np.errstate(all="ignore"):
            variance = np.maximum(self.covariance(gradient, gradient, (levels, levels)), 0.0)
            ratio = variance / self.covariance(gradient, gradient)
            return np.nan_to_num(np.maximum(ratio, 1.0), nan=1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Stratified(Effect):
    """The disparities within strata of the groups ``index``; Wald's T has the ``law``, if there is one."""

    strata: Strata
    scale: Scale
    index: IntArray
    law: Law | None = None

    @property
    def value(self) -> FloatArray:
        return self.strata.estimate(self.scale)[self.index]

    @property
    def standard_error(self) -> FloatArray:
        """That of the disparity itself, also for ratios."""
        return self._wald.standard_error * (1.0 if self.scale == "difference" else self.value)

    @property
    def _wald(self) -> Wald:
        """The estimate and its standard error, on the logarithmic scale for ratios."""
        with np.errstate(all="ignore"):
            center = self.value if self.scale == "difference" else np.log(self.value)
            return Wald(center, np.sqrt(self.strata.variance(self.scale)[self.index]))

    @property
    def _scored(self) -> bool:
        return self.strata.binary and self.scale == "difference"

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """Cochran, Mantel and Haenszel's statistic at equality.

        Elsewhere the squared distance in standard errors; for differences of rates, Miettinen and Nurminen's.
        """
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.index.shape)
        plain = self.scale == "difference"
        if self._scored:
            distance = self._score(target, np.arange(self.index.size)) ** 2
        else:
            with np.errstate(all="ignore"):
                distance = self._wald.statistic(target if plain else np.log(target))
            distance = distance if self.law is None else self.law.chi_square(distance)
        return np.where(target == (0.0 if plain else 1.0), self.strata.equality()[self.index], distance)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        """The disparities with T at most ``critical``; all possible ones if the error is unknown."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.index.shape)
        if self._scored:
            return self._end(level, -1.0), self._end(level, 1.0)
        wald, level = self._wald, level if self.law is None else self.law.critical(level)
        with np.errstate(all="ignore"):
            error = wald.standard_error
            known = np.isfinite(wald.value) & (error > 0) & np.isfinite(error)
            low, high = wald.interval(level)
            low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
            return (low, high) if self.scale == "difference" else (np.exp(low), np.exp(high))

    def _score(self, disparity: FloatArray, which: IntArray) -> FloatArray:
        """The distance of the groups ``which`` from these differences of rates, in standard errors at the null."""
        strata, null = self.strata, np.zeros(self.strata.size)
        null[self.index[which]] = disparity
        common, weight = null[strata.group], np.where(strata.informative, strata.weight, 0.0)
        mine, theirs = strata.means
        with np.errstate(all="ignore"):
            variance = np.where(strata.informative, weight**2 * restricted_variance(strata, common), 0.0)
            gap, squared = strata.total(weight * (mine - theirs - common)), strata.total(variance)
            score = np.where(squared > 0, gap / np.sqrt(squared), np.sign(gap) * np.inf)
        return np.where(gap == 0, 0.0, score)[self.index[which]]

    def _end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where the score reaches the root of ``level``, on one side of the estimate."""
        value, target = self.value, np.sqrt(level)
        known = np.isfinite(value)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            which = np.flatnonzero(known)[active]
            here, near = (-sign * self._score(sign * at, which) for at in (x, x - STEP))
            return here - target[which], (here - near) / STEP

        start = np.clip(sign * value[known], -1.0, 1.0)
        solution = roots(gap, start, np.ones(start.size), x0=0.5 * (start + 1.0), direction="increasing")
        end = np.full(value.size, sign)
        end[known] = np.where(solution.ok, sign * solution.x, sign)
        return end


def restricted_variance(strata: Strata, difference: FloatArray) -> FloatArray:
    """The variance of each pair's difference of rates under the likeliest rates that differ by ``difference``.

    In closed form (Miettinen and Nurminen 1985, appendix 1), with their factor N / (N - 1).
    """
    n1, n0, s0, rows, d = strata.n1, strata.n0, strata.sum0, strata.rows, difference
    hits = strata.sum1 + s0
    square = ((n1 + 2.0 * n0) * d - rows - hits) / (3.0 * rows)
    linear = ((n0 * d - rows - 2.0 * s0) * d + hits) / (3.0 * rows)
    constant = s0 * d * (1.0 - d) / rows
    bend = square**3 - 1.5 * square * linear + 0.5 * constant
    reach = np.where(bend < 0, -1.0, 1.0) * np.sqrt(np.maximum(square**2 - linear, 0.0))
    angle = (np.pi + np.arccos(np.clip(np.nan_to_num(bend / reach**3), -1.0, 1.0))) / 3.0
    rate = np.clip(2.0 * reach * np.cos(angle) - square, np.maximum(0.0, -d), np.minimum(1.0, 1.0 - d))
    spread = (rate + d) * (1.0 - rate - d) / n1 + rate * (1.0 - rate) / n0
    return np.maximum(spread, 0.0) * rows / (rows - 1.0)


class StratifiedLines:
    """Lines by group and stratum, and the `Strata` that they form.

    ``codes`` has the group of each line, of 0..size-1, or -1 for none; ``stratum`` its stratum, 0, 1, ...; ``value``
    and ``mass`` its metric, and the rows that it represents; ``compared`` the lines that groups are compared with, None
    for all. Rows of a group that are among these are removed from them or, if nothing would be left, from the group.
    """

    def __init__(
        self,
        codes: IntArray,
        stratum: IntArray,
        value: FloatArray,
        mass: FloatArray,
        compared: BoolArray | None,
        *,
        size: int,
        binary: bool,
    ) -> None:
        self.codes, self.stratum, self.value, self.mass, self.compared = codes, stratum, value, mass, compared
        self.wide = wide = int(stratum.max(initial=-1)) + 1
        center = 0.0 if binary else float(mass @ value / mass.sum())
        sums = np.stack([mass, *(mass * power for power in (value, (value - center) ** 2, (value - center) ** 3))])
        theirs = sums if compared is None else sums * compared
        pair, place = np.unique(np.where(codes >= 0, codes * wide + stratum, -1), return_inverse=True)
        inside = pair >= 0
        mine, common = (np.stack([np.bincount(place, part)[inside] for part in parts]) for parts in (sums, theirs))
        group, where = np.divmod(pair[inside], wide)
        facing = np.stack([np.bincount(stratum, part, minlength=wide) for part in theirs])
        # A group that holds every row it is compared with is represented by its other rows.
        shared = np.bincount(group, common[0], minlength=size)
        around = (shared == facing[0].sum())[group] & (compared is not None)
        mine = np.where(around, mine - common, mine)
        other = facing[:, where] - np.where(around, 0.0, common)
        other[:, other[0] <= 0] = 0.0
        present = np.stack([np.bincount(group, part, minlength=size) for part in facing[:, where]])
        filled = np.bincount(group, facing[0, where] > 0, minlength=size)
        weighing = mine[0] + other[0] > 0
        n1, sum1, square1, cube1, n0, sum0, square0, cube0 = np.vstack([mine, other])[:, weighing].astype(float)
        self.strata = Strata(
            *(binary, center, size, group[weighing], where[weighing]),
            *(n1, sum1, square1, n0, sum0, square0),
            elsewhere=(facing.sum(axis=1)[:, None] - present)[:3],
            absent=(np.count_nonzero(facing[0]) - filled).astype(np.intp),
            cubes=None if binary else np.stack([cube1, cube0]),
        )

    @classmethod
    def of_groups(cls, sums: MetricRows, partition: Partition, mass: FloatArray | None = None) -> StratifiedLines:
        assert sums.strata is not None
        columns = partition.codes, sums.strata.codes, sums.value, sums.mass if mass is None else mass
        return cls(*columns, sums.in_reference, size=len(partition.groups), binary=sums.binary)

    def influences(self, scale: Scale) -> Iterator[tuple[FloatArray, BoolArray]]:
        """For each group, the influence of the lines on its disparity within strata and on the unconditional one.

        Per unit of mass, on logarithms for ratios. The second array marks the group's own lines.
        """
        within, merged = self.strata.gradient(scale), self.strata.merged.gradient(scale)
        for group in range(self.strata.size):
            mine, other, pairs, where = self._sides(group)
            columns = []
            inside = np.append(within[:, pairs], np.zeros((len(within), 1)), axis=1)[:, where]  # -1: in none of them
            for gradient, known in ((inside, where >= 0), (merged[:, [group]], True)):
                slope1, size1, slope0, size0 = gradient
                with np.errstate(invalid="ignore"):  # groups without an estimate
                    first, second = slope1 * self.value + size1, slope0 * self.value + size0
                values = np.where(mine, first, np.where(other, second, 0.0))
                columns.append(np.where(known & np.isfinite(values), values, 0.0))
            yield np.column_stack(columns), mine

    def _sides(self, group: int) -> tuple[BoolArray, BoolArray, IntArray, IntArray]:
        mine, other = self.codes == group, np.ones(self.codes.size, dtype=bool)
        if self.compared is not None:
            other = self.compared
            if not (other & ~mine & (self.mass > 0)).any():
                mine = mine & ~other
        pairs = np.flatnonzero(self.strata.group == group)
        place = np.full(self.wide, -1)
        place[self.strata.stratum[pairs]] = np.arange(pairs.size)
        return mine, other & ~mine, pairs, place[self.stratum]

    def contrast(self, group: int) -> FloatArray:
        """Weights per unit of mass that sum lines to Σ w (mean1 - mean0) of a group, and to 0 in each stratum."""
        mine, other, pairs, where = self._sides(group)
        n1, n0 = (np.append(side[pairs], 0.0)[where] for side in (self.strata.n1, self.strata.n0))
        used = (n1 > 0) & (n0 > 0)
        with np.errstate(invalid="ignore"):
            return np.where(used & mine, n0 / (n1 + n0), np.where(used & other, -n1 / (n1 + n0), 0.0))


def strata_influence(sums: MetricRows, partition: Partition, scale: Scale) -> Influence:
    """The influence of each line on the disparity of each group, for rows with weights or clusters."""
    lines = StratifiedLines.of_groups(sums, partition)
    strata = lines.strata
    refuse_many("given", lines.codes.size, strata.size)
    both, mine = zip(*lines.influences(scale), strict=True)
    inner = np.column_stack([influence[:, 0] for influence in both])
    unit = np.ones(strata.size) if scale == "difference" else np.nan_to_num(strata.estimate(scale))
    return Influence.from_values(inner * unit * np.sqrt(strata.crowding(scale)), np.column_stack(mine))


def all_equal(sums: MetricRows, tested: Sequence[IntArray], effective: float) -> tuple[float, int, float]:
    """Cochran, Mantel and Haenszel's test that no tested group differs within strata: T, degrees of freedom, p-value.

    ``tested`` are the groups of each partition. Every group's Σ w (mean1 - mean0) is a sum over rows with weights that
    sum to 0 in each stratum, so their covariance for exchangeable rows within a stratum is known. With weights or
    clusters (``effective`` is their effective number) the law is that of sums over clusters.
    """
    columns = []
    for partition, groups in zip(sums.partitions, tested, strict=True):
        lines = StratifiedLines.of_groups(sums, partition)
        refuse_many("given", lines.codes.size, groups.size)
        columns += [lines.contrast(int(group)) for group in groups]
    contrasts, stratum = np.column_stack(columns), lines.stratum
    mass = lines.mass * (contrasts != 0).any(axis=1)
    rows, sums_of_values = (np.bincount(stratum, part).astype(float) for part in (mass, mass * lines.value))
    # Values minus the means of their strata, and the variance of rows drawn from a stratum without replacement.
    away = np.where(mass > 0, lines.value - _ratio(sums_of_values, rows)[stratum], 0.0)
    variance = _ratio(np.bincount(stratum, mass * away**2).astype(float), rows - 1.0)[stratum]
    statistic, df = quadratic(
        contrasts.T @ (lines.mass * away), contrasts.T @ ((lines.mass * variance)[:, None] * contrasts)
    )
    if sums.design is None or not df:
        return statistic, df, float(chi2_sf(statistic, df)) if df else 1.0
    law = joint_law(sums.design, Influence.from_values(contrasts * away[:, None]), df, effective)
    return statistic, df, law.tail(statistic)


def accounted(
    strata: Strata, scale: Scale, critical: npt.ArrayLike, covariance: FloatArray | None = None
) -> dict[str, FloatArray]:
    """How much of each group's disparity the strata account for.

    ``accounted`` is the unconditional difference minus the conditional one (for ratios, the one divided by the other),
    ``share`` its share of the unconditional difference (of the logarithms), with an interval that is unbounded if the
    unconditional disparity could be zero. ``critical`` is the square of the number of standard errors to either side.
    ``covariance`` (2 x 2 x groups) is that of the conditional and the unconditional disparity, if rows are dependent.
    """
    merged = strata.merged
    inner, outer = strata.estimate(scale), merged.estimate(scale)
    with np.errstate(all="ignore"):
        if scale != "difference":
            inner, outer = np.log(inner), np.log(outer)
        variances = _gap_covariance(strata, merged, scale) if covariance is None else gap_variances(covariance)
    return account_gap(inner, outer, variances, np.asarray(critical, dtype=float), ratio=scale != "difference")


def gap_variances(covariance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """As `_gap_covariance`, from the covariance (2 x 2 x groups) of the conditional and unconditional disparity."""
    with np.errstate(invalid="ignore"):
        v_gap = np.maximum(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1], 0.0)
    return v_gap, covariance[1, 1] - covariance[0, 1], covariance[1, 1]


def account_gap(
    inner: FloatArray,
    outer: FloatArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    critical: FloatArray,
    *,
    ratio: bool,
) -> dict[str, FloatArray]:
    """What lies between the conditional and the unconditional disparity: differences, or logarithms of a ratio."""
    v_gap, both, v_out = variances
    with np.errstate(all="ignore"):
        gap, reach = outer - inner, np.sqrt(critical * v_gap)
        ends = np.stack([gap, gap - reach, gap + reach, outer])
        value, low, high, unconditional = np.exp(ends) if ratio else ends
        share_low, share_high = Fieller(gap, outer, v_gap, both, v_out).interval(critical)
        shares = {"share": gap / outer, "share_low": share_low, "share_high": share_high}
        account = {"accounted": value, "accounted_low": low, "accounted_high": high}
        return {"unconditional": unconditional} | account | shares


def _gap_covariance(strata: Strata, merged: Strata, scale: Scale) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The variance of the unconditional disparity minus the conditional one, its covariance with the former, and v.

    v is the variance of the unconditional disparity. If strata hardly matter, the two are nearly the same estimate. The
    error of the strata's means is then most of the variance of their difference, and removing it would leave nothing or
    less: it stays in.
    """
    outer = merged.gradient(scale)
    spread, near = outer[:, strata.group], strata.levels(scale)
    far = np.stack([spread[0], 0.0 * spread[0], 0.0 * spread[0], spread[2]])
    gap, apart = spread - strata.gradient(scale), far - near
    # The contribution of rows in strata without anybody from the group.
    n, total, square = strata.elsewhere
    level = outer[2] * strata.center + outer[3]
    absent_rows = outer[2] ** 2 * square + 2.0 * outer[2] * level * (total - n * strata.center) + level**2 * n
    corrected = strata.covariance(gap, gap, (apart, apart)) + absent_rows
    plain = strata.covariance(gap, gap) + absent_rows
    v_out = strata.covariance(spread, spread, (far, far)) + absent_rows
    whole = corrected > DEGENERATE * plain
    both = np.where(whole, strata.covariance(gap, spread, (apart, far)), strata.covariance(gap, spread)) + absent_rows
    return np.where(whole, corrected, plain), both, v_out


def account_for_strata(sums: MetricRows, scale: Scale, alpha: float) -> dict[str, Any]:
    """The columns that strata add to each group: the comparison without them, and whether effects differ between them.

    ``strata`` have rows on both sides, ``one_sided`` do not; ``raw_estimate`` and ``raw_reference`` are the means of
    both sides without adjustment. A group that is itself the reference has its own mean.
    """
    every = [StratifiedLines.of_groups(sums, partition) for partition in sums.partitions]
    parts: list[dict[str, Any]] = []
    for partition, lines in zip(sums.partitions, every, strict=True):
        strata, merged = lines.strata, lines.strata.merged
        with np.errstate(all="ignore"):
            whole = partition.sum(sums.mass * sums.value) / partition.sum(sums.mass)
            raw, reference = merged.sum1 / merged.n1, merged.sum0 / merged.n0
        statistic, df = strata.homogeneity(scale)
        limits, matrices = np.full(strata.size, float(chi2_isf(alpha, 1))), None
        if sums.design is not None:  # tests of homogeneity assume independent rows
            statistic = np.full(statistic.shape, np.nan)
            limits, matrices = _clustered(sums.design, lines, scale, limits)
        parts.append(
            {
                "raw_estimate": np.where(merged.n1 > 0, raw, whole),
                "raw_reference": reference,
                **accounted(strata, scale, limits, matrices),
                "homogeneity": statistic,
                "homogeneity_df": df,
                "homogeneity_pvalue": chi2_sf(statistic, df),
                "strata": strata.total(strata.informative),
                "one_sided": strata.total(~strata.informative) + strata.absent,
            }
        )
    table: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return table | {"effects": _effects(sums, every, scale, alpha)}


def _clustered(
    design: Design, lines: StratifiedLines, scale: Scale, critical: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Critical values, and the covariance of both disparities of each group, by influence values over clusters."""
    matrices, limits, crowding = np.empty((2, 2, critical.size)), critical.copy(), lines.strata.crowding(scale)
    for group, (influence, mine) in enumerate(lines.influences(scale)):
        both = influence * np.sqrt([crowding[group], 1.0])
        matrices[:, :, group] = covariance(design, Influence.from_values(both, np.column_stack([mine, mine])))
        law = spread(design, Influence.from_values(both[:, 1] - both[:, 0], mine)).law(np.ones(1))
        limits[group] = Law(np.ones(1), law.df).critical(critical[group])[0]
    return limits, matrices


# ---- strata one by one


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Single strata; ``group`` is a place in the results, ``n`` and ``reference_n`` are rows, whatever their weights.

    ``complete``: every stratum of every group is listed with its rows; those with fewer than `JUDGED_ROWS` on a side
    have no other numbers. Otherwise these strata are left out.
    """

    group: IntArray
    stratum: tuple[str, ...]
    n: FloatArray
    estimate: FloatArray
    reference_n: FloatArray
    reference: FloatArray
    disparity: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    complete: bool


def _effects(sums: MetricRows, every: Sequence[StratifiedLines], scale: Scale, alpha: float) -> Effects:
    """All strata one by one or, if they are very many, those with enough rows."""
    assert sums.strata is not None
    names = [str(group) for group in sums.strata.groups]
    wide, start = len(names), 0
    complete = wide * sum(lines.strata.size for lines in every) <= SHOWN
    tables: list[AnyArray] = []
    for partition, weighted in zip(sums.partitions, every, strict=True):
        lines = weighted if sums.design is None else StratifiedLines.of_groups(sums, partition, sums.counts)
        part, rows = weighted.strata, lines.strata
        effect, ends = part.effects(scale)[0], part.limits(scale, alpha)
        if sums.design is not None:  # each stratum has too few clusters for a law of its own
            ends = np.full(ends.shape, np.nan)
        # Strata without weight are among the rows only.
        places = np.searchsorted(rows.group * wide + rows.stratum, part.group * wide + part.stratum)
        judged = part.informative & (np.minimum(rows.n1, rows.n0)[places] >= JUDGED_ROWS)
        numbers = np.full((5, rows.group.size), np.nan)
        disparity = effect if scale == "difference" else np.exp(effect)
        numbers[:, places[judged]] = np.stack([*part.means, disparity, *ends])[:, judged]
        table = np.stack([rows.group + start, rows.stratum, rows.n1, numbers[0], rows.n0, *numbers[1:]])
        if complete:
            # The rows compared with in strata without anybody from the group.
            mass = lines.mass if lines.compared is None else lines.mass * lines.compared
            facing = np.bincount(lines.stratum, mass, minlength=wide)
            absent = np.broadcast_to(facing > 0, (part.size, wide)).copy()
            absent[rows.group, rows.stratum] = False
            group, stratum = np.nonzero(absent)
            none = np.full(group.size, np.nan)
            table = np.hstack(
                [table, [group + start, stratum, 0.0 * group, none, facing[stratum], none, none, none, none]]
            )
        tables.append(table if complete else table[:, ~np.isnan(numbers[0])])
        start += part.size
    group, stratum, *columns = np.hstack(tables)[:, :SHOWN]
    order = ("n", "estimate", "reference_n", "reference", "disparity", "ci_low", "ci_high")
    labels = tuple(names[int(i)] for i in stratum)
    values = dict(zip(order, columns, strict=True))
    return Effects(group=group.astype(np.intp), stratum=labels, complete=complete, **values)


def published_effects(
    effects: Effects, n: FloatArray, minimum: int, named: Sequence[bool], *, to_group: bool
) -> Effects:
    """The strata without those that contain a small cell, and without any from which one follows.

    Strata are withheld whole, the smallest first, until all withheld strata together hold no row of a group or enough,
    and have no small cell as one stratum: then no sum or difference reveals a small one. If a group is withheld (its
    ``n`` is NaN), no stratum is listed, because the rows that others are compared with include its rows; nor if not
    every cell is known. ``named`` marks conditions, which may overlap with any group; ``to_group``: all groups are
    compared with one of them.
    """
    arrays = {item.name: getattr(effects, item.name) for item in fields(Effects)}
    complete = arrays.pop("complete")
    strata = np.array(arrays.pop("stratum"), dtype=object)
    if np.isnan(n).any() or (minimum > 1 and not complete):
        return Effects(stratum=(), complete=False, **{name: values[:0] for name, values in arrays.items()})
    names, place = np.unique(strata, return_inverse=True)
    cells = np.zeros((2, len(named), names.size))
    for side, rows in zip(cells, (effects.n, effects.reference_n), strict=True):
        np.add.at(side, (effects.group, place), rows)
    small = _revealing(cells, minimum, named, to_group=to_group)
    if not small.any():
        return effects
    order = np.lexsort((cells.sum(axis=(0, 1)), ~small))
    sums = np.cumsum(cells[:, :, order], axis=2)
    enough = ~_revealing(sums, minimum, named, to_group=to_group) & (np.arange(names.size) >= small.sum() - 1)
    last = int(np.argmax(enough)) if enough.any() else names.size - 1
    listed = ~np.isin(place, order[: last + 1])
    group = np.flatnonzero(sums[:, :, last].any(axis=0))
    mine, theirs = sums[:, group, last]
    withheld = dict.fromkeys(arrays, np.full(group.size, np.nan)) | {"group": group, "n": mine, "reference_n": theirs}
    return Effects(
        stratum=(*strata[listed], *(WITHHELD for _ in group)),
        complete=True,
        **{name: np.append(values[listed], withheld[name]) for name, values in arrays.items()},
    )


def _revealing(cells: FloatArray, minimum: int, named: Sequence[bool], *, to_group: bool) -> BoolArray:
    """The strata in which a cell is small, or the difference of two cells of people who may overlap."""
    few = np.asarray(((cells > 0) & (cells < minimum)).any(axis=(0, 1)), dtype=bool)
    apart = [np.abs(cells[0] - cells[0, i]) for i in np.flatnonzero(named)]
    if to_group:  # without its members in the group
        apart.append(np.diff(np.sort(cells[1], axis=0), axis=0))
    for difference in apart:
        few |= ((difference > 0) & (difference < minimum)).any(axis=0)
    return few
