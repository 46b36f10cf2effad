"""The rows of a group that is named by its levels, and errors about unknown levels."""

from __future__ import annotations

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UnknownColumn, UnknownOption, UsageError
from isonomy.frames import Group, open_source
from isonomy.frames.groups import belongs

DATA = {"sex": ["f", "m", None, "f"], "age": [20.0, 30.0, 50.0, 60.0], "yes": [True, False, True, True]}
OLD = iso.where("old", iso.col("age") >= 50)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ({"sex": "f"}, [True, False, False, True]),
        ({"sex": None}, [False, False, True, False]),
        ({"age": np.int64(30)}, [False, True, False, False]),
        ({"yes": True, "sex": "f"}, [True, False, False, True]),
        ({"old": True}, [False, False, True, True]),
        ({"old": False}, [True, True, False, False]),
        ({"": "old"}, [False, False, True, True]),  # as in the group of a result
    ],
    ids=str,
)
def test_the_rows_of_a_group(items: dict[str, object], expected: list[bool]) -> None:
    source = open_source(DATA)
    condition = belongs(Group.from_mapping(items), source.grouping(["sex", OLD]), source.schema)
    rows = source.with_columns({"chosen": condition}).head(4)["chosen"].fill_null(False)
    assert rows.to_list() == expected


def test_intervals_of_a_cut_are_levels() -> None:
    source = open_source(DATA)
    grouping = source.grouping(iso.cut("age", [25, 45]))
    chosen = belongs(Group.from_mapping({"age": "25 to <45"}), grouping, source.schema)
    rows = source.with_columns({"chosen": chosen}).head(4)
    assert rows["chosen"].to_list() == [False, True, False, False]
    with pytest.raises(UnknownOption, match=r"^reference\['age'\]: '26 to <45' .*25 to <45"):
        belongs(Group.from_mapping({"age": "26 to <45"}), grouping, source.schema)


@pytest.mark.parametrize(
    ("items", "error", "words"),
    [
        ({"sexx": "f"}, UnknownColumn, "^reference: no column 'sexx'.*'sex'"),
        ({"sex": 1}, UsageError, r"^reference\['sex'\]: 1 is not a level of column 'sex'.* give text"),
        ({"age": "<25"}, UsageError, "iso.cut is among the groups"),
        ({"yes": "true"}, UnknownOption, "True, False"),
        ({"old": 1}, UnknownOption, "True, False"),
    ],
    ids=str,
)
def test_levels_that_cannot_be(items: dict[str, object], error: type[Exception], words: str) -> None:
    source = open_source(DATA)
    with pytest.raises(error, match=words):
        belongs(Group.from_mapping(items), source.grouping(["sex", OLD]), source.schema)
