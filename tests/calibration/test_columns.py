"""Groups and users as columns of X: the same row means the same thing alone, in any batch and in any frame library."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from isonomy.calibration import split_users
from isonomy.calibration.columns import levels
from isonomy.calibration.mitigate import GroupCalibrator
from isonomy.calibration.objectives import MultiObjectiveCalibrator
from isonomy.errors import MissingValues, UsageError

NAMES = {"score_column": "s", "group_columns": "g"}


def rows(kinds: list[Any], n: int = 1_500, seed: int = 0) -> tuple[np.ndarray, list[Any], np.ndarray]:
    """Scores, a group for each of ``kinds``, and outcomes that differ between the groups."""
    rng = np.random.default_rng(seed)
    s, code = rng.random(n), rng.integers(0, len(kinds), n)
    y = (rng.random(n) < (0.1 + 0.8 * code / (len(kinds) - 1))).astype(int)
    return s, [kinds[k] for k in code], y


MISSING = {
    "text": ["a", None, "b"],
    "numbers": [0, None, 1],
    "large numbers": [2**60, None, 2**60 + 1],
    "truth": [True, None, False],
    "dates": [dt.datetime(2020, 1, 1), None, dt.datetime(2021, 1, 1)],
}
MADE = {
    "pandas": lambda s, g: pd.DataFrame({"s": s, "g": g}),
    "pandas objects": lambda s, g: pd.DataFrame({"s": s, "g": pd.Series(g, dtype=object)}),
    "pandas categories": lambda s, g: pd.DataFrame({"s": s, "g": pd.Categorical(g)}),
    "polars": lambda s, g: pl.DataFrame({"s": s, "g": g}),
    "pyarrow": lambda s, g: pa.table({"s": s, "g": g}),
}


@pytest.mark.parametrize("kinds", MISSING)
def test_a_row_does_not_depend_on_its_batch_or_library(kinds: str) -> None:
    s, g, y = rows(MISSING[kinds])
    # pandas has no whole numbers beside missing ones: it would round the large ones before we see them.
    made = {k: f for k, f in MADE.items() if kinds != "large numbers" or k in ("pandas objects", "polars", "pyarrow")}
    model = GroupCalibrator(**NAMES).fit(MADE["polars"](s, g), y)
    expected = model.predict(MADE["polars"](s, g))
    assert model.groups_[-1] == (None,)
    assert len(model.calibrators_) == 3
    for name, frame in made.items():
        again = GroupCalibrator(**NAMES).fit(frame(s, g), y)
        assert again.groups_ == model.groups_, name
        np.testing.assert_array_equal(model.predict(frame(s, g)), expected, err_msg=name)
        for i in range(8):  # alone, where pandas and polars infer another type
            assert model.predict(frame(s[i : i + 1], g[i : i + 1]))[0] == expected[i], name
        gone = np.array([value is None for value in g])
        np.testing.assert_array_equal(model.predict(frame(s[gone], [None] * int(gone.sum()))), expected[gone])


def test_numbers_and_text_in_one_column_stay_apart() -> None:
    s, g, y = rows([0, "0", "x"])
    frame = pd.DataFrame({"s": s, "g": pd.Series(g, dtype=object)})
    model = GroupCalibrator(**NAMES).fit(frame, y)
    assert model.groups_ == ((0,), ("0",), ("x",))
    batch = model.predict(frame)
    for i in range(8):
        assert model.predict(frame.iloc[[i]])[0] == batch[i]
    array = np.column_stack([np.array(s, dtype=object), np.array(g, dtype=object)])
    np.testing.assert_array_equal(GroupCalibrator(group_columns=1).fit(array, y).predict(array), batch)


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


@pytest.mark.parametrize("make", [GroupCalibrator, MultiObjectiveCalibrator])
@pytest.mark.parametrize("frame", ["pandas", "pandas objects", "polars"])
def test_rows_without_a_user_are_refused(frame: str, make: Any) -> None:
    s, user, y = rows([None, "u", "v", "w"], 400)
    gone = sum(value is None for value in user)
    with pytest.raises(MissingValues, match=rf"^user_column: {gone} rows"):
        make(user_column="g").fit(MADE[frame](s, user), y)
    with pytest.raises(MissingValues, match=r"^user_column: 1 rows"):
        make(user_column=1).fit(np.column_stack([s, np.where(np.arange(400) == 7, np.nan, 1.0)]), y)


@pytest.mark.parametrize(
    "user",
    [
        ["a", None, "b"],
        [1.0, float("nan"), 2.0],
        pd.Series(["a", None, "b"]),
        pd.Series([1, None, 2], dtype="Int64"),
        pl.Series([1, None, 2]),
        np.array(["a", None, "b"], dtype=object),
    ],
)
def test_missing_users_cannot_be_split(user: Any) -> None:
    with pytest.raises(MissingValues, match=r"^user: 1 rows"):
        split_users(user, rng=0)


def test_users_that_differ_are_not_one() -> None:
    assert split_users([1, "1"], rng=0).sum() == 1
    large = np.array([2**63 + 1, 2**63 + 2, 5], dtype=np.uint64)
    for user in (large, large.tolist(), pl.Series(large), pd.Series(large)):
        assert split_users(user, held_out=0.34, rng=0).sum() == 1
    s = np.linspace(0.1, 0.9, 300)
    y = (np.arange(300) % 2).astype(int)
    small = GroupCalibrator(score_column="s", user_column="m")
    users = np.arange(300) // 3
    expected = small.fit(pl.DataFrame({"s": s, "m": users}), y).predict(pl.DataFrame({"s": s, "m": users}))
    frame = pl.DataFrame({"s": s, "m": users.astype(np.uint64) + np.uint64(2**63 + 5)})
    np.testing.assert_allclose(small.fit(frame, y).predict(frame), expected, rtol=1e-12)
    with pytest.raises(UsageError, match="2 dimensions"):
        split_users([[1, 2], [3, 4]])


@pytest.mark.parametrize("make", [GroupCalibrator, MultiObjectiveCalibrator])
def test_lazy_tables_are_to_be_collected(make: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    s, g, y = rows(["a", "b"], 200)
    frame = pl.DataFrame({"s": s, "g": g})
    for X in (frame.lazy(), duckdb.connect().from_arrow(frame.to_arrow())):
        with pytest.raises(UsageError, match=r"^X: .*collect"):
            make(group_columns="g").fit(X, y)
    model = make(group_columns="g").fit(frame, y)
    with pytest.raises(UsageError, match=r"^X: .*collect"):
        model.predict(frame.lazy())
