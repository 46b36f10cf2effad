"""The tests an audit file can ask for, made from the signatures of the functions of those names.

Every keyword of a function is a key of its test, with the same default, the same limits and the same description: a
new keyword is a new key without another line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Discriminator, Field, create_model

import isonomy
from isonomy.audit.conditions import Condition, GroupSpec, Role, Table
from isonomy.audit.forms import in_a_file, written
from isonomy.options import hints
from isonomy.results import QUESTIONS, Question
from isonomy.results.call import READING

KINDS = (
    "flag",
    "certify",
    "adverse_impact",
    "project",
    "improvability",
    "treatment_bias",
    "evaluate_corrections",
    "price_of_fairness",
    "predictive_parity",
    "composite_parity",
    "marginal_outcomes",
    "equalize_thresholds",
)
# Keywords that are not a test's own: [data] says how rows are read, and the command line shows progress.
_ELSEWHERE = ("data", *READING, "progress")


class Columns(Table):
    """What the columns mean. A test may name a column of its own instead."""

    outcome: str | Role | None = None
    """What happened, 0 or 1 (or a number); or a condition, `{column = "bad", equals = "no"}`."""
    prediction: str | Role | None = None
    """The decision, 0 or 1 (or a predicted number); or a condition, `{column = "deny", equals = "no"}`."""
    score: str | None = None
    """The score behind the decision."""
    groups: GroupSpec | list[GroupSpec] | None = None
    """Whom to compare: column names, `{column, edges}`, `{name, where}`."""
    user: str | None = None
    """Whom a row belongs to, where people appear many times."""
    treatment: str | Role | None = None
    """Who was treated in a randomised experiment, 0 or 1."""
    effect: str | None = None
    """The predicted effect of the treatment."""
    baseline: str | None = None
    """The predicted outcome without treatment."""
    features: list[str] | None = None
    """Columns a candidate model may use."""


class Test(Table):
    """What every test has besides its function's keywords."""

    __test__ = False  # not one of pytest's

    kind: str
    id: str | None = Field(default=None, min_length=1, max_length=200)
    """A name unique in the audit. Seeds depend on it, not on the order of tests."""
    title: str | None = None
    """A heading of your own; without it, the question."""
    truth: list[str] = Field(default_factory=list)
    """What is known to be true (simulated data), shown beside the findings."""
    filters: list[Condition] = Field(default_factory=list)
    """Further conditions on the rows of this test."""

    @property
    def question(self) -> Question:
        """The function that makes the test, and its plan."""
        return QUESTIONS[self.kind]

    def own_options(self) -> dict[str, object]:
        """The function's keywords as the test gives them; ``false`` says that a role has no column in this test."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name not in Test.model_fields}
        return {name: value for name, value in given.items() if name not in Columns.model_fields or value is not False}

    def default_id(self) -> str:
        """The kind, and what tells tests of one kind apart."""
        for key in ("metric", "criterion", "measure"):
            value = getattr(self, key, None)
            if key in self.model_fields_set and value is not None:
                parts = value if isinstance(value, list) else [value]
                return "-".join([self.kind, *(part if isinstance(part, str) else part.name for part in parts)])
        return self.kind


def _model(kind: str) -> type[Test]:
    function = getattr(isonomy, kind)
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in _ELSEWHERE:
            fields[name] = _field(kind, name, hints(function)[name], parameter)
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    title = kind.title().replace("_", "")
    return create_model(title, __base__=Test, __doc__=summary, **fields)


def _field(kind: str, name: str, annotation: object, parameter: inspect.Parameter) -> tuple[object, object]:
    """A keyword as a key of the file. A role may be left to [columns]; false says that a test does without it."""
    description = written(annotation).note or described(kind).get(name)
    needed = parameter.default is parameter.empty
    if name in Columns.model_fields:
        role = in_a_file(annotation) | None
        return role if needed else role | Literal[False], Field(default=None, description=description)
    return in_a_file(annotation), Field(default=... if needed else parameter.default, description=description)


@cache
def described(kind: str) -> dict[str, str]:
    """What the function's documentation says of each parameter, on one line."""
    text = inspect.getdoc(getattr(isonomy, kind)) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.DOTALL | re.MULTILINE)
    entries = dict(_entries(section[1])) if section else {}
    return {name: _elsewhere(name, description) for name, description in entries.items()}


def _elsewhere(name: str, description: str) -> str:
    """A description, or that of the function it refers to: "As in `isonomy.flag`."."""
    other = re.match(r"As in `(?:isonomy\.)?(\w+)`", description)
    return described(other[1]).get(name, description) if other and hasattr(isonomy, other[1]) else description


def _entries(section: str) -> Iterator[tuple[str, str]]:
    """Parameter by parameter: names at the margin, several of them if they share a description."""
    for entry in re.split(r"\n(?=\S)", section):
        head, _, body = entry.partition("\n")
        names, _, _ = head.partition(" : ")
        description = " ".join(body.split()).replace("``", "`")
        yield from ((name.strip(), description) for name in names.split(","))


MODELS: dict[str, type[Test]] = {kind: _model(kind) for kind in KINDS}
if TYPE_CHECKING:
    AnyTest = Test
else:
    AnyTest = Annotated[Union[tuple(MODELS.values())], Discriminator("kind")]  # noqa: UP007


def annotation_of(kind: str, key: str) -> object:
    """What the function of a test says its keyword may be."""
    return hints(QUESTIONS[kind].function)[key]


def required(kind: str) -> list[str]:
    """Keywords the function cannot do without."""
    parameters = inspect.signature(QUESTIONS[kind].function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
