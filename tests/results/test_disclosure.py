"""Small groups, and those whose numbers would give them away."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData
from isonomy.frames import Group
from isonomy.results.disclosure import withheld


def of(**items: str) -> Group:
    return Group.of(items)


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


def test_named_groups_may_overlap_and_take_nobody_along() -> None:
    young = Group((("", "young"),))
    assert hidden({young: 3.0, of(g="a"): 50.0, of(g="b"): 60.0}) == {"young"}


def _table(small: int) -> dict[str, list[object]]:
    groups = ["a"] * 400 + ["b"] * 300 + ["c"] * small
    return {"g": list(groups), "p": [i % 3 == 0 for i in range(len(groups))]}


def test_a_withheld_rate_does_not_follow_from_what_is_published() -> None:
    result = iso.flag(_table(7), metric="selection_rate", prediction="p", groups="g").suppressed(10)
    shown = [label for label, n in zip(result.labels, result.n, strict=True) if not np.isnan(n)]
    assert shown == ["g=a"]


def test_a_reference_that_would_be_withheld_is_refused() -> None:
    result = iso.flag(_table(7), metric="selection_rate", prediction="p", groups="g", reference={"g": "c"}, min_size=1)
    with pytest.raises(NotEnoughData, match="the group compared with has fewer than 10 rows"):
        result.suppressed(10)


def test_with_everything_withheld_nothing_is_answered() -> None:
    table = {"g": ["a"] * 200 + ["b"] * 200, "p": [1] * 150 + [0] * 250}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g")
    assert result.verdict is iso.Verdict.VIOLATION
    hidden = result.suppressed(1_000)
    assert not hidden.answered
    assert hidden.verdict is iso.Verdict.INCONCLUSIVE
    assert hidden.headline().startswith("Not answered: every group is smaller than this audit publishes.")


def test_a_verdict_that_rests_on_a_withheld_group_is_withheld() -> None:
    table = {"g": ["a"] * 300 + ["b"] * 300 + ["c"] * 40 + ["d"] * 45, "p": [0, 1, 1] * 200 + [0] * 40 + [0, 1, 1] * 15}
    result = iso.flag(table, metric="selection_rate", prediction="p", groups="g", reference="rest")
    assert [group.label for group in result.flagged] == ["g=c"]
    hidden = result.suppressed(41)
    assert hidden.verdict is iso.Verdict.INCONCLUSIVE
    assert hidden.flagged == ()


def test_a_group_of_several_metrics_is_one_group() -> None:
    """Withheld once for each metric, it is still alone: a second group has to be withheld beside it."""
    groups = [Group((("g", level),)) for level in ("tiny", "a", "b")] * 2
    size = np.array([7.0, 500.0, 400.0] * 2)
    assert withheld(groups, size, size < 10, 10).tolist() == [True, False, True] * 2
