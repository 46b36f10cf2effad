"""Errors of the regressions of the likelihood paper, by interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.designs import regression
from support.sampling import rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors; about 1e-5 two-sided for each of some hundred means, seeds fixed


@pytest.mark.parametrize("model", ["5.1", "5.2", "5.3"])
@pytest.mark.parametrize("noise", ["normal", "exponential"])
def test_regression_errors_by_interval(model: Any, noise: Any) -> None:
    table = regression(ROWS, 3, model=model, groups=5, tau=0.3, noise=noise)
    columns = table.columns
    assert np.array_equal(columns["group"].astype(int), np.floor(columns["x"] * 5).astype(int) + 1)
    for label, known in table.truth["groups"].items():
        rows = rows_of(columns, label)
        assert abs(standard_errors(columns["squared_error"][rows], known["mse"])) < LIMIT
        assert abs(standard_errors(columns["residual"][rows], known["mean_residual"])) < LIMIT
        assert abs(standard_errors(-columns["residual"][rows], known["mean_error"])) < LIMIT
        assert abs(standard_errors(columns["outcome"][rows], known["mean_outcome"])) < LIMIT
        assert abs(standard_errors(columns["prediction"][rows], known["mean_prediction"])) < LIMIT


def test_regression_truth_is_the_paper_s() -> None:
    for m in (2, 5, 10):
        for j in range(1, m + 1):
            assert regression(1, groups=m).truth["groups"][f"group={j}"]["mse"] == pytest.approx(1)
            second = regression(1, model="5.2", groups=m).truth["groups"][f"group={j}"]["mse"]
            assert second == pytest.approx((2 * j - 1) / (2 * m))
    third = regression(1, model="5.3", tau=0.2).truth["groups"]
    assert [third[f"group={j}"]["mean_residual"] for j in (1, 2)] == pytest.approx([0.1, 0.3])
