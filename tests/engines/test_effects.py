"""The same groups and the same numbers on every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.engines import expected

Engine = Callable[[Mapping[str, Any]], Any]
ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
NUMBERS = (
    "n",
    "treated",
    "predicted",
    "observed",
    "estimate",
    "error_se",
    "disparity",
    "ci_low",
    "ci_high",
    "adjusted_pvalue",
)


@pytest.fixture(scope="module")
def trial_rows() -> dict[str, Any]:
    return dict(iso.simulate.uplift(6_000, groups=3, baseline=0.3, error={"b": 0.3}, outcome="real").columns)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"measure": "difference", "estimator": iso.regression(["x"])},
        {"measure": iso.relative("normalized", "baseline"), "estimator": iso.arm_means(rest="pooled")},
        {"groups": ["group", iso.cut("x", [0.3])], "depth": 2},
    ],
    ids=["default", "regression", "normalized", "intersections"],
)
def test_bias(engine: Engine, trial_rows: dict[str, Any], options: dict[str, Any]) -> None:
    answer = expected(iso.treatment_bias, trial_rows, **{**ROLES, **options})
    found = iso.treatment_bias(engine(trial_rows), **{**ROLES, **options})
    assert [g.label for g in found.groups] == [g.label for g in answer.groups]
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(found, name), getattr(answer, name), rtol=1e-8, err_msg=name)


def test_random_splits(engine: Engine, trial_rows: dict[str, Any], request: pytest.FixtureRequest) -> None:
    options = {**ROLES, "method": iso.heldout(splits=2, resamples=10), "rng": 3}
    found = iso.evaluate_corrections(engine(trial_rows), **options)
    assert found.n.sum() == 6_000
    if "spark" in request.node.name:  # Spark numbers rows by partition, which gives another, equally random split
        assert np.isfinite(found.bias).all()
        return
    answer = expected(iso.evaluate_corrections, trial_rows, **options)
    for name in ("factor", "error", "bias", "bias_pvalue", "bias_density"):
        np.testing.assert_allclose(getattr(found, name), getattr(answer, name), rtol=1e-7, atol=1e-10, err_msg=name)


@pytest.fixture(scope="module")
def head(trial_rows: dict[str, Any]) -> dict[str, Any]:
    return {name: values[:300] for name, values in trial_rows.items()}


def test_aipw_brings_any_engine_into_memory(engine: Engine, head: dict[str, Any]) -> None:
    options: dict[str, Any] = {**ROLES, "estimator": iso.aipw(["x"]), "rng": 3}
    found, answer = iso.treatment_bias(engine(head), **options), expected(iso.treatment_bias, head, **options)
    np.testing.assert_allclose(found.estimate, answer.estimate, rtol=1e-8)
