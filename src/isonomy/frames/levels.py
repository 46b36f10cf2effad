"""The rows of a group that is named by its levels, such as a reference: the condition, checked against the schema."""

from __future__ import annotations

from datetime import date
from functools import reduce
from numbers import Number
from operator import and_

import narwhals as nw
import numpy as np

from isonomy.errors import UnknownColumn, UnknownOption, UsageError
from isonomy.frames.groups import CONDITION, Dimension, Group, Grouping
from isonomy.frames.sums import DType, Schema


def belongs(group: Group, grouping: Grouping, schema: Schema) -> nw.Expr:
    """The condition under which a row belongs to ``group``, the reference of a call.

    A level may be one of the table's columns, an interval of a cut among the ``grouping``, or a named condition of it:
    true for those who meet it, false for those who do not.
    """
    dimensions = {d.name: d for d in grouping.dimensions}
    parts = []
    for name, value in group.items:
        level = f"reference[{name!r}]"
        named = dimensions.get(str(value) if name == CONDITION else name)
        if named is not None and named.condition:
            parts.append(named.holds(name == CONDITION or _truth(level, value)))
        elif named is not None and named.labels:
            if value not in named.labels:
                raise UnknownOption(level, value, named.labels)
            parts.append(named.holds(value))
        elif name in schema:
            known = None if value is None else _level(level, name, value, schema[name])
            parts.append(Dimension(name, nw.col(name)).holds(known))
        else:
            raise UnknownColumn("reference", name, schema)
    return reduce(and_, parts)


def _truth(argument: str, value: object) -> bool:
    """Whether the rows that meet a named condition are meant, or those that do not."""
    if not isinstance(value, (bool, np.bool_)):
        raise UnknownOption(argument, value, (True, False))
    return bool(value)


def _level(argument: str, name: str, value: object, dtype: DType) -> object:
    """``value``, if a column of this type can hold it: engines differ in what they say of a comparison they refuse."""
    level = value.item() if isinstance(value, np.generic) else value
    if isinstance(level, bool) and dtype.is_numeric():
        return int(level)
    if dtype == nw.Boolean:
        return _truth(argument, value)
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
