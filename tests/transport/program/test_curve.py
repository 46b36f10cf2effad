"""The tolerance curve: its limits are where single tests change their minds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.tables import decided

ROLES: dict[str, Any] = {"prediction": "c", "score": "score", "threshold": 0.2, "criterion": "statistical_parity"}


@pytest.mark.parametrize(("groups", "side"), [("sex", "both"), ("group", "upper")])
def test_the_limits_are_those_of_single_tests(groups: str, side: Any) -> None:
    data = decided(4_000, shift=0.5)
    data["score"] = data["score"] + 0.4 * (data["sex"] == "F")
    data["c"] = (data["score"] >= 0.2).astype(int)
    options = ROLES | {"groups": groups, "tolerance_side": side, "rng": 5}
    options["reference"] = {groups: {"sex": "M", "group": "a"}[groups]}
    curve = iso.project(data, tolerance=0.0, curve=True, **options).curve
    assert curve is not None
    assert 0 < curve.least < curve.most < 1
    below, above = (iso.project(data, tolerance=curve.least + step, **options) for step in (-0.003, 0.003))
    assert below.pvalue <= 0.05 < above.pvalue
    before, after = (iso.project(data, tolerance=curve.most + step, **options) for step in (-0.003, 0.003))
    assert after.equivalence_pvalue <= 0.05 < before.equivalence_pvalue
    assert np.all(np.diff(curve.pvalue) >= -0.01)
    assert np.all(np.diff(curve.within_pvalue[1:]) <= 1e-9)


def test_without_a_difference_nothing_is_said_from_below() -> None:
    result = iso.project(decided(), groups="sex", curve=True, **ROLES)
    assert result.curve is not None
    assert result.curve.least == 0.0
    assert "nothing can be said of how large the largest difference at least is" in result.summary().replace(
        "\n    ", " "
    )
    again = iso.from_json(result.to_json())
    assert again.curve.most == result.curve.most
    again.plot()


def test_rates_that_are_equal_to_the_row_have_an_upper_limit() -> None:
    score = np.tile(np.linspace(-1.0, 1.0, 200) + 1e-4, 2)
    data = {"sex": np.repeat(["F", "M"], 200), "score": score, "c": (score >= 0).astype(int)}
    result = iso.project(data, groups="sex", curve=True, **ROLES | {"threshold": 0.0})
    assert result.curve is not None
    assert 0.07 < result.curve.most < 0.09  # 1.645 standard errors of 0.05
    assert "by more than 0.08" in result.summary()


@pytest.mark.parametrize("why", ["constant", "few clusters"])
def test_what_cannot_be_tested_has_no_limits(why: str) -> None:
    data = decided()
    if why == "constant":
        data |= {"c": np.ones(2_000, dtype=int)}
    result = iso.project(
        data | {"d": np.ones(2_000), "branch": np.arange(2_000) // 400},
        prediction="c",
        groups="sex",
        distance="d",
        criterion="statistical_parity",
        curve=True,
        cluster="branch" if why == "few clusters" else None,
    )
    assert result.curve is not None
    assert np.isnan(result.curve.least)
    assert result.curve.most == np.inf
    assert np.isnan(result.curve.within_pvalue).all()
    assert "No tolerance could be tested" in result.summary()
