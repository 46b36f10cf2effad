"""Euclidean likelihood of a disparity: the same questions as `profile`, from two moments a group.

T = n ḡ'S⁻¹ḡ with S centred over all n rows equals Tu / (1 - Tu/n), where Tu = (Σg)'(Σgg')⁻¹(Σg). With u = Σz and
v = Σz² of a block of rows in which one function is not zero:

fixed      Tu = u_G² / v_G, z = M - θ - ε.
disjoint   Tu = min over θ of u_G²/v_G + u_R²/v_R.
nested     the group's function and the population's share the group's rows. Once the first is taken from the second,
           rows of the group carry (M - θ - ε, ε) and the others (0, M - θ): Σgg' is 2 x 2, the minimum over θ scalar.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.profile import Kind, OfProfile
from isonomy.numerics.roots import roots

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

# Points of the first look for the minimum over θ, and golden-section steps after it (each gains a factor 0.618).
GRID = 65
SECTIONS = 32
BEYOND = 4.0
# Standard errors at which T counts as not reaching a level.
FAR = 1e5
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Euclidean(OfProfile):
    """The Euclidean likelihood of each problem of a `Profile`; ``rows`` is n, all rows of the audit."""

    rows: float

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""
        index = np.arange(self.problem.own_index.size)
        target = np.broadcast_to(np.asarray(disparity, dtype=float), index.shape)
        uncentred = self._least(target, index)[0]
        with np.errstate(divide="ignore"):
            return np.where(uncentred < self.rows, uncentred / (1.0 - uncentred / self.rows), np.inf)

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``; an end is infinite when T never reaches it."""
        level = np.broadcast_to(np.asarray(critical, dtype=float), self.problem.own_index.shape)
        # T = c where Tu = c / (1 + c/n).
        target = level / (1.0 + level / self.rows)
        return self._end(target, -1.0), self._end(target, 1.0)

    def _end(self, target: FloatArray, sign: float) -> FloatArray:
        estimate, error = self.disparity, self.standard_error
        wanted = np.sqrt(target)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            here = estimate[active] + sign * x * error[active]
            height, theta = self._least(here, active)
            # By the envelope theorem θ may stay where it is while the disparity moves.
            step = 1e-4 * error[active]
            near = self._uncentred(here + step, theta, active) - self._uncentred(here - step, theta, active)
            root = np.sqrt(height)
            with np.errstate(divide="ignore", invalid="ignore"):
                return root - wanted[active], sign * near / (2.0 * step) * error[active] / (2.0 * root)

        far = np.full(wanted.size, FAR)
        reached = gap(far, np.arange(wanted.size))[0] > 0
        found = roots(
            gap, np.zeros(wanted.size), np.where(reached, far, 0.0), x0=wanted, rtol=1e-11, direction="increasing"
        )
        end = np.where(reached & found.ok, estimate + sign * found.x * error, sign * np.inf)
        # Two constant blocks of rows have no second moment to measure a disparity by.
        return np.where(error > 0, end, np.nan)

    def _least(self, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu over θ, and where it is.

        It lies between the values that fit the reference and the group perfectly; not so when nested, where a θ
        beyond them inflates the second moments, so the search goes further.
        """
        problem = self.problem
        mean = problem.own.mean[problem.own_index[index]]
        if problem.other is None:
            assert problem.theta is not None
            return self._uncentred(disparity, problem.theta[index], index), problem.theta[index]
        a, b = problem.reference[index], mean - disparity
        low, high = np.minimum(a, b), np.maximum(a, b)
        if problem.kind is Kind.NESTED:
            low, high = low - BEYOND * (high - low), high + BEYOND * (high - low)
        shares = np.linspace(0.0, 1.0, GRID)
        values = np.stack([self._uncentred(disparity, low + t * (high - low), index) for t in shares])
        best = shares[np.argmin(values, axis=0)]
        width = (high - low) / (GRID - 1)
        centre = low + best * (high - low)
        left, right = np.maximum(centre - width, low), np.minimum(centre + width, high)
        for _ in range(SECTIONS):
            inner, outer = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
            lower = self._uncentred(disparity, inner, index) <= self._uncentred(disparity, outer, index)
            left, right = np.where(lower, left, inner), np.where(lower, outer, right)
        middle = 0.5 * (left + right)
        return self._uncentred(disparity, middle, index), middle

    def _uncentred(self, disparity: FloatArray, theta: FloatArray, index: IntArray) -> FloatArray:
        problem = self.problem
        group = problem.own_index[index]
        n, gap = problem.own.n[group], problem.own.mean[group] - theta - disparity
        first, second = n * gap, n * (problem.own.variance[group] + gap**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(first == 0, 0.0, first**2 / second)
            if problem.other is None:
                return alone
            assert problem.other_index is not None
            partner = problem.other_index[index]
            m, rest = problem.other.n[partner], problem.other.mean[partner] - theta
            total, square = m * rest, m * (problem.other.variance[partner] + rest**2)
            if problem.kind is Kind.DISJOINT:
                return alone + np.where(total == 0, 0.0, total**2 / square)
            # (u1, u2) and the 2 x 2 second moments of the nested case.
            total, square = total + n * disparity, square + n * disparity**2
            cross = first * disparity
            left = total - np.where(cross == 0, 0.0, cross / second * first)
            remaining = square - np.where(cross == 0, 0.0, cross**2 / second)
            return alone + np.where(left == 0, 0.0, left**2 / remaining)
