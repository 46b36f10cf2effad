"""The progress of a long test, as reported to listeners."""

from __future__ import annotations

import isonomy as iso
from isonomy.results.progress import listening, tracked


def test_a_listener_hears_of_every_item_and_nobody_else_does() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *now: heard.append(now)):
        assert list(tracked(iter("ab"), "Letters", 2, bar=True)) == ["a", "b"]
    assert heard == [("Letters", 0, 2), ("Letters", 1, 2), ("Letters", 2, 2)]
    assert list(tracked("ab", "Letters", 2, bar=False)) == ["a", "b"]
    assert len(heard) == 3


def test_rounds_of_fits_and_splits_of_an_evaluation_are_told() -> None:
    table = iso.simulate.lender(2_000, seed=1).frame()
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *now: heard.append(now)):
        iso.improvability(
            table,
            outcome="repaid",
            groups="race",
            status_quo="approved",
            candidate="candidate_approved",
            fairness="tpr",
            method=iso.splits(2),
            rng=1,
        )
    assert heard[-1] == ("Rounds of fit and test", 2, 2)
    heard.clear()
    with listening(lambda *now: heard.append(now)):
        iso.evaluate_corrections(
            table,
            effect="predicted_effect",
            treatment="offer",
            outcome="accepted",
            groups="sex",
            rng=1,
            method=iso.heldout(2),
        )
    assert heard[-1][:1] == ("Splits and swaps",)
    assert heard[-1][1] == heard[-1][2] > 1
