"""A call of a public test: its options, its table, its randomness, and the record of all three."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields
from inspect import signature
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Grouping, Reading, Request, Source, open_source
from isonomy.frames.roles import in_words, with_arrays, with_conditions
from isonomy.inference.designs import clusters_of
from isonomy.numerics.randomness import Seed, resolve
from isonomy.options import checked, form_of, hints
from isonomy.results.shape import Options, Provenance, provenance

P = ParamSpec("P")
R = TypeVar("R")

# Keywords that say how the table is read: they open the source, and no plan sees them.
READING = tuple(field.name for field in fields(Reading))
# Keywords that do not change a number.
UNRECORDED = ("data", "rng", "progress", "n_jobs")


class Planned(Protocol):
    """What every method's `Plan` tells before a row is read."""

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped passes the test will make, so that an audit can share them."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A public test: its function, and the plan it makes of its options."""

    name: str
    function: Callable[..., Any]
    plan: Callable[..., Planned]
    idle: Callable[[Options], Collection[str]]

    @property
    def forms(self) -> dict[str, str | None]:
        """The form of each keyword, where it has one: a column, several, groups."""
        return {name: form_of(annotation) for name, annotation in hints(self.function).items()}

    def planned(self, source: Source, options: Options) -> Planned:
        """The plan of a call with these options, and the function's defaults for the others. Reads no row."""
        parameters = signature(self.function).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        elsewhere = ("data", "rng", *READING)
        given = {name: value for name, value in {**defaults, **options}.items() if name not in elsewhere}
        return self.plan(source, **given)


QUESTIONS: dict[str, Question] = {}


def question(
    plan: Callable[..., Planned], *, idle: Callable[[Options], Collection[str]] = lambda _: ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a public test: its calls are checked, and an audit can ask it.

    Parameters
    ----------
    plan : callable
        ``plan(source, **options)``: the method's `Plan` for these options.
    idle : callable, optional
        Given the options of an audit file, the column roles that the test would not look at: they are then not taken
        from ``[columns]``.
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        entry = checked(function)
        QUESTIONS[function.__name__] = Question(function.__name__, entry, plan, idle)
        return entry

    return mark


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a test: the opened table, the options its plan takes, and a generator."""

    name: str
    source: Source
    options: Options
    rng: np.random.Generator
    seed: Seed
    recorded: Options

    def provenance(
        self,
        *,
        rows: int,
        dropped: Mapping[str, int],
        random: bool = True,
        grouping: Grouping | None = None,
        **chosen: object,
    ) -> Provenance:
        """The record of the call.

        ``random``: whether anything was drawn; ``grouping``: the groups whose clusters the result does not tell itself;
        ``chosen``: options settled on the way.
        """
        return provenance(
            self.name,
            {**self.recorded, **chosen},
            source=self.source,
            seed=self.seed if random else None,
            rows=rows,
            dropped=dropped,
            clusters=() if grouping is None or not self.source.designed else self.clusters(grouping),
        )

    def clusters(self, grouping: Grouping, everybody: str = "") -> tuple[tuple[str, int, float], ...]:
        """The clusters of each group, and how many of equal mass they are worth; ``everybody`` names all rows."""
        return clusters_of(self.source, grouping, everybody)


def open_call(name: str, arguments: Options) -> Call:
    """Open the table of a call. ``arguments``: the ``locals()`` of the public function, taken first thing."""
    forms = QUESTIONS[name].forms if name in QUESTIONS else {}
    data, given = with_arrays(arguments["data"], {key: v for key, v in arguments.items() if key != "data"}, forms)
    rng, seed = resolve(given.pop("rng", None))
    source = open_source(data, **{key: given.pop(key) for key in READING if key in given})
    asked = given
    source, given = with_conditions(source, asked, forms)
    conditions = {key: in_words(asked[key]) for key, name in given.items() if name is not asked[key]}
    for argument in ("weight", "cluster"):
        if getattr(source.reading, argument) is not None and argument not in arguments:
            raise UsageError(f"{argument}: {name} has no such option.")
    recorded = {key: value for key, value in (given | conditions).items() if key not in UNRECORDED}
    recorded |= asdict(source.reading)
    return Call(name, source, given, rng, seed, recorded)
