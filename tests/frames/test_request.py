"""What a test receives: the number of rows used, and whether lines stand for one row or for several."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.frames import Request, Sample, open_source

TABLE = {"g": ["a", "b", "b"], "x": [1.0, 2.0, None], "n": [4, 0, 5]}


@pytest.mark.parametrize(("count", "rows", "lines"), [(None, 2, 2), ("n", 4, 1)])
def test_rows_are_counted_alike_in_cells_and_lines(count: str | None, rows: int, lines: int) -> None:
    source = open_source(TABLE, count=count, missing="drop")
    request = Request(grouping=source.grouping("g"), numeric={"score": "x"}, values={"x": source.weight})
    answer = source.rows(request)
    assert source.cells(request).rows == answer.rows == rows
    assert answer.size == lines
    assert (answer.weight is None) is (count is None)


def test_an_empty_request_asks_for_nothing() -> None:
    cells = open_source(TABLE).cells(Request())
    assert (cells.rows, cells.partitions, cells.dropped) == (3, (), {})
    assert not any((cells.columns, cells.values))


def test_counts_are_rounded_to_whole_rows() -> None:
    columns = Sample(columns={}, count=np.array([0.1] * 30), partitions=(), dropped={}, size=30)
    assert columns.rows == 3
