"""Questions: the public tests, the words of their reports, and how a call of one is opened.

A question is declared once, by a decorator over its function; the audit, the report, the comparison of two audits and
the documentation find it in `QUESTIONS`. `KINDS` lists the names, in the order in which they are presented.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ParamSpec, TypeVar

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Request, Source, open_source
from isonomy.frames.adapt import in_words, with_arrays
from isonomy.frames.source import with_conditions
from isonomy.options import ROW_DEFAULTS, checked, form_of, hints, resolve, seed_of
from isonomy.results import phrases
from isonomy.results.evidence import Options, Provenance, provenance

P = ParamSpec("P")
R = TypeVar("R")
L = TypeVar("L")

# The registry: a new question adds its name here, and its function to the exports of the package.
KINDS = (
    *("flag", "certify", "adverse_impact", "discover", "project", "improvability"),
    *("treatment_bias", "evaluate_corrections", "price_of_fairness"),
    *("predictive_parity", "composite_parity", "marginal_outcomes", "equalize_thresholds"),
    "monitor",
)
# Keywords that say how the table is read: they open the source, and no plan sees them.
READING = tuple(ROW_DEFAULTS)
# Keywords that do not change a number.
UNRECORDED = ("data", "rng")


@dataclass(frozen=True, eq=False)
class Plan:
    """The call of a question: a subclass has a field for each keyword, and cached properties for what follows.

    Only the schema of the table is read; ``__post_init__`` refuses what cannot be answered.
    """

    source: Source

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped passes the question will make, so that an audit can share them."""
        return ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """A public test: its function, its plan, and its words.

    ``asks`` is the question in a sentence. ``topic`` is its title in a report: "{}" stands for its metrics, "{by}" for
    its groups, which otherwise follow at the end. ``badges``, ``verdicts`` and ``next_steps`` are its words for a
    verdict, where they differ from the common ones ("beyond": a violation of a tolerance); ``looks`` says how a verdict
    that is no complaint is colored and counted. ``meaning`` explains its technical words, perhaps from the options of
    the call; ``speaks_of`` lists the words ("selected", "outcome 1") that its sentences use whatever its metric.
    ``from_counts``: it can be answered from counts if its metric is 0/1. ``moved`` maps keywords of earlier versions to
    what replaces them. ``idle`` returns the column roles that the question would not use with the options of an audit
    file; these are not taken from ``[columns]``. ``further`` names methods of its result that
    return another table, which an audit file may request by that name. ``scale_of``: the question that it asks on a
    scale of its own, and the options that say so; a report counts the two once.
    """

    name: str
    function: Callable[..., Any]
    plan: str  # the name of its class, in the module of the function
    asks: str
    topic: str
    badges: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)
    next_steps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    looks: Mapping[str, str] = field(default_factory=dict)
    meaning: str | Callable[[Options], str] = ""
    speaks_of: tuple[str, ...] = ()
    from_counts: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    idle: Callable[[Options], Collection[str]] = lambda _: ()
    further: tuple[str, ...] = ()
    scale_of: tuple[str, Mapping[str, str]] | None = None

    @cached_property
    def forms(self) -> dict[str, str | None]:
        """The form of each keyword, where it has one: a column, several, groups."""
        return {name: form_of(annotation) for name, annotation in hints(self.function).items()}

    def planned(self, source: Source, options: Options) -> Plan:
        """The plan of a call with these options, and the function's defaults for the others. Reads no row."""
        parameters = inspect.signature(self.function).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        elsewhere = ("data", "rng", *READING)
        given = {name: value for name, value in {**defaults, **options}.items() if name not in elsewhere}
        plan: type[Plan] = vars(sys.modules[self.function.__module__])[self.plan]
        return plan(source, **given)

    def badge(self, verdict: str) -> str:
        return self.badges.get(verdict, phrases.BADGES[verdict])

    def verdict(self, verdict: str, *, tolerant: bool = True, beyond: bool = False) -> str:
        """Not ``tolerant``: a tolerance could be set; none was. ``beyond``: one was, and groups differ by more."""
        sentence = self.verdicts.get(verdict, phrases.VERDICTS[verdict])
        if verdict == "inconclusive" and not tolerant:
            sentence = phrases.UNTOLERANT
        elif verdict == "violation" and beyond:
            sentence = self.verdicts.get("beyond") or self.verdicts.get(verdict, phrases.BEYOND)
        return f"{self.badge(verdict)}: {sentence}"


QUESTIONS: dict[str, Question] = {}


def find_question(name: str) -> Question:
    import isonomy

    if name not in QUESTIONS and not hasattr(isonomy, name):
        raise UsageError(f"kind: there is no question {name!r}; another version of isonomy may know it.")
    return QUESTIONS[name]


def question(
    plan: str, *, moved: Mapping[str, str] | None = None, **words: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a public question: its calls are checked, and an audit can ask it. ``words``: see `Question`."""

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        entry = checked(function, moved=moved)
        QUESTIONS[function.__name__] = Question(
            name=function.__name__, function=entry, plan=plan, moved=moved or {}, **words
        )
        return entry

    return mark


def open_call(
    name: str, plan: Callable[..., L], arguments: Options
) -> tuple[L, np.random.Generator, Callable[..., Provenance]]:
    """Open the table of a call: its plan, its generator, and what records it (see `provenance`).

    ``arguments``: the ``locals()`` at the start of the public function.
    """
    given = {key: value for key, value in arguments.items() if key not in ("data", "rows")}
    forms = QUESTIONS[name].forms if name in QUESTIONS else {}
    data, given = with_arrays(arguments["data"], given | arguments["rows"], forms)
    seed = given.pop("rng", None)
    rng = resolve(seed)
    source = open_source(data, **{key: given.pop(key) for key in READING if key in given})
    source, options = with_conditions(source, given, forms)
    conditions = {key: in_words(given[key]) for key, column in options.items() if column is not given[key]}
    recorded = {key: value for key, value in (options | conditions).items() if key not in UNRECORDED}
    seeded = partial(seed_of, rng, seed)
    return plan(source, **options), rng, partial(provenance, name, recorded | source.reading, source, seeded)
