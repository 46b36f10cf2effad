"""Planning: what rows can show, and how many a verdict needs.

A test at the disparity b has a root of T that is normal with variance 1 about z(b), which is far from 0 if the true
disparity is far from b. With τ the tolerance (0 without one), for both sides:

violation          p = P(Z > z(τ)) + P(Z > z(-τ)) as in `inference.effect.Hypothesis`, at most alpha
within tolerance   the interval lies inside: z(τ) below, and z(-τ) above, the quantile of a two-sided interval

0/1 metrics      z(b)² is T of the expected rates, by the likelihood that tests them (`profile`; Self and Mauritsen
                 1988): any reference, any scale. Against a known rate all outcomes are enumerated
others           z(b) = (m_G - μ(b)) / se, with μ(b) the mean that lies b from the reference θ, s its slope in θ, and
    known        se² = v_G/n_G (Corollary 2 of the paper)
    group, rest  se² = v_G/n_G + s² v_R/n_R
    population   se² = (1 - sP)² v_G/n_G + s² (1-P)² v_C/n_C + s² (m_G - m_C)² P(1-P)/n, with C the n_C rows outside
                 the group, P its share and n = n_G + n_C
                 with Welch's degrees of freedom; a dozen rows, even normal ones, look skewed, which bends T, or too
                 skewed for a verdict: the power is that of a bent T, times the probability that there is a verdict

Rows in clusters of m with an intraclass correlation ρ, each cluster within one group, are worth 1/(1 + (m - 1) ρ) as
many. T is then compared with F(1, ν) (`inference.designs`), with ν a third of the clusters minus one where their sums
are normal, and groups below a minimum number of clusters are not tested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.errors import UsageError
from isonomy.groups.likelihood.means import IDENTITY, LINKS, LOGIT, Binary, Link, linked
from isonomy.groups.likelihood.profile import FEW_ROWS, Kind, OnScale, ProfileLikelihood, odds_in_whole
from isonomy.groups.options import ScaleName
from isonomy.inference.decide import Alternative, inside, rejected
from isonomy.inference.designs import FEWEST
from isonomy.inference.effect import CALM, FURTHER, HIDDEN_FEW, SKEWED, Hypothesis, normal_skewness, unbend
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import bisection, root
from isonomy.numerics.tails import chi2_isf, interval_isf, normal_isf, normal_sf, t_isf, t_sf
from isonomy.options import Alpha, Finite, Fraction, Positive, Power, Tolerance, Whole, checked

Known = Literal["known", "group", "population"]
ALPHA = 0.05
# More rows than a float can count one by one.
MOST = 2.0**53
# Rows up to which all numbers of cases are enumerated, against a known rate.
ENUMERATED = 100_000
# How close to the end of the possible disparities the search for the largest one goes.
NEARLY = 1.0 - 1e-9
# A rate is 0 or 1 up to rounding if it is this close, relative to the reference's.
SETTLED = 1e-12
# The largest log ratio that is considered.
FARTHEST = 15.0
# Standard errors beyond which nothing changes, while differences of roots are still finite.
FAR = 1e9
MOVED = {"alternative": 'side="less"', "reference_variance": "variance=(that of the group, that of the reference)"}


class PlanningOptions(TypedDict, total=False):
    """The design of a planned comparison. `rows_needed`, `detectable_disparity` and `power_of` take these keywords.

    Parameters
    ----------
    reference : {"known", "group", "population"}, default "population"
        What the group is compared with: a number, a named group (or the rest), or the population.
    rate : float, optional
        The rate of the reference, for a 0/1 metric.
    mean : float, optional
        The mean of the reference, for the ratio of any other metric.
    variance : float or (float, float), optional
        The variance of any other metric; if it differs, in the group and in the reference.
    tolerance : float, optional
        The largest disparity that does not matter, as in `flag`. The answer would be shown to lie beyond it.
    scale : {"difference", "ratio", "odds_ratio", "standardized"}, default "difference"
        The unit of the disparity and the tolerance, as in `flag`. Standardized differences need no variance.
    cluster : (float, float), optional
        The number of rows in a cluster and their intraclass correlation, such as (20, 0.05). Each cluster lies within
        one group.
    alpha : float, default 0.05
        The error rate.
    side : {"two-sided", "greater", "less"}, default "two-sided"
        The side that is tested. "two-sided" and "greater" give a positive difference, "less" a negative one; for
        ratios, "two-sided" gives the one below 1.
    tests : int, default 1
        The number of groups tested at once: the level is alpha / tests.
    """

    reference: Known
    rate: Fraction | None
    mean: Positive | None
    variance: Positive | tuple[Positive, Positive] | None
    tolerance: Tolerance
    scale: ScaleName
    cluster: tuple[float, float] | None
    alpha: Alpha
    side: Alternative
    tests: Whole


@partial(checked, moved=MOVED)
def detectable_disparity(
    n: Positive, *, reference_n: Positive | None = None, power: Power = 0.8, **design: Unpack[PlanningOptions]
) -> float:
    """What is the smallest disparity that a group of ``n`` rows would show with the given power?

    Parameters
    ----------
    n : float
        Rows in the group.
    reference_n : float, optional
        Rows in the reference group, or outside the group if the reference is the population.
    power : float, default 0.8
        The probability of finding the disparity.
    **design
        reference, rate, mean, variance, tolerance, scale, cluster, alpha, side, tests: the design of the comparison;
        see `isonomy.PlanningOptions`.

    Returns
    -------
    float
        The disparity; infinite (for ratios below 1, 0) if even the largest possible one has less power.

    Notes
    -----
    Corollary 2 of the paper for a known reference; for rates, T at the expected rates is the noncentrality of the test.
    When it misleads: this is large-sample theory, too optimistic for a few dozen rows, and too pessimistic for clusters
    that contain rows of several groups.

    Examples
    --------
    >>> round(detectable_disparity(500, reference="group", reference_n=2000, rate=0.3), 4)
    0.0656
    >>> round(detectable_disparity(500, reference_n=2000, rate=0.3, scale="ratio", tolerance=0.8), 2)
    0.66
    """
    return PlannedComparison.designed(design, power).detectable(n, reference_n)


@partial(checked, moved=MOVED)
def rows_needed(
    disparity: Finite, *, ratio: Positive | None = None, power: Power = 0.8, **design: Unpack[PlanningOptions]
) -> int:
    """How many rows must a group have for the verdict that a disparity of this size deserves, with the given power?

    Parameters
    ----------
    disparity : float
        The true disparity, in the unit of ``scale``. Without a tolerance, or beyond it, the verdict is *violation*;
        inside it, *within tolerance*. No difference is 0, or a ratio of 1.
    ratio : float, optional
        Rows of the reference group (or of the population outside the group) for each row of the group; default 1.
    power, **design
        As in `detectable_disparity`.

    Returns
    -------
    int
        Rows in the group.

    Examples
    --------
    A difference of 5 points, and a tolerance of 5 points for a group that does not differ:

    >>> rows_needed(0.05, reference="group", ratio=4, rate=0.3)
    854
    >>> rows_needed(0.0, tolerance=0.05, reference="group", ratio=4, rate=0.3)
    1101
    >>> rows_needed(0.0, tolerance=0.05, reference="group", ratio=4, rate=0.3, cluster=(20, 0.05))
    2226
    """
    return PlannedComparison.designed(design, power).rows(disparity, ratio)


@partial(checked, moved=MOVED)
def power_of(
    disparity: Finite,
    standard_error: Positive | None = None,
    *,
    n: Positive | None = None,
    reference_n: Positive | None = None,
    **design: Unpack[PlanningOptions],
) -> float:
    """How often would the verdict that a disparity of this size deserves be reached?

    Parameters
    ----------
    disparity : float
        The true disparity, as in `rows_needed`.
    standard_error : float, optional
        The standard error of the estimated difference. Give either this or ``n``.
    n : float, optional
        Rows in the group, from which the error follows as in `detectable_disparity`.
    reference_n, **design
        As in `detectable_disparity`; with a standard error, only tolerance, scale, alpha, side and tests.

    Returns
    -------
    float
        A probability.

    Examples
    --------
    >>> round(power_of(0.05, 0.02), 3)
    0.705
    >>> round(power_of(0.0, n=1000, reference="group", reference_n=1000, rate=0.3, tolerance=0.05), 3)
    0.369
    """
    if (standard_error is None) == (n is None):
        raise UsageError("standard_error, n: give one of them, the error of the estimate or the rows of the group.")
    if n is not None:
        return PlannedComparison.designed(design, NEARLY).reached(disparity, n, reference_n)
    assert standard_error is not None
    of_rows = (reference_n, *map(design.get, ("rate", "mean", "variance", "cluster")))
    if any(given is not None for given in of_rows) or design.get("scale") in ("ratio", "odds_ratio"):
        raise UsageError("standard_error: options that describe the rows, and other scales, need n; leave them out.")
    reach = design.get("tolerance") or 0.0
    goal = Goal(design.get("side", "two-sided"), design.get("alpha", ALPHA) / design.get("tests", 1), reach)
    low, high = (disparity + reach) / standard_error, (disparity - reach) / standard_error
    return goal.chance(low, high, math.inf, within=goal.deserves_within(disparity))


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be shown: which side, beyond (or within) which tolerance, at which level."""

    alternative: Alternative
    level: float
    reach: float

    def chance(self, low: float, high: float, df: float, *, within: bool) -> float:
        """The probability that it is shown, if the roots at -τ and τ are distributed about ``low`` and ``high``."""
        low, high = (min(max(end, -FAR), FAR) for end in (low, high))
        facing = -low if self.alternative == "less" else high
        if within:
            quantile = t_isf(self.level / 2.0, df)
            if self.alternative != "two-sided":
                return float(t_sf(quantile + facing, df))
            return max(float(t_sf(quantile + high, df) + t_sf(quantile - low, df)) - 1.0, 0.0)
        critical = float(self.critical(low - high, df))
        if self.alternative != "two-sided":
            return float(t_sf(critical - facing, df))
        return float(t_sf(critical - high, df) + t_sf(critical + low, df))

    def critical(self, room: npt.ArrayLike, df: npt.ArrayLike) -> FloatArray:
        """The root beyond the nearer end of the tolerance with p = level; that at the other end is ``room`` more."""
        two_sided = self.alternative == "two-sided"
        return np.asarray(interval_isf(room, self.level, df) if two_sided else t_isf(self.level, df))

    def deserves_within(self, disparity: float) -> bool:
        """Whether *within tolerance* is the right verdict on a disparity; otherwise *violation* is."""
        beyond = {"greater": disparity, "less": -disparity, "two-sided": abs(disparity)}[self.alternative]
        if beyond == self.reach and self.reach > 0:
            raise UsageError("disparity: it lies at the end of the tolerance, where neither verdict can be expected.")
        return beyond < self.reach


def detectable(error: FloatArray, rate: FloatArray, goal: Goal, power: float, df: FloatArray, link: Link) -> FloatArray:
    """The smallest disparity that would be shown to lie beyond the tolerance; one for each error.

    For a two-sided test, the larger difference, and the smaller ratio. ``rate`` is that of the reference, for 0/1
    metrics (NaN for others): a group that differs has another variance. T is then that of one group against a known
    rate, with as many rows as would estimate such a rate with the same error.
    """
    both, reach = goal.alternative == "two-sided", goal.reach
    signs = {"greater": (1.0,), "less": (-1.0,)}.get(goal.alternative, (-1.0,) if link.ratio else (1.0, -1.0))
    with np.errstate(all="ignore"):
        beyond = goal.critical(2.0 * reach / error, df) + t_isf(1.0 - power, df)
        divergence = beyond**2 * (error * link.unit(rate)) ** 2 / (2.0 * rate * (1.0 - rate))
        shown = []
        for sign in signs:
            linear = sign * (reach + beyond * error)
            delta = link.forward(_diverging(link.moved(rate, sign * reach), sign, divergence)) - link.forward(rate)
            shown.append(np.where(np.isfinite(divergence), delta, linear))
        sizes = np.abs(shown)
        possible = np.where(np.isfinite(sizes), sizes, -np.inf).max(axis=0)
        size = np.where(np.isnan(error), np.nan, np.where(possible < 0, np.inf, possible))
    return link.reported(size if both and not link.ratio else signs[0] * size)


def _diverging(edge: FloatArray, sign: float, divergence: FloatArray) -> FloatArray:
    """The rate beyond ``edge`` whose Kullback-Leibler divergence from it is ``divergence``; NaN if there is none."""

    def apart(rate: FloatArray) -> FloatArray:
        return np.asarray(special.rel_entr(rate, edge) + special.rel_entr(1.0 - rate, 1.0 - edge))

    end = np.full(edge.shape, 1.0 if sign > 0 else 0.0)
    possible = (edge > 0) & (edge < 1) & (apart(end) >= divergence)
    return np.where(possible, bisection(lambda rate: apart(rate) < divergence, edge, end), np.nan)


@dataclass(frozen=True, kw_only=True)
class PlannedComparison:
    """A planned comparison: the options of the call. ``variance`` is that of the group and that of the reference."""

    power: float
    reference: Known = "population"
    rate: float | None = None
    mean: float | None = None
    variance: tuple[float | None, float | None] = (None, None)
    tolerance: float | None = None
    scale: ScaleName = "difference"
    cluster: tuple[float, float] | None = None
    alpha: float = ALPHA
    side: Alternative = "two-sided"
    tests: int = 1

    @classmethod
    def designed(cls, design: Mapping[str, Any], power: float) -> PlannedComparison:
        variance = design.get("variance")
        sides = variance if isinstance(variance, (tuple, list)) else (variance, None)
        return cls(**{**design, "variance": sides, "power": power})

    def __post_init__(self) -> None:
        binary, (variance, other_variance) = self.rate is not None, self.variance
        standardized, ratio_of_means = self.scale == "standardized", self.scale == "ratio" and not binary
        cluster = [float(number) for number in self.cluster] if isinstance(self.cluster, (tuple, list)) else []
        refusals = (
            (
                self.power <= self.alpha / self.tests,
                f"power: {self.power!r} is not allowed; give more than the level, {self.alpha / self.tests:g}, which "
                "is the power of a test without any disparity.",
            ),
            (
                standardized and (binary or self.mean is not None or self.variance != (None, None)),
                "rate, mean, variance: leave them out with scale='standardized', whose unit they are.",
            ),
            (
                not standardized and binary == (variance is not None),
                "rate, variance: give one of them: the reference's rate, or the metric's variance in the group.",
            ),
            (
                other_variance is not None and (binary or self.reference == "known"),
                "variance: give one; a rate has its own variance, and a known reference has none.",
            ),
            (self.scale == "odds_ratio" and not binary, "scale: 'odds_ratio' is for 0/1 metrics; give a rate."),
            (
                ratio_of_means and self.mean is None,
                "mean: give the reference's mean, above 0, for a ratio of a metric that is not 0/1.",
            ),
            (
                self.mean is not None and not ratio_of_means,
                "mean: leave it out; only the ratio of a metric that is not 0/1 depends on it.",
            ),
            (
                self.link.ratio and self.tolerance is not None and self.tolerance >= 1,
                f"tolerance: {self.tolerance!r} is not allowed; a tolerated ratio lies between 0 and 1 (0.8 tolerates "
                "0.8 to 1.25).",
            ),
            (
                self.cluster is not None and (len(cluster) != 2 or not cluster[0] >= 1 or not 0 <= cluster[1] <= 1),
                f"cluster: {self.cluster!r} is not allowed; give (rows of a cluster, intraclass correlation), such as "
                "(20, 0.1).",
            ),
        )
        for refused, message in refusals:
            if refused:
                raise UsageError(message)

    @cached_property
    def link(self) -> Link:
        return LINKS["difference" if self.scale == "standardized" else self.scale]

    @cached_property
    def goal(self) -> Goal:
        return Goal(self.side, self.alpha / self.tests, self.link.reach(self.tolerance) or 0.0)

    @property
    def sign(self) -> float:
        """The direction of the disparity; for a two-sided test the larger difference, and the smaller ratio."""
        return -1.0 if self.side == "less" or (self.side == "two-sided" and self.link.ratio) else 1.0

    @property
    def theta(self) -> float:
        return self.rate if self.rate is not None else self.mean or 0.0

    def detectable(self, n: float, reference_n: float | None) -> float:
        """The smallest disparity that ``n`` rows show; infinite (0 for ratios) if even the largest has less power."""
        other, reach = self._reference_rows(n, reference_n), self.goal.reach

        def missing(size: float) -> float:
            return self.chance(self.sign * size, n, other, within=False) - self.power

        high = self._largest(n, other)
        if math.isinf(high):
            high = FARTHEST if self.link.ratio else reach + 100.0 * self._error(0.0, 0.0, n, other)
        if high <= reach or missing(high) < 0:
            return float(self.link.reported(self.sign * math.inf))
        return float(self.link.reported(self.sign * root(missing, reach, high).x))

    def rows(self, disparity: float, ratio: float | None) -> int:
        """The rows that a group needs to show a disparity beyond the tolerance or, if it is smaller, within it."""
        if ratio is not None and self.reference == "known":
            raise UsageError("ratio: leave it out; a known reference has no rows.")
        other = 1.0 if ratio is None else float(ratio)
        self._refuse_alone(1.0, other)
        delta, within = self._delta(disparity, 1.0, other)

        def reached(n: float) -> bool:
            return self.chance(delta, n, other * n, within=within) >= self.power

        high = 2.0
        while not reached(high):
            high *= 2.0
            if high > MOST:
                raise UsageError(f"disparity: {disparity!r} is not allowed; no number of rows shows one so small.")
        low = high / 2.0
        while high - low > 1.0:
            middle = math.floor((low + high) / 2.0)
            low, high = (low, float(middle)) if reached(middle) else (float(middle), high)
        return int(high)

    def reached(self, disparity: float, n: float, reference_n: float | None) -> float:
        other = self._reference_rows(n, reference_n)
        delta, within = self._delta(disparity, n, other, certain=False)
        return self.chance(delta, n, other, within=within)

    def chance(self, delta: float, n: float, other: float, *, within: bool) -> float:
        """The probability of the verdict, for a group of ``n`` rows and ``other`` rows to compare it with."""
        if self.reference == "known" and self.rate is not None and self.cluster is None and n <= ENUMERATED:
            return self._enumerated(self._group_mean(delta), round(n), within=within)
        reach, worth, size, df, looks = self.goal.reach, 1.0, 1.0, math.inf, [(1.0, 0.0)]
        if self.cluster is not None:
            size, correlation = self.cluster
            if min((n,) if self.reference == "known" else (n, other)) < FEWEST * size:
                return 0.0
            worth = math.sqrt(1.0 + (size - 1.0) * correlation)
            df = max(1.0 / sum(part**2 / rows for part, rows in self._sides(delta, n, other)) / size / 3.0 - 1.0, 1e-3)
        if self.rate is None:
            parts = [(part, rows / size) for part, rows in self._sides(delta, n, other)]
            if min(rows for _, rows in parts) <= 3.0:
                return 0.0
            if self.cluster is None:
                df = 1.0 / sum(part**2 / (rows - 1.0) for part, rows in parts)
            looks = self._looks(parts)
        low, high = (self._root(delta, end, n, other) / worth for end in (-reach, reach))
        chance, quantile = 0.0, float(t_isf(self.goal.level / 2.0, df))
        for share, skewness in looks:
            reduction = float(unbend(quantile, skewness, skewness)) - quantile
            # The skewness counts against the verdict half of the time; it widens an interval at one end only.
            if within:
                bent = [(low - reduction, high), (low, high + reduction)]
            else:
                shift = math.copysign(min(reduction, abs(low), abs(high)), delta)
                bent = [(low - shift, high - shift), (low, high)]
            chance += share / 2.0 * sum(self.goal.chance(*ends, df, within=within) for ends in bent)
        return chance

    def _looks(self, parts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """The skewness that normal rows show, as far as it bends T: values, each with its probability.

        Probabilities add up to that of a verdict. The skewness of few rows has half of a normal law, which is replaced
        by the medians of its lower and its upper half.
        """
        spread = [normal_skewness(np.array(n)) * math.sqrt(part**3 / n) for part, n in parts]
        unbiased = [math.sqrt(n * (n - 1.0)) / (n - 2.0) for _, n in parts]
        few = [HIDDEN_FEW * a * b for a, b, (_, n) in zip(spread, unbiased, parts, strict=True) if n < FEW_ROWS]
        if few and self.cluster is None:
            judged = 1.0 - float(normal_sf(CALM))
            return [(judged / 2.0, float(normal_isf(p)) * math.hypot(*few)) for p in (0.75, 0.25)]
        further = float(normal_isf(self.goal.level) / normal_isf(self.alpha)) ** FURTHER
        return [(1.0 - float(normal_sf(1.0 / (math.sqrt(SKEWED * further) * sum(spread)))), 0.0)]

    def _enumerated(self, rate: float, n: int, *, within: bool) -> float:
        """The same for one group, by enumeration of its numbers of cases: few cases make the probability jump."""
        goal, side = self.goal, self.side
        spread = 8.0 * math.sqrt(n * rate * (1.0 - rate)) + 10.0
        cases = np.arange(max(math.floor(n * rate - spread), 0), min(math.ceil(n * rate + spread), n) + 1.0)
        counts, every = Binary(np.full(cases.size, n), cases), np.arange(cases.size)
        known = ProfileLikelihood(Kind.FIXED, counts, every, theta=np.full(cases.size, self.theta))
        effect = OnScale.report(known.scoring_few(), self.link)
        if within:
            low, high = (self.link.delta(end) for end in effect.interval(chi2_isf(goal.level, 1)))
            shown = inside(low, high, goal.reach, side)
        else:
            least, most = (float(self.link.reported(end)) for end in (-goal.reach, goal.reach))
            end = most if side == "greater" else least
            null = Hypothesis(least, most, "outside") if side == "two-sided" else Hypothesis(end, end, side)
            shown = rejected(effect.test(null)[1], goal.level)
        ways = special.gammaln(n + 1.0) - special.gammaln(cases + 1.0) - special.gammaln(n - cases + 1.0)
        chance = np.exp(ways + special.xlogy(cases, rate) + special.xlog1py(n - cases, -rate))
        return min(float(chance[shown].sum()), 1.0)

    def _root(self, delta: float, tested: float, n: float, other: float) -> float:
        """z(b): the center of the root of T at ``tested``, if the disparity is ``delta``."""
        mean = self._group_mean(delta)
        if self.rate is None:
            return (mean - float(self.link.moved(self.theta, tested))) / self._error(delta, tested, n, other)
        group, first, at = Binary([n], [n * mean]), np.array([0]), np.array(tested)
        outside_rows = Binary([other], [other * min(max(self._outside(mean, n, other), 0.0), 1.0)])
        if self.reference == "known":
            problem = ProfileLikelihood(Kind.FIXED, group, first, theta=np.zeros(1))
            at = self.link.moved(self.rate, tested)
        elif self.reference == "population" and self.link is LOGIT:
            problem = odds_in_whole(group, first, outside_rows, first)
        else:
            kind = Kind.NESTED if self.reference == "population" else Kind.DISJOINT
            sides = linked(group, self.link), linked(outside_rows, self.link)
            problem = ProfileLikelihood(kind, sides[0], first, other=sides[1], partner=first)
        return math.copysign(math.sqrt(float(problem.statistic(at)[0])), delta - tested)

    def _error(self, delta: float, tested: float, n: float, other: float) -> float:
        rows = n if self.reference == "known" else n + other
        sigma = delta**2 / (2.0 * rows) if self.scale == "standardized" else 0.0
        return math.sqrt(sum(self._squares(delta, tested, n, other)) + sigma)

    def _squares(self, delta: float, tested: float, n: float, other: float) -> tuple[float, float, float]:
        mean, share = self._group_mean(delta), self._share(n, other)
        outside = self._outside(mean, n, other)
        if self.rate is not None:
            mine, theirs = max(mean * (1.0 - mean), 0.0), max(outside * (1.0 - outside), 0.0)
        else:
            mine = self.variance[0] or 1.0
            theirs = self.variance[1] or mine
        if self.reference == "known":
            return mine / n, 0.0, 0.0
        slope = 1.0
        if self.link is not IDENTITY:
            means = self.link.moved(self.theta, tested), np.array(self.theta)
            slope = float(self.link.unit(means[0]) / self.link.unit(means[1]))
        between = (slope * (mean - outside)) ** 2 * share * (1.0 - share) / (n + other)
        return (1.0 - slope * share) ** 2 * mine / n, (slope * (1.0 - share)) ** 2 * theirs / other, between

    def _sides(self, delta: float, n: float, other: float) -> list[tuple[float, float]]:
        """Each side's share of the squared standard error, and its rows."""
        mine, outside_rows, between = self._squares(delta, 0.0, n, other)
        total = mine + outside_rows + between
        if total <= 0 or self.reference == "known":
            return [(1.0, n)]
        return [((mine + 0.5 * between) / total, n), ((outside_rows + 0.5 * between) / total, other)]

    def _share(self, n: float, other: float) -> float:
        """The group's share of the population; 0 for other references."""
        return n / (n + other) if self.reference == "population" else 0.0

    def _outside(self, mean: float, n: float, other: float) -> float:
        share = self._share(n, other)
        return self._settled((self.theta - share * mean) / (1.0 - share))

    def _group_mean(self, delta: float) -> float:
        return self._settled(float(self.link.moved(self.theta, delta)))

    def _settled(self, mean: float) -> float:
        """A rate that is 0 or 1 up to rounding is 0 or 1."""
        if self.rate is None or not 0 < self.rate < 1 or not math.isfinite(mean):
            return mean
        end = float(round(mean))
        return end if abs(mean - end) < SETTLED * min(self.rate, 1.0 - self.rate) else mean

    def _largest(self, n: float, other: float) -> float:
        """The largest δ, in the direction of the test, at which the group and the rows outside it have rates."""
        if self.rate is None:
            return math.inf
        share, furthest = self._share(n, other), 1.0 if self.sign > 0 else 0.0
        if share and self.sign > 0:
            furthest = min(1.0, self.rate / share)
        elif share:
            furthest = max(0.0, (self.rate - 1.0 + share) / share)
        with np.errstate(divide="ignore"):
            return NEARLY * float(np.abs(np.diff(self.link.forward(np.array([furthest, self.rate])))[0]))

    def _delta(self, disparity: float, n: float, other: float, *, certain: bool = True) -> tuple[float, bool]:
        """δ of a disparity, and whether it deserves *within tolerance*; refuses impossible disparities."""
        if self.link.ratio and disparity <= 0:
            raise UsageError(f"disparity: {disparity!r} is not allowed; a ratio lies above 0.")
        delta = float(self.link.delta(disparity))
        if self.tolerance is None and certain:
            if delta == 0:
                equal = "1, which is no difference" if self.link.ratio else "0"
                raise UsageError(f"disparity: {disparity!r} is not allowed; give a finite number other than {equal}.")
            if delta * self.sign < 0 and self.side != "two-sided":
                raise UsageError(f"disparity: {disparity!r} lies on the side that side={self.side!r} does not test.")
        if self.rate is not None:
            mean = self._group_mean(delta)
            if not 0 <= mean <= 1:
                raise UsageError(f"disparity: {disparity!r} from a rate of {self.rate!r} is not a rate.")
            if not 0 <= (outside := self._outside(mean, n, other)) <= 1:
                raise UsageError(
                    f"disparity: {disparity!r} is not possible at ratio={other / n:g}: rows outside the group would "
                    f"need a rate of {outside:.3g} for the population to have {self.rate:g}."
                )
        return delta, self.goal.deserves_within(delta)

    def _refuse_alone(self, n: float, other: float) -> None:
        if self._share(n, other) >= 1:
            raise UsageError("reference_n, ratio: so few rows outside the group leave nothing to compare it with.")

    def _reference_rows(self, n: float, reference_n: float | None) -> float:
        if self.reference == "known":
            if reference_n is not None:
                raise UsageError("reference_n: leave it out; a known reference has no rows.")
            return 1.0
        if reference_n is None:
            what = "the reference group" if self.reference == "group" else "the population outside the group"
            raise UsageError(f"reference_n: give the number of rows in {what}.")
        self._refuse_alone(n, reference_n)
        return reference_n
