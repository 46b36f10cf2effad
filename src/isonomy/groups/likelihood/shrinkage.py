"""Means of many small groups, drawn toward what the columns that form the groups suggest: robust empirical Bayes.

Group g has the mean y_g with the sampling variance v_g. Its true mean has the variance tau^2 around (X d)_g, where X is
a constant with the main effects of the crossed columns, or the constant alone.

1. tau^2 and d by Paule and Mandel: sum (y - X d)^2 / (v + tau^2) = G - p, with d fitted with weights 1 / (v + tau^2).
   After the fit, tau^2 is at least 2 / sum(1 / v): at 0, every interval would be as short as if the fit were the truth.
2. The estimate is X d + w (y - X d), with w = tau^2 / (tau^2 + v).
3. Its interval has the half-length sqrt([cva(v / tau^2) w]^2 v + [z (1 - w)]^2 h), h the variance of the fit. cva is
   the critical value of Armstrong, Kolesár and Plagborg-Møller (2022), the largest over all laws of true means with the
   variance tau^2: coverage holds on average over groups. Without the second term, which is ours, it was 0.91.
4. Q = sum (y - X d)^2 / v, fitted at tau^2 = 0, is chi-square with G - p degrees of freedom if all true means are X d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import bisection, root, roots
from isonomy.numerics.shrinkage import posterior_means, weighted_fit
from isonomy.numerics.tails import chi2_sf

_NEAREST = 0.1  # fitted rates are at least this share of the total rate, and leave at least this share of its rest


class BeyondParts(NamedTuple):
    """The test of "the true values are exactly those of the fit"."""

    Q: float
    df: int
    pvalue: float


def rate_variance(rate: FloatArray, n: FloatArray, design: FloatArray) -> FloatArray:
    """Sampling variances of rates, from fitted rates: the group's own would share its chance, and could be 0."""
    total, least = float(n @ rate / n.sum()), 0.5 / float(n.sum())
    low, high = max(least, _NEAREST * total), 1.0 - max(least, _NEAREST * (1.0 - total))
    fitted: FloatArray = np.clip(np.full(rate.shape, total), low, high)
    for _ in range(2):
        fitted = np.clip(weighted_fit(design, rate, n / (fitted * (1.0 - fitted)))[0], low, high)
    return fitted * (1.0 - fitted) / n


def beyond_parts(value: FloatArray, variance: FloatArray, design: FloatArray) -> BeyondParts:
    q, df = _spread(value, variance, design), value.size - int(np.linalg.matrix_rank(design))
    return BeyondParts(q, df, float(chi2_sf(q, df)))


def _spread(value: FloatArray, variance: FloatArray, design: FloatArray) -> float:
    return float(((value - weighted_fit(design, value, 1.0 / variance)[0]) ** 2 / variance).sum())


def shrink_means(
    value: FloatArray, variance: FloatArray, design: FloatArray, alpha: float
) -> tuple[dict[str, FloatArray], BeyondParts, bool]:
    """The columns of a result; Q; and whether the groups spread no more than chance spreads them."""
    beyond, moments, floor = beyond_parts(value, variance, design), 0.0, 2.0 / float((1.0 / variance).sum())
    if beyond.df < beyond.Q:
        moments = root(lambda between: _spread(value, variance + between, design) - beyond.df, 0.0, np.inf).x
    between = max(moments, floor)
    expected, error = weighted_fit(design, value, 1.0 / (variance + moments))
    weight, mean = between / (between + variance), posterior_means(value, expected, variance, between)
    robust, z = critical_value(variance / between, alpha) * weight, special.ndtri(1.0 - alpha / 2.0)
    half = np.sqrt(robust**2 * variance + (z * (1.0 - weight)) ** 2 * error)
    columns = {"shrunk": mean, "ci_low": mean - half, "ci_high": mean + half, "weight": weight, "expected": expected}
    return columns, beyond, moments <= floor


def critical_value(second_moment: npt.ArrayLike, alpha: float) -> FloatArray:
    """The smallest c with P(|Z + b| > c) <= alpha for Z normal and every law of b with this second moment.

    As a function of b^2 this probability r is convex, then concave. Its smallest concave majorant is a line from r(0)
    that touches r at some t0, and r itself from there on; at the second moment it is the largest probability.
    """
    moment = np.atleast_1d(np.asarray(second_moment, dtype=float))
    z = special.ndtri(1.0 - alpha / 2.0)

    def excess(c: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        touch = np.maximum(_touching(c), np.sqrt(moment[index]))
        share = moment[index] / np.maximum(touch, 1e-150) ** 2
        value = (1.0 - share) * _beyond(0.0, c) + share * _beyond(touch, c)
        # Moving t0 does not change the line to first order: a rough t0 is enough, and it adds nothing to the slope.
        slope = (1.0 - share) * 2.0 * _density(c) + share * (_density(touch + c) + _density(touch - c))
        return value - alpha, -slope

    most = np.sqrt((1.0 + moment) / alpha)  # by Chebyshev's inequality
    start = np.where(moment < 1, z + moment, most - 2.7)
    return np.where(moment > 0, roots(excess, z - 0.01, most, direction="decreasing", x0=start).x, z)


def _touching(c: FloatArray) -> FloatArray:
    """The square root of t0, where r(t) - t r'(t) reaches r(0) from below; 0 if r is concave, as it is if c^2 <= 3."""

    def short(s: FloatArray) -> BoolArray:
        slope = 0.5 * s * (_density(s - c) - _density(s + c))
        return np.asarray(_beyond(s, c) - slope <= _beyond(0.0, c))  # both are 0 where tails underflow

    return np.where(c**2 <= 3.0, 0.0, bisection(short, np.zeros(c.shape), c + 10.0, 30))


def _beyond(s: FloatArray | float, c: FloatArray) -> FloatArray:
    return np.asarray(special.ndtr(-s - c) + special.ndtr(s - c))


def _density(x: FloatArray) -> FloatArray:
    return np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
