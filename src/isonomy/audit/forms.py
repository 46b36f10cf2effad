"""How an audit file writes each argument: the annotations of the public functions, in the words of a file.

Plain types, words (`Literal`) and numbers within limits are written as they are. An argument with a `Form` is written
as the table below says; a new form needs a row here, a new keyword of a known form needs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, Field

from isonomy.alternatives import CRITERIA, READY, RULES
from isonomy.audit.conditions import (
    Condition,
    Cut,
    GroupSpec,
    MetricName,
    OwnMetric,
    Reference,
    Role,
    Table,
    columns_of,
    groups,
    metric,
    reference,
    role,
)
from isonomy.frames.conditions import Scalar
from isonomy.options import form_of, members

Column = tuple[str, Condition | Cut | None]  # a column, and what compares or cuts it


if TYPE_CHECKING:
    UtilityName = str
    RuleName = str
else:
    UtilityName = Literal[(*READY, *CRITERIA)]
    RuleName = Literal[RULES]


class UtilityOf(Table):
    """A utility that looks at an outcome column of its own."""

    utility: UtilityName
    outcome: str


Utility = UtilityName | UtilityOf


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """One form: its type in a file, the columns a value names, and the value as the function takes it.

    ``note`` describes the key where a file writes it in another way than a call does.
    """

    type: object
    columns: Callable[[object], Iterator[Column]]
    ready: Callable[[object], object]
    note: str = ""


def _no_columns(value: object) -> Iterator[Column]:
    return iter(())


def _named(value: object) -> Iterator[Column]:
    for spec in value if isinstance(value, list) else [value]:
        yield from columns_of(spec)


def _listed(value: object) -> Iterator[Column]:
    return _named(list(value.values()) if isinstance(value, Mapping) else value)


def _unless_a_word(value: object) -> Iterator[Column]:
    return iter(()) if isinstance(value, str) else columns_of(value)


def _unless_words(value: object) -> Iterator[Column]:
    for spec in value if isinstance(value, list) else [value]:
        yield from _unless_a_word(spec)


def _split(value: object) -> Iterator[Column]:
    return iter(()) if value == "independent" else columns_of(value)


def _outcomes(value: object) -> Iterator[Column]:
    utilities = value if isinstance(value, list) else [value]
    return ((utility.outcome, None) for utility in utilities if isinstance(utility, UtilityOf))


def _no_condition(value: dict[str, str]) -> dict[str, str]:
    """Candidates by their names; a condition looks like two of them."""
    if value.keys() == {"column", "equals"}:
        raise ValueError("a condition cannot be a candidate; name a column of 0 and 1")
    return value


def plain(value: object) -> object:
    """A value of the file in plain types: tables as mappings."""
    if isinstance(value, Table):
        return value.model_dump(mode="python", exclude_unset=True)
    return [plain(item) for item in value] if isinstance(value, list) else value


def _pairs(value: object) -> object:
    return {label: tuple(pair) for label, pair in value.items()} if isinstance(value, Mapping) else value


_PAIR = Annotated[list[float], Field(min_length=2, max_length=2)]

FORMS: dict[str, Written] = {
    "column": Written(str | Role, _named, role),
    "names": Written(list[str], _named, plain),
    "groups": Written(
        GroupSpec | list[GroupSpec],
        _named,
        groups,
        "Whom to compare: column names, `{column, edges}`, `{name, where}`.",
    ),
    "given": Written(
        GroupSpec | list[GroupSpec],
        _named,
        groups,
        "Legitimate factors to compare within: column names, `{column, edges}`, `{name, where}`.",
    ),
    "metric": Written(
        MetricName | OwnMetric | list[MetricName | OwnMetric],
        _unless_words,
        metric,
        "The quantity to compare: a name, `{name, value, where, binary}`, or a list of these.",
    ),
    "reference": Written(
        Reference,
        _unless_a_word,
        reference,
        'What groups are compared with: "population", "rest", "highest", "lowest", a number, a group such as '
        '`{race = "White"}`, or '
        "`{value, influence}`: an estimate with a column of its influence values.",
    ),
    "comparator": Written(
        Literal["highest"] | dict[str, Scalar],
        _no_columns,
        plain,
        'What each table compares with: "highest", or a level of every column of groups.',
    ),
    "group": Written(str | dict[str, Scalar], _no_columns, plain),
    "utility": Written(Utility, _outcomes, plain),
    "utilities": Written(Utility | list[Utility], _outcomes, plain),
    "rule": Written(RuleName | list[RuleName], _no_columns, plain, "What finds a candidate from the features."),
    "candidates": Written(str | list[str] | Annotated[dict[str, str], AfterValidator(_no_condition)], _listed, plain),
    "split": Written(str, _split, plain),
    "observed_effects": Written(dict[str, _PAIR], _no_columns, _pairs),
    "seed": Written(
        Annotated[int, Field(ge=0)] | None,
        _no_columns,
        plain,
        "A seed of its own; without it, one made from the audit's seed and the test's id.",
    ),
}
_OTHER = Written(None, _no_columns, plain)


def written(annotation: object) -> Written:
    """How values of an annotation are written, read and used."""
    name = form_of(annotation)
    return _OTHER if name is None else FORMS[name]


def in_a_file(annotation: object) -> Any:
    """An annotation as a file can say it: objects and arrays are left out, sequences are lists."""
    kept = [part for member in members(annotation) if (part := _member(member)) is not _UNWRITABLE]
    if not kept or kept == [None]:
        raise TypeError(f"{annotation!r} cannot be written in an audit file; give it a Form, and a row in FORMS")
    return reduce(or_, kept) if len(kept) > 1 else kept[0]


_UNWRITABLE = object()


def _member(annotation: object) -> Any:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return written(annotation).type or annotation
    if origin is Literal or annotation in (bool, int, float, str):
        return annotation
    if annotation in (None, NoneType):
        return None
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, Scalar if inner[1] is object else in_a_file(inner[1])]  # type: ignore[misc]
    if origin is tuple and inner[-1] is not Ellipsis:
        fixed = in_a_file(reduce(or_, inner))
        return Annotated[list[fixed], Field(min_length=len(inner), max_length=len(inner))]  # type: ignore[valid-type]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return Annotated[list[in_a_file(inner[0])], Field(min_length=1)]  # type: ignore[misc]
    return _UNWRITABLE
