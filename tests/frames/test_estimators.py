"""Columns of X: the levels of a column are the same alone, in any batch and in any frame library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

from isonomy.errors import MissingValues, UnknownColumn, UsageError
from isonomy.frames.estimators import (
    Columns,
    as_tuple,
    column_of,
    eager,
    levels,
    names_of,
    outcomes,
    read_columns,
    series_of,
    user_codes,
    votes,
)

TABLE: dict[str, list[Any]] = {"score": [0.1, 0.2, 0.3, 0.4], "race": ["b", "a", "b", "a"], "user": [7, 9, 7, 8]}


def test_every_kind_of_missing_value_is_the_same_level() -> None:
    values = np.array([None, np.nan, float("nan"), pd.NA, pd.NaT, "a"], dtype=object)
    codes, keys = levels(values, "group_columns")
    assert keys == ["a", None]
    assert codes.tolist() == [1, 1, 1, 1, 1, 0]
    codes, keys = levels(np.array([2.0, np.nan, 1.0, np.nan]), "group_columns")
    assert keys == [1.0, 2.0, None]
    assert codes.tolist() == [1, 2, 0, 2]
    with pytest.raises(UsageError, match="group_columns"):
        levels(np.array([[1], [2, 3]], dtype=object), "group_columns")


def test_levels_do_not_depend_on_the_library() -> None:
    for values in (TABLE["user"], np.array(TABLE["user"]), pd.Series(TABLE["user"]), pl.Series(TABLE["user"])):
        codes, keys = levels(series_of(values), "group_columns")
        assert keys == [7, 8, 9]
        assert codes.tolist() == [0, 2, 0, 1]


def test_levels_of_a_list_stay_what_they_are() -> None:
    codes, keys = levels(series_of([1, "1", 2**60, 2**60 + 1]), "group_columns")
    assert keys == [1, 2**60, 2**60 + 1, "1"]  # numbers before text
    assert codes.tolist() == [0, 3, 1, 2]


def test_dates_stay_dates() -> None:
    _, keys = levels(np.array(["2020-01-02", "2019-05-06"], dtype="datetime64[ns]"), "group_columns")
    assert keys == [datetime(2019, 5, 6), datetime(2020, 1, 2)]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_are_read_alike_from_every_frame(library: Callable[..., Any]) -> None:
    columns = read_columns(BaseEstimator(), library(TABLE), numbers=["score"], groups=["race"], user="user", reset=True)
    assert columns.numbers.ravel().tolist() == TABLE["score"]
    assert columns.keys == (("a",), ("b",))
    assert columns.group.tolist() == [1, 0, 1, 0]
    assert columns.user is not None
    assert columns.user.tolist() == [0, 2, 0, 1]


def test_columns_of_an_array_have_numbers() -> None:
    table = np.array([[0.1, 1.0], [0.2, 0.0]])
    columns = read_columns(BaseEstimator(), table, numbers=[0], groups=[-1], reset=True)
    assert columns.numbers.tolist() == [[0.1], [0.2]]
    assert columns.keys == ((0.0,), (1.0,))
    assert columns.user is None


def test_groups_that_occur_are_crossed() -> None:
    table = pl.DataFrame({"s": [0.1, 0.2, 0.3], "g": ["a", "b", "b"], "h": [1, 1, 2]})
    columns = read_columns(BaseEstimator(), table, numbers=["s"], groups=["g", "h"], reset=True)
    assert columns.keys == (("a", 1), ("b", 1), ("b", 2))
    assert columns.group.tolist() == [0, 1, 2]


def test_without_groups_everybody_is_in_one() -> None:
    columns = read_columns(BaseEstimator(), np.ones((3, 1)), numbers=[0], reset=True)
    assert columns.keys == ((),)
    assert columns.group.tolist() == [0, 0, 0]


def test_a_prediction_is_compared_with_the_fit() -> None:
    estimator = BaseEstimator()
    read_columns(estimator, pd.DataFrame(TABLE), numbers=["score"], reset=True)
    with pytest.raises(ValueError, match="feature names"):
        read_columns(estimator, pd.DataFrame(TABLE).rename(columns={"race": "r"}), numbers=["score"], reset=False)


def test_one_column_or_several() -> None:
    assert as_tuple("race") == ("race",)
    assert as_tuple(np.int64(2)) == (2,)  # type: ignore[arg-type]
    assert as_tuple(["race", 1]) == ("race", 1)


@pytest.mark.parametrize(
    ("table", "name", "error", "words"),
    [
        (np.ones((2, 3)), 3, UsageError, r"no column number 3; X has 3 columns \(n_features = 3\)"),
        (np.ones((2, 3)), "race", UsageError, "'race' is a name, but X is an array"),
        (eager(pl.DataFrame(TABLE)), "rcae", UnknownColumn, "group_columns: no column 'rcae'.*'race'"),
        (eager(pl.DataFrame(TABLE)), -4, UsageError, "no column number -4; X has 3 columns"),
    ],
)
def test_columns_that_are_not_there(table: Any, name: str | int, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        column_of(table, name, "group_columns")


def test_rows_without_an_order_are_refused() -> None:
    with pytest.raises(UsageError, match="a polars LazyFrame is read row by row"):
        eager(pl.LazyFrame(TABLE))
    assert names_of(pl.DataFrame(TABLE)) == ["score", "race", "user"]
    assert names_of(np.ones((2, 2))) is None


def test_outcomes_are_numbers() -> None:
    assert outcomes(np.array([True, False])).tolist() == [1.0, 0.0]
    with pytest.raises(UsageError, match="such as 'yes'; recode the outcome"):
        outcomes(np.array(["yes", "no"], dtype=object))


def test_the_votes_of_a_user_sum_to_one() -> None:
    numbers, group = np.ones((4, 1)), np.zeros(4, dtype=np.intp)
    alone = Columns(numbers, group, ((),), None)
    assert votes(alone, [1.0, 2.0, 0.0, 3.0]).tolist() == [1.0, 2.0, 0.0, 3.0]
    shared = Columns(numbers, group, ((),), np.array([0, 0, 1, 2]))
    assert votes(shared, [1.0, 3.0, 0.0, 3.0]).tolist() == [0.25, 0.75, 0.0, 1.0]
    assert votes(shared, None).tolist() == [0.5, 0.5, 1.0, 1.0]


def test_every_row_has_a_user() -> None:
    assert user_codes(np.array(["u", "v", "u"]), "user_column").tolist() == [0, 1, 0]
    with pytest.raises(MissingValues, match="user_column: 2 rows have no value"):
        user_codes(np.array(["u", None, None], dtype=object), "user_column")
    with pytest.raises(UsageError, match="2 dimensions are not allowed"):
        user_codes(np.ones((2, 2)), "user_column")
