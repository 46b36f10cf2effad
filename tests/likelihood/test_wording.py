"""What is said, from typed values alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.likelihood import Estimate, wording

DATA = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], 60), "psi": np.tile([2 / 3, -1 / 3, -1 / 3], 60)}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (1e-5, "selection_rate less 0.00001 is"),
        (0.25, "selection_rate less 0.25 is"),
        ("population", "selection_rate less that of the population is"),
        ("rest", "selection_rate less that of the rest of the population is"),
        ({"g": "a"}, "selection_rate less that of g=a is"),
        (Estimate(1 / 3, "psi"), "selection_rate less the estimate 0.333333 is"),
    ],
    ids=str,
)
def test_a_value_is_subtracted_and_people_have_one(reference: Any, words: str) -> None:
    for ask in (iso.flag, iso.certify):
        result = ask(DATA, reference=reference, **RATE)
        assert words in result.null
        again = iso.from_json(result.to_json())
        axis = again.plot().to_dict()["layer"][-2]["encoding"]["x"]["title"]
        assert f"{axis} is" == words


def test_one_disparity_for_all_groups_is_named_and_several_are_not() -> None:
    assert "is 0.0100." in iso.certify(DATA, null=0.01, reference=0.3, **RATE).null
    assert "is as given." in iso.certify(DATA, null=[0.01, 0.0, 0.0], reference=0.3, **RATE).null


@pytest.mark.parametrize(
    ("flagged", "within", "tested", "words"),
    [
        ([], 0, 3, "None of 3 tested groups was flagged."),
        (["g=a"], 1, 3, "1 of 3 tested groups was flagged: g=a. 1 was shown to lie within the tolerance."),
        (["g=a", "g=b"], 0, 2, "2 of 2 tested groups were flagged: g=a and g=b. Listed but not tested (see"),
    ],
    ids=str,
)
def test_the_overview_counts(flagged: list[str], within: int, tested: int, words: str) -> None:
    assert wording.flag_overview(flagged, within, tested, 3, "two-sided").startswith(words)
