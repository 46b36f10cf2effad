"""What groups are compared with: the kinds of reference, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from numbers import Real
from typing import Annotated, Literal

from isonomy.errors import UnknownOption, UsageError
from isonomy.frames import Group, Grouping, Request, Source
from isonomy.frames.checks import flag
from isonomy.frames.levels import belongs
from isonomy.likelihood.ratio.disparity import Against
from isonomy.options import Form, Number, check_fields

Uncertainty = Literal["joint", "plugin", "fixed"]


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


def with_reference(request: Request, target: Reference, grouping: Grouping, source: Source) -> Request:
    """A metric's request, and what a named or estimated reference needs of the rows."""
    if target.group is not None:
        condition = flag(belongs(target.group, grouping, source.schema))
        request = replace(request, keys={**request.keys, "reference": condition})
    if target.estimate is not None:
        source.require(reference=target.estimate.influence)
        request = replace(request, numeric={**request.numeric, "influence": target.estimate.influence})
    return request
