"""The parts of a report: every entry has a verdict, a sentence and a fault, however its test ended."""

from __future__ import annotations

import pytest

from isonomy.report import Entry, wording
from isonomy.report.document import FAILED, VERDICTS
from isonomy.results import Verdict, find_question, phrases
from support.fakes import document, fake, untested


def test_verdicts_are_the_three() -> None:
    assert set(VERDICTS) == {verdict.value for verdict in Verdict}


def test_an_entry_with_an_answer() -> None:
    entry = Entry(name="a", kind="flag", result=fake(decider=1))
    assert entry.answered
    assert entry.fault is None
    assert entry.verdict == "violation"
    assert entry.lead.startswith("For race=White")
    assert entry.sentence == find_question("flag").verdict("violation")
    assert entry.question == fake().question


def test_a_test_without_a_title_is_called_by_what_it_compares() -> None:
    assert Entry(name="a", kind="flag", result=fake()).heading == "True positive rate by race"
    options = {
        "metric": ("selection_rate", "tpr"),
        "groups": ("race", "sex", "age, cut at 25, 45", "job"),
        "given": "x",
    }
    named_race = Entry(name="a", kind="adverse_impact", options={"groups": ["race", "sex"]}, words={"race": "Race"})
    assert named_race.heading == "Impact ratios by Race and sex"
    several = Entry(name="a", kind="certify", options=options)
    assert several.heading == "Selection rate and true positive rate by race, sex, age and 1 more, taken together"
    assert Entry(name="a", kind="adverse_impact", options={"groups": "race"}).heading == "Impact ratios by race"
    named = {"groups": [{"column": "age", "edges": [25]}, {"name": "young men", "where": []}]}
    assert Entry(name="a", kind="project", options=named).heading == "Least change to equal rates by age and young men"
    assert Entry(name="a", kind="predictive_parity").heading == "Meaning of the score"


@pytest.mark.parametrize("kind", ["usage", "data", "crash"])
def test_an_entry_that_stopped(kind: str) -> None:
    entry = Entry(name="a", kind="project", error="No rows.", error_kind=kind)
    assert not entry.answered
    assert (entry.verdict, entry.fault, entry.lead) == (FAILED, kind, "No rows.")
    assert entry.sentence == wording.FAILED
    assert entry.question == find_question("project").asks


def test_an_entry_in_which_nothing_was_tested_is_bad_data() -> None:
    entry = Entry(name="a", kind="flag", result=untested(), title="My own")
    assert (entry.verdict, entry.fault, entry.heading) == (FAILED, "data", "My own")
    assert entry.sentence == phrases.unanswered(())


def test_the_tally_counts_every_entry_once() -> None:
    assert document().tally == {"violation": 2, "within_tolerance": 1, "inconclusive": 1, "failed": 1}
    untold = document(entries=(Entry(name="empty", kind="flag", result=untested()),))
    assert untold.tally == {"violation": 0, "within_tolerance": 0, "inconclusive": 0, "failed": 1}
