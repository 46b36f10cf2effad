"""Small groups, and groups whose numbers would reveal them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData
from isonomy.frames import Group
from isonomy.results.disclosure import withheld


def of(**items: str) -> Group:
    return Group.from_mapping(items)


def hidden(sizes: dict[Group, float], minimum: int = 10) -> set[str]:
    size = np.array(list(sizes.values()))
    kept = withheld(tuple(sizes), size, size < minimum, minimum)
    return {group.label for group, hide in zip(sizes, kept, strict=True) if hide}


def test_a_single_small_group_takes_the_next_smallest_with_it() -> None:
    sizes = {of(g="a"): 100.0, of(g="b"): 40.0, of(g="c"): 3.0}
    assert hidden(sizes) == {"g=b", "g=c"}
    assert hidden({**sizes, of(g="c"): 30.0}) == set()


def test_two_small_groups_hide_each_other_if_they_have_rows_enough_together() -> None:
    assert hidden({of(g="a"): 100.0, of(g="b"): 6.0, of(g="c"): 5.0}) == {"g=b", "g=c"}
    assert hidden({of(g="a"): 100.0, of(g="b"): 2.0, of(g="c"): 5.0, of(g="d"): 50.0}) == {"g=b", "g=c", "g=d"}


def test_an_intersection_cannot_be_had_from_its_margins() -> None:
    sizes = {of(r=r): 500.0 for r in "ab"} | {of(s=s): 500.0 for s in "fm"}
    cells = {of(r=r, s=s): 250.0 for r, s in product("ab", "fm")}
    cells[of(r="a", s="f")] = 4.0
    assert hidden(sizes | cells) == {group.label for group in cells}


def test_where_nothing_else_is_left_the_whole_goes_too() -> None:
    assert hidden({of(r="a"): 12.0, of(r="b"): 90.0, of(r="a", s="f"): 3.0, of(r="b", s="f"): 80.0}) >= {"r=a & s=f"}


YOUNG, OLD, MEN = (Group((("", name),)) for name in ("young", "old", "men"))


def test_a_named_group_is_not_what_another_leaves_of_everybody() -> None:
    """The names "young" and "old" do not say whether they cover everybody, so if one is withheld, all are."""
    sizes = {YOUNG: 3.0, OLD: 97.0, of(g="a"): 40.0, of(g="b"): 60.0}
    assert hidden(sizes) == {"young", "old"}


def test_a_named_group_that_nearly_is_a_published_one_would_tell_the_difference() -> None:
    sizes = {of(g="a"): 500.0, of(g="b"): 400.0, of(g="c"): 300.0, of(g="tiny"): 7.0}
    assert hidden(sizes | {MEN: 600.0}) == {"g=tiny", "g=c"}
    assert hidden(sizes | {MEN: 407.0}) == {"g=tiny", "g=c", "men"}  # "b or tiny"
    groups, size = [*sizes, MEN], np.array([*sizes.values(), 1_200.0])
    assert withheld(groups, size, size < 10, 10, rows=1_207).tolist() == [False, False, True, True, True]  # "not tiny"


def test_a_chain_of_sums_does_not_tell_a_group_either() -> None:
    """Two are withheld in every row and column, but all sums together still reveal one."""
    pattern = ["xx..", "xxx.", "..xx", "..xx"]  # rows 0 and 1 minus columns 0 and 1 give the cell (1, 2)
    size = {of(r=str(i), c=str(j)): 4.0 if (i, j) == (1, 2) else 50.0 for i in range(4) for j in range(4)}
    size |= {of(r=str(i)): 200.0 for i in range(4)} | {of(c=str(j)): 200.0 for j in range(4)}
    groups = tuple(size)
    first = np.array(
        [len(g.items) == 2 and pattern[int(str(g.mapping["r"]))][int(str(g.mapping["c"]))] == "x" for g in groups]
    )
    kept = withheld(groups, np.array(list(size.values())), first, 10)
    place = groups.index(of(r="1", c="2"))
    cells = [i for i, group in enumerate(groups) if kept[i] and len(group.items) == 2]
    sums = np.array([[groups[i].mapping[name] == str(k) for i in cells] for name in "rc" for k in range(4)], float)
    whole = np.linalg.matrix_rank(sums)
    single = np.eye(len(cells))[cells.index(place)]
    assert np.linalg.matrix_rank(np.vstack([sums, single])) > whole


def test_what_others_are_compared_with_is_withheld_last() -> None:
    groups, size = [of(g=g) for g in "abc"], np.array([100.0, 40.0, 3.0])
    kept = np.array([False, True, False])
    assert withheld(groups, size, size < 10, 10, references=kept).tolist() == [True, False, True]


def test_withheld_once_more_nothing_changes() -> None:
    groups, size = [of(g=g) for g in "abcd"], np.array([100.0, 70.0, np.nan, np.nan])
    assert withheld(groups, size, np.isnan(size), 10).tolist() == [False, False, True, True]


def _table(small: int) -> dict[str, list[object]]:
    groups = ["a"] * 400 + ["b"] * 300 + ["c"] * small
    return {"g": list(groups), "p": [i % 3 == 0 for i in range(len(groups))]}


def test_a_withheld_rate_does_not_follow_from_what_is_published() -> None:
    result = iso.flag(_table(7), metric="selection_rate", prediction="p", groups="g").suppressed(10)
    shown = [label for label, n in zip(result.labels, result.n, strict=True) if not np.isnan(n)]
    assert shown == ["g=a"]


def test_a_reference_that_would_be_withheld_is_refused() -> None:
    result = iso.flag(_table(7), metric="selection_rate", prediction="p", groups="g", reference={"g": "c"}, min_size=1)
    with pytest.raises(NotEnoughData, match="the group that others are compared with has fewer than 10 rows"):
        result.suppressed(10)


def test_with_everything_withheld_nothing_is_answered() -> None:
    table = {"g": ["a"] * 200 + ["b"] * 200, "p": [1] * 150 + [0] * 250}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g")
    assert result.verdict is iso.Verdict.VIOLATION
    hidden = result.suppressed(1_000)
    assert not hidden.answered
    assert hidden.verdict is iso.Verdict.INCONCLUSIVE
    assert hidden.headline().startswith("Not answered: every group is too small to be published.")


def test_a_verdict_that_rests_on_a_withheld_group_is_withheld() -> None:
    table = {"g": ["a"] * 300 + ["b"] * 300 + ["c"] * 40 + ["d"] * 45, "p": [0, 1, 1] * 200 + [0] * 40 + [0, 1, 1] * 15}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g", reference="rest")
    assert [group.label for group in result.flagged] == ["g=c"]
    hidden = result.suppressed(41)
    assert hidden.verdict is iso.Verdict.INCONCLUSIVE
    assert hidden.flagged == ()


def test_a_group_of_several_metrics_is_one_group() -> None:
    """A group that is withheld for each metric is still one group: a second one must be withheld with it."""
    groups = [Group((("g", level),)) for level in ("tiny", "a", "b")] * 2
    size = np.array([7.0, 500.0, 400.0] * 2)
    assert withheld(groups, size, size < 10, 10).tolist() == [True, False, True] * 2
