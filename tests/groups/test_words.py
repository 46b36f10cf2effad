"""What is said, from typed values alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso

RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


def test_people_whose_group_is_not_recorded_are_neither_favored_nor_disfavored() -> None:
    table = {
        "p": np.repeat([1, 0, 1, 0, 1, 0], [500, 500, 800, 200, 100, 900]),
        "g": np.repeat(np.array(["a", "b", None], dtype=object), 1_000),
    }
    result = iso.flag(table, missing_group="level", **RATE)
    ways = dict(zip(result.labels, result.direction, strict=True))
    assert ways == {"g=a": "favored", "g=b": "favored", "g=(missing)": ""}
    assert {verdict.value for verdict in result.verdicts} == {"violation"}
    told = result.findings()
    assert "Favored: g=b and g=a. Called neither favored nor disfavored, because" in told[0]
    assert "the group is not recorded: g=(missing)." in told[0]
    assert next(text for text in told if text.startswith("g=(missing):")).endswith("A difference was shown.")
