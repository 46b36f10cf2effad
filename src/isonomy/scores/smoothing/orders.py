"""The order of scores: does a group have better outcomes at lower scores than another at higher ones?

Mean outcomes in disjoint intervals of the score are compared. If outcomes rise with the score and are equal across
groups, the mean of any group over a lower interval is at most that of any other over a higher one, whatever the
densities of their scores and however steep the curve. Nothing is smoothed, so nothing is biased.

Composite scores: the joint law of the comparisons under every choice of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from isonomy.inference.effect import Wald
from isonomy.inference.multiplicity import beyond_rounding, normal_draws
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.scores.smoothing.bands import NAN, Walk, correlations, intervals, judge, normal_score, span
from isonomy.scores.smoothing.contrasts import PairContrast, enough, welch
from isonomy.scores.smoothing.kernels import BINS
from isonomy.scores.smoothing.moments import Pair, VoteMoments

# ---- orders

INTERVALS = 10  # of the score, with equal votes


@dataclass(frozen=True, slots=True, eq=False)
class IntervalMeans:
    """Mean outcomes of each group in each interval of the score, flattened group by group."""

    score: FloatArray  # (C,): the mean score of each interval
    value: FloatArray  # (G, C)
    effective: FloatArray  # (G, C)
    covariance: FloatArray  # (G C, G C)
    supported: BoolArray  # (G, C)


def interval_means(moments: VoteMoments, within: BoolArray | None = None) -> IntervalMeans:
    """Means over intervals that hold about equal shares of all votes. ``within``: of the votes at these sites only."""
    counted = np.ones(BINS, dtype=bool) if within is None else within
    votes = moments.weight.sum(axis=0) * counted
    cell = intervals(votes, INTERVALS)
    inside = ((cell[:, None] == np.unique(cell[votes > 0])) & counted[:, None]).astype(np.float64)
    weight, total = moments.weight @ inside, moments.total @ inside
    with np.errstate(divide="ignore", invalid="ignore"):
        value = total / weight
        slope = np.nan_to_num(inside / weight[:, None, :])
    functionals = np.stack([-slope * np.nan_to_num(value)[:, None, :], slope], axis=1)
    groups, many = weight.shape
    covariance = np.zeros((groups, many, groups, many))
    for a, b in np.ndindex(groups, groups):
        covariance[a, :, b] = moments.cross(a, functionals[a], b, functionals[b])
    effective = np.stack([moments.effective(g, inside) for g in range(groups)])
    pooled = np.broadcast_to(total.sum(axis=0) / weight.sum(axis=0), value.shape)
    return IntervalMeans(
        score=moments.place @ inside / (votes @ inside),
        value=value,
        effective=effective,
        covariance=covariance.reshape(groups * many, groups * many),
        supported=enough(effective, pooled, binary=moments.binary),
    )


def ordering(
    means: IntervalMeans,
    labels: Sequence[str],
    tolerance: float | None,
    alpha: float,
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Definition 2's second part: the largest (mean_g(I) - mean_h(J) - tolerance) / se over intervals I < J, g != h.

    One-sided, judged as if all means were equal (or reversed by the tolerance), the hardest case of the null. The worst
    reversal is ``better`` around ``score`` against ``worse`` around ``higher_score``. All reversals are at most
    ``limit``, by one-sided limits; minus infinity if there can be none.
    """
    untested = dict.fromkeys(("pvalue", "limit", "score", "higher_score", "difference"), NAN)
    unknown: dict[str, Any] = untested | {"better": "", "worse": ""}
    groups, many = means.value.shape
    if many < 2:
        return unknown | {"limit": -np.inf}
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
        return unknown
    value, effective = means.value.ravel(), means.effective.ravel()
    effect = Wald(value[a] - value[b], se, welch(variance[a], variance[b], effective[a], effective[b]))
    t = normal_score(effect.root(tolerance or 0.0), effect.df)
    worst = int(np.argmax(t))
    used, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    correlation, scale = correlations(means.covariance[np.ix_(used, used)])
    z = normal_draws(correlation, draws, rng) * scale
    first, second = np.split(places, 2)
    exceeding = 0
    for start in range(0, draws, 250):  # draws x contrasts would be large for many groups
        block = z[start : start + 250]
        exceeding += int(((block[:, first] - block[:, second]) / se >= t[worst]).any(axis=1).sum())
    bound = float(tails.normal_sf(t[worst], sides="one")) * t.size
    limit = float(effect.band(tails.normal_isf(alpha, sides="one"))[1].max())
    (g, lower), (h, upper) = (divmod(int(which[worst]), many) for which in (a, b))
    return {
        "pvalue": min(float(resampling.pvalue(exceeding, draws)), 1.0, bound),
        "limit": limit,
        "better": labels[g],
        "worse": labels[h],
        "score": float(means.score[lower]),
        "higher_score": float(means.score[upper]),
        "difference": float(effect.value[worst]),
    }


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
        """(2 BINS, P) of the first or the second group: the usable points, then the walk."""
        steps = self.walk.functionals[which] if self.walk.known else np.empty((2, BINS, 0))
        joined = np.concatenate([self.contrast.functionals[which][..., self.usable], steps], axis=-1)
        return joined.reshape(2 * BINS, -1)


def simplex(scores: int) -> FloatArray:
    """Weights of at least 0 that sum to 1, on a lattice: (W, scores)."""
    steps = STEPS[scores]
    bars = combinations(range(steps + scores - 1), scores - 1)
    return np.array([np.diff((-1, *bar, steps + scores - 1)) - 1 for bar in bars], dtype=np.float64) / steps


def uniform(
    parts: Sequence[CompositePair], pair: Pair, draws: int, rng: np.random.Generator
) -> tuple[float, FloatArray, FloatArray]:
    """P-value of "equal under every weight", of each weight alone, and the clearest difference under each.

    The first is that of the smallest p-value over all weights of points and walk, by their joint law.
    """
    functionals = [[part.functionals(which) for which in (0, 1)] for part in parts]
    ends = np.concatenate([[0], np.cumsum([first.shape[1] for first, _ in functionals])])
    pvalues, difference = np.full((2, len(parts)), NAN)
    if not ends[-1]:
        return NAN, pvalues, difference
    covariance = np.zeros((ends[-1], ends[-1]))  # products, over users, of what they add to each number
    for start in range(0, parts[0].moments.tables[0].shape[0], _LINES):
        lines = slice(start, start + _LINES)
        influence = np.hstack(
            [
                sum(part.moments.tables[g][lines] @ f for g, f in zip(pair, both, strict=True))
                for part, both in zip(parts, functionals, strict=True)
            ]
        )
        covariance += influence.T @ influence
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    z = normal_draws(covariance / scale[:, None] / scale[None, :], draws, rng)
    smallest = np.ones(draws)
    for k, part in enumerate(parts):
        many, columns = int(part.usable.sum()), slice(ends[k], ends[k + 1])
        statistics, laws = [], []
        if many:
            effect = part.contrast.law(part.moments, pair)[1]
            score = np.where(part.usable, np.abs(judge(effect, None)[0]), np.nan)
            clearest = int(np.nanargmax(score))
            difference[k] = effect.value[clearest]
            statistics.append(float(score[clearest]))
            laws.append(np.abs(z[:, columns][:, :many]).max(axis=1))
        if part.walk.known:
            statistics.append(part.walk.statistic(None) * (1 - 1e-12))
            laws.append(span(np.cumsum((z * scale)[:, columns][:, many:], axis=1)))
        if laws:
            tests = zip(statistics, laws, strict=True)
            smallest_test = min(float(resampling.resampled_pvalues(s, np.sort(law))) for s, law in tests)
            least = np.min([resampling.resampled_pvalues(law, np.sort(law)) for law in laws], axis=0)
            pvalues[k] = resampling.pvalue(int((least <= smallest_test).sum()), draws)
            # A draw's rank under this weight alone, so that weights with one test and with two are compared fairly.
            smallest = np.minimum(smallest, resampling.resampled_pvalues(-least, np.sort(-least)))
    pvalue = float(resampling.pvalue(int((smallest <= np.nanmin(pvalues) * (1 + 1e-12)).sum()), draws))
    return pvalue, pvalues, difference
