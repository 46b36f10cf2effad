"""Values checked in the pass that counts them: nothing is dropped silently, nothing is read twice.

A 0/1 column enters the pass as a code, so the cells themselves show what else it holds; a numeric column brings one
extra sum, the number of its missing values. `complete` reads both off the collected cells.
"""

from __future__ import annotations

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
from isonomy.frames.groups import key_name
from isonomy.frames.request import Request
from isonomy.frames.sums import COUNT, LARGEST, DType, Schema, collect, missing

if TYPE_CHECKING:
    import polars as pl

COMPLETE = "complete"
_OTHER = 2


def name_of(kind: str, role: str) -> str:
    """The column of a pass that holds something of a role: a key of yours may be called like a role of ours."""
    return f"{kind} {role}"


def flag(condition: nw.Expr) -> nw.Expr:
    """1 where the condition holds, else 0 (a null condition does not hold). Spark cannot sum booleans."""
    return nw.when(condition).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def coded(column: nw.Expr, dtype: DType, *, few: bool = False) -> nw.Expr:
    """0 and 1 as they are, null for missing, any other number for anything else.

    The pass groups by it, so the other numbers must be few; ``few`` says that they are, whatever they are.
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


def checked(schema: Schema, column: str | nw.Expr) -> tuple[nw.Expr, DType]:
    """The expression behind a role and its type; an expression is taken as a number."""
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
        dtype = schema[column]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            _refuse_objects(frame, column, dtype)
            need = "0 and 1" if role in request.binary else "numbers"
            raise WrongType(f"{role}: column {column!r} is {dtype}; it must hold {need}. Recode it first.")
    named = [d.name for d in request.grouping.every if d.name in schema] if request.grouping else []
    for column in (*named, *request.labels.values()):
        _refuse_objects(frame, column, schema[column])


def _refuse_objects(frame: Lazy, column: str, dtype: DType) -> None:
    """A column of objects (from pandas) has no type of its own: say what it holds."""
    if dtype == nw.Object:
        values = collect(frame.select(column))[column].to_list()
        refuse_mixture(column, values)
        kind = type(next((value for value in values if value is not None), None)).__name__
        raise WrongType(f"data: column {column!r} holds {kind} objects; use text, numbers, booleans or dates.")


def refuse_nested(schema: Schema, argument: str, column: str | None) -> None:
    """Raise if a column that says who or what a row belongs to holds lists, structures or bytes."""
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
    """Raise about missing and non-0/1 values, or drop and count those that the options allow to drop."""
    import polars as pl

    count = cells[COUNT].to_numpy()
    if count.sum() == 0:
        raise EmptyFrame("data: the table has no rows.")
    dropped: dict[str, int] = {}
    keep = np.ones(len(cells), dtype=bool)
    for role, column in request.binary.items():
        codes = cells[name_of("role", role)]
        nulls = codes.is_null().to_numpy()
        other = (codes.cast(pl.Int16) * (1 - codes.cast(pl.Int16)) != 0).fill_null(False).to_numpy()
        if n := count[other].sum():
            raise NotBinary(
                f"{role}: {_named(column)} has {n:,.0f} rows that are neither 0 nor 1. "
                "Recode the column, or choose a metric for numbers."
            )
        _note_missing(dropped, role, column, float(count[nulls].sum()), missing)
        keep &= ~nulls
    for role, column in request.needed.items():
        _note_missing(dropped, role, column, float(cells[name_of("missing", role)].sum()), missing)
    for role in request.probabilities:
        if n := cells[name_of("outside", role)].sum():
            raise OutOfRange(
                f"{role}: {_named(request.numeric[role])} has {n:,.0f} rows outside [0, 1]; probabilities are needed. "
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


def _named(column: str | nw.Expr) -> str:
    return f"column {column!r}" if isinstance(column, str) else "the expression"


def _note_missing(dropped: dict[str, int], role: str, column: str | nw.Expr, n: float, option: str) -> None:
    if n and option == "raise":
        raise MissingValues(
            f"{role}: {_named(column)} has {n:,.0f} rows with a null, NaN or infinite value "
            f"(beyond {LARGEST:g} counts as infinite). "
            'Fix them, or leave those rows out and have them counted, with missing="drop".'
        )
    if n:
        dropped[column if isinstance(column, str) else role] = round(n)
