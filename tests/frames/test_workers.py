"""Work on Spark's workers: it returns sums, and readable errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pytest

from isonomy.errors import DataError
from isonomy.frames import sums
from isonomy.frames.sums import has_workers, summed_parts
from support import engines

pytestmark = pytest.mark.spark
TABLE = {"who": np.arange(600) % 50, "x": np.arange(600.0)}


def test_parts_have_all_rows_of_one_value_and_add_up(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = nw.from_native(engines.spark(spark, TABLE))
    assert has_workers(frame)
    monkeypatch.setattr(sums, "PART_ROWS", 200)

    def work(columns: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        who, rows = np.unique(columns["who"], return_counts=True)
        yield who, np.bincount(columns["who"], columns["x"])[who]
        yield np.array([100]), np.array([float((rows == 12).all())])  # no user is in two parts

    place, value = summed_parts(frame, "who", 600, work)
    np.testing.assert_array_equal(place, [*range(50), 100])
    np.testing.assert_allclose(value[:50], np.bincount(TABLE["who"], TABLE["x"]))
    assert 1 <= value[50] <= 3
    assert value[50] == round(value[50])


def test_a_worker_that_fails_leaves_no_number(spark: Any) -> None:
    def work(columns: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        yield np.array([0]), np.array([1.0])
        if columns["x"].max() == 599:
            raise OSError("the disk of a worker is full")

    frame = nw.from_native(engines.spark(spark, TABLE))
    with pytest.raises(DataError, match="the engine cannot read the table"):
        summed_parts(frame, None, 600, work)
