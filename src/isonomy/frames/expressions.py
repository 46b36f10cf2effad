"""Expressions of columns that methods ask for in plain data, so that none of them builds one for an engine itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import narwhals as nw
import numpy as np

from isonomy.frames.sums import DType

Expression = nw.Expr


def number(column: str | nw.Expr) -> nw.Expr:
    """A column, or what an expression gives, as a number."""
    return (nw.col(column) if isinstance(column, str) else column).cast(nw.Float64)


def is_category(dtype: DType) -> bool:
    """Whether a column is used by its levels: it holds neither numbers nor truth values."""
    return not (dtype.is_numeric() or dtype == nw.Boolean)


def text(column: str) -> nw.Expr:
    """A column of any type as text."""
    return nw.col(column).cast(nw.String)


def constant(value: float) -> nw.Expr:
    """The same number for every row."""
    return nw.lit(float(value))


def either(condition: nw.Expr, value: nw.Expr | float, otherwise: nw.Expr | float) -> nw.Expr:
    """One value where the condition holds, another elsewhere (where it is null, too)."""
    first, second = (x if isinstance(x, nw.Expr) else constant(x) for x in (value, otherwise))
    return nw.when(condition).then(first).otherwise(second)


def linear(
    columns: Sequence[str], coefficients: Sequence[float], intercept: float = 0.0, origin: Sequence[float] = ()
) -> nw.Expr:
    """The intercept, and the sum of each column (less its origin, 0 unless given) times its coefficient."""
    total = constant(intercept)
    for column, coefficient, zero in zip(columns, coefficients, origin or [0.0] * len(columns), strict=True):
        total = total + (number(column) - float(zero)) * float(coefficient)
    return total


def levels(column: str, values: Mapping[object, float]) -> nw.Expr:
    """The number that belongs to each level of a column; null for a level that has none."""
    result = nw.lit(None, nw.Float64)
    for level, value in values.items():
        result = nw.when(nw.col(column) == level).then(constant(value)).otherwise(result)
    return result


def among(columns: Sequence[str], points: Sequence[Sequence[float]]) -> nw.Expr:
    """Whether the columns together are one of the points listed."""
    listed = (
        nw.all_horizontal(*(number(c) == float(v) for c, v in zip(columns, point, strict=True)), ignore_nulls=True)
        for point in points
    )
    return nw.any_horizontal(*listed, ignore_nulls=True)


def infinite(value: nw.Expr) -> nw.Expr:
    """Whether a number is infinite, of either sign."""
    return value.abs() == np.inf
