"""Utilities: values by hand, direction, refusals. Criteria: sums by group, gaps, accuracies."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.alternatives.rules.utilities import READY, Criteria, Utility, fairness_utilities, rates_of, utility
from isonomy.errors import DataError, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray

Y = np.array([1.0, 1.0, 0.0, 0.0, 1.0])
D = np.array([1.0, 0.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", 3 / 5),
        ("tpr", 2 / 3),
        ("tnr", 1 / 2),
        ("fpr", 1 / 2),
        ("selection_rate", 3 / 5),
        ("outcome_among_selected", 2 / 3),
        ("outcome_among_unselected", 1 / 2),
    ],
)
def test_ready_utilities(name: str, expected: float) -> None:
    u, w = READY[name].values({}, Y, D)
    assert u.sum() / w.sum() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y, d: y * np.nan, "u and w"),
        (lambda x, y, d: (y * np.nan, 1.0), "must return finite numbers"),
        (lambda x, y, d: (y, -d), "w is a denominator"),
        (lambda x, y, d: (y[:2], d), "u and w"),
        (lambda x, y, d: (x["absent"], d), "KeyError"),
    ],
)
def test_bad_user_utilities_are_named(function: object, message: str) -> None:
    with pytest.raises(DataError, match=f"(?s)mine.*{message}"):
        Utility("mine", function).values({}, Y, D)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["accurracy", 3, {"name": "tpr"}, {"outcome": "y"}])
def test_unknown_utilities(given: object) -> None:
    with pytest.raises(UsageError, match="accuracy"):
        utility("accuracy", given)


def test_bad_lists_and_directions() -> None:
    with pytest.raises(UsageError, match="one or more"):
        fairness_utilities([], READY["tpr"])
    with pytest.raises(UsageError, match="different utilities"):
        fairness_utilities(["tpr", "equal_opportunity"], READY["tpr"])
    with pytest.raises(UnknownOption, match="equalized_odds"):
        fairness_utilities("equalised_odds", READY["tpr"])
    with pytest.raises(UnknownOption):
        Utility("x", lambda x, y, d: (y, 1), better="more")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Utility("x", 3)  # type: ignore[arg-type]


def _rates(*by_group: float) -> FloatArray:
    """One utility, the same for both algorithms."""
    return np.array([[by_group, by_group]])


def test_gaps_two_sided_and_one_sided() -> None:
    utility = READY["tpr"]
    both = Criteria(utility, (utility,), ("a", "b", "c"))
    assert both.pairs == ((0, 1), (0, 2), (1, 2))
    gap = both.gaps(_rates(0.5, 0.7, 0.4))[0]
    np.testing.assert_allclose(both.unfairness(gap)[0], [0.2, 0.1, 0.3])
    one = Criteria(utility, (utility,), ("a", "b", "c"), protected=0, harm=(1,))
    assert one.pairs == ((1, 0), (2, 0))
    np.testing.assert_allclose(one.unfairness(one.gaps(_rates(0.5, 0.7, 0.4)))[0, 0], [0.2, 0.0])
    other = Criteria(utility, (utility,), ("a", "b", "c"), protected=0, harm=(-1,))
    np.testing.assert_allclose(other.unfairness(other.gaps(_rates(0.5, 0.7, 0.4)))[0, 0], [0.0, 0.1])


def test_accuracy_forms() -> None:
    utility = READY["tpr"]
    sums = np.zeros((1, 2, 2, 2))
    sums[0, :, 0] = [[1, 6], [2, 6]]  # u: algorithm, group
    sums[0, :, 1] = [[2, 8], [4, 8]]
    rates = rates_of(sums)
    apart = Criteria(utility, (utility,), ("a", "b"))
    np.testing.assert_allclose(apart.accuracy_of(rates, sums), [[0.5, 0.75], [0.5, 0.75]])
    pooled = Criteria(utility, (utility,), ("a", "b"), weights="pooled")
    np.testing.assert_allclose(pooled.accuracy_of(rates, sums), [[0.7], [8 / 12]])
    weighted = Criteria(utility, (utility,), ("a", "b"), weights=np.array([2.0, 1.0]))
    np.testing.assert_allclose(weighted.accuracy_of(rates, sums), [[1.75], [1.75]])
