"""The p-values of all groups together when no group differs: what their known covariance says of a family of tests."""

from __future__ import annotations

import numpy as np

from isonomy.inference.simultaneous import normal_draws
from isonomy.likelihood.ratio.disparity import Hypothesis
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import normal_sf

# Draws of all disparities together, and the most numbers drawn.
DRAWS, NUMBERS = 10_000, 20_000_000


def null_pvalues(
    covariance: FloatArray, hypothesis: Hypothesis, width: FloatArray, sign: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """P-values (draws x groups) where every disparity is at its null.

    An interval null is ``width`` standard errors wide, and each disparity at the end that ``sign`` points to.
    """
    deviation = np.sqrt(np.diagonal(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.nan_to_num(covariance / np.outer(deviation, deviation))
    np.fill_diagonal(correlation, 1.0)
    draws = normal_draws(correlation, max(min(DRAWS, NUMBERS // max(width.size, 1)), 1_000), rng)
    if hypothesis.alternative == "two-sided":
        return np.asarray(normal_sf(np.abs(draws)))
    if hypothesis.alternative in ("greater", "less"):
        beyond = draws if hypothesis.alternative == "greater" else -draws
        return np.where(beyond > 0, normal_sf(beyond, sides="one"), 1.0)
    outward = draws * sign
    near, far = (np.asarray(normal_sf(np.abs(root))) for root in (outward, outward + width))
    inside = (outward <= 0) & (outward >= -width)
    tail = 0.5 * (near + far)
    if hypothesis.alternative == "outside-published":
        tail = np.where(outward > 0, 0.5 * near, 0.5 * far)
    return np.asarray(np.where(inside, 1.0, tail))
