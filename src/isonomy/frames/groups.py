"""Groups: levels of a column, cuts of a number, named conditions, and their intersections.

A *dimension* is one thing people are grouped by. It becomes one key of the grouped pass, so the pass yields the
finest cells; a *partition* is a set of dimensions, rolled up from those cells in memory. `Labels` are the words that
results use for columns, values, groups and metrics.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial, reduce
from itertools import combinations, pairwise
from math import comb, prod
from numbers import Integral, Number
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import narwhals as nw
import numpy as np

from isonomy.errors import OneGroup, UnknownColumn, UnknownOption, UsageError, WrongType
from isonomy.frames.adapt import Lazy, refuse_instants, refuse_levels
from isonomy.frames.adapt import in_words as condition_in_words
from isonomy.frames.expressions import DType, Schema, is_text, missing
from isonomy.frames.sums import code_column
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.options import Form, check, check_fields, shown

if TYPE_CHECKING:
    import polars as pl

Levels = tuple[IntArray, list[object]]
Words = Mapping[str, str]

MISSING = "(missing)"
MOST_SETS = 10_000  # sets of dimensions
MOST_LEVELS = 2_000_000  # of one column: a million groups take 2 GB
MOST_SHARES = 100  # different numbers between 0 and 1 that can be groups: more are probabilities, or scores
CONDITION = ""  # the dimension under which a named condition is stored in a group's mapping
ROW_COUNT, ROW_GROUP = "__c", "__g"  # columns of `Source.complete_rows`: the rows of a line, the number of its group


_digits = partial(np.format_float_positional, trim="-")


@dataclass(frozen=True, slots=True)
class Cut:
    """A numeric column cut at ``edges``: below the first, between neighbors, from the last on."""

    column: str
    edges: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.column}, cut at {', '.join(map(_digits, self.edges))}"

    @property
    def labels(self) -> tuple[str, ...]:
        """One label per interval; an interval holds its lower edge and not its upper one."""
        text = list(map(_digits, self.edges))
        between = [f"{low} to <{high}" for low, high in pairwise(text)]
        return (f"<{text[0]}", *between, f">={text[-1]}")

    def codes(self) -> nw.Expr:
        column = nw.col(self.column)
        code: nw.Expr = nw.lit(len(self.edges))
        for i, edge in reversed(list(enumerate(self.edges))):
            code = nw.when(column < edge).then(nw.lit(i)).otherwise(code)
        return code


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """A named group: the rows for which ``condition`` holds."""

    name: str
    condition: nw.Expr

    def __str__(self) -> str:
        return f"{self.name}, where {condition_in_words(self.condition)}"


# What callers write under ``groups``.
Groups = Annotated[object, Form("groups")]
Features = Annotated[object, Form("features")]  # of which subgroups are made


def cut(column: str, edges: Sequence[float]) -> Cut:
    """Cut a numeric column at ``edges`` to make groups.

    >>> import isonomy as iso
    >>> iso.cut("age", [25, 45]).labels
    ('<25', '25 to <45', '>=45')
    """
    check("column", column, str)
    try:
        values = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError, OverflowError):
        values = ()
    if not values or list(values) != sorted(set(values)) or not np.all(np.isfinite(values)):
        raise UsageError(f"cut({column!r}): edges {shown(edges)}; give increasing, finite, distinct numbers.")
    return Cut(column, values)


def where(name: str, condition: nw.Expr) -> Where:
    """Name a group by a condition, a narwhals expression that is true for its members.

    >>> import isonomy as iso
    >>> young_men = iso.where("young men", (iso.col("age") < 25) & (iso.col("sex") == "Male"))
    >>> young_men.name
    'young men'
    """
    check("name", name, str)
    if not isinstance(condition, nw.Expr):
        raise UsageError(
            f"where({name!r}): condition is a {type(condition).__name__}; give an expression such as "
            'iso.col("age") < 25.'
        )
    return Where(name, condition)


_NUMBER = r"[+-]?\d\S*"
_SIDE = re.compile(rf"([<>]=?) ?({_NUMBER})")  # '<25', '>=65'
_BETWEEN = re.compile(rf"({_NUMBER}) to <({_NUMBER})")  # '25 to <45'


def in_words(value: str) -> str:
    """A value in words: '65 and over' for '>=65', 'under 25', '25 to under 45'; any other unchanged."""
    if side := _SIDE.fullmatch(value):
        words = {"<": "under {}", "<=": "up to {}", ">": "over {}", ">=": "{} and over"}[side[1]]
        return words.format(side[2])
    between = _BETWEEN.fullmatch(value)
    return f"{between[1]} to under {between[2]}" if between else value


@dataclass(frozen=True, slots=True)
class Group:
    """One group of people: the value of each dimension. The label follows from them, unless there is a ``name``."""

    items: tuple[tuple[str, object], ...]
    name: str = field(default="", compare=False)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Group:
        return cls(tuple(mapping.items()))

    @property
    def mapping(self) -> Mapping[str, object]:
        """The dimensions and their values; named conditions are joined under `CONDITION`."""
        mapping = dict(self.items)
        if CONDITION in mapping:
            mapping[CONDITION] = " & ".join(str(value) for name, value in self.items if name == CONDITION)
        return MappingProxyType(mapping)

    @property
    def label(self) -> str:
        """Reads like ``race=Black & sex=Female`` or ``age >= 65``; a named condition is its name."""
        if self.name:
            return self.name
        parts = []
        for name, value in self.items:
            text = MISSING if value is None else str(value)
            if side := _SIDE.fullmatch(text):  # 'age >= 65', not 'age=>=65'
                text = f"{side[1]} {side[2]}"
            apart = " " if side or _BETWEEN.fullmatch(text) else "="
            parts.append(str(value) if name == CONDITION else f"{name}{apart}{text}")
        return " & ".join(parts)

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One thing people are grouped by: its key in the pass, and the labels of its values."""

    name: str
    key: nw.Expr
    labels: tuple[str, ...] = ()  # for a cut: the label of each code
    condition: bool = False  # for a named condition: only the rows where it holds are a group

    def holds(self, value: object) -> nw.Expr:
        """The rows with a value; None: those without one; for a condition, False: those outside it."""
        if self.condition:
            return ~self.key if value is False else self.key
        if value is None:
            return self.key.is_null()
        return self.key == (self.labels.index(str(value)) if self.labels else value)


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The dimensions and the depth of their intersections, resolved against the schema; no row is read."""

    dimensions: tuple[Dimension, ...]
    depth: int = 1
    strata: tuple[Dimension, ...] = ()  # groups are compared within these, which are not groups themselves

    @property
    def every(self) -> tuple[Dimension, ...]:
        return (*self.dimensions, *self.strata)

    @property
    def keys(self) -> dict[str, nw.Expr]:
        return {dimension.name: dimension.key for dimension in self.every}

    def within(self, strata: Grouping) -> Grouping:
        """The same groups, compared within the levels of other dimensions, including people outside a condition."""
        both = {d.name for d in self.dimensions} & {d.name for d in strata.dimensions}
        if both:
            raise UsageError(
                f"given: {', '.join(map(repr, sorted(both)))} makes the groups too; a group cannot be compared "
                "within itself. Leave it out of one of the two."
            )
        return replace(self, strata=tuple(replace(d, condition=False) for d in strata.dimensions))

    @property
    def subsets(self) -> Iterator[tuple[Dimension, ...]]:
        for size in range(1, min(self.depth, len(self.dimensions)) + 1):
            yield from combinations(self.dimensions, size)


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Disjoint groups made by some dimensions, and the group of each cell (or row)."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    codes: IntArray = field(repr=False)  # one per cell; -1: in no group
    titles: tuple[str, ...] = ()  # the readers' names of the dimensions

    @property
    def title(self) -> str:
        """The readers' names of the dimensions: 'Race & sex'."""
        return " & ".join(self.titles or self.dimensions)

    def sum(self, values: AnyArray) -> FloatArray:
        # Code -1 (in no group) has a first bin of its own, which is dropped.
        weights = np.asarray(values, dtype=np.float64)
        return np.bincount(self.codes + 1, weights=weights, minlength=len(self.groups) + 1)[1:].astype(np.float64)

    def by_dimension(self) -> dict[str, IntArray]:
        """The level of each line along each dimension, from 0 up."""
        codes = {}
        for place, name in enumerate(self.dimensions):
            levels = [group.items[place][1] for group in self.groups]
            known = {level: code for code, level in enumerate(dict.fromkeys(levels))}
            codes[name] = np.array([known[level] for level in levels], dtype=np.intp)[self.codes]
        return codes


def grouping(schema: Schema, groups: object, depth: int = 1, *, argument: str = "groups") -> Grouping:
    from isonomy.frames.proxies import Proxy

    if isinstance(groups, Grouping):
        return groups
    for entry in groups if isinstance(groups, (list, tuple)) else [groups]:
        if isinstance(entry, Proxy):
            raise UsageError(
                f"{argument}: iso.proxy({entry.name!r}, ...) is known only by probability, which this question cannot "
                "use; iso.flag and iso.adverse_impact can. Name columns of known groups."
            )
    if isinstance(groups, (str, Cut, Where)):
        groups = (groups,)
    if not isinstance(groups, Iterable) or isinstance(groups, Mapping):
        raise UsageError(
            f"{argument}: {groups!r}; give column names, iso.cut(column, edges) or iso.where(name, condition)."
        )
    dimensions: list[Dimension] = []
    names: list[str] = []
    for group in groups:
        dimensions.append(_dimension(schema, group, argument))
        names.append(dimensions[-1].name)
    if not dimensions:
        raise UsageError(f"{argument}: none given; name at least one column.")
    if len(set(names)) < len(names):
        raise UsageError(f"{argument}: {', '.join(names)} names one group twice.")
    if isinstance(depth, bool) or not isinstance(depth, Integral) or depth < 1:
        raise UsageError(f"depth: {depth!r}; give a whole number from 1 (no intersections) up.")
    sets = sum(map(partial(comb, len(dimensions)), range(1, min(int(depth), len(dimensions)) + 1)))
    if sets > MOST_SETS:
        raise UsageError(
            f"depth: {depth} over {len(dimensions)} {argument} asks for {sets:,} sets of columns, and {MOST_SETS:,} "
            "are the most. Lower the depth, or name fewer columns."
        )
    return Grouping(tuple(dimensions), int(depth))


def _dimension(schema: Schema, group: object, argument: str) -> Dimension:
    if isinstance(group, Where):
        # A null condition stays null, so that the missing_group option decides about it.
        return Dimension(group.name, group.condition, condition=True)
    name = group.column if isinstance(group, Cut) else group
    if not isinstance(name, str) or name not in schema:
        raise UnknownColumn(argument, name, schema)
    dtype = schema[name]
    if isinstance(group, Cut):
        if not dtype.is_numeric():
            raise WrongType(f"{argument}: column {name!r} is {dtype}; only numbers can be cut.")
        codes = nw.when(~missing(nw.col(name), dtype)).then(group.codes())
        return Dimension(name, codes, labels=group.labels)
    if dtype.is_float():
        return Dimension(name, nw.when(nw.col(name).is_finite()).then(nw.col(name)))
    refuse_levels(argument, name, dtype)
    return Dimension(name, nw.col(name))


def partitions(grouping: Grouping, cells: pl.DataFrame) -> tuple[Partition, ...]:
    """Roll cells (or rows) up to every group, and to the strata, which come last."""
    levels: dict[str, Levels] = {}
    for dimension in grouping.every:
        argument = "given" if dimension in grouping.strata else "groups"
        column = cells[f"group {dimension.name}"]
        levels[dimension.name] = _levels(dimension, column, argument)
        shares = column.unique().is_between(0.0, 1.0).sum() if column.dtype.is_float() else 0
        if dimension in grouping.dimensions and shares > MOST_SHARES:
            raise UsageError(
                f"groups: column {dimension.name!r} has {shares:,} different numbers between 0 and 1. Give "
                "probabilities of groups in iso.proxy(name, probabilities); cut a number with iso.cut(column, edges)."
            )
    subsets = [*grouping.subsets, *([grouping.strata] if grouping.strata else [])]
    return tuple(map(partial(_partition, levels), subsets))


def refuse_many(argument: str, name: str, levels: int) -> None:
    if levels > MOST_LEVELS:
        raise UsageError(
            f"{argument}: column {name!r} has at least {levels:,} different values; at most {MOST_LEVELS:,} groups can "
            "be held. It tells people apart, not groups: name another column, or iso.cut(column, edges) for a number."
        )


def _levels(dimension: Dimension, column: pl.Series, argument: str) -> Levels:
    """The code of each line along one dimension, and the value of each code, sorted with null last."""
    if dimension.condition:
        return np.where(column.fill_null(False).to_numpy(), 0, -1).astype(np.intp), [dimension.name]
    codes, number = code_column(column)
    first = np.full(number, -1)
    first[codes] = np.arange(codes.size)
    present = np.flatnonzero(first >= 0)
    refuse_many(argument, dimension.name, present.size)
    values = column[first[present]]
    refuse_instants(argument, dimension.name, values)
    order = values.arg_sort(nulls_last=True).to_numpy()
    rank = np.empty(number, dtype=np.intp)
    rank[present[order]] = np.arange(present.size)
    listed = values[order].to_list()
    if dimension.labels:
        listed = [None if value is None else dimension.labels[int(value)] for value in listed]
    return rank[codes], listed


def _partition(levels: Mapping[str, Levels], subset: tuple[Dimension, ...]) -> Partition:
    names = [dimension.name for dimension in subset]
    codes, shape = levels[names[0]][0], [len(levels[name][1]) for name in names]
    present = np.arange(shape[0])  # of a single dimension every level occurs, or it is a named group
    if len(subset) > 1:
        outside = codes < 0
        for name, number in zip(names[1:], shape[1:], strict=True):
            level = levels[name][0]
            codes, outside = codes * number + level, outside | (level < 0)
        present, codes = _distinct(np.where(outside, -1, codes), prod(shape))
    columns = []
    for dimension, code in zip(subset, np.unravel_index(present, shape), strict=True):
        name, values = CONDITION if dimension.condition else dimension.name, levels[dimension.name][1]
        columns.append([(name, values[i]) for i in code])
    return Partition(tuple(names), tuple(map(Group, zip(*columns, strict=True))), codes)


def _distinct(codes: IntArray, span: int) -> tuple[IntArray, IntArray]:
    """The codes that occur (except -1), and each line's position among them."""
    if span > 4 * len(codes) + 1024:  # a table of all combinations would be larger than the data
        distinct, inverse = np.unique(codes, return_inverse=True)
        outside = int(len(distinct) > 0 and distinct[0] < 0)
        return distinct[outside:], inverse - outside
    present = np.bincount(codes + 1, minlength=span + 1)[1:] > 0
    position = np.cumsum(present) - 1
    return np.flatnonzero(present), np.where(codes >= 0, position[codes], -1)


def compared(partition: Partition) -> tuple[tuple[Group, ...], IntArray]:
    """Groups that can be compared with one another, and codes: a named condition is compared with everybody else."""
    groups, codes = partition.groups, partition.codes
    if len(groups) == 1 and groups[0].items[0][0] == CONDITION:
        rest = Group.from_mapping({CONDITION: f"not {groups[0].label}"})
        return (*groups, rest), np.where(codes < 0, 1, codes)
    if len(groups) < 2:
        names = " & ".join(partition.dimensions)
        raise OneGroup(f"groups: {names!r} has one group ({groups[0].label}); a comparison needs two.")
    return groups, codes


def with_groups(rows: Lazy, grouping: Grouping, groups: tuple[Group, ...]) -> Lazy:
    """The rows of `Source.complete_rows` that belong to ``groups``, with the number of their group, `ROW_GROUP`."""
    return rows.with_columns(group_number(grouping, groups).alias(ROW_GROUP)).filter(nw.col(ROW_GROUP) >= 0)


def group_number(grouping: Grouping, groups: tuple[Group, ...]) -> nw.Expr:
    """The number of the group of each row of `Source.complete_rows`; -1 for none."""
    dimensions = {d.name: replace(d, key=nw.col(f"__d{i}")) for i, d in enumerate(grouping.dimensions)}
    rest = len(groups) == 2 and groups[1].items[0][0] == CONDITION
    code: nw.Expr = nw.lit(1 if rest else -1)
    for number, group in reversed(list(enumerate(groups[:1] if rest else groups))):
        levels = [dimensions[str(value) if name == CONDITION else name].holds(value) for name, value in group.items]
        code = nw.when(reduce(and_, levels)).then(nw.lit(number)).otherwise(code)
    return code


@dataclass(frozen=True, slots=True)
class Labels:
    """Words for readers, by the names and values of the table. Anything without words keeps its name.

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
        """The groups under the readers' names; groups whose names would coincide keep their own."""
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
        words = []
        for name, value in group.items:
            text = MISSING if value is None else str(value)
            column = self.columns.get(name, name)
            given = text if name == CONDITION else self.values.get(name, {}).get(text)
            words.append(f"{column} {in_words(text)}" if given is None else given)
        return ", ".join(words)


NOTHING = Labels()


def belongs(group: Group, grouping: Grouping, schema: Schema) -> nw.Expr:
    """The condition under which a row belongs to ``group``, the reference of a call, checked against the schema.

    A level may be a value of a column, an interval of a cut in the ``grouping``, or a named condition of it: true for
    those who meet it, false for those who do not.
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
    if not isinstance(value, (bool, np.bool_)):
        raise UnknownOption(argument, value, (True, False))
    return bool(value)


def _level(argument: str, name: str, value: object, dtype: DType) -> object:
    """``value``, if a column of this type can hold it: engines differ in their errors about such comparisons."""
    level = value.item() if isinstance(value, np.generic) else value
    if isinstance(level, bool) and dtype.is_numeric():
        return int(level)
    if dtype == nw.Boolean:
        return _truth(argument, value)
    if isinstance(dtype, nw.Enum) and level not in dtype.categories:
        raise UnknownOption(argument, value, dtype.categories)
    for fits, kind, what in (
        (dtype.is_numeric(), Number, "a number"),
        (is_text(dtype), str, "text"),
        (dtype in (nw.Date, nw.Datetime), date, "a date"),
    ):
        if fits and not isinstance(level, kind):
            cut = " Its intervals are levels if iso.cut is among the groups." if kind is Number else ""
            raise UsageError(f"{argument}: {value!r} is not a level of column {name!r} ({dtype}); give {what}.{cut}")
    if not isinstance(level, (Number, str, date)):
        raise UsageError(f"{argument}: {value!r} is not allowed; give one level of column {name!r}.")
    return level
