"""Rows in memory: a plan names the rows of the table that was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.transport import distances

ROLES: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}


def table() -> dict[str, list[Any]]:
    return {
        "g": ["a"] * 6 + ["b"] * 6,
        "c": [1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0],
        "d": [0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.5, 0.1, 0.2, 0.3, 0.4, 0.5],
        "w": [1] * 7 + [0] + [1] * 4,
    }


def test_lines_that_stand_for_no_row_keep_their_number() -> None:
    found = iso.project(table(), distance="d", count="w", **ROLES).plan
    assert found.row.tolist() == [0, 1, 8]
    assert found.distance == pytest.approx(np.array(table()["d"])[found.row])


def test_points_are_those_of_the_rows_named() -> None:
    data = pl.DataFrame(table()).with_columns(s=pl.when(pl.col("c") == 1).then("d").otherwise(-pl.col("d")))
    plan = iso.project(data, distance=distances.Score("s", 0.0), count="w", **ROLES).plan
    assert plan.start[:, 0] == pytest.approx(data["s"].to_numpy()[plan.row])


@pytest.mark.parametrize("name", ["__row_number", "row number", "row number_"])
def test_a_column_may_be_called_like_ours(name: str) -> None:
    data = {**table(), name: list("abcdefghijkl")}
    assert iso.project(data, distance="d", **ROLES).statistic == iso.project(table(), distance="d", **ROLES).statistic


@pytest.mark.parametrize("lazy", [False, True])
def test_levels_without_a_factor_are_named(lazy: bool) -> None:
    data = pl.DataFrame(table())
    priced = distances.PerGroup(distances.Column("d"), "g", {"a": 2.0})
    with pytest.raises(iso.errors.MissingValues, match=r"factors: 6 rows have a level of 'g' without a factor: 'b'"):
        iso.project(data.lazy() if lazy else data, distance=priced, **ROLES)
