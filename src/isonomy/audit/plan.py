"""From the audit file to calls: each test with its roles filled in, its columns checked, its passes known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import isonomy
from isonomy.audit.config import ROLES, Config, Test, annotation_of, required
from isonomy.audit.forms import FileComparison, FileCut, Role, UsedColumn, advice_in_a_file, columns_in, plain, ready
from isonomy.errors import ConfigError, IsonomyError, UnknownColumn, near
from isonomy.frames import Request, Source
from isonomy.frames.expressions import Schema, is_text
from isonomy.frames.profile import FEW, ROWS
from isonomy.frames.source import with_conditions
from isonomy.options import ROW_DEFAULTS, form_of, named_seed


@dataclass(frozen=True, slots=True, eq=False)
class PlannedTest:
    name: str
    test: Test
    options: Mapping[str, object]  # as written, with roles filled in
    seed: int | None

    @property
    def kind(self) -> str:
        return self.test.kind

    def home(self, number: int, key: str) -> str:
        return f"tests[{number}].{key}" if key in self.test.model_fields_set else f"columns.{key}"

    def ready(self) -> dict[str, object]:
        options = {key: ready(value) for key, value in self.options.items()}
        return options if self.seed is None else options | {"rng": self.seed}

    def identity(self, fingerprint: str, config: Config) -> str:
        contents = {
            "isonomy": isonomy.__version__,
            "kind": self.kind,
            "name": self.name,
            "options": {name: plain(value) for name, value in self.options.items()},
            "filters": [plain(condition) for condition in (*config.filters, *self.test.filters)],
            "seed": self.seed,
            "data": fingerprint,
            "reading": [getattr(config.data, name) for name in ROW_DEFAULTS],
            "user": config.columns.user,
            "suppress_below": config.suppress_below,
            "labels": plain(config.labels),
        }
        return hashlib.sha256(json.dumps(contents, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def requests(self, source: Source) -> tuple[Request, ...]:
        """The grouped passes with which the test begins; its errors are raised when it runs."""
        try:
            return self.test.question.planned(source, self.ready()).requests
        except IsonomyError:
            return ()


def plan(config: Config) -> list[PlannedTest]:
    return [_planned(config, name, test) for name, test in zip(config.names, config.tests, strict=True)]


def _planned(config: Config, name: str, test: Test) -> PlannedTest:
    options = test.own_options()
    keys = type(test).model_fields
    idle = test.question.idle(options)
    for role in ROLES:
        common = getattr(config.columns, role)
        if role in keys and role not in test.model_fields_set and role not in idle and common is not None:
            options[role] = common
    seed = options.get("rng")
    if seed is None and "rng" in keys:
        seed = named_seed(config.seed, name)
    return PlannedTest(name, test, options, seed if isinstance(seed, int) else None)


def of_other_rows(planned: Sequence[PlannedTest]) -> list[bool]:
    """Whether each test uses other rows than some other test, or groups that are cut or named differently.

    The numbers of a withheld group could then be derived from both tests.
    """
    described: list[tuple[object, dict[str, object]]] = []
    for test in planned:
        given = [test.options.get(key) for key in ("groups", "given")]
        specs = [spec for value in given for spec in (value if isinstance(value, list) else [value]) if spec]
        groups = {str(getattr(spec, "column", spec)): plain(spec) for spec in specs}
        described.append(([plain(condition) for condition in test.test.filters], groups))

    def differ(first: tuple[object, dict[str, object]], second: tuple[object, dict[str, object]]) -> bool:
        (filters, groups), (other_filters, others) = first, second
        added = [spec for column, spec in others.items() if column not in groups]
        return (
            filters != other_filters
            or any(others.get(column, spec) != spec for column, spec in groups.items())
            or any(isinstance(spec, dict) and "name" in spec for spec in added)
        )

    return [any(differ(first, second) for second in described if second is not first) for first in described]


def refusals(planned: Iterable[PlannedTest], source: Source, file: str) -> None:
    problems = []
    for i, test in enumerate(planned):
        try:
            question = test.test.question
            question.planned(*with_conditions(source, test.ready(), question.forms))
        except IsonomyError as error:
            text = advice_in_a_file(str(error))
            problems.append(f"{file}: tests[{i}]{'.' if text[:1].islower() else ': '}{text}")
    if problems:
        raise ConfigError("\n".join(problems))


def absent(planned: Iterable[PlannedTest], source: Source, file: str) -> None:
    """Raise if no row has the value that a role counts as 1, which is then probably misspelled."""
    given = [(test.home(i, key), value) for i, test in enumerate(planned) for key, value in test.options.items()]
    roles = {home: value for home, value in given if isinstance(value, Role)}
    missing: dict[str, str] = {}
    for text, role in {repr(role): role for role in roles.values()}.items():
        if len(source.filter(role.comparison.expression()).head(1)):
            continue
        present = source.head(ROWS)[role.column].drop_nulls().unique().sort()
        shown = [str(value) for value in present.head(FEW).to_list()]
        holds = f"it holds {', '.join(shown)}{', ...' if len(present) > FEW else ''}" if shown else "it is empty"
        close = near(str(role.equals), shown)
        missing[text] = f"no row has {role.equals!r} in column {role.column!r}; {holds}.{close}"
    problems = [f"{file}: {home}: {missing[repr(role)]}" for home, role in roles.items() if repr(role) in missing]
    if problems:
        raise ConfigError("\n".join(problems))


def used(config: Config, planned: Iterable[PlannedTest]) -> Iterator[tuple[str, *UsedColumn]]:
    """Every column that the audit reads: the key that names it, its name, and what compares or cuts it."""
    for name in ("count", "weight", "cluster", "date"):
        if (column := getattr(config.data, name)) is not None:
            yield f"data.{name}", column, None
    for i, condition in enumerate(config.filters):
        yield f"filters[{i}].column", condition.column, condition
    for i, test in enumerate(planned):
        for j, condition in enumerate(test.test.filters):
            yield f"tests[{i}].filters[{j}].column", condition.column, condition
        for key, value in test.options.items():
            yield from ((test.home(i, key), column, how) for column, how in columns_in(value))


def check(config: Config, planned: Iterable[PlannedTest], schema: Schema, file: str) -> list[str]:
    """Check names and types against the columns of the table, without reading rows; returns the columns needed."""
    problems: list[str] = []
    needed: dict[str, None] = {}
    tests = list(planned)
    # Keys that name a column of numbers: all except the person and the batch a row belongs to.
    named = {key for test in tests for key in test.options if form_of(annotation_of(test.kind, key)) == "column"}
    numbers = {"count", "weight", *named} - {"user", "batch"}
    for key, column, how in used(config, tests):
        needed[column] = None
        if column not in schema:
            problems.append(str(UnknownColumn(key, column, schema)))
        elif isinstance(how, FileCut) and not schema[column].is_numeric():
            problems.append(f"{key}: column {column!r} is {schema[column]}; only numbers can be cut.")
        elif isinstance(how, FileComparison) and (problem := how.comparison.mismatch(schema[column])):
            problems.append(f"{key}: {problem}.")
        elif how is None and key.rpartition(".")[2] in numbers and is_text(schema[column]):
            problems.append(
                f"{key}: column {column!r} is text ({schema[column]}); numbers or booleans are needed. Recode it "
                "first, or specify what counts as 1: "
                f'{{column = "{column}", equals = "yes"}} or {{column = "{column}", equals = "no"}}. For a '
                "decision, 1 is the one that is good for the person."
            )
    for i, test in enumerate(tests):
        lacking = [name for name in required(test.kind) if name not in test.options]
        problems += [f"tests[{i}].{n}: {test.kind} requires it; name a column here or in [columns]." for n in lacking]
    if problems:
        raise ConfigError("\n".join(f"{file}: {problem}" for problem in dict.fromkeys(problems)))
    return list(needed)
