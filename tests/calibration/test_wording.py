"""Sentences that claim no more than was shown."""

from __future__ import annotations

from typing import Any

import isonomy as iso
from isonomy.calibration import wording


def test_sentences_are_careful(results: list[Any]) -> None:
    for result in results:
        text = " ".join([result.summary(), *(" ".join(pair) for pair in result.assumptions())]).lower()
        assert result.findings()
        assert result.limits()
        assert "nan" not in text.split()
        for word in ("unbiased", "is fair", "are fair", "fixed"):
            assert word not in text


def test_a_pair_is_described_at_its_clearest_score() -> None:
    text = wording.pair_finding(("a", "b"), iso.Verdict.VIOLATION, 1e-9, 0.5, -0.12, (-0.2, -0.04), 0.05)
    assert text == (
        "a against b: a difference was shown (p < 0.001, adjusted for all pairs compared). Clearest at score 0.500: "
        "the expected outcomes of a and b differ by -0.120 (95 % interval -0.200 to -0.0400, simultaneous over scores)."
    )


def test_the_higher_outcome_is_named() -> None:
    for difference, higher in ((0.2, "a"), (-0.2, "b")):
        text = wording.margin_finding(("a", "b"), iso.Verdict.VIOLATION, 0.01, difference, (-0.3, 0.3), 0.05)
        assert f"{higher} has the higher outcome" in text
    assert "higher" not in wording.margin_finding(("a", "b"), iso.Verdict.INCONCLUSIVE, 0.5, 0.2, (-0.3, 0.3), 0.05)


def test_an_order_that_was_not_judged() -> None:
    inconclusive = iso.Verdict.INCONCLUSIVE
    assert wording.order_not_shown(float("nan"), inconclusive) == "The order of scores could not be judged."
    assert "No group was shown" in wording.order_not_shown(0.4, inconclusive)
    assert "Shown that no group" in wording.order_not_shown(0.4, iso.Verdict.WITHIN_TOLERANCE)
