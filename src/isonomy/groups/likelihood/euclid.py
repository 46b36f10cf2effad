"""Euclidean likelihood of a disparity: the same questions as `profile`, from two moments per group.

T = n ḡ'S⁻¹ḡ with S centred over all n rows equals Tu / (1 - Tu/n), where Tu = (Σg)'(Σgg')⁻¹(Σg). With u = Σz and
v = Σz² of a block of rows in which one function is not zero:

fixed      Tu = u_G² / v_G, z = M - θ - ε.
disjoint   Tu = min over θ of u_G²/v_G + u_R²/v_R.
nested     the group's function and the population's share the group's rows. Once the first is taken from the second,
           rows of the group carry (M - θ - ε, ε) and the others (0, M - θ): Σgg' is 2 x 2, the minimum over θ scalar.

On another scale (`links`) ε is how far the disparity δ puts the group's mean from θ: it depends on θ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.groups.likelihood.links import IDENTITY
from isonomy.groups.likelihood.profile import Inverted, Kind, natural
from isonomy.numerics.arrays import FloatArray, IntArray

# Points of the first look for the minimum over θ, and golden-section steps after it (each gains a factor 0.618).
GRID = 65
SECTIONS = 32
BEYOND = 4.0
# Distances from a block's own θ, as shares of the range, at which Tu is looked at where it is steeper than the grid.
CLOSER = 4.0 ** -np.arange(24.0)
# Units in the last place by which a block's mean and a θ that is meant to meet it may differ.
ROUNDING = 8.0 * float(np.finfo(float).eps)
# Standard errors at which T counts as not reaching a level.
FAR = 1e5
# The largest ratio, as a logarithm, at which T is looked for.
FARTHEST = 10.0
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Euclidean(Inverted):
    """The Euclidean likelihood of each problem of a `Profile`; ``rows`` is n, all rows of the audit."""

    rows: float

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""
        index = np.arange(self.problem.own_index.size)
        target = np.broadcast_to(np.asarray(disparity, dtype=float), index.shape)
        uncentred = self._least(target, index)[0]
        with np.errstate(divide="ignore"):
            return np.where(uncentred < self.rows, uncentred / (1.0 - uncentred / self.rows), np.inf)

    def end(self, level: FloatArray, sign: float) -> FloatArray:
        """Where T = c, which is where Tu = c / (1 + c/n); infinite where it never is."""
        estimate, error, wanted = self.disparity, self.standard_error, np.sqrt(level / (1.0 + level / self.rows))

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
        if self.problem.link is not IDENTITY:
            far = np.minimum(far, FARTHEST / error)
        reached = gap(far, np.arange(wanted.size))[0] > 0
        end = self.outward(gap, wanted, np.where(reached, far, 0.0), sign)
        # Two constant blocks of rows have no second moment to measure a disparity by.
        return np.where(error > 0, end, np.nan)

    def _least(self, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu over θ, and where it is.

        It lies between the values that fit the reference and the group perfectly; not so when nested, where a θ
        beyond them inflates the second moments, so the search goes further.
        """
        problem = self.problem
        mean = natural(problem.own).mean[problem.own_index[index]]
        if problem.kind is Kind.FIXED:
            return self._uncentred(disparity, problem.theta[index], index), problem.theta[index]
        a, b = problem.reference[index], problem.link.moved(mean, -disparity)
        low, high = np.minimum(a, b), np.maximum(a, b)
        if problem.kind is Kind.NESTED:
            low, high = low - BEYOND * (high - low), high + BEYOND * (high - low)
        if problem.link is not IDENTITY:  # a reference is a mean of rows, and a ratio to any other means nothing
            own, other = natural(problem.own), natural(problem.other)
            group, partner = problem.own_index[index], problem.other_index[index]
            least, most = (
                np.minimum(own.low[group], other.low[partner]),
                np.maximum(own.high[group], other.high[partner]),
            )
            low, high = np.clip(low, least, most), np.clip(high, least, most)
        grid = low + np.linspace(0.0, 1.0, GRID)[:, None] * (high - low)
        # Tu moves on the scale of the blocks' standard deviations, and jumps where a block's rows are all equal.
        own, other = natural(problem.own), natural(problem.other)
        spread = np.minimum(own.variance[problem.own_index[index]], other.variance[problem.other_index[index]])
        steep = ((high - low) / (GRID - 1)) ** 2 > 0.25 * spread
        least, theta = np.empty(index.size), np.empty(index.size)
        smooth = np.flatnonzero(~steep)
        least[smooth], theta[smooth] = self._lowest(grid[:, smooth], disparity[smooth], index[smooth])
        hard = np.flatnonzero(steep)
        if hard.size:
            around = self._meeting(disparity[hard], index[hard])[:, None]
            offset = CLOSER[:, None] * (high - low)[hard]
            near = np.concatenate([around - offset, around, around + offset], axis=1).reshape(-1, hard.size)
            points = np.sort(np.concatenate([grid[:, hard], near]), axis=0)
            least[hard], theta[hard] = self._lowest(points, disparity[hard], index[hard])
        return least, theta

    def _meeting(self, disparity: FloatArray, index: IntArray) -> FloatArray:
        """The θ at which one of the functions sums to zero, one problem per column: where Tu may dip."""
        problem = self.problem
        group, partner = problem.own_index[index], problem.other_index[index]
        own, rest = natural(problem.own), natural(problem.other)
        mean, other = problem.link.moved(own.mean[group], -disparity), rest.mean[partner]
        if problem.kind is Kind.DISJOINT:
            return np.stack([mean, other])
        # Nested, what is left of the second function is m (other - θ) + n ε v / (v + (mean - θ)²).
        ratio, variance, theta = own.n[group] / rest.n[partner], own.variance[group], other
        for _ in range(3):
            with np.errstate(invalid="ignore"):
                share = np.where(variance > 0, variance / (variance + (mean - theta) ** 2), 0.0)
            theta = other + ratio * self._shift(disparity, theta) * share
        return np.stack([mean, other, theta])

    def _lowest(self, points: FloatArray, disparity: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The minimum of Tu near the best of ``points`` (sorted, one problem per column), or that point itself."""
        values = np.stack([self._uncentred(disparity, theta, index) for theta in points])
        best, every = np.argmin(values, axis=0), np.arange(index.size)
        left, right = points[np.maximum(best - 1, 0), every], points[np.minimum(best + 1, len(points) - 1), every]
        for _ in range(SECTIONS):
            inner, outer = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
            lower = self._uncentred(disparity, inner, index) <= self._uncentred(disparity, outer, index)
            left, right = np.where(lower, left, inner), np.where(lower, outer, right)
        middle = 0.5 * (left + right)
        refined, nearest = self._uncentred(disparity, middle, index), values[best, every]
        # The dip at the mean of equal rows has no width: only the point itself is in it.
        return np.minimum(refined, nearest), np.where(refined <= nearest, middle, points[best, every])

    def _shift(self, disparity: FloatArray, theta: FloatArray) -> FloatArray:
        """How far a disparity puts the group's mean from θ."""
        link = self.problem.link
        return disparity if link is IDENTITY else link.moved(theta, disparity) - theta

    def _uncentred(self, disparity: FloatArray, theta: FloatArray, index: IntArray) -> FloatArray:
        problem = self.problem
        group = problem.own_index[index]
        own, other = natural(problem.own), natural(problem.other)
        mean, shift = own.mean[group], self._shift(disparity, theta)
        n, gap = own.n[group], mean - theta - shift
        gap = np.where(np.abs(gap) <= ROUNDING * (np.abs(mean) + np.abs(theta) + np.abs(shift)), 0.0, gap)
        first, second = n * gap, n * (own.variance[group] + gap**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(first == 0, 0.0, first**2 / second)
            if problem.kind is Kind.FIXED:
                return alone
            partner = problem.other_index[index]
            m, rest = other.n[partner], other.mean[partner] - theta
            total, square = m * rest, m * (other.variance[partner] + rest**2)
            if problem.kind is Kind.DISJOINT:
                return alone + np.where(total == 0, 0.0, total**2 / square)
            # (u1, u2) and the 2 x 2 second moments of the nested case.
            total, square = total + n * shift, square + n * shift**2
            cross = first * shift
            left = total - np.where(cross == 0, 0.0, cross / second * first)
            remaining = square - np.where(cross == 0, 0.0, cross**2 / second)
            return alone + np.where(left == 0, 0.0, left**2 / remaining)
