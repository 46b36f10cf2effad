"""The p-values of all groups together when no group differs: what their known covariance says of a family of tests."""

from __future__ import annotations

import numpy as np

from isonomy.inference.simultaneous import normal_draws
from isonomy.likelihood.ratio.disparity import Hypothesis
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import normal_isf, normal_sf

# Draws of all disparities together, where p-values are adjusted by them and where a rate is only looked at (0.05 then
# has an error of 0.0034), and the most numbers drawn.
DRAWS, RATE_DRAWS, NUMBERS = 10_000, 4_000, 20_000_000


def null_pvalues(
    covariance: FloatArray,
    hypothesis: Hypothesis,
    width: FloatArray,
    sign: FloatArray,
    rng: np.random.Generator,
    *,
    most: float = 1.0,
    draws: int = DRAWS,
) -> FloatArray:
    """P-values (draws x groups) where every disparity is at its null; those above ``most`` may be given as 1.

    An interval null is ``width`` standard errors wide, and each disparity at the end that ``sign`` points to.
    """
    deviation = np.sqrt(np.diagonal(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.nan_to_num(covariance / np.outer(deviation, deviation))
    np.fill_diagonal(correlation, 1.0)
    normal = normal_draws(correlation, max(min(draws, NUMBERS // max(width.size, 1)), 1_000), rng)
    if hypothesis.alternative == "two-sided":
        away = np.abs(normal)
        far, pvalues = away >= (1.0 - 1e-9) * normal_isf(most), np.ones(normal.shape)
        pvalues[far] = normal_sf(away[far])
        return pvalues
    if hypothesis.alternative in ("greater", "less"):
        beyond = normal if hypothesis.alternative == "greater" else -normal
        return np.where(beyond > 0, normal_sf(beyond, sides="one"), 1.0)
    outward = normal * sign
    near, far = (np.asarray(normal_sf(np.abs(root))) for root in (outward, outward + width))
    inside = (outward <= 0) & (outward >= -width)
    tail = 0.5 * (near + far)
    if hypothesis.alternative == "outside-published":
        tail = np.where(outward > 0, 0.5 * near, 0.5 * far)
    return np.asarray(np.where(inside, 1.0, tail))
