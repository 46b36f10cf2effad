"""Power: what disparity can n rows show, how many rows does a verdict need, how often is it reached?

A test at the disparity b has a root of T that is normal with variance 1 about z(b), far from 0 where the true disparity
is far from b. With τ the tolerance (0 without one) and both sides asked about:

violation          p = P(Z > z(τ)) + P(Z > z(-τ)) as in `disparity.Hypothesis`, at most alpha
within tolerance   the interval lies inside: z(τ) below, and z(-τ) above, the quantile of a two-sided interval

0/1 metrics      z(b)² is T itself of the rates expected, by the likelihood that tests them (`profile`; Self and
                 Mauritsen 1988): any reference, any scale. Against a known rate all outcomes are enumerated
others           z(b) = (m_G - μ(b)) / se, with μ(b) the mean that lies b from the reference θ, s its slope in θ, and
    known        se² = v_G/n_G (Corollary 2 of the paper)
    group, rest  se² = v_G/n_G + s² v_R/n_R
    population   se² = (1 - sP)² v_G/n_G + s² (1-P)² v_C/n_C + s² (m_G - m_C)² P(1-P)/n, with C the n_C rows outside
                 the group, P its share and n = n_G + n_C

Rows in clusters of m with an intraclass correlation ρ, each cluster within one group, are worth 1/(1 + (m - 1) ρ) as
many. T is then held against F(1, ν) (`inference.designs`), with ν a third of the clusters less one where their sums are
normal, and groups below a least number of clusters are not tested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.errors import UsageError
from isonomy.groups.likelihood.disparity import Hypothesis, reported
from isonomy.groups.likelihood.links import IDENTITY, LINKS, LOGIT, Link
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import Kind, Profile, linked, odds_in_whole
from isonomy.inference.decide import Alternative, inside, rejected
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import bisection, root
from isonomy.numerics.tails import chi2_isf, interval_isf, rows_for, t_isf, t_sf

Known = Literal["known", "group", "population"]
PlanScale = Literal["difference", "ratio", "odds_ratio", "standardised"]
# More rows than a float can count one by one.
MOST = 2.0**53
# Rows up to which all numbers of cases are enumerated, against a known rate.
ENUMERATED = 100_000
# How close to the end of the possible disparities the largest one is looked for.
NEARLY = 1.0 - 1e-9
# How near a rate comes to 0 or 1 by rounding, in units of the reference's.
SETTLED = 1e-12
# A log ratio beyond which nothing is looked for.
FARTHEST = 15.0
# Standard errors beyond which nothing changes, where differences of roots are still finite.
FAR = 1e9


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be shown: which side, beyond (or within) which tolerance, at which level."""

    alternative: Alternative
    level: float
    reach: float

    def chance(self, low: float, high: float, df: float, *, within: bool) -> float:
        """How often it is shown, where the roots at -τ and τ are about ``low`` and ``high``."""
        low, high = (min(max(root, -FAR), FAR) for root in (low, high))
        side = -1.0 if self.alternative == "less" else 1.0
        one = side * (high if side > 0 else low)
        if within:
            quantile = t_isf(self.level / 2.0, df)
            if self.alternative != "two-sided":
                return float(t_sf(quantile + one, df))
            return max(float(t_sf(quantile + high, df) + t_sf(quantile - low, df)) - 1.0, 0.0)
        if self.alternative != "two-sided":
            return float(t_sf(t_isf(self.level, df) - one, df))
        critical = float(self.critical(low - high, df))
        return float(t_sf(critical - high, df) + t_sf(critical + low, df))

    def critical(self, room: npt.ArrayLike, df: npt.ArrayLike) -> FloatArray:
        """The root beyond the nearer end of the tolerance, ``room`` less than that at the other, with p = the level."""
        if self.alternative == "two-sided":
            return np.asarray(interval_isf(room, self.level, df))
        return np.asarray(t_isf(self.level, df))


def power(disparity: float, error: float, question: Question) -> float:
    """How often the verdict that a disparity deserves is reached, at this standard error."""
    low, high = (disparity + question.reach) / error, (disparity - question.reach) / error
    return question.chance(low, high, math.inf, within=deserved(disparity, question))


def deserved(disparity: float, question: Question) -> bool:
    """Whether *within tolerance* is what should be shown of a disparity; else that it is a violation."""
    beyond = {"greater": disparity, "less": -disparity, "two-sided": abs(disparity)}[question.alternative]
    if beyond == question.reach and question.reach > 0:
        raise UsageError(
            "disparity: it lies at the end of the tolerance, where neither verdict is ever to be expected."
        )
    return beyond < question.reach


def detectable(
    error: FloatArray, rate: FloatArray, question: Question, power: float, df: FloatArray, link: Link
) -> FloatArray:
    """The smallest disparity that would be shown to lie beyond the tolerance; one for each error.

    Two-sided the larger difference, and the smaller ratio. The ``rate`` of the reference, of 0/1 metrics (NaN of
    others): a group that differs has another variance. T is then that of one group against a known rate, of as many
    rows as would know a rate like it as well.
    """
    both, reach = question.alternative == "two-sided", question.reach
    with np.errstate(all="ignore"):
        beyond = question.critical(2.0 * reach / error, df) + t_isf(1.0 - power, df)
        signs = {"greater": (1.0,), "less": (-1.0,)}.get(question.alternative, (-1.0,) if link.ratio else (1.0, -1.0))
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


def within_rows(
    error: FloatArray, n: FloatArray, tolerance: float, alpha: float, power: float, df: FloatArray, *, both: bool
) -> FloatArray:
    """The rows with which *within tolerance*, on both sides or one, is shown where there is no difference.

    Everything else grows with the group: its reference has as many rows for each of the group's as now, and so have
    the clusters that the error rests on.
    """
    with np.errstate(all="ignore"):
        return rows_for(tolerance, error, n, (alpha / 2.0, (1.0 - power) / (2.0 if both else 1.0)), df)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A planned comparison; per-row variances, or rates from which they follow. ``cluster`` is (size, correlation)."""

    reference: Known
    rate: float | None
    mean: float | None
    variance: float | None
    reference_variance: float | None
    alpha: float
    power: float
    alternative: Alternative
    tests: int
    tolerance: float | None
    scale: PlanScale
    cluster: tuple[float, float] | None

    @classmethod
    def of(cls, options: Mapping[str, Any], *own: str) -> Design:
        """That of the options of a call but its ``own``; one more or one less than the fields is an error."""
        return cls(**{name: value for name, value in options.items() if name not in own})

    def __post_init__(self) -> None:
        if self.power <= self.alpha / self.tests:
            raise UsageError(
                f"power: {self.power!r} is not allowed; give more than the level, {self.alpha / self.tests:g}, which a "
                "test has without any disparity."
            )
        if self.scale == "standardised":
            if any(given is not None for given in (self.rate, self.mean, self.variance, self.reference_variance)):
                raise UsageError("rate, mean, variance: leave them out with scale='standardised', whose unit they are.")
        elif (self.rate is None) == (self.variance is None):
            raise UsageError(
                "rate, variance: give one of them: the reference's rate, or the metric's variance in the group."
            )
        self._refuse_unused()
        if self.link.ratio and self.tolerance is not None and not 0 < self.tolerance < 1:
            raise UsageError(
                f"tolerance: {self.tolerance!r} is not allowed; a tolerated ratio lies between 0 and 1 (0.8 tolerates "
                "0.8 to 1.25)."
            )
        if self.cluster is not None:
            _check_cluster(self.cluster)

    def _refuse_unused(self) -> None:
        """Refuse what the metric, the reference or the scale has no use for."""
        if self.reference_variance is not None and (self.rate is not None or self.reference == "known"):
            raise UsageError(
                "reference_variance: leave it out; a rate has its own variance, and a known reference has none."
            )
        if self.scale == "odds_ratio" and self.rate is None:
            raise UsageError("scale: 'odds_ratio' is for 0/1 metrics; give a rate.")
        needed = self.scale == "ratio" and self.rate is None
        if needed and (self.mean is None or self.mean <= 0):
            raise UsageError("mean: give the reference's mean, above 0, for a ratio of a metric that is not 0/1.")
        if self.mean is not None and not needed:
            raise UsageError("mean: leave it out; only the ratio of a metric that is not 0/1 depends on it.")

    @property
    def link(self) -> Link:
        """The scale as the likelihoods know it."""
        return LINKS["difference" if self.scale == "standardised" else self.scale]

    @property
    def question(self) -> Question:
        """What is to be shown; Bonferroni's level over ``tests``."""
        reach = 0.0
        if self.tolerance is not None:
            reach = float(-self.link.delta(self.tolerance)) if self.link.ratio else self.tolerance
        return Question(self.alternative, self.alpha / self.tests, reach)

    @property
    def sign(self) -> float:
        """The direction of the disparity asked about; two-sided the larger difference, and the smaller ratio."""
        two_sided = self.alternative == "two-sided"
        return -1.0 if self.alternative == "less" or (two_sided and self.link.ratio) else 1.0

    def detectable(self, n: float, reference_n: float | None) -> float:
        """The smallest disparity that ``n`` rows show; infinite (0, of ratios) if even the largest is not found."""
        other, reach = self._other(reference_n), self.question.reach
        self._refuse_alone(n, other)

        def missing(size: float) -> float:
            return self.chance(self.sign * size, n, other, within=False) - self.power

        high = self._largest(n, other)
        if math.isinf(high):
            high = FARTHEST
            if not self.link.ratio:
                high = reach + 100.0 * self._error(0.0, 0.0, n, other)
        if high <= reach or missing(high) < 0:
            return float(self.link.reported(self.sign * math.inf))
        return float(self.link.reported(self.sign * root(missing, reach, high).x))

    def rows(self, disparity: float, ratio: float | None) -> int:
        """The rows a group needs to show that a disparity lies beyond the tolerance or, if it is less, within it."""
        if ratio is not None and self.reference == "known":
            raise UsageError("ratio: leave it out; a known reference has no rows.")
        other = 1.0 if ratio is None else float(ratio)
        self._refuse_alone(1.0, other)
        delta, within = self._asked(disparity, 1.0, other)

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
        """How often the verdict that a disparity deserves is reached with ``n`` rows."""
        other = self._other(reference_n)
        self._refuse_alone(n, other)
        delta, within = self._asked(disparity, n, other, certain=False)
        return self.chance(delta, n, other, within=within)

    def chance(self, delta: float, n: float, other: float, *, within: bool) -> float:
        """How often the verdict is reached, for a group of ``n`` rows and ``other`` rows beside it."""
        if self.reference == "known" and self.rate is not None and self.cluster is None and n <= ENUMERATED:
            return self._enumerated(self._own(delta), round(n), within=within)
        groups = (n,) if self.reference == "known" else (n, other)
        size, correlation = self.cluster or (1.0, 0.0)
        df = math.inf
        if self.cluster is not None:
            if min(groups) < FEWEST * size:
                return 0.0
            df = self._clusters(delta, n, other) / 3.0 - 1.0
        reach, worth = self.question.reach, math.sqrt(1.0 + (size - 1.0) * correlation)
        low, high = (self._root(delta, end, n, other) / worth for end in (-reach, reach))
        return self.question.chance(low, high, max(df, 1e-3), within=within)

    def _enumerated(self, own: float, n: int, *, within: bool) -> float:
        """The same of one group alone, by all numbers of cases it may have: few make the chance leap."""
        question, theta = self.question, self._theta
        spread = 8.0 * math.sqrt(n * own * (1.0 - own)) + 10.0
        cases = np.arange(max(math.floor(n * own - spread), 0), min(math.ceil(n * own + spread), n) + 1.0)
        each = np.arange(cases.size)
        known = Profile(Kind.FIXED, Binary(np.full(cases.size, n), cases), each, theta=np.full(cases.size, theta))
        likelihood = reported(known.few_scored(), self.link)
        if within:
            low, high = (self.link.delta(end) for end in likelihood.interval(chi2_isf(question.level, 1)))
            shown = inside(low, high, question.reach, self.alternative)
        else:
            least, most = (float(self.link.reported(end)) for end in (-question.reach, question.reach))
            null = Hypothesis(least, most, "outside")
            if self.alternative != "two-sided":
                end = most if self.alternative == "greater" else least
                null = Hypothesis(end, end, self.alternative)
            shown = rejected(null.test(likelihood)[1], question.level)
        ways = special.gammaln(n + 1.0) - special.gammaln(cases + 1.0) - special.gammaln(n - cases + 1.0)
        chance = np.exp(ways + special.xlogy(cases, own) + special.xlog1py(n - cases, -own))
        return min(float(chance[shown].sum()), 1.0)

    def _root(self, delta: float, at: float, n: float, other: float) -> float:
        """z(b): what the root of T at ``at`` is about, where the disparity is ``delta``."""
        if self.rate is None:
            own, tested = (float(self.link.moved(self._theta, d)) for d in (delta, at))
            return (own - tested) / self._error(delta, at, n, other)
        own = self._own(delta)
        group, first = Binary([n], [n * own]), np.array([0])
        if self.reference == "known":
            target = float(self.link.moved(self.rate, at))
            statistic = Profile(Kind.FIXED, group, first, theta=np.zeros(1)).statistic(target)[0]
            return math.copysign(math.sqrt(statistic), delta - at)
        beside = Binary([other], [other * min(max(self._outside(own, n, other), 0.0), 1.0)])
        nested = self.reference == "population"
        if nested and self.link is LOGIT:
            problem = odds_in_whole(group, first, beside, first)
        else:
            sides = linked(group, self.link), linked(beside, self.link)
            kind = Kind.NESTED if nested else Kind.DISJOINT
            problem = Profile(kind, sides[0], first, other=sides[1], other_index=first)
        return math.copysign(math.sqrt(float(problem.statistic(at)[0])), delta - at)

    @property
    def _theta(self) -> float:
        """The reference's mean, where it matters."""
        return self.rate if self.rate is not None else self.mean or 0.0

    def _variances(self, own: float, outside: float) -> tuple[float, float]:
        if self.rate is not None:
            return own * (1.0 - own), outside * (1.0 - outside)
        variance = 1.0 if self.variance is None else self.variance
        return variance, self.reference_variance or variance

    def _error(self, delta: float, at: float, n: float, other: float) -> float:
        """The standard error of a group's mean less the mean at ``at`` from its reference."""
        mine, beside, between = self._squares(delta, at, n, other)
        rows = n if self.reference == "known" else n + other
        unit = delta**2 / (2.0 * rows) if self.scale == "standardised" else 0.0  # that of σ
        return math.sqrt(mine + beside + between + unit)

    def _squares(self, delta: float, at: float, n: float, other: float) -> tuple[float, float, float]:
        """What the group's rows, the others and the group's share add to the squared standard error."""
        theta = self._theta
        own, tested = self._own(delta), float(self.link.moved(theta, at))
        outside, share = self._outside(own, n, other), self._share(n, other)
        mine, theirs = (max(v, 0.0) for v in self._variances(own, outside))
        if self.reference == "known":
            return mine / n, 0.0, 0.0
        slope = 1.0
        if self.link is not IDENTITY:
            slope = float(self.link.unit(np.array(tested)) / self.link.unit(np.array(theta)))
        between = (slope * (own - outside)) ** 2 * share * (1.0 - share) / (n + other)
        return (1.0 - slope * share) ** 2 * mine / n, (slope * (1.0 - share)) ** 2 * theirs / other, between

    def _clusters(self, delta: float, n: float, other: float) -> float:
        """How many clusters the variance rests on."""
        assert self.cluster is not None
        mine, beside, between = self._squares(delta, 0.0, n, other)
        total = mine + beside + between
        if total <= 0:
            return n / self.cluster[0]
        first, second = (mine + 0.5 * between) / total, (beside + 0.5 * between) / total
        return 1.0 / self.cluster[0] / (first**2 / n + second**2 / other)

    def _share(self, n: float, other: float) -> float:
        """The group's share of the population; 0 for other references."""
        return n / (n + other) if self.reference == "population" else 0.0

    def _outside(self, own: float, n: float, other: float) -> float:
        """The mean of the other rows when the reference keeps its own."""
        share = self._share(n, other)
        return self._settled((self._theta - share * own) / (1.0 - share))

    def _own(self, delta: float) -> float:
        """The group's mean."""
        return self._settled(float(self.link.moved(self._theta, delta)))

    def _settled(self, mean: float) -> float:
        """A rate that only rounding keeps from 0 or 1 is 0 or 1."""
        if self.rate is None or not 0 < self.rate < 1 or not math.isfinite(mean):
            return mean
        end = float(round(mean))
        return end if abs(mean - end) < SETTLED * min(self.rate, 1.0 - self.rate) else mean

    def _largest(self, n: float, other: float) -> float:
        """The largest δ that leaves the group, and the rows outside it, a rate in the direction asked about."""
        if self.rate is None:
            return math.inf
        share, side = self._share(n, other), self.sign
        end = (1.0, self.rate / share if share else 1.0) if side > 0 else (0.0, 0.0)
        furthest = min(end) if side > 0 else max(0.0, (self.rate - 1.0 + share) / share if share else 0.0)
        with np.errstate(divide="ignore"):
            ends = self.link.forward(np.array([furthest, self.rate]))
        size = float(abs(ends[0] - ends[1]))
        return NEARLY * size if math.isfinite(size) else math.inf

    def _asked(self, disparity: float, n: float, other: float, *, certain: bool = True) -> tuple[float, bool]:
        """δ of a disparity, and whether *within tolerance* is what it deserves; refused where it is not possible."""
        if self.link.ratio and disparity <= 0:
            raise UsageError(f"disparity: {disparity!r} is not allowed; a ratio lies above 0.")
        delta = float(self.link.delta(disparity))
        if self.tolerance is None and delta == 0 and certain:
            equal = "1, which is no difference" if self.link.ratio else "0"
            raise UsageError(f"disparity: {disparity!r} is not allowed; give a finite number other than {equal}.")
        if self.tolerance is None and delta * self.sign < 0 and self.alternative != "two-sided" and certain:
            raise UsageError(
                f"disparity: {disparity!r} lies on the side that alternative={self.alternative!r} does not test."
            )
        if self.rate is not None:
            own = self._own(delta)
            if not 0 <= own <= 1:
                raise UsageError(f"disparity: {disparity!r} from a rate of {self.rate!r} is no rate.")
            if not 0 <= (outside := self._outside(own, n, other)) <= 1:
                raise UsageError(
                    f"disparity: {disparity!r} is not possible at ratio={other / n:g}: rows outside the group would "
                    f"need a rate of {outside:.3g} for the population to have {self.rate:g}."
                )
        return delta, deserved(delta, self.question)

    def _refuse_alone(self, n: float, other: float) -> None:
        if self._share(n, other) >= 1:
            raise UsageError("reference_n, ratio: so few rows outside the group leave nobody to compare it with.")

    def _other(self, reference_n: float | None) -> float:
        if self.reference == "known":
            if reference_n is not None:
                raise UsageError("reference_n: leave it out; a known reference has no rows.")
            return 1.0
        if reference_n is None:
            what = "the reference group" if self.reference == "group" else "the population outside the group"
            raise UsageError(f"reference_n: give the number of rows in {what}.")
        return reference_n


def _check_cluster(cluster: tuple[float, float]) -> None:
    """A cluster is given by its size and the intraclass correlation."""
    numbers = [float(value) for value in cluster] if isinstance(cluster, (tuple, list)) else []
    if len(numbers) != 2 or not numbers[0] >= 1 or not 0 <= numbers[1] <= 1:
        raise UsageError(
            f"cluster: {cluster!r} is not allowed; give (rows of a cluster, intraclass correlation), such as (20, 0.1)."
        )
