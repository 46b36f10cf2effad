"""Disparities as scikit-learn scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

import isonomy as iso

RNG = np.random.default_rng(3)
N = 1_200
ROWS = pd.DataFrame({"sex": RNG.choice(["f", "m"], N), "age": RNG.integers(18, 80, N), "x": RNG.normal(size=N)})
OUTCOME = (ROWS["x"] + (ROWS["sex"] == "m") + RNG.normal(size=N) > 0.5).astype(int)


class Fixed:
    """A model that has already decided."""

    def __init__(self, decisions: Any) -> None:
        self.decisions = decisions

    def predict(self, X: Any) -> Any:
        return self.decisions


@pytest.mark.parametrize("metric", ["selection_rate", "tpr", "fpr", "ppv", "accuracy"])
def test_the_gap_is_that_of_the_groups_rates(metric: str) -> None:
    decided = RNG.integers(0, 2, N)
    score = iso.disparity_scorer(metric, groups="sex")(Fixed(decided), ROWS, OUTCOME)
    table = {"sex": ROWS["sex"], "p": decided, "y": OUTCOME}
    rates = iso.flag(table, metric=metric, prediction="p", outcome="y", groups="sex").estimate
    assert score == pytest.approx(-np.ptp(rates), rel=1e-12)


def test_cut_groups() -> None:
    decided = (ROWS["age"] > 40).astype(int).to_numpy()
    scorer = iso.disparity_scorer("selection_rate", groups=iso.cut("age", [30, 50]))
    assert scorer(Fixed(decided), ROWS, OUTCOME) == -1.0


def test_scores_and_numbers() -> None:
    model = make_pipeline(make_column_transformer(("passthrough", ["x", "age"])), LogisticRegression()).fit(
        ROWS, OUTCOME
    )
    score = iso.disparity_scorer("brier", groups="sex")(model, ROWS, OUTCOME)
    squares = (model.predict_proba(ROWS)[:, 1] - OUTCOME) ** 2
    by_sex = squares.groupby(ROWS["sex"]).mean()
    assert score == pytest.approx(-abs(by_sex["f"] - by_sex["m"]), rel=1e-9)


def test_a_search_takes_it_beside_accuracy() -> None:
    model = make_pipeline(make_column_transformer(("passthrough", ["x", "age"])), LogisticRegression())
    scoring = {"accuracy": "accuracy", "gap": iso.disparity_scorer("tpr", groups="sex")}
    search = GridSearchCV(model, {"logisticregression__C": [0.01, 1.0]}, scoring=scoring, refit="gap", cv=3)
    search.fit(ROWS, OUTCOME)
    assert search.best_score_ == max(search.cv_results_["mean_test_gap"])
    assert (cross_validate(model, ROWS, OUTCOME, scoring=scoring, cv=3)["test_gap"] <= 0).all()


def test_small_groups_are_left_out() -> None:
    few = ROWS.head(12)
    scorer = iso.disparity_scorer("selection_rate", groups="sex", min_size=100)
    assert np.isnan(scorer(Fixed(np.ones(12)), few, OUTCOME.head(12)))
