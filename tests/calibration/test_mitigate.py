"""Calibrators: scikit-learn's own checks, pipelines and cross-validation on every eager frame, and what they do."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from isonomy.calibration import calibration_metrics, predictive_parity, split_users
from isonomy.calibration.mitigate import METHODS, GroupCalibrator
from isonomy.calibration.objectives import MultiObjectiveCalibrator
from isonomy.errors import UnknownColumn, UnknownOption, UsageError

# Platt needs 0/1 outcomes, which the checks do not give; it is tested below.
CHECKED = [GroupCalibrator(), MultiObjectiveCalibrator()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def table(n: int = 4_000, seed: int = 0) -> dict[str, Any]:
    """Group a: E[Y | s] = s; group b: s^2."""
    rng = np.random.default_rng(seed)
    g = np.where(rng.random(n) < 0.5, "a", "b")
    s = rng.random(n)
    y = (rng.random(n) < np.where(g == "a", s, s**2)).astype(int)
    return {"s": s, "g": g, "m": rng.integers(0, n // 4, n), "y": y, "other": rng.random(n)}


FRAMES = {"pandas": lambda d: pd.DataFrame({**d, "g": list(d["g"])}), "polars": pl.DataFrame}
NAMES = {"score_column": "s", "group_columns": "g", "user_column": "m"}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("method", METHODS)
def test_each_group_is_calibrated(method: str, frame: str) -> None:
    data = table()
    X = FRAMES[frame]({k: data[k] for k in ("s", "g", "m", "other")})
    model = GroupCalibrator(method, **NAMES).fit(X, data["y"])
    again = pickle.loads(pickle.dumps(model))
    test = FRAMES[frame]({"s": [0.5, 0.5], "g": ["a", "b"], "m": [1, 2], "other": [0.0, 0.0]})
    found = model.predict(test)
    np.testing.assert_allclose(found, [0.5, 0.25], atol=0.15 if method == "binning" else 0.07)
    np.testing.assert_array_equal(again.predict(test), found)
    assert clone(model).get_params() == model.get_params()
    assert model.transform(test).shape == (2, 1)


@pytest.mark.parametrize("frame", FRAMES)
def test_pipelines_searches_and_cross_validation(frame: str) -> None:
    data = table(1_200)
    X = FRAMES[frame]({k: data[k] for k in ("s", "g", "m", "other")})
    pipeline = make_pipeline(FunctionTransformer(), GroupCalibrator(**NAMES))
    assert pipeline.fit(X, data["y"]).predict(X).shape == (1_200,)
    search = GridSearchCV(
        GroupCalibrator(**NAMES),
        [{"method": ["near_unbiased", "binning"], "bins": [5, 20]}, {"method": ["isotonic", "platt"]}],
        cv=GroupKFold(3),
        scoring="neg_mean_squared_error",
        error_score="raise",
    )
    search.fit(X, data["y"], groups=data["m"])
    assert search.best_score_ > -0.25
    held_out = cross_val_predict(GroupCalibrator(**NAMES), X, data["y"], groups=data["m"], cv=GroupKFold(3))
    assert np.corrcoef(held_out, data["y"])[0, 1] > 0.3


def test_calibration_lowers_the_errors_on_held_out_users() -> None:
    data = table(8_000)
    held_out = split_users(data["m"], rng=0)
    frame = pl.DataFrame(data)
    model = GroupCalibrator(**NAMES).fit(frame.filter(~held_out), data["y"][~held_out])
    test = frame.filter(held_out)
    test = test.with_columns(after=pl.Series(model.predict(test)))
    found = calibration_metrics(test, outcome="y", score={"before": "s", "after": "after"}, groups="g", user="m")
    lines = found.to_frame().filter(pl.col("group") == "overall")
    assert lines["score"].to_list() == ["before", "after"]
    for name in ("calibration_error", "parity_error", "ece"):
        before, after = lines[name]
        assert after < before / 2, name
    assert lines["auc"][1] > lines["auc"][0]


def test_mapping_onto_a_group_keeps_its_scores() -> None:
    data = table(20_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m")})
    for onto in ({"g": "a"}, ("a",)):
        model = GroupCalibrator(**NAMES, onto=onto, monotone=True).fit(X, data["y"])
        found = model.predict(pl.DataFrame({"s": [0.3, 0.7, 0.7], "g": ["a", "a", "b"], "m": [0, 0, 0]}))
        np.testing.assert_allclose(found[:2], [0.3, 0.7], atol=1e-9)
        assert found[2] == pytest.approx(0.49, abs=0.06)
    with pytest.raises(UsageError, match="onto"):
        GroupCalibrator(**NAMES, onto={"g": "z"}).fit(X, data["y"])
    with pytest.raises(UsageError, match="onto"):
        GroupCalibrator(**NAMES, onto={"sex": "a"}).fit(X, data["y"])


def test_small_and_unknown_groups_are_pooled() -> None:
    data = table()
    data["g"] = np.where(np.arange(4_000) < 10, "tiny", data["g"])
    X = pl.DataFrame({"s": data["s"], "g": data["g"]})
    model = GroupCalibrator(score_column="s", group_columns="g").fit(X, data["y"])
    assert model.pooled_groups_ == (("tiny",),)
    test = pl.DataFrame({"s": [0.5, 0.5], "g": ["tiny", "new"]})
    np.testing.assert_allclose(model.predict(test), model.pooled_(np.array([0.5, 0.5])))


@pytest.mark.parametrize("method", ["near_unbiased", "binning"])
def test_monotone(method: str) -> None:
    rng = np.random.default_rng(0)
    s = rng.random(300)
    y = (rng.random(300) < 0.3 + 0.2 * s).astype(int)
    model = GroupCalibrator(method, monotone=True).fit(s[:, None], y)
    assert np.all(np.diff(model.predict(np.linspace(0, 1, 50)[:, None])) >= -1e-12)


def test_users_have_one_vote_each() -> None:
    data = table(2_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m")})
    busy = np.repeat(np.arange(2_000), np.where(data["m"] == 3, 50, 1))  # one user, fifty times
    once = GroupCalibrator(**NAMES).fit(X, data["y"]).predict(X)
    often = GroupCalibrator(**NAMES).fit(X[busy], data["y"][busy]).predict(X)
    np.testing.assert_allclose(often, once, atol=0.02)


def test_platt_is_logistic_regression_by_group() -> None:
    from sklearn.linear_model import LogisticRegression

    data = table()
    mine = data["g"] == "b"
    found = GroupCalibrator("platt", group_columns=1).fit(np.column_stack([data["s"], mine.astype(float)]), data["y"])
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(data["s"][mine, None], data["y"][mine])
    at = np.linspace(0, 1, 5)
    ours = found.predict(np.column_stack([at, np.ones(5)]))
    np.testing.assert_allclose(ours, reference.predict_proba(at[:, None])[:, 1], atol=1e-5)
    with pytest.raises(UsageError, match="platt"):
        GroupCalibrator("platt").fit(data["s"][:, None], data["s"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"method": "beta"}, UnknownOption),
        ({"smoother": "spline"}, UnknownOption),
        ({"bins": 0}, UsageError),
        ({"bandwidth": -1.0}, UsageError),
        ({"min_size": "many"}, UsageError),
        ({"group_columns": "g", "onto": {"h": "a"}}, UsageError),
        ({"score_column": "nope"}, UnknownColumn),
        ({"group_columns": ["nope"]}, UnknownColumn),
        ({"score_column": 9}, UsageError),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    data = table(200)
    with pytest.raises(error):
        GroupCalibrator(**options).fit(pl.DataFrame({k: data[k] for k in ("s", "g")}), data["y"])


def test_names_need_a_frame() -> None:
    with pytest.raises(UsageError, match="array"):
        GroupCalibrator(score_column="s").fit(np.zeros((5, 1)), np.arange(5.0))


def test_text_outcomes_are_to_be_recoded() -> None:
    data = table(200)
    with pytest.raises(UsageError, match="recode"):
        GroupCalibrator().fit(data["s"][:, None], np.where(data["y"] == 1, "yes", "no"))


def test_columns_by_number_can_be_mapped_onto() -> None:
    data = table(2_000)
    X = np.column_stack([data["s"], data["g"] == data["g"][0]]).astype(float)
    mapped = GroupCalibrator(group_columns=1, onto={1: 1.0}).fit(X, data["y"])
    own = X[:, 1] == 1
    np.testing.assert_allclose(mapped.predict(X[own]), X[own, 0], atol=1e-3)


def test_a_monotone_platt_curve_does_not_fall() -> None:
    rng = np.random.default_rng(0)
    s = rng.random(500)
    y = (rng.random(500) < 1 - s).astype(int)
    assert np.ptp(GroupCalibrator("platt", monotone=True).fit(s[:, None], y).predict(s[:, None])) == 0
    assert np.ptp(GroupCalibrator("platt").fit(s[:, None], y).predict(s[:, None])) > 0.5


def test_metrics_say_what_was_read() -> None:
    data = table(500)
    data["s"] = np.where(np.arange(data["s"].size) < 3, np.nan, data["s"])
    found = calibration_metrics(data, outcome="y", score="s", groups="g", missing="drop")
    assert found.dropped == {"s": 3}
    assert found.size[0] == found.size[1:].sum() == data["s"].size - 3
    assert not found.auc.flags.writeable
    real = calibration_metrics(data | {"y": data["y"] * 2.5}, outcome="y", score="s", groups="g", missing="drop")
    assert np.isnan(real.auc).all()


def test_every_outcome_has_its_score() -> None:
    with pytest.raises(UsageError, match="2 scores for 1 outcomes"):
        MultiObjectiveCalibrator(score_columns=[0, 1]).fit(np.random.default_rng(0).random((50, 2)), np.ones(50))


def objectives(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Two scores; each outcome depends on both, and differently in the groups."""
    g = rng.integers(0, 2, n)
    s1, s2 = rng.random(n), rng.random(n)
    p1 = np.clip(np.where(g == 0, 0.5 * s1 + 0.5 * s2, 0.3 + 0.6 * s1 - 0.3 * s2), 0, 1)
    p2 = np.clip(np.where(g == 0, s2, 0.6 * s2 + 0.2 * s1), 0, 1)
    return {"s1": s1, "s2": s2, "g": g, "y1": (rng.random(n) < p1) * 1.0, "y2": (rng.random(n) < p2) * 1.0}


def combined_parity_errors(n: int = 20_000, seed: int = 0, vectors: int = 20) -> dict[str, Any]:
    """Mean parity error of the combined score over random weights: raw, calibrated one by one, calibrated together."""
    rng = np.random.default_rng(seed)
    train, test = objectives(n, rng), objectives(n, rng)
    X, Z = (pl.DataFrame({k: d[k] for k in ("s1", "s2", "g")}) for d in (train, test))
    Y = np.column_stack([train["y1"], train["y2"]])
    together = MultiObjectiveCalibrator(group_columns="g").fit(X, Y).predict(Z)
    single = np.column_stack(
        [
            GroupCalibrator(score_column=s, group_columns="g").fit(X, train[y]).predict(Z)
            for s, y in (("s1", "y1"), ("s2", "y2"))
        ]
    )
    raw = np.column_stack([test["s1"], test["s2"]])
    truth = np.column_stack([test["y1"], test["y2"]])
    errors: dict[str, list[float]] = {"raw": [], "one by one": [], "together": []}
    for w in rng.dirichlet([1, 1], vectors):
        for name, scores in (("raw", raw), ("one by one", single), ("together", together)):
            data = {"s": scores @ w, "y": truth @ w, "g": test["g"]}
            family = predictive_parity(data, outcome="y", score="s", groups="g", resamples=100, rng=1).families[0]
            # Smoothed residuals: the plain parity error has a floor, the bias of Nadaraya-Watson.
            errors[name].append(2 * float(np.nanmean(np.abs(family.difference))))
    return errors


def test_together_beats_one_by_one_for_every_weighting() -> None:
    found = {name: np.array(errors) for name, errors in combined_parity_errors(8_000, vectors=20).items()}
    assert np.all(found["together"] < found["one by one"])
    assert np.all(found["together"] < found["raw"])
    assert np.mean(found["together"]) < 0.5 * np.mean(found["one by one"])
    assert np.mean(found["one by one"]) < np.mean(found["raw"])


def test_any_regressor_can_be_used() -> None:
    train = objectives(2_000, np.random.default_rng(0))
    X = pd.DataFrame({k: train[k] for k in ("s1", "s2", "g")})
    Y = np.column_stack([train["y1"], train["y2"]])
    forest = RandomForestRegressor(10, min_samples_leaf=30, random_state=0)
    model = MultiObjectiveCalibrator(group_columns="g", estimator=forest).fit(X, Y)
    assert model.predict(X).shape == (2_000, 2)
    assert pickle.loads(pickle.dumps(model)).predict(X).shape == (2_000, 2)
    with pytest.raises(UsageError, match="weights"):
        model.combine(X, [1.0])


@pytest.mark.parametrize("many", [1, 2, 3, 4])
def test_any_number_of_scores(many: int) -> None:
    rng = np.random.default_rng(0)
    S = rng.random((2_000, many))
    model = MultiObjectiveCalibrator().fit(S, (rng.random(S.shape) < S) * 1.0)
    assert np.corrcoef(model.predict(S)[:, 0], S[:, 0])[0, 1] > 0.9


def test_split_users_never_splits_a_user() -> None:
    user = np.random.default_rng(0).integers(0, 50, 400)
    held_out = split_users(user, held_out=0.3, rng=1)
    assert not set(user[held_out]) & set(user[~held_out])
    assert len(set(user[held_out])) == 15
    with pytest.raises(UsageError):
        split_users(np.zeros(4))
