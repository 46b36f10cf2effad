"""The same subgroups on every engine: codes are computed there, and rows are put in one order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import Engine, expected
from support.same import same
from support.subgroups import planted

NAMES = (
    *("labels", "status", "n", "estimate", "reference_value", "disparity", "ci_low", "ci_high", "pvalue"),
    *("adjusted_pvalue", "people", "found", "again", "within"),
)
FEATURES = ["sex", "region", iso.cut("age", [30, 50]), "hours", "children"]


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    return planted(900, seed=8, gap=0.4)


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "selection_rate"},
        {"metric": "fnr", "outcome": "outcome", "weight": "weight"},
        {"metric": "brier", "outcome": "outcome", "score": "score", "cluster": "person"},
        {"metric": "selection_rate", "given": "stratum", "count": "count", "scale": "ratio"},
        {"metric": "selection_rate", "evidence": "all", "tolerance": 0.01},
    ],
    ids=lambda options: options["metric"],
)
def test_the_same_subgroups(engine: Engine, people: dict[str, Any], options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"prediction": "approved", "features": FEATURES, "rng": 3} | options
    result, answer = iso.discover(engine(people), **given), expected(iso.discover, people, **given)
    assert answer.tried > 0
    same(result, answer, NAMES)
    assert result.to_toml() == answer.to_toml()


def test_missing_values_and_conditions(engine: Engine, people: dict[str, Any]) -> None:
    gone = np.arange(900) % 11 == 0
    region = [None if absent else name for absent, name in zip(gone, people["region"], strict=True)]
    hours = [None if absent else float(value) for absent, value in zip(gone[::-1], people["hours"], strict=True)]
    rows = {**people, "region": region, "hours": hours}
    young = iso.where("young women", (iso.col("age") < 30) & (iso.col("sex") == "f"))
    given: dict[str, Any] = {"metric": "selection_rate", "prediction": "approved", "rng": 1, "missing_group": "level"}
    given["features"] = [young, "region", "hours"]
    same(iso.discover(engine(rows), **given), iso.discover(rows, **given), NAMES)
