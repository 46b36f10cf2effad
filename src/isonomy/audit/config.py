"""The audit file, `audit.toml`, as a model: where the rows are, what the columns mean, which tests to make.

The tests are made from the signatures of the public functions of their names: every keyword of a function is a key of
its test, with the same default, limits and description, so that a new keyword is a new key without another line.
"""

from __future__ import annotations

import inspect
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, Discriminator, Field, ValidationError, create_model, model_validator
from pydantic.json_schema import GenerateJsonSchema

from isonomy.audit.explain import explain
from isonomy.audit.forms import (
    Condition,
    FileTable,
    GroupSpec,
    Role,
    default_in_a_file,
    described,
    in_a_file,
    written,
)
from isonomy.errors import ConfigError
from isonomy.frames.groups import NOTHING, Labels
from isonomy.options import Missing, MissingGroup, hints
from isonomy.results import KINDS, Question, find_question
from isonomy.results.questions import READING

# Keywords that are not a test's own: [data] says how rows are read, and the command line shows progress.
_ELSEWHERE = ("data", "rows", *READING, "progress")


class FileColumns(FileTable):
    """What the columns mean. A test may name a column of its own instead."""

    outcome: str | Role | None = None
    """The outcome, 0 or 1 (or a number); or a condition, `{column = "bad", equals = "no"}`."""
    prediction: str | Role | None = None
    """The decision, 0 or 1 (or a predicted number); or a condition, `{column = "deny", equals = "no"}`."""
    score: str | None = None
    """The score behind the decision."""
    groups: GroupSpec | list[GroupSpec] | None = None
    """Whom to compare: column names, `{column, edges}`, `{name, where}`."""
    user: str | None = None
    """The person a row belongs to, if people appear more than once."""
    treatment: str | Role | None = None
    """Whether a row was treated in a randomized experiment, 0 or 1."""
    effect: str | None = None
    """The predicted effect of the treatment."""
    baseline: str | None = None
    """The predicted outcome without treatment."""
    features: list[str] | None = None
    """The columns that a candidate model may use."""


ROLES = tuple(FileColumns.model_fields)


class Test(FileTable):
    """What every test has in addition to the keywords of its function."""

    __test__ = False  # not one of pytest's

    kind: str
    id: str | None = Field(default=None, min_length=1, max_length=200)
    """A name that is unique in the audit. Seeds depend on it, not on the order of the tests."""
    title: str | None = None
    """The heading in the report. Default: what the test is about."""
    truth: list[str] = Field(default_factory=list)
    """What is known to be true of simulated data, shown next to the findings."""
    filters: list[Condition] = Field(default_factory=list)
    """Further conditions on the rows of this test."""

    @property
    def question(self) -> Question:
        """The question that the test asks."""
        return find_question(self.kind)

    def own_options(self) -> dict[str, object]:
        """The function's keywords as the test gives them; ``false`` means that a role has no column in this test."""
        names = [name for name in type(self).model_fields if name in self.model_fields_set - Test.model_fields.keys()]
        return {name: value for name in names if (value := getattr(self, name)) is not False or name not in ROLES}

    def default_id(self) -> str:
        """The kind, with what distinguishes tests of one kind."""
        for key in ("metric", "criterion", "measure"):
            value = getattr(self, key, None)
            if key in self.model_fields_set and value is not None:
                parts = value if isinstance(value, list) else [value]
                return "-".join([self.kind, *(part if isinstance(part, str) else part.name for part in parts)])
        return self.kind


def model_of(function: Callable[..., object]) -> type[Test]:
    """The model of a test, from the signature of its function."""
    kind = function.__name__
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in _ELSEWHERE:
            continue
        annotation, needed = hints(function)[name], parameter.default is parameter.empty
        key, default = in_a_file(annotation), ... if needed else default_in_a_file(parameter.default)
        if name in ROLES:  # may be left to [columns]; false means that a test does without it
            key, default = key | None if needed else key | Literal[False] | None, None
        description = written(annotation).note or described(function).get(name)
        fields[name] = (key, Field(default=default, description=description))
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    return create_model(kind.title().replace("_", ""), __base__=Test, __doc__=summary, **fields)


MODELS: dict[str, type[Test]] = {kind: model_of(find_question(kind).function) for kind in KINDS}
if TYPE_CHECKING:
    AnyTest = Test
else:
    AnyTest = Annotated[Union[tuple(MODELS.values())], Discriminator("kind")]  # noqa: UP007


def annotation_of(kind: str, key: str) -> object:
    """The annotation of a keyword of a test's function."""
    return hints(find_question(kind).function)[key]


def required(kind: str) -> list[str]:
    """Keywords that the function requires."""
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
    missing: Missing = "raise"
    """What to do about missing values in a needed column; the report counts the rows dropped."""
    missing_group: MissingGroup = "raise"
    """What to do about missing values in a group column."""
    in_memory: bool | None = None
    """Read the needed columns into memory once (true) or leave them where they are (false). Default: by size."""

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
        """The words as results use them."""
        return Labels(**self.model_dump()) if self.model_fields_set else NOTHING


if TYPE_CHECKING:
    Tolerances = FileTable
else:
    Tolerances = create_model(
        "Tolerances",
        __base__=FileTable,
        __doc__="The tolerance of every test of a kind that does not set its own.",
        **{
            kind: (in_a_file(annotation_of(kind, "tolerance")), None)
            for kind, model in MODELS.items()
            if "tolerance" in model.model_fields
        },
    )


class Config(FileTable):
    """An audit."""

    title: str = Field(default="Fairness audit", min_length=1)
    """The report's title."""
    description: str = ""
    """A sentence or two under the title."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """The seed of everything random in the audit."""
    fail_on: list[Literal["violation", "within_tolerance", "inconclusive"]] = Field(default=["violation"])
    """Verdicts that make the audit fail (exit code 1)."""
    output: Place = "isonomy-report"
    """The folder for report.html, results.json, summary.md and junit.xml; relative to the audit file."""
    suppress_below: int = Field(default=10, ge=0)
    """Numbers of groups with fewer rows are withheld in every output; 0 withholds nothing."""
    data: Data = Data()
    columns: FileColumns = FileColumns()
    filters: list[Condition] = Field(default_factory=list)
    """Conditions that every row of the audit meets."""
    tolerances: Tolerances = Tolerances()
    labels: Words = Words()
    tests: list[AnyTest] = Field(min_length=1)

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


def parse(text: str, file: str = "audit.toml") -> Config:
    """The audit in ``text``. One `ConfigError` lists every mistake in it."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from None
    return build(raw, file, text)


def build(raw: Mapping[str, object], file: str = "audit", text: str | None = None) -> Config:
    """The audit in a mapping."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{file}: a {type(raw).__name__}; give a mapping of the keys of an audit file.")
    try:
        try:
            return Config.model_validate(dict(raw))
        except ValidationError as error:
            raise ConfigError(explain(error, raw, file, text)) from None
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply.") from None


def read(path: str | Path) -> tuple[Config, str]:
    """The audit in a file, and the file's text."""
    place = Path(path)
    try:
        text = place.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{place}: no such file. `isonomy init DATA` writes one.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: cannot be read as text ({error}).") from None
    return parse(text.replace("\r\n", "\n"), str(place)), text


class _SortedWords(GenerateJsonSchema):
    """Words in alphabetical order: `typing` caches ``Literal[...] | None`` in the order in which it was first used."""

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        return super().literal_schema(schema | {"expected": sorted(schema["expected"], key=str)})


def schema() -> dict[str, object]:
    """The JSON schema of the audit file, for editors."""
    whole = Config.model_json_schema(schema_generator=_SortedWords)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "title": "isonomy audit"}
