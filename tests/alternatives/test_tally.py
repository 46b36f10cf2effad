"""What the rows say: groups, missing values, lines in canonical order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives.plan import Plan
from isonomy.alternatives.tally import tally
from isonomy.errors import MissingValues, OneGroup, UnknownColumn
from isonomy.frames import open_source
from isonomy.results.call import QUESTIONS


def test_one_group(data: dict[str, Any], ask: dict[str, Any]) -> None:
    with pytest.raises(OneGroup, match="at least two"):
        iso.improvability(data | {"race": np.full(4000, "Black")}, **ask)
    with pytest.raises(OneGroup):
        iso.improvability(data, **(ask | {"groups": iso.where("Black people", iso.col("race") == "Black")}))


def test_missing_values(data: dict[str, Any], ask: dict[str, Any]) -> None:
    need = data["need"].astype(float)
    need[:5] = np.nan
    with pytest.raises(MissingValues, match="5 rows"):
        iso.improvability(data | {"need": need}, **ask)
    result = iso.improvability(data | {"need": need}, **ask, missing="drop")
    assert result.provenance.dropped == {"need": 5}
    assert result.test_rows[0].sum() == 1998


def test_missing_features(data: dict[str, Any], ask: dict[str, Any]) -> None:
    x1 = data["x1"].copy()
    x1[0] = np.nan
    fit = ask | {"candidate": None, "rule": "linear", "features": ["x1"]}
    with pytest.raises(MissingValues, match="x1"):
        iso.improvability(data | {"x1": x1}, **fit)
    with pytest.raises(UnknownColumn, match="x9"):
        iso.improvability(data, **(fit | {"features": ["x9"]}))


@pytest.mark.parametrize("fitted", [False, True])
def test_equal_rows_are_one_line_in_canonical_order(fitted: bool) -> None:
    rows = {"g": ["b", "a", "b", "a"], "y": [1, 0, 1, 2], "d": [0, 1, 0, 1], "c": [1, 1, 1, 0], "x": [5, 6, 5, 7]}
    how: dict[str, Any] = {"rule": "linear", "features": ["x"]} if fitted else {"candidate": "c"}
    source = open_source(rows)
    plan = QUESTIONS["improvability"].planned(source, {"outcome": "y", "groups": "g", "status_quo": "d", **how})
    assert isinstance(plan, Plan)
    lines = tally(source, plan)
    assert lines.group.tolist() == [0, 0, 1]
    assert lines.outcomes[None].tolist() == [0, 2, 1]
    assert lines.status_quo.tolist() == [1, 1, 0]
    assert lines.weight.tolist() == [1, 1, 2]
    assert lines.rows == 4
    assert {name: column.tolist() for name, column in lines.features.items()} == ({"x": [6, 7, 5]} if fitted else {})
    assert list(lines.candidates) == ([] if fitted else ["c"])
