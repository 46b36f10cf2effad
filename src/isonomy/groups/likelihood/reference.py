"""What groups are compared with: the kinds of reference, and the null hypothesis about the disparity, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Annotated, Literal

import numpy as np

from isonomy.errors import UnknownOption, UsageError, shown
from isonomy.frames import Group
from isonomy.groups.likelihood.disparity import Against, Hypothesis
from isonomy.groups.likelihood.links import Link
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Form, Number, check_fields

Uncertainty = Literal["joint", "plugin", "fixed"]
# One number for all groups, one each in order, or a mapping from group labels.
Disparities = float | Sequence[float] | FloatArray | Mapping[str, float]

# Standard errors by which the mean of influence values may differ from zero: one-step estimates leave smaller ones.
OFF_CENTRE = 0.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A reference the caller estimated: any asymptotically linear estimate (condition C6 of the paper).

    ``value`` is the estimate and ``influence`` names the column with each row's influence value, so that
    value - truth is the mean of the influence values up to smaller terms. The population mean, for
    example, has the influence values M - mean. They must come from the same rows as the audit.
    """

    value: float
    influence: str

    def __post_init__(self) -> None:
        check_fields(self)

    def refuse_uncentred(self, influence: FloatArray, mass: FloatArray) -> None:
        """Influence values average to zero at the estimate, or the likelihood would test another reference."""
        mean = float(np.average(influence, weights=mass))
        error = np.sqrt(float(np.average((influence - mean) ** 2, weights=mass)) / float(mass.sum()))
        if error == 0 and mean == 0:
            raise UsageError(
                f"reference: the influence values in {self.influence!r} are all 0; pass a reference without error as a "
                "number."
            )
        if abs(mean) > OFF_CENTRE * error:
            raise UsageError(
                f"reference: the influence values in {self.influence!r} must average to zero, but their mean is "
                f"{mean:.6g} with a standard error of {error:.3g}; take their mean from them, or check that they "
                f"belong to the estimate {self.value:g}."
            )


ReferenceLike = Annotated[str | float | Mapping[str, object] | Group | Estimate, Form("reference")]


class To(StrEnum):
    """The kinds of reference."""

    POPULATION = "population"
    REST = "rest"
    GROUP = "group"
    NUMBER = "number"
    ESTIMATE = "estimate"
    HIGHEST = "highest"
    LOWEST = "lowest"

    @property
    def is_value(self) -> bool:
        """Whether it is a value itself, and not people who have one."""
        return self in (To.NUMBER, To.ESTIMATE)

    @property
    def best(self) -> bool:
        """Whether it is one of the groups, the rows say which."""
        return self in (To.HIGHEST, To.LOWEST)


@dataclass(frozen=True, slots=True)
class Reference:
    """A checked reference: its kind, and the number, group or estimate it is; ``joint`` when its error counts."""

    to: To
    joint: bool
    number: float | None = None
    group: Group | None = None
    estimate: Estimate | None = None
    everybody: str = "the population"


def reference_of(reference: ReferenceLike, uncertainty: Uncertainty, *, binary: bool) -> Reference:
    """A checked reference, from any of the forms a caller may give."""
    joint = uncertainty == "joint"
    if isinstance(reference, Real) and not isinstance(reference, bool):
        # The default cannot be told from an explicit "joint": for a number both mean that there is no error to count.
        if uncertainty == "plugin":
            raise UsageError(
                "uncertainty: 'plugin' needs an estimated reference; for a number leave it out, or give 'fixed'."
            )
        return Reference(To.NUMBER, False, number=_number(reference, binary))
    if uncertainty == "fixed":
        raise UsageError("uncertainty: 'fixed' needs a known reference; pass reference=<number>.")
    if isinstance(reference, Estimate):
        estimate = replace(reference, value=_number(reference.value, binary))
        return Reference(To.ESTIMATE, joint, estimate=estimate)
    if isinstance(reference, Group):
        return Reference(To.GROUP, joint, group=reference)
    if isinstance(reference, Mapping):
        if not reference:
            raise UsageError('reference: an empty mapping; give for instance {"race": "Caucasian"}.')
        return Reference(To.GROUP, joint, group=Group.of(reference))
    if not isinstance(reference, str) or reference not in ("population", "rest", "highest", "lowest"):
        allowed = (
            "population",
            "rest",
            "highest",
            "lowest",
            "a number",
            "a mapping such as {'race': 'Caucasian'}",
            "an Estimate",
        )
        raise UnknownOption("reference", reference, allowed)
    if To(reference).best and not joint:
        raise UsageError(
            f"uncertainty: 'plugin' would take the {reference} group as known; name a group to do so, or leave it out."
        )
    return Reference(To(reference), joint)


def _number(value: Real | float, binary: bool) -> float:
    if not Number().admits(value):
        raise UsageError(f"reference: {value!r} is not a finite number.")
    number = float(value)
    if binary and not 0 <= number <= 1:
        raise UsageError(f"reference: {number:g} cannot be a rate; this metric lies between 0 and 1.")
    return number


def facing(reference: ReferenceLike, alternative: Against | None) -> Against | None:
    """Against the highest a group can only be below, against the lowest only above."""
    sides: dict[str, Against] = {"highest": "less", "lowest": "greater"}
    if not isinstance(reference, str) or reference not in sides or alternative is None:
        return alternative
    if alternative not in ("two-sided", sides[reference]):
        raise UsageError(
            f"alternative: {alternative!r} is not allowed with reference={reference!r}; no group lies beyond that: "
            f"give {sides[reference]!r}, or leave it out."
        )
    return sides[reference]


def hypothesis_of(null: Disparities, side: Against | None, tolerance: float | None, link: Link) -> Hypothesis | None:
    """The null of each group alone; None without a side, where only a joint one is tested.

    A tolerance makes it |ε| <= tolerance (or ε <= tolerance, ε >= -tolerance for a one-sided alternative); on the scale
    of ratios a tolerance t is the null t <= ratio <= 1/t.
    """
    if tolerance is not None:
        if not (isinstance(null, Real) and null == link.equal):
            raise UsageError(f"null: leave it at {link.equal:g} when tolerance is given; the tolerance sets the null.")
        low, high = (tolerance, 1.0 / tolerance) if link.ratio else (-tolerance, tolerance)
        if side in ("greater", "less"):
            end = high if side == "greater" else low
            return Hypothesis(end, end, side)
        return Hypothesis(low, high, "outside-published" if side == "outside-published" else "outside")
    values = list(null.values()) if isinstance(null, Mapping) else np.ravel(np.asarray(null, dtype=object)).tolist()
    if link.ratio and any(isinstance(value, Real) and value <= 0 for value in values):
        raise UsageError(
            f"null: {null!r} is not allowed for scale={link.name!r}; give ratios above 0 (1: no difference)."
        )
    if side is None:
        return None
    wanted = "give a finite number, or (low, high) with low <= high"
    if isinstance(null, (Sequence, Mapping, np.ndarray)):
        ends = [float(end) for end in null]
    elif not isinstance(null, (Real, Decimal)):
        raise UsageError(f"null: {shown(null)} is not allowed; {wanted}.")
    elif side.startswith("outside"):
        raise UsageError(f"null: the alternative {side!r} needs (low, high), saw {null!r}.")
    else:
        ends = [float(null)] * 2
    if len(ends) != 2 or ends[0] > ends[1]:
        raise UsageError(f"null: {null!r} is not allowed; {wanted}.")
    if ends[0] != ends[1] and not side.startswith("outside"):
        raise UsageError(f"alternative: the null {null!r} is an interval; pass alternative='outside'.")
    return Hypothesis(ends[0], ends[1], side)
