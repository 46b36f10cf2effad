"""Permuting rows, renaming groups and doubling counts."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isonomy.frames import Request, Sample, open_source

ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([1, 2]),
        st.integers(0, 1),
        st.integers(-8, 8).map(lambda i: i / 4),  # quarters: sums are exact, so equality is exact
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=40,
)


def in_columns(rows: list[tuple[Any, ...]]) -> dict[str, np.ndarray[Any, Any]]:
    names = ("g", "h", "y", "s", "n")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def tally(data: dict[str, Any], count: str | None = None) -> Sample:
    source = open_source(data, count=count)
    request = Request(
        grouping=source.grouping(["g", "h"], depth=2),
        binary={"outcome": "y"},
        numeric={"score": "s"},
        values={"s": nw.col("s")},
    )
    return source.cells(request)


def by_group(got: Sample) -> dict[str, tuple[float, float]]:
    return {
        group.label: (n, s)
        for p in got.partitions
        for group, n, s in zip(p.groups, p.sum(got.counts), p.sum(got.values["s"]), strict=True)
    }


@given(ROWS, st.randoms(use_true_random=False))
def test_permuting_rows_changes_nothing(rows: list[tuple[Any, ...]], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    one, other = tally(in_columns(rows)), tally(in_columns(shuffled))
    assert one.counts.tolist() == other.counts.tolist()
    assert by_group(one) == by_group(other)


@given(ROWS)
def test_renaming_groups_only_renames(rows: list[tuple[Any, ...]]) -> None:
    renamed = [({"a": "z", "b": "y", "c": "x"}[g], *rest) for g, *rest in rows]
    one, other = by_group(tally(in_columns(rows))), by_group(tally(in_columns(renamed)))
    back = str.maketrans("zyx", "abc")
    assert {("g=" + k[2:3].translate(back) + k[3:] if k.startswith("g=") else k): v for k, v in other.items()} == one


@given(ROWS.filter(lambda rows: any(row[4] for row in rows)))
def test_counts_stand_for_repeated_rows(rows: list[tuple[Any, ...]]) -> None:
    repeated = [row for row in rows for _ in range(row[4])]
    one, other = tally(in_columns(rows), count="n"), tally(in_columns(repeated))
    assert one.counts.tolist() == other.counts.tolist()
    assert by_group(one) == by_group(other)


@given(ROWS)
def test_doubling_counts_doubles_sums(rows: list[tuple[Any, ...]]) -> None:
    once = by_group(tally(in_columns([(*row[:4], 1) for row in rows]), count="n"))
    twice = by_group(tally(in_columns([(*row[:4], 2) for row in rows]), count="n"))
    assert twice == {label: (2 * n, 2 * s) for label, (n, s) in once.items()}
