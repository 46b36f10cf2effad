"""Cumulative differences in score order: a walk that stays near zero where outcomes are equal, whatever the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isonomy.calibration.smoothing.contrasts import Pair, Pooled, welch
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.sums import enough
from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

CHECKPOINTS = 40  # score intervals of the cumulative test


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """Sums of (1_g - share(S)) (Y - pooled(S)) over the rows of two groups in each of some score intervals.

    Its range (Kuiper's statistic) is judged. With a tolerance, what a difference of that size could add to a stretch is
    taken off the stretch; the law without any difference then bounds that of the statistic.
    """

    step: FloatArray  # (C,)
    allowed: FloatArray  # (C,): what a difference of 1 would add
    functionals: tuple[FloatArray, FloatArray]  # (2, BINS, C) each
    known: bool  # whether there are events and users enough, and a variance
    freedom: float = np.inf  # degrees of freedom of the whole sum
    least: float = 0.0  # sum of the steps' variances, if outcomes of 0 and 1 had the pooled curve's chances

    def factor(self, covariance: FloatArray) -> float:
        """What the steps' covariance is multiplied by: from few events it is small where they are few by chance."""
        return max(1.0, self.least / max(float(np.trace(covariance)), np.finfo(float).tiny))

    def statistic(self, tolerance: float | None) -> float:
        """The largest sum over a stretch of scores, beyond what the tolerance allows."""
        if tolerance is None:
            return float(span(np.cumsum(self.step)[None, :])[0])
        path, most = (np.concatenate([[0.0], np.cumsum(values)]) for values in (self.step, self.allowed))
        apart, margin = np.abs(path[:, None] - path[None, :]), np.abs(most[:, None] - most[None, :])
        return max(float((apart - tolerance * margin).max()), 0.0)

    def bound(self, statistic: float, covariance: FloatArray) -> float:
        """A p-value from above, for statistics that draws cannot resolve: the sum over all stretches."""
        path = np.zeros((len(covariance) + 1, len(covariance) + 1))
        path[1:, 1:] = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
        a, b = np.triu_indices(len(path), 1)
        variance = np.maximum(path[a, a] + path[b, b] - 2 * path[a, b], np.finfo(float).tiny)
        return min(float(np.sum(tails.normal_sf(statistic / np.sqrt(variance)))), 1.0)


def walk(moments: Moments, pair: Pair, pooled: Pooled, *, binary: bool, within: BoolArray | None = None) -> Walk:
    """The walk of two groups, at intervals with equal shares of their votes. ``within``: at these sites alone."""
    chosen = list(pair)
    weight = moments.weight[chosen]
    if within is not None:
        pooled = replace(pooled, common=within if pooled.common is None else pooled.common & within)
    member = pooled.membership
    cell = intervals(weight.sum(axis=0) * (1.0 if within is None else within), CHECKPOINTS)
    inside = (cell[:, None] == np.arange(CHECKPOINTS)).astype(np.float64)
    residual = (member * (moments.total[chosen] - weight * pooled.outcome)).sum(axis=0)
    slopes = member[:, :, None] * inside
    functionals = [np.stack([-slope * pooled.outcome[:, None], slope]) for slope in slopes]
    held = np.ones(len(cell)) if pooled.common is None else pooled.common.astype(np.float64)
    ones = np.stack([held, np.zeros(len(cell))])[:, :, None]
    votes, squares = weight @ held, np.array([moments.cross(g, ones, g, ones)[0, 0] for g in pair])
    effective = np.divide(votes**2, squares, out=np.zeros(2), where=squares > 0)
    mean = np.full(2, (moments.total[chosen] @ held).sum() / max(votes.sum(), np.finfo(float).tiny))
    own = [moments.cross(g, f, g, f) for g, f in zip(pair, functionals, strict=True)]
    second = sum(float(np.trace(part)) for part in own)
    between = 2 * float(np.trace(moments.cross(pair[0], functionals[0], pair[1], functionals[1])))
    known = bool(
        enough(effective, mean, binary=binary).all() and np.isfinite(beyond_rounding(second + between, second))
    )
    sums = residual @ inside, (weight * member**2).sum(axis=0) @ inside
    freedom = float(welch(*(np.array(part.sum()) for part in own), *effective))
    least = 0.0
    if binary and moments.diagonal is not None:  # squares of users' votes say less of how their rows vary
        chance = np.maximum(pooled.outcome * (1 - pooled.outcome), 0.0)
        least = float(np.sum(moments.square[chosen] * member**2 @ chance))
    return Walk(*sums, (functionals[0], functionals[1]), known, freedom, least)


def intervals(weight: FloatArray, size: int) -> IntArray:
    """The interval of each site, of at most ``size`` with about equal votes."""
    share = (np.cumsum(weight) - weight / 2) / max(float(weight.sum()), np.finfo(float).tiny)
    return np.minimum((size * share).astype(np.intp), size - 1)


def span(path: FloatArray) -> FloatArray:
    """The range of each path (paths, steps), which begins at zero."""
    return np.asarray(np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0))
