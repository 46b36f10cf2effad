"""What groups are compared with: the kinds of reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Annotated

import numpy as np

from isonomy.errors import UnknownOption, UsageError
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Form, Number, check_fields

# One number for all groups, one per group in order, or a mapping from group labels.
Disparities = float | Sequence[float] | FloatArray | Mapping[str, float]

# The largest mean of influence values, in standard errors: those of one-step estimates are smaller.
OFF_CENTER = 0.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A reference that the caller estimated: any asymptotically linear estimate (condition C6 of the paper).

    ``value`` is the estimate and ``influence`` names the column with each row's influence value, so that value - truth
    is the mean of the influence values up to smaller terms. The population mean, for example, has the influence values
    M - mean. They must come from the same rows as the audit.
    """

    value: float
    influence: str

    def __post_init__(self) -> None:
        check_fields(self)

    def refuse_uncentered(self, influence: FloatArray, mass: FloatArray) -> None:
        """Refuse influence values that do not average to zero: the likelihood would test another reference."""
        mean = float(np.average(influence, weights=mass))
        error = np.sqrt(float(np.average((influence - mean) ** 2, weights=mass)) / float(mass.sum()))
        if error == 0 and mean == 0:
            raise UsageError(
                f"reference: the influence values in {self.influence!r} are all 0; pass a reference without error as a "
                "number."
            )
        if abs(mean) > OFF_CENTER * error:
            raise UsageError(
                f"reference: the influence values in {self.influence!r} must average to zero, but their mean is "
                f"{mean:.6g} with a standard error of {error:.3g}; subtract their mean, or check that they "
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
        """Whether the reference is a value, not a set of people."""
        return self in (To.NUMBER, To.ESTIMATE)

    @property
    def best(self) -> bool:
        """Whether it is one of the groups, to be determined by the rows."""
        return self in (To.HIGHEST, To.LOWEST)


@dataclass(frozen=True, slots=True)
class Reference:
    """A checked reference: its kind, and its number, group or estimate; ``joint``: its error is taken into account."""

    to: To
    joint: bool
    number: float | None = None
    group: Group | None = None
    estimate: Estimate | None = None
    everybody: str = "the population"

    @property
    def value(self) -> float | None:
        """The number or the estimate; None for a set of people."""
        return self.number if self.estimate is None else self.estimate.value


def reference_of(reference: ReferenceLike, *, joint: bool) -> Reference:
    """Check a reference in any of the forms that a caller may give. A number has no error."""
    if isinstance(reference, Real) and not isinstance(reference, bool):
        if not Number().admits(reference):
            raise UsageError(f"reference: {reference!r} is not a finite number.")
        return Reference(To.NUMBER, False, number=float(reference))
    if isinstance(reference, Estimate):
        return Reference(To.ESTIMATE, joint, estimate=reference)
    if isinstance(reference, Group):
        return Reference(To.GROUP, joint, group=reference)
    if isinstance(reference, Mapping):
        if not reference:
            raise UsageError('reference: an empty mapping; give for instance {"race": "Caucasian"}.')
        return Reference(To.GROUP, joint, group=Group.from_mapping(reference))
    known = ("population", "rest", "highest", "lowest")
    if not isinstance(reference, str) or reference not in known:
        forms = ("a number", "a mapping such as {'race': 'Caucasian'}", "an Estimate")
        raise UnknownOption("reference", reference, (*known, *forms))
    return Reference(To(reference), joint)
