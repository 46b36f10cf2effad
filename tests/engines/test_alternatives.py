"""The same numbers on every engine, including the splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import Engine, expected
from support.same import same


def people() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    n = 600
    g, y = rng.integers(0, 2, n), rng.poisson(2, n)
    return {
        "race": np.array(["Black", "White"])[g].tolist(),
        "need": y,
        "score": np.round(y + g + rng.normal(0, 2, n), 2),
        "other": np.round(y + rng.normal(0, 1, n), 2),
        "x": np.round(y + rng.normal(0, 2, n), 3),
        "times": rng.integers(1, 3, n),
        "town": rng.integers(0, 60, n),
        "region": np.array(["north", "south", "west"])[rng.integers(0, 3, n)].tolist(),
    }


PEOPLE = people()
ASK: dict[str, Any] = {
    "outcome": "need",
    "groups": "race",
    "status_quo": "score",
    "capacity": 0.3,
    "method": iso.splits(3, resamples=100),
    "rng": 1,
}
MODES: dict[str, dict[str, Any]] = {
    "candidate": {"candidate": "other"},
    "counted": {"candidate": "other", "count": "times"},
    "rule": {"rule": "linear", "features": ["x"]},
    "all rows": {"candidate": ["other", "x"], "method": None},
    "all rows, weights and clusters": {"candidate": "other", "weight": "times", "cluster": "town", "method": None},
    "cross-fitting, text": {"rule": "linear", "features": ["x", "region"], "method": iso.crossfit(repeats=1)},
}


@pytest.mark.parametrize("mode", MODES)
def test_equal_on_every_engine(engine: Engine, mode: str) -> None:
    options = ASK | MODES[mode]
    result = iso.improvability(engine(PEOPLE), **options)
    same(
        result,
        expected(iso.improvability, PEOPLE, **options),
        ("estimate", "reference", "pvalues", "selected", "cutoffs"),
        abs=0,
    )
    assert [g.label for g in result.members] == ["race=Black", "race=White"]
