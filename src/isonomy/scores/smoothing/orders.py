"""The order of scores: does a group have better outcomes at lower scores than another at higher ones?

Mean outcomes in disjoint intervals of the score are compared. Where outcomes rise with the score and are equal across
groups, the mean of any group over a lower interval is at most that of any other over a higher one, whatever the
densities of their scores and however steep the curve: nothing is smoothed, and nothing biased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from isonomy.inference.simultaneous import beyond_rounding, normal_draws
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.scores.smoothing.bands import Walk, beyond, correlations, intervals, normal_score, span
from isonomy.scores.smoothing.contrasts import Pair, PairContrast, enough, welch
from isonomy.scores.smoothing.kernels import BINS
from isonomy.scores.smoothing.moments import VoteMoments

# ---- orders

INTERVALS = 10  # of the score, with equal votes
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The worst reversal: ``better`` at the lower scores ``at`` against ``worse`` at the higher scores ``above``."""

    pvalue: float
    difference: float = NAN
    better: int = -1
    worse: int = -1
    at: float = NAN
    above: float = NAN
    limit: float = NAN  # one-sided upper limits of all reversals are at most this; minus infinity if there can be none


@dataclass(frozen=True, slots=True, eq=False)
class IntervalMeans:
    """Mean outcomes of each group in each interval of the score, flattened group by group."""

    score: FloatArray  # (C,): the mean score of each interval
    value: FloatArray  # (G, C)
    effective: FloatArray  # (G, C)
    covariance: FloatArray  # (G C, G C)
    supported: BoolArray  # (G, C)


def interval_means(moments: VoteMoments, *, binary: bool, within: BoolArray | None = None) -> IntervalMeans:
    """Means over intervals that hold about equal shares of all votes. ``within``: of those at these sites alone."""
    held = np.ones(len(moments.site), dtype=bool) if within is None else within
    votes = moments.weight.sum(axis=0) * held
    cell = intervals(votes, INTERVALS)
    used = np.unique(cell[votes > 0])
    inside = ((cell[:, None] == used) & held[:, None]).astype(np.float64)
    weight, total = moments.weight @ inside, moments.total @ inside
    with np.errstate(divide="ignore", invalid="ignore"):
        value = total / weight
        slope = np.nan_to_num(inside / weight[:, None, :])
    functionals = np.stack([-slope * np.nan_to_num(value)[:, None, :], slope], axis=1)
    groups, many = weight.shape
    covariance = np.zeros((groups, many, groups, many))
    effective = np.zeros(weight.shape)
    for a in range(groups):
        for b in range(groups):
            covariance[a, :, b] = moments.cross(a, functionals[a], b, functionals[b])
        ones = np.stack([slope[a], np.zeros_like(slope[a])])
        users = np.diagonal(moments.cross(a, ones, a, ones))
        effective[a] = np.divide(1.0, users, out=np.zeros(many), where=users > 0)
    pooled = np.broadcast_to(total.sum(axis=0) / weight.sum(axis=0), value.shape)
    return IntervalMeans(
        score=moments.place @ inside / (votes @ inside),
        value=value,
        effective=effective,
        covariance=covariance.reshape(groups * many, groups * many),
        supported=enough(effective, pooled, binary=binary),
    )


def ordering(
    means: IntervalMeans, tolerance: float | None, alpha: float, draws: int, rng: np.random.Generator
) -> Order:
    """Definition 2's second part: the largest (mean_g(I) - mean_h(J) - tolerance) / se over intervals I < J, g != h.

    One-sided, judged as if all means were equal (or reversed by the tolerance), the hardest case of the null.
    """
    groups, many = means.value.shape
    if many < 2:
        return Order(NAN, limit=-np.inf)
    low, high = np.triu_indices(many, 1)
    pairs = np.array(list(permutations(range(groups), 2)))
    a, b = ((pairs[:, k, None] * many + which).ravel() for k, which in enumerate((low, high)))
    variance = np.diagonal(means.covariance)
    parts = variance[a] + variance[b]
    se = np.sqrt(beyond_rounding(parts - 2 * means.covariance[a, b], parts))
    supported = means.supported.ravel()
    usable = supported[a] & supported[b] & np.isfinite(se)
    a, b, se = a[usable], b[usable], se[usable]
    if not a.size:
        return Order(NAN)
    value, effective = means.value.ravel(), means.effective.ravel()
    df = welch(variance[a], variance[b], effective[a], effective[b])
    difference = value[a] - value[b]
    t = normal_score((difference - (tolerance or 0.0)) / se, df)
    worst = int(np.argmax(t))
    pvalue = min(_simulated(means.covariance, a, b, se, t[worst], draws, rng), 1.0)
    pvalue = min(pvalue, float(tails.normal_sf(t[worst], sides="one")) * t.size)
    reach = difference + tails.t_as_rare(float(tails.normal_isf(alpha, sides="one")), df) * se
    (g, at), (h, above) = (divmod(int(which[worst]), many) for which in (a, b))
    ends = float(means.score[at]), float(means.score[above])
    return Order(pvalue, float(difference[worst]), g, h, *ends, float(reach.max()))


def _simulated(
    covariance: FloatArray,
    a: FloatArray,
    b: FloatArray,
    se: FloatArray,
    largest: float,
    draws: int,
    rng: np.random.Generator,
) -> float:
    used, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    own = covariance[np.ix_(used, used)]
    correlation, scale = correlations(own)
    z = normal_draws(correlation, draws, rng) * scale
    first, second = places[: a.size], places[a.size :]
    exceeding = 0
    for start in range(0, draws, 250):  # draws x contrasts would be large for many groups
        block = z[start : start + 250]
        exceeding += int(((block[:, first] - block[:, second]) / se >= largest).any(axis=1).sum())
    return float(resampling.pvalue(exceeding, draws))


# ---- composites

STEPS = {1: 1, 2: 10, 3: 5, 4: 3}  # of the lattice of weights, by the number of scores
_LINES = 2**11


@dataclass(frozen=True, slots=True, eq=False)
class CompositePair:
    """Two groups under one composite score."""

    moments: VoteMoments
    contrast: PairContrast
    usable: BoolArray
    walk: Walk

    def functionals(self, which: int) -> FloatArray:
        """(2 BINS, P) of the first or the second group: the points that are usable, then the walk."""
        steps = self.walk.functionals[which] if self.walk.known else np.empty((2, BINS, 0))
        joined = np.concatenate([self.contrast.functionals[which][..., self.usable], steps], axis=-1)
        return joined.reshape(2 * BINS, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Uniform:
    """P-value of "equal under every weight", of each weight alone, and the clearest difference under each."""

    pvalue: float
    each: FloatArray  # (W,)
    difference: FloatArray  # (W,)


def simplex(scores: int) -> FloatArray:
    """Weights of at least 0 that sum to 1, on a lattice: (W, scores)."""
    steps = STEPS[scores]
    bars = combinations(range(steps + scores - 1), scores - 1)
    ends = [(-1, *bar, steps + scores - 1) for bar in bars]
    return np.array([np.diff(end) - 1 for end in ends], dtype=np.float64) / steps


def uniform(parts: Sequence[CompositePair], pair: Pair, draws: int, rng: np.random.Generator) -> Uniform:
    """The smallest p-value over all weights of points and walk, by the joint law of all of them."""
    functionals = [[part.functionals(which) for which in (0, 1)] for part in parts]
    sizes = np.array([own[0].shape[1] for own in functionals])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if not ends[-1]:
        none = np.full(len(parts), NAN)
        return Uniform(NAN, none, none)
    covariance = _covariance(parts, pair, functionals, int(ends[-1]))
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    z = normal_draws(covariance / scale[:, None] / scale[None, :], draws, rng)
    each, difference = np.full((2, len(parts)), NAN)
    smallest = np.ones(draws)
    for k, part in enumerate(parts):
        many = int(part.usable.sum())
        own, own_scale = z[:, ends[k] : ends[k + 1]], scale[ends[k] : ends[k + 1]]
        pvalues, drawn = [], []
        if many:
            own_covariance, df = part.contrast.law(part.moments, pair)
            se = np.where(part.usable, part.contrast.errors(own_covariance), np.nan)
            score, _ = beyond(part.contrast.estimate, se, df, None)
            clearest = int(np.nanargmax(np.abs(score)))
            difference[k] = part.contrast.estimate[clearest]
            maxima = np.abs(own[:, :many]).max(axis=1)
            ascending = np.sort(maxima)
            pvalues.append(float(resampling.among(np.abs(score[clearest]), ascending)))
            drawn.append(resampling.among(maxima, ascending))
        if part.walk.known:
            ranges = span(np.cumsum(own[:, many:] * own_scale[many:], axis=1))
            ascending = np.sort(ranges)
            pvalues.append(float(resampling.among(part.walk.statistic(None) * (1 - 1e-12), ascending)))
            drawn.append(resampling.among(ranges, ascending))
        if pvalues:
            least = np.min(drawn, axis=0)
            each[k] = resampling.pvalue(int((least <= min(pvalues)).sum()), draws)
            # A draw's rank under this weight alone: weights with one test and with two are compared fairly.
            ranks = resampling.among(-least, np.sort(-least))
            smallest = np.minimum(smallest, ranks)
    pvalue = float(resampling.pvalue(int((smallest <= np.nanmin(each) * (1 + 1e-12)).sum()), draws))
    return Uniform(pvalue, each, difference)


def _covariance(
    parts: Sequence[CompositePair], pair: Pair, functionals: Sequence[Sequence[FloatArray]], size: int
) -> FloatArray:
    """Products, over users, of what they add to each number under each weight."""
    covariance = np.zeros((size, size))
    users = parts[0].moments.tables[0].shape[0]
    for start in range(0, users, _LINES):
        lines = slice(start, start + _LINES)
        influence = np.hstack(
            [
                sum(part.moments.tables[g][lines] @ f for g, f in zip(pair, own, strict=True))
                for part, own in zip(parts, functionals, strict=True)
            ]
        )
        covariance += influence.T @ influence
    return covariance


# ---- ranks

ECE_BINS = 10
ROUNDING = 1e-9  # of a bin, or of all votes: engines add votes up in other orders, and must come to the same bins


def ece_and_auc(gap: FloatArray, votes: float, positive: float, pairs: float) -> tuple[float, float]:
    """From outcomes less scores by bin; votes; votes of positives; pairs of which the positive scores higher."""
    if not votes > 0:
        return float("nan"), float("nan")
    every = positive * (votes - positive)
    # Votes of 1/n add up to whole numbers only almost: a group with one outcome must not seem to have two.
    known = min(positive, votes - positive) > ROUNDING * votes
    return float(np.abs(gap).sum() / votes), pairs / every if known else float("nan")
