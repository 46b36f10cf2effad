"""Columns of X: the levels of a column are the same alone, in any batch, and in any frame library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

import isonomy as iso
from isonomy.errors import EmptyFrame, MissingValues, UnknownColumn, UsageError, WrongType
from isonomy.frames.estimators import (
    Columns,
    column_of,
    eager,
    levels,
    outcomes,
    read_columns,
    series_of,
    target,
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
    values = pl.Series([0, 1, None, 1]).cast(pl.Datetime("ns"))
    codes, keys = levels(series_of(values), "group_columns")
    assert keys == [datetime(1970, 1, 1), np.datetime64(1, "ns"), None]
    assert codes.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_are_read_alike_from_every_frame(library: Callable[..., Any]) -> None:
    columns = read_columns(BaseEstimator(), library(TABLE), numbers=["score"], groups=["race"], user="user", reset=True)
    assert columns.numbers.ravel().tolist() == TABLE["score"]
    assert columns.keys == (("a",), ("b",))
    assert columns.group.tolist() == [1, 0, 1, 0]
    assert columns.user is not None
    assert columns.user.tolist() == [0, 2, 0, 1]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_new_rows_are_known_by_name(library: Callable[..., Any]) -> None:
    """In another order, with additional columns, and without those that a prediction does not read."""
    new = library({"other": [1, 2], "race": ["a", "b"], "score": [0.5, 0.6]})
    for numbers, groups in ((["score"], ["race"]), ([0], [1])):
        estimator = BaseEstimator()
        read_columns(estimator, library(TABLE), numbers=numbers, groups=groups, user="user", reset=True)
        columns = read_columns(estimator, new, numbers=numbers, groups=groups, reset=False)
        assert columns.numbers.ravel().tolist() == [0.5, 0.6]
        assert columns.keys == (("a",), ("b",))
    with pytest.raises(UnknownColumn, match="score_column: no column 'score'"):
        read_columns(estimator, library({"race": ["a"]}), numbers=[0], groups=[1], reset=False)


def test_new_rows_without_names_have_as_many_columns() -> None:
    estimator = BaseEstimator()
    read_columns(estimator, np.ones((2, 3)), numbers=[0], reset=True)
    with pytest.raises(ValueError, match="2 features, but BaseEstimator is expecting 3"):
        read_columns(estimator, np.ones((2, 2)), numbers=[0], reset=False)
    with pytest.warns(UserWarning, match="fitted without feature names"), pytest.raises(ValueError, match="2 features"):
        read_columns(estimator, pl.DataFrame({"a": [1.0], "b": [2.0]}), numbers=[0], reset=False)


def test_bad_columns_are_named() -> None:
    with pytest.raises(EmptyFrame, match="X: the table has no rows"):
        read_columns(BaseEstimator(), pl.DataFrame(TABLE)[:0], numbers=["score"], reset=True)
    with pytest.raises(WrongType, match="score_column: column 'race' is String"):
        read_columns(BaseEstimator(), pl.DataFrame(TABLE), numbers=["race"], reset=True)
    with pytest.raises(MissingValues, match="score_column: 1 rows have no value"):
        read_columns(BaseEstimator(), pl.DataFrame({"score": [0.1, None]}), numbers=["score"], reset=True)


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128, pl.Decimal(38, 2)])
def test_numbers_that_numpy_has_not_are_rounded(kind: Any) -> None:
    frame = pl.DataFrame({"score": pl.Series([1, 2]).cast(kind)})
    columns = read_columns(BaseEstimator(), frame, numbers=["score"], reset=True)
    assert columns.numbers.ravel().tolist() == [1.0, 2.0]
    assert np.asarray(target(frame["score"])).tolist() == [1.0, 2.0]
    assert np.asarray(target(frame)).tolist() == [[1.0], [2.0]]
    assert target(TABLE) is TABLE


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


def test_outcomes_are_numbers() -> None:
    assert outcomes(np.array([True, False])).tolist() == [1.0, 0.0]
    for kind, words in ((object, "text"), (str, "text")):
        with pytest.raises(UsageError, match=f"^y: holds {words} such as 'yes'; recode the outcome"):
            outcomes(np.array(["yes", "no"], dtype=kind))


def test_the_votes_of_a_user_sum_to_one() -> None:
    numbers, group = np.ones((4, 1)), np.zeros(4, dtype=np.intp)
    alone = Columns(numbers, group, ((),), None)
    assert votes(alone, [1.0, 2.0, 0.0, 3.0]).weighted.tolist() == [1.0, 2.0, 0.0, 3.0]
    shared = Columns(numbers, group, ((),), np.array([0, 0, 1, 2]))
    weighted = votes(shared, [1.0, 3.0, 0.0, 3.0])
    assert weighted.weighted.tolist() == [0.5, 1.5, 0.0, 3.0]  # users stand for 2 and 3 people
    assert weighted.among(np.arange(4)).sum() == pytest.approx(5**2 / (0.5 * (1 + 9) + 9))
    assert votes(shared, None).weighted.tolist() == [0.5, 0.5, 1.0, 1.0]
    assert votes(shared, None).among(np.arange(4)).tolist() == [0.5, 0.5, 1.0, 1.0]


def test_every_row_has_a_user() -> None:
    assert user_codes(np.array(["u", "v", "u"]), "user_column").tolist() == [0, 1, 0]
    with pytest.raises(MissingValues, match="user_column: 2 rows have no value"):
        user_codes(np.array(["u", None, None], dtype=object), "user_column")
    with pytest.raises(UsageError, match="2 dimensions are not allowed"):
        user_codes(np.ones((2, 2)), "user_column")


def test_rows_of_another_width_are_refused_in_words() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(200), rng.integers(0, 2, 200)])
    fitted = iso.GroupCalibrator(score_column=0, groups=[1]).fit(X, rng.integers(0, 2, 200))
    trial = np.column_stack([rng.random(200), rng.integers(0, 2, 200), rng.integers(0, 2, 200)])
    corrector = iso.EffectCorrector(effect=0, treatment=1, groups=[2], measure="difference")
    corrector.fit(trial, rng.random(200))
    for estimator, rows in ((fitted, X[:, :1]), (fitted, np.hstack([X, X])), (corrector, trial[:, :1])):
        with pytest.raises(UsageError, match=r"X: X has [14] features"):
            estimator.predict(rows)
