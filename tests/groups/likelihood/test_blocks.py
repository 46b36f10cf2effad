"""Disjoint groups: common shifts, and disparities from the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.groups.likelihood.means import Real
from isonomy.groups.likelihood.region import least_shift
from isonomy.groups.options import LikelihoodKind as Method
from isonomy.numerics.ragged import Ragged
from isonomy.results import Status
from support.groups import counted

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_statuses_of_many_problems_are_members_of_the_enumeration() -> None:
    rows = Ragged.from_codes([0, 0, 1, 1, 2, 2, 3, 3], 4, [0.0, 1.0, 0.2, 0.9, 5.0, 6.0, 0.5, 0.5])
    place = np.array([[0, 1], [0, 2], [0, 3], [3, 3]])
    solved = least_shift(Real(rows), place, np.ones(place.shape, dtype=bool), np.zeros(2))
    assert [type(s) for s in solved[2]] == [Status] * 4
    assert list(solved[2]) == [Status.OK, Status.OUTSIDE_RANGE, Status.OK, Status.OK]
    assert np.isinf(solved[0]).tolist() == [False, True, False, False]


def test_the_only_possible_reference_is_met_whatever_the_rounding() -> None:
    """Equal rows at c with ε: (c - ε) + ε is not always c."""
    c, shift = 0.1, 0.7
    assert (c - shift) + shift != c
    rows = Ragged.from_codes([0, 0, 0, 1, 1], 2, [-1.0, -0.5, 0.2, c, c])
    groups = Real(rows)
    counts, shifts = np.ones((1, 2), dtype=bool), np.array([0.0, shift])
    statistic, theta, status, _ = least_shift(groups, np.array([[0, 1]]), counts, shifts)
    expected = groups.statistic(np.array([c - shift]), np.array([0]))
    assert (statistic[0], theta[0], status[0]) == (pytest.approx(expected[0]), c - shift, Status.OK)


@pytest.mark.parametrize("method", ["el", "eel"])
def test_two_groups_against_their_rests_are_one_against_the_other(method: Method) -> None:
    data = counted((200, 103), (200, 110))
    for e in (0.1, -0.035, 0.02, -0.1, -0.02):
        rest = iso.certify(data, reference="rest", null=[e, -e], method=method, **RATE)
        level = iso.certify(data, reference={"race": "b"}, null=e, method=method, **RATE)
        assert (rest.df, level.df) == (1, 1)
        assert rest.statistic == pytest.approx(level.statistic, rel=1e-7, abs=1e-9)
        assert rest.contains([e, -e]) == level.contains(e)
    assert rest.contains([0.02, -0.02])


def test_more_groups_can_be_tested_against_their_rests_at_no_difference_alone() -> None:
    data = counted((200, 103), (200, 110), c=(100, 50))
    assert iso.certify(data, reference="rest", **RATE).contains(0.0)
    with pytest.raises(UsageError, match="only at a disparity of 0; use reference='population'"):
        iso.certify(data, reference="rest", null=[0.1, -0.1, 0.0], **RATE)
