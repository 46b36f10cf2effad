"""The order of scores: does a group have better outcomes at lower scores than another at higher ones?

Mean outcomes in disjoint intervals of the score are compared. Where outcomes rise with the score and are equal across
groups, the mean of any group over a lower interval is at most that of any other over a higher one, whatever the
densities of their scores and however steep the curve: nothing is smoothed, and nothing biased.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from isonomy.calibration.smoothing.bands import correlations, normal_score
from isonomy.calibration.smoothing.contrasts import welch
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.sums import enough
from isonomy.calibration.smoothing.walks import intervals
from isonomy.inference.simultaneous import beyond_rounding, normal_draws
from isonomy.numerics import resampling, tails
from isonomy.numerics.arrays import BoolArray, FloatArray

INTERVALS = 10  # of the score, with equal votes
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The worst reversal: ``better`` at the lower scores ``at`` against ``worse`` at the higher scores ``above``."""

    pvalue: float
    statistic: float = NAN
    difference: float = NAN
    better: int = -1
    worse: int = -1
    at: float = NAN
    above: float = NAN
    limit: float = NAN  # one-sided upper limits of all reversals are at most this; minus infinity if there can be none


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """Mean outcomes of each group in each interval of the score, flattened group by group."""

    score: FloatArray  # (C,): the mean score of each interval
    value: FloatArray  # (G, C)
    effective: FloatArray  # (G, C)
    covariance: FloatArray  # (G C, G C)
    supported: BoolArray  # (G, C)


def interval_means(moments: Moments, *, binary: bool, within: BoolArray | None = None) -> Means:
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
    return Means(
        score=moments.place @ inside / (votes @ inside),
        value=value,
        effective=effective,
        covariance=covariance.reshape(groups * many, groups * many),
        supported=enough(effective, pooled, binary=binary),
    )


def ordering(means: Means, tolerance: float | None, alpha: float, draws: int, rng: np.random.Generator) -> Order:
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
    return Order(pvalue, float(t[worst]), float(difference[worst]), g, h, *ends, float(reach.max()))


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
