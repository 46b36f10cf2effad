"""The same answers on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import Engine, expected
from support.same import same

NAMES = (
    *("labels", "status", "size", "n", "estimate", "reference_value", "disparity", "ci_low", "ci_high", "pvalue"),
    *("evidence", "batch_names", "batch_n", "low_by_batch"),
)


@pytest.fixture(scope="module")
def decisions() -> dict[str, Any]:
    rng = np.random.default_rng(22)
    n = 800
    return {
        "week": np.sort(rng.integers(0, 8, size=n)),
        "race": rng.choice(["a", "b", "c"], size=n).tolist(),
        "person": [f"p{i}" for i in rng.integers(0, 200, size=n)],
        "prediction": (rng.random(n) < 0.4).astype(int),
        "score": rng.random(n),
    }


OPTIONS: dict[str, Any] = {"batch": "week", "metric": "selection_rate", "prediction": "prediction", "groups": "race"}


@pytest.mark.parametrize(
    "more", [{}, {"reference": {"race": "a"}}, {"cluster": "person"}], ids=["rest", "group", "people"]
)
def test_rates(engine: Engine, decisions: dict[str, Any], more: dict[str, Any]) -> None:
    options = OPTIONS | more
    same(iso.monitor(engine(decisions), **options), expected(iso.monitor, decisions, **options), NAMES)


def test_numbers(engine: Engine, decisions: dict[str, Any]) -> None:
    options = OPTIONS | {"metric": "mean_prediction", "prediction": "score"}
    same(iso.monitor(engine(decisions), **options), expected(iso.monitor, decisions, **options), NAMES)


def test_batch_by_batch(engine: Engine, decisions: dict[str, Any]) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "batch"}
    first, second = iso.Monitor(**options), iso.Monitor(**options)
    for week in range(3):
        rows = {name: np.asarray(values)[decisions["week"] == week] for name, values in decisions.items()}
        same(first.update(engine(rows), batch=str(week)), second.update(rows, batch=str(week)), NAMES)
    assert not (~np.isnan(first.result().alarm_by_batch)).any()
