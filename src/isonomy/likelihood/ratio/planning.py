"""Power: what disparity can n rows show, and how many rows does a disparity need?

Local power of the likelihood ratio: with standard error se, the disparity d is found against the null ε = 0 with
probability Φ(d/se - z) (+ Φ(-d/se - z) two-sided), z the normal quantile of the level. The standard error depends
on the reference:

known        se² = v_G/n_G (Corollary 2 of the paper)
group, rest  se² = v_G/n_G + v_R/n_R
population   se² = (1-P)² (v_G/n_G + v_C/n_C) + (m_G - m_C)² P(1-P)/n, with C the n_C rows outside the group, P the
             group's share and n = n_G + n_C

For a rate p the variance is p(1-p), and moves with the disparity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.inference.decide import Alternative
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.numerics.tails import normal_isf, normal_sf

Known = Literal["known", "group", "population"]
# The square root of more rows than a float can count one by one.
MOST = 2.0**26.5


def power(disparity: float, standard_error: float, alpha: float, alternative: Alternative) -> float:
    """How often a disparity is found."""
    shift = disparity / standard_error
    if alternative == "two-sided":
        z = float(normal_isf(alpha))
        return float(normal_sf(z - shift, sides="one") + normal_sf(z + shift, sides="one"))
    signed = shift if alternative == "greater" else -shift
    return float(normal_sf(float(normal_isf(alpha, sides="one")) - signed, sides="one"))


def detectable(standard_error: FloatArray, tolerance: float, alpha: float, power: float) -> FloatArray:
    """The smallest disparity that would be shown, two-sided, to lie beyond ``tolerance``."""
    room = tolerance / standard_error
    # p = P(Z > x - room) + P(Z > x + room): between the one-sided and the two-sided law.
    low, high = room + float(normal_isf(alpha, sides="one")), room + float(normal_isf(alpha))
    for _ in range(50):
        middle = (low + high) / 2
        short = normal_sf(middle - room, sides="one") + normal_sf(middle + room, sides="one") > alpha
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray((high + float(normal_isf(1.0 - power, sides="one"))) * standard_error)


@dataclass(frozen=True, slots=True)
class Design:
    """A planned comparison; per-row variances, or rates from which they follow."""

    reference: Known
    rate: float | None
    variance: float | None
    reference_variance: float | None
    alpha: float
    power: float
    alternative: Alternative
    tests: int

    def __post_init__(self) -> None:
        if self.power <= self.alpha / self.tests:
            raise UsageError(
                f"power: {self.power!r} is not allowed; give more than the level, {self.alpha / self.tests:g}, which a "
                "test has without any disparity."
            )
        if (self.rate is None) == (self.variance is None):
            raise UsageError(
                "rate, variance: give one of them: the reference's rate, or the metric's variance in the group."
            )
        if self.reference_variance is not None and (self.rate is not None or self.reference == "known"):
            raise UsageError(
                "reference_variance: leave it out; a rate has its own variance, and a known reference has none."
            )

    @property
    def sign(self) -> float:
        """The direction of the disparity asked about."""
        return -1.0 if self.alternative == "less" else 1.0

    @property
    def quantiles(self) -> float:
        """z of the level, Bonferroni over ``tests``, plus z of the power."""
        sides: Literal["two", "one"] = "two" if self.alternative == "two-sided" else "one"
        level = float(normal_isf(self.alpha / self.tests, sides=sides))
        return level + float(normal_isf(1.0 - self.power, sides="one"))

    def detectable(self, n: float, reference_n: float | None) -> float:
        """The smallest disparity that ``n`` rows show; infinite if even the largest possible one is not found."""
        other = self._other(reference_n)

        def short(size: float) -> float:
            return size - self.quantiles * self.standard_error(self.sign * size, n, other)

        limit = self._largest(n, other)
        start = self.quantiles * self.standard_error(0.0, n, other)
        high = min(limit, 100.0 * start) if math.isfinite(limit) else 100.0 * start
        return self.sign * (math.inf if short(high) < 0 else root(short, 0.0, high).x)

    def rows(self, disparity: float, ratio: float | None) -> int:
        """The rows a group needs to show a disparity."""
        if disparity == 0:
            raise UsageError(f"disparity: {disparity!r} is not allowed; give a finite number other than 0.")
        if disparity * self.sign < 0 and self.alternative != "two-sided":
            raise UsageError(
                f"disparity: {disparity!r} lies on the side that alternative={self.alternative!r} does not test."
            )
        if self.rate is not None and not 0 <= self.rate + disparity <= 1:
            raise UsageError(f"disparity: {disparity!r} from a rate of {self.rate!r} is no rate.")
        if ratio is not None and self.reference == "known":
            raise UsageError("ratio: leave it out; a known reference has no rows.")
        other = 1.0 if ratio is None else float(ratio)
        if self.rate is not None and not 0 <= (outside := self._outside(disparity, 1.0, other)) <= 1:
            raise UsageError(
                f"disparity: {disparity!r} is not possible at ratio={other:g}: rows outside the group would need a "
                f"rate of {outside:.3g} for the population to have {self.rate:g}."
            )
        # Every term of the squared standard error falls as 1/n at a fixed ratio.
        root_n = self.quantiles * self.standard_error(disparity, 1.0, other) / abs(disparity)
        if root_n >= MOST:
            raise UsageError(f"disparity: {disparity!r} is not allowed; no number of rows shows one so small.")
        return max(2, math.ceil(root_n**2 - 1e-9))

    def standard_error(self, disparity: float, n: float, other: float) -> float:
        """For a group of ``n`` rows, ``other`` rows in the reference (or outside the group, for the population)."""
        share = self._share(n, other)
        if share >= 1:
            raise UsageError("reference_n, ratio: so few rows outside the group leave nobody to compare it with.")
        gap = disparity / (1.0 - share)
        if self.rate is not None:
            # The reference keeps its rate; the group's is the disparity away from it.
            mine, theirs = (p * (1.0 - p) for p in (self.rate + disparity, self._outside(disparity, n, other)))
        else:
            assert self.variance is not None
            mine, theirs = self.variance, self.reference_variance or self.variance
        if self.reference == "known":
            return math.sqrt(max(mine, 0.0) / n)
        squared = (1.0 - share) ** 2 * (max(mine, 0.0) / n + max(theirs, 0.0) / other)
        return math.sqrt(squared + gap**2 * share * (1.0 - share) / (n + other))

    def _share(self, n: float, other: float) -> float:
        """The group's share of the population; 0 for other references."""
        return n / (n + other) if self.reference == "population" else 0.0

    def _outside(self, disparity: float, n: float, other: float) -> float:
        """The rate of the rows outside the group when the population keeps its own."""
        assert self.rate is not None
        share = self._share(n, other)
        return self.rate - disparity * share / (1.0 - share)

    def _largest(self, n: float, other: float) -> float:
        """The largest disparity that leaves the group, and the rows outside it, a rate in the direction asked about."""
        if self.rate is None:
            return math.inf
        down, up = self.rate, 1.0 - self.rate
        mine, theirs = (down, up) if self.alternative == "less" else (up, down)
        share = self._share(n, other)
        return min(mine, theirs * (1.0 - share) / share) if share else mine

    def _other(self, reference_n: float | None) -> float:
        if self.reference == "known":
            if reference_n is not None:
                raise UsageError("reference_n: leave it out; a known reference has no rows.")
            return 1.0
        if reference_n is None:
            what = "the reference group" if self.reference == "group" else "the population outside the group"
            raise UsageError(f"reference_n: give the number of rows in {what}.")
        return reference_n
