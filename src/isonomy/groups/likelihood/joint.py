"""Several disparities at once, over groups that may overlap, with the reference profiled.

Rows with the same memberships form a *pattern*. Within a pattern every estimating function is linear in the row's
columns x (the metric; for a reference that the caller estimated also its influence value):

    g_i = U_s x_i - W_s θ - V_s         s the pattern of row i, θ the unknown reference

so 1 + λ'g_i is linear in x_i too, and the gradient and Hessian of the dual need only a few sums per pattern. No matrix
with a row for each row of the table is formed; a 0/1 metric needs two weighted rows per pattern.

Comparisons within strata, and metrics that are not means over rows, have no joint likelihood. Under the hypothesis of
no difference their contrasts d have mean 0 and covariance V, and T = d' V⁺ d is chi-square with as many degrees of
freedom as V has directions. No other hypothesis can be tested that way, because V would be another.

Where V rests on the groups' own variances, each from few rows, T is too large, the more so the more groups there are
and the heavier their tails. Welch's (1951) F allows for it, with the degrees of freedom of each variance given by the
fourth moment of its influence values.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, special

from isonomy.errors import UsageError
from isonomy.groups.likelihood.means import IDENTITY, LINKS, Link
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf

# Functions with second moments dependent to this relative tolerance carry no information of their own.
RANK_TOLERANCE = 1e-10
# The rows that represent a value a 0/1 pattern never takes: too few to matter, enough to let its probability move.
TRACE = 1e-8
# The sequence of traces that leads there. With few rows in an empty cell the dual is smooth, and each maximum is close
# to the next, as on the path of a barrier method. The reference is found along the first ones, to which it is linear,
# and then fixed.
HEAVIER, LIGHTER = (1.0, 1e-1, 1e-2, 1e-3), (1e-4, 1e-5, 1e-6, 1e-7, TRACE)
# The number of functions up to which Newton converges without that sequence.
HANDFUL = 5
# So many full Newton steps that still gain this much mean that the dual has no maximum: it grows like a logarithm.
GROWTH, ENDLESS = 0.25, 40
STEPS = 100
# Evaluations of the dual after which a test is abandoned: most need some dozens, the hardest some thousands.
MOST = 5_000
# Other references to start from if the estimated one is infeasible.
STARTS = 15
# How far from where Newton stopped, relative to the possible references, the minimum is searched for.
NEAR = 1e-3
# Newton ends when its decrement, twice what is left to gain, is this small relative to the log-likelihood ratio.
CONVERGED = 1e-13
# A Euclidean function's mean over a pattern is rounding if it is this small relative to its terms; so are directions of
# second moments this small relative to the largest.
ROUNDING, VANISHED = 2e-15, 1e-13
# Patterns at whose means the Euclidean statistic is evaluated, the variance, relative to that of all rows, below which
# one makes a dip that is easily missed, and how closely such a dip is approached.
DIPS, LITTLE, CLOSER = 8, 1e-3, 2.0 ** -np.arange(44.0)
# Directions of contrasts, each in its own standard errors, with less variance than this are determined by others.
FIXED = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """``slope`` U (patterns, functions, columns), ``nuisance`` W (patterns, functions, 1 or, for a known reference, 0)
    and ``offset`` V (patterns, functions).
    """

    slope: FloatArray
    nuisance: FloatArray
    offset: FloatArray

    @classmethod
    def compared(
        cls,
        members: FloatArray,
        referent: FloatArray,
        target: FloatArray,
        estimate: float | None,
        link: Link,
        zero: float,
    ) -> Functions:
        """1_G (M - θ - ε), or 1_G (M - r θ) about the true zero, for each group, and the equation of the unknown θ."""
        whole = referent if estimate is None else np.ones_like(referent)
        slope = np.zeros((referent.size, target.size + 1, 1 if estimate is None else 2))
        slope[:, :-1, 0], slope[:, -1, 0 if estimate is None else 1] = members, whole
        times, more = np.ones(target.size), target
        if link is not IDENTITY:
            times, more = np.exp(target), np.expm1(target) * zero
        nuisance = np.column_stack([members * times, whole])
        offset = np.column_stack([members * more, np.full(referent.size, -(estimate or 0.0))])
        return cls(slope, nuisance[:, :, None], offset)

    def constant(self, theta: FloatArray) -> FloatArray:
        """The part of g that is the same for all rows of a pattern, with opposite sign: W θ + V."""
        return self.nuisance @ theta + self.offset

    def take(self, chosen: IntArray) -> Functions:
        return Functions(self.slope[:, chosen], self.nuisance[:, chosen], self.offset[:, chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """``df`` counts independent functions minus the profiled references; ``left_out`` are the groups whose functions
    would have singled out too few rows. The likeliest weighting that meets the hypothesis gives each pattern ``scale``
    times its weight and moves the means of its columns by ``move`` (columns, patterns), with these ``multipliers`` of
    the functions; they are None if no weighting does, and for Euclidean likelihood.
    """

    statistic: float
    df: int
    theta: FloatArray
    status: Status
    left_out: tuple[int, ...] = ()
    scale: FloatArray | None = None
    move: FloatArray | None = None
    multipliers: FloatArray | None = None


class Patterns:
    """Rows arranged by pattern: all that the dual needs to know about the data."""

    def __init__(
        self, pattern: IntArray, size: int, columns: tuple[FloatArray, ...], weights: FloatArray | None
    ) -> None:
        if weights is not None:  # no weighting has to be possible for rows without weight
            pattern = np.where(weights > 0, pattern, -1)
        self.rows = Ragged.from_codes(pattern, size, *columns, weights=weights)
        self.columns = np.stack([np.asarray(c, dtype=float) for c in self.rows.columns])
        self.n = self.rows.totals
        self.total = float(self.n.sum())
        self.first = np.stack([self.rows.weighted_sum(c) for c in self.columns])
        self.second = np.array([[self.rows.weighted_sum(a * b) for b in self.columns] for a in self.columns])
        self.traces = np.zeros(self.rows.n_rows, dtype=bool)
        filled = self.n > 0
        self.low = np.stack([np.where(filled, self.rows.min(c), 0.0) for c in self.columns])
        self.high = np.stack([np.where(filled, self.rows.max(c), 0.0) for c in self.columns])

    @classmethod
    def from_counts(cls, pattern: IntArray, size: int, value: FloatArray, weights: FloatArray) -> Patterns:
        """0/1 rows: two weighted rows per pattern.

        A value that does not occur in a pattern gets a trace of weight, so that T is the binomial likelihood ratio
        there too (0 log 0 = 0) and not infinite.
        """
        code = np.where(pattern < 0, -1, 2 * pattern + (value == 1))
        counts = np.bincount(code + 1, weights=weights, minlength=2 * size + 1)[1:]
        atoms = np.flatnonzero(np.repeat(counts.reshape(size, 2).sum(axis=1) > 0, 2))
        data = cls(atoms // 2, size, ((atoms % 2).astype(float),), np.maximum(counts[atoms], TRACE))
        data.traces = np.asarray(data.rows.weights == TRACE)
        return data

    def moments(self, functions: Functions, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        c = functions.constant(theta)
        total = np.einsum("sfk,ks->f", functions.slope, self.first) - self.n @ c
        return total, _crossed(functions.slope, c, self.n, self.first, self.second)

    def independent(self, functions: Functions, theta: FloatArray) -> IntArray:
        """Functions that span all of them, by a pivoted Cholesky factor of their scaled second moments."""
        second = self.moments(functions, theta)[1]
        scale = np.sqrt(np.diag(second))
        alive = np.where(scale > 0, scale, 1.0)
        _, pivots, rank, _ = linalg.lapack.dpstrf(second / np.outer(alive, alive), tol=RANK_TOLERANCE)
        return np.sort(np.asarray(pivots[:rank], dtype=np.intp) - 1)

    def likelihood(self, functions: Functions, theta: FloatArray, near: Joint | None = None) -> Joint:
        """Empirical likelihood: the maximum over λ for each θ, the minimum over θ; ``near`` is that of a near null."""
        free = functions.nuisance.shape[2]
        failed, starts, width = None, [theta], 0.0
        if free:
            low, high = self._bounds(functions)
            width, starts = high - low, [np.array(theta, dtype=float)] if low < theta[0] < high else []
            if low < high:
                # Functions that can each be met may still not be met together: more starts follow, the nearest first.
                others = np.linspace(low, high, STARTS + 2)[1:-1]
                nearest = np.argsort(np.abs(others - theta[0]), kind="stable")
                starts += [np.array([other]) for other in others[nearest]]
        for start in starts:
            chosen = self.independent(functions, start)
            df = max(chosen.size - free, 0)
            dual = _Dual(self, functions.take(chosen))
            if near is not None and near.multipliers is not None and near.multipliers.size == chosen.size:
                dual.multipliers, near = near.multipliers, None
            steep = self.traces.any() and chosen.size > HANDFUL
            best, status = dual.by_heavier_traces(start) if steep else dual.optimum(start)
            if dual.left <= 0:
                return Joint(max(2.0 * dual.value, 0.0), df, best, Status.NOT_CONVERGED)
            if free and status is Status.NOT_CONVERGED and not dual.beyond:
                best, status = dual.settle(best, NEAR * width)
            if status is Status.INFEASIBLE or dual.beyond:
                failed = failed or Joint(np.inf, df, best, Status.OUTSIDE_RANGE)
                continue
            with np.errstate(invalid="ignore"):
                scale, move = dual.weight / self.n, dual.first / dual.weight - self.first / self.n
            joint = Joint(max(2.0 * dual.value, 0.0), df, best, status, (), scale, move, dual.multipliers)
            if status is Status.OK:
                return joint
            failed = joint
        return failed or Joint(np.inf, self.independent(functions, theta).size - free, theta, Status.OUTSIDE_RANGE)

    def _bounds(self, functions: Functions) -> tuple[float, float]:
        """The range of references for which a weighting may exist: every function must take both signs."""
        slope, weight = functions.slope, functions.nuisance[:, :, 0]
        ends = np.sort(np.stack([slope * self.low.T[:, None], slope * self.high.T[:, None]]), axis=0).sum(axis=3)
        counts = (weight > 0) & (self.n > 0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            least, most = (ends - functions.offset) / weight
        low = np.min(np.where(counts, least, np.inf), axis=0)[counts.any(axis=0)]
        high = np.max(np.where(counts, most, -np.inf), axis=0)[counts.any(axis=0)]
        return float(low.max()), float(high.min())

    def euclidean(self, functions: Functions, theta: FloatArray, rows: float | None = None) -> Joint:
        """Euclidean likelihood: T = Tu / (1 - Tu/n), Tu = (Σg)'(Σgg')⁻¹(Σg), the minimum over θ.

        ``rows`` is n if it exceeds the rows here: rows in which every function is zero count too.
        """
        free, n = functions.nuisance.shape[2], rows or self.total
        away = self.columns[0] - float(self.first[0].sum()) / self.total
        spread = np.sqrt(max(float(self.rows.weighted_sum(away**2).sum()) / self.total, 1e-300))
        # Next to the estimate: the function of a reference with equal rows vanishes at it, and still counts.
        chosen = self.independent(functions, theta + spread / np.sqrt(self.total) if free else theta)
        sums = _Euclidean(self, functions.take(chosen), spread)
        if free:
            theta = np.array([sums.lowest(float(theta[0]))])
        tu = sums.uncentered(theta)
        return Joint(np.inf if tu >= n else tu / (1.0 - tu / n), max(chosen.size - free, 0), theta, Status.OK)


class _Euclidean:
    """Tu = (Σg)'(Σgg')⁻¹(Σg) as a function of θ, from means and central moments: exactly 0 where equal rows are met."""

    def __init__(self, data: Patterns, functions: Functions, spread: float) -> None:
        self.data, self.functions, self.spread = data, functions, spread
        with np.errstate(invalid="ignore"):
            means = np.nan_to_num(np.where(data.low == data.high, data.low, data.first / data.n))
        away = data.columns - np.stack([data.rows.repeat(mean) for mean in means])
        self.central = np.array([[data.rows.weighted_sum(a * b) for b in away] for a in away])
        self.fitted = np.einsum("sfk,ks->sf", functions.slope, means)
        self.within = np.einsum("sfk,kls,sgl->fg", functions.slope, self.central, functions.slope, optimize=True)

    def uncentered(self, theta: FloatArray) -> float:
        """Tu, without functions that vanish and directions that are rounding."""
        constant = self.functions.constant(theta)
        mean = self.fitted - constant
        mean[np.abs(mean) <= ROUNDING * (np.abs(self.fitted) + np.abs(constant))] = 0.0
        second = self.within + mean.T @ (self.data.n[:, None] * mean)
        alive = np.flatnonzero(np.diag(second) > 0)
        unit = np.sqrt(np.diag(second)[alive])
        scaled, right = second[np.ix_(alive, alive)] / np.outer(unit, unit), (self.data.n @ mean)[alive] / unit
        with suppress(linalg.LinAlgError):
            factor = linalg.cholesky(scaled, lower=True)
            # If a pivot, the square of an element, is close to zero, the directions must be examined.
            if factor.diagonal().min(initial=1.0) ** 2 > 100.0 * VANISHED:
                half = linalg.solve_triangular(factor, right, lower=True)
                return float(half @ half)
        return float(right @ _least_squares(scaled, right, VANISHED))

    def lowest(self, start: float) -> float:
        """The θ that minimizes Tu: downhill from ``start``, or in a dip that this would miss.

        Rows of little variance make a dip of that width about the θ that fits them; equal rows make one of no width.
        """

        def value(t: float) -> float:
            return self.uncentered(np.array([t]))

        step = self.spread / np.sqrt(self.data.total)
        near = optimize.minimize_scalar(value, bracket=(start - step, start + step), tol=1e-10)
        points = np.unique(np.append(self._dips(), near.x))
        values = np.array([value(t) for t in points])
        best = int(np.argmin(values))
        if points[best] == near.x:
            return float(near.x)
        ends = points[max(best - 1, 0)], points[min(best + 1, points.size - 1)]
        inner = optimize.minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-9 * np.ptp(ends)})
        return float(inner.x if inner.fun < values[best] else points[best])

    def _dips(self) -> FloatArray:
        """The θ that fit the most informative patterns, and others closer and closer to them."""
        data, functions = self.data, self.functions
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = self.central[0, 0] / data.n / self.spread**2
            fits = (self.fitted - functions.offset) / functions.nuisance[:, :, 0]
            pull = np.where(data.n > 0, data.n / (variance + LITTLE**2), 0.0)
        most = np.argsort(-pull, kind="stable")[:DIPS]
        # Against the population, disparities other than 0 move the dip of equal rows, and give it a width.
        narrow = (variance < LITTLE) & ((variance > 0) | functions.offset.any())
        points = [fits[most].ravel()]
        for pattern in most[narrow[most]]:
            fit = np.unique(fits[pattern][np.isfinite(fits[pattern])])
            points += [np.add.outer(fit, sign * self.spread * CLOSER).ravel() for sign in (-1.0, 1.0)]
        every = np.concatenate(points)
        return every[np.isfinite(every)]


class _Dual:
    """Newton on the dual, with Owen's pseudo-logarithm so that every λ is allowed."""

    def __init__(self, data: Patterns, functions: Functions) -> None:
        self.data, self.functions = data, functions
        self.multipliers = np.zeros(functions.slope.shape[1])
        self.pairs = list(combinations_with_replacement(range(len(data.columns)), 2))
        products = [data.columns[a] * data.columns[b] for a, b in self.pairs]
        self.powers = np.stack([np.ones(data.rows.n_rows), *data.columns, *products])  # of a row: 1, x, x x'
        self._weigh(np.ones(data.rows.n_rows) if data.rows.weights is None else data.rows.weights)
        # A sum of logarithms of numbers near one: a step that gains less than this may as well lose.
        self.rounding = 2.0 * np.finfo(float).eps * data.total
        self.value, self.beyond, self.left = 0.0, False, MOST

    def _weigh(self, weights: FloatArray) -> None:
        self.weights = weights
        # No weight exceeds one, so no 1 + λ'g falls below a row's share of the total.
        self.floor = weights / self.data.total

    def optimum(self, theta: FloatArray) -> tuple[FloatArray, Status]:
        """The maximum over λ, and its minimum over θ if θ is unknown."""
        return self.profile(theta) if theta.size else (theta, self.solve(theta))

    def by_heavier_traces(self, theta: FloatArray) -> tuple[FloatArray, Status]:
        """The same through a sequence of traces, where values that never occur would bend the dual too sharply."""
        weights, traces, before = self.weights, self.data.traces, theta
        for trace in HEAVIER:
            self._weigh(np.where(traces, trace, weights))
            before, (theta, status) = theta, self.optimum(theta)
            if status is Status.INFEASIBLE or self.left <= 0:
                return theta, status
        theta = theta + (theta - before) * HEAVIER[-1] / (HEAVIER[-2] - HEAVIER[-1])
        for trace in LIGHTER:
            self._weigh(np.where(traces, trace, weights))
            status = self.solve(theta)
        return theta, status

    def solve(self, theta: FloatArray) -> Status:
        """Maximize Σ log*(1 + λ'g) over λ, starting from the last λ."""
        self.evaluate(self.multipliers, theta)
        growing = 0
        for _ in range(STEPS):
            if self.left <= 0:
                return Status.NOT_CONVERGED
            step = _solved(self.hessian, self.gradient)
            decrement = float(self.gradient @ step)
            if decrement <= CONVERGED * max(1.0, self.value):
                return Status.OK
            here, before, length = self.multipliers, self.value, 1.0
            while length > 1e-10:
                self.evaluate(here + length * step, theta)
                if self.value >= before + 1e-4 * length * decrement - self.rounding:
                    break
                length /= 2.0
            else:
                self.evaluate(here, theta)
                return self._stuck(decrement)
            growing = growing + 1 if length == 1.0 and decrement > GROWTH else 0
            if growing > ENDLESS:
                return Status.INFEASIBLE
        return Status.NOT_CONVERGED

    def profile(self, theta: FloatArray) -> tuple[FloatArray, Status]:
        status, functions = self.solve(theta), self.functions
        for _ in range(STEPS):
            if status is Status.INFEASIBLE or self.left <= 0:
                return theta, status
            # dF/dθ = -Σ_s λ'W_s S0_s; its total derivative adds the response of λ.
            pull = np.einsum("f,sfr->sr", self.multipliers, functions.nuisance)
            gradient = -self.weight @ pull
            # ∂²F/∂λ∂θ = -Σ W_s S0_s + Σ g (λ'W_s) / D²
            cross = -np.einsum("s,sfr->fr", self.weight, functions.nuisance)
            cross = cross + np.einsum("sfk,ks,sr->fr", functions.slope, self.squared_first, pull)
            cross = cross - np.einsum("sf,s,sr->fr", self.constant, self.squared, pull)
            curvature = cross.T @ _least_squares(self.hessian, cross, 1e-14)
            curvature -= np.einsum("s,sr,sq->rq", self.squared, pull, pull)
            step = -_solved(curvature, gradient)
            decrement = -float(gradient @ step)
            if abs(decrement) <= CONVERGED * max(1.0, self.value):
                return theta, status
            if decrement < 0:  # not convex here: go downhill instead
                step, decrement = -step, -decrement
            saved, before, length = self.multipliers, self.value, 1.0
            while length > 1e-8 and self.left > 0:
                status = self.solve(theta + length * step)
                gained = self.value <= before - 1e-4 * length * decrement + self.rounding
                if status is not Status.INFEASIBLE and gained:
                    break
                length /= 2.0
                self.multipliers = saved
            else:
                self.solve(theta)
                return theta, self._stuck(decrement)
            theta = theta + length * step
        return theta, Status.NOT_CONVERGED

    def settle(self, theta: FloatArray, width: float) -> tuple[FloatArray, Status]:
        """The minimum near ``theta`` without derivatives, where rounding kept Newton from its last digits.

        A trace of weight makes the Hessian badly conditioned; the maximum over λ itself is still accurate.
        """

        def value(x: float) -> float:
            return np.inf if self.solve(np.array([x])) is Status.INFEASIBLE else self.value

        ends = float(theta[0]) - width, float(theta[0]) + width
        near = optimize.minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-6 * width})
        status = self.solve(np.array([near.x]))
        inside = min(near.x - ends[0], ends[1] - near.x) > 1e-3 * width
        return np.array([near.x]), status if inside and near.success else Status.NOT_CONVERGED

    def _stuck(self, decrement: float) -> Status:
        """No step improves: this is rounding if there was hardly anything left to gain."""
        return Status.OK if decrement <= 1e4 * CONVERGED * max(1.0, self.value) else Status.NOT_CONVERGED

    def evaluate(self, multipliers: FloatArray, theta: FloatArray) -> None:
        data, functions = self.data, self.functions
        self.multipliers = multipliers
        self.left -= 1
        self.constant = functions.constant(theta)
        start = 1.0 - self.constant @ multipliers
        tilt = np.einsum("f,sfk->ks", multipliers, functions.slope)
        first, *tilts = data.rows.repeat(np.stack([start, *tilt], axis=1)).T
        d = first + sum(x * t for x, t in zip(data.columns, tilts, strict=True))
        self.beyond = bool((d < (1.0 - 1e-6) * self.floor).any())
        value, slope, bend = (self.weights * part for part in _pseudo_log(d, self.floor))
        size = len(data.columns)
        # One sum of all is much faster than a sum of each.
        summands = np.concatenate([value[None], slope * self.powers[: size + 1], bend * self.powers])
        values, self.weight, *sums = data.rows.sum(summands.T).T
        self.value = float(values.sum())
        self.first, self.squared = np.stack(sums[:size]), sums[size]
        self.squared_first = np.stack(sums[size + 1 : 2 * size + 1])
        squared_second = np.empty((size, *self.squared_first.shape))
        for (a, b), part in zip(self.pairs, sums[2 * size + 1 :], strict=True):
            squared_second[a, b] = squared_second[b, a] = part
        self.gradient = np.einsum("sfk,ks->f", functions.slope, self.first) - self.weight @ self.constant
        self.hessian = _crossed(functions.slope, self.constant, self.squared, self.squared_first, squared_second)


def _crossed(
    slope: FloatArray, constant: FloatArray, zero: FloatArray, first: FloatArray, second: FloatArray
) -> FloatArray:
    """Σ v g g' from the sums of v, v x and v x x' by pattern."""
    flat = constant.T @ (zero[:, None] * constant)
    for a in range(slope.shape[2]):
        mixed = slope[:, :, a].T @ (first[a][:, None] * constant)
        flat -= mixed + mixed.T
        for b in range(slope.shape[2]):
            flat += slope[:, :, a].T @ (second[a, b][:, None] * slope[:, :, b])
    return flat


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """matrix⁻¹ right, by least squares if rounding has made it singular."""
    _, solution, singular = linalg.lapack.dposv(matrix, right)
    return _least_squares(matrix, right, 1e-14) if singular or not np.isfinite(solution).all() else solution


def _least_squares(matrix: FloatArray, right: FloatArray, cutoff: float) -> FloatArray:
    """NaN for numbers that are not finite: LAPACK would print a message about them, and may not return."""
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return np.full_like(right, np.nan)
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=cutoff)[0], dtype=float)


def _pseudo_log(d: FloatArray, floor: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log, its derivative and minus its second, continued as a parabola below ``floor`` (Owen, 2001, 12.7)."""
    low = d < floor
    safe = np.where(low, floor, d)
    slope = 1.0 / safe
    bend = slope * slope
    value = np.log(safe)
    if low.any():
        ratio = d[low] / floor[low]
        value[low] = np.log(floor[low]) - 1.5 + 2.0 * ratio - 0.5 * ratio * ratio
        slope[low] = (2.0 - ratio) / floor[low]
    return value, slope, bend


def quadratic(contrasts: FloatArray, covariance: FloatArray) -> tuple[float, int]:
    """T and its degrees of freedom; contrasts without variance carry no information."""
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    known = error > 0
    scaled = (contrasts / np.where(known, error, 1.0))[known]
    variance, directions = np.linalg.eigh((covariance / np.outer(error, error).clip(1e-300))[np.ix_(known, known)])
    free = variance > FIXED
    return float(((directions[:, free].T @ scaled) ** 2 / variance[free]).sum()), int(free.sum())


def welch(statistic: float, df: int, variance: FloatArray, freedom: FloatArray) -> float:
    """The p-value of T for groups with these variances, which have these degrees of freedom.

    Welch, B. L. (1951). On the comparison of several mean values: an alternative approach. Biometrika 38, 330-336.
    """
    precision = 1.0 / variance
    error = float(((1.0 - precision / precision.sum()) ** 2 / freedom).sum())
    if error == 0.0:  # one group alone
        return float(special.fdtrc(df, float(freedom.min()), statistic / df))
    square = (df + 1.0) ** 2 - 1.0
    return float(special.fdtrc(df, square / (3.0 * error), statistic / df / (1.0 + 2.0 * (df - 1.0) / square * error)))


@dataclass(frozen=True, slots=True, eq=False)
class NoDifference:
    """A joint test that can only be evaluated at no difference: its statistic as a chi-square with the same tail."""

    groups: int
    statistic: float
    df: int
    scale: str

    def test(self, disparities: npt.ArrayLike) -> Joint:
        if (np.asarray(disparities, dtype=float) != LINKS[self.scale].equal).any():
            raise UsageError(
                f"disparities: only no difference ({LINKS[self.scale].equal:g}) can be tested jointly here, saw "
                f"{disparities!r}; the intervals of `to_frame` hold for all groups jointly."
            )
        return Joint(self.statistic, self.df, np.empty(0), Status.OK)

    def critical(self, alpha: float, df: int) -> float:
        return float(chi2_isf(alpha, df))
