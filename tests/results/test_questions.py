"""A call of a public test: its options are checked, its table is opened once, and everything is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import isonomy
from isonomy.errors import UsageError
from isonomy.frames import Request, Source, open_source
from isonomy.options import Alpha, Missing, Seed
from isonomy.results import KINDS, QUESTIONS, Plan, Question, find_question, open_call, question
from isonomy.results.questions import READING

TABLE = {"g": ["a", "b"], "n": [2, 3]}


@dataclass(frozen=True, eq=False, kw_only=True)
class MadeUpPlan(Plan):
    """The plan of a made-up question."""

    groups: str
    alpha: float

    @property
    def requests(self) -> tuple[Request, ...]:
        return (Request(grouping=self.source.grouping(self.groups)),)


@pytest.fixture
def registered() -> Iterator[Question]:
    """A made-up question that is registered while a test runs."""

    @question("MadeUpPlan", asks="Is it?", topic="It", idle=lambda options: ("score",) if "groups" in options else ())
    def made_up(data: object, *, groups: str, alpha: Alpha = 0.05, missing: Missing = "raise", rng: Any = None) -> str:
        """Is it?"""
        return f"{groups} at {alpha}"

    yield QUESTIONS["made_up"]
    del QUESTIONS["made_up"]


def test_a_plan_takes_the_defaults_of_the_function(registered: Question) -> None:
    source = open_source(TABLE)
    planned = registered.planned(source, {"groups": "g", "missing": "drop", "rng": 3})
    assert isinstance(planned, MadeUpPlan)
    assert planned.source is source
    assert (planned.groups, planned.alpha) == ("g", 0.05)  # the plan has no options for rows and seeds
    assert planned.requests[0].grouping is not None
    given = registered.planned(source, {"groups": "g", "alpha": 0.2})
    assert isinstance(given, MadeUpPlan)
    assert given.alpha == 0.2


@pytest.mark.parametrize("name", KINDS)
def test_every_public_test_is_registered_under_its_name(name: str) -> None:
    assert find_question(name).name == name
    assert QUESTIONS[name].function is getattr(isonomy, name)


def both(source: Source, **options: Any) -> tuple[Source, dict[str, Any]]:
    """A plan that keeps what it is given."""
    return source, options


def test_a_source_is_shared_and_its_options_are_recorded() -> None:
    shared = open_source(TABLE, count="n", missing_group="level")
    (source, _), _, record = open_call("flag", both, {"rows": {}, "data": shared, "groups": "g"})
    assert source is shared
    reading = {"count": "n", "weight": None, "cluster": None, "missing": "raise", "missing_group": "level"}
    assert record(rows=5).options == {"groups": "g", **reading}


def test_what_changes_no_number_is_not_recorded() -> None:
    arguments = {
        "rows": {},
        "data": TABLE,
        "groups": "g",
        "method": isonomy.crossfit(n_jobs=2, progress=True),
        "rng": 1,
    }
    _, _, record = open_call("flag", both, arguments)
    assert record().options.keys() == {"groups", "method", *READING}
    assert record().options["method"] == "crossfit()"


def test_the_record_of_a_call() -> None:
    _, _, recorded = open_call("flag", both, {"rows": {}, "data": TABLE, "groups": "g", "rng": 7})
    record = recorded(rows=5, dropped={"g": 1}, groups="settled", bandwidth=0.5)
    assert (record.call, record.rows, record.dropped, record.backend) == ("flag", 5, {"g": 1}, "mapping")
    assert record.options["groups"] == "settled"
    assert record.options["bandwidth"] == 0.5
    assert record.seed == Seed(7, "given")
    assert recorded(rows=5, dropped={}, random=False).seed is None


def test_a_drawn_seed_repeats_the_draws() -> None:
    _, rng, record = open_call("flag", both, {"rows": {}, "data": TABLE})
    seed = record().seed
    assert seed is not None
    assert seed.origin == "drawn"
    assert rng.random() == np.random.default_rng(seed.entropy).random()


def test_an_unknown_question_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no question 'own kind'"):
        find_question("own kind")
