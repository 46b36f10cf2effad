"""What a group is compared with: the population, the rest, a number, a named group, or an estimate of the caller's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import reduce
from numbers import Number, Real
from operator import and_
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.errors import UnknownColumn, UnknownOption, UsageError, choose
from isonomy.frames import Group, Grouping
from isonomy.frames.groups import CONDITION

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
        value = _number(reference.value, binary)
        return Reference(To.ESTIMATE, uncertainty == "joint", estimate=Estimate(value, reference.influence))
    if isinstance(reference, Real) and not isinstance(reference, bool):
        # The default cannot be told from an explicit "joint": for a number both mean that there is no error to count.
        if uncertainty == "plugin":
            raise UsageError(
                "uncertainty: 'plugin' needs an estimated reference; for a number leave it out, or give 'fixed'."
            )
        return Reference(To.NUMBER, False, number=_number(reference, binary))
    _refuse_fixed(uncertainty)
    joint = uncertainty == "joint"
    if isinstance(reference, Group):
        return Reference(To.GROUP, joint, group=reference)
    if isinstance(reference, Mapping):
        if not reference:
            raise UsageError('reference: an empty mapping; give for instance {"race": "Caucasian"}.')
        return Reference(To.GROUP, joint, group=Group.of(reference))
    if not isinstance(reference, str) or reference not in ("population", "rest"):
        allowed = ("population", "rest", "a number", "a mapping such as {'race': 'Caucasian'}", "an Estimate")
        raise UnknownOption("reference", reference, allowed)
    return Reference(To(reference), joint)


def _refuse_fixed(uncertainty: str) -> None:
    if uncertainty == "fixed":
        raise UsageError("uncertainty: 'fixed' needs a known reference; pass reference=<number>.")


def _number(value: object, binary: bool) -> float:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number):
        raise UsageError(f"reference: {value!r} is not a finite number.")
    if binary and not 0 <= number <= 1:
        raise UsageError(f"reference: {number:g} cannot be a rate; this metric lies between 0 and 1.")
    return number


def membership(group: Group, grouping: Grouping, schema: Mapping[str, Any]) -> nw.Expr:
    """The condition under which a row belongs to ``group``."""
    dimensions = {d.name: d for d in grouping.dimensions}
    parts = []
    for name, value in group.items:
        named = dimensions.get(str(value) if name == CONDITION else name)
        if named is not None and named.condition:
            parts.append(named.key if name == CONDITION or _truth(name, value) else ~named.key)
        elif named is not None and named.labels and value in named.labels:
            parts.append(named.key == named.labels.index(str(value)))
        elif named is not None and named.labels:
            raise UnknownOption(f"reference[{name!r}]", value, named.labels)
        elif name in schema:
            column = nw.col(name)
            parts.append(column.is_null() if value is None else column == _level(name, value, schema[name]))
        else:
            raise UnknownColumn("reference", name, schema)
    return reduce(and_, parts)


def _truth(name: str, value: object) -> bool:
    """Whether the rows that meet a named condition are meant, or those that do not."""
    if not isinstance(value, (bool, np.bool_)):
        raise UnknownOption(f"reference[{name!r}]", value, (True, False))
    return bool(value)


def _level(name: str, value: object, dtype: Any) -> object:
    """``value``, if a column of this type can hold it: engines differ in what they say of a comparison they refuse."""
    argument = f"reference[{name!r}]"
    level = value.item() if isinstance(value, np.generic) else value
    if isinstance(level, bool) and dtype.is_numeric():
        return int(level)
    if dtype == nw.Boolean:
        return _truth(name, value)
    if isinstance(dtype, nw.Enum) and level not in dtype.categories:
        raise UnknownOption(argument, value, dtype.categories)
    for fits, kind, what in (
        (dtype.is_numeric(), Number, "a number"),
        (dtype in (nw.String, nw.Categorical, nw.Enum), str, "text"),
        (dtype in (nw.Date, nw.Datetime), date, "a date"),
    ):
        if fits and not isinstance(level, kind):
            cut = " Its intervals are levels if iso.cut is among the groups." if kind is Number else ""
            raise UsageError(f"{argument}: {value!r} is no level of column {name!r} ({dtype}); give {what}.{cut}")
    if not isinstance(level, (Number, str, date)):
        raise UsageError(f"{argument}: {value!r} is not allowed; give one level of column {name!r}.")
    return level
