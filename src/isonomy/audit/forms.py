"""How an audit file writes each argument of a public function: plain values, never text that is evaluated.

Plain types, words (`Literal`) and numbers within limits are written as they are. An argument with a `Form` is written
as the table `FORMS` says, and an `Option` as a table with one key, its name. A new form needs a row in `FORMS`; a new
keyword of a known form, or a new option, needs nothing here.
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial, reduce
from itertools import pairwise
from operator import or_
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    create_model,
    model_validator,
)

import isonomy
from isonomy.alternatives import CRITERIA, READY, RULES
from isonomy.frames import Metric, cut, expressions, proxy, where
from isonomy.frames.expressions import Comparison, Operator, Scalar
from isonomy.frames.metrics import ALSO_CALLED, BUNDLES, NAMES, canonical
from isonomy.frames.proxies import KnownRows, Named
from isonomy.options import Option, RowOptions, form_of, hints, members


class FileTable(BaseModel):
    """A table of the audit file. Unknown keys, wrong types and non-finite numbers are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def as_argument(self) -> object:
        """What isonomy's functions take in its place."""
        return plain(self)


class ColumnText(str):
    """Text of the file that names a column."""

    __slots__ = ()


ColumnName = Annotated[str, AfterValidator(ColumnText)]
# Models that are made from signatures have no source in which pydantic would have to look for docstrings.
MADE: dict[str, Any] = {"__cls_kwargs__": {"use_attribute_docstrings": False}}


class FileComparison(FileTable):
    """The comparison of a column with a value."""

    column: ColumnName
    """The column's name."""

    @property
    @abstractmethod
    def comparison(self) -> Comparison: ...

    @model_validator(mode="after")
    def _value_fits(self) -> Self:
        if problem := self.comparison.problem():
            raise ValueError(f"equals: {problem}" if isinstance(self, Role) else problem)
        return self


class Condition(FileComparison):
    """Rows for which a column compares with a value, such as `{column = "age", op = "<", value = 25}`."""

    op: Operator = "=="
    """How to compare. "in" and "not in" take a list; "is missing" and "is present" take no value."""
    value: Scalar | list[Scalar] | None = None
    """What to compare with."""

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.column, self.op, self.value)


class Role(FileComparison):
    """A 0/1 role given as a condition: 1 where a column has a value, such as `{column = "deny", equals = "no"}`."""

    equals: Scalar | list[Scalar]
    """The value, or the values, that count as 1; any other counts as 0."""

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.column, "in" if isinstance(self.equals, list) else "==", self.equals)

    def as_argument(self) -> object:
        return self.comparison.expression()


class FileCut(FileTable):
    """Groups made by cutting a numeric column, such as `{column = "age", edges = [25, 45]}`."""

    column: ColumnName
    """The numeric column."""
    edges: list[float] = Field(min_length=1)
    """Increasing numbers; each interval includes its lower edge."""

    @model_validator(mode="after")
    def _increasing(self) -> FileCut:
        if any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges} must increase")
        return self

    def as_argument(self) -> object:
        return cut(self.column, self.edges)


UsedColumn = tuple[str, FileComparison | FileCut | None]  # a column, and what compares or cuts it


def columns_in(part: object) -> Iterator[UsedColumn]:
    if isinstance(part, ColumnText):
        yield part, None
    elif isinstance(part, (FileComparison, FileCut)):
        yield part.column, part
    elif isinstance(part, FileTable):
        yield from columns_in([getattr(part, name) for name in type(part).model_fields])
    elif isinstance(part, (list, Mapping)):
        for item in part.values() if isinstance(part, Mapping) else part:
            yield from columns_in(item)


class FileWhere(FileTable):
    """A named group: the rows that meet every condition."""

    name: str = Field(min_length=1)
    """What the group is called in the report."""
    where: list[Condition] = Field(min_length=1)
    """All of these must hold."""

    def as_argument(self) -> object:
        condition = expressions.all_of(part.comparison for part in self.where)
        assert condition is not None  # the model requires at least one
        return where(self.name, condition)


class FileProxy(FileTable):
    """Groups known only by probability: `{proxy = "race", probabilities = {White = "p_white", Black = "p_black"}}`."""

    proxy: str = Field(min_length=1)
    """What these are groups of, such as "race"."""
    probabilities: dict[str, ColumnName]
    """The column of probabilities of each group."""
    other: str | None = None
    """The group whose probability is 1 minus the sum of the columns."""
    assume: Named | float | Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    """What is assumed about the share of a disparity that remains among people with the same probabilities."""
    place: ColumnName | None = None
    """The column of the area that the probabilities were computed with."""
    known: ColumnName | None = None
    """A column with the group where it is known."""
    known_rows: KnownRows = None
    """Whether the rows with a known group are a random sample of all rows."""

    @model_validator(mode="after")
    def _makes_a_proxy(self) -> FileProxy:
        self.as_argument()  # checks the fields together
        return self

    def as_argument(self) -> object:
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "proxy"}
        return proxy(
            self.proxy, **given | ({"assume": tuple(given["assume"])} if isinstance(self.assume, list) else {})
        )


def _group_tag(given: object) -> str:
    if isinstance(given, Mapping):
        kinds = {"proxy": "FileProxy", "where": "FileWhere", "name": "FileWhere"}
        return next((kind for key, kind in kinds.items() if key in given), "FileCut")
    return type(given).__name__ if isinstance(given, (FileWhere, FileCut, FileProxy)) else "column"


GroupSpec = Annotated[
    Annotated[ColumnName, Tag("column")]
    | Annotated[FileCut, Tag("FileCut")]
    | Annotated[FileWhere, Tag("FileWhere")]
    | Annotated[FileProxy, Tag("FileProxy")],
    Discriminator(_group_tag),
]

if TYPE_CHECKING:
    MetricName = str
    UtilityName = str
    RuleName = str
else:
    MetricName = Annotated[
        Literal[(*NAMES, *BUNDLES)],
        BeforeValidator(canonical),
        Field(json_schema_extra=lambda schema: schema["enum"].extend(ALSO_CALLED)),
    ]
    UtilityName = Literal[(*READY, *CRITERIA)]
    RuleName = Literal[RULES]


class OwnMetric(FileTable):
    """A metric of your own: the mean (or a quantile) of a column over the rows that meet every condition."""

    name: str = Field(min_length=1)
    """What the metric is called in the report."""
    value: ColumnName
    """The column to average."""
    where: list[Condition] = Field(default_factory=list)
    """Rows that count; without conditions, all."""
    binary: bool = False
    """Whether the column holds 0 and 1 only."""
    quantile: float | None = Field(default=None, gt=0, lt=1)
    """A quantile instead of the mean; 0.5 is the median."""

    def as_argument(self) -> object:
        inside = expressions.all_of(part.comparison for part in self.where)
        value = expressions.column(self.value)
        return Metric(self.name, value=value, where=inside, binary=self.binary, quantile=self.quantile)


class UtilityOf(FileTable):
    """A utility with an outcome column of its own, or (an accuracy) with weights of the groups."""

    utility: UtilityName
    outcome: ColumnName | None = None
    weights: Literal["pooled"] | dict[str, float] | None = None


Utility = UtilityName | UtilityOf


class OptionTable(FileTable):
    """An option with options of its own: a table with one key, the option's name."""

    options: ClassVar[Mapping[str, Any]]  # the classes by their names

    @model_validator(mode="after")
    def _makes_an_option(self) -> OptionTable:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"give one of {', '.join(self.options)}")
        self.as_argument()  # checks the fields together
        return self

    def as_argument(self) -> object:
        """The option with its fields that are set; a value that is not a table stands for the first."""
        (name,) = self.model_fields_set
        option, value = self.options[name], getattr(self, name)
        if not isinstance(value, OptionFields):
            return option(**{next(iter(hints(option))): ready(value)})
        return option(**{key: ready(getattr(value, key)) for key in value.model_fields_set})


class OptionFields(FileTable):
    """The fields of an option."""


@cache
def _option_table(options: tuple[Any, ...]) -> type[OptionTable]:
    keys: dict[str, Any] = {}
    for option in options:
        summary, parts = summary_of(option), keys_of(option, ("progress",))  # which the command line shows
        whole = create_model(f"{option.__name__}Fields", __base__=OptionFields, __doc__=summary, **MADE, **parts)
        (first, _), *others = parts.values()
        alone = not any(info.is_required() for _, info in others)
        value = Annotated[first, AfterValidator(partial(_no_options, parts.keys()))] | whole if alone else whole
        keys[option.name] = (value, Field(default=None, description=summary))
    table = create_model("Or".join(option.__name__ for option in options), __base__=OptionTable, **MADE, **keys)
    table.options = {option.name: option for option in options}
    return table


def _no_options(names: Collection[str], value: object) -> object:
    """The first option without its name; a table in which any key is an option's name is the table of options."""
    if isinstance(value, dict) and not value.keys().isdisjoint(names):
        raise ValueError(f"these are options: {', '.join(names)}")
    return value


def summary_of(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def keys_of(thing: Callable[..., object], without: Collection[str] = ()) -> dict[str, Any]:
    """The key of each parameter of a function or class: its type in a file, its default and its description."""
    keys: dict[str, Any] = {}
    for name, parameter in inspect.signature(thing).parameters.items():
        annotation = hints(thing).get(name)
        if name in without or annotation is object:  # a file holds no Python objects
            continue
        default = ... if parameter.default is parameter.empty else default_in_a_file(parameter.default)
        note = "" if isinstance(thing, type) else written(annotation).note  # the docstring of an option says it
        description = note or described(thing).get(name)
        keys[name] = (in_a_file(annotation), Field(default=default, description=description))
    return keys


def default_in_a_file(default: object) -> object:
    if not isinstance(default, Option):
        return default
    values = {part.name: getattr(default, part.name) for part in fields(default)}
    return {default.name: {name: default_in_a_file(value) for name, value in values.items()}}


@cache
def described(thing: object) -> dict[str, str]:
    """What a docstring says about each parameter, on one line each; the keywords about rows are documented once."""
    text = inspect.getdoc(thing) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.DOTALL | re.MULTILINE)
    entries = dict(_entries(section[1])) if section else {}
    for name, description in entries.items():
        other = re.match(r"As in `(?:isonomy\.)?(\w+)`", description)
        if other and hasattr(isonomy, other[1]):
            entries[name] = described(getattr(isonomy, other[1])).get(name, description)
    return {**described(RowOptions), **entries} if "**rows" in entries else entries


def _entries(section: str) -> Iterator[tuple[str, str]]:
    """Parameter by parameter: names at the margin, several of them if they share a description."""
    for entry in re.split(r"\n(?=\S)", section):
        head, _, body = entry.partition("\n")
        names, _, _ = head.partition(" : ")
        description = " ".join(body.split()).replace("``", "`")
        yield from ((name.strip(), description) for name in names.split(","))


def plain(value: object) -> object:
    if isinstance(value, FileTable):
        return value.model_dump(mode="python", exclude_unset=True)
    return [plain(item) for item in value] if isinstance(value, list) else value


_CALL = re.compile(r"(?:(\w+)=)?\b(?:iso|isonomy)\.(\w+)\(([^()]*)\)")
# Groups in the words of a file, which are no options.
_TABLES = {
    "cut": "{column = ..., edges = [...]}",
    "where": "{name = ..., where = [...]}",
    "proxy": "{proxy = ..., probabilities = {...}}",
}


def advice_in_a_file(message: str) -> str:
    """A message of a function with the calls in it as a file writes them: ``{crossfit = {folds = ...}}``.

    Only calls of options and groups are rewritten: other words may be names of the user's columns and files.
    """

    def as_table(call: re.Match[str]) -> str:
        key, name, inside = call.groups()
        option = getattr(isonomy, name, None)
        if name in _TABLES:
            table = _TABLES[name]
        elif isinstance(option, type) and issubclass(option, Option):
            table = f"{{{name} = {_fields_in_a_file(option, inside)}}}"
        else:
            return call[0]
        return table if key is None else f"{key} = {table}"

    return re.sub(r"\b(\w+)=(?=[\"'])", r"\1 = ", _CALL.sub(as_table, message))


def _fields_in_a_file(option: type[Option], inside: str) -> str:
    parts = [part.strip().replace("=", " = ") for part in inside.split(",") if part.strip()]
    if len(parts) == 1 and "=" not in parts[0]:  # it needs no inner table
        return parts[0]
    if parts and parts[0][0] == '"':
        parts[0] = f"{fields(option)[0].name} = {parts[0]}"
    return f"{{{', '.join(part if '=' in part else f'{part} = ...' for part in parts)}}}"


def ready(value: object) -> object:
    if isinstance(value, FileTable):
        return value.as_argument()
    if isinstance(value, Mapping):
        return {name: ready(item) for name, item in value.items()}
    return [ready(item) for item in value] if isinstance(value, list) else value


def with_dates(part: Any, schema: expressions.Schema) -> Any:
    """The same part of a file with quoted dates as dates, wherever a column of dates is compared with them."""
    if isinstance(part, list):
        return [with_dates(item, schema) for item in part]
    if not isinstance(part, FileTable):
        return part
    if isinstance(part, FileComparison):
        value = part.comparison.dated(schema.get(part.column))
        return part.model_copy(update={"value" if isinstance(part, Condition) else "equals": value})
    given = {name: getattr(part, name) for name in part.model_fields_set}
    return part.model_copy(update={name: with_dates(value, schema) for name, value in given.items()})


class Written(NamedTuple):
    """The type of a form in a file, and a description of the key if a file writes it differently from a call."""

    type: object
    note: str = ""


_GROUPS = GroupSpec | list[GroupSpec]
_SPECS = "column names, `{column, edges}`, `{name, where}`, `{proxy, probabilities}`."

FORMS: dict[str, Written] = {
    "column": Written(ColumnName | Role),
    "names": Written(list[ColumnName]),
    "groups": Written(_GROUPS, f"Whom to compare: {_SPECS}"),
    "features": Written(_GROUPS, "What subgroups are made of, in the forms of `groups`."),
    "given": Written(_GROUPS, f"Legitimate factors to compare within: {_SPECS}"),
    "metric": Written(
        MetricName | OwnMetric | list[MetricName | OwnMetric],
        "The quantity to compare: a name, `{name, value, where, binary}`, or a list of these.",
    ),
    "reference": Written(
        Literal["population", "rest", "highest", "lowest"] | float | dict[str, Scalar],
        'What groups are compared with: "population", "rest", "highest", "lowest", a number, or a group such as '
        '`{race = "White"}`.',
    ),
    "comparator": Written(
        Literal["highest"] | dict[str, Scalar],
        'What each table compares with: "highest", or a level of every column of groups.',
    ),
    "group": Written(str | dict[str, Scalar]),
    "utility": Written(Utility),
    "utilities": Written(Utility | list[Utility]),
    "rule": Written(RuleName | list[RuleName], "What finds a candidate from the features."),
    "candidates": Written(ColumnName | list[ColumnName]),
    "observed_effects": Written(
        Literal["independent"] | ColumnName | dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]]
    ),
    "seed": Written(
        Annotated[int, Field(ge=0)] | None,
        "The test's own seed. Default: a seed made from the audit's seed and the test's id.",
    ),
}


def written(annotation: object) -> Written:
    name = form_of(annotation)
    return Written(None) if name is None else FORMS[name]


def in_a_file(annotation: object) -> Any:
    """An annotation as a file can express it: objects and arrays are left out, sequences are lists."""
    kinds = members(annotation)
    options = tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Option))
    parts = [part for kind in kinds if kind not in options and (part := _member(kind)) is not _UNWRITABLE]
    if options:
        parts.append(_option_table(options))
    if not parts or parts == [None]:
        raise TypeError(f"{annotation!r} cannot be written in an audit file; give it a Form, and a row in FORMS")
    return reduce(or_, parts) if len(parts) > 1 else parts[0]


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
