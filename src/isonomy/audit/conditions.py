"""Filters, groups, metrics and references as an audit file writes them: plain values, never text that is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from isonomy.frames import Metric, conditions, cut, where
from isonomy.frames.conditions import Comparison, Operator, Scalar
from isonomy.frames.metrics import BUNDLES, NAMES
from isonomy.likelihood import Estimate


class Table(BaseModel):
    """A table of the audit file. Unknown keys, wrong types and non-finite numbers are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Condition(Table):
    """Rows for which a column compares with a value, such as `{column = "age", op = "<", value = 25}`."""

    column: str
    """The column's name."""
    op: Operator = "=="
    """How to compare. "in" and "not in" take a list; "is missing" and "is present" take no value."""
    value: Scalar | list[Scalar] | None = None
    """What to compare with."""

    @model_validator(mode="after")
    def _value_fits(self) -> Condition:
        if problem := self.comparison.problem():
            raise ValueError(problem)
        return self

    @property
    def comparison(self) -> Comparison:
        """The condition as the table's rows are asked."""
        return Comparison(self.column, self.op, self.value)


class Role(Table):
    """A 0/1 role said as a condition: 1 where a column has a value, such as `{column = "deny", equals = "no"}`."""

    column: str
    """The column's name."""
    equals: Scalar | list[Scalar]
    """The value, or the values, that count as 1; any other counts as 0."""

    @model_validator(mode="after")
    def _value_fits(self) -> Role:
        if problem := Comparison(self.column, *self._asked).problem():
            raise ValueError(f"equals: {problem}")
        return self

    @property
    def _asked(self) -> tuple[Operator, Scalar | list[Scalar]]:
        return ("in" if isinstance(self.equals, list) else "=="), self.equals

    @property
    def condition(self) -> Condition:
        """The condition under which the role is 1."""
        operator, value = self._asked
        return Condition(column=self.column, op=operator, value=value)


class Cut(Table):
    """Groups made by cutting a numeric column, such as `{column = "age", edges = [25, 45]}`."""

    column: str
    """The numeric column."""
    edges: list[float] = Field(min_length=1)
    """Increasing numbers; each interval holds its lower edge."""

    @model_validator(mode="after")
    def _increasing(self) -> Cut:
        if any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges} must increase")
        return self


class Where(Table):
    """A named group: the rows that meet every condition."""

    name: str = Field(min_length=1)
    """What the group is called in the report."""
    where: list[Condition] = Field(min_length=1)
    """All of these must hold."""


def _group_tag(given: object) -> str:
    if isinstance(given, Mapping):
        return "where" if "where" in given or "name" in given else "cut"
    return "where" if isinstance(given, Where) else "cut" if isinstance(given, Cut) else "column"


GroupSpec = Annotated[
    Annotated[str, Tag("column")] | Annotated[Cut, Tag("cut")] | Annotated[Where, Tag("where")],
    Discriminator(_group_tag),
]

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[(*NAMES, *BUNDLES)]


class OwnMetric(Table):
    """A metric of your own: the mean (or a quantile) of a column over the rows that meet every condition."""

    name: str = Field(min_length=1)
    """What the metric is called in the report."""
    value: str
    """The column to average."""
    where: list[Condition] = Field(default_factory=list)
    """Rows that count; without conditions, all."""
    binary: bool = False
    """Whether the column holds 0 and 1 only."""
    quantile: float | None = Field(default=None, gt=0, lt=1)
    """A quantile instead of the mean; 0.5 is the median."""


class EstimateOf(Table):
    """A reference estimated elsewhere, from the same rows."""

    value: float
    """The estimate."""
    influence: str
    """The column with each row's influence on it."""


def _reference_tag(given: object) -> str:
    ours = isinstance(given, EstimateOf) or (isinstance(given, Mapping) and "influence" in given)
    return "estimate" if ours else "other"


def _any_of(schema: dict[str, object]) -> None:
    """An estimate is a table of plain values too, so a schema that asks for exactly one of the forms refuses it."""
    schema["anyOf"] = schema.pop("oneOf")


Reference = Annotated[
    Annotated[EstimateOf, Tag("estimate")]
    | Annotated[Literal["population", "rest", "highest", "lowest"] | float | dict[str, Scalar], Tag("other")],
    Discriminator(_reference_tag),
    Field(json_schema_extra=_any_of),
]


def groups(spec: object) -> object:
    """One group or several, as isonomy's functions take them."""
    if isinstance(spec, list):
        return [groups(one) for one in spec]
    if isinstance(spec, Cut):
        return cut(spec.column, spec.edges)
    if isinstance(spec, Where):
        condition = conditions.all_of(part.comparison for part in spec.where)
        assert condition is not None  # the model asks for at least one
        return where(spec.name, condition)
    return spec


def role(spec: object) -> object:
    """A column, or the condition that makes one, as isonomy's functions take it."""
    return spec.condition.comparison.expression() if isinstance(spec, Role) else spec


def metric(spec: object) -> object:
    """The metric as isonomy's functions take it."""
    if isinstance(spec, list):
        return [metric(one) for one in spec]
    if not isinstance(spec, OwnMetric):
        return spec
    inside = conditions.all_of(part.comparison for part in spec.where)
    value = conditions.column(spec.value)
    return Metric(spec.name, value=value, where=inside, binary=spec.binary, quantile=spec.quantile)


def reference(spec: object) -> object:
    """The reference as isonomy's functions take it."""
    return Estimate(spec.value, spec.influence) if isinstance(spec, EstimateOf) else spec


def columns_of(spec: object) -> Iterator[tuple[str, Condition | Cut | None]]:
    """The columns a role, a group, a metric or a condition reads, each with what compares or cuts it."""
    if isinstance(spec, str):
        yield spec, None
    elif isinstance(spec, Role):
        yield spec.column, spec.condition
    elif isinstance(spec, (Condition, Cut)):
        yield spec.column, spec
    elif isinstance(spec, EstimateOf):
        yield spec.influence, None
    elif isinstance(spec, (Where, OwnMetric)):
        if isinstance(spec, OwnMetric):
            yield spec.value, None
        for condition in spec.where:
            yield condition.column, condition
