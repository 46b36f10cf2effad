"""Fixtures that count: sums over the finest cells, sizes of groups, passes over the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from isonomy.frames import Request, Sample, open_source, sums


@pytest.fixture
def tally() -> Callable[..., Sample]:
    """A function that counts the cells of a table. Keywords open the source, or are roles of the request."""

    def cells(data: object, *, groups: object = "race", **given: Any) -> Sample:
        options = {name: given.pop(name) for name in ("count", "missing", "missing_group") if name in given}
        source = open_source(data, **options)
        return source.cells(Request(grouping=source.grouping(groups), **given))

    return cells


@pytest.fixture
def sizes() -> Callable[..., dict[str, float]]:
    """A function that returns the number of rows of each group, and checks that cells and rows agree."""

    def by_label(data: object, groups: object, **options: Any) -> dict[str, float]:
        source = open_source(data, **options)
        request = Request(grouping=source.grouping(groups))
        cells, rows = source.cells(request), source.rows(request)
        weight = np.ones(rows.size) if rows.weight is None else rows.weight
        by_cell = {g.label: n for p in cells.partitions for g, n in zip(p.groups, p.sum(cells.counts), strict=True)}
        by_row = {g.label: n for p in rows.partitions for g, n in zip(p.groups, p.sum(weight), strict=True)}
        assert by_cell == by_row
        return by_cell

    return by_label


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The keys of every pass that a source makes over its rows during the test."""
    keys: list[list[str]] = []

    def counted(frame: Any, by: Any, values: Any) -> Any:
        keys.append(list(by))
        return sums.aggregate(frame, by, values)

    monkeypatch.setattr("isonomy.frames.source.aggregate", counted)
    return keys
