"""What people call the table's columns, codes, groups and metrics: the words a result is told in.

The rows of a group that is named by its levels, such as a reference: the condition, checked against the schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import reduce
from numbers import Number
from operator import and_

import narwhals as nw
import numpy as np

from isonomy.errors import UnknownColumn, UnknownOption, UsageError
from isonomy.frames.groups import CONDITION, MISSING, Dimension, Group, Grouping, in_words
from isonomy.frames.sums import DType, Schema
from isonomy.options import check_fields

Words = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Labels:
    """Words for readers, by the names and values of the table. What has none keeps its own name.

    Parameters
    ----------
    columns : mapping, optional
        Column names to words: ``{"pirat": "payments to income"}``.
    values : mapping, optional
        For each column, its values (as text) to words: ``{"sex": {"1": "men", "2": "women"}}``. The intervals of a cut
        are values too: ``{"age": {"<25": "applicants under 25"}}``.
    groups : mapping, optional
        Whole groups, as results name them without labels, to words: ``{"race=Black & sex=2": "Black women"}``.
    metrics : mapping, optional
        Metric names to words: ``{"selection_rate": "approval rate"}``.
    population : str, optional
        Everybody: ``"all applicants"``.

    Examples
    --------
    >>> import isonomy as iso
    >>> words = iso.Labels(values={"sex": {"1": "men", "2": "women"}}, metrics={"selection_rate": "approval rate"})
    >>> table = {"sex": [1, 2] * 50, "ok": [0, 1, 1, 0] * 25}
    >>> source = iso.open_source(table, labels=words)
    >>> iso.flag(source, metric="selection_rate", prediction="ok", groups="sex").labels
    ('men', 'women')
    """

    columns: Words = field(default_factory=dict)
    values: Mapping[str, Words] = field(default_factory=dict)
    groups: Words = field(default_factory=dict)
    metrics: Words = field(default_factory=dict)
    population: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def named(self, groups: Sequence[Group]) -> tuple[Group, ...]:
        """The groups under the names readers know; those whose names would coincide keep their own."""
        names = [self._name(group) for group in groups]
        times = Counter(names)
        return tuple(
            replace(group, name=name) if name and times[name] == 1 else group
            for group, name in zip(groups, names, strict=True)
        )

    def _name(self, group: Group) -> str:
        if group.label in self.groups:
            return self.groups[group.label]
        if not (self.columns or self.values):
            return ""
        values = [(name, MISSING if value is None else str(value)) for name, value in group.items]
        return ", ".join(value if name == CONDITION else self._words(name, value) for name, value in values)

    def _words(self, column: str, value: str) -> str:
        """The words for one value of a column: its own, or those of the column before it."""
        own = self.values.get(column, {}).get(value)
        return f"{self.columns.get(column, column)} {in_words(value)}" if own is None else own


NOTHING = Labels()


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
