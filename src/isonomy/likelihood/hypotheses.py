"""The four hypotheses about one disparity, their p-values and verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError, choose
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import chi2_isf, chi2_sf

ALTERNATIVES = ("two-sided", "greater", "less", "outside", "outside-published")
INTERVALS = ("pointwise", "simultaneous", "one-sided")


class Likelihood(Protocol):
    """What a hypothesis needs to know of some disparities: estimates, T at a value, the region where T is small."""

    @property
    def disparity(self) -> FloatArray:
        """The estimates."""

    @property
    def standard_error(self) -> FloatArray:
        """Their large-sample standard errors."""

    def statistic(self, disparity: npt.ArrayLike) -> FloatArray:
        """T for the hypothesis that each disparity is ``disparity``."""

    def interval(self, critical: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The disparities with T at most ``critical``."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The null hypothesis about each group's disparity ε.

    ``two-sided``  ε = low;  ``greater``  ε <= low, so that flagged groups are above it;  ``less``  ε >= low;
    ``outside``  low <= ε <= high, with p = ½ [P(χ²₁ > T(nearest end)) + P(χ²₁ > T(far end))] outside and 1 inside:
    the two-sided p when the ends meet, the one-sided p when they are far apart, and never too small in between.
    ``outside-published`` is the paper's p = ½ P(χ²₁ > T(nearest end)), whose size reaches twice alpha as the ends
    meet.
    """

    low: float
    high: float
    alternative: str

    def test(self, likelihood: Likelihood) -> tuple[FloatArray, FloatArray]:
        """T and the p-value of each disparity; T is 0 where the estimate lies inside a one-sided or interval null."""
        estimate = likelihood.disparity
        if self.alternative == "two-sided":
            statistic = likelihood.statistic(self.low)
            return statistic, chi2_sf(statistic, 1)
        if self.alternative in ("greater", "less"):
            beyond = estimate > self.low if self.alternative == "greater" else estimate < self.low
            statistic = np.where(beyond, likelihood.statistic(self.low), 0.0)
            return statistic, np.where(beyond, 0.5 * chi2_sf(statistic, 1), 1.0)
        inside = (estimate >= self.low) & (estimate <= self.high)
        above = estimate > self.high
        at_low, at_high = likelihood.statistic(self.low), likelihood.statistic(self.high)
        near, far = np.where(above, at_high, at_low), np.where(above, at_low, at_high)
        tail = 0.5 * chi2_sf(near, 1)
        if self.alternative == "outside":
            tail = tail + 0.5 * chi2_sf(far, 1)
        return np.where(inside, 0.0, near), np.where(inside, 1.0, tail)


def whole(argument: str, seen: object) -> None:
    """Refuse what is not a whole number from 1 up."""
    if isinstance(seen, bool) or not isinstance(seen, (int, np.integer)) or seen < 1:
        raise UsageError(f"{argument}: {seen!r} is not allowed; give a whole number from 1 up.")


def refuse_interval(kind: str, alternative: str) -> None:
    """Refuse kinds of interval that do not exist or do not fit the alternative."""
    choose("interval", kind, INTERVALS)
    if kind == "one-sided" and alternative not in ("greater", "less"):
        raise UsageError("interval: 'one-sided' needs alternative='greater' (a lower bound) or 'less' (an upper one).")


def hypothesis(null: object, alternative: str, tolerance: float | None) -> Hypothesis:
    """Check ``null``, ``alternative`` and ``tolerance`` together.

    A tolerance makes the null |ε| <= tolerance (or ε <= tolerance, ε >= -tolerance for a one-sided alternative).
    """
    choose("alternative", alternative, ALTERNATIVES)
    if tolerance is not None:
        if not (_is_number(tolerance) and 0 < tolerance < np.inf):
            raise UsageError(f"tolerance: {tolerance!r} is not allowed; give a number above 0.")
        if not (_is_number(null) and null == 0):
            raise UsageError("null: leave it at 0 when tolerance is given; the tolerance sets the null.")
        if alternative == "greater":
            return Hypothesis(tolerance, tolerance, "greater")
        if alternative == "less":
            return Hypothesis(-tolerance, -tolerance, "less")
        wide = "outside" if alternative == "two-sided" else alternative
        return Hypothesis(-tolerance, tolerance, wide)
    ends = null if isinstance(null, (tuple, list)) else (null, null)
    numbers = [e for e in ends if _is_number(e) and np.isfinite(float(e))]
    if len(ends) != 2 or len(numbers) != 2 or not float(ends[0]) <= float(ends[1]):
        raise UsageError(f"null: {null!r} is not allowed; give a finite number, or (low, high) with low <= high.")
    low, high = float(ends[0]), float(ends[1])
    if alternative.startswith("outside"):
        if not isinstance(null, (tuple, list)):
            raise UsageError(f"null: the alternative {alternative!r} needs (low, high), saw {null!r}.")
    elif low != high:
        raise UsageError(f"alternative: the null {null!r} is an interval; pass alternative='outside'.")
    return Hypothesis(low, high, alternative)


def _is_number(seen: object) -> bool:
    """True and False are numbers to Python, and here most likely an option in the wrong place."""
    return isinstance(seen, Real) and not isinstance(seen, bool)


def intervals(
    likelihood: Likelihood, kind: str, alternative: str, alpha: float, tests: int
) -> tuple[FloatArray, FloatArray]:
    """Interval ends of each disparity.

    Simultaneous intervals use Sidak's level, 1 - (1 - alpha)^(1/m): exact for independent groups, and by Sidak's
    inequality conservative for any dependence of (asymptotically) normal estimates. A one-sided bound faces the
    alternative.
    """
    if kind == "one-sided":
        low, high = likelihood.interval(chi2_isf(2.0 * alpha, 1)) if alpha < 0.5 else likelihood.interval(0.0)
        unlimited = np.full(low.shape, np.inf)
        return (low, unlimited) if alternative == "greater" else (-unlimited, high)
    level = -np.expm1(np.log1p(-alpha) / max(tests, 1)) if kind == "simultaneous" else alpha
    return likelihood.interval(chi2_isf(level, 1))
