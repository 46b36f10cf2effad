"""The rows of a group that is named by its levels, and errors about unknown levels."""

from __future__ import annotations

import pytest

import isonomy as iso
from isonomy.errors import UnknownOption
from isonomy.frames import Group, open_source
from isonomy.frames.groups import belongs

DATA = {"sex": ["f", "m", None, "f"], "age": [20.0, 30.0, 50.0, 60.0], "yes": [True, False, True, True]}


def test_intervals_of_a_cut_are_levels() -> None:
    source = open_source(DATA)
    grouping = source.grouping(iso.cut("age", [25, 45]))
    chosen = belongs(Group.from_mapping({"age": "25 to <45"}), grouping, source.schema)
    rows = source.with_columns({"chosen": chosen}).head(4)
    assert rows["chosen"].to_list() == [False, True, False, False]
    with pytest.raises(UnknownOption, match=r"^reference\['age'\]: '26 to <45' .*25 to <45"):
        belongs(Group.from_mapping({"age": "26 to <45"}), grouping, source.schema)
