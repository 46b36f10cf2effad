"""Sentences: functions of typed values, and none that says more than was shown."""

from __future__ import annotations

from typing import Any

import pytest

import isonomy as iso
from isonomy.results import Status, Verdict
from isonomy.treatment import wording
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def test_a_large_p_is_inconclusive_and_no_sentence_says_fair() -> None:
    result = iso.treatment_bias(experiment(3_000), **ROLES, adjust="none")
    assert result.verdict is Verdict.INCONCLUSIVE
    text = result.summary().lower()
    assert not any(word in text for word in ("is fair", "unbiased", "fixed"))


def test_every_reason_for_no_answer_has_a_sentence() -> None:
    reasons = {
        Status.EMPTY, Status.NO_TREATED, Status.NO_CONTROL, Status.ZERO_BASELINE, Status.TOO_SMALL, Status.CONSTANT,
        Status.UNSUPPORTED, Status.FAILED, Status.FEW_CLUSTERS, Status.FEW_EVENTS,
    }  # fmt: skip
    assert set(wording.REASONS) == reasons
    assert wording.unanswered(["a", "b"], Status.NO_TREATED) == "No answer for a and b: no treated rows."


@pytest.mark.parametrize(
    ("verdict", "end"),
    [
        (Verdict.VIOLATION, ": a bias was shown."),
        (Verdict.WITHIN_TOLERANCE, ": any bias was shown to be within the tolerance."),
        (Verdict.INCONCLUSIVE, ": inconclusive."),
    ],
)
def test_a_finding_says_both_effects_and_ends_with_what_was_shown(verdict: Verdict, end: str) -> None:
    sentence = wording.finding(
        "group=a", rows=1234, predicted=1.5, observed=1.2, error=0.3, rest_error=0.05, bias=0.25, limits=(0.1, 0.4),
        alpha=0.05, pvalue=0.003, verdict=verdict,
    )  # fmt: skip
    assert sentence == (
        "group=a (1,234 rows): predicted effect 1.50, observed 1.20, an error of +0.300; in the other "
        "groups together the error is +0.0500. The difference of the two, the bias, is +0.250 (95 % interval 0.100 "
        f"to 0.400, adjusted p = 0.0030){end}"
    )


def test_what_is_assumed_depends_on_where_effects_come_from() -> None:
    assert "assigned at random" in wording.assumptions(experiment=True, arms_differ=False)[0][0]
    assert "no more than 5 points" in wording.assumptions(experiment=True, arms_differ=False)[0][1]
    differ = wording.assumptions(experiment=True, arms_differ=True, shares="pooled")[0][1]
    assert "by more than 5 points and more than chance explains, which confounds the pooled rest" in differ
    assert "brought by the caller" in wording.assumptions(experiment=False, arms_differ=False)[0][0]


def test_the_null_names_the_tolerance() -> None:
    assert "equals that of all other groups" in wording.null(None, "relative")
    assert "differs by at most 0.200 from" in wording.null(0.2, "difference")


def test_the_headline_of_an_evaluation_is_about_what_is_left() -> None:
    assert wording.less(0, 0, "none") == "Nothing was compared: no correction was evaluated."
    assert wording.less(0, 3, "mean").startswith("Corrections compared: none of 3")
    assert wording.less(2, 3, "mean") == "Less bias shown: less remains after 2 of 3 corrections, and least after mean."


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("points", "predicted uplift +15.0 points, observed -2.0 points, an error of +17.0 points"),
        ("points", "is +16.0 points (95 % interval 10.0 to 22.0 points, adjusted p = 0.0030)"),
        ("difference", "predicted uplift +0.150, observed -0.0200, an error of +0.170"),
    ],
)
def test_differences_are_uplifts_and_of_shares_in_points(unit: wording.Unit, words: str) -> None:
    sentence = wording.finding(
        "a", unit=unit, rows=10, predicted=0.15, observed=-0.02, error=0.17, rest_error=0.01, bias=0.16,
        limits=(0.10, 0.22), alpha=0.05, pvalue=0.003, verdict=Verdict.VIOLATION,
    )  # fmt: skip
    assert words in sentence


def test_points_are_for_shares_alone() -> None:
    assert wording.unit("difference", binary=True) == "points"
    assert wording.unit("difference", binary=False) == "difference"
    assert wording.unit("relative", binary=True) == "ratio"
    result = iso.treatment_bias(experiment(3_000, measure="difference"), **ROLES, measure="difference")
    assert result.units()["bias"] == "points"
    assert " points" in result.findings()[1]
    assert not iso.treatment_bias(experiment(3_000), **ROLES).units()


def test_the_groups_with_a_bias_are_named() -> None:
    assert wording.count(["women", "men"], 0, 3) == (
        "A bias was shown for 2 of 3 groups that could be tested: women and men."
    )
    assert wording.count([], 1, 3).startswith("A bias was shown for none of 3 groups that could be tested. For 1 any")
