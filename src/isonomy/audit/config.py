"""The audit file, `audit.toml`, as a model: where the rows are, what the columns mean, which tests to make."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, create_model, model_validator

from isonomy.audit.conditions import Condition, Table
from isonomy.audit.explain import explain
from isonomy.audit.forms import in_a_file
from isonomy.audit.questions import KINDS, MODELS, AnyTest, Columns, annotation_of
from isonomy.errors import ConfigError
from isonomy.frames.labels import NOTHING, Labels
from isonomy.options import Missing, MissingGroup


def _place(text: str) -> str:
    if "\x00" in text:
        raise ValueError(f"{text!r} holds a null character, which no path has")
    return text


Place = Annotated[str, AfterValidator(_place)]  # a path


class Data(Table):
    """Where the rows are."""

    path: Place | None = None
    """A parquet or csv file, a folder of parquet, or a glob; relative to the audit file."""
    query: str | None = None
    """SQL whose answer is the table; needs `engine`."""
    engine: Literal["duckdb", "spark"] | None = None
    """What reads the path, or runs the query; without one a path is read by polars."""
    database: Place | None = None
    """A DuckDB database file, opened for reading only."""
    tables: dict[str, Place] = Field(default_factory=dict)
    """Names the query may use, and the parquet or csv files behind them."""
    count: str | None = None
    """The column that says how many rows a line stands for, in a table that is already aggregated."""
    weight: str | None = None
    """The column that says how many people a row stands for, such as a survey's weights; only proportions matter."""
    cluster: str | None = None
    """The column that says which rows belong together: a person, a household, a branch."""
    missing: Missing = "raise"
    """What to do about missing values in a needed column; dropped rows are counted in the report."""
    missing_group: MissingGroup = "raise"
    """What to do about missing values in a group column."""
    in_memory: bool | None = None
    """Read the needed columns into memory once (true), leave them where they are (false), or decide by size."""

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


class Words(Table):
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


def _tolerances() -> type[Table]:
    kinds = {kind: annotation_of(kind, "tolerance") for kind in KINDS if "tolerance" in MODELS[kind].model_fields}
    fields: dict[str, Any] = {kind: (in_a_file(annotation), None) for kind, annotation in kinds.items()}
    summary = "The tolerance of every test of a kind that does not set its own."
    return create_model("Tolerances", __base__=Table, __doc__=summary, **fields)


if TYPE_CHECKING:
    Tolerances = Table
else:
    Tolerances = _tolerances()


class Config(Table):
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
    columns: Columns = Columns()
    filters: list[Condition] = Field(default_factory=list)
    """Conditions every row of the audit meets."""
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
        """The id of each test, given or derived; of those derived alike, the second ends in -2."""
        names: list[str] = []
        for test in self.tests:
            name = test.id or test.default_id()
            tries = chain([name], (f"{name}-{k}" for k in count(2)))
            names.append(test.id or next(text for text in tries if text not in names))
        return names


def parse(text: str, file: str = "audit.toml") -> Config:
    """The audit written in ``text``; every mistake in it is named in one `ConfigError`."""
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


def schema() -> dict[str, object]:
    """The JSON schema of the audit file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
        "title": "isonomy audit",
    }
