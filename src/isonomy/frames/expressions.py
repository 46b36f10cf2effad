"""Expressions over a table's columns, and conditions given as plain values, as audit files write them.

Topics build expressions with these functions, so that none of them depends on an engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np

DType = nw.dtypes.DType
Schema = Mapping[str, DType]
Expression = nw.Expr
Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is missing", "is present"]
Scalar = bool | int | float | str | datetime | date

column = nw.col
LARGEST = 1e70  # larger numbers count as infinite: no sum can hold their fourth powers


def missing(expr: nw.Expr, dtype: DType) -> nw.Expr:
    """Null, NaN or infinite. Not by ``is_nan``: DuckDB does not recognize NaN read from parquet."""
    return expr.is_null() | ~(expr.abs() <= LARGEST) if dtype.is_float() else expr.is_null()


def flag(condition: nw.Expr) -> nw.Expr:
    """1 where the condition holds, else 0 (also where it is null). Spark cannot sum booleans."""
    return either(condition, 1.0, 0.0)


def number(column: str | nw.Expr) -> nw.Expr:
    return (nw.col(column) if isinstance(column, str) else column).cast(nw.Float64)


def is_text(dtype: DType) -> bool:
    return dtype in (nw.String, nw.Categorical) or isinstance(dtype, nw.Enum)


def is_category(dtype: DType) -> bool:
    """Whether a column is used by its levels: it holds neither numbers nor truth values."""
    return not (dtype.is_numeric() or dtype == nw.Boolean)


def text(column: str) -> nw.Expr:
    return nw.col(column).cast(nw.String)


def constant(value: float) -> nw.Expr:
    return nw.lit(float(value))


def either(condition: nw.Expr, value: nw.Expr | float, otherwise: nw.Expr | float) -> nw.Expr:
    """``value`` where the condition holds, ``otherwise`` elsewhere (also where it is null)."""
    first, second = (x if isinstance(x, nw.Expr) else constant(x) for x in (value, otherwise))
    return nw.when(condition).then(first).otherwise(second)


def linear(
    columns: Sequence[str], coefficients: Sequence[float], intercept: float = 0.0, origin: Sequence[float] = ()
) -> nw.Expr:
    """The intercept plus the sum of coefficient times (column less its origin, 0 by default)."""
    total = constant(intercept)
    for column, coefficient, zero in zip(columns, coefficients, origin or [0.0] * len(columns), strict=True):
        total = total + (number(column) - float(zero)) * float(coefficient)
    return total


def levels(column: str, values: Mapping[object, float]) -> nw.Expr:
    """The number of each level of a column; null for a level without one."""
    result = nw.lit(None, nw.Float64)
    for level, value in values.items():
        result = nw.when(nw.col(column) == level).then(constant(value)).otherwise(result)
    return result


def infinite(value: nw.Expr) -> nw.Expr:
    return value.abs() == np.inf


_COMPARISONS: dict[str, Callable[[nw.Expr, Any], nw.Expr]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "in": lambda column, values: column.is_in(values),
    "not in": lambda column, values: ~column.is_in(values),
    "is missing": lambda column, _: column.is_null(),
    "is present": lambda column, _: ~column.is_null(),
}
assert set(_COMPARISONS) == set(get_args(Operator))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows in which a column compares with a value; "in" and "not in" take several."""

    column: str
    operator: Operator
    value: Scalar | Sequence[Scalar] | None = None

    def problem(self) -> str | None:
        """Why the operator cannot be used with the value; None if it can."""
        listed = isinstance(self.value, (list, tuple))
        if self.operator in ("is missing", "is present"):
            return None if self.value is None else f'op "{self.operator}" takes no value; leave the key out'
        if self.value is None:
            return f'op "{self.operator}" needs a value'
        if listed != (self.operator in ("in", "not in")):
            return f'op "{self.operator}" takes {"one value" if listed else "a list of values"}'
        if listed and len(self.kinds) != 1:
            return f'op "{self.operator}" takes a list of values of one type, and at least one'
        return None

    def mismatch(self, dtype: DType) -> str | None:
        """Why a column of this type cannot be compared with the value; None if it can."""
        fits = {
            "number": dtype.is_numeric(),
            "boolean": dtype == nw.Boolean,
            "text": is_text(dtype) or dtype == nw.Object,
            "date": dtype.is_temporal(),
        }
        if all(fits[kind] for kind in self.kinds):
            return None
        hint = "; write dates as 2026-11-10" if fits["date"] else "; write it in quotes" if fits["text"] else ""
        return f"column {self.column!r} is {dtype}; it cannot be compared with {self.value!r}{hint}"

    def dated(self, dtype: DType | None) -> object:
        """The value with dates in place of their text, if the column holds dates."""
        read = datetime.fromisoformat if dtype == nw.Datetime else date.fromisoformat
        if dtype in (nw.Date, nw.Datetime) and self.kinds == {"text"}:
            with contextlib.suppress(ValueError):  # `mismatch` says so
                return [read(text) for text in self.value] if isinstance(self.value, list) else read(str(self.value))
        return self.value

    @property
    def kinds(self) -> set[str]:
        if self.value is None:
            return set()
        values = self.value if isinstance(self.value, (list, tuple)) else [self.value]
        kinds = ((bool, "boolean"), ((int, float), "number"), (str, "text"), (object, "date"))
        return {next(name for kind, name in kinds if isinstance(value, kind)) for value in values}

    def expression(self) -> nw.Expr:
        return _COMPARISONS[self.operator](nw.col(self.column), self.value)


def all_of(comparisons: Iterable[Comparison]) -> nw.Expr | None:
    """The rows in which every comparison holds; None if there is no comparison."""
    expressions = [comparison.expression() for comparison in comparisons]
    return reduce(and_, expressions) if expressions else None
