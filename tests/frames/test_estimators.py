"""Columns of X: the levels of a column are the same alone, in any batch and in any frame library."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import UsageError
from isonomy.frames.estimators import levels


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
