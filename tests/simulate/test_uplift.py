"""True and predicted effects of groups and of the rest of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy import simulate
from isonomy.errors import UsageError
from support.sampling import rows_of, standard_errors

ROWS = 200_000
LIMIT = 4.5  # standard errors

OPTIONS: dict[str, Any] = {
    "groups": {"a": 0.5, "b": 0.3, "c": 0.2},
    "treated": {"a": 0.8, "b": 0.2},
    "baseline": {"a": 0.1, "b": 0.3, "c": 0.2},
    "error": {"b": 0.15},
    "predicted_heterogeneity": -0.2,
    "predicted_trend": 0.25,
}


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("outcome", ["binary", "real"])
def test_effects_are_those_of_a_large_sample(measure: Any, outcome: Any) -> None:
    table = simulate.uplift(ROWS, 4, measure=measure, outcome=outcome, **OPTIONS)
    columns = table.columns
    y, f = columns["outcome"].astype(float), columns["effect"]
    for label, known in table.truth["groups"].items():
        rows = rows_of(columns, label)
        treated, control = (rows & (columns["treatment"] == arm) for arm in (1, 0))
        assert abs(standard_errors(columns["treatment"][rows], known["treated"])) < LIMIT
        assert abs(standard_errors(y[treated], known["treated_mean"])) < LIMIT
        assert abs(standard_errors(y[control], known["control_mean"])) < LIMIT
        if measure == "relative":  # E[Y (f - P)] = 0 among controls
            assert abs(standard_errors((y * (f - known["predicted"]))[control], 0.0)) < LIMIT
            assert known["observed"] == pytest.approx(known["treated_mean"] / known["control_mean"])
        else:
            assert abs(standard_errors(f[rows], known["predicted"])) < LIMIT
            assert known["observed"] == pytest.approx(known["treated_mean"] - known["control_mean"])
        assert abs(standard_errors(f[rows], known["predicted_average"])) < LIMIT
        assert known["error"] == pytest.approx(known["predicted"] - known["observed"])
        assert known["bias"] == pytest.approx(known["error"] - known["rest_error"])


def test_the_rest_is_standardised() -> None:
    """Against the definition, with arm means and predictions of the other groups computed here from the truth."""
    groups = simulate.uplift(1, **OPTIONS).truth["groups"]
    a, b, c = (groups[f"group={g}"] for g in "abc")
    share = np.array([b["share"], c["share"]]) / (b["share"] + c["share"])
    m0, m1, p = (np.array([b[k], c[k]]) for k in ("control_mean", "treated_mean", "predicted"))
    assert a["rest_observed"] == pytest.approx(share @ m1 / (share @ m0))
    assert a["rest_predicted"] == pytest.approx(share @ (m0 * p) / (share @ m0))
    difference = simulate.uplift(1, measure="difference", **OPTIONS).truth["groups"]
    assert difference["group=a"]["rest_error"] == pytest.approx(share[0] * 0.15)


def test_the_default_is_the_design_with_effect_1_2917() -> None:
    known = simulate.uplift(1, groups=1).truth["groups"]["group=a"]
    assert known["observed"] == pytest.approx(1.25 * (1 + 0.1 / 3))
    assert known["predicted_average"] - known["predicted"] == pytest.approx(-0.041667, abs=1e-6)
    assert known["error"] == pytest.approx(0, abs=1e-12)
    assert np.isnan(known["bias"])


def test_noise_changes_predictions_and_nothing_else() -> None:
    plain, noisy = (simulate.uplift(5_000, 1, noise=n) for n in (0.0, 0.1))
    assert np.array_equal(plain.columns["outcome"], noisy.columns["outcome"])
    assert 0.09 < np.std(plain.columns["effect"] - noisy.columns["effect"]) < 0.11
    assert noisy.truth["groups"]["group=a"]["predicted"] == plain.truth["groups"]["group=a"]["predicted"]


def test_a_real_outcome_is_exponential() -> None:
    """The coefficient of variation is 1; its standard error is about 1 / sqrt(rows)."""
    y = simulate.uplift(ROWS, 2, outcome="real", groups=1, trend=0.0, treated=0.0).columns["outcome"]
    assert np.std(y) / np.mean(y) == pytest.approx(1, abs=LIMIT / np.sqrt(ROWS))
    assert y.min() > 0


def test_many_groups() -> None:
    table = simulate.uplift(20_000, 1, groups=200, error=np.linspace(-0.2, 0.2, 200).tolist())
    assert len(np.unique(table.columns["group"])) == 200
    assert table.truth["groups"]["group=g199"]["error"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    "options",
    [
        {"measure": "odds"},
        {"outcome": "count"},
        {"treated": 1.2},
        {"baseline": 0.9},
        {"baseline": -0.1},
        {"effect": [1.0, 2.0]},
        {"error": {"z": 0.1}},
        {"error": float("nan")},
        {"heterogeneity": 3.0},
        {"trend": 2.0},
        {"noise": -1.0},
        {"noise": True},
        {"groups": 0},
        {"outcome": "real", "effect": -2.0},
    ],
)
def test_bad_arguments_of_uplift(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        simulate.uplift(10, **options)
