"""Groups compared within strata: Mantel-Haenszel differences, ratios and odds ratios, for many groups at once.

A stratum s of a group holds n1 of the group's rows and n0 of those it is compared with, N = n1 + n0, with the sums s1
and s0 of the metric. A stratum in which one side is empty carries no information. With w = n1 n0 / N:

difference     Σ w (s1/n1 - s0/n0) / Σ w              Sato (1989)
ratio          Σ (s1 n0 / N) / Σ (s0 n1 / N)          Greenland and Robins (1985), of its logarithm
odds ratio     Σ (s1 (n0 - s0) / N) / Σ (s0 (n1 - s1) / N)    Robins, Breslow and Greenland (1986), of its logarithm

These variances are right both for a few large strata and for many small ones. Numbers other than 0/1 have the same
weights and the strata's own variances; a stratum with a single row on one side has none, and its squared distance from
the common effect stands in, which has the right mean when effects are equal.

The adjusted means Σ w (s1/n1) / Σ w and Σ w (s0/n0) / Σ w give the difference and the ratio. No averages of rates give
the odds ratio: there the group's adjusted rate is the one whose odds are that many times those of its reference.

At equality T is Cochran, Mantel and Haenszel's statistic, (Σ w (s1/n1 - s0/n0))² over its permutation variance,
Σ n1 n0 / (N (N - 1)) times the stratum's sum of squares. Elsewhere T is the squared distance in standard errors.

How much of a disparity strata account for: the unconditional one beside the one within strata.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import fieller

Scale = Literal["difference", "ratio", "odds_ratio"]
# The tests of homogeneity are large-sample tests within each stratum: rows a side must have, and counts a fitted cell.
JUDGED_ROWS, JUDGED_CELL = 10, 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """One entry per pair of a group and a stratum in which it has rows.

    ``group`` is the group of each pair (of ``size`` groups), ``stratum`` its stratum; ``n1``, ``sum1``, ``square1`` the
    rows, the sum and the sum of squares of the group there, ``n0``, ``sum0``, ``square0`` those it is compared with.
    Squares are about ``centre``. ``elsewhere`` has, for each group, n0, sum0 and square0 over all strata in which the
    group has no row, and ``absent`` the number of these.
    """

    binary: bool
    centre: float
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

    @classmethod
    def of_sides(
        cls,
        binary: bool,
        centre: float,
        places: tuple[IntArray, IntArray],
        own: FloatArray,
        other: FloatArray,
        elsewhere: FloatArray,
        absent: IntArray,
    ) -> Strata:
        """From the groups and strata of the pairs, and both sides' rows, sums and squares (3 x pairs)."""
        sides = own[0], own[1], own[2], other[0], other[1], other[2]
        return cls(binary, centre, absent.size, places[0], places[1], *sides, elsewhere, absent)

    def total(self, values: npt.ArrayLike) -> FloatArray:
        """The sum over each group's strata."""
        weights = np.broadcast_to(np.asarray(values, dtype=float), self.group.shape)
        return np.bincount(self.group, weights=weights, minlength=self.size).astype(float)

    @property
    def merged(self) -> Strata:
        """All strata of a group as one: the comparison without strata."""
        every = np.arange(self.size)
        own = np.stack([self.total(part) for part in (self.n1, self.sum1, self.square1)])
        other = np.stack([self.total(part) for part in (self.n0, self.sum0, self.square0)]) + self.elsewhere
        nowhere = np.zeros((3, self.size))
        return Strata.of_sides(self.binary, self.centre, (every, every * 0), own, other, nowhere, every * 0)

    @property
    def rows(self) -> FloatArray:
        """N of each pair."""
        return self.n1 + self.n0

    @property
    def informative(self) -> BoolArray:
        """Which pairs have rows on both sides."""
        return (self.n1 > 0) & (self.n0 > 0)

    @property
    def weight(self) -> FloatArray:
        """Mantel and Haenszel's weights w."""
        return self.n1 * self.n0 / self.rows

    @property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """The means of both sides; 0 for an empty one."""
        return _ratio(self.sum1, self.n1), _ratio(self.sum0, self.n0)

    @property
    def spreads(self) -> tuple[FloatArray, FloatArray]:
        """The sums of squares of both sides about their means."""
        sides = zip(self.means, (self.n1, self.n0), (self.square1, self.square0), strict=True)
        first, second = (np.maximum(square - n * (mean - self.centre) ** 2, 0.0) for mean, n, square in sides)
        return first, second

    @property
    def single(self) -> BoolArray:
        """Which pairs have a side with fewer than two rows, and so no variance of their own."""
        return np.minimum(self.n1, self.n0) < 2

    def sides(self, scale: Scale) -> tuple[FloatArray, FloatArray]:
        """The two sums whose ratio is the estimate, or for a difference its numerator and Σ w, by pair."""
        n1, n0, s1, s0, rows = self.n1, self.n0, self.sum1, self.sum0, self.rows
        if scale == "difference":
            return (s1 * n0 - s0 * n1) / rows, self.weight
        if scale == "ratio":
            return s1 * n0 / rows, s0 * n1 / rows
        return s1 * (n0 - s0) / rows, s0 * (n1 - s1) / rows

    def estimate(self, scale: Scale) -> FloatArray:
        """The common difference, ratio or odds ratio of each group; NaN where no stratum has two sides."""
        top, bottom = (self.total(side) for side in self.sides(scale))
        with np.errstate(all="ignore"):
            return top / bottom

    def adjusted(self, scale: Scale) -> tuple[FloatArray, FloatArray]:
        """The adjusted means of each group and of its reference; NaN where no stratum has two sides."""
        with np.errstate(all="ignore"):
            own, other = (self.total(self.weight * mean) / self.total(self.weight) for mean in self.means)
            if scale != "odds_ratio":
                return own, other
            # 0/0 where the reference's odds are 0 or infinite: the ratio is infinite or 0 then, whatever the group's.
            rate = other / (other + (1.0 - other) / self.estimate(scale))
        return np.where(np.isnan(rate), own, rate), other

    def equality(self) -> FloatArray:
        """Cochran, Mantel and Haenszel's statistic of each group, without a correction for continuity."""
        own, other = self.means
        within = sum(self.spreads) + self.weight * (own - other) ** 2
        with np.errstate(all="ignore"):
            variance = np.where(self.informative, self.weight * within / (self.rows - 1.0), 0.0)
            spread = self.total(variance)
            return np.where(spread > 0, self.total(self.weight * (own - other)) ** 2 / spread, 0.0)

    def variance(self, scale: Scale) -> FloatArray:
        """Of each group's difference, or of the logarithm of its ratio."""
        if not self.binary:
            return self._variance_of_numbers(scale)
        n1, n0, s1, s0, rows = self.n1, self.n0, self.sum1, self.sum0, self.rows
        top, bottom = self.sides(scale)
        with np.errstate(all="ignore"):
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

    def _variance_of_numbers(self, scale: Scale) -> FloatArray:
        """Of Σ w (mean1 - ρ mean0 - δ) over what it is divided by; ρ = 1 for a difference, δ = 0 for a ratio."""
        common = self.estimate(scale)[self.group]
        factor = common if scale == "ratio" else 1.0
        own, other = self.means
        first, second = self.spreads
        with np.errstate(all="ignore"):
            mean_variance = first / (self.n1 * (self.n1 - 1.0)) + factor**2 * second / (self.n0 * (self.n0 - 1.0))
            residual = own - factor * other - (common if scale == "difference" else 0.0)
            part = self.weight**2 * np.where(self.single, residual**2, mean_variance)
            scaled = self.total(self.sides(scale)[scale == "difference"])
            return self.total(np.where(self.informative, part, 0.0)) / scaled**2

    def effects(self, scale: Scale) -> tuple[FloatArray, FloatArray]:
        """Each pair's own difference, or logarithm of a ratio, and its variance; NaN where it has none."""
        own, other = self.means
        first, second = self.spreads
        with np.errstate(all="ignore"):
            # 0/1: the binomial variance of a rate, as the usual formulas have it.
            less = 0.0 if self.binary else 1.0
            v1, v0 = first / (self.n1 * (self.n1 - less)), second / (self.n0 * (self.n0 - less))
            if scale == "difference":
                effect, variance = own - other, v1 + v0
            elif scale == "ratio":
                effect, variance = np.log(own / other), v1 / own**2 + v0 / other**2
            else:
                odds = own / (1.0 - own), other / (1.0 - other)
                effect = np.log(odds[0] / odds[1])
                variance = v1 / (own * (1.0 - own)) ** 2 + v0 / (other * (1.0 - other)) ** 2
            known = self.informative & np.isfinite(effect) & np.isfinite(variance)
        return np.where(known, effect, np.nan), np.where(known, variance, np.nan)

    def homogeneity(self, scale: Scale) -> tuple[FloatArray, IntArray]:
        """Whether a group's effects differ between strata: the statistic of each group and its degrees of freedom.

        Cochran's Q; for odds ratios Breslow and Day's statistic with Tarone's correction. Only strata with at least
        `JUDGED_ROWS` rows on each side are judged: both statistics need large strata.
        """
        if scale == "odds_ratio":
            return self._breslow_day()
        effect, variance = self.effects(scale)
        judged = self._judged & (variance > 0)
        precision = np.where(judged, 1.0 / np.where(judged, variance, 1.0), 0.0)
        effect = np.where(judged, effect, 0.0)
        with np.errstate(all="ignore"):
            centre = self.total(precision * effect) / self.total(precision)
        statistic = self.total(precision * (effect - np.nan_to_num(centre)[self.group]) ** 2)
        return _judgement(statistic, self.total(judged))

    @property
    def _judged(self) -> BoolArray:
        return np.minimum(self.n1, self.n0) >= JUDGED_ROWS

    def _breslow_day(self) -> tuple[FloatArray, IntArray]:
        """Σ (s1 - fitted)² / variance less (Σ (s1 - fitted))² / Σ variance, fitted at the common odds ratio."""
        ratio = self.estimate("odds_ratio")[self.group]
        n1, n0, hits = self.n1, self.n0, self.sum1 + self.sum0
        with np.errstate(all="ignore"):
            # The root of (1 - ψ) a² + (ψ (n1 + m) + n0 - m) a - ψ n1 m in range, in the form that loses no digits.
            linear = ratio * (n1 + hits) + n0 - hits
            root = np.sqrt(np.maximum(linear**2 + 4.0 * (1.0 - ratio) * ratio * n1 * hits, 0.0))
            fitted = 2.0 * ratio * n1 * hits / (linear + root)
            cells = np.stack([fitted, n1 - fitted, hits - fitted, n0 - hits + fitted])
            judged = self._judged & (cells.min(axis=0) >= JUDGED_CELL)
            variance = np.where(judged, 1.0 / np.sum(1.0 / cells, axis=0), 0.0)
            residual = np.where(judged, self.sum1 - fitted, 0.0)
            statistic = self.total(np.where(judged, residual**2 / variance, 0.0))
            correction = self.total(residual) ** 2 / self.total(variance)
        return _judgement(statistic - np.nan_to_num(correction), self.total(judged))

    def gradient(self, scale: Scale) -> FloatArray:
        """The derivatives of each group's difference (or logarithm of a ratio) by a pair's sum1, n1, sum0 and n0.

        They are influence values: a row x of the group has the influence d/dsum1 x + d/dn1, a row of the other side
        d/dsum0 x + d/dn0.
        """
        n1, n0, s1, s0, rows = self.n1, self.n0, self.sum1, self.sum0, self.rows
        top, bottom = self.sides(scale)
        with np.errstate(all="ignore"):
            above, below = self.total(top)[self.group], self.total(bottom)[self.group]
            if scale == "difference":
                common = self.estimate(scale)[self.group]
                slope1, slope0 = n0 / rows, -n1 / rows
                size1 = (-s0 - top - common * (n0 - bottom)) / rows
                size0 = (s1 - top - common * (n1 - bottom)) / rows
                return np.stack([slope1, size1, slope0, size0]) / below
            if scale == "ratio":
                slope1, slope0 = n0 / rows / above, -n1 / rows / below
            else:
                slope1 = (n0 - s0) / rows / above + s0 / rows / below
                slope0 = -s1 / rows / above - (n1 - s1) / rows / below
            size1 = -top / rows / above - (s0 - bottom) / rows / below
            size0 = (s1 - top) / rows / above + bottom / rows / below
            return np.stack([slope1, size1, slope0, size0])

    def levels(self, scale: Scale) -> FloatArray:
        """The derivatives of the mean influence of a pair's own rows by its mean1 and mean0, then of the others'.

        That mean is (n0/N)² times (and the others' (n1/N)² times) the pair's distance from the common effect.
        """
        own, other = self.means
        with np.errstate(all="ignore"):
            above, below = (self.total(side)[self.group] for side in self.sides(scale))
            if scale == "odds_ratio":
                up, down = (1.0 - other) / above + other / below, -own / above - (1.0 - own) / below
            else:
                up, down = 1.0 / (below if scale == "difference" else above), -1.0 / below
            mine, theirs = (self.n0 / self.rows) ** 2, (self.n1 / self.rows) ** 2
            return np.stack([mine * up, mine * down, theirs * up, theirs * down])

    def covariance(
        self, first: FloatArray, second: FloatArray, levels: tuple[FloatArray, FloatArray] | None = None
    ) -> FloatArray:
        """Of two estimates with these gradients (4 x pairs), group by group, from their influence values.

        Rows are independent. With ``levels``, what the means of strata add by their own error is taken out again, and
        spreads about them are corrected for the rows these took. A pair with a single row on one side has no spread
        about its mean: there the sums of the influence values over the stratum are multiplied, which is right when
        strata are many. Without, influence values are taken row by row as they are.
        """
        own, other = self.means
        spread1, spread0 = self.spreads
        level1 = [part[0] * own + part[1] for part in (first, second)]
        level0 = [part[2] * other + part[3] for part in (first, second)]
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

    def influence_variance(self, scale: Scale) -> FloatArray:
        """The variance of each group's difference (or logarithm of a ratio) that does not take effects as equal."""
        gradient, levels = self.gradient(scale), self.levels(scale)
        return np.maximum(self.covariance(gradient, gradient, (levels, levels)), 0.0)

    def crowding(self, scale: Scale) -> FloatArray:
        """By how much influence values of rows one by one understate each group's variance: 1 where strata are large.

        They are taken about the means of strata, which follow the rows the more the fewer there are.
        """
        gradient = self.gradient(scale)
        with np.errstate(all="ignore"):
            return np.maximum(self.influence_variance(scale) / self.covariance(gradient, gradient), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Stratified:
    """The likelihood's place taken by a comparison within strata: T and intervals of the groups ``index``."""

    strata: Strata
    scale: Scale
    index: IntArray

    @property
    def disparity(self) -> FloatArray:
        """The common difference, ratio or odds ratio."""
        return self.strata.estimate(self.scale)[self.index]

    @property
    def standard_error(self) -> FloatArray:
        """Of the disparity itself, ratio or not."""
        error = np.sqrt(self.strata.variance(self.scale)[self.index])
        return error if self.scale == "difference" else self.disparity * error

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """Cochran, Mantel and Haenszel's at equality, else the squared distance in standard errors."""
        target = np.broadcast_to(np.asarray(disparity, dtype=float), self.index.shape)
        centre, error = self._centred
        with np.errstate(all="ignore"):
            value = target if self.scale == "difference" else np.log(target)
            distance = ((centre - value) / error) ** 2
        equal = target == (0.0 if self.scale == "difference" else 1.0)
        return np.where(equal, self.strata.equality()[self.index], distance)

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities within sqrt(critical) standard errors; all there are, where no row tells of any error."""
        centre, error = self._centred
        reach = np.sqrt(np.asarray(critical, dtype=float)) * error
        low, high = (-1.0, 1.0) if self.strata.binary and self.scale == "difference" else (-np.inf, np.inf)
        with np.errstate(all="ignore"):
            known = np.isfinite(centre) & (error > 0) & np.isfinite(error)
            ends = np.where(known, centre - reach, low), np.where(known, centre + reach, high)
            if self.scale != "difference":
                return np.exp(ends[0]), np.exp(ends[1])
        return np.maximum(ends[0], low), np.minimum(ends[1], high)

    @property
    def _centred(self) -> tuple[FloatArray, FloatArray]:
        """The estimate and its standard error, of logarithms for ratios."""
        with np.errstate(all="ignore"):
            centre = self.disparity if self.scale == "difference" else np.log(self.disparity)
        return centre, np.sqrt(self.strata.variance(self.scale)[self.index])


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines by group and stratum, as `strata_of` takes them."""

    codes: IntArray
    stratum: IntArray
    value: FloatArray
    mass: FloatArray
    compared: BoolArray | None

    def influence(self, strata: Strata, scale: Scale, group: int) -> tuple[FloatArray, FloatArray, BoolArray]:
        """What each line adds, per unit of mass, to one group's conditional and unconditional disparity.

        On the scale of ratios, to their logarithms. The third array says which lines are the group's own.
        """
        own, other, pairs, where = self._sides(strata, group)

        def spread(gradient: FloatArray, known: BoolArray) -> FloatArray:
            slope1, size1, slope0, size0 = gradient
            with np.errstate(invalid="ignore"):  # of groups that have no estimate
                mine, theirs = slope1 * self.value + size1, slope0 * self.value + size0
            result = np.where(own, mine, np.where(other, theirs, 0.0))
            return np.where(known & np.isfinite(result), result, 0.0)

        inner = spread(strata.gradient(scale)[:, pairs][:, where], where >= 0)
        outer = spread(strata.merged.gradient(scale)[:, [group] * self.codes.size], np.ones_like(own))
        return inner, outer, own

    def _sides(self, strata: Strata, group: int) -> tuple[BoolArray, BoolArray, IntArray, IntArray]:
        """The lines of one group, those it is compared with, its pairs, and the place among these of each line."""
        own, other = self.codes == group, np.ones(self.codes.size, dtype=bool)
        if self.compared is not None:
            other = self.compared
            if not (other & ~own & (self.mass > 0)).any():
                own = own & ~other
        pairs = np.flatnonzero(strata.group == group)
        place = np.full(int(self.stratum.max(initial=-1)) + 1, -1)
        place[strata.stratum[pairs]] = np.arange(pairs.size)
        return own, other & ~own, pairs, place[self.stratum]

    def contrast(self, strata: Strata, group: int) -> FloatArray:
        """The weights with which the lines' values add up to Σ w (mean1 - mean0) of one group, per unit of mass.

        In each stratum they add up to 0, whatever the values.
        """
        own, other, pairs, where = self._sides(strata, group)
        n1, n0 = (np.append(side[pairs], 0.0)[where] for side in (strata.n1, strata.n0))
        used = (n1 > 0) & (n0 > 0)
        with np.errstate(invalid="ignore"):
            return np.where(used & own, n0 / (n1 + n0), np.where(used & other, -n1 / (n1 + n0), 0.0))

    def deviations(self, contrasts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values less the means of their strata, over the lines with any weight; and the strata's variances, by line.

        The variances are those of drawing rows of a stratum without replacement.
        """
        mass = self.mass * (contrasts != 0).any(axis=1)
        wide = int(self.stratum.max(initial=-1)) + 1

        def total(values: FloatArray) -> FloatArray:
            return np.bincount(self.stratum, values, minlength=wide).astype(float)

        rows = total(mass)
        away = np.where(mass > 0, self.value - _ratio(total(mass * self.value), rows)[self.stratum], 0.0)
        return away, _ratio(total(mass * away**2), rows - 1.0)[self.stratum]


def strata_of(lines: Lines, size: int, *, binary: bool) -> Strata:
    """Lines by group and stratum, each group beside the other rows of its strata.

    Parameters
    ----------
    lines : Lines
        ``codes``: the group of each line, of 0..size-1, or -1 for none; ``stratum``: its stratum, from 0 up; ``value``
        and ``mass``: its metric, and the rows it stands for; ``compared``: the lines groups are compared with, all if
        None. Rows of a group that are among these are taken out of them or, if nothing would be left, out of the group.
    size : int
        The number of groups.
    binary : bool
        Whether the metric is 0 or 1.
    """
    codes, stratum, value, mass, compared = lines.codes, lines.stratum, lines.value, lines.mass, lines.compared
    centre = 0.0 if binary else float(mass @ value / mass.sum())
    sums = np.stack([mass, mass * value, mass * (value - centre) ** 2])
    wide = int(stratum.max(initial=-1)) + 1
    theirs = sums if compared is None else sums * compared
    pair, place = np.unique(np.where(codes >= 0, codes * wide + stratum, -1), return_inverse=True)
    inside = pair >= 0
    own, common = (np.stack([np.bincount(place, part)[inside] for part in parts]) for parts in (sums, theirs))
    group, where = np.divmod(pair[inside], wide)
    facing = np.stack([np.bincount(stratum, part, minlength=wide) for part in theirs])
    # A group that holds every row it is compared with is compared by its other rows.
    shared = np.stack([np.bincount(group, part, minlength=size) for part in common])
    around = (shared[0] == facing[0].sum())[group] & (compared is not None)
    own = np.where(around, own - common, own)
    other = facing[:, where] - np.where(around, 0.0, common)
    present = np.stack([np.bincount(group, part, minlength=size) for part in facing[:, where]])
    filled = np.bincount(group, facing[0, where] > 0, minlength=size)
    other[:, other[0] <= 0] = 0.0
    elsewhere = facing.sum(axis=1)[:, None] - present
    absent = (np.count_nonzero(facing[0]) - filled).astype(np.intp)
    weighing = own[0] + other[0] > 0
    both = own[:, weighing].astype(float), other[:, weighing].astype(float)
    return Strata.of_sides(binary, centre, (group[weighing], where[weighing]), *both, elsewhere, absent)


def _judgement(statistic: FloatArray, judged: FloatArray) -> tuple[FloatArray, IntArray]:
    """A statistic on one degree of freedom less than there are judged strata; NaN for fewer than two."""
    df = np.maximum(judged.astype(np.intp) - 1, 0)
    return np.where(df > 0, np.maximum(statistic, 0.0), np.nan), df


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """0 where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


# The least part of its variance that correcting for the error of strata's means may leave of what they account for. By
# simulation intervals hold at least the nominal share of tables on either side of it.
DEGENERATE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Accounted:
    """How much of each group's disparity the strata account for: what is left of the unconditional one is the other.

    ``value`` is the unconditional difference less the conditional one (for ratios, the one over the other), with a
    standard error of that difference (of its logarithm); ``share`` is its share of the unconditional difference (of
    the logarithms), with an interval that has no ends where the unconditional disparity could be none.
    """

    unconditional: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    share: FloatArray
    share_low: FloatArray
    share_high: FloatArray


def accounted(strata: Strata, scale: Scale, critical: npt.ArrayLike, covariance: FloatArray | None = None) -> Accounted:
    """The unconditional disparities beside the conditional ones; both come from the same rows.

    ``critical`` is the square of the number of standard errors to either side. ``covariance`` (2 x 2 x groups) is that
    of the conditional and the unconditional disparity where rows are not independent.
    """
    merged = strata.merged
    conditional, unconditional = strata.estimate(scale), merged.estimate(scale)
    with np.errstate(all="ignore"):
        own, other = (
            (conditional, unconditional) if scale == "difference" else (np.log(conditional), np.log(unconditional))
        )
        if covariance is None:
            v_gap, both, v_out = _gap_covariance(strata, merged, scale)
        else:
            v_gap = np.maximum(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1], 0.0)
            both, v_out = covariance[1, 1] - covariance[0, 1], covariance[1, 1]
        squares = np.asarray(critical, dtype=float)
        gap, reach = other - own, np.sqrt(squares * v_gap)
        ends = gap - reach, gap + reach
        value, low, high = (gap, *ends) if scale == "difference" else (np.exp(gap), np.exp(ends[0]), np.exp(ends[1]))
        return Accounted(
            unconditional, value, low, high, gap / other, *fieller(gap, other, v_gap, v_out, both, squares)
        )


def _gap_covariance(strata: Strata, merged: Strata, scale: Scale) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The variance of the unconditional disparity less the conditional one, its covariance with the former, and that's.

    Where strata hardly matter the two are nearly one estimate. What the means of strata add to their difference by
    their own error is then most of its variance, and taking it out would leave nothing or less: it stays in.
    """
    outer = merged.gradient(scale)
    spread, near = outer[:, strata.group], strata.levels(scale)
    far = np.stack([spread[0], 0.0 * spread[0], 0.0 * spread[0], spread[2]])
    gap, apart = spread - strata.gradient(scale), far - near
    beside = _elsewhere(strata, outer)
    corrected = strata.covariance(gap, gap, (apart, apart)) + beside
    plain = strata.covariance(gap, gap) + beside
    v_out = strata.covariance(spread, spread, (far, far)) + beside
    whole = corrected > DEGENERATE * plain
    both = np.where(whole, strata.covariance(gap, spread, (apart, far)), strata.covariance(gap, spread)) + beside
    return np.where(whole, corrected, plain), both, v_out


def _elsewhere(strata: Strata, outer: FloatArray) -> FloatArray:
    """What rows in strata without anybody of the group add to the variance of the unconditional disparity."""
    n, total, square = strata.elsewhere
    level = outer[2] * strata.centre + outer[3]
    return outer[2] ** 2 * square + 2.0 * outer[2] * level * (total - n * strata.centre) + level**2 * n
