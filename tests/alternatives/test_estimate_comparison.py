"""One comparison: what it refuses, and what it counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Utility
from isonomy.errors import DataError, NotEnoughData


def test_perfectly_fair_status_quo(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"status_quo": "everyone", "accuracy": "selection_rate", "fairness": "selection_rate"}
    with pytest.raises(
        DataError, match=r"round 1: the status quo's unfairness in selection_rate is exactly 0.*excludes"
    ):
        iso.improvability(data | {"everyone": np.ones(4000)}, **ask)


def test_a_gap_that_is_zero_by_coincidence_is_no_error() -> None:
    """Twelve people a group: some splits have equal rates, and a large p-value there."""
    ask: dict[str, Any] = {
        "outcome": "y",
        "groups": "g",
        "status_quo": "d0",
        "candidate": "d1",
        "accuracy": "selection_rate",
        "evidence": "paper",
    }
    d0, d1 = [1] * 6 + [0] * 6 + [1] * 4 + [0] * 8, [1, 0] * 12
    small = {"g": [0] * 12 + [1] * 12, "y": [0, 1] * 12, "d0": d0, "d1": d1}
    result = iso.improvability(small, **ask, min_size=2, splits=40, resamples=50, rng=1)
    zero = result.fairness[:, 0, 1] == 0
    assert zero.any()
    assert (result.round_pvalues[zero] > 0.3).all()


def test_nobody_of_a_group_is_selected(data: dict[str, Any], ask: dict[str, Any]) -> None:
    score = np.where(data["race"] == "Black", -100.0, data["need_score"])
    with pytest.raises(NotEnoughData, match=r"round 1: .*'race=Black' under the candidate"):
        iso.improvability(data | {"need_score": score}, **ask)


def test_resamples_without_anybody_are_counted_and_reported(data: dict[str, Any], ask: dict[str, Any]) -> None:
    race = np.full(4000, "White")
    top = np.argsort(data["need_score"])[-300::30]
    race[top] = "Black"
    race[np.argsort(data["need_score"])[:30]] = "Black"
    score = data["need_score"] + data["group"]
    result = iso.improvability(data | {"race": race, "cost_score": score}, **(ask | {"min_size": 2, "rng": 3}))
    assert (result.undefined > 0).any()
    assert any("count as exceeding" in w for w in result.warnings)
    assert (result.accuracy[:, 0, 2] >= result.undefined / 301).all()


def test_ratios_need_positive_accuracy(data: dict[str, Any], ask: dict[str, Any]) -> None:
    below = data | {"need": data["need"] - 10.0}
    with pytest.raises(DataError, match=r"round 1: .*difference"):
        iso.improvability(below, **ask)
    assert iso.improvability(below, **ask, scale="difference").reject


def test_a_group_without_outcomes_is_refused_before_anything_is_fitted(
    data: dict[str, Any], crossfit: dict[str, Any]
) -> None:
    sick = np.where(data["race"] == "Black", 0, data["sick"])
    calls: list[object] = []
    asked = {"outcome": "sick", "accuracy": "accuracy", "fairness": "tpr", "rule": calls.append}
    with pytest.raises(NotEnoughData, match=r"tpr is undefined for group 'race=Black'.* has an outcome that counts"):
        iso.improvability(data | {"sick": sick}, **(crossfit | asked))
    assert not calls


def test_a_denominator_of_a_few_rows_shows_nothing(data: dict[str, Any], ready: dict[str, Any]) -> None:
    """Means over six people and skewed outcomes reject a true null twice as often as they may."""
    result = iso.improvability(data, **(ready | {"capacity": 0.004}))
    assert result.pvalue == 1
    assert result.verdict == "inconclusive"
    assert "too few for the law of the test" in result.warnings[0]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_a_denominator_does_not_matter(data: dict[str, Any], ready: dict[str, Any], unit: float) -> None:
    ask = ready | {"accuracy": Utility("mean", lambda x, y, d: (unit * y * d, unit * d))}
    same = ready | {"accuracy": "outcome_among_selected"}
    assert iso.improvability(data, **ask).pvalue == pytest.approx(iso.improvability(data, **same).pvalue, rel=1e-6)
    few = iso.improvability(data, **(ask | {"capacity": 0.004}))
    assert "fewer than 10 rows are in a denominator" in few.warnings[0]
