"""Invariance, and changes of known size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy as iso
from isonomy.effects.estimators.errors import Gap
from isonomy.effects.estimators.shrinkage import STRATEGIES, Detected, factor
from isonomy.inference.effect import Fieller
from support.same import same
from support.tables import trial

ROLES: dict[str, Any] = {"effect": "f", "treatment": "t", "outcome": "y", "groups": "g"}
NUMBERS = (
    "predicted",
    "observed",
    "estimate",
    "error_se",
    "error_low",
    "disparity",
    "standard_error",
    "ci_high",
    "pvalue",
)


seeds = st.integers(0, 10_000)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"measure": "difference"},
    {"measure": iso.relative("normalized", "h")},
    {"estimator": iso.arm_means(rest="pooled")},
    {"estimator": iso.regression(["h"])},
]


@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=8)
@given(seed=seeds, real=st.booleans())
def test_order_of_rows_and_names_of_groups_do_not_matter(options: dict[str, Any], seed: int, real: bool) -> None:
    made = trial(400, seed, real)
    order = np.random.default_rng(seed + 1).permutation(len(made["y"]))
    expected = iso.treatment_bias(made, **ROLES, **options)
    same(
        iso.treatment_bias({k: v[order] for k, v in made.items()}, **ROLES, **options),
        expected,
        NUMBERS,
        rel=1e-7,
        abs=1e-10,
    )
    renamed = {**made, "g": np.char.add("z", made["g"])}  # keeps the order of names
    same(iso.treatment_bias(renamed, **ROLES, **options), expected, NUMBERS, rel=1e-7, abs=1e-10)


@settings(max_examples=8)
@given(seed=seeds)
def test_counts_stand_for_rows(seed: int) -> None:
    made = {**trial(seed=seed), "k": np.random.default_rng(seed).integers(0, 4, 400)}
    rows = {name: np.repeat(v, made["k"]) for name, v in made.items()}
    same(iso.treatment_bias(made, **ROLES, count="k"), iso.treatment_bias(rows, **ROLES), NUMBERS, rel=1e-7, abs=1e-10)


@settings(max_examples=8)
@given(seed=seeds, scale=st.floats(0.01, 100))
def test_the_unit_of_the_outcome_does_not_matter_to_a_ratio(seed: int, scale: float) -> None:
    made = trial(seed=seed, real=True)
    same(
        iso.treatment_bias({**made, "y": made["y"] * scale}, **ROLES),
        iso.treatment_bias(made, **ROLES),
        NUMBERS,
        rel=1e-7,
        abs=1e-10,
    )


@settings(max_examples=8)
@given(seed=seeds, scale=st.floats(0.01, 100))
def test_the_unit_of_the_outcome_scales_a_difference(seed: int, scale: float) -> None:
    made = trial(seed=seed, real=True)
    one = iso.treatment_bias(made, **ROLES, measure="difference")
    two = iso.treatment_bias({**made, "y": made["y"] * scale, "f": made["f"] * scale}, **ROLES, measure="difference")
    for name in ("estimate", "error_se", "disparity", "ci_low"):
        np.testing.assert_allclose(getattr(two, name), scale * getattr(one, name), rtol=1e-7)
    np.testing.assert_allclose(two.pvalue, one.pvalue, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"measure": "difference"}, {"measure": iso.relative("average")}])
@settings(max_examples=8)
@given(seed=seeds, shift=st.floats(-1, 1))
def test_moving_all_predictions_moves_errors_and_leaves_biases(
    options: dict[str, Any], seed: int, shift: float
) -> None:
    made = trial(seed=seed)
    one = iso.treatment_bias(made, **ROLES, **options)
    two = iso.treatment_bias({**made, "f": made["f"] + shift}, **ROLES, **options)
    np.testing.assert_allclose(two.estimate, one.estimate + shift, atol=1e-9)
    np.testing.assert_allclose(two.disparity, one.disparity, atol=1e-9)


@settings(max_examples=8)
@given(seed=seeds)
def test_features_may_be_rescaled(seed: int) -> None:
    made = trial(seed=seed)
    options: dict[str, Any] = {"estimator": iso.regression(["h"])}
    moved = {**made, "h": 1e4 * made["h"] - 7}
    same(
        iso.treatment_bias(moved, **ROLES, **options),
        iso.treatment_bias(made, **ROLES, **options),
        NUMBERS,
        rel=1e-7,
        abs=1e-10,
    )


finite = st.floats(-5, 5)
positive = st.floats(1e-3, 2)


@given(top=finite, bottom=st.floats(0.5, 5), tt=positive, bb=st.floats(1e-4, 0.02), rho=st.floats(-0.9, 0.9))
def test_interval_and_test_agree(top: float, bottom: float, tt: float, bb: float, rho: float) -> None:
    tb = rho * np.sqrt(tt * bb)
    law = Fieller(*(np.array([v]) for v in (top, bottom, tt, tb, bb, 30.0)))
    low, high = law.limits(0.05)
    assert low[0] <= law.value[0] <= high[0]
    if np.isfinite(low[0]) and np.isfinite(high[0]):
        for end in (low, high):
            assert law.pvalue(end)[0] == pytest.approx(0.05, rel=1e-6)
    gap = Gap(law, law, np.array([30.0]))
    assert gap.root()[0] == 0


@given(error=st.floats(-50, 50), se=st.floats(0.01, 10))
def test_a_correction_never_overshoots(error: float, se: float) -> None:
    found = Detected(np.array([error]), np.array([se]))
    for strategy in STRATEGIES:
        assert 0 <= factor(strategy, found)[0] <= 1
    assert factor("positive_part", found)[0] <= factor("mse_plus", found)[0] + 1e-12
