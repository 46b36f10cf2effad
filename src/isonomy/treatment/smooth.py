"""Smooth functions of arm means, carried with their gradient, so that each formula is written once.

Every estimator of this method is a smooth function of a few means within the two arms of each group. A `Smooth`
holds its value and its derivative with respect to those means; sums, products and quotients follow the rules of
calculus. The derivative is the influence function: a row of arm ``a`` moves the estimate by
``gradient[a] @ (row - mean[a]) / n[a]``. Where only values are wanted (the bootstrap) there is no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import FloatArray


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
