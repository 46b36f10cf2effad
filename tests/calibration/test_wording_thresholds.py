"""Sentences about thresholds."""

from __future__ import annotations

from isonomy.calibration import wording_thresholds as wording
from isonomy.results import Status


def test_a_threshold_is_told_with_what_it_does() -> None:
    told = ("a", Status.EXTRAPOLATED, (0.5, 0.43), (0.4, 0.46), None)
    numbers = ([("outcome_at_margin", (0.5, 0.45))], (0.4, 0.5), 0.05)
    text = wording.threshold_finding(*told, *numbers, binary=True)
    assert text == (
        "a: threshold moves from 0.500 to 0.430 (95 % interval 0.400 to 0.460) (extrapolated below the present "
        "threshold); outcome at the margin from 50.0 % to 45.0 %; selection rate from 40.0 % to 50.0 %."
    )
    assert "margin from 0.500 to 0.450;" in wording.threshold_finding(*told, *numbers, binary=False)


def test_new_thresholds_are_not_said_to_make_estimates_equal() -> None:
    assert wording.thresholds_headline(True, True, "shown").endswith(
        "With these thresholds they would agree, but for differences that chance may explain."
    )


def test_one_threshold_cannot_make_both_rates_equal() -> None:
    text = wording.still_differ("tpr", "a", 0.5, "b", 0.6, binary=True, odds=True)
    assert "50.0 % in a, 60.0 % in b. One threshold per group cannot" in text
    assert "One threshold" not in wording.still_differ("tpr", "a", 0.5, "b", 0.6, binary=True)
