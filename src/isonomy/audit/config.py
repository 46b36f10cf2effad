"""The audit file, `audit.toml`, as a model: where the rows are, what the columns mean, which tests to make.

The tests are made from the signatures of the public functions of their names: every keyword of a function is a key of
its test, with the same default, limits and description, so that a new keyword is a new key without another line.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import AfterValidator, BaseModel, Discriminator, Field, ValidationError, create_model, model_validator
from pydantic.json_schema import GenerateJsonSchema

from isonomy.audit.forms import (
    MADE,
    ColumnName,
    Condition,
    FileTable,
    GroupSpec,
    Role,
    advice_in_a_file,
    keys_of,
    summary_of,
)
from isonomy.audit.settings import Keys, expand, key_text, put
from isonomy.errors import ConfigError, near
from isonomy.frames.groups import NOTHING, Labels
from isonomy.frames.metrics import ALSO_CALLED
from isonomy.options import Missing, MissingGroup, also_called, hints, shown
from isonomy.results import KINDS, QUESTIONS, Question, find_question, storage
from isonomy.results.questions import READING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# Keywords that are not a test's own: [data] says how rows are read.
_ELSEWHERE = ("data", "rows", *READING)


class FileColumns(FileTable):
    """What the columns mean. A test may name a column of its own instead."""

    outcome: ColumnName | Role | None = None
    """The outcome, 0 or 1 (or a number); or a condition, `{column = "bad", equals = "no"}`."""
    prediction: ColumnName | Role | None = None
    """The decision, 0 or 1 (or a predicted number); or a condition, `{column = "deny", equals = "no"}`."""
    score: ColumnName | None = None
    """The score behind the decision."""
    groups: GroupSpec | list[GroupSpec] | None = None
    """Whom to compare: column names, `{column, edges}`, `{name, where}`, `{proxy, probabilities}`."""
    user: ColumnName | None = None
    """The person a row belongs to, if people appear more than once."""
    treatment: ColumnName | Role | None = None
    """Whether a row was treated in a randomized experiment, 0 or 1."""
    effect: ColumnName | None = None
    """The predicted effect of the treatment."""
    baseline: ColumnName | None = None
    """The predicted outcome without treatment."""
    features: list[ColumnName] | None = None
    """The columns that a candidate model may use."""


ROLES = tuple(FileColumns.model_fields)


class Decision(FileTable):
    """Who chose the thresholds and tolerances, when and why. The first page of the report states it."""

    by: str = Field(min_length=1)
    """The person or body that chose."""
    on: date
    """The day of the choice, such as 2026-01-15."""
    why: str = Field(min_length=1)
    """The reason."""


class Test(FileTable):
    """What every test has in addition to the keywords of its function."""

    __test__ = False  # not one of pytest's
    further: ClassVar[tuple[str, ...]] = ()  # keys that request another table of the result

    kind: str
    id: str | None = Field(default=None, min_length=1, max_length=200)
    """A name that is unique in the audit. Seeds depend on it, not on the order of the tests."""
    title: str | None = None
    """The heading in the report. Default: what the test is about."""
    truth: list[str] = Field(default_factory=list)
    """What is known to be true of simulated data, shown next to the findings."""
    decided: Decision | None = None
    """Who chose the threshold and the tolerance of this test, when and why."""
    filters: list[Condition] = Field(default_factory=list)
    """Further conditions on the rows of this test."""

    @property
    def question(self) -> Question:
        return find_question(self.kind)

    def own_options(self) -> dict[str, object]:
        """The function's keywords as the test gives them; ``false`` means that a role has no column in this test."""
        given = self.model_fields_set - {*Test.model_fields, *self.further}
        names = [name for name in type(self).model_fields if name in given]
        return {name: value for name in names if (value := getattr(self, name)) is not False or name not in ROLES}

    def default_id(self) -> str:
        for key in ("metric", "criterion", "measure"):
            value = getattr(self, key, None)
            if key in self.model_fields_set and value is not None:
                parts = value if isinstance(value, list) else [value]
                return "-".join([self.kind, *(part if isinstance(part, str) else part.name for part in parts)])
        return self.kind


def model_of(function: Callable[..., object]) -> type[Test]:
    kind = function.__name__
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, (key, info) in keys_of(function, _ELSEWHERE).items():
        fields[name] = (key, info)
        if name in ROLES:  # may be left to [columns]; false means that a test does without it
            absence = None if info.is_required() else Literal[False] | None
            fields[name] = (key | absence, Field(default=None, description=info.description))
    further = QUESTIONS[kind].further if kind in QUESTIONS else ()
    for name in further:
        description = f"Add the table of the result's method {name}() below its own."
        fields[name] = (bool, Field(default=False, description=description))
    title = kind.title().replace("_", "")
    model = create_model(title, __base__=Test, __doc__=summary_of(function), **MADE, **fields)
    model.further = further
    return model


MODELS: dict[str, type[Test]] = {kind: model_of(find_question(kind).function) for kind in KINDS}
if TYPE_CHECKING:
    AnyTest = Test
else:
    AnyTest = Annotated[Union[tuple(MODELS.values())], Discriminator("kind")]  # noqa: UP007


def annotation_of(kind: str, key: str) -> object:
    return hints(find_question(kind).function)[key]


def required(kind: str) -> list[str]:
    parameters = inspect.signature(find_question(kind).function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]


def _place(text: str) -> str:
    if "\x00" in text:
        raise ValueError(f"{text!r} holds a null character, which no path has")
    return text


Place = Annotated[str, AfterValidator(_place)]  # a path


class Data(FileTable):
    """Where the rows are."""

    path: Place | None = None
    """A parquet or csv file, a folder of parquet, or a glob; relative to the audit file."""
    query: str | None = None
    """A SQL query whose result is the table; needs `engine`."""
    engine: Literal["duckdb", "spark"] | None = None
    """The engine that reads the path or runs the query. Default: polars reads the path."""
    database: Place | None = None
    """A DuckDB database file, opened for reading only."""
    tables: dict[str, Place] = Field(default_factory=dict)
    """The names that the query may use, and their parquet or csv files."""
    count: str | None = None
    """The column with the number of rows that each line stands for, in a table that is already aggregated."""
    weight: str | None = None
    """The column with the number of people that each row stands for, as in a survey; only proportions matter."""
    cluster: str | None = None
    """The column that identifies rows that belong together: a person, a household, a branch."""
    date: str | None = None
    """The column with the date of each row; the report and `isonomy compare` state the first and the last date."""
    missing: Missing = "raise"
    """What to do about missing values in a needed column; the report counts the rows dropped."""
    missing_group: MissingGroup = "raise"
    """What to do about missing values in a group column."""

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        if self.path is not None and self.query is not None:
            raise ValueError("give path or query, not both")
        if self.query is not None and self.engine is None:
            raise ValueError('a query needs an engine ("duckdb" or "spark")')
        if self.engine is not None and self.query is None and self.path is None:
            raise ValueError("an engine needs a path or a query to read")
        if self.query is None and (self.tables or self.database is not None):
            raise ValueError("tables and database belong to a query; there is none")
        return self


class Words(FileTable):
    """What readers see instead of the table's names and codes."""

    columns: dict[str, str] = Field(default_factory=dict)
    """Column names and their words."""
    values: dict[str, dict[str, str]] = Field(default_factory=dict)
    """For each column, its values and their words; the intervals of a cut are values, such as "<25"."""
    groups: dict[str, str] = Field(default_factory=dict)
    """Whole groups, such as "race=Black & sex=2", and their words."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """Metric names and their words, such as "approval rate"."""
    population: str = ""
    """Everybody, such as "all applicants"."""

    def labels(self) -> Labels:
        return Labels(**self.model_dump()) if self.model_fields_set else NOTHING


class Config(FileTable):
    """An audit."""

    title: str = Field(default="Fairness audit", min_length=1)
    """The report's title."""
    description: str = ""
    """A sentence or two under the title."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """The seed of everything random in the audit."""
    decided: Decision | None = None
    """Who chose the thresholds and tolerances of the tests that do not say so themselves."""
    fail_on: list[Literal["violation", "within_tolerance", "inconclusive", "alarm"]] = Field(default=["violation"])
    """Verdicts that make the audit fail (exit code 1); "alarm" is an alarm in the last batch of a monitor."""
    output: Place = "isonomy-report"
    """The folder for report.html, results.json, summary.md and junit.xml; relative to the audit file."""
    suppress_below: int = Field(default=10, ge=0)
    """Numbers of groups with fewer rows are withheld in every output; 0 withholds nothing."""
    data: Data = Data()
    columns: FileColumns = FileColumns()
    filters: list[Condition] = Field(default_factory=list)
    """Conditions that every row of the audit meets."""
    labels: Words = Words()
    tests: list[AnyTest] = Field(min_length=1)
    _given: tuple[tuple[str, str], ...] = ()  # variables of the file, and keys set from outside

    @model_validator(mode="after")
    def _distinct_names(self) -> Config:
        twice = [name for name, times in Counter(self.names).items() if times > 1]
        if twice:
            raise ValueError(f"more than one test is called {twice[0]!r}; give each of them an id")
        return self

    @property
    def names(self) -> list[str]:
        """The id of each test, given or derived; a second test with the same derived id ends in -2."""
        names: list[str] = []
        for test in self.tests:
            name = test.id or test.default_id()
            tries = chain([name], (f"{name}-{k}" for k in count(2)))
            names.append(test.id or next(text for text in tries if text not in names))
        return names


def parse(text: str, file: str = "audit.toml", settings: Sequence[str] = ()) -> Config:
    """The audit in ``text``, with its variables and ``settings``. One `ConfigError` lists every mistake in it."""
    facts: dict[str, str] = {}
    outside: list[Keys] = []
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from None
    for setting in settings:
        key, value, path = put(raw, setting)
        facts[f"Set: {key}"] = value
        outside.append(path)
    try:
        raw = expand(raw, facts)
    except (ConfigError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from None
    config = build(raw, file, text, outside)
    config._given = tuple(facts.items())
    return config


def build(
    raw: Mapping[str, object], file: str = "audit", text: str | None = None, outside: Sequence[Keys] = ()
) -> Config:
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{file}: a {type(raw).__name__}; give a mapping of the keys of an audit file.")
    try:
        return Config.model_validate(dict(raw))
    except ValidationError as error:
        raise ConfigError(explain(error, raw, file, text, outside)) from None
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply.") from None


def read(path: str | Path, settings: Sequence[str] = ()) -> tuple[Config, str]:
    place = Path(path)
    try:
        text = storage.read(place)
    except FileNotFoundError:
        raise ConfigError(f"{place}: no such file. `isonomy init DATA` writes one.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: cannot be read as text ({error}).") from None
    return parse(text.replace("\r\n", "\n"), str(place), settings), text


class _SortedWords(GenerateJsonSchema):
    """Words in alphabetical order: `typing` caches ``Literal[...] | None`` in the order in which it was first used."""

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        return super().literal_schema(schema | {"expected": sorted(schema["expected"], key=str)})


def schema() -> dict[str, object]:
    """The JSON schema of the audit file, for editors."""
    whole = Config.model_json_schema(schema_generator=_SortedWords)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "title": "isonomy audit"}


# ---- mistakes in words: the key, the value, the values allowed, and the near match

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "datetime_type": "a date and time",
    "date_type": "a date",
    "date_from_datetime_inexact": "a date",
    "none_required": "nothing",
    "finite_number": "a finite number",
}


def explain(
    error: ValidationError, raw: Mapping[str, object], file: str, text: str | None = None, outside: Sequence[Keys] = ()
) -> str:
    mistakes: dict[Keys, list[ErrorDetails]] = {}
    for item in error.errors(include_url=False):
        mistakes.setdefault(_path(item["loc"], raw, item["type"]), []).append(item)
    lines = []
    for path, items in mistakes.items():
        if any(len(other) > len(path) and other[: len(path)] == path for other in mistakes):
            continue  # a choice failed as a whole because of what is wrong inside it
        line = line_of(text, path) if text else None
        where = "--set" if path in outside else f"{file}, line {line}" if line else file
        key = f"{key_text(path)}: " if path else ""
        lines.append((line or 0, f"{where}: {key}{_message(path, items, raw)}"))
    return "\n".join(message for _, message in sorted(lines, key=lambda pair: pair[0]))


def _path(loc: Keys, raw: object, kind: str) -> Keys:
    """The keys of the file that lead to the mistake, without pydantic's names for the branches of a choice."""
    path: list[str | int] = []
    here = raw
    for place, key in enumerate(loc):
        inner = dict(enumerate(here)) if isinstance(here, list) else here if isinstance(here, Mapping) else {}
        if key in inner:
            here = inner[key]
        elif not (kind == "missing" and place == len(loc) - 1):
            continue
        path.append(key)
    return tuple(path)


def _message(path: Keys, items: list[ErrorDetails], raw: Mapping[str, object]) -> str:
    first = items[0]
    kinds = {item["type"]: item for item in items}
    if "extra_forbidden" in kinds:
        allowed, moved = _allowed(first["loc"]), _moved(path, raw)
        if moved:
            return f"it has moved; {moved}. Allowed: {', '.join(allowed)}."
        shared = path[0] == "tests" and len(path) == 3 and path[-1] in Data.model_fields
        hint = " Write it under [data]: it applies to all tests." if shared else near(str(path[-1]), allowed)
        return f"unknown key.{hint} Allowed: {', '.join(allowed)}."
    if path == ("tests",) and {"missing", "too_short"} & set(kinds):
        return "there are no tests; write at least one [[tests]] table, or remove the # from one in the file."
    if "missing" in kinds:
        return "this key is required."
    if "union_tag_not_found" in kinds:
        return f"kind: this key is required. Allowed: {', '.join(MODELS)}."
    if "union_tag_invalid" in kinds:
        kind = first["ctx"]["tag"]
        return f"kind: {shown(kind)} is not allowed.{near(str(kind), MODELS)} Allowed: {', '.join(MODELS)}."
    if "value_error" in kinds:
        return f"{str(kinds['value_error']['ctx']['error']).rstrip('.')}."
    words, others = _choices(items)
    given, choices = first["input"], dict.fromkeys([*words, *others])
    hint = _group_hint(path, given, raw) or _alias(given, words) or near(str(given), words)
    return f"{shown(given)} is not allowed.{hint} Allowed: {', '.join(choices)}."


def _moved(path: Keys, raw: Mapping[str, object]) -> str:
    """What replaces a key of an earlier version, as the file writes it; empty if the key never existed."""
    tests = raw.get("tests")
    if path == ("tolerances",):
        return "write the tolerance of each test in its [[tests]] table, such as tolerance = 0.02"
    if len(path) != 3 or path[0] != "tests" or not isinstance(tests, list):
        return ""
    python = find_question(tests[int(path[1])]["kind"]).moved.get(str(path[2]), "").replace("{}", "...")
    if not python or python.startswith("result."):  # not an option any more
        return python and f"in Python, write {python}"
    keyed = re.sub(r'"(\w+)": ', r"\1 = ", advice_in_a_file(python))
    return "write " + re.sub(r"(\w+)=", r"\1 = ", keyed)


def _alias(given: object, words: list[str]) -> str:
    name = str(given).lower().replace("-", "_").replace(" ", "_")
    annotations = (annotation_of(kind, key) for kind in MODELS for key in hints(find_question(kind).function))
    known = (ALSO_CALLED, *map(also_called, annotations))
    ours = next((names[name] for names in known if names.get(name) in words), None)
    return "" if ours is None else f" It is called {ours!r} here."


def _group_hint(path: Keys, given: object, raw: Mapping[str, object]) -> str:
    if path[-1:] != ("reference",) or not isinstance(given, str):
        return ""
    test: object = raw
    for key in path[:-1]:
        test = test[key] if isinstance(test, (list, Mapping)) else {}  # type: ignore[index]
    homes = [home for home in (test, raw.get("columns")) if isinstance(home, Mapping)]
    groups: object = next((home["groups"] for home in homes if home.get("groups")), [])
    listed = groups if isinstance(groups, list) else [groups]
    columns = [spec.get("column") if isinstance(spec, Mapping) else spec for spec in listed]
    written = [f"{{{column} = {shown(given)}}}" for column in columns if isinstance(column, str)]
    forms = " or ".join(written[:3]) if written else f"{{column = {shown(given)}}}"
    return f" A group is written with its column: {forms}."


def _choices(items: list[ErrorDetails]) -> tuple[list[str], list[str]]:
    words: list[str] = []
    others: list[str] = []
    for item in items:
        if item["type"] == "literal_error":
            expected = str(item["ctx"]["expected"])
            words += re.findall(r"'([^']*)'", expected) or [expected.lower()]
        else:
            others.append(_TYPES.get(item["type"]) or re.sub(r"^Input should (be|have) ", "", item["msg"]))
    return words, others


def _allowed(loc: Keys) -> list[str]:
    """The keys of the table in which an unknown key stands: ``loc`` names its keys, and the branches of choices."""
    here: list[type[BaseModel]] = [Config]
    for key in loc[:-1]:
        branch = re.sub(r"function-\w+\[.*, (\w+)\]", r"\1", str(key))  # of a model with a validator
        fields = [model.model_fields[branch] for model in here if branch in model.model_fields]
        named = [model for model in here if model.__name__ in (branch, branch.title().replace("_", ""))]
        here = [model for field in fields for model in _models(field.annotation)] or named or here
    return list(dict.fromkeys(key for model in here for key in model.model_fields))


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def line_of(text: str, path: Keys) -> int | None:
    """The line of a key, as far as it can be found without a parser that keeps lines."""
    lines = text.splitlines()
    start, rest = 0, path
    headers = [i for i, line in enumerate(lines) if line.lstrip().startswith("[")]
    table, number = (*path, 0, 0)[:2]
    listed = len(path) > 1 and isinstance(number, int)  # [[table]]: its blocks are numbered
    header = re.compile(rf"\s*\[{{{1 + listed}}}\s*{re.escape(str(table))}\s*\]")
    blocks = [i for i in headers if header.match(lines[i])]
    place = int(number) if listed else 0
    if place < len(blocks):
        start, rest = blocks[place], path[1 + listed :]
    if not rest:
        return start + 1 if path else None
    end = next((i for i in headers if i > start), len(lines))
    for i in range(start, end):
        if re.match(rf"""\s*["']?{re.escape(str(rest[0]))}["']?\s*[=.]""", lines[i]):
            return i + 1
    return start + 1 if len(path) > len(rest) else None
