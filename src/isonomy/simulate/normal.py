"""Normal probabilities in closed form, from which most truths follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr as cdf
from scipy.special import ndtri as quantile

from isonomy.numerics.arrays import FloatArray

__all__ = ["both_above", "cdf", "quantile"]


def both_above(a: ArrayLike, b: ArrayLike, correlation: ArrayLike) -> FloatArray:
    """P(X > a, Y > b) for standard normals with the given correlation, to about 1e-14 for |correlation| <= 0.99.

    Plackett's identity: the product of the tails plus an integral over the angle arcsin(correlation), by
    200-point Gauss-Legendre.

    >>> round(float(both_above(0.0, 0.0, 0.5)), 12)  # 1/4 + arcsin(1/2) / (2 pi) = 1/3
    0.333333333333
    """
    a, b, r = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (a, b, correlation)))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = np.arcsin(r)[..., None]
    angle = 0.5 * end * (nodes + 1)
    h, k = a[..., None], b[..., None]
    exponent = -(h * h + k * k - 2 * h * k * np.sin(angle)) / (2 * np.cos(angle) ** 2)
    extra = (np.exp(exponent) * weights).sum(-1) * 0.5 * end[..., 0] / (2 * np.pi)
    return np.asarray(cdf(-a) * cdf(-b) + extra)
