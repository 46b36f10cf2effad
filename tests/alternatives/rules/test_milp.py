"""The rule that searches linear classifiers."""

from __future__ import annotations

from typing import Any

import pytest

import isonomy as iso
from isonomy.alternatives import MILPRule
from isonomy.errors import RuleFailed, UnknownOption, UsageError


def test_milp_rule(data: dict[str, Any], fit: dict[str, Any]) -> None:
    fit |= {"outcome": "sick", "accuracy": "accuracy", "capacity": None, "status_quo": "decision", "splits": 1}
    result = iso.improvability(data, **fit, rule=MILPRule(sample=24, time_limit=5))
    assert result.rule == "milp"
    assert {"value", "bound", "gap"} <= set(result.details[0])
    assert "rule gap" in result.to_frame().columns


def test_milp_rule_calibration(data: dict[str, Any], fit: dict[str, Any]) -> None:
    result = iso.improvability(data, **(fit | {"splits": 1, "capacity": 0.3}), rule=MILPRule(sample=16, time_limit=5))
    assert result.status[0] in ("ok", "infeasible", "time_limit")


def test_milp_rule_refuses(data: dict[str, Any], fit: dict[str, Any]) -> None:
    with pytest.raises(RuleFailed, match=r"round 1: rule 'milp'.*price"):
        iso.improvability(data, **(fit | {"capacity": None}), accuracy="profit", rule="milp")
    with pytest.raises(UsageError, match="group"):
        MILPRule(objective="accuracy")
    with pytest.raises(UsageError, match="tolerance"):
        MILPRule(margin=1e-9)
    with pytest.raises(UnknownOption):
        MILPRule(objective="profit")  # type: ignore[arg-type]
    fit |= {"outcome": "sick", "accuracy": "accuracy", "capacity": None, "status_quo": "decision"}
    with pytest.raises(RuleFailed, match="Martian"):
        iso.improvability(data, **fit, rule=MILPRule(objective="accuracy", group="race=Martian", sample=20))
