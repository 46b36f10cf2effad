"""Errors of many groups seen together: shrunk towards their common mean, and the test that they are all equal.

A group's error is estimated with noise, and errors of the other groups say where it is likely to lie. Shrinking to 0
instead creates a bias wherever all groups share one error, because small groups are shrunk more.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from isonomy.numerics.arrays import FloatArray

# Spreads tried, in standard errors of a typical group, besides none at all; and quantiles of the Cauchy law's scale.
_SPREADS = np.concatenate([[0.0], np.geomspace(0.1, 30.0, 16)])
_TAIL = 1 / (2 * special.gammaincinv(0.5, (np.arange(8) + 0.5) / 8))
_ROUNDS = 8


def spread_of(error: FloatArray, se: FloatArray) -> float:
    """The variance of the true errors between groups, by DerSimonian and Laird's moments; not below 0."""
    weight = 1 / se**2
    total = weight.sum()
    q = (weight * (error - (weight * error).sum() / total) ** 2).sum()
    scale = total - (weight**2).sum() / total
    return float(max((q - (len(error) - 1)) / scale, 0.0)) if scale > 0 else 0.0


def normal_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means where true errors are normal around a common mean."""
    between = spread_of(error, se)
    variance = se**2 + between
    mean = (error / variance).sum() / (1 / variance).sum()
    return mean + between / variance * (error - mean)


def heavy_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means where true errors are normal or, as likely, Cauchy around a common mean.

    The Cauchy law, Student's with one degree of freedom, lets a few groups lie far out without shrinking them, and
    without loosening the others. It is a mixture of normal laws over its scale, eight of them here. The spread is
    averaged over, each value with the likelihood it gives to the errors.
    """
    if len(error) < 2:
        return error
    typical = np.sqrt(1 / np.mean(1 / se**2))
    scores, means = zip(*(_posterior(error, se, typical, scale) for scale in (np.ones(1), _TAIL)), strict=True)
    score = np.concatenate(scores)
    weight = np.exp(score - score.max())
    return np.asarray(weight @ np.concatenate(means) / weight.sum(), dtype=np.float64)


def _posterior(error: FloatArray, se: FloatArray, typical: float, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each spread: its log likelihood, and the posterior mean of every group. Axes: spread, scale, group."""
    between = (_SPREADS[:, None, None] * typical) ** 2 * scale[:, None]
    variance = se**2 + between
    mean = np.full((len(_SPREADS), 1, 1), (error / se**2).sum() / (1 / se**2).sum())
    for _ in range(_ROUNDS):
        logs = -0.5 * (np.log(variance) + (error - mean) ** 2 / variance)
        top = logs.max(1, keepdims=True)
        density = np.exp(logs - top)
        share = density / density.sum(1, keepdims=True)
        mean = ((share * error / variance).sum((1, 2)) / (share / variance).sum((1, 2)))[:, None, None]
    # The mean was fitted: its own uncertainty, the last term, keeps narrow spreads from being too likely.
    score = (top[:, 0] + np.log(density.mean(1))).sum(-1) - 0.5 * np.log((share / variance).sum((1, 2)))
    return score, (share * (mean + between / variance * (error - mean))).sum(1)


def welch_q(error: FloatArray, variance: FloatArray, df: FloatArray) -> tuple[float, float]:
    """Cochran's Q over its degrees of freedom with Welch's (1951) correction, and its p-value; NaN for one group."""
    k = len(error)
    if k < 2:
        return np.nan, np.nan
    weight = 1 / variance
    share = weight / weight.sum()
    slack = float(((1 - share) ** 2 / df).sum())
    q = float((weight * (error - (share * error).sum()) ** 2).sum()) / (k - 1)
    statistic = q / (1 + 2 * (k - 2) / (k**2 - 1) * slack)
    freedom = (k**2 - 1) / (3 * slack) if slack > 0 else np.inf
    if not np.isfinite(freedom):
        return statistic, float(special.chdtrc(k - 1, statistic * (k - 1)))
    return statistic, float(special.fdtrc(k - 1, freedom, statistic))
