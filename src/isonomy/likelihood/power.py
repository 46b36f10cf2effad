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
from numbers import Real
from typing import Literal

from isonomy.errors import UsageError, choose, fraction
from isonomy.likelihood.hypotheses import whole
from isonomy.numerics.roots import root
from isonomy.numerics.tails import normal_isf, normal_sf

KINDS = ("known", "group", "population")
SIDES = ("two-sided", "greater", "less")
# The square root of more rows than a float can count one by one.
MOST = 2.0**26.5


@dataclass(frozen=True, slots=True)
class _Design:
    """A planned comparison; per-row variances, or rates from which they follow."""

    reference: str
    rate: float | None
    variance: float | None
    reference_variance: float | None
    alpha: float
    power: float
    alternative: str
    tests: int

    def __post_init__(self) -> None:
        choose("reference", self.reference, KINDS)
        choose("alternative", self.alternative, SIDES)
        fraction("alpha", self.alpha)
        fraction("power", self.power)
        whole("tests", self.tests)
        if self.power <= self.alpha / self.tests:
            raise UsageError(
                f"power: {self.power!r} is not allowed; give more than the level, {self.alpha / self.tests:g}, which a "
                "test has without any disparity."
            )
        if (self.rate is None) == (self.variance is None):
            raise UsageError(
                "rate, variance: give one of them: the reference's rate, or the metric's variance in the group."
            )
        if self.rate is not None:
            fraction("rate", self.rate)
        for name, value in (("variance", self.variance), ("reference_variance", self.reference_variance)):
            if value is not None:
                positive(name, value)
        if self.reference_variance is not None and (self.rate is not None or self.reference == "known"):
            raise UsageError(
                "reference_variance: leave it out; a rate has its own variance, and a known reference has none."
            )

    @property
    def sign(self) -> float:
        return -1.0 if self.alternative == "less" else 1.0

    @property
    def quantiles(self) -> float:
        """z of the level, Bonferroni over ``tests``, plus z of the power."""
        sides: Literal["two", "one"] = "two" if self.alternative == "two-sided" else "one"
        return float(normal_isf(self.alpha / self.tests, sides=sides)) + float(
            normal_isf(1.0 - self.power, sides="one")
        )

    def share(self, n: float, other: float) -> float:
        """The group's share of the population; 0 for other references."""
        return n / (n + other) if self.reference == "population" else 0.0

    def outside(self, disparity: float, n: float, other: float) -> float:
        """The rate of the rows outside the group when the population keeps its own."""
        assert self.rate is not None
        share = self.share(n, other)
        return self.rate - disparity * share / (1.0 - share)

    def standard_error(self, disparity: float, n: float, other: float) -> float:
        """For a group of ``n`` rows, ``other`` rows in the reference (or outside the group, for the population)."""
        share = self.share(n, other)
        gap = disparity / (1.0 - share)
        if self.rate is not None:
            # The reference keeps its rate; the group's is the disparity away from it.
            mine, theirs = (p * (1.0 - p) for p in (self.rate + disparity, self.outside(disparity, n, other)))
        else:
            assert self.variance is not None
            mine, theirs = self.variance, self.reference_variance or self.variance
        if self.reference == "known":
            return math.sqrt(max(mine, 0.0) / n)
        squared = (1.0 - share) ** 2 * (max(mine, 0.0) / n + max(theirs, 0.0) / other)
        return math.sqrt(squared + gap**2 * share * (1.0 - share) / (n + other))

    def largest(self, n: float, other: float) -> float:
        """The largest disparity that leaves the group, and the rows outside it, a rate in the direction asked about."""
        if self.rate is None:
            return math.inf
        down, up = self.rate, 1.0 - self.rate
        mine, theirs = (down, up) if self.alternative == "less" else (up, down)
        share = self.share(n, other)
        return min(mine, theirs * (1.0 - share) / share) if share else mine


def detectable_disparity(
    n: float,
    *,
    reference: str = "population",
    reference_n: float | None = None,
    rate: float | None = None,
    variance: float | None = None,
    reference_variance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: str = "two-sided",
    tests: int = 1,
) -> float:
    """What is the smallest disparity that a group of ``n`` rows would show with the given power?

    Parameters
    ----------
    n, reference_n
        Rows in the group; rows in the reference group, or outside the group when the reference is the population.
    reference
        ``"known"``, ``"group"`` (a named group, or the rest) or ``"population"``.
    rate, variance, reference_variance
        The reference's rate for a 0/1 metric; for any other the metric's variance in the group (and, if it differs, in
        the reference).
    alternative
        ``"two-sided"`` and ``"greater"`` give a positive disparity, ``"less"`` a negative one.
    tests
        Groups tested at once: the level is alpha / tests.

    Returns the disparity; infinite if even the largest possible one would not be found that often. Large-sample
    theory: too optimistic for a few dozen rows. Corollary 2 of the paper for a known reference.

    Examples
    --------
    >>> round(detectable_disparity(500, reference="group", reference_n=2000, rate=0.3), 4)
    0.0669
    """
    design = _Design(reference, rate, variance, reference_variance, alpha, power, alternative, tests)
    other = _others(design, n, reference_n)

    def short(size: float) -> float:
        return size - design.quantiles * design.standard_error(design.sign * size, n, other)

    limit = design.largest(n, other)
    start = design.quantiles * design.standard_error(0.0, n, other)
    high = min(limit, 100.0 * start) if math.isfinite(limit) else 100.0 * start
    if short(high) < 0:
        return design.sign * math.inf
    return design.sign * root(short, 0.0, high).x


def rows_needed(
    disparity: float,
    *,
    reference: str = "population",
    ratio: float | None = None,
    rate: float | None = None,
    variance: float | None = None,
    reference_variance: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: str = "two-sided",
    tests: int = 1,
) -> int:
    """How many rows must a group have to show a disparity of this size with the given power?

    ``ratio`` is how many rows the reference group (or the part of the population outside the group) has for each
    row of the group, 1 by default; a known reference has none. The other parameters are those of
    `detectable_disparity`.

    Examples
    --------
    >>> rows_needed(0.05, reference="group", ratio=4, rate=0.3)
    880
    """
    design = _Design(reference, rate, variance, reference_variance, alpha, power, alternative, tests)
    size = abs(_finite("disparity", disparity))
    if size == 0:
        raise UsageError(f"disparity: {disparity!r} is not allowed; give a finite number other than 0.")
    if disparity * design.sign < 0 and alternative != "two-sided":
        raise UsageError(f"disparity: {disparity!r} lies on the side that alternative={alternative!r} does not test.")
    if rate is not None and not 0 <= rate + disparity <= 1:
        raise UsageError(f"disparity: {disparity!r} from a rate of {rate!r} is no rate.")
    if ratio is not None and reference == "known":
        raise UsageError("ratio: leave it out; a known reference has no rows.")
    ratio = 1.0 if ratio is None else positive("ratio", ratio)
    if rate is not None and not 0 <= (outside := design.outside(disparity, 1.0, ratio)) <= 1:
        raise UsageError(
            f"disparity: {disparity!r} is not possible at ratio={ratio:g}: rows outside the group would need a rate "
            f"of {outside:.3g} for the population to have {rate:g}."
        )
    # Every term of the squared standard error falls as 1/n at a fixed ratio.
    root = design.quantiles * design.standard_error(disparity, 1.0, ratio) / size
    if root >= MOST:
        raise UsageError(f"disparity: {disparity!r} is not allowed; no number of rows shows one so small.")
    return max(2, math.ceil(root**2 - 1e-9))


def power_of(disparity: float, standard_error: float, *, alpha: float = 0.05, alternative: str = "two-sided") -> float:
    """How often would a disparity of this size be found, at this standard error?

    Examples
    --------
    >>> round(power_of(0.05, 0.02), 3)
    0.705
    """
    choose("alternative", alternative, SIDES)
    fraction("alpha", alpha)
    shift = _finite("disparity", disparity) / positive("standard_error", standard_error)
    if alternative == "two-sided":
        z = float(normal_isf(alpha))
        return float(normal_sf(z - shift, sides="one") + normal_sf(z + shift, sides="one"))
    signed = shift if alternative == "greater" else -shift
    return float(normal_sf(float(normal_isf(alpha, sides="one")) - signed, sides="one"))


def _others(design: _Design, n: float, reference_n: float | None) -> float:
    positive("n", n)
    if design.reference == "known":
        if reference_n is not None:
            raise UsageError("reference_n: leave it out; a known reference has no rows.")
        return 1.0
    if reference_n is None:
        what = "the reference group" if design.reference == "group" else "the population outside the group"
        raise UsageError(f"reference_n: give the number of rows in {what}.")
    return positive("reference_n", reference_n)


def positive(argument: str, seen: object) -> float:
    """Return ``seen`` if it is a finite number above 0, otherwise raise `UsageError`."""
    number = float(seen) if isinstance(seen, Real) and not isinstance(seen, bool) else math.nan
    if not 0 < number < math.inf:
        raise UsageError(f"{argument}: {seen!r} is not allowed; give a finite number above 0.")
    return number


def _finite(argument: str, seen: object) -> float:
    number = float(seen) if isinstance(seen, Real) and not isinstance(seen, bool) else math.nan
    if not math.isfinite(number):
        raise UsageError(f"{argument}: {seen!r} is not allowed; give a finite number.")
    return number
