"""What chance alone would do: the law of the projection statistic under each null.

By Theorem 1 the statistic s tends to the maximum over gamma of gamma'V - gamma'S gamma / 2 with V ~ N(0, Sigma):
Sigma is the covariance of the moment, S the curvature, a density at the decision boundary. One function covers
every null that lets each moment lie between two limits,

    m(W) = max over gamma of  gamma'W - sum over j of max(low_j gamma_j, high_j gamma_j) - gamma'S gamma / 2,

equality where low = high = 0, a tolerance on one side where one limit is infinite. The Wald test of the same moment is
the case S = Sigma.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from isonomy.inference.designs import JointLaw
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.resampling import pvalue
from isonomy.numerics.roots import root
from isonomy.numerics.tails import t_isf, t_sf, weighted_chi2_isf, weighted_chi2_sf

DRAWS = 50_000  # p-values of the simulated laws are exact to 0.002 (two standard errors at 0.05)
SWEEPS = 10_000  # coordinate ascent; a few dozen suffice unless the curvature is nearly singular
PRECISION = 1e-12  # relative change of the maximum at which the sweeps stop
ROUGH = 1e-6  # the same for draws, where simulation error is far larger
SCREENED, FINALISTS = 1_000, 8  # draws that choose among many vertices, and how many are judged by all draws
TAIL = 0.95  # the quantile they are chosen by


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Which differences belong to the null: those from ``low`` to ``high``, one entry per moment."""

    low: FloatArray
    high: FloatArray

    @property
    def equality(self) -> bool:
        """Whether every moment must be 0."""
        return not (self.low.any() or self.high.any())

    @property
    def two_sided(self) -> BoolArray:
        """The moments with room between two limits."""
        return (self.low < self.high) & np.isfinite(self.high - self.low)

    def at(self, places: IntArray) -> Null:
        """The same of some moments."""
        return Null(self.low[places], self.high[places])

    def times(self, factor: float) -> Null:
        """The limits of a multiple of the moments."""
        return Null(self.low * factor, self.high * factor)


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the statistic at the least favourable point of the null."""

    covariance: FloatArray  # Sigma, (m, m): of sqrt(N) times the moment
    curvature: FloatArray  # S, (m, m), positive definite
    null: Null  # of sqrt(N) times the moment
    normals: FloatArray | None = None  # (draws, m) standard normal draws, where there is no closed form
    df: float = np.inf  # of the covariance, where it rests on few clusters: F for chi-square, t for the normal law

    @property
    def simulated(self) -> bool:
        """True where there is no closed form: a tolerance null with more than one moment."""
        return simulated(self.null)

    @cached_property
    def weights(self) -> FloatArray:
        """Of the chi-squares: eigenvalues of Sigma^(1/2) S^-1 Sigma^(1/2) / 2."""
        from scipy.linalg import eigvalsh

        values = eigvalsh(self.covariance, self.curvature) / 2
        # Rounding leaves eigenvalues that are zero, or equal, apart by a few units in the last place.
        values[values < 1e-13 * values[-1]] = 0.0
        return np.asarray(values)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of one moment."""
        return float(np.sqrt(self.covariance[0, 0]))

    def sf(self, statistic: float) -> float:
        """P(statistic at least this large) at the least favourable point of the null."""
        if np.isnan(statistic):
            return float("nan")
        if statistic <= 0:
            return 1.0
        if self.null.equality and np.isfinite(self.df):
            return JointLaw(self.weights, self.df + 1.0).tail(statistic)
        if self.null.equality:
            return float(weighted_chi2_sf(statistic, self.weights))
        if self.simulated:
            exceeding = (self._maxima >= statistic).sum(axis=1)
            return float(pvalue(int(exceeding.max()), self._maxima.shape[1]))
        return self._one_moment(np.sqrt(2 * float(self.curvature[0, 0]) * statistic) / self.scale)

    def isf(self, alpha: float) -> float:
        """The critical value: the statistic with p-value ``alpha``."""
        if self.null.equality and np.isfinite(self.df):
            return JointLaw(self.weights, self.df + 1.0).critical(alpha)
        if self.null.equality:
            return float(weighted_chi2_isf(alpha, self.weights))
        if self.simulated:
            return float(np.quantile(self._maxima, 1 - alpha, axis=1).max())
        # Between the one-sided and the two-sided quantile; both are 0 from alpha = 1/2 on.
        low, high = float(t_isf(min(alpha, 0.5), self.df)), float(t_isf(alpha / 2, self.df))
        enough = self._one_moment(low) <= alpha
        a = low if enough else root(lambda z: self._one_moment(z) - alpha, low, high).x
        return (a * self.scale) ** 2 / (2 * float(self.curvature[0, 0]))

    def _one_moment(self, a: float) -> float:
        """P(at least this many standard deviations beyond a limit): beyond that one, and beyond the far one."""
        far = a + float(self.null.high[0] - self.null.low[0]) / self.scale
        return float(t_sf(a, self.df) + t_sf(far, self.df))

    @cached_property
    def _maxima(self) -> FloatArray:
        """Simulated statistics, (vertices, draws). The acceptance region is convex: a vertex is least favourable."""
        if self.normals is None:
            raise ValueError("normals: a simulated law needs draws")
        moments = self.normals @ _root(self.covariance).T

        def maxima(draws: FloatArray, vertex: Null) -> FloatArray:
            return maximum(draws, self.curvature, vertex, precision=ROUGH)

        vertices = self._vertices()
        if len(vertices) > FINALISTS:
            # Vertices that a few draws tell apart are no match for the worst; those they do not are as bad as it.
            high = [float(np.quantile(maxima(moments[:SCREENED], vertex), TAIL)) for vertex in vertices]
            vertices = [vertices[i] for i in np.argsort(high)[-FINALISTS:]]
        return np.stack([maxima(moments, vertex) for vertex in vertices])

    def _vertices(self) -> list[Null]:
        """The null as it looks from each of its vertices, where the moment's mean then lies."""
        width = self.null.high - self.null.low
        below, above = np.isfinite(self.null.low), np.isfinite(self.null.high)
        ends = [(True, False) if two else (bool(a),) for two, a in zip(self.null.two_sided, above, strict=True)]
        if (below & above).all():  # a vertex and its mirror image have the same law
            first = next(j for j, end in enumerate(ends) if len(end) == 2)
            ends[first] = (True,)
        corners = [np.array(at) for at in product(*ends)]
        return [Null(np.where(at, -width, 0.0), np.where(at, 0.0, width)) for at in corners]


def simulated(null: Null) -> bool:
    """Whether the law of a null has no closed form."""
    return not null.equality and null.low.size > 1


def maximum(moments: FloatArray, curvature: FloatArray, null: Null, *, precision: float = PRECISION) -> FloatArray:
    """m(W) for each row W of ``moments``, by coordinate ascent over all rows at once."""
    result = np.zeros(len(moments))
    active = np.arange(len(moments))
    w = np.ascontiguousarray(moments.T)  # one moment per line: every step below runs along memory
    gamma, residual, best = np.zeros_like(w), w.copy(), np.zeros(len(moments))
    low, high = null.low, null.high
    for _ in range(SWEEPS):
        for j in range(low.size):
            pull = residual[j] + gamma[j] * curvature[j, j]
            step = (pull - np.clip(pull, low[j], high[j])) / curvature[j, j] - gamma[j]
            gamma[j] += step
            for i in range(low.size):
                residual[i] -= curvature[i, j] * step
        # gamma'W - gamma'S gamma / 2, with W - S gamma = residual.
        value = (gamma * (w + residual)).sum(axis=0) / 2
        for j in range(low.size):
            above, below = np.maximum(gamma[j], 0.0), np.minimum(gamma[j], 0.0)
            value -= (above * high[j] if np.isfinite(high[j]) else 0.0) + (below * low[j] if np.isfinite(low[j]) else 0)
        done = value - best <= precision * value
        result[active] = value
        if done.all():
            break
        # Rows are taken out in bulk: copying the rest at every sweep would cost more than it saves.
        if done.mean() > 0.3:
            active = active[~done]
            w, gamma, residual, value = (x[..., ~done] for x in (w, gamma, residual, value))
        best = value
    return result


def observed(moment: FloatArray, covariance: FloatArray, null: Null) -> float:
    """The Wald statistic, halved, of sqrt(N) times the moment: m(W) with the covariance as curvature."""
    if null.equality:
        return float(moment @ np.linalg.solve(covariance, moment)) / 2
    return float(maximum(moment[None, :], covariance, null)[0])


def positive_definite(matrix: FloatArray) -> bool:
    """True when no direction is (numerically) without variance or curvature, whatever the units of the rows."""
    scale = np.sqrt(np.diag(matrix))
    if not (np.isfinite(matrix).all() and (scale > 0).all()):
        return False
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] > 1e-12)


def _root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))
