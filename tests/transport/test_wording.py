"""Every sentence of a projection: verdicts, nulls, findings, and what a criterion of one's own is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.transport import Discerning, ProjectionResult, wording


def test_words(result: ProjectionResult) -> None:
    text = " ".join(result.summary().split())
    for word in (" selected among those with outcome 1, ", "flips", "chance alone exceeds", "would move"):
        assert word in text
    assert not any(word in text.lower() for word in (" is fair", "unbiased", " fixed"))
    assert len(result.assumptions()) >= 3
    assert result.limits()


def pair(shift: float, n: int = 4_000, **options: Any) -> ProjectionResult:
    rng = np.random.default_rng(7)
    group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    score = rng.normal(size=n) + shift * (group == "b")
    data = {"g": group, "s": score, "c": score >= 0}
    return iso.project(
        data, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", **options
    )


def test_without_a_tolerance_no_number_of_rows_settles_it() -> None:
    plain, bounded = pair(0.0), pair(0.0, tolerance=0.001)
    for answer in (plain, bounded, pair(0.0, tolerance=0.0)):
        assert answer.verdict is iso.Verdict.INCONCLUSIVE
    for answer in (plain, pair(0.0, tolerance=0.0)):
        assert "no number of rows can show that groups are equal" in answer.summary()
        assert "within tolerance" not in answer.headline()
        assert "could not tell" not in answer.summary()
    assert "neither a difference nor" in bounded.headline()
    untested = replace(plain, pvalue=float("nan"))
    assert "Not answered" in untested.headline()


def test_a_one_sided_tolerance_speaks_of_its_side() -> None:
    below = pair(0.6, tolerance=0.05, tolerance_side="lower")  # b is selected far more often than a, the reference
    assert below.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert below.null == "No group is selected at a rate more than 0.0500 below its reference's."
    text = below.summary()
    assert "less than 0.0500 below its reference's. Differences the other way were not tested" in below.headline()
    assert "equal to within" not in text
    above = pair(0.6, tolerance=0.05, tolerance_side="upper")
    assert above.verdict is iso.Verdict.VIOLATION
    assert "at most 0.0500 above their reference's flips" in above.summary().replace("\n    ", " ")


def own_tuple(scale: float, **options: Any) -> ProjectionResult:
    """A criterion of one's own whose moment is no difference of rates."""
    rng = np.random.default_rng(9)
    age, score = rng.integers(2, 7, 3_000), rng.normal(size=3_000)
    score += 0.1 * (age - 4)
    own = Discerning(
        u={"age": iso.col("age")}, phi=lambda u, mean: scale * (u[:, 0] - mean[0]), names=("age and selection",)
    )
    data = {"age": age, "s": score, "c": score >= 0}
    return iso.project(data, prediction="c", score="s", threshold=0.0, criterion=own, **options)


@pytest.mark.parametrize(
    ("options", "verdict", "headline"),
    [
        ({}, "violation", "the moments of this criterion are not 0."),
        ({"tolerance": 0.001}, "violation", "are not within 0.00100 of 0."),
        ({"tolerance": 1.5}, "within_tolerance", "every moment of this criterion was shown to be within 1.50 of 0."),
        (
            {"tolerance": 1.5, "tolerance_side": "lower"},
            "within_tolerance",
            "every moment of this criterion was shown to be at least -1.50.",
        ),
    ],
)
def test_a_tuple_of_ones_own_is_not_called_a_rate(options: dict[str, Any], verdict: str, headline: str) -> None:
    answer = own_tuple(1.0, **options)
    assert answer.verdict.value == verdict
    assert headline in answer.headline()
    text = " ".join((answer.headline(), answer.null, *answer.findings(), *answer.warnings))
    assert "rate" not in text
    assert "moments" in text


@pytest.mark.parametrize(
    ("criterion", "tolerance", "side", "sentence"),
    [
        ("statistical_parity", None, "both", "Every group is selected at the same rate as its reference."),
        ("equal_opportunity", 0.1, "both", "within 0.100 either way."),
        ("equalized_odds", 0.0, "upper", "no group is selected at a rate more than 0 above its reference's."),
        ("discerning", 0.1, "lower", "The mean of C phi(U, E U) is at least -0.100 in every component."),
    ],
)
def test_the_null_in_words(criterion: str, tolerance: float | None, side: wording.Side, sentence: str) -> None:
    assert sentence in wording.null(criterion, tolerance, side)


def test_every_status_that_a_projection_can_have_is_explained() -> None:
    for status in ("infeasible", "atoms", "unsupported", "constant", "not_converged"):
        assert wording.STATUSES[Status(status)].endswith(".")


def test_the_distance_that_chance_may_explain_is_named() -> None:
    told = wording.evidence("equal_opportunity", 0.01, 0.4, 0.05, 0.02, Status.OK, True)
    assert told.startswith("Could chance explain how far decisions would have to move in all? p = 0.0100: ")


def test_who_moves_is_told_by_direction() -> None:
    both = wording.movers("equal_opportunity", "g=a", 1, 0.25, 12.0, 3.0, 0.5)
    assert both.startswith("g=a, among those with outcome 1: 25.0 % would move")
    assert "12 from refused to selected and 3 from selected to refused" in both
    assert "under one row" in wording.movers("discerning", "x", None, 0.001, 0.1, 0.0, 0.5)
