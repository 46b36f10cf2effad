"""The widest gap between two groups."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups.likelihood import families
from isonomy.groups.likelihood.families import Gaps, Widest

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


@pytest.mark.parametrize("scale", ["difference", "ratio"])
def test_the_widest_gap_of_many_groups_needs_only_those_far_out(monkeypatch: pytest.MonkeyPatch, scale: Any) -> None:
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(300), rng.integers(20, 400, 300))
    data = {"g": group, "p": rng.random(group.size) < 0.3 + 0.2 * rng.random(300)[group]}
    every = iso.flag(data, **RATE_P, scale=scale, rng=0).widest()
    monkeypatch.setattr("isonomy.groups.likelihood.families.MANY", 60)
    few = iso.flag(data, **RATE_P, scale=scale, rng=0).widest()
    assert few.groups == every.groups
    assert (few.value, few.ci_low, few.ci_high) == pytest.approx((every.value, every.ci_low, every.ci_high), rel=1e-12)


def test_the_widest_gap_is_worked_out_when_it_is_asked_for(
    lender: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = iso.flag(lender, **RATE).widest()
    calls: list[object] = []

    def counted(*arguments: object) -> Widest:
        calls.append(arguments)
        return expected

    monkeypatch.setattr(families, "_widest_gap", counted)
    result = iso.flag(lender, **RATE)
    assert result.to_frame().shape[0] == 3
    assert not calls
    assert result.widest() is result.widest() is expected
    assert len(calls) == 1


def test_what_is_stored_copied_or_withheld_has_the_widest_gap_itself(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, **RATE)
    assert isinstance(result._widest_gap, Gaps)
    stored = json.loads(result.to_json())["result"]
    assert stored["widest_gap"]["groups"] == list(result.widest().groups)
    assert "_widest_gap" not in stored
    for again in (iso.from_json(result.to_json()), pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert isinstance(again._widest_gap, Widest)
        assert again.widest() == result.widest() == result.widest_gap
    small = lender | {"race": np.where(np.arange(600) < 12, "few", lender["race"])}
    hidden = iso.flag(small, **RATE).suppressed(20)
    assert not isinstance(hidden._widest_gap, Gaps)  # it would hold the withheld counts


def test_no_row_is_kept_for_the_widest_gap(lender: dict[str, Any]) -> None:
    assert isinstance(iso.flag(lender, **LOSS)._widest_gap, Widest)
