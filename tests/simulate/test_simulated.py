"""The same seed gives the same data in memory, in a frame and in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from isonomy import simulate
from isonomy.errors import UsageError
from isonomy.simulate.simulated import (
    BLOCK,
    Block,
    group_shares,
)
from studies import designs
from support.same import is_same

Design = Callable[..., simulate.Simulated]

DESIGNS: dict[str, Design] = {
    "decisions": simulate.decisions,
    "lender": simulate.lender,
    "uplift": simulate.uplift,
    "regression": designs.regression,
    "classifier": designs.classifier,
    "alternatives": designs.alternatives,
    "discrepancies": designs.discrepancies,
    "objectives": designs.objectives,
    "scores": lambda rows, seed: designs.scores(rows, seed, rows_per_user=3.0, activity=0.7, correlation=0.4),
}


@pytest.fixture(params=DESIGNS)
def design(request: pytest.FixtureRequest) -> Design:
    return DESIGNS[request.param]


def test_same_seed_same_data_and_another_seed_other_data(design: Design) -> None:
    first, again, other = design(500, 7).columns, design(500, 7).columns, design(500, 8).columns
    assert is_same(first, again, rel=0, abs=0)
    assert not is_same(first, other)


@pytest.mark.parametrize("rows", [1, BLOCK + 1])
def test_every_size_has_exactly_that_many_rows(design: Design, rows: int) -> None:
    columns = design(rows, 1).columns
    assert {len(column) for column in columns.values()} == {rows}


def test_full_blocks_do_not_depend_on_how_many_follow() -> None:
    short, long = (simulate.decisions(rows, 3).columns for rows in (BLOCK, 2 * BLOCK + 5))
    assert all(np.array_equal(short[k], long[k][:BLOCK]) for k in short)


def test_a_file_holds_the_same_rows(design: Design, tmp_path: Any) -> None:
    table = design(BLOCK + 3_000, 5)
    path = table.write(tmp_path / "rows.parquet")
    assert pl.read_parquet(path).equals(table.frame())
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_columns_and_frame_hold_the_same_values(design: Design) -> None:
    table = design(BLOCK + 100, 2)
    frame = table.frame()
    assert frame.columns == list(table.columns)
    assert all(np.array_equal(frame[k].to_numpy(), v) for k, v in table.columns.items())
    assert not any(frame.null_count().row(0))


def test_a_failed_write_leaves_no_file(tmp_path: Any) -> None:
    table = simulate.decisions(3 * BLOCK, 1)

    def failing(rng: np.random.Generator, start: int, units: int) -> Block:
        if start:
            raise RuntimeError("disk on fire")
        return table.draw(rng, start, units)

    broken = simulate.Simulated(name=table.name, rows=table.rows, seed=1, draw=failing, facts=table.facts)
    with pytest.raises(Exception, match="disk on fire"):
        broken.write(tmp_path / "rows.parquet")
    assert not list(tmp_path.iterdir())


def test_designs_of_one_seed_are_independent() -> None:
    """The seed depends on the name of the design, so that designs that draw the group first draw different groups."""
    one, other = (f(1_000, 1, groups=2).columns["group"] for f in (simulate.uplift, designs.objectives))
    assert abs(np.mean(one == other) - 0.5) < 4 * np.sqrt(0.25 / 1_000)


def test_blocks_are_independent() -> None:
    x = simulate.uplift(2 * BLOCK, 1).columns["x"]
    assert abs(np.corrcoef(x[:BLOCK], x[BLOCK:])[0, 1]) < 4 / np.sqrt(BLOCK)


def test_truth_is_plain_and_computed_once(design: Design) -> None:
    table = design(10, 1)
    assert table.truth is table.truth

    def leaves(value: object) -> bool:
        if isinstance(value, dict):
            return all(isinstance(k, str) and leaves(v) for k, v in value.items())
        if isinstance(value, (list, tuple)):
            return all(leaves(v) for v in value)
        return type(value) in (float, int, bool, str)

    assert leaves(table.truth)


@pytest.mark.parametrize("rows", [0, -1, 2.5, True, "10", None])
def test_rows_must_be_a_positive_whole_number(rows: Any) -> None:
    with pytest.raises(UsageError, match="rows"):
        simulate.decisions(rows, 1)


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_the_seed_must_be_a_whole_number(seed: Any) -> None:
    with pytest.raises(UsageError, match="seed"):
        simulate.decisions(10, seed)


@pytest.mark.parametrize("groups", [0, [], ["a", "a"], {"a": 0.5}, {"a": 1.2, "b": -0.2}])
def test_groups_that_are_refused(groups: Any) -> None:
    with pytest.raises(UsageError, match="groups"):
        group_shares(groups)
