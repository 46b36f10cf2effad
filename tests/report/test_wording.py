"""The sentences of the report: numbers agree with their nouns, and every word a user meets is explained."""

from __future__ import annotations

import pytest

from isonomy.audit.questions import KINDS
from isonomy.frames.metrics import NAMES
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


@pytest.mark.parametrize("metric", NAMES)
def test_every_metric_is_explained(metric: str) -> None:
    head, _, meaning = wording.gloss({"metric": metric}).partition(": ")
    assert meaning == f"{wording.GLOSSARY[metric]}."
    assert head[0].isupper()
    assert head.lower().replace(" ", "_") == metric or head.endswith(f"({metric})")


def test_a_gloss_has_the_audit_s_own_words_and_says_what_counts() -> None:
    options = {"metric": "tpr", "prediction": "deny is no", "outcome": "repaid"}
    text = wording.gloss(options, ["approved of those who repay"])
    assert text.startswith("Approved of those who repay (tpr): the share selected among those with outcome 1. ")
    assert "Selected means here: deny is no. Outcome 1 means here: repaid is 1." in text
    assert wording.gloss({"metric": "selection_rate", "prediction": "call", "positive": "yes"}).endswith("call is yes.")
    assert "its weight, PWGTP" in wording.gloss({"metric": "tpr", "weight": "PWGTP"})


def test_a_gloss_explains_each_word_once() -> None:
    text = wording.gloss({"accuracy": ("tpr", "ppv"), "fairness": "tpr", "metric": 3, "criterion": "own words"})
    assert text.count("(tpr): ") == 1
    assert "(ppv): " in text
    assert wording.gloss({}) == ""


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


@pytest.mark.parametrize(
    ("name", "heading"),
    [("ci_low", "Interval from"), ("pvalue", "p‑value"), ("users", "People"), ("own_column", "Own column")],
)
def test_headings_of_columns(name: str, heading: str) -> None:
    assert wording.column(name) == heading


def test_numbers_agree_with_their_nouns() -> None:
    assert wording.outcome_line(1, ("violation",)) == "1 test ended in a verdict this audit fails on (violation)."
    assert wording.outcome_line(2, ("violation", "within_tolerance")).endswith("(violation and within tolerance).")
    assert wording.outcome_line(0, ("violation",)).startswith("No test ended")
    assert wording.more_warnings(1) == "1 more warning in the report."
    assert wording.more_warnings(2) == "2 more warnings in the report."


def test_the_words_of_the_findings_are_explained() -> None:
    terms = " ".join(term for term, _ in wording.READING).lower()
    for word in ("disfavoured", "points", "population", "tolerance", "interval", "p-value", "effective number"):
        assert word in terms


def test_no_kind_of_interval_is_said_to_agree_with_the_verdict() -> None:
    text = dict(wording.READING)["Interval"]
    assert "interval of any kind may leave out zero" in text
    assert "unless it is called simultaneous" not in text
