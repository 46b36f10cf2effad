"""Errors of many groups seen together: shrunk towards their common mean, and the test that they are all equal.

A group's error is estimated with noise, and errors of the other groups say where it is likely to lie. Shrinking to 0
instead creates a bias wherever all groups share one error, because small groups are shrunk more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from isonomy.numerics.arrays import FloatArray

Centre = Literal["zero", "near", "anywhere"]

_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A law of true errors around their centre: a mixture of normal laws, one for every spread that is tried."""

    weight: float  # how likely the shape is beforehand
    scales: FloatArray  # variances of the mixture's parts, in squared spreads
    chances: FloatArray  # of the parts
    spreads: FloatArray  # in standard errors of a typical group


_WIDEST = 30.0  # the widest spread, in standard errors of a typical group


def _normal(spreads: FloatArray) -> Shape:
    return Shape(1.0, np.ones(1), np.ones(1), spreads)


def _spike(share: float) -> Shape:
    """Most groups have the common error, and a share of them any other."""
    return Shape(0.5, np.array([0.0, 1.0]), np.array([1 - share, share]), np.geomspace(1.0, _WIDEST, 8))


def _or_none(spreads: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], spreads])


_EVERY = _or_none(np.geomspace(0.1, _WIDEST, 16))
# Student's law with one degree of freedom, by quantiles of its scale.
_CAUCHY = Shape(1.0, 1 / (2 * special.gammaincinv(0.5, (np.arange(8) + 0.5) / 8)), np.full(8, 1 / 8), _EVERY)
_HEAVY = (_normal(_EVERY), _CAUCHY)
_MIXED = (_normal(_or_none(np.geomspace(0.3, _WIDEST, 10))), _spike(0.1), _spike(0.3))
_CENTRE = 3.0  # scale of the Cauchy law of a centre other than 0, in standard errors of a typical group


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

    The Cauchy law lets a few groups lie far out without shrinking them, and without loosening the others. The spread is
    averaged over, each value with the likelihood it gives to the errors.
    """
    return _averaged(error, se, _HEAVY, zero=False)


def mixed_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means where true errors are normal, or all alike but for a tenth or three tenths of the groups.

    Their centre is 0 or, as likely, anywhere. Shapes, spreads and centres are averaged over.
    """
    return _averaged(error, se, _MIXED, zero=True)


def _averaged(error: FloatArray, se: FloatArray, shapes: tuple[Shape, ...], *, zero: bool) -> FloatArray:
    if len(error) < 2:
        return error
    # The precise groups decide which spreads can be told apart, but the widest must reach the furthest group.
    reach = float(np.abs(error - np.median(error)).max()) / _WIDEST
    typical = max(float(np.sqrt(1 / np.mean(1 / se**2))), reach)
    centres: tuple[Centre, ...] = ("zero", "near") if zero else ("anywhere",)
    parts = [_posterior(error, se, typical, shape, centre) for shape in shapes for centre in centres]
    score = np.concatenate([scores for scores, _ in parts])
    weight = np.exp(score - score.max())
    return np.asarray(weight @ np.concatenate([means for _, means in parts]) / weight.sum(), dtype=np.float64)


def _posterior(
    error: FloatArray, se: FloatArray, typical: float, shape: Shape, centre: Centre
) -> tuple[FloatArray, FloatArray]:
    """For each spread: its log likelihood, and the posterior mean of every group. Axes: spread, scale, group."""
    between = (shape.spreads[:, None, None] * typical) ** 2 * shape.scales[:, None]
    variance = se**2 + between
    chance = np.log(shape.chances)[:, None]
    start = 0.0 if centre == "zero" else float((error / se**2).sum() / (1 / se**2).sum())
    mean = np.full((len(shape.spreads), 1, 1), start)
    for _ in range(1 if centre == "zero" else _ROUNDS):
        logs = chance - 0.5 * (np.log(variance) + (error - mean) ** 2 / variance)
        top = logs.max(1, keepdims=True)
        density = np.exp(logs - top)
        share = density / density.sum(1, keepdims=True)
        if centre != "zero":
            mean = ((share * error / variance).sum((1, 2)) / (share / variance).sum((1, 2)))[:, None, None]
    score = (top[:, 0] + np.log(density.sum(1))).sum(-1) + np.log(shape.weight / len(shape.spreads))
    if centre != "zero":
        # The mean was fitted: its own uncertainty keeps narrow spreads from being too likely.
        score -= 0.5 * np.log((share / variance).sum((1, 2)))
    if centre == "near":  # beside a centre of 0, this one needs a law
        scale = _CENTRE * typical
        score += np.log(np.sqrt(2 / np.pi) / scale) - np.log1p((mean[:, 0, 0] / scale) ** 2)
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
