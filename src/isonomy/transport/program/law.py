"""What chance alone would do: the law of the projection statistic under each null.

By Theorem 1 the statistic s tends to the maximum over gamma of gamma'V - gamma'S gamma / 2 with V ~ N(0, Sigma):
Sigma is the covariance of the moment, S the curvature, a density at the decision boundary. One function covers
every null,

    m(W) = max over gamma of  gamma'W - slack'|gamma| - gamma'S gamma / 2,   gamma free, or >= 0 when one-sided,

and the Wald test of the same moment is the case S = Sigma.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.resampling import pvalue
from isonomy.numerics.roots import root
from isonomy.numerics.tails import normal_isf, normal_sf, weighted_chi2_isf, weighted_chi2_sf

Side = Literal["equality", "both", "upper"]

DRAWS = 50_000  # p-values of the simulated laws are exact to 0.002 (two standard errors at 0.05)
SWEEPS = 10_000  # coordinate ascent; a few dozen suffice unless the curvature is nearly singular
PRECISION = 1e-12  # relative change of the maximum at which the sweeps stop
ROUGH = 1e-6  # the same for draws, where simulation error is far larger


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Which differences belong to the null: none, or up to ``tolerance`` on the given side."""

    side: Side
    tolerance: float
    sign: float = 1.0  # -1: the tolerance is below the reference

    def bounds(self, size: int, rows: float) -> tuple[FloatArray, FloatArray]:
        """Least and largest total moment allowed."""
        high = np.full(size, rows * self.tolerance)
        return (np.full(size, -np.inf) if self.side == "upper" else -high), high


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the statistic at the least favourable point of the null."""

    covariance: FloatArray  # Sigma, (m, m): of sqrt(N) times the moment
    curvature: FloatArray  # S, (m, m), positive definite
    slack: FloatArray  # (m,): sqrt(N) times the tolerance; ignored for the equality null
    side: Side  # "equality", "both" (within the tolerance either way) or "upper" (at most the tolerance)
    normals: FloatArray | None = None  # (draws, m) standard normal draws, where there is no closed form

    @property
    def simulated(self) -> bool:
        """True where there is no closed form: a tolerance null with more than one moment."""
        return self.side != "equality" and self.slack.size > 1

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
        if self.side == "equality":
            return float(weighted_chi2_sf(statistic, self.weights))
        if self.simulated:
            exceeding = (self._maxima >= statistic).sum(axis=1)
            return float(pvalue(int(exceeding.max()), self._maxima.shape[1]))
        return self._one_moment(np.sqrt(2 * float(self.curvature[0, 0]) * statistic) / self.scale)

    def isf(self, alpha: float) -> float:
        """The critical value: the statistic with p-value ``alpha``."""
        if self.side == "equality":
            return float(weighted_chi2_isf(alpha, self.weights))
        if self.simulated:
            return float(np.quantile(self._maxima, 1 - alpha, axis=1).max())
        # Between the one-sided and the two-sided normal quantile; both are 0 from alpha = 1/2 on.
        low, high = float(normal_isf(min(alpha, 0.5), sides="one")), float(normal_isf(alpha))
        enough = self._one_moment(low) <= alpha
        a = low if enough else root(lambda z: self._one_moment(z) - alpha, low, high).x
        return (a * self.scale) ** 2 / (2 * float(self.curvature[0, 0]))

    def _one_moment(self, a: float) -> float:
        """P(at least this many standard deviations beyond the tolerance): on its own side, and on the far one."""
        near = float(normal_sf(a, sides="one"))
        if self.side == "upper":
            return near
        return near + float(normal_sf(a + 2 * float(self.slack[0]) / self.scale, sides="one"))

    @cached_property
    def _maxima(self) -> FloatArray:
        """Simulated statistics, (vertices, draws). The acceptance region is convex: a vertex is least favourable."""
        if self.normals is None:
            raise ValueError("normals: a simulated law needs draws")
        moments = self.normals @ _root(self.covariance).T
        if self.side == "upper":
            # At the vertex W = V + slack: the slack and the shift cancel.
            return maximum(moments, self.curvature, np.zeros_like(self.slack), one_sided=True, precision=ROUGH)[None]
        # A vertex and its mirror image have the same law.
        signs = [(1.0, *rest) for rest in product((1.0, -1.0), repeat=self.slack.size - 1)]
        return np.stack(
            [maximum(moments + np.array(s) * self.slack, self.curvature, self.slack, precision=ROUGH) for s in signs]
        )


def maximum(
    moments: FloatArray,
    curvature: FloatArray,
    slack: FloatArray,
    *,
    one_sided: bool = False,
    precision: float = PRECISION,
) -> FloatArray:
    """m(W) for each row W of ``moments``, by coordinate ascent over all rows at once."""
    result = np.zeros(len(moments))
    active = np.arange(len(moments))
    w = np.ascontiguousarray(moments.T)  # one moment per line: every step below runs along memory
    gamma, residual, best = np.zeros_like(w), w.copy(), np.zeros(len(moments))
    for _ in range(SWEEPS):
        for j in range(slack.size):
            pull = residual[j] + gamma[j] * curvature[j, j]
            pull -= slack[j] if one_sided else np.clip(pull, -slack[j], slack[j])
            step = (np.maximum(pull, 0.0) if one_sided else pull) / curvature[j, j] - gamma[j]
            gamma[j] += step
            for i in range(slack.size):
                residual[i] -= curvature[i, j] * step
        # gamma'W - gamma'S gamma / 2, with W - S gamma = residual.
        value = (gamma * (w + residual)).sum(axis=0) / 2 - slack @ np.abs(gamma)
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


def observed(moment: FloatArray, covariance: FloatArray, slack: FloatArray, side: Side) -> float:
    """The Wald statistic, halved, of sqrt(N) times the moment: m(W) with the covariance as curvature."""
    if side == "equality":
        return float(moment @ np.linalg.solve(covariance, moment)) / 2
    return float(maximum(moment[None, :], covariance, slack, one_sided=side == "upper")[0])


def positive_definite(matrix: FloatArray, tolerance: float = 1e-12) -> bool:
    """True when no direction is (numerically) without variance or curvature, whatever the units of the rows."""
    scale = np.sqrt(np.diag(matrix))
    if not (np.isfinite(matrix).all() and (scale > 0).all()):
        return False
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] > tolerance)


def _root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))
