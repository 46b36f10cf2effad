"""The tail of a weighted sum of chi-squares by inverting its moment generating function.

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

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.roots import roots

ComplexArray = npt.NDArray[np.complex128]
Path = Callable[[FloatArray, FloatArray, IntArray], ComplexArray]

# Truncation and discretisation are both pushed to exp(-DIGITS), about 1e-16.
DIGITS = 37.0
# kappa times the distance to the nearest branch point is at most this; at 1/4 the map's critical point is there.
BEND = 3 / 16
BLOCK = 2**21  # complex numbers held at once


def log_tail(x: FloatArray, weights: FloatArray, dfs: FloatArray) -> FloatArray:
    """Log P(sum of weights times chi-squares >= x), for weights > 0 in ascending order and x of any shape."""
    # P(Q <= x) <= P(chi2_1 <= x), below 1e-17 at the floor: log P = 0 there to the last digit.
    values = np.atleast_1d(x).ravel() / weights[-1]
    values = np.where((values > 0) & (values < 1e-36), 1e-36, values)
    result = np.where(values <= 0, 0.0, np.where(values == np.inf, -np.inf, np.nan))
    inside = np.flatnonzero((values > 0) & (values < np.inf))
    law = _Law(weights / weights[-1], dfs)
    # Each side of the mean has its own path: the smaller of the two probabilities is the one integrated.
    for right in (True, False):
        index = inside[(values[inside] > law.mean) == right]
        if index.size:
            log = law.integrate(values[index], right)
            # Rounding can leave a left tail above 1 only where the right one was the better choice.
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
        # Points with like numbers of nodes go together, so that one long path does not lengthen the others.
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
        """How far each path has to go. Flattens a path, in place, whose integrand would grow again on the way.

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
