"""Utilities: their values by hand, their direction, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.alternatives.rules.utilities import READY, Utility, accuracy_utility, fairness_utilities, utility
from isonomy.errors import DataError, UnknownOption, UsageError

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


def test_profit_is_the_price_when_it_is_accepted() -> None:
    u, w = READY["profit"].values({}, np.array([5.0, 2.0, 3.0]), np.array([3.0, 3.0, 3.0]))
    assert u.tolist() == [3.0, 0.0, 3.0]
    assert w.tolist() == [1.0, 1.0, 1.0]


def test_user_utility_sees_features() -> None:
    mine = Utility("weighted", lambda x, y, d: (x["size"] * y * d, x["size"] * d))
    u, w = mine.values({"size": np.array([1.0, 2, 3, 4, 5])}, Y, D)
    assert u.sum() / w.sum() == pytest.approx(6 / 9)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y, d: y * np.nan, "u and w"),
        (lambda x, y, d: (y * np.nan, 1.0), "NaN"),
        (lambda x, y, d: (y, -d), "negative w"),
        (lambda x, y, d: (y[:2], d), "u and w"),
        (lambda x, y, d: (x["absent"], d), "KeyError"),
    ],
)
def test_bad_user_utilities_are_named(function: object, message: str) -> None:
    with pytest.raises(DataError, match=f"(?s)mine.*{message}"):
        Utility("mine", function).values({}, Y, D)  # type: ignore[arg-type]


def test_lower_is_better_is_refused_as_accuracy() -> None:
    with pytest.raises(UsageError, match="tnr"):
        accuracy_utility("fpr")
    with pytest.raises(UsageError, match="outcome_among_selected"):
        accuracy_utility("outcome_among_unselected")
    with pytest.raises(UsageError, match="better when lower"):
        accuracy_utility(Utility("loss", lambda x, y, d: (y, 1), better="lower"))
    assert fairness_utilities("fpr", READY["accuracy"]) == (READY["fpr"],)


def test_criteria_open_to_utilities() -> None:
    utilities = fairness_utilities(["equalized_odds", "selection_rate"], READY["accuracy"])
    assert [u.name for u in utilities] == ["tpr", "fpr", "selection_rate"]
    assert fairness_utilities(None, READY["tpr"]) == (READY["tpr"],)


def test_other_outcome() -> None:
    named = utility("accuracy", {"utility": "outcome_among_selected", "outcome": "cost"})
    assert named.outcome == "cost"
    assert named.name == "outcome_among_selected of cost"


@pytest.mark.parametrize("given", ["accurracy", 3, {"name": "tpr"}, {"outcome": "y"}])
def test_unknown_utilities(given: object) -> None:
    with pytest.raises(UsageError, match="accuracy"):
        utility("accuracy", given)  # type: ignore[arg-type]


def test_bad_lists_and_directions() -> None:
    with pytest.raises(UsageError, match="at least one"):
        fairness_utilities([], READY["tpr"])
    with pytest.raises(UsageError, match="twice"):
        fairness_utilities(["tpr", "equal_opportunity"], READY["tpr"])
    with pytest.raises(UnknownOption, match="equalized_odds"):
        fairness_utilities("equalised_odds", READY["tpr"])
    with pytest.raises(UnknownOption):
        Utility("x", lambda x, y, d: (y, 1), better="more")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Utility("x", 3)  # type: ignore[arg-type]
