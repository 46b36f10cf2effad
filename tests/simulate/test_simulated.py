"""Same seed, same data: in memory, in a frame, in a file written in chunks of any size."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from isonomy import simulate
from isonomy.errors import UsageError
from isonomy.simulate.simulated import BLOCK

DESIGNS = {
    "decisions": simulate.decisions,
    "regression": simulate.regression,
    "classifier": simulate.classifier,
    "alternatives": simulate.alternatives,
    "discrepancies": simulate.discrepancies,
    "uplift": simulate.uplift,
    "scores": lambda rows, seed: simulate.scores(rows, seed, rows_per_user=3.0, activity=0.7, correlation=0.4),
    "objectives": simulate.objectives,
    "lender": simulate.lender,
}


@pytest.fixture(params=DESIGNS)
def design(request: pytest.FixtureRequest):
    return DESIGNS[request.param]


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return list(a) == list(b) and all(a[k].dtype.kind == b[k].dtype.kind and np.array_equal(a[k], b[k]) for k in a)


def test_same_seed_same_data_and_another_seed_other_data(design):
    first, again, other = design(500, 7).columns, design(500, 7).columns, design(500, 8).columns
    assert equal(first, again)
    assert not equal(first, other)


@pytest.mark.parametrize("rows", [1, 2, 1_000, BLOCK + 1])
def test_every_size_has_exactly_that_many_rows(design, rows):
    columns = design(rows, 1).columns
    assert {len(column) for column in columns.values()} == {rows}


def test_full_blocks_do_not_depend_on_how_many_follow():
    short, long = (simulate.decisions(rows, 3).columns for rows in (BLOCK, 2 * BLOCK + 5))
    assert all(np.array_equal(short[k], long[k][:BLOCK]) for k in short)


@pytest.mark.parametrize("chunk_rows", [4_000, 200_000])
def test_a_file_holds_the_same_rows_whatever_the_chunk(design, chunk_rows, tmp_path):
    table = design(BLOCK + 3_000, 5)
    path = table.write(tmp_path / "rows.parquet", chunk_rows=chunk_rows)
    assert pl.read_parquet(path).equals(table.frame())
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_columns_and_frame_hold_the_same_values(design):
    table = design(BLOCK + 100, 2)
    frame = table.frame()
    assert frame.columns == list(table.columns)
    assert all(np.array_equal(frame[k].to_numpy(), v) for k, v in table.columns.items())
    assert not any(frame.null_count().row(0))


def test_write_takes_another_number_of_rows(design, tmp_path):
    path = design(10, 4).write(tmp_path / "more.parquet", rows=2_500)
    assert pl.read_parquet(path).equals(design(2_500, 4).frame())


def test_row_groups_are_of_the_chunk_size(tmp_path):
    import pyarrow.parquet as pq

    path = simulate.regression(10_000, 1).write(tmp_path / "rows.parquet", chunk_rows=4_000)
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [4_000, 4_000, 2_000]


def test_a_failed_write_leaves_no_file(tmp_path):
    table = simulate.regression(3 * BLOCK, 1)
    draw = table.draw

    def failing(rng, start, units):
        if start:
            raise RuntimeError("disk on fire")
        return draw(rng, start, units)

    broken = simulate.Simulated(
        name=table.name, description="", rows=table.rows, seed=1, draw=failing, facts=table.facts
    )
    with pytest.raises(Exception, match="disk on fire"):
        broken.write(tmp_path / "rows.parquet", chunk_rows=1_000)
    assert not list(tmp_path.iterdir())


def test_designs_of_one_seed_are_independent():
    """The name of a design enters its seed: designs that draw the group first still draw other groups."""
    one, other = (f(1_000, 1).columns["group"] for f in (simulate.alternatives, simulate.objectives))
    assert abs(np.mean(one == other) - 0.5) < 4 * np.sqrt(0.25 / 1_000)


def test_blocks_are_independent():
    x = simulate.regression(2 * BLOCK, 1).columns["x"]
    assert abs(np.corrcoef(x[:BLOCK], x[BLOCK:])[0, 1]) < 4 / np.sqrt(BLOCK)


def test_truth_is_plain_and_computed_once(design):
    table = design(10, 1)
    assert table.truth is table.truth

    def leaves(value: object) -> bool:
        if isinstance(value, dict):
            return all(isinstance(k, str) and leaves(v) for k, v in value.items())
        if isinstance(value, (list, tuple)):
            return all(leaves(v) for v in value)
        return type(value) in (float, int, bool, str)

    assert leaves(table.truth)
    assert table.description


@pytest.mark.parametrize("rows", [0, -1, 2.5, True, "10", None])
def test_rows_must_be_a_positive_whole_number(design, rows):
    with pytest.raises(UsageError, match="rows"):
        design(rows, 1)


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_the_seed_must_be_a_whole_number(design, seed):
    with pytest.raises(UsageError, match="seed"):
        design(10, seed)


@pytest.mark.parametrize("options", [{"rows": 0}, {"chunk_rows": 0}, {"chunk_rows": 1.5}])
def test_write_checks_its_arguments(options, tmp_path):
    with pytest.raises(UsageError):
        simulate.regression(10, 1).write(tmp_path / "x.parquet", **options)
