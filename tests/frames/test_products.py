"""Arrays of sums, extremes and parts: the same in polars and DuckDB as in numpy."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pytest

from isonomy.frames import collect
from isonomy.frames.sums import count_persons, ends_at, split, sums_at
from support.engines import ENGINES


@pytest.fixture(params=["polars-lazy", "duckdb"])
def lazy(request: pytest.FixtureRequest) -> Any:
    """A function that puts columns into an engine."""
    return lambda columns: nw.from_native(ENGINES[request.param](columns))


@pytest.fixture
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "a": rng.normal(size=300),
        "b": rng.normal(size=300),
        "u": rng.integers(0, 80, 300),
        "g": rng.integers(0, 2, 300),
    }


def test_persons_are_counted_once(lazy: Any, columns: dict[str, Any]) -> None:
    persons, several = count_persons(lazy(columns), "u", "g", 2)
    each = [set(columns["u"][columns["g"] == g]) for g in (0, 1)]
    assert persons.tolist() == [len(one) for one in each]
    assert several == len(each[0] & each[1])


def test_ends(lazy: Any, columns: dict[str, Any]) -> None:
    low, high = ends_at(lazy(columns), nw.col("g"), 3, nw.col("a"))
    assert low[0] == columns["a"][columns["g"] == 0].min()
    assert high[1] == columns["a"][columns["g"] == 1].max()
    assert np.isnan(low[2])


def test_places(lazy: Any, columns: dict[str, Any]) -> None:
    place = nw.col("a").floor().clip(0, 1)
    sums = sums_at(lazy(columns), {"place": (place, 2)}, {"b": nw.col("b")})
    np.testing.assert_allclose(sums["b"], [columns["b"][columns["a"] < 1].sum(), columns["b"][columns["a"] >= 1].sum()])


def test_parts_have_all_the_rows_of_a_person(lazy: Any, columns: dict[str, Any]) -> None:
    parts = [set(collect(part)["u"].to_list()) for part in split(lazy(columns), "u", 3)]
    assert sum(len(part) for part in parts) == len(set(columns["u"].tolist()))
    assert set.union(*parts) == set(columns["u"].tolist())
    assert all(parts)
