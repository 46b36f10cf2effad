"""A difference that is level or changes steadily with the score: two sums of a walk's steps, judged together.

The largest difference at one score and the range of a walk are weak against curves that cross; a line sees those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from isonomy.calibration.smoothing.walks import Walk
from isonomy.numerics.arrays import FloatArray

_DIRECTIONS = 180  # half a turn, where a tolerance makes the largest over directions no closed form


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """The steps of a walk summed along directions in the plane of a level and a line, each with a variance of 1."""

    walk: Walk
    basis: FloatArray  # (C, 2), or fewer: what each step adds to uncorrelated numbers with a variance of 1

    @classmethod
    def of(cls, walk: Walk, covariance: FloatArray) -> Trend:
        """``covariance``: of the walk's steps. Where all rows have one score there is no line."""
        place = np.arange(walk.step.size) / walk.step.size
        centre = walk.allowed @ place / max(float(walk.allowed.sum()), np.finfo(float).tiny)
        lines = np.column_stack([np.ones(place.size), place - centre])
        variance = lines.T @ covariance @ lines
        scale = np.sqrt(np.maximum(np.diagonal(variance), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(variance / scale[:, None] / scale[None, :])
        held = values > 1e-8
        return cls(walk, lines / scale @ (vectors[:, held] / np.sqrt(values[held])))

    def statistic(self, tolerance: float | None) -> float:
        """The largest of the sums along all directions, beyond what the tolerance allows."""
        if tolerance is None or not self.basis.size:
            return float(np.linalg.norm(self.walk.step @ self.basis))
        angle = np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        turns = np.stack([np.cos(angle), np.sin(angle)]) if self.basis.shape[1] == 2 else np.ones((1, 1))
        along = self.basis @ turns
        beyond = np.abs(self.walk.step @ along) - tolerance * (self.walk.allowed @ np.abs(along))
        return max(float(beyond.max()), 0.0)

    def pvalue(self, statistic: float) -> float:
        """By Hotelling's law, with the walk's degrees of freedom."""
        rank, freedom = self.basis.shape[1], max(self.walk.freedom, 3.0)
        if not rank:
            return 1.0
        left = freedom - rank + 1
        if not np.isfinite(freedom):
            return float(special.chdtrc(rank, statistic**2))
        return float(special.fdtrc(rank, left, statistic**2 * left / (freedom * rank)))

    def drawn(self, steps: FloatArray) -> FloatArray:
        """P-values of draws (draws, C) from the law of the steps."""
        if not self.basis.size:
            return np.ones(len(steps))
        return np.asarray(special.chdtrc(self.basis.shape[1], np.sum((steps @ self.basis) ** 2, axis=1)))
