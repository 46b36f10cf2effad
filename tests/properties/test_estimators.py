"""Every estimator follows scikit-learn's conventions: pipelines, cross-validation, copies, and new rows."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import isonomy as iso

ROWS = 3_000
GROUP: dict[str, Any] = {"groups": "group"}
COLUMNS = ("score_column", "scores", "groups", "user", "effect", "treatment")  # parameters that name columns
# For each: the columns that a prediction reads, and the columns of its outcome.
ESTIMATORS: dict[str, tuple[BaseEstimator, list[str], Any]] = {
    "GroupCalibrator": (
        iso.GroupCalibrator(score_column="score", user="user", **GROUP),
        ["score", "group"],
        "outcome",
    ),
    "MultiObjectiveCalibrator": (
        iso.MultiObjectiveCalibrator(scores=["score", "effect"], user="user", **GROUP),
        ["score", "effect", "group"],
        ["outcome", "other"],
    ),
    "GroupThresholds": (
        iso.GroupThresholds("tpr", score_column="score", user="user", **GROUP),
        ["score", "group"],
        "outcome",
    ),
    "EffectCorrector": (
        iso.EffectCorrector(measure="difference", groups="group"),
        ["effect", "group"],
        "outcome",
    ),
}


def table(library: Any) -> Any:
    rng = np.random.default_rng(0)
    score = rng.random(ROWS)
    columns = {
        "user": rng.integers(0, ROWS // 3, ROWS),
        "group": rng.choice(["a", "b"], ROWS),
        "score": score,
        "effect": rng.random(ROWS),
        "treatment": rng.integers(0, 2, ROWS),
        "outcome": (rng.random(ROWS) < score).astype(int),
        "other": (rng.random(ROWS) < score).astype(int),
    }
    return library({name: list(values) if name == "group" else values for name, values in columns.items()})


def test_all_estimators_are_here() -> None:
    sources = Path(iso.__file__).parent.rglob("*.py")
    names = {
        name for file in sources for name in re.findall(r"^class (\w+)\(.*BaseEstimator\)", file.read_text(), re.M)
    }
    assert names == set(ESTIMATORS)
    # Decisions are not features: thresholds predict but do not transform.
    assert {name for name in names if not hasattr(getattr(iso, name), "set_output")} == {"GroupThresholds"}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_is_an_estimator(name: str, library: Any) -> None:
    estimator, columns, outcome = ESTIMATORS[name]
    data = table(library)
    y = data[outcome]
    model = clone(estimator).fit(data, y)
    expected = model.predict(data)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(data), expected)
    pipeline = Pipeline([("same", FunctionTransformer()), ("own", clone(estimator))]).fit(data, y)
    np.testing.assert_allclose(pipeline.predict(data), expected, rtol=1e-12)  # sums from another fit
    assert cross_val_predict(clone(estimator), data, y, cv=3).shape == expected.shape
    new = table(library)[list(reversed(columns))]  # only these columns, in another order
    np.testing.assert_array_equal(model.predict(new), expected)
    extra = new.assign(x=1) if library is pd.DataFrame else new.with_columns(x=1)
    np.testing.assert_allclose(pipeline.predict(extra), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(new[:1]), expected[:1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_columns_of_an_array_have_numbers(name: str) -> None:
    """A group is also given by a number, alone or in a list."""
    estimator, _, outcome = ESTIMATORS[name]
    data = table(pl.DataFrame).with_columns(group=(pl.col("group") == "b").cast(pl.Float64))
    by_name = clone(estimator).fit(data, data[outcome]).predict(data)
    places = {name: place for place, name in enumerate(data.columns)}

    def placed(value: Any) -> Any:
        return [places[one] for one in value] if isinstance(value, list) else places.get(value, value)

    options = {
        key: placed(value)
        for key, value in estimator.get_params().items()
        if key in COLUMNS and value not in (None, ())
    }
    for groups in (options["groups"], [options["groups"]]):
        model = clone(estimator).set_params(**(options | {"groups": groups}))
        X = data.to_numpy()
        np.testing.assert_allclose(model.fit(X, data[outcome].to_numpy()).predict(X), by_name, rtol=1e-12)


@pytest.mark.parametrize(("output", "library"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@pytest.mark.parametrize("name", [name for name, (model, *_) in ESTIMATORS.items() if hasattr(model, "set_output")])
def test_it_gives_frames(name: str, output: str, library: Any) -> None:
    estimator, _, outcome = ESTIMATORS[name]
    data = table(library)
    model = clone(estimator).set_output(transform=output).fit(data, data[outcome])
    found = model.transform(data)
    assert isinstance(found, library)
    assert list(found.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.to_numpy(), np.reshape(model.predict(data), (ROWS, -1)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bad_tables_are_refused(name: str) -> None:
    estimator, columns, outcome = ESTIMATORS[name]
    data = table(pl.DataFrame)
    model = clone(estimator).fit(data, data[outcome])
    for use in (model.predict, lambda X: clone(estimator).fit(X, data[outcome][:0])):
        with pytest.raises(iso.errors.EmptyFrame, match="no rows"):
            use(data[:0])
    for column in columns:
        with pytest.raises(iso.errors.UnknownColumn, match=f"no column '{column}'"):
            model.predict(data.drop(column))
        with pytest.raises(iso.errors.UnknownColumn, match=f"no column '{column}'"):
            clone(estimator).fit(data.drop(column), data[outcome])
    large = data.with_columns(pl.col("user", "treatment", "outcome", "other").cast(pl.Int128))
    again = clone(estimator).fit(large, large[outcome])
    np.testing.assert_allclose(again.predict(large), model.predict(data), rtol=1e-12)
