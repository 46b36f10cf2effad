"""From utilities on the test part to p-values: centred bootstrap, intersection-union, median (sections 3.2, 4).

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives.utilities import FloatArray, Utility
from isonomy.numerics.resampling import Cells, bootstrap_sums, collapse, pvalue

CANDIDATE, STATUS_QUO = 1, 0
_TIE = 1e-12  # relative: a tie lost to rounding must count as exceeding, never as evidence


@dataclass(frozen=True, slots=True, eq=False)
class Criteria:
    """What counts as accurate and as unfair.

    ``weights`` is None (every group must gain), an array with one weight a group, or "pooled" (all rows together).
    ``protected`` is the code of the group that one-sided unfairness protects, None for two-sided.
    ``harm`` is, for each fairness utility, +1 where the protected group is harmed by having less of it, else -1.
    ``fairness_test`` is "two_one_sided" or "paper".
    """

    accuracy: Utility
    fairness: tuple[Utility, ...]
    labels: tuple[str, ...]
    weights: FloatArray | str | None = None
    scale: str = "ratio"
    protected: int | None = None
    harm: tuple[int, ...] = ()
    fairness_test: str = "two_one_sided"

    @property
    def utilities(self) -> tuple[Utility, ...]:
        """The distinct utilities, accuracy first."""
        return tuple(dict.fromkeys((self.accuracy, *self.fairness)))

    @property
    def accuracies(self) -> tuple[str, ...]:
        """What the accuracy components are called."""
        if self.weights is None:
            return self.labels
        return ("all rows",) if isinstance(self.weights, str) else ("weighted groups",)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of groups whose utilities are compared."""
        codes = range(len(self.labels))
        if self.protected is None:
            return tuple(combinations(codes, 2))
        return tuple((other, self.protected) for other in codes if other != self.protected)

    def accuracy_of(self, rates: FloatArray, sums: FloatArray) -> FloatArray:
        """Accuracy components of both algorithms: (..., 2, components)."""
        if isinstance(self.weights, str):
            pooled = sums[..., 0, :, :, :].sum(axis=-1, keepdims=True)
            return _ratio(pooled[..., 0, :], pooled[..., 1, :])
        by_group = rates[..., 0, :, :]
        return by_group if self.weights is None else (by_group @ self.weights)[..., None]

    def gaps(self, rates: FloatArray, utility: int) -> FloatArray:
        """Gap between the groups of each pair, for both algorithms: (..., 2, pairs).

        One-sided, a positive gap is the protected group's disadvantage.
        """
        by_group = rates[..., self.utilities.index(self.fairness[utility]), :, :]
        first, second = np.array(self.pairs).T
        gap = by_group[..., first] - by_group[..., second]
        return gap if self.protected is None else self.harm[utility] * gap

    def unfairness(self, gap: FloatArray) -> FloatArray:
        """|gap|, or its positive part when one group is protected."""
        return np.abs(gap) if self.protected is None else np.maximum(gap, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Exceedance:
    """How many resamples exceed, as a function of delta, for one component of the null."""

    rising: FloatArray  # sorted: exceeds for every delta from here up
    falling: FloatArray  # sorted: exceeds for every delta down from here
    always: int  # exceeds whatever delta is
    undefined: int  # of these, resamples with an empty denominator
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
            undefined=int(undefined.sum()),
            resamples=len(gains),
        )

    def count(self, delta: ArrayLike) -> NDArray[np.int64]:
        """Number of resamples exceeding at each delta."""
        up = np.searchsorted(self.rising, delta, side="right")
        down = len(self.falling) - np.searchsorted(self.falling, delta, side="left")
        return np.asarray(self.always + up + down, dtype=np.int64)

    def pvalue(self, delta: ArrayLike, form: str = "add_one") -> FloatArray:
        """p-value at each delta: (1 + exceeding) / (1 + resamples), or the paper's exceeding / resamples."""
        count = self.count(delta)
        found = pvalue(count, self.resamples) if form == "add_one" else count / self.resamples
        return np.asarray(found, dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One accuracy or one unfairness: the two algorithms' values, and the questions that must all be answered yes."""

    candidate: float
    status_quo: float
    exceedances: tuple[Exceedance, ...]

    def pvalue(self, delta: ArrayLike, form: str = "add_one") -> FloatArray:
        """The largest p-value of the questions, at each delta."""
        return np.max([e.pvalue(delta, form) for e in self.exceedances], axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All components of one test part."""

    accuracy: tuple[Component, ...]
    fairness: tuple[Component, ...]
    undefined: int  # resamples in which some needed denominator was empty
    distance: float  # of the status quo's unfairness from zero, in bootstrap standard errors; the nearest


def summands(
    utilities: Sequence[Utility],
    features: Mapping[str, FloatArray],
    outcomes: Mapping[str | None, FloatArray],
    decisions: Sequence[FloatArray],
) -> FloatArray:
    """u and w of every utility under both algorithms, a line each: (lines, utilities, 2 algorithms, 2)."""
    parts = [[np.stack(u.values(features, outcomes[u.outcome], d), axis=-1) for d in decisions] for u in utilities]
    return np.stack([np.stack(pair, axis=1) for pair in parts], axis=1)


def group_sums(values: FloatArray, group: NDArray[np.intp], weight: NDArray[Any], n_groups: int) -> FloatArray:
    """Sums of u and w by group: (utilities, algorithms, 2, groups)."""
    flat = values.reshape(len(values), -1) * weight[:, None]
    sums = np.zeros((n_groups, flat.shape[1]))
    np.add.at(sums, group, flat)
    return sums.T.reshape(*values.shape[1:], n_groups)


def rates_of(sums: FloatArray) -> FloatArray:
    """U = sum of u / sum of w, NaN where nothing is in the denominator: (..., utilities, algorithms, groups)."""
    return _ratio(sums[..., 0, :], sums[..., 1, :])


def _ratio(u: FloatArray, w: FloatArray) -> FloatArray:
    return np.divide(u, w, out=np.full(np.shape(u), np.nan), where=w > 0)


def resampled_sums(
    values: FloatArray,
    group: NDArray[np.intp],
    weight: NDArray[Any],
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


def weigh(criteria: Criteria, observed: FloatArray, draws: FloatArray, worst: Sequence[int]) -> Evidence:
    """Evidence from observed and resampled sums.

    ``worst`` is, for each fairness utility, the status quo's most unequal pair, chosen on other rows. The largest gap
    over pairs is not differentiable where two pairs tie, so its bootstrap over-rejects; each pair of the candidate is
    compared with one fixed pair of the status quo instead.
    """
    rates, rates_star = rates_of(observed), rates_of(draws)
    a, a_star = criteria.accuracy_of(rates, observed), criteria.accuracy_of(rates_star, draws)
    undefined = np.isnan(a_star).any(axis=(-2, -1))
    accuracy = tuple(
        Component(
            float(a[CANDIDATE, i]),
            float(a[STATUS_QUO, i]),
            (_exceedance(criteria.scale, a[:, i], a_star[:, :, i], sign=1, base=1),),
        )
        for i in range(a.shape[-1])
    )
    fairness, distance = [], np.inf
    for k, q in enumerate(worst):
        gap, gap_star = criteria.gaps(rates, k), criteria.gaps(rates_star, k)
        fairness.append(_unfairness(criteria, gap, gap_star, q))
        distance = min(distance, _distance(gap[STATUS_QUO, q], gap_star[:, STATUS_QUO, q]))
        undefined |= np.isnan(gap_star[:, CANDIDATE]).any(axis=-1) | np.isnan(gap_star[:, STATUS_QUO, q])
    return Evidence(accuracy, tuple(fairness), int(undefined.sum()), distance)


def _unfairness(criteria: Criteria, gap: FloatArray, gap_star: FloatArray, q: int) -> Component:
    """Is every pair's gap under the candidate smaller than the status quo's worst?"""
    scale = criteria.scale
    sign = -1 if criteria.protected is None and gap[STATUS_QUO, q] < 0 else 1
    unfair, unfair_star = criteria.unfairness(gap), criteria.unfairness(gap_star)
    questions = []
    for p in range(gap.shape[-1]):
        if criteria.fairness_test == "paper":
            pair = np.array([unfair[STATUS_QUO, q], unfair[CANDIDATE, p]])
            pair_star = np.stack([unfair_star[:, STATUS_QUO, q], unfair_star[:, CANDIDATE, p]], axis=1)
            questions.append(_exceedance(scale, pair, pair_star, sign=-1, base=1))
            continue
        pair = np.array([sign * gap[STATUS_QUO, q], gap[CANDIDATE, p]])
        pair_star = np.stack([sign * gap_star[:, STATUS_QUO, q], gap_star[:, CANDIDATE, p]], axis=1)
        for side in (1,) if criteria.protected is not None else (1, -1):
            turned = np.array([1, side])
            questions.append(_exceedance(scale, pair * turned, pair_star * turned, sign=-1, base=1))
    if criteria.protected is not None:
        # A protected group that is not worse off has no disadvantage to cut: the status quo's must be shown too.
        shown = np.array([0.0, gap[STATUS_QUO, q]])
        shown_star = np.stack([np.zeros(len(gap_star)), gap_star[:, STATUS_QUO, q]], axis=1)
        questions.append(_exceedance(scale, shown, shown_star, sign=1, base=0))
    return Component(float(unfair[CANDIDATE].max()), float(unfair[STATUS_QUO, q]), tuple(questions))


def _exceedance(scale: str, values: FloatArray, resampled: FloatArray, *, sign: int, base: int) -> Exceedance:
    """Whether ``sign * (candidate - status quo)`` exceeds delta times the status quo (or times 1, or times 0)."""
    gain = sign * (values[CANDIDATE] - values[STATUS_QUO])
    gains = sign * (resampled[:, CANDIDATE] - resampled[:, STATUS_QUO])
    if scale == "ratio" and base:
        return Exceedance.of(float(gain), float(values[STATUS_QUO]), gains, resampled[:, STATUS_QUO])
    return Exceedance.of(float(gain), float(base), gains, np.full(len(gains), float(base)))


def _distance(value: float, resampled: FloatArray) -> float:
    kept = resampled[~np.isnan(resampled)]
    error = float(kept.std()) if len(kept) else 0.0
    return abs(float(value)) / error if error > 0 else np.inf


def median(pvalues: ArrayLike) -> FloatArray:
    """The smallest median along the first axis (the paper's footnote 18), so that half the rounds suffice."""
    ordered = np.sort(np.asarray(pvalues, dtype=float), axis=0)
    return np.asarray(ordered[(len(ordered) - 1) // 2])


def combined(pvalues: ArrayLike) -> FloatArray:
    """One valid p-value from the rounds': min(1, 2 x median) (Corollary 1); a single round's own, undoubled."""
    middle = median(pvalues)
    return middle if len(np.atleast_1d(pvalues)) == 1 else np.minimum(1.0, 2 * middle)
