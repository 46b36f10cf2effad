"""What is said, from typed values alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import Verdict

DATA = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], 60), "psi": np.tile([2 / 3, -1 / 3, -1 / 3], 60)}
RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.02}, "its selection rate differs from that of the population by at most 2.0 points."),
        ({"null": iso.null(side="greater")}, "its selection rate is at most that of the population."),
        ({"null": iso.null(side="less")}, "its selection rate is at least that of the population."),
        ({"null": 0.1}, "its selection rate minus that of the population equals 10.0 points."),
        ({"scale": "ratio"}, "its selection rate divided by that of the population equals 1.00."),
    ],
    ids=str,
)
def test_the_hypothesis_is_told_without_signs_where_it_can_be(options: dict[str, Any], words: str) -> None:
    assert iso.flag(DATA, **RATE, **options).null == f"For each group, {words}"


def test_groups_without_a_test_are_named() -> None:
    data = {"p": [1, 0] * 50, "g": ["a"] * 90 + ["few"] * 10}
    result = iso.flag(data, min_size=20, **RATE)
    assert "Listed but not tested, because they have fewer than 20 rows that count: g=few." in result.warnings
    assert "1 group was listed without a verdict" in result.findings()[0]


def test_a_difference_is_told_beside_the_tolerance_that_was_set() -> None:
    table = {
        "g": np.repeat(["a", "b", "c"], 1_000),
        "p": np.concatenate([np.arange(1_000) < k for k in (300, 520, 620)]),
    }
    result = iso.flag({**table, "p": table["p"].astype(int)}, tolerance=0.05, **RATE)
    told = result.findings()
    assert "shown to differ from the population by more than the tolerance." in told[0]
    assert any(text.endswith("A difference larger than the tolerance was shown: disfavored.") for text in told)
    unclear = [i for i, verdict in enumerate(result.verdicts) if verdict is Verdict.INCONCLUSIVE]
    neither = [text for text in told if text.endswith("nor rule one out.")]
    assert len(neither) == len(unclear) == 1


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


def test_unknown_categories_have_bounds_without_sampling_error() -> None:
    group = np.array(["a"] * 400 + ["b"] * 400 + [None] * 40, dtype=object)
    table = {"p": np.resize([1, 0, 1, 1, 0], 840), "g": group}
    told = iso.adverse_impact(table, prediction="p", groups="g", missing_group="level").findings()
    assert any("in these data lies between" in text and "do not include sampling error." in text for text in told)
