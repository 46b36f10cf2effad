"""One of several rules, chosen on rows that none was fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Training
from isonomy.alternatives.rules.choice import stratified
from isonomy.errors import RuleFailed, UsageError
from support.tables import programme


def good(training: Training) -> Any:
    return lambda people: people.features["lab"]


def useless(training: Training) -> Any:
    return lambda people: np.sin(1e6 * people.features["x1"])


def broken(training: Training) -> Any:
    raise ValueError("no")


def test_the_better_rule_is_chosen_in_every_fold(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    result = iso.improvability(data, **crossfit, rule=[useless, broken, good])
    assert result.rule == "useless or broken or good"
    assert result.details[0] == {"chose good": 1.0}
    assert "In 5 of 5 fits: rule 'broken' failed: ValueError: no, so it was not chosen." in result.warnings
    alone = iso.improvability(data, **crossfit, rule=good)
    assert result.pvalue == pytest.approx(alone.pvalue, rel=0.5)


def test_folds_that_choose_scores_of_different_units_recommend_one_cutoff(
    data: dict[str, Any], crossfit: dict[str, Any]
) -> None:
    calls: list[int] = []

    def sometimes(training: Training) -> Any:
        calls.append(len(calls))
        if len(calls) % 3 == 0:
            raise ValueError("not now")
        return good(training)

    def in_thousandths(training: Training) -> Any:
        return lambda people: 5_000 + 1_000 * people.features["lab"]

    result = iso.improvability(data, **crossfit, rule=[sometimes, in_thousandths])
    assert len(result.details[0]) == 2  # both were chosen
    assert result.recommended is not None
    assert result.recommended.decide(programme(4_000, seed=9)).mean() == pytest.approx(0.1, abs=0.025)


def test_lists(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    assert iso.improvability(data, **crossfit, rule=["linear"]).rule == "linear"
    with pytest.raises(UsageError, match="empty list"):
        iso.improvability(data, **crossfit, rule=[])
    with pytest.raises(RuleFailed, match="fold 1"):
        iso.improvability(data, **crossfit, rule=[broken, broken])


def test_every_stratum_is_in_the_first_part(data: dict[str, Any], crossfit: dict[str, Any]) -> None:
    parts: list[Training] = []

    def rule(training: Training) -> Any:
        parts.append(training)
        return good(training)

    iso.improvability(data, **crossfit, rule=rule)
    learn, check = stratified(parts[0], 0.01)
    assert len(learn) + len(check) == len(parts[0].outcome)
    assert not set(learn) & set(check)
    chosen = parts[0].take(learn)
    assert len({(g, d) for g, d in zip(chosen.people.group, chosen.status_quo > 0.5, strict=True)}) == 4
