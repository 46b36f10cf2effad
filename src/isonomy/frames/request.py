"""What a test asks of the rows, and what it gets: sums over the finest cells, or columns.

Values are checked in the pass that counts them, so that nothing is dropped silently and nothing is read twice. A 0/1
column enters the pass as a code, so the cells themselves show its other values; a numeric column adds one sum, the
number of its missing values. `complete` reads both off the collected cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from isonomy.errors import (
    BadCount,
    EmptyFrame,
    MissingGroups,
    MissingValues,
    NotBinary,
    OutOfRange,
    UnknownColumn,
    WrongType,
)
from isonomy.frames.adapt import Lazy, refuse_mixture
from isonomy.frames.design import Design
from isonomy.frames.expressions import LARGEST, DType, Schema, is_category, missing
from isonomy.frames.groups import Grouping, Partition, key_name
from isonomy.frames.sums import COUNT, collect
from isonomy.numerics.arrays import AnyArray, FloatArray

if TYPE_CHECKING:
    import polars as pl

COMPLETE = "complete"
_OTHER = 2


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What one test needs of the rows. Every mapping goes from a short role name.

    ``binary`` columns must hold 0 and 1 and become keys of the pass; ``numeric`` columns must be finite and may be
    used by the expressions in ``values``, which are summed; the expressions in ``keys`` are further keys; ``labels``
    are columns of any type that must have a value. ``binary`` and ``numeric`` name a column, or give an expression
    that is checked in the same way.
    """

    grouping: Grouping | None = None
    binary: Mapping[str, str | nw.Expr] = field(default_factory=dict)
    numeric: Mapping[str, str | nw.Expr] = field(default_factory=dict)
    keys: Mapping[str, nw.Expr] = field(default_factory=dict)
    values: Mapping[str, nw.Expr] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    probabilities: tuple[str, ...] = ()  # numeric roles that must lie in [0, 1]

    @property
    def needed(self) -> dict[str, str | nw.Expr]:
        """The roles that must have a value in every row, except the binary ones."""
        return {**self.numeric, **self.labels}


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What comes back from the rows: the finest cells in canonical order, or single rows.

    A line is a cell or a row. ``columns`` has one entry per line: binary roles (0 and 1), keys and, for rows, numbers
    and values; ``values`` has the sums over the rows of each cell. ``count`` is the number of rows of each line
    (None: 1). With weights or clusters there is a ``design``, and ``values`` are weighted by its masses.
    """

    columns: Mapping[str, AnyArray]
    count: FloatArray | None
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]
    size: int
    values: Mapping[str, FloatArray] = field(default_factory=dict)
    design: Design | None = None

    @property
    def rows(self) -> int:
        """The number of rows used; a line of the ``count`` column counts as that many."""
        return self.size if self.count is None else round(float(self.count.sum()))

    @property
    def counts(self) -> FloatArray:
        """The number of rows of each line."""
        return np.ones(self.size) if self.count is None else self.count

    @property
    def weight(self) -> FloatArray | None:
        """The weight of each line: its rows, or their weights scaled to sum to the rows; None: 1 each."""
        return self.count if self.design is None else self.design.mass

    @property
    def mass(self) -> FloatArray:
        """The weight of each line, as an array."""
        return np.ones(self.size) if self.weight is None else self.weight

    def weighing(self) -> Sample:
        """The lines with a positive weight."""
        if self.design is None or bool((self.design.mass > 0).all()):
            return self
        lines = np.flatnonzero(self.design.mass > 0)
        return replace(
            self,
            columns={name: column[lines] for name, column in self.columns.items()},
            count=None if self.count is None else self.count[lines],
            partitions=tuple(replace(part, codes=part.codes[lines]) for part in self.partitions),
            size=lines.size,
            values={name: column[lines] for name, column in self.values.items()},
            design=self.design.restricted(lines),
        )


def name_of(kind: str, role: str) -> str:
    """The column of a pass for a role: the table may have a column with the role's name."""
    return f"{kind} {role}"


def binary_code(column: nw.Expr, dtype: DType, *, few: bool = False) -> nw.Expr:
    """0 and 1 as they are, null for missing, another number for anything else.

    The pass groups by it, so it must take few values; with ``few`` the column itself does.
    """
    if few or dtype == nw.Boolean:
        return column
    if dtype.is_unsigned_integer():
        return column.clip(upper_bound=_OTHER)
    if dtype.is_integer():
        return column.clip(-1, _OTHER)  # one cheap operation; two codes stand for "other"
    number = column.cast(nw.Float64)
    one_or_other = nw.when(number == 1).then(nw.lit(1)).otherwise(nw.lit(_OTHER))
    zero_or_more = nw.when(number == 0).then(nw.lit(0)).otherwise(one_or_other)
    return nw.when(~missing(column, dtype)).then(zero_or_more)


def role_expression(schema: Schema, column: str | nw.Expr) -> tuple[nw.Expr, DType]:
    """The expression behind a role and its type; an expression counts as a number."""
    if isinstance(column, str):
        return nw.col(column), schema[column]
    return column.cast(nw.Float64), nw.Float64()


def check_types(schema: Schema, request: Request, frame: Lazy) -> None:
    """Names and types, before any row is read."""
    for role, column in (*request.binary.items(), *request.numeric.items()):
        if isinstance(column, nw.Expr):
            continue
        if not isinstance(column, str) or column not in schema:
            raise UnknownColumn(role, column, schema)
        if is_category(schema[column]):
            _refuse_objects(frame, column, schema[column])
            need = "0 and 1" if role in request.binary else "numbers"
            raise WrongType(f"{role}: column {column!r} is {schema[column]}; it must hold {need}. Recode it first.")
    named = [d.name for d in request.grouping.every if d.name in schema] if request.grouping else []
    for column in (*named, *request.labels.values()):
        _refuse_objects(frame, column, schema[column])


def _refuse_objects(frame: Lazy, column: str, dtype: DType) -> None:
    """Raise for a column of pandas objects, and say what it holds."""
    if dtype == nw.Object:
        values = collect(frame.select(column))[column].to_list()
        refuse_mixture(column, values)
        kind = type(next((value for value in values if value is not None), None)).__name__
        raise WrongType(f"data: column {column!r} holds {kind} objects; use text, numbers, booleans or dates.")


def refuse_nested(schema: Schema, argument: str, column: str | None) -> None:
    """Raise if a column that identifies people or groups holds lists, structures or bytes."""
    if column is not None and isinstance(schema[column], (nw.List, nw.Array, nw.Struct, nw.Binary)):
        raise WrongType(f"{argument}: column {column!r} is {schema[column]}; use text, numbers or dates.")


def refuse_bad_counts(column: str, n: float) -> None:
    """Raise if ``n`` rows have a count that is not a whole number from 0 up."""
    if n:
        raise BadCount(
            f"count: column {column!r} has {n:,.0f} rows that are missing, negative or fractional; "
            "counts are whole numbers from 0 up."
        )


def complete(
    request: Request, cells: pl.DataFrame, *, missing: str, missing_group: str
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Raise for missing and non-0/1 values, or drop and count those that the options allow to drop."""
    import polars as pl

    count = cells[COUNT].to_numpy()
    if count.sum() == 0:
        raise EmptyFrame("data: the table has no rows.")
    dropped: dict[str, int] = {}
    keep = np.ones(len(cells), dtype=bool)

    def named(column: str | nw.Expr) -> str:
        return f"column {column!r}" if isinstance(column, str) else "the expression"

    def note_missing(role: str, column: str | nw.Expr, n: float) -> None:
        if n and missing == "raise":
            raise MissingValues(
                f"{role}: {named(column)} has {n:,.0f} rows with a null, NaN or infinite value "
                f"(beyond {LARGEST:g} counts as infinite). "
                'Fix them, or leave those rows out and have them counted, with missing="drop".'
            )
        if n:
            dropped[column if isinstance(column, str) else role] = round(n)

    for role, column in request.binary.items():
        codes = cells[name_of("role", role)]
        nulls = codes.is_null().to_numpy()
        other = (codes.cast(pl.Int16) * (1 - codes.cast(pl.Int16)) != 0).fill_null(False).to_numpy()
        if n := count[other].sum():
            raise NotBinary(
                f"{role}: {named(column)} has {n:,.0f} rows that are neither 0 nor 1. "
                "Recode the column, or choose a metric for numbers."
            )
        note_missing(role, column, float(count[nulls].sum()))
        keep &= ~nulls
    for role, column in request.needed.items():
        note_missing(role, column, float(cells[name_of("missing", role)].sum()))
    for role in request.probabilities:
        if n := cells[name_of("outside", role)].sum():
            raise OutOfRange(
                f"{role}: {named(request.numeric[role])} has {n:,.0f} rows outside [0, 1]; probabilities are needed. "
                "Rescale the column, or choose a metric for numbers such as mse."
            )
    if request.needed:
        keep &= cells[COMPLETE].to_numpy()
    for dimension in request.grouping.every if request.grouping else ():
        null = cells[key_name(dimension.name)].is_null().to_numpy()
        n = count[null].sum()
        if n and missing_group == "raise":
            assert request.grouping is not None
            argument, kind = ("given", "stratum") if dimension in request.grouping.strata else ("groups", "group")
            raise MissingGroups(
                f'{argument}: {dimension.name!r} has {n:,.0f} rows with no value. Pass missing_group="level" to make '
                f'them a {kind} of their own, or missing_group="drop" to leave them out and have them counted.'
            )
        if n and missing_group == "drop":
            dropped[dimension.name] = round(n)
            keep &= ~null
    if not count[keep].sum():
        raise EmptyFrame("data: no row is left after dropping those with missing values.")
    if not keep.all():
        cells = cells.filter(pl.Series(keep))
    return cells.with_columns(pl.col(name_of("role", role)).cast(pl.Int8) for role in request.binary), dropped
