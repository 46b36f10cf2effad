"""Disjoint groups, whose joint likelihood splits by block.

`Shifted`: a null fixes their means but for one common shift, and T is the minimum over θ of Σ T_j(θ + ε_j). T_j is
convex, and its derivative -2 n_j λ_j, so the minimum is where Σ n_j λ_j crosses zero. Rows that are all equal leave one
θ, as a known reference does. Many such problems are solved at once, which is what makes resampling them affordable.

`Rests`: each against all other rows, at disparities that are not 0. With P_j the share of block j and m_j its mean, the
rest of block j has the mean (μ - P_j m_j)/(1 - P_j), μ the mean of all rows, so a disparity ε_j from the rest says
m_j = μ + ε_j (1 - P_j). Given shares and means the likelihood splits by block, and T is the minimum of

    empirical    Σ_j  2 n_j log(p_j/P_j) + T_j(m_j),        p_j = n_j/n
    Euclidean    Σ_j  (n P_j - n_j)²/n_j + (n P_j)² (m_j - mean_j)²/(n_j v_j)

over P and μ (and the mean of a last block, of rows in no tested group, if there is one) with Σ P_j = 1 and
Σ P_j (m_j - μ) = 0. Without a last block the second equation is Σ_{i<j} P_i P_j (ε_i + ε_j) = 0: it restricts the
shares, and nothing solves it when the sums of two disparities all have one sign. A last block whose mean is left free
meets it whatever the other unknowns are: it is not asked then, and the block counts by its share alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from isonomy.likelihood.ratio.joint import Joint
from isonomy.likelihood.ratio.means import Means
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.roots import roots
from isonomy.numerics.status import Status

# Where T is continued as a parabola while the search is on: this part of the way is left from a block's mean to the end
# of its range (of the whole range, where that is less: a 0/1 block may lie at the end).
EDGE, LEAST = 1e-4, 1e-9
# How far inside the range, relative to it, the search begins.
INSIDE = 0.05
# Shares stay above this part of the data's own.
SMALLEST = 1e-6
# The variance, relative to the largest, of a block whose rows are all equal: its mean hardly moves.
FLAT = 1e-9
# How well, in standard errors, the two equations must hold.
MET = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """Problems in rows, groups in columns: places in ``groups``, which of them count, and the ε_j of the columns."""

    groups: Means
    place: IntArray
    counts: BoolArray
    shift: FloatArray

    @property
    def centre(self) -> FloatArray:
        """The common shift that fits best if all variances are equal."""
        n = np.where(self.counts, self.groups.n[self.place], 0.0)
        fits = np.where(self.counts, self.groups.mean[self.place] - self.shift, 0.0)
        return (n * fits).sum(axis=1) / n.sum(axis=1)

    @property
    def df(self) -> IntArray:
        """Groups less the shift; 0 where no row differs from the null."""
        away = self.groups.mean[self.place] - self.shift - self.centre[:, None]
        moving = (self.groups.variance[self.place] + away**2 > 0) & self.counts
        # A group whose rows all equal the centre counts: it says what θ is.
        return np.where(moving.any(axis=1), np.maximum(self.counts.sum(axis=1) - 1, 0), 0)

    def solve(self) -> tuple[FloatArray, FloatArray, ObjectArray]:
        """T, θ and the status of each problem."""
        groups, df = self.groups, self.df
        low = np.where(self.counts, groups.low[self.place] - self.shift, -np.inf).max(axis=1)
        high = np.where(self.counts, groups.high[self.place] - self.shift, np.inf).min(axis=1)
        theta = np.where(df > 0, np.nan, self.centre)
        statistic = np.where(df > 0, np.inf, 0.0)
        # Neither np.where nor np.full, which make plain strings of an enum's members.
        status = np.empty(df.shape, dtype=object)
        status[:] = Status.OK
        pinned = np.flatnonzero((df > 0) & (low == high))
        at_end = self._total(low[pinned], pinned)
        statistic[pinned], theta[pinned] = (at_end, np.where(np.isfinite(at_end), low[pinned], np.nan))
        open_ = np.flatnonzero((df > 0) & (low < high))
        solution = roots(
            lambda x, active: self._slope(x, open_[active]),
            low[open_],
            high[open_],
            x0=self.centre[open_],
            direction="decreasing",
        )
        theta[open_], statistic[open_] = solution.x, self._total(solution.x, open_)
        # Without a root the minimum is at an end, which 0/1 rows may reach.
        status[open_] = np.where(solution.status == Status.INFEASIBLE, status[open_], solution.status)
        status[np.isinf(statistic)] = Status.OUTSIDE_RANGE
        return statistic, theta, status

    def _total(self, theta: FloatArray, index: IntArray) -> FloatArray:
        """Σ T_j(θ + ε_j)."""
        place = self.place[index]
        low, high = self.groups.low[place], self.groups.high[place]
        # Rows that are all equal allow one θ, and adding their ε_j back may miss it by rounding.
        means = np.where((low == high) & (low - self.shift == theta[:, None]), low, theta[:, None] + self.shift)
        alone = self.groups.statistic(means.ravel(), place.ravel()).reshape(place.shape)
        return np.where(self.counts[index], alone, 0.0).sum(axis=1)

    def _slope(self, theta: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Σ n_j λ_j and its derivative."""
        place, counts = self.place[index], self.counts[index]
        point = self.groups.locate((theta[:, None] + self.shift).ravel(), place.ravel())
        n = self.groups.n[place]
        pull = n * point.multiplier.reshape(place.shape)
        bend = n * (point.dmultiplier / point.dmean).reshape(place.shape)
        return np.where(counts, pull, 0.0).sum(axis=1), np.where(counts, bend, 0.0).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Rests:
    """Blocks that are all rows together; the first ``disparities.size`` are tested against their rests.

    The unknowns are the shares, μ and, if there is a last block and its mean is not ``free``, that mean, in this order.
    """

    blocks: Means
    disparities: FloatArray
    euclidean: bool
    free: bool = False

    def solve(self) -> Joint:
        """T from the data's own shares or, should no weighting be found from there, from equal ones.

        ``scale`` and ``move`` of the answer say how the likeliest weighting changes each block's share and mean.
        """
        own = self._from(self._share)
        if own.status is Status.OK:
            return own
        again = self._from(np.full(self._share.size, 1.0 / self._share.size))
        return again if again.statistic < own.statistic else own

    @property
    def _share(self) -> FloatArray:
        return self.blocks.n / self.blocks.n.sum()

    @property
    def _variance(self) -> FloatArray:
        return np.maximum(self.blocks.variance, FLAT * self.blocks.variance.max())

    def _from(self, shares: FloatArray) -> Joint:
        """Sequential quadratic programming in units of the unknowns' standard errors."""
        blocks, tested, own = self.blocks, self.disparities.size, self._share
        rows, mean = float(blocks.n.sum()), float(own @ blocks.mean)
        spread = float(own @ (blocks.variance + (blocks.mean - mean) ** 2))
        shift = self.disparities * (1.0 - shares[:tested])
        fitted = float(np.average((blocks.mean[:tested] - shift), weights=(blocks.n / self._variance)[:tested]))
        if not self.euclidean:
            low, high = float((blocks.low[:tested] - shift).max()), float((blocks.high[:tested] - shift).min())
            margin = INSIDE * (high - low)
            fitted = min(max(fitted, low + margin), high - margin) if low < high else 0.5 * (low + high)
        last = slice(own.size if self.free else tested, None)
        start = np.concatenate([shares, [fitted], blocks.mean[last]])
        squares = np.concatenate([own * (1.0 - own), [spread], (blocks.variance / own)[last]])
        unit = np.sqrt(squares / rows)
        size = np.abs(self.disparities).max() if tested == own.size else np.sqrt(spread)
        scale = np.array([1.0] if self.free else [1.0, size]) / np.sqrt(rows)

        def cost(y: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self._cost(start + unit * y)
            return value, unit * gradient

        constraints: list[Any] = [
            {
                "type": "eq",
                "fun": lambda y: self._balance(start + unit * y)[0] / scale,
                "jac": lambda y: self._balance(start + unit * y)[1] * unit / scale[:, None],
            }
        ]
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * start.size
        if not self.euclidean:  # its weights may be negative
            bounds[: own.size] = [((SMALLEST * o - s) / u, None) for o, s, u in zip(own, shares, unit, strict=False)]
            constraints.append(self._ranges(start, unit))
        solution = optimize.minimize(
            cost,
            np.zeros(start.size),
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints=constraints,
            options={"ftol": 1e-13, "maxiter": 500},
        )
        at = start + unit * solution.x
        means = self._means(at)[0]
        met = bool((np.abs(self._balance(at)[0]) <= MET * scale).all())
        slack = MET * np.sqrt(spread / rows)
        met &= self.euclidean or bool(((means >= blocks.low - slack) & (means <= blocks.high + slack)).all())
        value, status = float(solution.fun), Status.OK if solution.success else Status.NOT_CONVERGED
        if not met:
            value, status = np.inf, Status.OUTSIDE_RANGE
        elif not self.euclidean:
            alone = blocks.statistic(np.clip(means, blocks.low, blocks.high), np.arange(own.size))
            value = float(np.sum(alone + 2.0 * blocks.n * np.log(own / at[: own.size])))
        scale, move = at[: own.size] / own, means - blocks.mean
        return Joint(max(value, 0.0), tested, np.empty(0), status, scale=scale, move=move)

    def _means(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The blocks' means and their derivatives by the unknowns."""
        size, tested = self.blocks.n.size, self.disparities.size
        first = np.arange(tested)
        slope = np.zeros((size, x.size))
        slope[first, first], slope[first, size] = -self.disparities, 1.0
        # A free mean stays where it costs nothing.
        last = self.blocks.mean[tested:] if self.free else x[size + 1 :]
        means = np.concatenate([x[size] + self.disparities * (1.0 - x[:tested]), last])
        slope[tested:, size + 1 :] = 1.0
        return means, slope

    def _balance(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ P_j - 1 and, unless a mean is free, Σ P_j (m_j - μ), and their derivatives."""
        size = self.blocks.n.size
        shares, (means, slope) = x[:size], self._means(x)
        first = np.zeros(x.size)
        first[:size] = 1.0
        if self.free:
            return np.array([shares.sum() - 1.0]), first[None]
        slope[:, size] -= 1.0
        second = shares @ slope
        second[:size] += means - x[size]
        return np.array([shares.sum() - 1.0, shares @ (means - x[size])]), np.stack([first, second])

    def _ranges(self, start: FloatArray, unit: FloatArray) -> dict[str, Any]:
        """Means stay within the range of the data; they are linear in the unknowns."""
        blocks, slope = self.blocks, self._means(start)[1] * unit
        width = np.where(blocks.high > blocks.low, blocks.high - blocks.low, 1.0)

        def room(y: FloatArray) -> FloatArray:
            means = self._means(start + unit * y)[0]
            return np.concatenate([(means - blocks.low) / width, (blocks.high - means) / width])

        slopes = np.concatenate([slope, -slope]) / np.tile(width, 2)[:, None]
        return {"type": "ineq", "fun": room, "jac": lambda y: slopes}

    def _cost(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The sum to minimise and its gradient."""
        blocks, size = self.blocks, self.blocks.n.size
        shares, (means, slope) = x[:size], self._means(x)
        n, rows = blocks.n, float(blocks.n.sum())
        if self.euclidean:
            away, gap = rows * shares - n, means - blocks.mean
            pull = rows * shares * gap / (n * self._variance)
            value = away**2 / n + rows * shares * gap * pull
            by_share = 2.0 * rows * (away / n + gap * pull)
            by_mean = 2.0 * rows * shares * pull
        else:
            value, by_mean = self._alone(means)
            value = value + 2.0 * n * np.log(n / (rows * shares))
            by_share = -2.0 * n / shares
        gradient = by_mean @ slope
        gradient[:size] += by_share
        return float(value.sum()), gradient

    def _alone(self, means: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each block's T_j and its derivative, continued as a parabola where the range ends."""
        blocks = self.blocks
        edge = LEAST * (blocks.high - blocks.low)
        low = np.maximum(blocks.low + EDGE * (blocks.mean - blocks.low), blocks.low + edge)
        high = np.minimum(blocks.high - EDGE * (blocks.high - blocks.mean), blocks.high - edge)
        near = np.clip(means, low, high)
        with np.errstate(invalid="ignore", divide="ignore"):
            point = blocks.locate(near, np.arange(means.size))
            bend = -2.0 * blocks.n * point.dmultiplier / point.dmean
        slope, bend = (np.where(blocks.high > blocks.low, v, 0.0) for v in (-2.0 * blocks.n * point.multiplier, bend))
        away = means - near
        return (point.statistic + slope * away + 0.5 * bend * away**2, slope + bend * away)
