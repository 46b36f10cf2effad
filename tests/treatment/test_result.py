"""Tables, JSON and suppression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.results import Status
from support.tables import broken, experiment, uplift

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def test_the_table_has_the_documented_columns() -> None:
    columns = iso.treatment_bias(experiment(), **ROLES).to_frame().columns
    expected = (
        "group n predicted observed error error_se error_low error_high error_pvalue "
        "bias bias_se bias_low bias_high bias_pvalue adjusted_pvalue verdict status"
    )
    assert " ".join(columns[:17]) == expected


def test_json_comes_back() -> None:
    result = iso.treatment_bias(broken(), **ROLES)
    back = iso.from_json(result.to_json())
    np.testing.assert_array_equal(back.bias, result.bias)
    assert back.status == result.status
    assert back.summary() == result.summary()


def test_small_groups_can_be_suppressed() -> None:
    result = iso.treatment_bias(broken(), **ROLES).suppressed(100)
    hidden = [s is Status.SUPPRESSED for s in result.status]
    assert sum(hidden) == 5
    assert np.isnan(result.n[hidden]).all()
    assert np.isfinite(result.bias[~np.array(hidden)]).all()


def test_shapes_and_strategies() -> None:
    result = iso.evaluate_corrections(uplift(), **ROLES, splits=3, resamples=20, rng=1)
    assert result.strategies == (
        *("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"),
        *("empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture"),
    )
    assert result.error.shape == (9, 6, 6)
    assert result.detection_statistic.shape == (6, 6)
    np.testing.assert_array_equal(result.factor[0], 0)
    np.testing.assert_array_equal(result.factor[1], 1)
    assert result.to_frame()["strategy"].to_list() == list(result.strategies)
    step = result.density_at[1] - result.density_at[0]
    np.testing.assert_allclose(result.bias_density.sum(1) * step, 1, atol=0.03)


def test_counts_progress_json_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    made = {**uplift(2_000), "k": np.full(2_000, 3)}
    result = iso.evaluate_corrections(made, **ROLES, splits=1, resamples=5, rng=1, count="k", progress=True)
    assert result.n.sum() == 6_000
    back = iso.from_json(result.to_json())
    np.testing.assert_array_equal(back.bias, result.bias)
    assert back.summary() == result.summary()
    assert result.suppressed(10**6).status[0] is Status.SUPPRESSED
    assert "Splits and swaps" in capsys.readouterr().out
