"""Sums of products and joined tables: the same numbers in polars and DuckDB as in numpy."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pytest

from isonomy.frames.products import count_persons, cross_gram, ends_at, gram, gram_by_cell, position, with_table
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


def test_gram_is_a_matrix_product(lazy: Any, columns: dict[str, Any]) -> None:
    both, single = gram(lazy(columns), [["a", "b"], ["b"]])
    values = np.column_stack([columns["a"], columns["b"]])
    np.testing.assert_allclose(both, values.T @ values, rtol=1e-12)
    np.testing.assert_allclose(single, [[columns["b"] @ columns["b"]]], rtol=1e-12)


def test_cross_gram_joins_rows(lazy: Any, columns: dict[str, Any]) -> None:
    keyed = columns | {"i": np.arange(300)}
    frame = lazy(keyed)
    (matrix,) = cross_gram(frame, frame.filter(nw.col("i") < 150), "i", [["a", "b"]])
    values = np.column_stack([columns["a"], columns["b"]])
    np.testing.assert_allclose(matrix, values[:150].T @ values[:150], rtol=1e-12)


def test_products_of_sums_by_cell(lazy: Any, columns: dict[str, Any]) -> None:
    table = np.zeros((80, 2))
    np.add.at(table, (columns["u"], columns["g"]), columns["a"])
    products = gram_by_cell(lazy(columns), "u", nw.col("g"), nw.col("a"), 2)
    np.testing.assert_allclose(products, table.T @ table, rtol=1e-12)


def test_persons_are_counted_once(lazy: Any, columns: dict[str, Any]) -> None:
    persons, several = count_persons(lazy(columns), "u", "g", 2)
    each = [set(columns["u"][columns["g"] == g]) for g in (0, 1)]
    assert persons.tolist() == [len(one) for one in each]
    assert several == len(each[0] & each[1])


def test_ends_and_places(lazy: Any, columns: dict[str, Any]) -> None:
    low, high = ends_at(lazy(columns), nw.col("g"), 3, nw.col("a"))
    assert low[0] == columns["a"][columns["g"] == 0].min()
    assert high[1] == columns["a"][columns["g"] == 1].max()
    assert np.isnan(low[2])
    placed = with_table(lazy(columns), position(nw.col("a"), 0.0, 1.0, 2), {"where": np.array([10.0, 20.0])})
    total = gram(placed.with_columns(nw.lit(1.0).alias("one")), [["one", "where"]])[0][0, 1]
    assert total == pytest.approx(np.where(columns["a"] < 1, 10.0, 20.0).sum())
