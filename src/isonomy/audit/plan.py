"""From the audit file to calls: each test with its roles filled in, its columns checked, its passes known."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw

import isonomy
from isonomy.audit.conditions import Condition, Cut, columns_of, group, metric, reference
from isonomy.audit.config import Columns, Config
from isonomy.audit.questions import OWN_KEYS, Test
from isonomy.errors import ConfigError, near
from isonomy.frames import Request, Source
from isonomy.frames.adapt import Adapted
from isonomy.numerics.randomness import named_seed


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """One test, ready to be made."""

    name: str
    kind: str
    test: Test
    options: Mapping[str, Any]  # as written, roles and tolerance filled in: plain values
    seed: int | None

    @property
    def function(self) -> Callable[..., Any]:
        """The function of the test's kind."""
        return getattr(isonomy, self.kind)

    def arguments(self) -> dict[str, Any]:
        """The keywords of the call."""
        ready = {name: _ready(name, value) for name, value in self.options.items()}
        return ready | ({"rng": self.seed} if self.seed is not None else {})

    def identity(self, fingerprint: str, suppress_below: int, filters: list[Condition]) -> str:
        """Equal for runs that would give the same numbers."""
        written = {
            "isonomy": isonomy.__version__,
            "kind": self.kind,
            "name": self.name,
            "options": {name: _plain(value) for name, value in self.options.items()},
            "filters": [_plain(condition) for condition in (*filters, *self.test.filters)],
            "seed": self.seed,
            "data": fingerprint,
            "suppress_below": suppress_below,
        }
        return hashlib.sha256(json.dumps(written, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _ready(name: str, value: Any) -> Any:
    """A value of the file as the function takes it."""
    if name == "groups":
        return [group(spec) for spec in value] if isinstance(value, list) else group(value)
    if name == "metric":
        return metric(value)
    if name == "reference":
        return reference(value)
    if name == "null" and isinstance(value, list):
        return tuple(value)
    if name == "observed_effects" and value is not None:
        return {label: tuple(pair) for label, pair in value.items()}
    return _plain(value)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="python", exclude_unset=True)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def plan(config: Config) -> list[Planned]:
    """Every test of the audit."""
    return [_planned(config, name, test) for name, test in zip(config.names, config.tests, strict=True)]


def _planned(config: Config, name: str, test: Test) -> Planned:
    kind: str = test.kind  # type: ignore[attr-defined]
    options = {
        key: getattr(test, key)
        for key in type(test).model_fields
        if key in test.model_fields_set and key not in OWN_KEYS and getattr(test, key) is not False
    }
    for role in test.inherited():
        common = getattr(config.columns, role)
        if role not in test.model_fields_set and common is not None:
            options[role] = common
    tolerance = getattr(config.tolerances, kind, None)
    if tolerance is not None and "tolerance" not in test.model_fields_set:
        options["tolerance"] = tolerance
    random = "rng" in type(test).model_fields and options.get("rng") is None
    return Planned(name, kind, test, options, named_seed(config.seed, name) if random else None)


def used(config: Config, planned: Iterable[Planned]) -> Iterator[tuple[str, str, Condition | Cut | None]]:
    """Every column the audit reads: the key that names it, its name, and what compares or cuts it."""
    if config.data.count is not None:
        yield "data.count", config.data.count, None
    for i, condition in enumerate(config.filters):
        yield f"filters[{i}].column", condition.column, condition
    for i, one in enumerate(planned):
        at = f"tests[{i}]"
        for j, condition in enumerate(one.test.filters):
            yield f"{at}.filters[{j}].column", condition.column, condition
        for key, value in one.options.items():
            home = f"{at}.{key}" if key in one.test.model_fields_set else f"columns.{key}"
            yield from ((home, column, how) for column, how in _columns(one.test, key, value))


def _columns(test: Test, key: str, value: Any) -> Iterator[tuple[str, Condition | Cut | None]]:
    if value is None:
        return
    if key == "groups" or key == "features":
        for spec in value if isinstance(value, list) else [value]:
            yield from columns_of(spec)
    elif key in ("metric", "reference"):
        if not isinstance(value, str):
            yield from columns_of(value)
    elif key in Columns.model_fields or key in test.column_keys:
        yield from columns_of(value)
    elif key == "split" and value != "independent":
        yield value, None
    elif key in ("accuracy", "fairness"):
        for utility in value if isinstance(value, list) else [value]:
            if hasattr(utility, "outcome"):
                yield utility.outcome, None


def check(config: Config, planned: Iterable[Planned], schema: Mapping[str, Any], file: str) -> list[str]:
    """Names and types against the table's columns; no row is read. Returns the columns the audit needs."""
    problems: list[str] = []
    needed: dict[str, None] = {}
    tests = list(planned)
    for key, column, how in used(config, tests):
        needed[column] = None
        if column not in schema:
            known = list(schema)
            shown = ", ".join(known[:40]) + (", ..." if len(known) > 40 else "")
            problems.append(f"{key}: no column {column!r} in the data.{near(column, known)} Columns: {shown}.")
        elif isinstance(how, Cut) and not schema[column].is_numeric():
            problems.append(f"{key}: column {column!r} is {schema[column]}; only numbers can be cut.")
        elif isinstance(how, Condition) and (problem := how.problem(schema[column])):
            problems.append(f"{key}: {problem}.")
        elif key.rpartition(".")[2] in _NUMBERS and _text(schema[column]):
            problems.append(
                f"{key}: column {column!r} is text ({schema[column]}); numbers or booleans are needed. Recode it "
                'first, for instance "yes" to 1 and "no" to 0.'
            )
    for i, one in enumerate(tests):
        problems += [
            f"tests[{i}].{name}: {one.kind} needs it; name a column here or in [columns]." for name in _lacking(one)
        ]
    if problems:
        raise ConfigError("\n".join(f"{file}: {problem}" for problem in dict.fromkeys(problems)))
    return list(needed)


# Keys whose columns are counted or averaged.
_NUMBERS = (
    "outcome", "prediction", "treatment", "score", "effect", "baseline", "status_quo", "candidate", "distance", "count",
)  # fmt: skip


def _text(dtype: Any) -> bool:
    return dtype in (nw.String, nw.Categorical) or isinstance(dtype, nw.Enum)


def _lacking(planned: Planned) -> list[str]:
    """Keywords the function cannot do without and nobody gave."""
    parameters = inspect.signature(planned.function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    return [name for name in required if name not in planned.options]


class _Asked(BaseException):
    """Not an `Exception`: no test may catch it."""


class _Listener(Source):
    """A table without rows that notes the first thing a test asks of it."""

    def __init__(self, source: Source) -> None:
        empty = Adapted(source.frame.head(0), source.backend, source.lazy)
        super().__init__(empty, count=source.count, missing=source.missing, missing_group=source.missing_group)
        self.heard: Request | None = None

    def cells(self, request: Request) -> Any:
        """Note a grouped pass."""
        self.heard = request
        raise _Asked

    def rows(self, request: Request) -> Any:
        """Rows are read when they are needed; nothing is to be shared."""
        raise _Asked


def requests(source: Source, planned: Iterable[Planned]) -> list[Request]:
    """The grouped passes the tests will begin with, found by asking each of them on a table without rows."""
    found = []
    for one in planned:
        listener = _Listener(source)
        try:
            one.function(listener, **one.arguments())
        except _Asked:
            if listener.heard is not None:
                found.append(listener.heard)
        except Exception:  # it will be told when the test is made
            continue
    return found
