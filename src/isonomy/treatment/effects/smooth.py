"""Smooth functions of arm means, carried with their gradient, so that each formula is written once.

Every estimator of this method is a smooth function of a few means within the two arms of each group. A `Smooth`
holds its value and its derivative with respect to those means; sums, products and quotients follow the rules of
calculus. The derivative is the influence function: a row of arm ``a`` moves the estimate by
``gradient[a] @ (row - mean[a]) / n[a]``. Where only values are wanted (the bootstrap) there is no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.moments import CONTROL, TREATED, Moments


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """A value for each group (shape ``(..., G)``) and its gradient (shape ``(..., G, 2, k)``), or None."""

    value: FloatArray
    gradient: FloatArray | None

    def __add__(self, other: Smooth) -> Smooth:
        return Smooth(self.value + other.value, _sum(self.gradient, other.gradient))

    def __sub__(self, other: Smooth) -> Smooth:
        return self + other * -1.0

    def __mul__(self, other: Smooth | FloatArray | float) -> Smooth:
        if not isinstance(other, Smooth):
            return Smooth(self.value * other, _scale(other, self.gradient))
        gradient = _sum(_scale(other.value, self.gradient), _scale(self.value, other.gradient))
        return Smooth(self.value * other.value, gradient)

    def __truediv__(self, other: Smooth) -> Smooth:
        ratio = self.value / other.value
        gradient = _sum(self.gradient, _scale(-ratio, other.gradient))
        return Smooth(ratio, _scale(1 / other.value, gradient))


def _sum(left: FloatArray | None, right: FloatArray | None) -> FloatArray | None:
    return None if left is None or right is None else left + right


def _scale(factor: FloatArray | float, gradient: FloatArray | None) -> FloatArray | None:
    return None if gradient is None else np.asarray(factor, dtype=float)[..., None, None] * gradient


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """The means of `Moments` as ingredients of formulas, with gradients or without.

    ``slopes`` adjusts a mean for the chance imbalance of covariates between the arms: mean + slope @ (overall - arm).
    Keys are (arm, column), values coefficients on all columns, shape ``(G, k)``. Adjusting by a slope that was itself
    estimated costs nothing to first order (Lin 2013).
    """

    moments: Moments
    slopes: Mapping[tuple[int, str], FloatArray]
    gradients: bool = True

    def control(self, name: str) -> Smooth:
        """Mean of a column among the control rows."""
        return self._mean(CONTROL, name)

    def treated(self, name: str) -> Smooth:
        """Mean of a column among the treated rows."""
        return self._mean(TREATED, name)

    def overall(self, name: str) -> Smooth:
        """Mean of a column over both arms."""
        share = self._share()
        value = (share * self.moments.mean[..., self._index(name)]).sum(-1)
        return Smooth(value, share[..., None] * self._unit(name) if self.gradients else None)

    def constant(self, value: float) -> Smooth:
        """A known number."""
        flat = np.zeros(self.moments.mean.shape) if self.gradients else None
        return Smooth(np.full(self.moments.n.shape[:-1], value), flat)

    def _mean(self, arm: int, name: str) -> Smooth:
        mean, slope, share = self.moments.mean, self.slopes.get((arm, name)), self._share()[..., None]
        value = mean[..., arm, self._index(name)]
        if slope is not None:
            value = value + (slope * ((share * mean).sum(-2) - mean[..., arm, :])).sum(-1)
        if not self.gradients:
            return Smooth(value, None)
        gradient = np.zeros(mean.shape)
        gradient[..., arm, :] = self._unit(name)
        if slope is not None:
            gradient += share * slope[..., None, :]
            gradient[..., arm, :] -= slope
        return Smooth(value, gradient)

    def _share(self) -> FloatArray:
        n = self.moments.n
        return n / np.maximum(n.sum(-1, keepdims=True), 1.0)

    def _index(self, name: str) -> int:
        return self.moments.columns.index(name)

    def _unit(self, name: str) -> FloatArray:
        unit = np.zeros(len(self.moments.columns))
        unit[self._index(name)] = 1.0
        return unit
