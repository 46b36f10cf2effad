"""Comparable people: what people of a group got, less what people of the reference with the same factors get.

D is 1 in the group and 0 in the reference, x are the factors, m(x) the mean of the reference given x, e(x) the
propensity, the probability of D = 1 given x, and o = e / (1 - e) its odds. Of the n1 people of the group,

    mean of the group              µ1 = Σ_D y / n1
    mean of comparable people      µ0 = Σ_D m / n1 + Σ_(1-D) o (y - m) / Σ_(1-D) o

(Peters 1941; Belson 1956; Gastwirth and Greenhouse 1995; Graubard, Rao Sukhatme and Gastwirth 2005.) The second term of
µ0 makes it doubly robust: right if m is, or if e is (Robins, Rotnitzky and Zhao 1994). Without it, µ0 is Peters and
Belson's. m is a logistic regression for 0/1 values and a linear one for others, e a logistic one; numbers enter by
natural cubic splines with three knots. Coefficients β of m and γ of e solve their score equations, and their error
counts whichever model is right. With A = ∂µ0/∂β and B = ∂µ0/∂γ, a row adds to µ0

    D (m - mean m) / n1 + (1 - D) o (y - m - R) / Σ o + A H_m^-1 x (1 - D)(y - m) + B H_e^-1 x (D - e),

R being the second term of µ0. Residuals of the reference are divided by 1 minus their leverage (HC3): a fit with many
terms is closer to its own rows than to others.

T of "the mean of the group is q" is (µ1 - q)² over the variance of µ1 - s µ0, with s the slope of q in µ0 at a fixed
disparity, so that no difference has one p-value on every scale. If a group has few cases or few others, the variance of
its own rows is that of the hypothesis instead: the mean of m (1 - m), times q (1 - q) / (µ0 (1 - µ0)). T has Student's
law squared: the weights o may leave few people of the reference to judge the variance by. With the normal law, tests of
60 people against 60 whose only factor differs by 1 and 1.5 standard deviations rejected 0.08 and 0.10 at 0.05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from isonomy.errors import UsageError
from isonomy.frames import Design, Partition
from isonomy.groups.likelihood.lines import refuse_many
from isonomy.groups.likelihood.means import IDENTITY, Link
from isonomy.groups.likelihood.profile import FEW_CASES
from isonomy.groups.likelihood.strata import account_gap, gap_variances
from isonomy.inference.designs import Influence, Law, covariance, spread
from isonomy.inference.effect import Designed, Effect, Fieller, Limits
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import bisection
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf

KNOTS = (0.1, 0.5, 0.9)  # quantiles
LEVELS = 50  # of one factor that is not a number
# Newton's steps; the gain in likelihood, in squared standard errors, that ends them. If the terms separate the classes,
# each step gains e times less than the last, and 25 are not enough. A step that lowers the likelihood is halved.
STEPS, CLOSE, HALVINGS = 25, 1e-12, 40
BLOCK, SAMPLE = 1 << 14, 20_000  # rows of a block that stays in the cache; rows that a large fit starts from
REDUNDANT = 1e-9  # the share of a column's variance that others leave, below which it is determined by them
# Odds of the propensity (0.95) beyond which a person has no comparable one; the largest share of such people.
RARE, LACKING = 19.0, 1.0 / 3.0
# The design effect of the weights o in the reference above which there is no test. In simulations with normal factors
# whose weights have a design effect of about 100 the doubly robust test rejects 0.09 to 0.10 of true hypotheses at
# 0.05; of about 9, 0.06, which chance explains.
UNEVEN = 12.0
# Cases of the rarer class for each term of a model: below the first, numbers enter as straight lines; below the second,
# there is no test.
CURVED, FEWEST_CASES = 10.0, 3.0


# ---- the terms of a model


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """One row per line: an intercept, and the terms of each factor; ``curved`` marks those that bend a straight line.

    ``levels`` are the codes of each factor that is not a number.
    """

    matrix: FloatArray
    curved: BoolArray
    levels: tuple[IntArray, ...]

    @classmethod
    def of_factors(cls, numbers: Mapping[str, FloatArray], levels: Mapping[str, IntArray], mass: FloatArray) -> Terms:
        columns, names = [np.ones(mass.size)], [""]
        curved = [False]
        for name, values in numbers.items():
            center = np.average(values, weights=mass)
            unit = np.sqrt(np.average((values - center) ** 2, weights=mass))
            _refuse_constant(name, not unit > 1e-12 * max(abs(float(center)), 1e-300))
            equal = mass if mass.min() < mass.max() else None
            knots = np.quantile(values, KNOTS, weights=equal, method="inverted_cdf")
            if not (np.diff(knots) > 0).all():  # many equal values
                knots = np.quantile(np.unique(values[mass > 0]), KNOTS, method="inverted_cdf")
            bends = bool((np.diff(knots) > 0).all())
            if bends:  # a unit that no single large value decides
                center, unit = knots[1], knots[2] - knots[0]
            standard = (values - center) / unit
            columns, curved, names = [*columns, standard], [*curved, False], [*names, name]
            if bends:
                bend = natural_spline(standard, (knots - center) / unit)
                columns, curved, names = [*columns, bend], [*curved, True], [*names, name]
        for name, codes in levels.items():
            number = int(codes.max(initial=0)) + 1
            _refuse_constant(name, number < 2)
            if number > LEVELS:
                raise UsageError(
                    f"given: {name!r} has {number:,} levels, and {LEVELS} are the most for people to be comparable; "
                    "combine levels, cut a number with iso.cut(column, edges), or leave it out."
                )
            columns += [(codes == level).astype(float) for level in range(1, number)]
            curved, names = curved + [False] * (number - 1), names + [name] * (number - 1)
        matrix = np.column_stack(columns)
        chosen = independent(_gram(matrix, mass))
        lost = [name for i, name in enumerate(names) if i not in set(chosen.tolist()) and not curved[i]]
        if lost:
            raise UsageError(
                f"given: {lost[0]!r} is determined by the other factors (collinear); leave one of them out."
            )
        return cls(matrix[:, chosen], np.array(curved)[chosen], tuple(levels.values()))


def _refuse_constant(name: str, constant: bool) -> None:
    if constant:
        raise UsageError(f"given: {name!r} has the same value in every row that counts; leave it out.")


def natural_spline(x: FloatArray, knots: FloatArray) -> FloatArray:
    """The term that, with x itself, spans the natural cubic splines with three knots."""
    low, middle, high = knots
    beyond = (np.maximum(x - knot, 0.0) for knot in knots)
    first, second, third = (part * part * part for part in beyond)
    return ((first - third) - (second - third) * (high - low) / (high - middle)) / (high - low) ** 2


def _gram(matrix: FloatArray, mass: FloatArray) -> FloatArray:
    total = np.zeros((matrix.shape[1],) * 2)
    for start in range(0, mass.size, BLOCK):
        block = matrix[start : start + BLOCK]
        total += (block * mass[start : start + BLOCK, None]).T @ block
    return total


def independent(gram: FloatArray) -> IntArray:
    """The columns that no columns before them determine."""
    scale = np.sqrt(np.diagonal(gram))
    chosen: list[int] = []
    for column in np.flatnonzero(scale > 0):
        unit = gram[np.ix_(chosen, chosen)] / np.outer(scale[chosen], scale[chosen])
        along = gram[chosen, column] / (scale[chosen] * scale[column])
        if 1.0 - along @ np.linalg.solve(unit, along) > REDUNDANT:
            chosen.append(int(column))
    return np.array(chosen, dtype=np.intp)


# ---- fits


Rows = tuple[FloatArray, FloatArray, FloatArray]  # the terms, the value and the mass of each row


def fit(parts: Sequence[Rows], *, binary: bool = True) -> tuple[FloatArray, bool]:
    """The coefficients of a linear or a logistic regression, and whether they exist; those of separated classes do not.

    A large logistic fit starts from that of a part of the rows, and takes two or three steps.
    """
    size = parts[0][0].shape[1]
    if not binary:
        gram, product = np.zeros((size, size)), np.zeros(size)
        for x, y, w in parts:
            gram, product = gram + _gram(x, w), product + (w * y) @ x
        return np.asarray(np.linalg.solve(gram, product), dtype=float), True
    beta, every = np.zeros(size), sum(y.size for _, y, _ in parts) // SAMPLE
    if every > 3:
        start, fitted = fit([(x[::every], y[::every], w[::every]) for x, y, w in parts])
        beta = start if fitted else beta
    score, gradient, information = _likelihood(parts, beta)
    for _ in range(STEPS):
        scale = np.sqrt(np.maximum(np.diagonal(information), np.finfo(float).tiny))
        try:
            step = np.linalg.solve(information / np.outer(scale, scale), gradient / scale) / scale
        except np.linalg.LinAlgError:
            return beta, False
        gain = float(gradient @ step)
        if not np.isfinite(gain) or gain <= CLOSE:
            return beta + step, bool(np.isfinite(gain))
        for _ in range(HALVINGS):
            after, gradient, information = _likelihood(parts, beta + step)
            if after >= score - CLOSE * max(1.0, abs(score)):  # the rounding of a sum over many rows
                break
            step = step / 2.0
        beta, score = beta + step, after
    return beta, False


def _likelihood(parts: Sequence[Rows], beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """The logarithm of the likelihood of a logistic regression, its gradient, and the information."""
    score, gradient, information = 0.0, np.zeros(beta.size), np.zeros((beta.size, beta.size))
    for x, y, w in parts:
        for begin in range(0, y.size, BLOCK):
            block, weight = x[begin : begin + BLOCK], w[begin : begin + BLOCK]
            sign = 2.0 * y[begin : begin + BLOCK] - 1.0
            probability = expit(sign * (block @ beta))  # of the value that was observed
            score += float(weight @ np.log(np.maximum(probability, np.finfo(float).tiny)))
            gradient += (weight * sign * (1.0 - probability)) @ block
            information += (block * (weight * probability * (1.0 - probability))[:, None]).T @ block
    return score, gradient, information


class Referents:
    """The people that a group is compared with, and the regression m of their values.

    ``columns`` are the terms of m, none if there are too few cases; ``inverse`` is H_m^-1, and ``wide`` the residuals
    over 1 minus their leverage.
    """

    def __init__(self, terms: Terms, value: FloatArray, mass: FloatArray, rows: BoolArray, *, binary: bool) -> None:
        self.lines, self.binary = np.flatnonzero(rows), binary
        self.x, self.y, self.w = terms.matrix[self.lines], value[self.lines], mass[self.lines]
        self.levels = tuple(part[self.lines] for part in terms.levels)
        self.n = float(self.w.sum())
        self.mean = float(self.w @ self.y) / self.n
        cases = self.n * min(self.mean, 1.0 - self.mean) if binary else self.n
        self.columns = enough_terms(_gram(self.x, self.w), terms.curved, cases)
        self.fitted = False
        if self.columns.size:
            self.terms = self.x if self.columns.size == self.x.shape[1] else self.x[:, self.columns]
            self.beta, self.fitted = fit([(self.terms, self.y, self.w)], binary=binary)
        if self.fitted:
            self.predicted, self.slope = self.predict(self.terms)
            self.residual = self.y - self.predicted
            self.inverse = np.linalg.inv(_gram(self.terms, self.w * self.slope))
            leverage = np.einsum("ij,ij->i", self.terms @ self.inverse, self.terms) * self.slope
            self.wide = self.residual / (1.0 - np.minimum(leverage, 0.9))

    def predict(self, terms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """m, and its derivative with respect to the sum of the terms."""
        along = terms @ self.beta
        if not self.binary:
            return along, np.ones(along.size)
        rate = expit(along)
        return rate, rate * (1.0 - rate)


def enough_terms(gram: FloatArray, curved: BoolArray, cases: float) -> IntArray:
    """The terms that as many cases can carry: all, those that do not bend, or none."""
    columns = independent(gram)
    if columns.size * CURVED > cases:
        columns = columns[~curved[columns]]
    return columns if columns.size * FEWEST_CASES <= cases else columns[:0]


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """A group and the people it is compared with.

    ``lines`` are those of the group, then those of the reference; ``means`` are µ1, µ0, and the means of both sides
    without regard to the factors, and ``influence`` (4 x lines) is what one unit of mass adds to them. ``assumed`` and
    ``observed`` are the variance of µ1 given the factors by m, and by the rows. ``lacking`` is the share of the group
    without a comparable person, ``without`` the difference µ1 - µ0 of the others. ``odds`` is the logarithm of the
    conditional odds ratio, with its influence.
    """

    lines: IntArray
    members: int
    means: FloatArray
    status: Status
    influence: FloatArray
    lacking: float = np.nan
    without: float = np.nan
    assumed: float = 0.0
    observed: float = 0.0
    odds: tuple[float, FloatArray] | None = None


def compare(
    terms: Terms, value: FloatArray, mass: FloatArray, group: BoolArray, others: Referents, *, model: str
) -> PairFit:
    members, binary = np.flatnonzero(group), others.binary
    lines, n = np.concatenate([members, others.lines]), members.size
    y1, w1, y0, w0 = value[members], mass[members], others.y, others.w
    group_mean = float(w1 @ y1 / w1.sum())
    influence = np.zeros((4, lines.size))

    def refused(status: Status, lacking: float = np.nan) -> PairFit:
        means = np.array([group_mean, np.nan, group_mean, others.mean])
        return PairFit(lines, n, means, status, influence, lacking)

    # People with a level that nobody on the other side has cannot be compared.
    inside, faced = np.ones(n, dtype=bool), np.ones(y0.size, dtype=bool)
    codes = [part[members] for part in terms.levels]
    for mine, theirs in zip(codes, others.levels, strict=True):
        inside &= np.isin(mine, np.unique(theirs))
    for mine, theirs in zip(codes, others.levels, strict=True):
        faced &= np.isin(theirs, np.unique(mine[inside]))
    if not inside.any() or not faced.any():
        return refused(Status.NO_OVERLAP, 1.0)
    x1, x0 = terms.matrix[members], others.x
    v1, v0 = w1 * inside, w0 * faced
    n1, n0 = float(v1.sum()), float(v0.sum())
    columns = enough_terms(_gram(x1, v1) + _gram(x0, v0), terms.curved, min(n1, n0))
    if not columns.size or not others.columns.size:
        return refused(Status.FEW_EVENTS)
    if not others.fitted:
        return refused(Status.SEPARATED)
    if not np.isin(columns[~terms.curved[columns]], others.columns).all():  # a factor does not vary in the reference
        return refused(Status.NO_OVERLAP, 1.0)
    z1, z0 = (x if columns.size == x.shape[1] else x[:, columns] for x in (x1, x0))
    gamma, overlapping = fit([(z1, np.ones(n), v1), (z0, np.zeros(y0.size), v0)])
    if not overlapping:
        return refused(Status.NO_OVERLAP, 1.0)
    log1, log0 = z1 @ gamma, z0 @ gamma
    odds1, odds0 = np.exp(np.minimum(log1, 50.0)), np.where(faced, np.exp(np.minimum(log0, 50.0)), 0.0)
    t1 = x1 if others.columns.size == x1.shape[1] else x1[:, others.columns]
    m1, slope1 = others.predict(t1)
    toward, mean_m = (v1 * slope1) @ t1 / n1, float(v1 @ m1) / n1  # A
    mean1, mean0 = float(v1 @ y1) / n1, mean_m
    influence[0, :n], influence[1, :n] = inside * (y1 - mean1) / n1, inside * (m1 - mean_m) / n1
    influence[2, :n], influence[3, n:] = (y1 - group_mean) / w1.sum(), (y0 - others.mean) / others.n
    shift, pull, uneven = 0.0, np.zeros(y0.size), 1.0
    if model != "logistic":
        uneven = n0 * float(w0 @ odds0**2) / float(w0 @ odds0) ** 2
        pull = odds0 / float(w0 @ odds0)
        shift = float((w0 * pull) @ others.residual)
        mean0 += shift
        toward = toward - (w0 * pull * others.slope) @ others.terms
        e1, e0 = odds1 / (1.0 + odds1), odds0 / (1.0 + odds0)
        information = _gram(z1, v1 * e1 * (1.0 - e1)) + _gram(z0, v0 * e0 * (1.0 - e0))
        back = np.linalg.solve(information, (w0 * pull * (others.residual - shift)) @ z0)  # B H_e^-1
        influence[1, :n] += inside * (1.0 - e1) * (z1 @ back)
        influence[1, n:] = pull * (others.wide - shift) - faced * e0 * (z0 @ back)
    influence[1, n:] += others.wide * (others.terms @ (others.inverse @ toward))
    # People without a comparable one: where the reference is rare, or absent.
    rare = RARE / min(1.0, n0 / n1)
    ends = log0[faced].min(), log0[faced].max()
    near, similar = inside & (log1 >= ends[0]) & (log1 <= ends[1]) & (odds1 <= rare), faced & (odds0 <= rare)
    lacking = 1.0 - float(w1[near].sum() / w1.sum())
    without = np.nan
    if near.any() and similar.any():
        without = float(np.average((y1 - m1)[near], weights=w1[near]))
        without -= float(np.average(others.residual[similar], weights=(w0 * odds0)[similar])) if pull.any() else 0.0
    status = Status.OK
    if lacking > LACKING or uneven > UNEVEN:
        status = Status.NO_OVERLAP
    elif binary and not 0.0 < mean0 < 1.0:
        status = Status.SEPARATED
    conditional = None
    if model == "logistic" and binary:
        both = (np.column_stack([inside, t1]), y1, v1), (np.column_stack([np.zeros(y0.size), others.terms]), y0, w0)
        conditional = _conditional_odds(both)
    return PairFit(
        lines,
        n,
        np.array([mean1, mean0, group_mean, others.mean]),
        status,
        influence,
        lacking,
        without,
        float(v1 @ (m1 * (1.0 - m1))) / n1**2 if binary else 0.0,
        float(v1 @ (y1 - m1 - (mean1 - mean_m)) ** 2) / n1**2,
        conditional,
    )


def _conditional_odds(parts: Sequence[Rows]) -> tuple[float, FloatArray] | None:
    beta, fitted = fit(parts)
    if not fitted:
        return None
    rates = [expit(x @ beta) for x, _, _ in parts]
    information = sum(_gram(x, w * rate * (1.0 - rate)) for (x, _, w), rate in zip(parts, rates, strict=True))
    along = np.linalg.inv(information)[0]
    added = [(w > 0) * (x @ along) * (y - rate) for (x, y, w), rate in zip(parts, rates, strict=True)]
    return float(beta[0]), np.concatenate(added)


# ---- all groups of a partition


@dataclass(frozen=True, eq=False)
class Comparable:
    """All groups of a partition, each with its comparable people; ``mass`` is that of each line."""

    pairs: tuple[PairFit, ...]
    mass: FloatArray
    binary: bool

    @property
    def means(self) -> FloatArray:
        return np.column_stack([pair.means for pair in self.pairs])

    @cached_property
    def covariances(self) -> FloatArray:
        """4 x 4 x groups, for independent rows."""
        products = [(pair.influence * self.mass[pair.lines]) @ pair.influence.T for pair in self.pairs]
        return np.stack(products, axis=2)

    def influence(self) -> Influence:
        refuse_many("given", self.mass.size, len(self.pairs))
        values = np.zeros((self.mass.size, len(self.pairs)))
        members = np.zeros(values.shape, dtype=bool)
        for place, pair in enumerate(self.pairs):
            values[pair.lines, place] = pair.influence[0] - pair.influence[1]
            members[pair.lines[: pair.members], place] = True
        return Influence.from_values(values, members)

    def _spread_out(self, pair: PairFit, values: FloatArray) -> FloatArray:
        whole = np.zeros((self.mass.size, *values.shape[1:]))
        whole[pair.lines] = values
        return whole

    def freedom(self) -> FloatArray:
        """Satterthwaite's degrees of freedom of each difference: few, if its error rests on few people.

        Members have equal weights, so that theirs are their number less 1. Those of the reference are uneven: theirs
        are the number of people that the sum of squares effectively rests on, less 1.
        """
        df = np.full(len(self.pairs), np.inf)
        for place, pair in enumerate(self.pairs):
            squares = (pair.influence[0] - pair.influence[1]) ** 2
            mine, theirs = np.split(self.mass[pair.lines], [pair.members])
            first, second = np.split(squares, [pair.members])
            v1, v0, fourth = float(mine @ first), float(theirs @ second), float(theirs @ second**2)
            if fourth > 0:
                df1, df0 = max(float(mine.sum()) - 1.0, 1.0), max(v0**2 / fourth - 1.0, 1e-3)
                df[place] = (v1 + v0) ** 2 / (v1**2 / df1 + v0**2 / df0)
        return df

    def effect(self, tested: IntArray, link: Link, *, designed: bool = False) -> Effect:
        """The differences, with Student's law for rows alone; ``designed`` rows have the law of their design."""
        covariance = self.covariances[:, :, tested]
        means = self.means[:, tested]
        by_pair = np.array([[pair.assumed, pair.observed] for pair in self.pairs]).reshape(-1, 2).T[:, tested]
        n1 = np.array([float(self.mass[pair.lines[: pair.members]].sum()) for pair in self.pairs])[tested]
        few = n1 * np.minimum(means[0], 1.0 - means[0]) < FEW_CASES if self.binary else np.zeros(tested.size, bool)
        variances = covariance[0, 0], covariance[0, 1], covariance[1, 1]
        assumed, observed = np.where(few, by_pair, 0.0)
        effect = ComparableEffect(link, self.binary, means[0], means[1], *variances, assumed, observed)
        return effect if designed else Designed(effect, Law(np.ones(tested.size), self.freedom()[tested]))

    def account(self, link: Link, design: Design | None, alpha: float) -> dict[str, Any]:
        """The columns that factors add to each group: the comparison without them, what they account for, overlap."""
        size, plain = len(self.pairs), float(chi2_isf(alpha, 1))
        mean1, mean0, raw1, raw0 = self.means
        limits, odds, matrices = np.full(size, plain), np.full((3, size), np.nan), np.empty((2, 2, size))
        for place, pair in enumerate(self.pairs):
            with np.errstate(all="ignore"):
                unit = np.nan_to_num(1.0 / link.unit(pair.means), posinf=0.0, neginf=0.0)
            both = np.array([[unit[0], -unit[1], 0.0, 0.0], [0.0, 0.0, unit[2], -unit[3]]])
            matrices[:, :, place] = both @ self.covariances[:, :, place] @ both.T
            if design is not None:
                columns = self._spread_out(pair, (both @ pair.influence).T)
                matrices[:, :, place] = covariance(design, Influence.from_values(columns))
                limits[place] = _critical(design, columns[:, 1] - columns[:, 0], plain)[1]
            if pair.odds is not None:
                squared = plain * float(self.mass[pair.lines] @ pair.odds[1] ** 2)
                if design is not None:
                    variance, critical = _critical(design, self._spread_out(pair, pair.odds[1]), plain)
                    squared = variance * critical
                odds[:, place] = np.exp(pair.odds[0] + np.array([0.0, -1.0, 1.0]) * np.sqrt(squared))
        with np.errstate(all="ignore"):
            inner, outer = (link.forward(a) - link.forward(b) for a, b in ((mean1, mean0), (raw1, raw0)))
        table = {
            "raw_estimate": raw1,
            "raw_reference": raw0,
            **account_gap(inner, outer, gap_variances(matrices), limits, ratio=link.ratio),
            "lacking": np.array([pair.lacking for pair in self.pairs]),
            "overlap_difference": np.array([pair.without for pair in self.pairs]),
        }
        names = ("conditional_odds", "conditional_odds_low", "conditional_odds_high")
        return table | (dict(zip(names, odds, strict=True)) if any(pair.odds for pair in self.pairs) else {})


def _critical(design: Design, values: FloatArray, plain: float) -> tuple[float, float]:
    """The variance of a contrast by its influence values over clusters, and its critical value."""
    totals = spread(design, Influence.from_values(values))
    return float(totals.variance[0]), float(Law(np.ones(1), totals.df).critical(plain)[0])


@dataclass(frozen=True, slots=True, eq=False)
class ComparableEffect(Effect):
    """Groups and their comparable people on the scale of a link; see the head of this file for T.

    ``v11``, ``v10`` and ``v00`` are the variances and the covariance of both means; ``assumed`` and ``observed`` the
    variance of the group's own rows under the hypothesis and as they are, 0 if cases are not few.
    """

    link: Link
    binary: bool
    mean1: FloatArray
    mean0: FloatArray
    v11: FloatArray
    v10: FloatArray
    v00: FloatArray
    assumed: FloatArray
    observed: FloatArray

    @property
    def value(self) -> FloatArray:
        with np.errstate(all="ignore"):
            return self.link.forward(self.mean1) - self.link.forward(self.mean0)

    @property
    def standard_error(self) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.sqrt(self._variance(self.mean1)) / self.link.unit(self.mean1)

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        return self._squared(self.link.moved(self.mean0, null))

    def _squared(self, mean: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return (self.mean1 - mean) ** 2 / self._variance(mean)

    def _variance(self, mean: FloatArray) -> FloatArray:
        """The variance of µ1 - s µ0 if the mean of the group is ``mean``."""
        with np.errstate(all="ignore"):
            slope = self.link.unit(mean) / self.link.unit(self.mean0)
            variance = self.v11 - 2.0 * slope * self.v10 + slope**2 * self.v00
            spread = mean * (1.0 - mean) / (self.mean0 * (1.0 - self.mean0))
            return np.where(
                self.assumed > 0, np.maximum(variance - self.observed, 0.0) + self.assumed * spread, variance
            )

    def interval(self, critical: npt.ArrayLike) -> Limits:
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.mean1.shape)
        if not self.binary and self.link is IDENTITY:
            margin = np.sqrt(level) * self.standard_error
            return self.value - margin, self.value + margin
        with np.errstate(all="ignore"):
            if not self.binary:
                ends = Fieller(self.mean1, self.mean0, self.v11, self.v10, self.v00).interval(level)
                low, high = (np.log(np.maximum(end, 0.0)) for end in ends)
                return low, high
            low, high = (
                self.link.forward(bisection(lambda mean: self._squared(mean) < level, self.mean1, end))
                - self.link.forward(self.mean0)
                for end in (np.zeros(level.shape), np.ones(level.shape))
            )
        unknown = np.isnan(self.v11 + self.mean0)
        return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def compare_groups(
    terms: Terms,
    partition: Partition,
    value: FloatArray,
    mass: FloatArray,
    chosen: BoolArray | None,
    able: BoolArray,
    *,
    binary: bool,
    model: str,
) -> Comparable:
    """Every group that is ``able`` against those ``chosen``, or the rest; the others have their own mean alone."""
    pairs, weighing, known = [], mass > 0, None
    for group in range(able.size):
        mine = (partition.codes == group) & weighing
        other = weighing & ~mine if chosen is None else chosen & weighing & ~mine
        if able[group] and other.any():
            if known is None or not np.array_equal(known[0], other):
                known = other, Referents(terms, value, mass, other, binary=binary)
            pairs.append(compare(terms, value, mass, mine, known[1], model=model))
            continue
        lines = np.flatnonzero(mine)
        mean = np.average(value[lines], weights=mass[lines]) if lines.size else np.nan
        against = mean if not other.any() or (chosen is not None and not (mine & ~chosen).any()) else np.nan
        means = np.array([mean, against, mean, against])
        pairs.append(PairFit(lines, lines.size, means, Status.REFERENCE, np.zeros((4, lines.size))))
    return Comparable(tuple(pairs), mass, binary)
