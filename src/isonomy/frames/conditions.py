"""Conditions on one column, given as plain values: how an audit file says which rows are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from operator import and_
from typing import Literal, get_args

import narwhals as nw

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is missing", "is present"]
Scalar = bool | int | float | str | datetime | date

_COMPARISONS: dict[str, Callable[[nw.Expr, object], nw.Expr]] = {
    "==": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, values: column.is_in(values),
    "not in": lambda column, values: ~column.is_in(values),
    "is missing": lambda column, _: column.is_null(),
    "is present": lambda column, _: ~column.is_null(),
}
assert set(_COMPARISONS) == set(get_args(Operator))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows for which a column compares with a value; "in" and "not in" compare with several."""

    column: str
    operator: Operator
    value: Scalar | Sequence[Scalar] | None = None

    def problem(self) -> str | None:
        """Why the operator does not go with the value, if it does not."""
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

    def mismatch(self, dtype: nw.dtypes.DType) -> str | None:
        """Why a column of this type cannot be compared with this value, if it cannot."""
        fits = {
            "number": dtype.is_numeric(),
            "boolean": dtype == nw.Boolean,
            "text": is_text(dtype) or dtype == nw.Object,
            "date": dtype.is_temporal(),
        }
        if all(fits[kind] for kind in self.kinds):
            return None
        return f"column {self.column!r} is {dtype}; it cannot be compared with {self.value!r}"

    @property
    def kinds(self) -> set[str]:
        """The kinds of value compared with."""
        if self.value is None:
            return set()
        values = self.value if isinstance(self.value, (list, tuple)) else [self.value]
        return {_kind(value) for value in values}

    def expression(self) -> nw.Expr:
        """The condition over the table's rows."""
        return _COMPARISONS[self.operator](nw.col(self.column), self.value)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "date"


def all_of(comparisons: Iterable[Comparison]) -> nw.Expr | None:
    """The rows for which every comparison holds; None where there is none."""
    expressions = [comparison.expression() for comparison in comparisons]
    return reduce(and_, expressions) if expressions else None


def is_text(dtype: nw.dtypes.DType) -> bool:
    """Whether a column of this type holds text."""
    return dtype in (nw.String, nw.Categorical) or isinstance(dtype, nw.Enum)


def column(name: str) -> nw.Expr:
    """The column of that name."""
    return nw.col(name)
