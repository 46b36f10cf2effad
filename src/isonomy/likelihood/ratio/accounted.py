"""How much of a disparity strata account for: the unconditional one beside the one within strata."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.likelihood.ratio.strata import Scale, Strata
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import fieller

# The least part of its variance that correcting for the error of strata's means may leave of what they account for. By
# simulation intervals hold at least the nominal share of tables on either side of it.
DEGENERATE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Accounted:
    """How much of each group's disparity the strata account for: what is left of the unconditional one is the other.

    ``value`` is the unconditional difference less the conditional one (for ratios, the one over the other), with a
    standard error of that difference (of its logarithm); ``share`` is its share of the unconditional difference (of
    the logarithms), with an interval that has no ends where the unconditional disparity could be none.
    """

    unconditional: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    share: FloatArray
    share_low: FloatArray
    share_high: FloatArray


def accounted(strata: Strata, scale: Scale, critical: npt.ArrayLike, covariance: FloatArray | None = None) -> Accounted:
    """The unconditional disparities beside the conditional ones; both come from the same rows.

    ``critical`` is the square of the number of standard errors to either side. ``covariance`` (2 x 2 x groups) is that
    of the conditional and the unconditional disparity where rows are not independent.
    """
    merged = strata.merged
    conditional, unconditional = strata.estimate(scale), merged.estimate(scale)
    with np.errstate(all="ignore"):
        own, other = (
            (conditional, unconditional) if scale == "difference" else (np.log(conditional), np.log(unconditional))
        )
        if covariance is None:
            v_gap, both, v_out = _gap_covariance(strata, merged, scale)
        else:
            v_gap = np.maximum(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1], 0.0)
            both, v_out = covariance[1, 1] - covariance[0, 1], covariance[1, 1]
        squares = np.asarray(critical, dtype=float)
        gap, reach = other - own, np.sqrt(squares * v_gap)
        ends = gap - reach, gap + reach
        value, low, high = (gap, *ends) if scale == "difference" else (np.exp(gap), np.exp(ends[0]), np.exp(ends[1]))
        return Accounted(
            unconditional, value, low, high, gap / other, *fieller(gap, other, v_gap, v_out, both, squares)
        )


def _gap_covariance(strata: Strata, merged: Strata, scale: Scale) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The variance of the unconditional disparity less the conditional one, its covariance with the former, and that's.

    Where strata hardly matter the two are nearly one estimate. What the means of strata add to their difference by
    their own error is then most of its variance, and taking it out would leave nothing or less: it stays in.
    """
    outer = merged.gradient(scale)
    spread, near = outer[:, strata.group], strata.levels(scale)
    far = np.stack([spread[0], 0.0 * spread[0], 0.0 * spread[0], spread[2]])
    gap, apart = spread - strata.gradient(scale), far - near
    beside = _elsewhere(strata, outer)
    corrected = strata.covariance(gap, gap, (apart, apart)) + beside
    plain = strata.covariance(gap, gap) + beside
    v_out = strata.covariance(spread, spread, (far, far)) + beside
    whole = corrected > DEGENERATE * plain
    both = np.where(whole, strata.covariance(gap, spread, (apart, far)), strata.covariance(gap, spread)) + beside
    return np.where(whole, corrected, plain), both, v_out


def _elsewhere(strata: Strata, outer: FloatArray) -> FloatArray:
    """What rows in strata without anybody of the group add to the variance of the unconditional disparity."""
    n, total, square = strata.elsewhere
    level = outer[2] * strata.centre + outer[3]
    return outer[2] ** 2 * square + 2.0 * outer[2] * level * (total - n * strata.centre) + level**2 * n
