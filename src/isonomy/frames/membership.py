"""Which group and which person each row belongs to, for methods that compare disjoint groups of people.

Rows stay where they are: what is made here is an expression, a filtered frame, or codes of a column already read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import and_

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.errors import OneGroup
from isonomy.frames.adapt import Lazy
from isonomy.frames.checks import flag
from isonomy.frames.groups import CONDITION, Group, Grouping, Partition
from isonomy.frames.source import Source
from isonomy.frames.sums import missing
from isonomy.numerics.arrays import AnyArray, BoolArray, IntArray

LINES = "__c"  # how many rows a line stands for
GROUP = "__g"  # number of a row's group


def compared(partition: Partition) -> tuple[tuple[Group, ...], IntArray]:
    """Groups that can be compared with one another, and codes: a named condition is compared with everybody else."""
    groups, codes = partition.groups, partition.codes
    if len(groups) == 1 and groups[0].items[0][0] == CONDITION:
        rest = Group.of({CONDITION: f"not {groups[0].label}"})
        return (*groups, rest), np.where(codes < 0, 1, codes)
    if len(groups) < 2:
        names = " & ".join(partition.dimensions)
        raise OneGroup(f"groups: {names!r} has one group ({groups[0].label}); a comparison needs two.")
    return groups, codes


def without_value(source: Source, column: str) -> nw.Expr:
    """1 where a column has no value, 0 elsewhere."""
    return flag(missing(nw.col(column), source.schema[column]))


def complete_rows(
    source: Source,
    numbers: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
    grouping: Grouping | None = None,
) -> Lazy:
    """The rows in which every named column has a value, with those columns under the names given.

    Parameters
    ----------
    source : Source
        The table.
    numbers, labels : mapping of str to str
        New names of columns: those of ``numbers`` become Float64, those of ``labels`` stay as they are.
    grouping : Grouping, optional
        Adds the keys of its dimensions (``__d0``, ``__d1``, ...), for `coded`; rows without a group are left out if
        the source drops them.
    """
    columns = {**numbers, **(labels or {})}
    kept = source.frame.filter(
        reduce(and_, (~missing(nw.col(column), source.schema[column]) for column in columns.values()))
    )
    keys = [] if grouping is None else list(grouping.keys.values())
    frame: Lazy = kept.select(
        *(nw.col(column).cast(nw.Float64).alias(name) for name, column in numbers.items()),
        *(nw.col(column).alias(name) for name, column in (labels or {}).items()),
        (source.number * source.weight).alias(LINES),
        *(key.alias(f"__d{i}") for i, key in enumerate(keys)),
    )
    if source.missing_group == "drop":
        for i in range(len(keys)):
            frame = frame.filter(~nw.col(f"__d{i}").is_null())
    return frame


def coded(frame: Lazy, grouping: Grouping, groups: tuple[Group, ...]) -> Lazy:
    """The rows of `complete_rows` that belong to ``groups``, with the number of their group as `GROUP`."""
    return frame.with_columns(code_of(grouping, groups).alias(GROUP)).filter(nw.col(GROUP) >= 0)


def code_of(grouping: Grouping, groups: tuple[Group, ...]) -> nw.Expr:
    """The number of the group of each of the rows of `complete_rows`; -1 where it belongs to none."""
    dimensions = {d.name: replace(d, key=nw.col(f"__d{i}")) for i, d in enumerate(grouping.dimensions)}
    rest = len(groups) == 2 and groups[1].items[0][0] == CONDITION
    code: nw.Expr = nw.lit(1 if rest else -1)
    for number, group in reversed(list(enumerate(groups[:1] if rest else groups))):
        levels = [dimensions[str(value) if name == CONDITION else name].holds(value) for name, value in group.items]
        code = nw.when(reduce(and_, levels)).then(nw.lit(number)).otherwise(code)
    return code


def person_codes(values: AnyArray) -> tuple[NDArray[np.int64], BoolArray | None]:
    """A number for each person from 0 up, and which rows have one (None: all)."""
    import polars as pl

    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size:  # dense enough to be its own code
            return (values - values.dtype.type(low)).astype(np.int64), None
    column = pl.Series(values, strict=False)
    if column.dtype == pl.Object:  # decimals, for one
        column = pl.Series([None if value is None else str(value) for value in values.tolist()])
    if column.dtype.is_float():
        column = column.fill_nan(None)
    known = column.is_not_null().to_numpy()
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical).to_physical()
    codes = (column.rank("dense").fill_null(1).cast(pl.Int64) - 1).to_numpy()
    return codes, None if known.all() else known
