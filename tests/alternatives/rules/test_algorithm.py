"""The arguments of a rule, and the error if it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import People, Training
from isonomy.alternatives.rules.algorithm import at_capacity, select
from isonomy.alternatives.rules.utilities import READY, Criteria
from isonomy.errors import DataError, RuleFailed


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
        (_raises, "failed: ZeroDivisionError: no luck"),
        (_nan, r"returned .*\b0 .*finite"),
        (_short, r"returned .*\b3\b.*must return one"),
        (_text, "failed to decide: ValueError"),
        (_not_callable, "callable"),
        (_decides_badly, "failed to decide: KeyError"),
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


def criteria(capacity: float | None = None, threshold: float | None = None) -> Criteria:
    return Criteria(READY["accuracy"], (READY["tpr"],), ("a", "b"), capacity=capacity, threshold=threshold)


def test_decisions_and_the_papers_cutoffs() -> None:
    scores, weight = np.array([0.1, 0.4, 0.7, 0.9]), np.ones(4, dtype=np.int64)
    ready = select(np.array([0.0, 1.0]), weight[:2], criteria(0.5), "x", learn=True)
    assert ready.share.tolist() == [0, 1]
    assert np.isnan(ready.cutoff)
    assert select(scores, weight, criteria(threshold=0.7), "x").share.tolist() == [0, 0, 0, 1]
    cut = select(scores, weight, criteria(0.5), "x", learn=True)
    assert cut.share.tolist() == [0, 0, 1, 1]
    assert cut.cutoff == pytest.approx(0.55)
    with pytest.raises(DataError, match=r"x: .*capacity"):
        select(scores, weight, criteria(), "x")


@pytest.mark.parametrize("capacity", [0.03, 0.1, 0.37, 0.999])
@pytest.mark.parametrize("distinct", [1, 3, 10_000])
def test_exactly_the_capacity_is_selected(capacity: float, distinct: int) -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.integers(0, distinct, 500).astype(float), rng.integers(1, 4, 500)
    result = select(values + 2.0, weight, criteria(capacity), "x")
    assert np.average(result.share, weights=weight) == pytest.approx(capacity, abs=1e-12)
    assert result.edge.sum() == pytest.approx(1)
    order = np.argsort(values)
    assert (np.diff(result.share[order]) >= 0).all()  # nobody is passed over


def test_ties_at_the_cutoff_are_the_edge_if_they_are_many() -> None:
    values = np.array([0.0, 1, 1, 1, 1, 1, 1, 2])
    _, near, _ = at_capacity(values, np.ones(8, dtype=np.int64), 0.5, 8)
    assert near.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]
