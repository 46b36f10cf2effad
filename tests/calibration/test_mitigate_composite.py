"""Several scores calibrated together."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from isonomy.calibration import (
    predictive_parity,
)
from isonomy.calibration.mitigate import GroupCalibrator
from isonomy.calibration.mitigate_composite import MultiObjectiveCalibrator
from isonomy.errors import (
    UsageError,
)


def crossed(n: int = 4_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Each of two scores is the expected outcome of the other."""
    rng = np.random.default_rng(seed)
    S = rng.random((n, 2))
    return S, (rng.random((n, 2)) < S[:, ::-1]).astype(float)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": "a"}, "^bandwidth: 'a'"),
        ({"min_size": "x"}, "^min_size: 'x'"),
        ({"estimator": KNeighborsRegressor()}, "^estimator: KNeighborsRegressor.fit takes no sample_weight"),
        ({"estimator": LinearRegression}, "^estimator: .* is not allowed"),
        ({"estimator": 3}, "^estimator: 3 is not allowed"),
    ],
)
def test_arguments_that_cannot_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MultiObjectiveCalibrator(**options).fit(*crossed(200))


def test_weights_and_outcomes_are_numbers() -> None:
    S, Y = crossed(300)
    model = MultiObjectiveCalibrator().fit(S, Y)
    for weights in ("ab", ["a", "b"], None, [1.0, np.inf]):
        with pytest.raises(UsageError, match=r"^weights:"):
            model.combine(S, weights)
    with pytest.raises(UsageError, match=r"^y: .*recode"):
        MultiObjectiveCalibrator().fit(S, np.where(Y == 1, "yes", "no"))
