"""What a group is compared with: the population, the rest, a number, a named group, or an estimate of the caller's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import and_
from typing import Any

import narwhals as nw

from isonomy.errors import UnknownColumn, UnknownOption, UsageError, choose
from isonomy.frames import Group, Grouping

UNCERTAINTIES = ("joint", "plugin", "fixed")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A reference the caller estimated: any asymptotically linear estimate (condition C6 of the paper).

    ``value`` is the estimate and ``influence`` names the column with each row's influence value, so that
    value - truth is the mean of the influence values up to smaller terms. The population mean, for
    example, has the influence values M - mean. They must come from the same rows as the audit.
    """

    value: float
    influence: str


class To(StrEnum):
    """The kinds of reference."""

    POPULATION = "population"
    REST = "rest"
    GROUP = "group"
    NUMBER = "number"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class Reference:
    """A checked reference: its kind, and the number, group or estimate it is; ``joint`` when its error counts."""

    to: To
    joint: bool
    number: float | None = None
    group: Group | None = None
    estimate: Estimate | None = None

    @property
    def label(self) -> str:
        """What it is called in a sentence."""
        match self.to:
            case To.POPULATION:
                return "the population"
            case To.REST:
                return "the rest of the population"
            case To.GROUP:
                return str(self.group)
            case To.NUMBER:
                return f"{self.number:g}"
        assert self.estimate is not None
        return f"the estimate {self.estimate.value:g}"


def resolve(reference: object, uncertainty: str, *, binary: bool) -> Reference:
    """Check ``reference`` and ``uncertainty`` together, before any row is read."""
    choose("uncertainty", uncertainty, UNCERTAINTIES)
    if isinstance(reference, Estimate):
        _refuse_fixed(uncertainty)
        _check_number(reference.value, binary)
        return Reference(To.ESTIMATE, uncertainty == "joint", estimate=reference)
    if isinstance(reference, (int, float)) and not isinstance(reference, bool):
        _check_number(float(reference), binary)
        return Reference(To.NUMBER, False, number=float(reference))
    _refuse_fixed(uncertainty)
    joint = uncertainty == "joint"
    if isinstance(reference, Group):
        return Reference(To.GROUP, joint, group=reference)
    if isinstance(reference, Mapping):
        if not reference:
            raise UsageError('reference: an empty mapping; give for instance {"race": "Caucasian"}.')
        return Reference(To.GROUP, joint, group=Group.of(reference))
    if reference not in ("population", "rest"):
        allowed = ("population", "rest", "a number", "a mapping such as {'race': 'Caucasian'}", "an Estimate")
        raise UnknownOption("reference", reference, allowed)
    return Reference(To(str(reference)), joint)


def _refuse_fixed(uncertainty: str) -> None:
    if uncertainty == "fixed":
        raise UsageError("uncertainty: 'fixed' needs a known reference; pass reference=<number>.")


def _check_number(value: float, binary: bool) -> None:
    if not math.isfinite(value):
        raise UsageError(f"reference: {value!r} is not a finite number.")
    if binary and not 0 <= value <= 1:
        raise UsageError(f"reference: {value:g} cannot be a rate; this metric lies between 0 and 1.")


def membership(group: Group, grouping: Grouping, schema: Mapping[str, Any]) -> nw.Expr:
    """The condition under which a row belongs to ``group``."""
    dimensions = {d.name: d for d in grouping.dimensions}
    parts = []
    for name, value in group.items:
        named = dimensions.get(str(value) if name == "" else name)
        if named is not None and named.condition:
            parts.append(named.key)
        elif named is not None and named.labels and value in named.labels:
            parts.append(named.key == named.labels.index(str(value)))
        elif named is not None and named.labels:
            raise UnknownOption(f"reference[{name!r}]", value, named.labels)
        elif name in schema:
            column = nw.col(name)
            parts.append(column.is_null() if value is None else column == value)
        else:
            raise UnknownColumn("reference", name, schema)
    return reduce(and_, parts)
