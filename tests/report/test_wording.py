"""The sentences of the report: numbers agree with their nouns, and every technical word is explained."""

from __future__ import annotations

import pytest

from isonomy.report import wording
from isonomy.report.document import FAILED, VERDICTS
from isonomy.results import KINDS, find_question, phrases
from support.fakes import document


@pytest.mark.parametrize("kind", KINDS)
def test_every_question_has_words(kind: str) -> None:
    asked = find_question(kind)
    assert asked.asks.endswith("?")
    assert len(wording.topic(asked, (), ())) <= 40
    for verdict in VERDICTS:
        assert asked.verdict(verdict).startswith(f"{asked.badge(verdict)}: ")
        assert asked.verdict(verdict).endswith(".")
        assert "iolation" not in asked.verdict(verdict)
        assert asked.looks.get(verdict, verdict) in wording.TALLIES


def test_every_verdict_has_a_badge_and_a_count() -> None:
    assert set(phrases.BADGES) == set(wording.NEXT) == {*VERDICTS, FAILED}
    assert {*VERDICTS, FAILED} <= set(wording.TALLIES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", [*VERDICTS, FAILED])
def test_there_is_something_to_do_next(kind: str, verdict: str) -> None:
    for options, stopped in (({}, True), ({"tolerance": None, "given": ("region",)}, True), ({}, False)):
        steps = wording.next_steps(find_question(kind), verdict, options, stopped=stopped, recorded=stopped)
        assert steps
        for step in steps:
            assert step.endswith(".")
            assert "=" not in step


def test_what_to_do_next_depends_on_the_tolerance_and_on_why_there_is_no_answer() -> None:
    flag = find_question("flag")
    assert "set it as the tolerance" in wording.next_steps(flag, "inconclusive", {"tolerance": None})[1]
    assert "tolerance" not in wording.next_steps(flag, "inconclusive")[1]
    assert "message" in wording.next_steps(flag, FAILED)[0]
    assert "warnings" in wording.next_steps(flag, FAILED, stopped=False)[0]


@pytest.mark.parametrize("kind", ["flag", "adverse_impact"])
def test_what_was_done_is_not_suggested_again(kind: str) -> None:
    asked = find_question(kind)
    assert phrases.WITHIN_FACTORS in wording.next_steps(asked, "violation")
    assert phrases.WITHIN_FACTORS not in wording.next_steps(asked, "violation", {"given": ("region",)})
    assert any(step in phrases.RECORD_CHOICE for step in wording.next_steps(asked, "within_tolerance"))
    recorded = wording.next_steps(asked, "within_tolerance", recorded=True)
    assert recorded
    assert not set(phrases.RECORD_CHOICE) & set(recorded)


@pytest.mark.parametrize(
    ("tally", "sentence"),
    [
        ({"violation": 0}, "Nothing was tested."),
        ({"violation": 1}, "1 question was tested: 1 difference shown."),
        (
            {"violation": 2, "inconclusive": 1, "failed": 1},
            "4 questions were tested: 2 differences shown, 1 inconclusive and 1 could not be answered.",
        ),
    ],
)
def test_the_headline(tally: dict[str, int], sentence: str) -> None:
    assert wording.headline(tally) == sentence


def test_numbers_agree_with_their_nouns() -> None:
    rules = ("violation", "within_tolerance", "alarm")
    happened = "2 violations (flag-tpr and hostile) and 1 verdict within tolerance (tolerated)"
    assert wording.outcome_line(document(fail_on=rules)) == f"This audit fails because of {happened}."
    nothing = "No test has a result on which this audit fails (violation and alarm in the last batch)."
    assert wording.outcome_line(document(entries=(), fail_on=("violation", "alarm"))) == nothing
    assert wording.plural(1, "test is", "tests are") == "1 test is"
    assert wording.plural(2_000, "test is", "tests are") == "2,000 tests are"
