"""The group and the person of each row."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import OneGroup
from isonomy.frames import Request, collect, open_source
from isonomy.frames.groups import ROW_COUNT, ROW_GROUP, compared, with_groups
from isonomy.frames.sums import code_array
from isonomy.options import MissingGroup

COLUMNS = {
    "x": [1.0, 2.0, None, 4.0, 5.0],
    "g": ["a", None, "b", "b", "a"],
    "age": [20.0, 30.0, 40.0, 50.0, None],
    "n": [1, 2, 3, 4, 5],
}


def codes(groups: object, missing_group: MissingGroup) -> list[tuple[float, int]]:
    """The value and the group number of every complete row."""
    source = open_source(COLUMNS, missing="drop", missing_group=missing_group)
    grouping = source.grouping(groups)
    partition = source.cells(Request(grouping=grouping, numeric={"x": "x"})).partitions[0]
    rows = source.complete_rows({"value": "x"}, grouping=grouping)
    table = collect(with_groups(rows, grouping, compared(partition)[0]))
    return sorted(zip(table["value"].to_list(), table[ROW_GROUP].to_list(), strict=True))


def test_rows_without_a_group_are_dropped_or_a_level() -> None:
    assert codes("g", "drop") == [(1.0, 0), (4.0, 1), (5.0, 0)]
    assert codes("g", "level") == [(1.0, 0), (2.0, 2), (4.0, 1), (5.0, 0)]


def test_cuts_and_conditions() -> None:
    assert codes(iso.cut("age", [35]), "drop") == [(1.0, 0), (2.0, 0), (4.0, 1)]
    assert codes(iso.where("old", iso.col("age") > 25), "drop") == [(1.0, 1), (2.0, 0), (4.0, 0)]
    assert codes(iso.where("old", iso.col("age") > 25), "level") == [(1.0, 1), (2.0, 0), (4.0, 0), (5.0, 1)]


def test_lines_stand_for_rows() -> None:
    frame = collect(open_source(COLUMNS, count="n", missing="drop").complete_rows({"value": "x"}, {"label": "g"}))
    assert frame[ROW_COUNT].to_list() == [1.0, 4.0, 5.0]


def test_one_group_cannot_be_compared() -> None:
    source = open_source({"g": ["a", "a"]})
    partition = source.cells(Request(grouping=source.grouping("g"))).partitions[0]
    with pytest.raises(OneGroup, match=r"'g' has one group \(g=a\)"):
        compared(partition)


def test_persons_are_numbered_whatever_they_are_called() -> None:
    numbers, known = code_array(np.array([7, 9, 7]))
    assert numbers[0] == numbers[2] != numbers[1]
    assert known is None
    names, known = code_array(np.array(["x", None, "y", "x"], dtype=object))
    assert known is not None
    assert known.tolist() == [True, False, True, True]
    assert names[0] == names[3] != names[2]
