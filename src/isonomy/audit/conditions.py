"""Filters, groups and metrics as an audit file writes them: tables of plain values, never text that is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from functools import reduce
from operator import and_
from typing import Annotated, Any, Literal

import narwhals as nw
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from isonomy.errors import ConfigError
from isonomy.frames import cut, where
from isonomy.frames.metrics import Metric
from isonomy.likelihood.reference import Estimate

Scalar = bool | int | float | str | datetime | date


class Table(BaseModel):
    """A table of the audit file. Unknown keys, wrong types and non-finite numbers are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


_COMPARE = {
    "==": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column.is_in(value),
    "not in": lambda column, value: ~column.is_in(value),
    "is missing": lambda column, value: column.is_null(),
    "is present": lambda column, value: ~column.is_null(),
}


class Condition(Table):
    """Rows for which a column compares with a value, such as `{column = "age", op = "<", value = 25}`."""

    column: str
    """The column's name."""
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is missing", "is present"] = "=="
    """How to compare. "in" and "not in" take a list; "is missing" and "is present" take no value."""
    value: Scalar | list[Scalar] | None = None
    """What to compare with."""

    @model_validator(mode="after")
    def _value_fits(self) -> Condition:
        listed, missing = isinstance(self.value, list), self.value is None
        if self.op in ("is missing", "is present"):
            if not missing:
                raise ValueError(f'op "{self.op}" takes no value; leave the key out')
        elif missing:
            raise ValueError(f'op "{self.op}" needs a value')
        elif listed != (self.op in ("in", "not in")):
            raise ValueError(f'op "{self.op}" takes {"one value" if listed else "a list of values"}')
        elif listed and len({_kind(v) for v in self.value}) != 1:  # type: ignore[union-attr]
            raise ValueError(f'op "{self.op}" takes a list of values of one type, and at least one')
        return self

    def expression(self) -> nw.Expr:
        """The condition over the table's rows."""
        return _COMPARE[self.op](nw.col(self.column), self.value)

    def problem(self, dtype: Any) -> str | None:
        """Why a column of this type cannot be compared with this value, if it cannot."""
        values = self.value if isinstance(self.value, list) else [self.value]
        if self.value is None:
            return None
        kinds = {_kind(value) for value in values}
        fits = {
            "number": dtype.is_numeric(),
            "boolean": dtype == nw.Boolean,
            "text": dtype in (nw.String, nw.Categorical, nw.Object) or isinstance(dtype, nw.Enum),
            "date": dtype.is_temporal(),
        }
        if all(fits[kind] for kind in kinds):
            return None
        return f"column {self.column!r} is {dtype}; it cannot be compared with {self.value!r}"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "date"


def all_of(conditions: list[Condition]) -> nw.Expr | None:
    """The rows for which every condition holds; None where there is no condition."""
    return reduce(and_, (condition.expression() for condition in conditions)) if conditions else None


class Cut(Table):
    """Groups made by cutting a numeric column, such as `{column = "age", edges = [25, 45]}`."""

    column: str
    """The numeric column."""
    edges: list[float] = Field(min_length=1)
    """Increasing numbers; each interval holds its lower edge."""

    @model_validator(mode="after")
    def _increasing(self) -> Cut:
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError(f"edges {self.edges} must increase")
        return self


class Where(Table):
    """A named group: the rows that meet every condition."""

    name: str = Field(min_length=1)
    """What the group is called in the report."""
    where: list[Condition] = Field(min_length=1)
    """All of these must hold."""


def _group_tag(given: Any) -> str:
    if isinstance(given, Mapping):
        return "where" if "where" in given or "name" in given else "cut"
    return "where" if isinstance(given, Where) else "cut" if isinstance(given, Cut) else "column"


GroupSpec = Annotated[
    Annotated[str, Tag("column")] | Annotated[Cut, Tag("cut")] | Annotated[Where, Tag("where")],
    Discriminator(_group_tag),
]


class OwnMetric(Table):
    """A metric of your own: the mean of a column over the rows that meet every condition."""

    name: str = Field(min_length=1)
    """What the metric is called in the report."""
    value: str
    """The column to average."""
    where: list[Condition] = Field(default_factory=list)
    """Rows that count; without conditions, all."""
    binary: bool = False
    """Whether the column holds 0 and 1 only."""


class EstimateOf(Table):
    """A reference estimated elsewhere, from the same rows."""

    value: float
    """The estimate."""
    influence: str
    """The column with each row's influence on it."""


def _reference_tag(given: Any) -> str:
    ours = isinstance(given, EstimateOf) or (isinstance(given, Mapping) and "influence" in given)
    return "estimate" if ours else "other"


def _any_of(schema: dict[str, Any]) -> None:
    """An estimate is a table of plain values too, so a schema that asks for exactly one of the forms refuses it."""
    schema["anyOf"] = schema.pop("oneOf")


Reference = Annotated[
    Annotated[EstimateOf, Tag("estimate")]
    | Annotated[Literal["population", "rest"] | float | dict[str, Scalar], Tag("other")],
    Discriminator(_reference_tag),
    Field(json_schema_extra=_any_of),
]


def group(spec: str | Cut | Where) -> Any:
    """The group as isonomy's functions take it."""
    if isinstance(spec, Cut):
        return cut(spec.column, spec.edges)
    if isinstance(spec, Where):
        condition = all_of(spec.where)
        if condition is None:
            raise ConfigError(f"groups: {spec.name!r} has no condition.")
        return where(spec.name, condition)
    return spec


def metric(spec: str | OwnMetric) -> str | Metric:
    """The metric as isonomy's functions take it."""
    if isinstance(spec, str):
        return spec
    return Metric(spec.name, value=nw.col(spec.value), where=all_of(spec.where), binary=spec.binary)


def reference(spec: object) -> object:
    """The reference as isonomy's functions take it."""
    return Estimate(spec.value, spec.influence) if isinstance(spec, EstimateOf) else spec


def columns_of(spec: object) -> Iterator[tuple[str, Condition | Cut | None]]:
    """The columns a group, a metric or a condition reads, each with what compares or cuts it."""
    if isinstance(spec, str):
        yield spec, None
    elif isinstance(spec, (Condition, Cut)):
        yield spec.column, spec
    elif isinstance(spec, EstimateOf):
        yield spec.influence, None
    elif isinstance(spec, (Where, OwnMetric)):
        if isinstance(spec, OwnMetric):
            yield spec.value, None
        for condition in spec.where:
            yield condition.column, condition
