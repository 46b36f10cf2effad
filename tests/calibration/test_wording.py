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
    told = (("a", "b"), iso.Verdict.VIOLATION, 1e-9, 0.5, -0.12, (-0.2, -0.04), 0.05)
    first = (
        "a against b: a difference was shown (p < 0.001, adjusted for all pairs compared). Clearest at score 0.500: "
    )
    assert wording.pair_finding(*told, binary=True) == first + (
        "the expected outcome of a is 12.0 points lower than that of b (simultaneous 95 % interval 4.0 to 20.0)."
    )
    assert wording.pair_finding(*told, binary=False) == first + (
        "the expected outcome of a is 0.120 lower than that of b (simultaneous 95 % interval -0.200 to -0.0400 of the "
        "difference)."
    )


def test_the_higher_outcome_is_named() -> None:
    for difference, higher in ((0.2, "a"), (-0.2, "b")):
        told = (("a", "b"), iso.Verdict.VIOLATION, 0.01, difference, (-0.3, 0.3), 0.05)
        assert f"the margin is that of {higher}:" in wording.margin_finding(*told, binary=True)
    told = (("a", "b"), iso.Verdict.INCONCLUSIVE, 0.5, 0.2, (-0.3, 0.3), 0.05)
    assert "The higher outcome" not in wording.margin_finding(*told, binary=True)
    assert wording.margin_finding(*told, binary=True).endswith("pairs compared. No difference was shown.")


def test_shares_are_told_in_percent_and_points() -> None:
    told = wording.margin_finding(("a", "b"), iso.Verdict.INCONCLUSIVE, 0.5, 0.2, (-0.1, 0.5), 0.05, binary=True)
    assert "is 20.0 points higher than that of b (95 % interval 10.0 points lower to 50.0 points higher)" in told
    group = ("a", 0.454, (0.299, 0.608), 0.05, 527)
    assert wording.group_margin(*group, binary=True) == (
        "a: expected outcome at the threshold 45.4 % (95 % interval 29.9 % to 60.8 %; 527 rows above it)."
    )
    assert "0.454 (95 % interval 0.299 to 0.608;" in wording.group_margin(*group, binary=False)
    assert wording.marginal_null(0.5, 0.1, binary=True).endswith("differs by at most 10.0 points in all groups.")


def test_rows_that_belong_together_are_not_said_to_stand_on_their_own() -> None:
    assert wording.parity_null("row", None, None, order=True, binary=True).endswith("at higher ones, counting rows.")
    alone = wording.parity_null("user", None, None, order=False, binary=True)
    assert alone == "at every score the expected outcome is the same in all groups, each user counting once."


def test_tables_tell_which_columns_are_shares(results: list[Any]) -> None:
    for result in results:
        if not hasattr(result, "binary"):
            continue
        columns, units = result.table(), result.units()
        shares = [name for name in columns if name.startswith(("estimate", "reference_")) and "effective" not in name]
        shares = [name for name in shares if name != "reference_n"]
        assert result.binary
        assert units
        assert all(units[name] == "%" for name in shares)
        assert "reference" not in units


def test_an_order_that_was_not_judged() -> None:
    inconclusive = iso.Verdict.INCONCLUSIVE
    assert wording.order_not_shown(float("nan"), inconclusive) == "The order of scores could not be judged."
    assert "No group was shown" in wording.order_not_shown(0.4, inconclusive)
    assert "Shown that no group" in wording.order_not_shown(0.4, iso.Verdict.WITHIN_TOLERANCE)
