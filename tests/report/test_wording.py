"""The sentences of the report: numbers agree with their nouns, and every word a user meets is explained."""

from __future__ import annotations

import pytest

from isonomy.audit.questions import KINDS
from isonomy.report import wording
from isonomy.report.document import FAILED, VERDICTS
from isonomy.results import phrases


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_words(kind: str) -> None:
    assert kind in wording.QUESTIONS
    assert all(phrases.verdict(kind, verdict) for verdict in VERDICTS)


def test_every_verdict_has_a_badge_and_a_count() -> None:
    assert set(phrases.BADGES) == set(wording.NEXT) == {*VERDICTS, FAILED}
    assert set(wording.TALLIES) == {*VERDICTS, FAILED, wording.SHOWN, wording.COMPARED}


def test_a_chip_says_what_was_asked() -> None:
    assert phrases.badge("flag", "violation") == "Difference shown"
    assert phrases.badge("improvability", "violation") == "Alternative shown"
    assert phrases.badge("own kind", "violation") == "Difference shown"
    assert phrases.badge("evaluate_corrections", "inconclusive") == "Corrections compared"
    for kind in wording.NO_COMPLAINT:
        assert wording.look(kind, "violation") == wording.SHOWN
    for kind in wording.COMPARISONS:  # numbers beside one another: neither a complaint nor a test that cannot tell
        assert phrases.badge(kind, "inconclusive") != "Inconclusive"
        assert wording.look(kind, "inconclusive") == wording.COMPARED
    assert wording.look("improvability", "inconclusive") == "inconclusive"
    assert wording.look("flag", "violation") == "violation"


@pytest.mark.parametrize("kind", KINDS)
def test_headlines_and_chips_use_the_same_words(kind: str) -> None:
    for verdict in VERDICTS:
        assert phrases.verdict(kind, verdict).startswith(f"{phrases.badge(kind, verdict)}: ")
        assert "iolation" not in phrases.verdict(kind, verdict)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", [*VERDICTS, FAILED])
def test_there_is_something_to_do_next(kind: str, verdict: str) -> None:
    for tolerant, stopped in ((True, True), (False, True), (True, False)):
        steps = wording.next_steps(kind, verdict, tolerant=tolerant, stopped=stopped)
        assert steps
        for step in steps:
            assert step.endswith(".")
            assert "=" not in step


def test_what_to_do_next_depends_on_the_tolerance_and_on_why_there_is_no_answer() -> None:
    assert "set it as the tolerance" in wording.next_steps("flag", "inconclusive", tolerant=False)[1]
    assert "tolerance" not in wording.next_steps("flag", "inconclusive")[1]
    assert "message" in wording.next_steps("flag", FAILED)[0]
    assert "warnings" in wording.next_steps("flag", FAILED, stopped=False)[0]


@pytest.mark.parametrize(
    ("tally", "sentence"),
    [
        ({"violation": 0}, "No question was put to the data."),
        ({"violation": 1}, "1 question was put to the data: 1 difference shown."),
        (
            {"violation": 2, "inconclusive": 1, "failed": 1},
            "4 questions were put to the data: 2 differences shown, 1 inconclusive and 1 could not be answered.",
        ),
    ],
)
def test_the_headline(tally: dict[str, int], sentence: str) -> None:
    assert wording.headline(tally) == sentence


def test_numbers_agree_with_their_nouns() -> None:
    assert wording.outcome_line(1, ("violation",)) == "1 test ended in a verdict this audit fails on (violation)."
    assert wording.outcome_line(2, ("violation", "within_tolerance")).endswith("(violation and within tolerance).")
    assert wording.outcome_line(0, ("violation",)).startswith("No test ended")
    assert wording.more_warnings(1) == "1 more warning in the report."
    assert wording.more_warnings(2) == "2 more warnings in the report."
