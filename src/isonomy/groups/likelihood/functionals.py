"""Metrics that are not means over rows: f1, balanced accuracy, AUC, RMSE, R², quantiles; and how two of them compare.

Each has a value and influence values. The influence value of a row is its contribution to the estimate, in units of one
over the rows: the estimate minus the truth is the mean of the influence values, up to smaller terms, and they average
to 0. So value + influence are rows of a mean like any other (the pseudo-values of jackknife empirical likelihood: Jing,
Yuan and Zhou 2009). Ratios of sums follow the quotient rule, AUC DeLong, DeLong and Clarke-Pearson (1988).

In small groups such rows are too skewed for a likelihood: nine positives that all have a score above most negatives say
little about their spread. The test of a group therefore takes z(x), its distance in standard errors from the hypothesis
that the metric is x, from a law of its own:

AUC, RMSE, R²        (g(value) - g(x)) / error, g = logit, x^(-2/3), log(1 - x), with Welch's degrees of freedom. The
                     error is at least that of the reference's rows, less so the more rows the group has.
f1, balanced         the score statistic with its skewness: two binomial shares with a mean of x, or the share x/(2 - x)
accuracy             of true positives among all rows that are positive or predicted to be.
a quantile           the binomial probability of as many rows below x, half of those at x counted.

Two metrics a and b differ by d at the values x, x - d closest to both, as their variances share the distance D = a - b
- d: w D is that of a from x. With S = w D / z(x) the error of a there, T = D² / (S_a² + S_b²). T increases with |D|.
Rows that a group shares with its reference multiply each S by the factor that their influence on a - b has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from isonomy.groups.likelihood.profile import FEW_CASES, score_statistic
from isonomy.inference.effect import Effect, Limits, too_skewed
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import outward

# ---- values and influence values

Columns = Mapping[str, Any]
Evaluated = tuple[float, FloatArray]
# The normal deviate of 95 % intervals, and the rounding error of sums of masses.
NORMAL, ROUNDING = 1.959964, 1e-12
# Degrees of freedom of a law without any.
CERTAIN = 1e9
# Events below which an AUC has no law. Simulated scores, normal and exponential, with about 1 to 2 events reject 0.09
# to 0.20 of true nulls in 5 to 10 rows of a class, and with 4 or more at most 0.05 to 0.07.
EVENTS = 3.0
# Rows from which a group shows its skewness, and the factor on that of its reference, too small where tails are long.
SHOWING, CAUTION = 100.0, 2.0
# Places per row of a group from which sorting its rows is faster than counting all places.
SPARSE = 20


def _ratio(above: FloatArray, below: FloatArray, mass: FloatArray) -> Evaluated:
    value = float(mass @ above / (mass @ below))
    return value, (above - value * below) / (mass @ below / mass.sum())


def _f1(columns: Columns, mass: FloatArray) -> Evaluated:
    y, p = columns["outcome"], columns["prediction"]
    return _ratio(2.0 * y * p, y + p, mass)


def _balanced_accuracy(columns: Columns, mass: FloatArray) -> Evaluated:
    y, p = columns["outcome"], columns["prediction"]
    sensitivity, first = _ratio(y * p, y, mass)
    specificity, second = _ratio((1.0 - y) * (1.0 - p), 1.0 - y, mass)
    return 0.5 * (sensitivity + specificity), 0.5 * (first + second)


def ranked(roles: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """The columns of a metric with the places of all scores in order: a group's own need no other sort."""
    if "score" not in roles:
        return dict(roles)
    return {**roles, "rank": np.unique(roles["score"], return_inverse=True)[1].astype(float)}


def _places(columns: Columns) -> IntArray:
    if "rank" not in columns or SPARSE * columns["rank"].size < columns["rank"].max():
        return np.unique(columns.get("rank", columns["score"]), return_inverse=True)[1]
    return columns["rank"].astype(np.intp)


def _auc(columns: Columns, mass: FloatArray) -> Evaluated:
    """P(a positive's score exceeds a negative's), ties counted half; by ranks, in one sort."""
    y, place = columns["outcome"], _places(columns)
    size = int(place.max()) + 1
    ones, zeros = (np.bincount(place, weights=mass * part, minlength=size) for part in (y, 1.0 - y))
    below, above = np.cumsum(zeros) - 0.5 * zeros, ones.sum() - np.cumsum(ones) + 0.5 * ones
    positives, negatives = ones.sum(), zeros.sum()
    share = np.where(y == 1, below[place] / negatives, above[place] / positives)
    value = float(mass @ (y * share) / positives)
    total = positives + negatives
    return value, (share - value) * np.where(y == 1, total / positives, total / negatives)


def _mse(columns: Columns, mass: FloatArray) -> Evaluated:
    square = (columns["prediction"] - columns["outcome"]) ** 2
    value = float(np.average(square, weights=mass))
    return value, square - value


def _rmse(columns: Columns, mass: FloatArray) -> Evaluated:
    square, influence = _mse(columns, mass)
    return float(np.sqrt(square)), influence / (2.0 * np.sqrt(square))


def _r2(columns: Columns, mass: FloatArray) -> Evaluated:
    error, by_error = _mse(columns, mass)
    away = (columns["outcome"] - np.average(columns["outcome"], weights=mass)) ** 2
    variance = float(np.average(away, weights=mass))
    return 1.0 - error / variance, error / variance**2 * (away - variance) - by_error / variance


def _quantile(columns: Columns, mass: FloatArray) -> Evaluated:
    """The smallest value with at least this share of the mass at or below it; its influence values match its error.

    The error is that of Maritz and Jarrett (1978): the error of the k-th smallest of as many rows drawn from these,
    which is known without drawing. A density, the slope of the nearby quantiles, would be too small where the tail is
    long. Values that repeat more than a bandwidth (Hall and Sheather 1988) leave no density to speak of.
    """
    value, level = columns["value"], float(columns["level"][0])
    order, total = np.argsort(value, kind="stable"), float(mass.sum())
    ordered, below = value[order], np.cumsum(mass[order]) / total
    quantile = ordered[min(int(np.searchsorted(below, level - ROUNDING)), value.size - 1)]
    z = special.ndtri(level)
    height = np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi)
    bandwidth = (NORMAL**2 * 1.5 * height**2 / (2.0 * z**2 + 1.0) / total) ** (1.0 / 3.0)
    if mass @ (value == quantile) > min(bandwidth, 0.9 * level, 0.9 * (1.0 - level)) * total:
        return np.nan, np.zeros(value.size)
    rank = np.ceil(total * level - total * ROUNDING)
    chance = np.diff(special.betainc(rank, total - rank + 1.0, np.minimum(below, 1.0)), prepend=0.0)
    away = ordered - quantile  # the same error, without the digits that a large value would cost
    error = np.sqrt(max(float(chance @ away**2 - (chance @ away) ** 2), 0.0))
    under = value <= quantile
    share = float(mass @ under / total)
    return float(quantile), (share - under) * error * np.sqrt(total / (share * (1.0 - share)))


FUNCTIONALS: Mapping[str, Callable[[Columns, FloatArray], Evaluated]] = {
    "balanced_accuracy": _balanced_accuracy,
    "f1": _f1,
    "auc": _auc,
    "rmse": _rmse,
    "r2": _r2,
    "quantile": _quantile,
}


def evaluate(name: str, columns: Columns, mass: FloatArray) -> Evaluated:
    """The metric's value over some rows, and their influence values; NaN if it is not defined.

    A single class has no AUC, and the quantile of repeated values has no error that falls as rows are added.
    """
    plain = {role: np.asarray(values, dtype=float) for role, values in columns.items()}
    with np.errstate(all="ignore"):
        value, influence = FUNCTIONALS[name](plain, mass) if mass.sum() > 0 else (np.nan, np.zeros(mass.size))
    known = bool(np.isfinite(value) and np.isfinite(influence).all())
    return (value, influence) if known else (np.nan, np.zeros(mass.size))


# ---- the distance of a group's metric from a hypothesis


@dataclass(frozen=True, slots=True, eq=False)
class MetricDistance(ABC):
    """z(x) of a metric over some rows; ``variance`` is that of its estimate, by which a distance is shared."""

    value: float
    variance: float

    @abstractmethod
    def __call__(self, x: float) -> float:
        """z(x), at least 0."""

    @property
    def df(self) -> float:
        return CERTAIN

    @property
    def skewness(self) -> float:
        """The skewness of T's root that remains, in units of one over the root of the rows."""
        return 0.0

    @property
    def rows(self) -> float:
        return inf

    def events(self, reference: MetricDistance | None) -> float:
        """How often the rarer of two outcomes is expected in as many equal rows as carry this information."""
        return inf

    def beside(self, reference: MetricDistance | None) -> MetricDistance:
        """The same group where its reference has this distance."""
        return self


# |g(value) - g(x)|, with g' that of a logit or a logarithm at the value, and 1 / |g'| there. Of all powers of a mean
# square, the Student's t of the power -1/3 is least skewed if errors are normal.
Scale = tuple[Callable[[float, float], float], Callable[[float], float]]
SCALES: Mapping[str, Scale] = {
    "auc": (lambda value, x: float(special.logit(value) - special.logit(x)), lambda x: x * (1.0 - x)),
    "rmse": (lambda value, x: 1.5 * ((value / x) ** (2.0 / 3.0) - 1.0), lambda x: x),
    "r2": (lambda value, x: float(np.log((1.0 - value) / (1.0 - x))), lambda x: 1.0 - x),
}


@dataclass(frozen=True, slots=True, eq=False)
class Transformed(MetricDistance):
    """g(value) is normal; its variance is the sum of ``squares``, one per class, over the rows of that class, ``n``."""

    scale: str
    squares: FloatArray
    n: FloatArray
    skewness: float = 0.0

    @classmethod
    def from_influence(
        cls,
        scale: str,
        value: float,
        influence: FloatArray,
        mass: FloatArray,
        y: FloatArray | None,
        skewness: float = 0.0,
    ) -> Transformed:
        """Classes by ``y`` have influence values of their own."""
        classes = [np.ones(mass.size)] if y is None else [y, 1.0 - y]
        n = np.array([mass @ part for part in classes])
        unit = influence / SCALES[scale][1](value)
        powers = np.array([(mass * part) @ unit**2 for part in classes]) * (n / mass.sum()) ** 2
        squares = powers / np.maximum(n - 1.0, 1.0)
        return cls(value, float((squares / n).sum()) * SCALES[scale][1](value) ** 2, scale, squares, n, skewness)

    def __call__(self, x: float) -> float:
        gap, unit = SCALES[self.scale]
        return abs(gap(self.value, x)) / sqrt(float((self.squares / self.n).sum())) if unit(x) > 0 else inf

    @property
    def df(self) -> float:
        parts = self.squares / self.n
        return float(parts.sum() ** 2 / (parts**2 / np.maximum(self.n - 1.0, 1.0)).sum())

    @property
    def rows(self) -> float:
        return float(self.n.sum())

    def events(self, reference: MetricDistance | None) -> float:
        """By the reference's rows, if there is one: a variance of p(1 - p)/m means m rows with a share of p."""
        if self.scale != "auc":
            return inf
        usual = reference if isinstance(reference, Transformed) else self
        return 1.0 / (max(usual.value, 1.0 - usual.value) * float((usual.squares / self.n).sum()))

    def beside(self, reference: MetricDistance | None) -> Transformed:
        """Few rows seldom show how much they vary, or how skewed they are: as much as the reference's, at least."""
        if not isinstance(reference, Transformed):
            return self
        more = np.maximum(reference.squares - self.squares, 0.0) * np.minimum(FEW_CASES / self.n, 1.0)
        squares = self.squares + more
        variance = float((squares / self.n).sum()) * SCALES[self.scale][1](self.value) ** 2
        skewness = max(abs(self.skewness) if self.rows >= SHOWING else 0.0, CAUTION * abs(reference.skewness))
        return replace(self, variance=variance, squares=squares, skewness=skewness)


@dataclass(frozen=True, slots=True, eq=False)
class Shares(MetricDistance):
    """The mean of binomial shares, ``ones`` of ``n``, or an increasing function of one of them (f1)."""

    n: tuple[float, ...]
    ones: tuple[float, ...]
    f1: bool

    @classmethod
    def from_counts(cls, value: float, n: tuple[float, ...], ones: tuple[float, ...], *, f1: bool) -> Shares:
        """With one more row of either kind: a share of 0 or 1 may be another."""
        near = [(k + 1.0) / (m + 2.0) for m, k in zip(n, ones, strict=True)]
        slope = 2.0 / (1.0 + near[0]) ** 2 if f1 else 1.0 / len(n)
        variance = slope**2 * sum(p * (1.0 - p) / m for p, m in zip(near, n, strict=True))
        return cls(value, variance, n, ones, f1)

    def __call__(self, x: float) -> float:
        if not 0.0 < x < 1.0:
            return inf
        if self.f1:
            return self._score([x / (2.0 - x)])
        total = x * len(self.n)

        def gap(t: float) -> float:
            return sum(self._means(t)) - total

        edge = 1.0 - 1e-9
        if gap(-edge) * gap(edge) > 0:
            return inf
        return self._score(self._means(optimize.brentq(gap, -edge, edge, xtol=1e-13)))

    def _means(self, t: float) -> list[float]:
        """The likeliest shares with a multiplier of t / (1 - t²) for all rows (`Binary.point`)."""
        means, force = [], t / (1.0 - t * t) * sum(self.n)
        for n, ones in zip(self.n, self.ones, strict=True):
            p, pull = ones / n, force / n
            half = sqrt((1.0 - pull) ** 2 + 4.0 * pull * (1.0 - p))
            means.append(2.0 * p / (1.0 + pull + half) if pull > 0 else 1.0 - 2.0 * (1.0 - p) / (1.0 - pull + half))
        return means

    def _score(self, means: list[float]) -> float:
        second = third = 0.0
        for n, ones, m in zip(self.n, self.ones, means, strict=True):
            if 0.0 < m < 1.0:
                pull = (ones / n - m) / (m * (1.0 - m))
                second += n * m * (1.0 - m) * pull**2
                third += n * m * (1.0 - m) * pull**3 * (1.0 - 2.0 * m)
        return float(np.sqrt(score_statistic(np.array(second), np.array(third)))) if second > 0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Ranks(MetricDistance):
    """The rows below x are binomial with the quantile's ``level``; ``below`` counts those up to each of ``ordered``."""

    level: float
    ordered: FloatArray
    below: FloatArray
    total: float

    @classmethod
    def from_rows(cls, value: float, variance: float, level: float, values: FloatArray, mass: FloatArray) -> Ranks:
        ordered, place = np.unique(values, return_inverse=True)
        counts = np.bincount(place, weights=mass)
        return cls(value, variance, level, ordered, np.cumsum(counts) - 0.5 * counts, float(mass.sum()))

    def __call__(self, x: float) -> float:
        """Between two rows the count is between theirs; beyond all rows no other value is less likely."""
        count = float(np.interp(x, self.ordered, self.below, left=0.0, right=self.total))
        ends = self.total - count + 0.5, count + 0.5
        tail = special.betainc(*ends, 1.0 - self.level) if x < self.value else special.betainc(*ends[::-1], self.level)
        return max(-float(special.ndtri(tail)), 0.0)


def distance(name: str, columns: Columns, mass: FloatArray, value: float, influence: FloatArray) -> MetricDistance:
    """z(x) for rows with these columns and masses, whose metric has this value and these influence values."""
    plain = {role: np.asarray(values, dtype=float) for role, values in columns.items()}
    if name == "quantile":
        variance = float(mass @ influence**2) / float(mass.sum()) ** 2
        return Ranks.from_rows(value, variance, float(plain["level"][0]), plain["value"], mass)
    if name == "auc":
        return Transformed.from_influence(name, value, influence, mass, plain["outcome"])
    y, p = plain["outcome"], plain["prediction"]
    if name == "f1":
        hits = float(mass @ (y * p))
        return Shares.from_counts(value, (float(mass @ (y + p - y * p)),), (hits,), f1=True)
    if name == "balanced_accuracy":
        n = float(mass @ y), float(mass @ (1.0 - y))
        return Shares.from_counts(value, n, (float(mass @ (y * p)), float(mass @ ((1.0 - y) * (1.0 - p)))), f1=False)
    share = mass / mass.sum()
    error = (p - y) ** 2
    error = error / (share @ error) - 1.0
    unit = error
    if name == "r2":
        away = (y - share @ y) ** 2
        away = away / (share @ away) - 1.0
        unit = error - away
    # The skewness of a mean, less what the scale removes from that of its Student's t.
    second = float(share @ unit**2)
    bend = 1.5 * ((share @ (unit * error)) ** 2 - (share @ (unit * away)) ** 2) if name == "r2" else 2.0 * second**2
    skewed = float((share @ unit**3 - bend) / second**1.5) if second > 0 else 0.0
    return Transformed.from_influence(name, value, influence, mass, None, skewed)


# ---- two metrics compared


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """A group's metric less its reference's (or over it, if ``ratio``).

    ``theirs`` is a number if the reference is known. ``sums`` are those of squared influences: of the group's rows on
    its metric, of the same rows on both, on the reference's, and of the reference's other rows on it.
    """

    mine: MetricDistance
    theirs: MetricDistance | float
    sums: tuple[float, float, float, float]
    ratio: bool

    @property
    def reference(self) -> float:
        return self.theirs if isinstance(self.theirs, float) else self.theirs.value

    @property
    def value(self) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            mine, theirs = np.float64(self.mine.value), np.float64(self.reference)
            return float(np.log(mine / theirs) if self.ratio else mine - theirs)

    @property
    def error(self) -> float:
        times = self.mine.value / self.reference if self.ratio else 1.0
        mine, both, common, others = self.sums
        variance = max(mine - 2.0 * times * both + times**2 * common, 0.0) + times**2 * others
        return sqrt(variance) / (self.mine.value if self.ratio else 1.0)

    def shares(self, times: float) -> tuple[float, float, float]:
        """What common rows leave of either error, and the share of the group in the variance of the difference."""
        mine, both, common, others = self.sums
        first = sqrt(max(mine - 2.0 * times * both + times**2 * common, 0.0) / mine)
        if isinstance(self.theirs, float) or not common + others > 0:
            return first, 0.0, 1.0
        second = sqrt(others / (common + others))
        variance = first**2 * self.mine.variance, (times * second) ** 2 * self.theirs.variance
        return first, second, variance[0] / sum(variance)

    @property
    def df(self) -> float:
        share = self.shares(1.0)[2]
        theirs = CERTAIN if isinstance(self.theirs, float) else self.theirs.df
        return min(1.0 / (share**2 / self.mine.df + (1.0 - share) ** 2 / theirs), CERTAIN)

    def statistic(self, null: float) -> float:
        times, more = (np.exp(null), 0.0) if self.ratio else (1.0, null)
        away = self.mine.value - times * self.reference - more
        if away == 0 or np.isnan(away):
            return abs(away)
        first, second, share = self.shares(times)
        error = _over(first * share, self.mine(self.mine.value - share * away)) ** 2
        if not isinstance(self.theirs, float) and second > 0:
            error += _over(second * (1.0 - share), self.theirs(self.reference + (1.0 - share) * away / times)) ** 2
        return 1.0 / error if error > 0 else inf

    def end(self, critical: float, sign: float) -> float:
        value, error = self.value, self.error
        if not np.isfinite(value) or not error > 0:
            return np.nan

        def gap(x: float) -> float:
            return self.statistic(value + sign * x * error) - critical

        return value + sign * outward(gap, 1.2 * max(sqrt(critical), 1e-3), rtol=1e-12) * error


def _over(top: float, bottom: float) -> float:
    return inf if bottom == 0 else top / bottom


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts(Effect):
    """Many of them; on the scale of logarithms for ratios."""

    each: tuple[Contrast, ...]

    @property
    def value(self) -> FloatArray:
        return np.array([contrast.value for contrast in self.each])

    @property
    def standard_error(self) -> FloatArray:
        return np.array([contrast.error for contrast in self.each])

    @property
    def freedom(self) -> FloatArray:
        return np.array([contrast.df for contrast in self.each])

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        target = np.broadcast_to(np.asarray(null, dtype=float), (len(self.each),))
        return np.array([contrast.statistic(float(x)) for contrast, x in zip(self.each, target, strict=True)])

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), (len(self.each),))
        ends = [[part.end(float(c), sign) for part, c in zip(self.each, level, strict=True)] for sign in (-1.0, 1.0)]
        return np.array(ends[0]), np.array(ends[1])

    def lopsided(self, alpha: float, tests: int) -> BoolArray:
        third, variance = np.zeros(len(self.each)), np.zeros(len(self.each))
        for i, contrast in enumerate(self.each):
            share = contrast.shares(1.0)[2]
            for part, scale in ((contrast.mine, share), (contrast.theirs, 1.0 - share)):
                if not isinstance(part, float):
                    third[i] += abs(part.skewness) / sqrt(part.rows) * scale**1.5
                    variance[i] += scale
        return too_skewed(third, variance, alpha, tests)
