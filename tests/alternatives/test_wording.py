"""Sentences, from the values they are functions of."""

from __future__ import annotations

from typing import Any

import pytest

from isonomy.alternatives import wording


def test_the_null_names_the_rule_and_every_requirement() -> None:
    text = wording.null("lasso", "tpr", ("a", "b"), (0.1, -0.05), ("fpr",), (0.0,), "ratio")
    assert text == (
        "no algorithm that the rule 'lasso' can find is better than the status quo on all of these: true positive "
        "rate (a: higher by more than 10.0 % and b: lower by less than 5.0 %), and unfairness in false positive rate: "
        "smaller."
    )
    assert "higher by more than 0.100" in wording.null("x", "tpr", ("a",), (0.1,), ("fpr",), (-1.0,), "difference")
    assert wording.null(wording.CANDIDATE, "tpr", ("a",), (0.0,), ("fpr",), (0.0,), "ratio").startswith("the candidate")


@pytest.mark.parametrize(
    ("reject", "words"),
    [(True, "0.0266; 0.05 or less counts as shown."), (False, "0.0266; 0.02 or less counts as shown.")],
)
def test_the_conclusion_says_which_side_of_alpha(reject: bool, words: str) -> None:
    how = wording.basis("paper", 0.0133, 7, 5, 3, 1)
    text = wording.conclusion(reject, 0.0266, 0.05 if reject else 0.02, wording.subject("lasso", (), (), reject), how)
    assert "median p-value of 7 random splits is 0.0133" in text
    assert words in text
    assert text.endswith("Another alternative might meet them, and more rows might show it.") == (not reject)


def test_what_the_evidence_rests_on() -> None:
    assert wording.basis("splits", 0.02, 1, 5, 3, 1) == "One test"
    assert "7 random splits" in wording.basis("splits", 0.02, 7, 5, 3, 1)
    assert "5 folds, 3 times" in wording.basis("crossfit", 0.02, 1, 5, 3, 1)
    assert wording.basis("whole", 0.02, 1, 5, 3, 4).endswith("adjusted for 4 attempts")
    assert "5 folds, once" in wording.basis("crossfit", 0.02, 1, 5, 1, 1)
    assert wording.subject("x", ("a", "b", "c"), ("a", "c"), True) == "a and c meet"
    assert wording.subject("x", ("a", "b", "c"), ("a",), True) == "a meets"
    assert wording.subject("x", ("a", "b"), (), False) == "none of 2 candidates met"


def test_the_log_names_every_attempt() -> None:
    entries = (
        {"what": "older", "date": "2025-01-01", "seed": 3},
        {"what": "a", "evidence": "whole", "seed": 1, "adjusted pvalue": 0.012, "verdict": "violation"},
        {"what": "b", "evidence": "whole", "seed": 1, "adjusted pvalue": 1.0, "verdict": "inconclusive"},
    )
    assert wording.log(entries, "a") == (
        "Tried in all: older (2025-01-01, seed 3); a (adjusted p = 0.0120, shown); and b (adjusted p = 1.00, not "
        "shown). The figures that follow are those of a."
    )
    assert "more" not in wording.log([{"what": str(i)} for i in range(30)], "")


def test_effects_say_the_change_where_there_is_one() -> None:
    change = wording.limits_of("accuracy", 0.25, 0.1, 0.4, scale="ratio", alpha=0.05)
    assert change == "a gain of 25.0 % of the status quo's, 95 % limits 10.0 % to 40.0 % (for all gains together)"
    points = wording.limits_of("fairness", 0.25, 0.1, 0.4, scale="difference", alpha=0.05)
    assert points.startswith("a cut of 0.250, 95 % limits 0.100 to 0.400")
    assert wording.accuracy_effect("tpr", "a", 0.5, 0.4, change=change).endswith(f"status quo; {change}.")
    nothing = wording.limits_of("fairness", 0.25, float("nan"), float("nan"), scale="ratio", alpha=0.05)
    assert wording.fairness_effect("tpr", "a against b", float("nan"), 0.4, change=nothing).endswith("status quo.")
    options: dict[str, Any] = {"change": "", "own_pair": "a against c", "share": True}
    several = wording.fairness_effect("tpr", "a against b", 0.1, 0.4, **options)
    assert (
        "10.0 points with the alternative (a against c), 40.0 points with the status quo (a against b; corrected"
        in several
    )
    rounds = wording.fairness_effect("tpr", "a against b", 0.1, 0.4, **options, corrected=False)
    assert rounds.endswith("40.0 points with the status quo (a against b).")
    assert "no gap is certified" in wording.stopped("All rows", float("nan"))
    assert "no cut in unfairness is supported" in wording.supported("fairness", float("nan"), "ratio", 0.05)
    assert "of up to 12.5 %" in wording.supported("accuracy", 0.125, "ratio", 0.05)
    assert "accuracy lower by less than 1.0 %," in wording.supported("fairness", 0.1, "ratio", 0.05, 0.01)


def test_limits_depend_on_what_was_shown() -> None:
    assert "does not show that no alternative exists" in wording.limits(False, fitted=True)[0]
    assert "better algorithm exists" in wording.limits(True, fitted=True)[0]
    assert "fitted" not in wording.limits(True, fitted=False)[0]  # a candidate that was ready
