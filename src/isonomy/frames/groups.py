"""Groups: levels of a column, cuts of a number, named conditions, and their intersections.

A *dimension* is one thing people are grouped by. It becomes one key of the grouped pass, so the pass yields the
finest cells; a *partition* is any set of dimensions taken together, rolled up from those cells in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from math import comb
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import narwhals as nw
import numpy as np

from isonomy.errors import UnknownColumn, UsageError, WrongType
from isonomy.frames.sums import Schema, missing
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.options import Form, check, shown

if TYPE_CHECKING:
    import polars as pl

Levels = tuple[IntArray, list[object]]

MISSING = "(missing)"
MOST_SETS = 10_000  # sets of dimensions that are taken together
MOST_LEVELS = 2_000_000  # of one column: a million groups take 2 GB
CONDITION = ""  # the dimension under which a named condition is stored in a group's mapping


@dataclass(frozen=True, slots=True)
class Cut:
    """A numeric column cut at ``edges``: below the first, between each two, from the last on."""

    column: str
    edges: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.column}, cut at {', '.join(np.format_float_positional(edge, trim='-') for edge in self.edges)}"

    @property
    def labels(self) -> tuple[str, ...]:
        """One label per interval; an interval holds its lower edge and not its upper one."""
        text = [np.format_float_positional(edge, trim="-") for edge in self.edges]
        between = [f"{low} to <{high}" for low, high in pairwise(text)]
        return (f"<{text[0]}", *between, f">={text[-1]}")

    def codes(self) -> nw.Expr:
        """Which interval each row falls in, 0 upwards."""
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


# What callers write under ``groups``.
Groups = Annotated[object, Form("groups")]


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


def _equation(name: str, value: str) -> str:
    """'sex=f'; but 'age >= 65' and 'age 25 to <45', not 'age=>=65'."""
    if side := _SIDE.fullmatch(value):
        return f"{name} {side[1]} {side[2]}"
    return f"{name} {value}" if _BETWEEN.fullmatch(value) else f"{name}={value}"


def in_words(value: str) -> str:
    """A value as people say it: '65 and over' for '>=65', 'under 25', '25 to under 45'; any other as it is."""
    if side := _SIDE.fullmatch(value):
        words = {"<": "under {}", "<=": "up to {}", ">": "over {}", ">=": "{} and over"}[side[1]]
        return words.format(side[2])
    between = _BETWEEN.fullmatch(value)
    return f"{between[1]} to under {between[2]}" if between else value


@dataclass(frozen=True, slots=True)
class Group:
    """One group of people: which value each dimension has. The label is derived, unless readers know another name."""

    items: tuple[tuple[str, object], ...]
    name: str = field(default="", compare=False)

    @classmethod
    def of(cls, mapping: Mapping[str, object]) -> Group:
        """The group in which each dimension has the given value."""
        return cls(tuple(mapping.items()))

    @property
    def mapping(self) -> Mapping[str, object]:
        """The dimensions and their values; named conditions stand together under `CONDITION`."""
        mapping = dict(self.items)
        if CONDITION in mapping:
            mapping[CONDITION] = " & ".join(str(value) for name, value in self.items if name == CONDITION)
        return MappingProxyType(mapping)

    @property
    def label(self) -> str:
        """Reads like ``race=Black & sex=Female`` or ``age >= 65``; a named condition is its name."""
        return self.name or " & ".join(
            str(value) if name == CONDITION else _equation(name, MISSING if value is None else str(value))
            for name, value in self.items
        )

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One thing people are grouped by: the key it asks of the pass, and what its values are called."""

    name: str
    key: nw.Expr
    labels: tuple[str, ...] = ()  # for a cut: the label of each code
    condition: bool = False  # for a named condition: only the rows where it holds are a group

    def holds(self, value: object) -> nw.Expr:
        """The rows at a level: a value, None for those without one; of a condition, False for those outside it."""
        if self.condition:
            return ~self.key if value is False else self.key
        if value is None:
            return self.key.is_null()
        return self.key == (self.labels.index(str(value)) if self.labels else value)


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The dimensions asked for, and how deep they are intersected. Made from the schema; no row is read."""

    dimensions: tuple[Dimension, ...]
    depth: int = 1
    strata: tuple[Dimension, ...] = ()  # what groups are compared within; not groups themselves

    @property
    def every(self) -> tuple[Dimension, ...]:
        """The dimensions of groups and of strata."""
        return (*self.dimensions, *self.strata)

    @property
    def keys(self) -> dict[str, nw.Expr]:
        """The keys of the finest cells."""
        return {dimension.name: dimension.key for dimension in self.every}

    def within(self, strata: Grouping) -> Grouping:
        """The same groups, to be compared within the levels of other dimensions: people outside a condition too."""
        both = {d.name for d in self.dimensions} & {d.name for d in strata.dimensions}
        if both:
            raise UsageError(
                f"given: {', '.join(map(repr, sorted(both)))} makes the groups too; a group cannot be compared "
                "within itself. Leave it out of one of the two."
            )
        return replace(self, strata=tuple(replace(d, condition=False) for d in strata.dimensions))

    @property
    def subsets(self) -> Iterator[tuple[Dimension, ...]]:
        """Every set of dimensions that is taken together, single ones first."""
        for size in range(1, min(self.depth, len(self.dimensions)) + 1):
            yield from combinations(self.dimensions, size)


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Disjoint groups made by some dimensions, and which of them each cell (or row) belongs to."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    codes: IntArray = field(repr=False)  # one per cell; -1: in no group
    titles: tuple[str, ...] = ()  # what readers call the dimensions

    @property
    def title(self) -> str:
        """The dimensions as readers know them: 'Race & sex'."""
        return " & ".join(self.titles or self.dimensions)

    def sum(self, values: AnyArray) -> FloatArray:
        """Total of ``values`` (one per cell) in each group."""
        # Code -1 (in no group) is counted in a first bin that is then left out.
        weights = np.asarray(values, dtype=np.float64)
        return np.bincount(self.codes + 1, weights=weights, minlength=len(self.groups) + 1)[1:].astype(np.float64)


def grouping(schema: Schema, groups: object, depth: int = 1, *, argument: str = "groups") -> Grouping:
    """Resolve what the caller wrote under ``groups`` against the schema."""
    if isinstance(groups, Grouping):
        return groups
    if isinstance(groups, (str, Cut, Where)):
        groups = (groups,)
    if not isinstance(groups, Iterable) or isinstance(groups, Mapping):
        raise UsageError(
            f"{argument}: {groups!r}; give column names, iso.cut(column, edges) or iso.where(name, condition)."
        )
    dimensions = tuple(_dimension(schema, group, argument) for group in groups)
    if not dimensions:
        raise UsageError(f"{argument}: none given; name at least one column.")
    names = [d.name for d in dimensions]
    if len(set(names)) < len(names):
        raise UsageError(f"{argument}: {', '.join(names)} names one group twice.")
    if isinstance(depth, bool) or not isinstance(depth, Integral) or depth < 1:
        raise UsageError(f"depth: {depth!r}; give a whole number from 1 (no intersections) up.")
    sets = sum(comb(len(dimensions), size) for size in range(1, min(int(depth), len(dimensions)) + 1))
    if sets > MOST_SETS:
        raise UsageError(
            f"depth: {depth} over {len(dimensions)} {argument} asks for {sets:,} sets of columns, and {MOST_SETS:,} "
            "are the most. Lower the depth, or name fewer columns."
        )
    return Grouping(dimensions, int(depth))


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
    plain = (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Date, nw.Datetime, nw.Time, nw.Object, nw.Unknown)
    if not (dtype.is_numeric() or isinstance(dtype, plain)):
        raise WrongType(f"{argument}: column {name!r} is {dtype}; groups need text, numbers, booleans, dates or times.")
    return Dimension(name, nw.col(name))


def key_name(dimension: str) -> str:
    """The column of the finest cells that holds a dimension: a group may be called like a role."""
    return f"group {dimension}"


def partitions(grouping: Grouping, cells: pl.DataFrame) -> tuple[Partition, ...]:
    """Roll cells (or rows) up to every group asked for, and to the strata, which come last."""
    levels = {d.name: _levels(d, cells[key_name(d.name)]) for d in grouping.every}
    subsets = [*grouping.subsets, *([grouping.strata] if grouping.strata else [])]
    return tuple(_partition(subset, levels, len(cells)) for subset in subsets)


def _levels(dimension: Dimension, column: pl.Series) -> Levels:
    """Code of each line along one dimension, and the value each code stands for, in sorted order, null last."""
    if dimension.condition:
        return np.where(column.fill_null(False).to_numpy(), 0, -1).astype(np.intp), [dimension.name]
    values = column.unique().sort(nulls_last=True)
    if len(values) > MOST_LEVELS:
        raise UsageError(
            f"groups: column {dimension.name!r} has {len(values):,} different values; at most {MOST_LEVELS:,} groups "
            "can be held. It tells people apart, not groups: name another column, or cut a number with iso.cut."
        )
    listed = values.to_list()
    if dimension.labels:
        listed = [None if value is None else dimension.labels[int(value)] for value in listed]
    return _codes(column, values), listed


def _codes(column: pl.Series, values: pl.Series) -> IntArray:
    """Position of each line's value among ``values``, which are sorted, null last."""
    import polars as pl

    if column.dtype == pl.String:  # compare each text once, then numbers
        numbers = pl.concat([values, column]).cast(pl.Categorical).to_physical()  # one cast: numbers are its own
        column, values = numbers[len(values) :], numbers[: len(values)]
    elif not column.dtype.is_integer() or column.dtype in (pl.Int128, pl.UInt128):
        return column.rank("dense").fill_null(len(values)).to_numpy().astype(np.intp) - 1
    known = values.drop_nulls().to_numpy()
    order = np.argsort(known)
    if not len(known):
        return np.zeros(len(column), dtype=np.intp)
    low, high = int(known[order[0]]), int(known[order[-1]])
    lines = column.fill_null(low).to_numpy()
    if high - low < 4 * len(column) + 1024:
        position = np.zeros(high - low + 1, dtype=np.intp)
        position[known - low] = np.arange(len(known))
        codes = position[lines - low]
    else:
        codes = order[np.searchsorted(known[order], lines)]
    return np.where(column.is_null().to_numpy(), len(values) - 1, codes) if column.null_count() else codes


def _partition(subset: tuple[Dimension, ...], levels: Mapping[str, Levels], size: int) -> Partition:
    combined = np.zeros(size, dtype=np.intp)
    inside = np.ones(size, dtype=bool)
    span = 1
    for dimension in subset:
        codes, values = levels[dimension.name]
        combined = combined * len(values) + codes
        inside &= codes >= 0
        span *= len(values)
    names = tuple(d.name for d in subset)
    if len(subset) == 1:  # every level is there, and a named group is listed even when nobody is in it
        return Partition(names, tuple(_groups(subset, levels, np.arange(span))), combined)
    combined[~inside] = -1
    present, codes = _distinct(combined, span)
    return Partition(names, tuple(_groups(subset, levels, present)), codes)


def _distinct(codes: IntArray, span: int) -> tuple[IntArray, IntArray]:
    """The codes that occur (-1 apart), and each line's position among them."""
    if span > 4 * len(codes) + 1024:  # a table of all combinations would be larger than the data
        distinct, inverse = np.unique(codes, return_inverse=True)
        outside = int(len(distinct) > 0 and distinct[0] < 0)
        return distinct[outside:], inverse - outside
    present = np.bincount(codes + 1, minlength=span + 1)[1:] > 0
    position = np.cumsum(present) - 1
    return np.flatnonzero(present), np.where(codes >= 0, position[codes], -1)


def _groups(
    subset: tuple[Dimension, ...],
    levels: Mapping[str, Levels],
    present: IntArray,
) -> Iterator[Group]:
    values = [levels[dimension.name][1] for dimension in subset]
    codes = np.unravel_index(present, [len(each) for each in values])
    columns = [[each[i] for i in code] for each, code in zip(values, codes, strict=True)]
    names = [CONDITION if d.condition else d.name for d in subset]
    for row in zip(*columns, strict=True):
        yield Group(tuple(zip(names, row, strict=True)))
