"""The arguments of a rule, and the error if it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import People, Training
from isonomy.errors import RuleFailed


def test_the_training_part_is_what_it_says(data: dict[str, Any], fit: dict[str, Any]) -> None:
    parts: list[Training] = []

    def rule(training: Training) -> Any:
        parts.append(training)
        return lambda people: people.features["x1"]

    iso.improvability(data, **fit, rule=rule)
    first = parts[0]
    assert len(first.people) == len(first.outcome) == len(first.status_quo) == 2000
    assert first.criteria.capacity == 0.1
    assert first.people.matrix().shape == (2000, 2)
    assert first.people.matrix(group_aware=True).shape == (2000, 3)
    assert set(np.unique(first.status_quo)) == {0.0, 1.0}


def _raises(training: Training) -> Any:
    raise ZeroDivisionError("no luck")


def _nan(training: Training) -> Any:
    return lambda people: np.full(len(people), np.nan)


def _short(training: Training) -> Any:
    return lambda people: np.zeros(3)


def _text(training: Training) -> Any:
    return lambda people: np.array(["yes"] * len(people))


def _not_callable(training: Training) -> Any:
    return 3


def _decides_badly(training: Training) -> Any:
    def decide(people: People) -> Any:
        raise KeyError("x9")

    return decide


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (_raises, "no luck"),
        (_nan, "NaN"),
        (_short, r"shape \(3,\)"),
        (_text, "not numbers"),
        (_not_callable, "callable"),
        (_decides_badly, "x9"),
    ],
)
def test_failing_rules_name_the_rule_and_the_round(
    data: dict[str, Any], fit: dict[str, Any], rule: Any, message: str
) -> None:
    with pytest.raises(RuleFailed, match=rf"round 1: rule '{rule.__name__}'.*{message}"):
        iso.improvability(data, **fit, rule=rule)
    with pytest.raises(RuleFailed, match=rf"fold 1: rule '{rule.__name__}'.*{message}"):
        iso.improvability(data, **(fit | {"method": iso.crossfit(repeats=1)}), rule=rule)


def test_a_rule_that_fails_in_one_round_improves_nothing_there(data: dict[str, Any], fit: dict[str, Any]) -> None:
    calls: list[int] = []

    def rule(training: Training) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("second")
        return lambda people: people.features["x1"]

    result = iso.improvability(data, **fit, rule=rule)
    assert result.round_pvalues[1] == 1
    assert [result.status[i] for i in result.lines("all")[:, 0]] == ["ok", "failed"]
    assert any("Round 2" in warning and "ValueError: second" in warning for warning in result.warnings)


def test_text_features_are_columns_of_their_levels() -> None:
    people = People(
        {"x": np.array([1.0, 2.0]), "town": np.array([1.0, -1.0])},
        np.array([0, 1]),
        ("a", "b"),
        {"town": ("Rome", "Troy")},
    )
    assert people.matrix(group_aware=True).tolist() == [[1, 1, 0], [2, 0, 1]]
