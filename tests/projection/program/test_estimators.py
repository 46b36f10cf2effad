"""Distances of fitted estimators in hard cases of precision, kernels and storage; refusals and their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.projection import distances, estimators


def times(offset: float, sd: float) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"t": offset + sd * rng.normal(size=1_000), "z": rng.normal(size=1_000)})
    return x, ((x.t - offset) / sd + x.z + rng.normal(size=1_000) > 0).to_numpy().astype(int)


@pytest.mark.parametrize(("offset", "sd"), [(1.6e9, 1e5), (1.6e12, 1e9), (1.6e12, 1e7)])
@pytest.mark.parametrize(
    "scalers",
    [
        (StandardScaler(),),
        (MinMaxScaler((-1, 3)),),
        (RobustScaler(), MaxAbsScaler()),
        (MaxAbsScaler(), StandardScaler()),
        (StandardScaler(with_mean=False), RobustScaler(with_scaling=False)),
        (StandardScaler(with_std=False), "passthrough", MinMaxScaler()),
    ],
    ids=str,
)
def test_times_keep_their_digits(offset: float, sd: float, scalers: Any) -> None:
    x, y = times(offset, sd)
    model = make_pipeline(*scalers, LogisticRegression()).fit(x, y)
    distance = estimators.distance(model)
    margin = model.decision_function(x)
    slope = model[:-1].transform(x).std(axis=0) / x.std(axis=0, ddof=0)
    expected = margin / np.linalg.norm(model[-1].coef_[0] * np.asarray(slope))
    assert distance.evaluate(x.to_numpy()) == pytest.approx(expected, rel=1e-9, abs=1e-9 * expected.std())
    data = {"t": x.t.to_numpy(), "z": x.z.to_numpy(), "g": np.arange(1_000) % 2, "c": model.predict(x)}
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "criterion": "statistical_parity"}
    assert np.isfinite(iso.project(data, distance=model, **roles).statistic)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(random_state=0), SVC()], ids=str)
def test_times_in_front_of_other_models(model: Any) -> None:
    x, y = times(1.6e9, 3e3)  # 32 bits represent current times to two minutes
    for made in (model, make_pipeline(StandardScaler(), model)):
        made.fit(x, y)
        signed = estimators.distance(made).evaluate(x.to_numpy())
        assert ((signed > 0) == (made.predict(x) == 1)).all()


@pytest.mark.parametrize("threshold", [1.0, 1.6e9 + 1, 0.1, -3.3, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 1e-40])
def test_thresholds_of_rows_in_32_bits(threshold: float) -> None:
    """Trees compare rows rounded to 32 bits: the cut is where the rounding changes sides."""
    cut = estimators.largest_left(threshold)
    assert np.float32(cut) <= threshold
    assert np.float32(np.nextafter(cut, np.inf)) > threshold


def test_indefinite_kernels_are_refused() -> None:
    x, y = times(0.0, 1.0)
    for model in (SVC(kernel="sigmoid"), SVC(kernel="poly", coef0=-1.0)):
        with pytest.raises(UsageError, match=r"not known to be positive definite.*Allowed: 'linear', 'rbf', 'poly'"):
            estimators.distance(model.fit(x, y))
    for model in (SVC(kernel="poly", coef0=1.0), SVC(kernel="rbf")):
        assert np.isfinite(estimators.distance(model.fit(x, y)).evaluate(x.to_numpy())).all()


def test_models_fitted_on_sparse_rows() -> None:
    x, y = times(0.0, 1.0)
    rows = x.to_numpy()
    for kernel in ("rbf", "linear"):
        dense, sparse = SVC(kernel=kernel).fit(rows, y), SVC(kernel=kernel).fit(scipy.sparse.csr_matrix(rows), y)
        expected = estimators.distance(dense, ["t", "z"]).evaluate(rows)
        assert estimators.distance(sparse, ["t", "z"]).evaluate(rows) == pytest.approx(expected, rel=1e-2, abs=1e-2)


@pytest.mark.parametrize("threshold", ["x", float("nan"), float("inf"), True, [0.5]])
def test_thresholds_must_be_numbers(threshold: Any) -> None:
    x, y = times(0.0, 1.0)
    for model in (LogisticRegression(), SVC(), DecisionTreeClassifier(max_depth=2)):
        with pytest.raises(UsageError, match=r"threshold: .* is not allowed; give a finite number"):
            estimators.distance(model.fit(x, y), threshold=threshold)


def test_features_are_a_sequence_of_names() -> None:
    x, y = times(0.0, 1.0)
    with pytest.raises(UsageError, match="features: 'tz' is not allowed; give a list"):
        estimators.distance(LogisticRegression().fit(x.to_numpy(), y), "tz")


PLANE = distances.Linear(("a", "b"), (1.0, 1.0))
BOX = np.array([[0.0], [1.0]])
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("Linear", (("a",), (INF,)), r"coefficients: \(inf,\) is not allowed; give a list \(a finite number each\)"),
        ("Linear", (("a",), (NAN,)), r"coefficients: \(nan,\) is not allowed; give a list \(a finite number each\)"),
        ("Linear", (("a",), ("x",)), r"coefficients: \('x',\) is not allowed"),
        ("Linear", (("a",), 1.0), r"coefficients: 1.0 is not allowed; give a list \(a finite number each\)"),
        (
            "Linear",
            (("a",), np.array([INF])),
            r"coefficients: .*inf.* is not allowed; give a list",
        ),
        ("Linear", ("a", (1.0,)), "features: 'a' is not allowed; give a list"),
        ("Linear", (("a",), (1.0,), NAN), "intercept: nan is not allowed"),
        ("Linear", (("a",), (1.0,), 0.0, "l2", (1.0, 2.0)), "center: 2 for 1 features"),
        ("Mixed", ("x", ("b",), ((0.0,),), 1.0), "linear: 'x' is not allowed"),
        ("Mixed", (PLANE, ("b",), ((0.0,),), "x"), "delta: 'x' is not allowed; give a number above 0"),
        ("Mixed", (PLANE, "b", ((0.0,),), 1.0), "discrete: 'b' is not allowed; give a list"),
        ("Mixed", (PLANE, ("b",), (0.0, 1.0), 1.0), r"allowed: \(0.0, 1.0\) is not allowed; list combinations"),
        ("Mixed", (PLANE, ("b",), "01", 1.0), "allowed: '01' is not allowed; list combinations"),
        (
            "Mixed",
            (PLANE, ("b",), ((NAN,),), 1.0),
            r"allowed: \(\(nan,\),\) is not allowed; list .* one finite number each",
        ),
        ("Mixed", (PLANE, ("b",), (("x",),), 1.0), r"allowed: \(\('x',\),\) is not allowed; list combinations"),
        ("Kernel", (("a",), None, 1.0), "decision: None is not allowed"),
        ("Kernel", (("a",), len, 0.0), "norm: 0.0 is not allowed; give a number above 0, the norm of f"),
        ("Kernel", (("a",), len, NAN), "norm: nan is not allowed"),
        ("Tree", (("a",), [[0.0]], [[1.0]], [True]), r"low: \[\[0.0\]\] is not allowed; give an array"),
        ("Tree", (("a", "b"), BOX, BOX, np.array([True, False])), r"low: an array of shape \(2, 1\)"),
        ("Tree", (("a",), BOX, BOX, np.array([True])), r"low: an array of shape \(2, 1\); give one of shape \(1, 1\)"),
        ("PerGroup", (PLANE, "g", {"a": "x"}), r"factors\['a'\]: 'x' is not allowed; give a number above 0"),
        ("PerGroup", (PLANE, "g", [1.0]), r"factors: \[1.0\] is not allowed; give a mapping"),
        ("PerGroup", (PLANE, "g", {"a": NAN}), r"factors\['a'\]: nan is not allowed"),
        ("PerGroup", (PLANE, 3, {"a": 1.0}), "column: 3 is not allowed; give text"),
    ],
)
def test_wrong_arguments_are_named(kind: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        getattr(distances, kind)(*arguments)


@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_rows_outside_the_listed_combinations_cannot_jump(weight: float) -> None:
    """Cost (4) is infinite between different combinations of which one is not listed."""
    linear = distances.Linear(("u", "x"), (1.0, weight), -0.5)
    mixed = distances.Mixed(linear, ("u",), ((0.0,), (1.0,)), delta=0.1)
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.25, 0.0]])
    stay = [np.inf, np.inf] if weight == 0 else [1.5, 0.25]
    expected = [-0.1, 0.1, stay[0], -stay[1]]
    assert mixed.evaluate(rows) == pytest.approx(expected)
    assert np.isnan(mixed.move(rows)[2]).all() == (weight == 0)
