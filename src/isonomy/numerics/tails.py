"""How far out is a value? Tail probabilities that keep their relative precision when they are tiny.

Survival functions throughout, never one minus a distribution function. All are P(Q >= x), so that a
statistic of 0 has p = 1 even where the law has a point mass at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.errors import UsageError
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.contour import log_tail
from isonomy.numerics.roots import bisection, root

# Scalars in give a float out, arrays in give an array out, as numpy's own functions do.
Numbers = Any


def chi2_sf(x: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """P(chi-square with ``df`` degrees of freedom >= x). ``df`` 0 is the point mass at 0."""
    x, df = np.asarray(x, dtype=float), np.asarray(df, dtype=float)
    with np.errstate(all="ignore"):
        tail = np.asarray(special.chdtrc(np.maximum(df, 0.5), np.maximum(x, 0.0)))
        tail = np.where((df == 0) & (x > 0), 0.0, tail)
    return np.where(np.isnan(x) | np.isnan(df) | (df < 0), np.nan, tail)[()]


def chi2_isf(p: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """The x with `chi2_sf` (x, df) = p."""
    p, df = np.asarray(p, dtype=float), np.asarray(df, dtype=float)
    with np.errstate(all="ignore"):
        x = 2 * np.asarray(special.gammainccinv(np.maximum(df, 0.5) / 2, p))
    return np.where(np.isnan(p) | np.isnan(df) | (df < 0), np.nan, np.where(df == 0, 0.0, x))[()]


def weighted_chi2_sf(x: npt.ArrayLike, weights: npt.ArrayLike) -> Numbers:
    """P(sum of ``weights[j]`` times independent chi-squares with 1 df >= x), exactly.

    The characteristic function is inverted on a contour through the saddlepoint (see `numerics.contour`):
    relative error about 1e-12 from p near 1 to below 1e-300 (1e-10 with 100,000 weights). Zero weights are ignored; one
    distinct weight is a plain chi-square.
    """
    values = np.asarray(x, dtype=float)
    weight, df = _distinct(weights)
    if weight.size == 1:
        return chi2_sf(values / weight[0], df[0])
    return np.exp(log_tail(values, weight, df))[()]


def weighted_chi2_isf(p: npt.ArrayLike, weights: npt.ArrayLike) -> Numbers:
    """The x with `weighted_chi2_sf` (x, weights) = p."""
    tails = np.asarray(p, dtype=float)
    weight, df = _distinct(weights)
    if weight.size == 1:
        return weight[0] * chi2_isf(tails, df[0])
    # Sandwiched: the largest weight's own chi-square is smaller, all df at the largest weight is larger.
    low, high = weight[-1] * chi2_isf(tails, df[-1]), weight[-1] * chi2_isf(tails, df.sum())

    def solve(one: float, a: float, b: float) -> float:
        if not 0 < one < 1:
            return {0.0: np.inf, 1.0: 0.0}.get(one, np.nan)
        target = np.log(one)
        return root(lambda t: float(log_tail(np.asarray(t), weight, df)) - target, a * 0.999, b * 1.001).x

    solutions = [solve(*args) for args in zip(tails.flat, np.ravel(low), np.ravel(high), strict=True)]
    return np.reshape(solutions, tails.shape)[()]


def normal_sf(z: npt.ArrayLike, *, sides: Literal["two", "one"] = "two") -> Numbers:
    """P(abs(N(0, 1)) >= abs(z)); with ``sides="one"`` P(N(0, 1) >= z)."""
    z = np.asarray(z, dtype=float)
    return (2 * special.ndtr(-np.abs(z)) if sides == "two" else special.ndtr(-z))[()]


def normal_isf(p: npt.ArrayLike, *, sides: Literal["two", "one"] = "two") -> Numbers:
    """The z with `normal_sf` (z, sides=sides) = p."""
    p = np.asarray(p, dtype=float)
    return (0.0 - special.ndtri(p / 2 if sides == "two" else p))[()]


def t_sf(t: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """P(Student's t with ``df`` degrees of freedom >= t); the normal law's where they are infinite."""
    t, df = np.asarray(t, dtype=float), np.asarray(df, dtype=float)
    return np.where(np.isinf(df), special.ndtr(-t), special.stdtr(df, -t))[()]


def t_isf(p: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """The t with `t_sf` (t, df) = p."""
    p, df = np.asarray(p, dtype=float), np.asarray(df, dtype=float)
    return np.where(np.isinf(df), 0.0 - special.ndtri(p), 0.0 - special.stdtrit(df, p))[()]


def t_as_rare(z: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """The t whose tail, with ``df`` degrees of freedom, is that of the normal quantile ``z``."""
    z, df = np.asarray(z, dtype=float), np.asarray(df, dtype=float)
    return np.where(np.isfinite(df), t_isf(special.ndtr(-z), df), z)[()]


def rows_for(
    distance: npt.ArrayLike, error: FloatArray, rows: FloatArray, tails: Sequence[npt.ArrayLike], df: npt.ArrayLike
) -> FloatArray:
    """The rows with which ``distance`` is as many standard errors as the Student quantiles of ``tails`` add up to.

    ``rows`` have the standard error ``error`` with ``df`` degrees of freedom, which grow in proportion to the rows.
    """
    distance, df, enough = np.asarray(distance, dtype=float), np.asarray(df, dtype=float), rows
    for _ in range(10):
        freedom = np.maximum(df * enough / rows, 1.0)
        enough = rows * (sum(t_isf(tail, freedom) for tail in tails) * error / distance) ** 2
    return np.asarray(np.ceil(enough))


def _distinct(weights: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The positive weights without repetition, ascending, and how often each occurs (its df); none: 1, 0 times."""
    given = np.asarray(weights, dtype=float).ravel()
    if not np.all(np.isfinite(given)) or np.any(given < 0):
        raise UsageError(f"weights: {given.tolist()} is not allowed; give finite numbers of at least 0.")
    if not given.any():
        return np.ones(1), np.zeros(1)
    weight, count = np.unique(given[given > 0], return_counts=True)
    return weight, count.astype(float)


def interval_isf(room: npt.ArrayLike, p: float, df: npt.ArrayLike = np.inf) -> Numbers:
    """The u with P(Z > u) + P(Z > u + room) = p, for Z normal or Student's.

    So far outside an interval null, ``room`` wide, an estimate has the p-value p.

    >>> float(np.round(interval_isf(0.0, 0.05), 4)), float(np.round(interval_isf(9.0, 0.05), 4))
    (1.96, 1.6449)
    """
    width, freedom = np.broadcast_arrays(np.maximum(np.asarray(room, dtype=float), 0.0), np.asarray(df, dtype=float))
    low, high = (t_isf(tail, freedom) for tail in (p, p / 2.0))

    def short(u: FloatArray) -> BoolArray:
        return np.asarray(special.stdtr(freedom, -u) + special.stdtr(freedom, -u - width) > p)

    return np.where(np.isnan(width), np.nan, bisection(short, low, high))[()]
