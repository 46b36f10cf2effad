"""From utilities on the test part to p-values: the paper's centred bootstrap, intersection-union (sections 3.2, 4).

Every part of the null has one shape. A gain g must exceed delta times a base c:

    accuracy of a group    g = A1 - A0        c = A0    (ratio form)  or 1 (difference form)
    unfairness of a pair   g = sF0 -/+ F1     c = sF0   (ratio form)  or 1 (difference form)

F is the gap between two groups' utilities and s the status quo's sign. |F1| < (1 - delta) |F0| is asked as two
one-sided questions, F1 below and -F1 below, both of which must be answered yes. The paper bootstraps |F1| itself,
which has a kink at 0: resampled |F1*| cannot fall below 0, so when |F1| happens to come out near 0 hardly any resample
exceeds, and the test over-rejects where (1 - delta) |F0| is within two or three standard errors of 0 (docs: up to
0.26 at nominal 0.05). ``fairness_test="paper"`` is that form; far from the kink the two agree.

T(delta) = g - delta c is compared with the bootstrap law of T* - T. A resample exceeds when T* - T >= T, that is
when g* - 2g >= delta (c* - 2c): a half-line of deltas with an end that does not depend on delta. One sort of these
ends gives the p-value at every delta, which is why a whole surface costs no more than a point. Both sides carry the
same sqrt(l), so it cancels; the paper's p-value line scales only one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives.rules.criteria import CANDIDATE, STATUS_QUO, Criteria, Scale, rates_of
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.resampling import Cells, bootstrap_sums, collapse, pvalue

PvalueForm = Literal["add_one", "paper"]


@runtime_checkable  # a stored result is checked for it
class Question(Protocol):
    """One part of the null: is a gain beyond delta times its base?"""

    def pvalue(self, delta: ArrayLike, form: PvalueForm = "add_one") -> FloatArray:
        """p-value at each delta."""


_TIE = 1e-12  # relative: a tie lost to rounding must count as exceeding, never as evidence


@dataclass(frozen=True, slots=True, eq=False)
class Exceedance:
    """How many resamples exceed, as a function of delta, for one component of the null."""

    rising: FloatArray  # sorted: exceeds for every delta from here up
    falling: FloatArray  # sorted: exceeds for every delta down from here
    always: int  # exceeds whatever delta is; resamples with an empty denominator among them
    resamples: int

    @classmethod
    def of(cls, gain: float, base: float, gains: FloatArray, bases: FloatArray) -> Exceedance:
        """From the observed gain and base and their resampled values (NaN: undefined)."""
        a = gains - 2 * gain + _TIE * (abs(gain) + abs(base))
        b = bases - 2 * base
        undefined = np.isnan(a) | np.isnan(b)
        up, down, flat = (~undefined & side for side in (b < 0, b > 0, b == 0))
        return cls(
            rising=np.sort(a[up] / b[up]),
            falling=np.sort(a[down] / b[down]),
            always=int(undefined.sum() + (a[flat] >= 0).sum()),
            resamples=len(gains),
        )

    def count(self, delta: ArrayLike) -> NDArray[np.int64]:
        """Number of resamples exceeding at each delta."""
        up = np.searchsorted(self.rising, delta, side="right")
        down = len(self.falling) - np.searchsorted(self.falling, delta, side="left")
        return np.asarray(self.always + up + down, dtype=np.int64)

    def pvalue(self, delta: ArrayLike, form: PvalueForm = "add_one") -> FloatArray:
        """p-value at each delta: (1 + exceeding) / (1 + resamples), or the paper's exceeding / resamples."""
        count = self.count(delta)
        return np.asarray(pvalue(count, self.resamples) if form == "add_one" else count / self.resamples, dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One accuracy or one unfairness: the two algorithms' values, and the questions that must all be answered yes."""

    candidate: float
    status_quo: float
    questions: tuple[Question, ...]

    def pvalue(self, delta: ArrayLike, form: PvalueForm = "add_one") -> FloatArray:
        """The largest p-value of the questions, at each delta."""
        return largest(self.questions, delta, form)


def largest(parts: Sequence[Question], delta: ArrayLike, form: PvalueForm) -> FloatArray:
    """The largest p-value of the parts, all asked for the same gain (or gains): intersection-union."""
    return np.asarray(np.max([part.pvalue(delta, form) for part in parts], axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Candidate and status quo on the same rows: all components of the null."""

    accuracy: tuple[Component, ...]
    fairness: tuple[Component, ...]
    undefined: int  # resamples in which some needed denominator was empty
    fewest: float  # the smallest denominator
    distance: float  # of the status quo's unfairness from zero, in bootstrap standard errors; the nearest


def resampled_sums(
    values: FloatArray,
    group: IntArray,
    weight: NDArray[np.int64],
    n_groups: int,
    resamples: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Bootstrap `group_sums`: equal lines collapse to cells, and multinomial counts are drawn over the cells."""
    shape = values.shape[1:]
    flat = values.reshape(len(values), -1)
    cells = collapse((group.astype(float), *flat.T), weights=weight)
    code = cells.values[:, 0].astype(np.intp)
    spread = np.zeros((len(code), n_groups, flat.shape[1]))
    spread[np.arange(len(code)), code] = cells.values[:, 1:]
    sums = bootstrap_sums(Cells(spread.reshape(len(code), -1), cells.counts), resamples, rng)
    return np.moveaxis(sums.reshape(resamples, n_groups, *shape), 1, -1)


def compare(criteria: Criteria, observed: FloatArray, draws: FloatArray, worst: Sequence[int]) -> Comparison:
    """The comparison on observed and resampled sums.

    ``worst`` is, for each fairness utility, the status quo's most unequal pair, chosen on other rows. The largest gap
    over pairs is not differentiable where two pairs tie, so its bootstrap over-rejects; each pair of the candidate is
    compared with one fixed pair of the status quo instead.
    """
    rates, rates_star = rates_of(observed), rates_of(draws)
    a, a_star = criteria.accuracy_of(rates, observed), criteria.accuracy_of(rates_star, draws)
    undefined = np.isnan(a_star).any(axis=(-2, -1))
    accuracy = []
    for (a0, a1), (a0_star, a1_star) in zip(a.T, a_star.T, strict=True):
        question = _exceedance(criteria.scale, a1 - a0, a0, a1_star - a0_star, a0_star)
        accuracy.append(Component(float(a1), float(a0), (question,)))
    fairness, distance = [], np.inf
    for k, q in enumerate(worst):
        gap, gap_star = criteria.gaps(rates, k), criteria.gaps(rates_star, k)
        fairness.append(_unfairness(criteria, gap, gap_star, q))
        distance = min(distance, _distance(gap[STATUS_QUO, q], gap_star[:, STATUS_QUO, q]))
        undefined |= np.isnan(gap_star[:, CANDIDATE]).any(axis=-1) | np.isnan(gap_star[:, STATUS_QUO, q])
    fewest = float(observed[:, :, 1].min())
    return Comparison(tuple(accuracy), tuple(fairness), int(undefined.sum()), fewest, distance)


def _unfairness(criteria: Criteria, gap: FloatArray, gap_star: FloatArray, q: int) -> Component:
    """Is every pair's gap under the candidate smaller than the status quo's worst?"""
    two_sided, paper = criteria.protected is None, criteria.fairness_test == "paper"
    unfair = criteria.unfairness(gap)
    asked, asked_star = (unfair, criteria.unfairness(gap_star)) if paper else (gap, gap_star)
    sign = -1 if two_sided and asked[STATUS_QUO, q] < 0 else 1
    f0, f0_star = sign * asked[STATUS_QUO, q], sign * asked_star[:, STATUS_QUO, q]
    questions = [
        _exceedance(criteria.scale, f0 - side * f1, f0, f0_star - side * f1_star, f0_star)
        for f1, f1_star in zip(asked[CANDIDATE], asked_star[:, CANDIDATE].T, strict=True)
        for side in ((1, -1) if two_sided and not paper else (1,))
    ]
    if not two_sided:
        # A protected group that is not worse off has no disadvantage to cut: the status quo's must be shown too.
        disadvantage, resampled = gap[STATUS_QUO, q], gap_star[:, STATUS_QUO, q]
        questions.append(Exceedance.of(float(disadvantage), 0.0, resampled, np.zeros(len(resampled))))
    return Component(float(unfair[CANDIDATE].max()), float(unfair[STATUS_QUO, q]), tuple(questions))


def _exceedance(scale: Scale, gain: float, base: float, gains: FloatArray, bases: FloatArray) -> Exceedance:
    """Whether a gain exceeds delta times its base, or delta itself where gains are differences."""
    if scale == "ratio":
        return Exceedance.of(float(gain), float(base), gains, bases)
    return Exceedance.of(float(gain), 1.0, gains, np.ones(len(gains)))


def _distance(value: float, resampled: FloatArray) -> float:
    kept = resampled[~np.isnan(resampled)]
    error = float(kept.std()) if len(kept) else 0.0
    return abs(float(value)) / error if error > 0 else np.inf
