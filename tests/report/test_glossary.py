"""The glossary of a report explains every technical word in it, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from isonomy.frames.metrics import NAMES
from isonomy.report import wording
from isonomy.results import find_question


def gloss(options: Mapping[str, object], names: Sequence[str] = (), kind: str = "flag", **more: Any) -> str:
    return wording.gloss(find_question(kind), options, names, **more)


@pytest.mark.parametrize("metric", NAMES)
def test_every_metric_is_explained(metric: str) -> None:
    head, _, meaning = gloss({"metric": metric}).partition(": ")
    assert meaning == f"{wording.GLOSSARY[metric]}."
    assert head[0].isupper()
    assert head.lower().replace(" ", "_") == metric or head.endswith(f"({metric})")


def test_a_gloss_has_the_audit_s_own_words_and_says_what_counts() -> None:
    options = {"metric": "tpr", "prediction": "deny is no", "outcome": "repaid"}
    text = gloss(options, ["approved of those who repay"])
    assert text.startswith("Approved of those who repay (tpr): the share selected among those with outcome 1. ")
    assert "Here, selected means that deny is no, and outcome 1 means that the column 'repaid' is 1." in text
    labeled = {"metric": "selection_rate", "prediction": "call", "positive": "yes"}
    assert gloss(labeled).endswith("the column 'call' is yes.")
    assert "its weight, the column PWGTP" in gloss({"metric": "tpr", "weight": "PWGTP"})


def test_who_is_selected_by_a_threshold_is_told() -> None:
    options = {"target": "selection_rate", "score": "points", "threshold": 0.6}
    text = gloss(options, kind="equalize_thresholds", labels={"selection_rate": "share hired"})
    assert "Here, selected means that points is at or above the threshold, at present 0.600." in text


def test_a_gloss_explains_each_word_once() -> None:
    text = gloss({"accuracy": ("tpr", "ppv"), "fairness": "tpr", "metric": 3, "criterion": "own words"})
    assert text.count("(tpr): ") == 1
    assert "(ppv): " in text
    assert gloss({}) == ""


def test_technical_words_are_explained_where_they_are_used() -> None:
    used = dict(wording.reading("Rows with the same user belong together (clusters); the design effect is 1.2."))
    assert {"Cluster", "Design effect"} <= set(used)
    assert "Bandwidth" not in used
    assert [term.partition(" ")[0] for term, _ in wording.reading("")] == ["Shown", "Interval"]  # in every report


def test_a_word_inside_another_word_needs_no_explanation() -> None:
    used = dict(wording.reading("The adjustment controls the share of false findings; a statistical question."))
    assert not {"Treated, control", "Statistic, degrees of freedom"} & set(used)
    assert "Treated, control" in dict(wording.reading("The average outcome of those treated."))


def test_the_words_for_a_positive_decision_are_used_everywhere() -> None:
    text = gloss({"metric": "tpr", "prediction": "ok", "outcome": "repaid"}, chosen="approved")
    assert "the share approved among those with outcome 1" in text
    assert "Here, approved means that the column 'ok' is 1, and" in text
    assert "selected" not in text


def test_every_term_is_a_sentence_without_code() -> None:
    for word, term, meaning in wording.TERMS:
        assert word.replace(r"\b", "") == word.lower().replace(r"\b", "")
        assert meaning[0].isupper()
        assert meaning.endswith(".")
        assert "_" not in term + meaning
