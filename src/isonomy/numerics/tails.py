"""Tail probabilities that keep their relative precision when they are tiny.

Survival functions throughout, never one minus a distribution function. All are P(Q >= x), so that a
statistic of 0 has p = 1 even if the law has a point mass at 0.

The tail of a weighted sum of chi-squares by inverting its moment generating function.

Q = sum of w_j X_j, X_j chi-square with k_j df, has M(z) = prod (1 - 2 w_j z)^(-k_j / 2), and

    P(Q > x) =  1/(2 pi i) int M(z) exp(-z x) / z dz   along a path crossing the real axis in (0, 1/(2 max w)),
    P(Q <= x) = -1/(2 pi i) int (the same)             along a path crossing it left of 0.

Imhof's and Davies's integrals are the limits of these at 0, where the integrand oscillates and a small tail is
what is left after cancellation: absolute precision only. Crossing at the saddlepoint c of the integrand instead,
its modulus is largest at c and the value is exp(phi(c)) times an integral of order one: relative precision, however
small the tail (Lugannani and Rice 1980 keep the first term of that expansion; Daniels 1987).
Every singularity (the pole 0, the branch points 1/(2 w_j)) lies on the real axis, so the path may bend to the
right around the branch points: on the parabola z = c + i t + kappa t^2 the integrand dies like a Gaussian, and the
trapezoid rule converges exponentially (Weideman and Trefethen 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from isonomy.errors import UsageError
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import bisection, root, roots

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

    The characteristic function is inverted on a contour through the saddlepoint (see the module):
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
    # Bounds: the chi-square of the largest weight alone is smaller, all df at the largest weight is larger.
    low, high = weight[-1] * chi2_isf(tails, df[-1]), weight[-1] * chi2_isf(tails, df.sum())

    def solve(tail: float, a: float, b: float) -> float:
        if not 0 < tail < 1:
            return {0.0: np.inf, 1.0: 0.0}.get(tail, np.nan)
        target = np.log(tail)
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
    """P(Student's t with ``df`` degrees of freedom >= t); of the normal law where they are infinite."""
    t, df = np.asarray(t, dtype=float), np.asarray(df, dtype=float)
    return np.where(np.isinf(df), special.ndtr(-t), special.stdtr(df, -t))[()]


def t_isf(p: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """The t with `t_sf` (t, df) = p."""
    p, df = np.asarray(p, dtype=float), np.asarray(df, dtype=float)
    return np.where(np.isinf(df), 0.0 - special.ndtri(p), 0.0 - special.stdtrit(df, p))[()]


def t_as_rare(z: npt.ArrayLike, df: npt.ArrayLike) -> Numbers:
    """The t with ``df`` degrees of freedom that has the tail of the normal quantile ``z``."""
    z, df = np.asarray(z, dtype=float), np.asarray(df, dtype=float)
    return np.where(np.isfinite(df), t_isf(special.ndtr(-z), df), z)[()]


def rows_for(
    distance: npt.ArrayLike, error: FloatArray, rows: FloatArray, tails: Sequence[npt.ArrayLike], df: npt.ArrayLike
) -> FloatArray:
    """The rows with which ``distance``, in standard errors, is the sum of the Student quantiles of ``tails``.

    ``rows`` have the standard error ``error`` with ``df`` degrees of freedom, which grow in proportion to the rows.
    """
    distance, df, enough = np.asarray(distance, dtype=float), np.asarray(df, dtype=float), rows
    for _ in range(10):
        freedom = np.maximum(df * enough / rows, 1.0)
        enough = rows * (sum(t_isf(tail, freedom) for tail in tails) * error / distance) ** 2
    return np.asarray(np.ceil(enough))


def _distinct(weights: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The distinct positive weights, ascending, and how often each occurs (its df); without any: 1, 0 times."""
    given = np.asarray(weights, dtype=float).ravel()
    if not np.all(np.isfinite(given)) or np.any(given < 0):
        raise UsageError(f"weights: {given.tolist()} is not allowed; give finite numbers of at least 0.")
    if not given.any():
        return np.ones(1), np.zeros(1)
    weight, count = np.unique(given[given > 0], return_counts=True)
    return weight, count.astype(float)


def interval_isf(room: npt.ArrayLike, p: float, df: npt.ArrayLike = np.inf) -> Numbers:
    """The u with P(Z > u) + P(Z > u + room) = p, for Z normal or Student's.

    An estimate that far outside an interval null of width ``room`` has the p-value p.

    >>> float(np.round(interval_isf(0.0, 0.05), 4)), float(np.round(interval_isf(9.0, 0.05), 4))
    (1.96, 1.6449)
    """
    width, freedom = np.broadcast_arrays(np.maximum(np.asarray(room, dtype=float), 0.0), np.asarray(df, dtype=float))
    low, high = (t_isf(tail, freedom) for tail in (p, p / 2.0))

    def short(u: FloatArray) -> BoolArray:
        return np.asarray(special.stdtr(freedom, -u) + special.stdtr(freedom, -u - width) > p)

    return np.where(np.isnan(width), np.nan, bisection(short, low, high))[()]


ComplexArray = npt.NDArray[np.complex128]
Path = Callable[[FloatArray, FloatArray, IntArray], ComplexArray]

# Truncation and discretization errors are both pushed to exp(-DIGITS), about 1e-16.
DIGITS = 37.0
# kappa times the distance to the nearest branch point is at most this; at 1/4 the map's critical point is there.
BEND = 3 / 16
BLOCK = 2**21  # complex numbers in memory at once


def log_tail(x: FloatArray, weights: FloatArray, dfs: FloatArray) -> FloatArray:
    """Log P(sum of weights times chi-squares >= x), for weights > 0 in ascending order and x of any shape."""
    # P(Q <= x) <= P(chi2_1 <= x), below 1e-17 at the floor: log P = 0 there to the last digit.
    values = np.atleast_1d(x).ravel() / weights[-1]
    values = np.where((values > 0) & (values < 1e-36), 1e-36, values)
    result = np.where(values <= 0, 0.0, np.where(values == np.inf, -np.inf, np.nan))
    inside = np.flatnonzero((values > 0) & (values < np.inf))
    law = _Law(weights / weights[-1], dfs)
    # Each side of the mean has its own path: the smaller of the two probabilities is integrated.
    for right in (True, False):
        index = inside[(values[inside] > law.mean) == right]
        if index.size:
            log = law.integrate(values[index], right)
            # Rounding can leave a left tail above 1 only where the right tail was the better choice.
            result[index] = log if right else np.log1p(-np.minimum(np.exp(log), 1.0))
    return result.reshape(np.shape(x))


class _Law:
    """The law scaled so that the largest weight is 1, in the variable u = 1/2 - z.

    u is the distance to the nearest branch point; 1 - 2 w z = 2 w (beta + u) with beta = (1 - w)/(2 w) loses
    nothing as u tends to 0, where 1 - 2 w z would cancel.
    """

    def __init__(self, weights: FloatArray, dfs: FloatArray) -> None:
        self.half = dfs / 2
        self.beta = (1 - weights) / (2 * weights)
        self.shift = float(-np.sum(self.half * np.log(2 * weights)))
        self.mean = float(np.sum(weights * dfs))

    def saddle(self, x: FloatArray, right: bool) -> FloatArray:
        """The zero in u of phi'(u) = x + 1/(1/2 - u) - sum half/(beta + u); phi is convex on either side."""

        def slope(u: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
            gap = self.beta + u[:, None]
            z = 0.5 - u
            return x[index] + 1 / z - (self.half / gap).sum(axis=1), z**-2 + (self.half / gap**2).sum(axis=1)

        total = self.half.sum()
        if right:
            # sum half/(beta + u) <= total/u bounds the root from above.
            high = np.minimum(0.5, total / (x + 2))
            return roots(slope, 0.0, high, x0=0.9 * high, direction="increasing", maxiter=500).x
        # For u > 1/2, with v = u - 1/2: 1/v <= x <= (1 + total)/v at the root.
        low, high = 0.5 / x, 2 * (1 + total) / x
        return 0.5 + roots(lambda v, i: slope(0.5 + v, i), low, high, direction="increasing", maxiter=500).x

    def phi(self, u: ComplexArray, x: FloatArray, side: float) -> ComplexArray:
        """Log of the integrand, M(z) exp(-z x) / (side z), at z = 1/2 - u."""
        z = 0.5 - u
        return self.shift - np.log(self.beta + u[..., None]) @ self.half - z * x - np.log(side * z)

    def integrate(self, x: FloatArray, right: bool) -> FloatArray:
        """Log of the right tail P(Q > x), or of the left tail P(Q <= x), x above 0."""
        side = 1.0 if right else -1.0
        u = self.saddle(x, right)
        c = 0.5 - u
        gap = self.beta + u[:, None]
        curvature = c**-2 + (self.half / gap**2).sum(axis=1)
        skew = 2 * (self.half / gap**3).sum(axis=1) - 2 * c**-3
        peak = self.phi(u.astype(complex), x, side).real

        def log_integrand(t: FloatArray, kappa: FloatArray, rows: IntArray) -> ComplexArray:
            bend = kappa[rows, None]
            path = np.asarray(u[rows, None] - bend * t**2 - 1j * t, dtype=complex)
            z = self.phi(path, x[rows, None], side)
            return z - peak[rows, None] + np.log(1 - 2j * bend * t)

        # Steepest descent leaves the saddle with kappa = (third derivative)/(6 second derivative). Not more than
        # the nearest branch point allows, nor so little that only the algebraic decay of M is left.
        most = BEND / u
        kappa = np.clip(skew / (6 * curvature), np.minimum(most, 0.05 * np.sqrt(curvature)), most)
        reach = self._reach(log_integrand, kappa, 1 / np.sqrt(curvature))
        # In the plane of t the singularities are these far from the real axis: the strip of analyticity.
        strip = np.minimum(
            (1 - np.sqrt(1 - 4 * kappa * u)) / (2 * kappa),
            np.abs(np.sqrt(1 + 4 * kappa * c) - 1) / (2 * kappa),
        )
        # Trapezoid errors: exp(-2 pi strip / h) from the singularities, exp(-2 pi^2 / (curvature h^2)) from the peak;
        # the factor pays for the growth of the integrand inside the strip (0.5 was seen to leave 1e-9).
        h = 0.35 * np.minimum(2 * np.pi * strip / DIGITS, np.pi * np.sqrt(2 / (DIGITS * curvature)))
        total = np.empty(x.size)
        nodes = np.ceil(reach / h).astype(int)
        # Points with similar numbers of nodes share a block, so that one long path does not lengthen the others.
        order = np.argsort(nodes, kind="stable")
        while order.size:
            size = max(1, BLOCK // (int(nodes[order[-1]]) * self.half.size))
            order, rows = order[:-size], order[-size:]
            step = np.arange(1, int(nodes[rows].max()) + 1)
            inside = step <= nodes[rows, None]
            # Beyond its reach a path may grow again and overflow: stay at the last node there, and do not count it.
            log = log_integrand(h[rows, None] * np.minimum(step, nodes[rows, None]), kappa, rows)
            total[rows] = 1 + 2 * np.where(inside, np.exp(log).real, 0.0).sum(axis=1)
        return np.asarray(peak + np.log(h * total / (2 * np.pi)))

    def _reach(self, log_integrand: Path, kappa: FloatArray, sigma: FloatArray) -> FloatArray:
        """The length of each path. Flattens a path, in place, whose integrand would grow again on the way.

        That happens when many small weights (nearly a normal variable, whose M grows to the right) stand beside
        a few large ones. The straight path, kappa = 0, never grows: every |1 - 2 w z| increases along it.
        """
        far = sigma[:, None] * 1.3 ** np.arange(-2, 60)
        reach = np.empty(sigma.size)
        rows = np.arange(sigma.size)
        for _ in range(60):
            log = log_integrand(far[rows], kappa, rows).real
            negligible = log < -DIGITS
            first = np.where(negligible.any(axis=1), negligible.argmax(axis=1), far.shape[1] - 1)
            reach[rows] = far[rows, first]
            before = np.arange(far.shape[1]) <= first[:, None]
            grows = ((np.diff(log, axis=1, prepend=0.0) > 0) & before).any(axis=1)
            rows = rows[grows]
            if rows.size == 0:
                break
            kappa[rows] *= 0.6
        return reach
