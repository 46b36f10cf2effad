"""What a plan refuses before a row is read: hypotheses and scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.frames import open_source
from isonomy.groups import Estimate
from isonomy.groups.likelihood.disparity import Hypothesis
from support.groups import EVERY_TYPE as DATA
from support.groups import planned

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
M = iso.Metric("m", iso.col("x"))
STANDARDISED: dict[str, Any] = {"metric": M, "scale": "standardised"}


@pytest.mark.parametrize(
    ("null", "alternative", "tolerance"),
    [
        ((0.1, -0.1), "outside", None),
        (0.0, "outside", None),
        ((0.0, 0.1), "two-sided", None),
        (float("nan"), "two-sided", None),
        ("zero", "two-sided", None),
        (pl.Series([0.0, 0.1]), "outside", None),
        (pl.Series([0.0]), "two-sided", None),
        ((0, 1, 2), "outside", None),
        (0.1, "two-sided", 0.05),
        (0.0, "two-sided", -0.05),
        (0.0, "sideways", None),
    ],
)
def test_impossible_hypotheses_are_refused(null: Any, alternative: Any, tolerance: float | None) -> None:
    with pytest.raises(UsageError, match=r"^(null|alternative|tolerance):"):
        iso.flag(DATA, metric=M, groups="g", null=null, alternative=alternative, tolerance=tolerance)


@pytest.mark.parametrize(
    ("alternative", "expected"),
    [
        ("two-sided", Hypothesis(-0.02, 0.02, "outside")),
        ("outside", Hypothesis(-0.02, 0.02, "outside")),
        ("outside-published", Hypothesis(-0.02, 0.02, "outside-published")),
        ("greater", Hypothesis(0.02, 0.02, "greater")),
        ("less", Hypothesis(-0.02, -0.02, "less")),
        (None, Hypothesis(-0.02, 0.02, "outside")),  # certify
    ],
)
def test_a_tolerance_sets_the_null(alternative: Any, expected: Hypothesis) -> None:
    asked = planned(open_source(DATA), metric=M, groups="g", tolerance=0.02, alternative=alternative)
    assert asked.hypothesis == expected


def test_a_joint_null_is_no_hypothesis_of_each_group() -> None:
    assert planned(open_source(DATA), metric=M, groups="g", null=[0.1, 0.2]).hypothesis is None


def test_counts_are_asked_for_in_one_pass_and_rows_in_none() -> None:
    """What an audit can share: a 0/1 metric against anything but an estimate."""
    source = open_source(DATA | {"psi": np.tile([-0.5, 0.5], DATA["x"].size // 2)})
    rate: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
    asked = planned(source, **rate, reference={"h": 1})
    assert asked.requests == asked.metric_requests
    assert set(asked.requests[0].keys) == {"reference"}
    assert planned(source, **rate, reference=Estimate(0.5, "psi")).requests == ()
    assert planned(source, metric=M, groups="g").requests == ()


@pytest.mark.parametrize(
    ("reference", "label"),
    [
        (1e-5, "0.00001"),
        (0.45, "0.45"),
        (-12.5, "-12.5"),
        (0, "0"),
        (2 / 3, "0.666667"),
        (1e7, "10000000"),
        (Estimate(1e-5, "x"), "the estimate 0.00001"),
    ],
    ids=str,
)
def test_a_number_is_called_what_it_is(reference: Any, label: str) -> None:
    assert iso.flag(DATA, metric=M, groups="g", reference=reference).reference == label


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": M, "scale": "ratio"}, "scale: 'ratio' needs values that are never negative; 'm' goes down to -"),
        ({"metric": M, "scale": "odds_ratio"}, "scale: 'odds_ratio' needs a 0/1 metric"),
        ({"scale": "ratio", "tolerance": 80}, "tolerance: 80 is not allowed for scale='ratio'; give a ratio between"),
        ({"scale": "ratio", "tolerance": 1.25}, "0.8 tolerates ratios from 0.8 to 1.25"),
        ({"scale": "ratio", "null": 0.0}, "null: 0.0 is not allowed for scale='ratio'; give ratios above 0"),
        ({"scale": "odds_ratio", "null": (0.8, 1.2)}, "pass alternative='outside'"),
        ({"scale": "ratio", "null": 0.5, "tolerance": 0.8}, "null: leave it at 1 when tolerance is given"),
        ({"scale": "ratios"}, "scale: 'ratios' is not allowed. Did you mean 'ratio'"),
        ({"scale": "standardised"}, "'selection_rate' is a 0/1 metric. Use scale='difference'"),
        ({"sigma": "pooled"}, "sigma: 'pooled' needs scale='standardised', saw scale='difference'"),
        ({**STANDARDISED, "sigma": "pooled"}, "sigma: 'pooled' needs two groups"),
        ({**STANDARDISED, "sigma": "reference"}, "sigma: 'reference' needs a reference group"),
        ({**STANDARDISED, "uncertainty": "plugin"}, "scale: 'standardised' counts the error of its reference"),
        ({**STANDARDISED, "correction": "bartlett"}, "correction: not available with scale='standardised'"),
        ({**STANDARDISED, "given": "h"}, "given: not available with scale='standardised'"),
    ],
    ids=str,
)
def test_scales_refuse_what_they_cannot_say(options: dict[str, Any], message: str) -> None:
    rate = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
    with pytest.raises(UsageError) as error:
        iso.flag(DATA, **{**rate, **options})
    assert message in str(error.value)
