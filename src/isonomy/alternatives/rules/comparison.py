"""From utilities to p-values: each requirement, tested at every gain that could be required; trials merged into one.

Every part of the null has the same form. A gain g must exceed delta times a base c:

    accuracy of a group    g = A1 - A0        c = A0    (ratio)  or 1 (difference)
    unfairness of a pair   g = sF0 -/+ F1     c = sF0   (ratio)  or 1 (difference)

F is the gap between two groups' utilities and s the sign of the status quo's. All parts must be shown, so the largest
p-value counts (intersection-union). There are two laws for g - delta c:

*In closed form* (`assess`): estimates and their covariance give a normal law, an `Excess`. |F1| < c is tested by two
one-sided tests that are combined into an `Equivalence`.

*By the bootstrap* (`resample` and `compare_resamples`; sections 3.2 and 4 of the paper): T(delta) = g - delta c is
compared with the bootstrap law of T* - T. A resample exceeds if T* - T >= T, that is, if g* - 2g >= delta (c* - 2c): a
half-line of deltas whose end does not depend on delta. Sorting these ends once gives the p-value at every delta, so a
whole surface costs no more than a point. Both sides have the same factor sqrt(l), which cancels; the paper's formula
for the p-value scales only one of them. |F1| < (1 - delta) |F0| is tested as two one-sided hypotheses. The paper
bootstraps |F1| itself, which has a kink at 0: |F1*| cannot fall below 0, so hardly any resample exceeds if |F1| happens
to be near 0, and the test over-rejects if (1 - delta) |F0| is within two or three standard errors of 0 (up to 0.26 at
nominal 0.05). ``published=True`` is that form; far from the kink the two agree.

The p-value of a trial at (delta_a, delta_f) is the larger of an accuracy curve at delta_a and a fairness curve at
delta_f, so a whole surface (Figure 3 of the paper) takes a few curves and one merge per point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from isonomy.alternatives.rules.influence import Judged, RateMoments, changes, gap_forms, shapes
from isonomy.alternatives.rules.utilities import CANDIDATE, STATUS_QUO, Criteria, rates_of
from isonomy.inference import rejected
from isonomy.inference.effect import too_skewed
from isonomy.inference.multiplicity import RANK_TOLERANCE, sup_t
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.resampling import Cells, bootstrap_sums, collapse
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_as_rare, t_sf

_TIE = 1e-12  # relative: a tie lost to rounding must count as exceeding, never as evidence
FEW_CHANGES = 100  # decisions: a gain from fewer is judged by their binomial law
FEWEST_CHANGES = 10  # decisions, in effect, that the normal law needs where there is no binomial law
FINER = 4  # grids of 1,024 steps that refine a bound, to 2^-40 of a step of `GRID`
GRID = (201, 101)  # accuracy gains from -1 to 1, fairness gains from 0 to 1, as in the paper

Merge = Literal["median", "exchangeable", "smallest"]


# ---- tests of one part


@dataclass(frozen=True, slots=True, eq=False)
class Excess:
    """Does the ``gain`` exceed delta times the ``base``? A normal law, from their variances and covariance.

    ``noise`` is what rounding leaves of a variance that is 0. ``identical``: both algorithms make the same decisions
    for everybody concerned, so the gain is 0 and nothing was estimated. ``df`` is the number of clusters minus 1.
    ``changed`` are the decisions that raise and that lower the gain, and by how much each, if they are few: without a
    true gain either is as likely, so their law is binomial (McNemar's test).
    """

    gain: float
    base: float
    variance: float
    covariance: float
    base_variance: float
    noise: float
    rows: int
    identical: bool = False
    df: float = np.inf
    changed: tuple[float, float, float] | None = None

    def moments(self, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        variance = self.variance - 2 * delta * self.covariance + delta**2 * self.base_variance
        return self.gain - delta * self.base, variance

    def pvalue(self, delta: ArrayLike) -> FloatArray:
        """One-sided, at each delta; without variance, 1 / (1 + rows) for a large enough gain, never 0."""
        excess, variance = self.moments(np.asarray(delta, dtype=float))
        certain = self.identical | (variance <= self.noise)
        pvalue = np.asarray(t_sf(excess / np.sqrt(np.where(certain, 1.0, variance)), self.df))
        if self.changed is not None:
            raising, lowering, size = self.changed
            required = np.asarray(delta, dtype=float) * self.base / (size * (raising + lowering))
            chance = np.clip((1 + required) / 2, 0.0, 1.0)
            exact = special.betainc(raising, lowering + 1, chance) if raising else np.ones(chance.shape)
            pvalue = np.maximum(pvalue, exact)
        tie = _TIE * (abs(self.gain) + abs(self.base))
        met = np.where(self.identical & (excess >= -tie), 0.0, np.where(excess > tie, 1 / (1 + self.rows), 1.0))
        return np.asarray(np.where(certain, met, pvalue), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Equivalence:
    """Is a gap F1 between -c and c, where c is the gap that the required cut leaves of the status quo's?

    With u <= v the distances of F1 from both ends in standard errors and r < 0 their correlation, the p-value is

        P(u <= Z <= u + (v - u) / -r),    Z standard normal,

    instead of P(Z >= u): at the end that u is measured from, v - r u is independent of u, and given it everything that
    rejects at this p-value or a smaller one lies between these two. So the level holds wherever F1 and c are, and the
    power is never lower. If c is known without error, r = -1, it is the uniformly most powerful unbiased test of
    equivalence. Nothing is shown unless c is shown to be above 0. ``step`` is half the distance between the values that
    F1 can take: an F1 that is 0 because there are few rows is not evidence.
    """

    upper: Excess
    lower: Excess
    shared: float  # covariance of the two gains
    step: float

    def pvalue(self, delta: ArrayLike) -> FloatArray:
        d, df = np.asarray(delta, dtype=float), self.upper.df
        one_sided = np.maximum(self.upper.pvalue(d), self.lower.pvalue(d))
        (above, first), (below, second) = self.upper.moments(d), self.lower.moments(d)
        shared = self.shared - d * (self.upper.covariance + self.lower.covariance) + d**2 * self.upper.base_variance
        usable = (first > self.upper.noise) & (second > self.lower.noise) & (shared < 0)
        deviations = np.sqrt(np.where(usable, [first, second], 1.0))
        z = np.stack([above, below]) / deviations
        near, far = z.min(axis=0), z.max(axis=0)
        usable = usable & (near > 0)
        steps = self.step / deviations
        start, width = near - steps.max(axis=0), far - near + steps.sum(axis=0)
        correlation = np.where(usable, shared / deviations.prod(axis=0), -1.0)
        middle = (above + below) / np.sqrt(np.maximum(first + second + 2 * shared, 1e-300))
        between = t_sf(start, df) - t_sf(start - width / correlation, df)
        sharper = np.maximum(np.minimum(one_sided, between), t_sf(middle, df))
        few = self.upper.changed is not None or self.lower.changed is not None
        return np.asarray(np.where(usable & (not few), np.minimum(one_sided, sharper), one_sided), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Exceedance:
    rising: FloatArray  # sorted: exceeds for every delta from here up
    falling: FloatArray  # sorted: exceeds for every delta down from here
    always: int  # exceeds whatever delta is; resamples with an empty denominator among them
    resamples: int
    added: int = 1  # to both counts, so that a p-value is never 0; the paper adds nothing

    def count(self, delta: ArrayLike) -> NDArray[np.int64]:
        up = np.searchsorted(self.rising, delta, side="right")
        down = len(self.falling) - np.searchsorted(self.falling, delta, side="left")
        return np.asarray(self.always + up + down, dtype=np.int64)

    def pvalue(self, delta: ArrayLike) -> FloatArray:
        """p-value at each delta: (1 + exceeding) / (1 + resamples), or the paper's exceeding / resamples."""
        return np.asarray((self.added + self.count(delta)) / (self.added + self.resamples), dtype=float)


# ---- all parts of the null


Tested = Excess | Equivalence | Exceedance  # one part of the null
Gain = tuple[FloatArray, FloatArray]  # a gain, and the status quo's value, as linear forms of the estimates
Form = tuple[FloatArray, FloatArray | None]  # a gain and its base as linear forms; without a base it is 1


@dataclass(frozen=True, slots=True, eq=False)
class Requirement:
    """One accuracy or one unfairness: the values of both algorithms, and what must all be shown."""

    candidate: float
    status_quo: float
    parts: tuple[Tested, ...]

    def pvalue(self, delta: ArrayLike) -> FloatArray:
        return largest(self.parts, delta)


@dataclass(frozen=True, slots=True, eq=False)
class Requirements:
    accuracy: tuple[Requirement, ...]
    fairness: tuple[Requirement, ...]
    undefined: int  # resamples in which some denominator was empty
    fewest: float  # the smallest denominator
    distance: float  # of the status quo's unfairness from zero, in standard errors; the smallest

    def pvalues(self, criteria: Criteria) -> FloatArray:
        parts, gains = (*self.accuracy, *self.fairness), (*criteria.accuracy_gains, *criteria.fairness_gains)
        return np.array([float(part.pvalue(gain)) for part, gain in zip(parts, gains, strict=True)])


def largest(parts: Sequence[Tested | Requirement], delta: ArrayLike) -> FloatArray:
    return np.asarray(np.max([part.pvalue(delta) for part in parts], axis=0))


# ---- in closed form


def excess(
    known: RateMoments,
    gain: FloatArray,
    base: FloatArray | None,
    *,
    identical: bool = False,
    judged: Judged | None = None,
) -> Excess:
    """The test of two linear forms of the estimates; without a base, gains are differences and it is 1.

    ``judged``: the lines, if the gain may be due to few changed decisions.
    """
    c = np.zeros(len(gain)) if base is None else base
    spread = known.covariance @ np.column_stack([gain, c])
    return Excess(
        gain=float(gain @ known.estimates),
        base=1.0 if base is None else float(c @ known.estimates),
        variance=float(gain @ spread[:, 0]),
        covariance=float(c @ spread[:, 0]),
        base_variance=float(c @ spread[:, 1]),
        noise=RANK_TOLERANCE * float((gain**2 + c**2) @ np.diagonal(known.covariance)),
        rows=known.rows,
        identical=identical,
        df=known.df,
        changed=None if judged is None or identical else _few_changes(judged, known, gain),
    )


def _few_changes(judged: Judged, known: RateMoments, gain: FloatArray) -> tuple[float, float, float] | None:
    """The rows that raise and that lower a gain, and by how much each, if they are few and all alike."""
    changed = changes(judged, known, gain)
    weighted = judged.squares is not None and not np.allclose(judged.squares, judged.weight, rtol=1e-9, atol=0.0)
    if changed is None or weighted or judged.cluster is not None or not changed.any():
        return None
    size = float(np.abs(changed).max())
    alike = np.all((changed == 0) | (np.abs(np.abs(changed) - size) <= 1e-9 * size))
    raising, lowering = (float(judged.weight[side].sum()) for side in (changed > 0, changed < 0))
    return (raising, lowering, size) if alike and raising + lowering < FEW_CHANGES else None


def lawless(judged: Judged, known: RateMoments, identical: BoolArray, alpha: float) -> Status:
    """Why no law holds for some gain: `Status.OK` if all have one.

    Outcomes may be too skewed for the rows that are selected; 0/1 outcomes have no such limit, as they are judged by
    the rows in their denominators. A gain may be due to few decisions that are weighted, clustered or randomized.
    """
    gains, cuts = gain_forms(judged, known, identical)
    forms = [gain for part in (gains, *cuts) for gain, _ in part if gain.any()]
    if not forms:
        return Status.OK
    columns = np.stack(forms, axis=-1)
    noise = RANK_TOLERANCE * (columns**2).T @ np.diagonal(known.covariance)
    if judged.real.any():
        for third, variance in shapes(judged, known, columns):
            if np.any(too_skewed(third, variance, alpha) & (variance > noise)):
                return Status.SKEWED
    for form in columns.T:
        changed = changes(judged, known, form)
        if changed is None or not changed.any() or _few_changes(judged, known, form) is not None:
            continue
        if judged.cluster is None:  # squares, and fourth powers, of the weights of a line's rows
            squares = judged.weight if judged.squares is None else judged.squares
            second, fourth = squares @ changed**2, squares**3 / judged.weight**2 @ changed**4
        else:
            sums = np.bincount(judged.cluster, judged.weight * changed)
            second, fourth = (sums**2).sum(), (sums**4).sum()
        if second**2 < FEWEST_CHANGES * fourth:
            return Status.FEW_EVENTS
    return Status.OK


def gain_forms(judged: Judged, known: RateMoments, identical: BoolArray) -> tuple[list[Gain], list[list[Gain]]]:
    """The gain of each accuracy and the gains of each fairness utility, with the status quo's value."""
    criteria, size = judged.criteria, len(known.estimates)
    unit, sides = np.eye(size), (1, -1) if criteria.protected is None else (1,)
    n_cells = judged.sums[:, :, 0].size
    if isinstance(criteria.weights, str):
        accuracies = unit[n_cells : n_cells + 2, :, None]
    else:
        rates = unit[:, :n_cells].reshape(size, *judged.sums[:, :, 0].shape)
        accuracies = np.moveaxis(criteria.accuracy_of(rates, rates), 1, 0)  # (2, columns, components)
    gains = [
        (np.zeros(size) if same else after - before, before)
        for same, before, after in zip(identical, *np.moveaxis(accuracies, 2, 1), strict=True)
    ]
    gaps = gap_forms(criteria, size)[:, :, CANDIDATE]
    return gains, [
        [(base - side * column, base) for column in gap.T for side in sides]
        for gap, base in zip(gaps, unit[size - len(gaps) :], strict=True)
    ]


def assess(
    judged: Judged, known: RateMoments, identical: BoolArray, alpha: float, rng: np.random.Generator
) -> tuple[Requirements, FloatArray]:
    """The requirements in closed form, and each gain with simultaneous limits: (accuracies and utilities, 3).

    ``identical`` says for which accuracies both algorithms make the same decisions.
    """
    criteria, size = judged.criteria, len(known.estimates)
    ratio, two_sided = criteria.scale == "ratio", criteria.protected is None
    gains, cuts = gain_forms(judged, known, identical)
    accuracy, fairness, distance = [], [], np.inf
    for i, (gain, base) in enumerate(gains):
        test = excess(known, gain, base if ratio else None, identical=bool(identical[i]), judged=judged)
        value = float(base @ known.estimates)
        accuracy.append(Requirement(value + test.gain, value, (test,)))
    gaps = gap_forms(criteria, size)[:, :, CANDIDATE]
    for k, (gap, part) in enumerate(zip(gaps, cuts, strict=True)):
        base = part[0][1]
        pairs = [(cut, base if ratio else None) for cut, _ in part]
        sides = [excess(known, *pair, judged=judged) for pair in pairs]
        parts: list[Tested] = [*sides]
        if two_sided:
            ends = zip(pairs[::2], pairs[1::2], strict=True)
            covariances = [float(upper[0] @ known.covariance @ lower[0]) for upper, lower in ends]
            parts = list(map(Equivalence, sides[::2], sides[1::2], covariances, _steps(judged, k)))
        else:
            # A protected group that is not worse off has no disadvantage to cut: the status quo's must be shown too.
            parts.append(excess(known, base, np.zeros(size)))
        worst = excess(known, base, None)
        unfair = float(criteria.unfairness(known.estimates @ gap).max())
        fairness.append(Requirement(unfair, max(worst.gain, 0.0), tuple(parts)))
        if worst.variance > worst.noise:
            distance = min(distance, float(abs(worst.gain) / np.sqrt(worst.variance)))
    tested = [[form] for form in gains] + cuts
    forms = [[(gain, base if ratio else None) for gain, base in part] for part in tested]
    limits = _limits(known, forms, alpha, rng)
    if ratio:  # unfairness cannot fall by more than all of itself
        limits[len(accuracy) :] = np.minimum(limits[len(accuracy) :], 1.0)
    fewest = float(judged.sums[:, :, 1].min())
    return Requirements(tuple(accuracy), tuple(fairness), 0, fewest, distance), limits


def _steps(judged: Judged, k: int) -> list[float]:
    """Half of what one row can change in the candidate's gap of each pair, by the larger of its two groups."""
    criteria = judged.criteria
    utility = criteria.utilities.index(criteria.fairness[k])
    values = np.unique(judged.values[:, utility, CANDIDATE, 0])
    smallest = float(np.diff(values).min()) if len(values) > 1 else 0.0
    denominators = judged.sums[utility, CANDIDATE, 1]
    return [0.5 * smallest / max(denominators[list(pair)].max(), 1.0) for pair in criteria.pairs]


def _limits(known: RateMoments, forms: Sequence[Sequence[Form]], alpha: float, rng: np.random.Generator) -> FloatArray:
    """Each requirement's gain with limits that hold for all at once; unfairness falls by the smallest of its gains."""
    estimates, gradients = [], []
    for gain, base in (form for part in forms for form in part):
        c = 1.0 if base is None else float(base @ known.estimates)
        c = c if c > 0 else np.nan
        estimates.append(gain @ known.estimates / c)
        gradients.append(gain if base is None else (gain - estimates[-1] * base) / c)
    jacobian, undefined = np.nan_to_num(gradients), np.isnan(estimates)
    covariance = jacobian @ known.covariance @ jacobian.T
    noise = RANK_TOLERANCE * (jacobian**2 @ np.diagonal(known.covariance))
    variance = np.diagonal(covariance)
    deviation = np.sqrt(np.where((variance > noise) & ~undefined, variance, np.nan))
    correlation = covariance / deviation[:, None] / deviation
    np.fill_diagonal(correlation, np.where(np.isnan(deviation), np.nan, 1.0))
    critical = float(t_as_rare(sup_t(correlation, alpha=alpha, rng=rng).critical, known.df))
    margin = np.nan_to_num(critical * np.nan_to_num(deviation))
    rows = np.array(estimates)[:, None] + np.outer(margin, [0.0, -1.0, 1.0])
    ends = np.cumsum([len(part) for part in forms])[:-1]
    return np.stack([part.min(axis=0) for part in np.split(rows, ends)])


# ---- by the bootstrap


def exceedance(gain: float, base: float, gains: FloatArray, bases: FloatArray, added: int = 1) -> Exceedance:
    """From the observed gain and base and their resampled values (NaN: undefined)."""
    a = gains - 2 * gain + _TIE * (abs(gain) + abs(base))
    b = bases - 2 * base
    undefined = np.isnan(a) | np.isnan(b)
    up, down, flat = (~undefined & side for side in (b < 0, b > 0, b == 0))
    always = int(undefined.sum() + (a[flat] >= 0).sum())
    return Exceedance(np.sort(a[up] / b[up]), np.sort(a[down] / b[down]), always, len(gains), added)


def resample(
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


def compare_resamples(
    criteria: Criteria, observed: FloatArray, draws: FloatArray, worst: Sequence[int], *, published: bool = False
) -> Requirements:
    """The requirements on observed and resampled sums.

    ``worst`` is the status quo's most unequal pair in each fairness utility, chosen on other rows. The largest gap over
    pairs is not differentiable if two pairs tie, so its bootstrap over-rejects; instead, each pair of the candidate is
    compared with one fixed pair of the status quo.
    """
    rates, rates_star = rates_of(observed), rates_of(draws)
    a, a_star = criteria.accuracy_of(rates, observed), criteria.accuracy_of(rates_star, draws)
    undefined = np.isnan(a_star).any(axis=(-2, -1))
    ratio, added = criteria.scale == "ratio", 0 if published else 1

    def exceeds(gain: float, base: float, gains: FloatArray, bases: FloatArray) -> Exceedance:
        if not ratio:
            base, bases = 1.0, np.ones(len(gains))
        return exceedance(float(gain), float(base), gains, bases, added)

    accuracy = [
        Requirement(float(a1), float(a0), (exceeds(a1 - a0, a0, a1_star - a0_star, a0_star),))
        for (a0, a1), (a0_star, a1_star) in zip(a.T, a_star.T, strict=True)
    ]
    two_sided, distance = criteria.protected is None, np.inf
    fairness = []
    gaps, gaps_star = criteria.gaps(rates), criteria.gaps(rates_star)
    for k, q in enumerate(worst):
        gap, gap_star = gaps[k], gaps_star[:, k]
        unfair = criteria.unfairness(gap)
        tested, tested_star = (unfair, criteria.unfairness(gap_star)) if published else (gap, gap_star)
        sign = -1 if two_sided and tested[STATUS_QUO, q] < 0 else 1
        f0, f0_star = sign * tested[STATUS_QUO, q], sign * tested_star[:, STATUS_QUO, q]
        parts = [
            exceeds(f0 - side * f1, f0, f0_star - side * f1_star, f0_star)
            for f1, f1_star in zip(tested[CANDIDATE], tested_star[:, CANDIDATE].T, strict=True)
            for side in ((1, -1) if two_sided and not published else (1,))
        ]
        before, before_star = gap[STATUS_QUO, q], gap_star[:, STATUS_QUO, q]
        if not two_sided:
            # A protected group that is not worse off has no disadvantage to cut: the status quo's must be shown too.
            parts.append(exceedance(float(before), 0.0, before_star, np.zeros(len(before_star)), added))
        fairness.append(Requirement(float(unfair[CANDIDATE].max()), float(unfair[STATUS_QUO, q]), tuple(parts)))
        defined = before_star[~np.isnan(before_star)]
        error = float(defined.std()) if len(defined) else 0.0
        distance = min(distance, abs(float(before)) / error if error > 0 else np.inf)
        undefined |= np.isnan(gap_star[:, CANDIDATE]).any(axis=-1) | np.isnan(before_star)
    fewest = float(observed[:, :, 1].min())
    return Requirements(tuple(accuracy), tuple(fairness), int(undefined.sum()), fewest, distance)


# ---- trials merged


def median(pvalues: ArrayLike) -> FloatArray:
    """The smallest median along the first axis (the paper's footnote 18), so that half of the rounds suffice."""
    ordered = np.sort(np.asarray(pvalues, dtype=float), axis=0)
    return np.asarray(ordered[(len(ordered) - 1) // 2])


def combined(pvalues: ArrayLike, merge: Merge = "median", attempts: int = 1) -> FloatArray:
    """One valid p-value along the first axis, times the number of attempts.

    ``"median"`` is min(1, 2 x median) (Corollary 1). ``"exchangeable"`` is twice the smallest median of the first k
    p-values, over k, which is valid for exchangeable p-values (Gasparin, Wang and Ramdas 2025). A single round is not
    doubled. ``"smallest"`` is for several candidates, each of which counts as an attempt.

    >>> float(combined([0.01, 0.2, 0.3], "exchangeable")), float(combined([0.01, 0.2, 0.3]))
    (0.02, 0.4)
    """
    values = np.asarray(pvalues, dtype=float)
    if merge == "smallest":
        return np.asarray(np.minimum(1.0, attempts * values.min(axis=0)))
    first = 1 if merge == "exchangeable" else len(values)
    middle = np.min([median(values[:size]) for size in range(first, len(values) + 1)], axis=0)
    return np.asarray(np.minimum(1.0, (2 if len(values) > 1 else 1) * attempts * middle))


def level(alpha: float, rounds: int) -> float:
    """The paper's critical value of the median p-value: alpha / 2, or alpha for one round."""
    return alpha if rounds == 1 else alpha / 2


@dataclass(frozen=True, slots=True, eq=False)
class GainCurves:
    """The p-values of the accuracy part and of the fairness part of every round, over grids of required gains.

    ``merge`` and ``attempts`` determine how the rounds (or candidates) become one p-value.
    """

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    accuracy: FloatArray  # (rounds, accuracy gains)
    fairness: FloatArray  # (rounds, fairness gains)
    merge: Merge
    attempts: int

    def __post_init__(self) -> None:
        for array in (self.accuracy_gains, self.fairness_gains, self.accuracy, self.fairness):
            array.flags.writeable = False

    def pvalues(self) -> FloatArray:
        """The combined p-value at every point: (accuracy gains, fairness gains)."""
        return np.stack(
            [
                combined(np.maximum(self.accuracy[:, i, None], self.fairness), self.merge, self.attempts)
                for i in range(len(self.accuracy_gains))
            ]
        )


def curves(
    rounds: Sequence[Requirements | None], a: FloatArray, f: FloatArray, merge: Merge, attempts: int
) -> GainCurves:
    """The curves of every round over accuracy gains ``a`` and fairness gains ``f``.

    A round that found no algorithm has p = 1 throughout.
    """
    accuracy = np.stack([np.ones(len(a)) if c is None else largest(c.accuracy, a) for c in rounds])
    fairness = np.stack([np.ones(len(f)) if c is None else largest(c.fairness, f) for c in rounds])
    return GainCurves(a, f, accuracy, fairness, merge, attempts)


def largest_supported(
    rounds: Sequence[Requirements | None],
    kind: Literal["fairness", "accuracy"],
    curves: GainCurves,
    alpha: float,
    margin: float = 0.0,
) -> float:
    """The largest gain in fairness (or accuracy) at which the test rejects if the other gain is 0; NaN if none.

    This is a lower confidence bound. The grid brackets it, and finer grids refine it. ``margin`` is the loss of
    accuracy that a gain in fairness may cost.
    """
    grid = curves.fairness_gains if kind == "fairness" else curves.accuracy_gains
    grid = np.unique(np.concatenate([[0.0], grid[grid > 0]]))
    for _ in range(FINER + 1):
        a, f = (np.full(grid.shape, -margin), grid) if kind == "fairness" else (grid, np.zeros(grid.shape))
        pvalues = [
            np.ones(grid.shape) if c is None else np.maximum(largest(c.accuracy, a), largest(c.fairness, f))
            for c in rounds
        ]
        rejects = rejected(combined(pvalues, curves.merge, curves.attempts), alpha)
        if rejects.all():
            return float(grid[-1])
        failing = int(np.argmin(rejects))
        if failing == 0:
            return float("nan")
        grid = np.linspace(grid[failing - 1], grid[failing], 1025)
    return float(grid[0])
