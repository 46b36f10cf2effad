"""Shares, one value per group, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.errors import UnknownOption, UsageError
from isonomy.simulate.arguments import each, group_shares, members, plain, probability, shares


def test_groups_by_number_by_name_and_with_shares() -> None:
    assert group_shares(3)[0] == ("a", "b", "c")
    assert group_shares(27)[0][-1] == "g026"
    names, share = group_shares(["x", "y"])
    assert names == ("x", "y")
    np.testing.assert_array_equal(share, [0.5, 0.5])
    np.testing.assert_allclose(group_shares({"x": 0.9, "y": 0.1})[1], [0.9, 0.1])


@pytest.mark.parametrize("groups", [0, [], ["a", "a"], {"a": 0.5}, {"a": 1.2, "b": -0.2}])
def test_groups_that_are_refused(groups: Any) -> None:
    with pytest.raises(UsageError, match="groups"):
        group_shares(groups)


def test_each_group_has_its_value() -> None:
    names = ("a", "b", "c")
    np.testing.assert_array_equal(each("error", 0.5, names), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(each("error", [1.0, 2.0, 3.0], names), [1, 2, 3])
    np.testing.assert_array_equal(each("error", {"b": 2.0}, names, 0.1), [0.1, 2.0, 0.1])
    with pytest.raises(UnknownOption, match="error"):
        each("error", {"z": 1.0}, names)
    for bad in ([1.0, 2.0], float("nan"), [1.0, float("inf"), 0.0]):
        with pytest.raises(UsageError, match="error"):
            each("error", bad, names)


def test_probabilities_and_shares() -> None:
    np.testing.assert_array_equal(probability("p", [0.0, 1.0]), [0, 1])
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="between 0 and 1"):
            probability("p", bad)
    with pytest.raises(UsageError, match=r"sum to 0\.9"):
        shares("groups", {"a": 0.5, "b": 0.4})


def test_members_have_their_shares() -> None:
    share = np.array([0.5, 0.3, 0.2])
    drawn = np.bincount(members(np.random.default_rng(0), 100_000, share), minlength=3) / 100_000
    np.testing.assert_allclose(drawn, share, atol=4.5 * np.sqrt(0.25 / 100_000))


def test_plain_numbers_all_the_way_down() -> None:
    values = plain({"a": np.float64(1.5), "b": {"c": np.arange(2)}, "d": "text"})
    assert values == {"a": 1.5, "b": {"c": [0, 1]}, "d": "text"}
    assert type(values["a"]) is float
