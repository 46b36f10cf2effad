"""What is said of all groups taken together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.likelihood import wording_joint

DATA = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], 60)}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


def test_one_disparity_for_all_groups_is_named_and_several_are_not() -> None:
    assert "is 1.0 point." in iso.certify(DATA, null=0.01, reference=0.3, **RATE).null
    assert "is as given." in iso.certify(DATA, null=[0.01, 0.0, 0.0], reference=0.3, **RATE).null


@pytest.mark.parametrize(
    ("scale", "share", "words"),
    [
        ("difference", True, "The largest difference: a, 20.0 points lower, simultaneous 95 % interval 15.0 to 25.0."),
        ("difference", False, "The largest difference is -0.200, in a (simultaneous 95 % interval -0.250 to -0.150)."),
        (
            "ratio",
            True,
            "Furthest from the reference is a, with a ratio of -0.200 (simultaneous 95 % interval",
        ),
    ],
)
def test_the_largest_difference_is_in_the_unit_of_its_scale(scale: str, share: bool, words: str) -> None:
    assert wording_joint.largest_finding("a", -0.2, scale, (-0.25, -0.15), 0.05, share=share).startswith(words)


def test_what_groups_differ_from_is_told_where_it_is_not_equality() -> None:
    tested = "the difference tested, 5.0 points lower"
    told = wording_joint.certify_finding(3.0, 1, 0.01, "el", shown=True, tested=tested)
    assert f"the groups differ from {tested}, by more than chance explains" in told
    assert "on 1 degree of freedom" in told
