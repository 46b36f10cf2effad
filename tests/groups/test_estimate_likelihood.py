"""Which likelihood: references that overlap a group, lie within it or around it, or were brought."""

from __future__ import annotations

from typing import Any

import pytest

import isonomy as iso
from isonomy.groups import Estimate

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_a_reference_that_is_no_group_of_its_own_may_overlap_the_groups(lender: dict[str, Any]) -> None:
    """Groups by race against women of all races: partly inside, partly outside."""
    result = iso.flag(lender, reference={"sex": "f"}, **RATE)
    women = lender["selected"][lender["sex"] == "f"].mean()
    assert result.reference_value == pytest.approx(women)
    assert (result.ci_low < result.disparity).all()
    assert (result.disparity < result.ci_high).all()


def test_group_inside_the_named_reference_and_around_it(lender: dict[str, Any]) -> None:
    inside = iso.flag(lender, **{**RATE, "groups": ["race", "sex"], "depth": 2}, reference={"race": "a"})
    cell = [str(g) for g in inside.groups].index("race=a & sex=f")
    only = {name: values[lender["race"] == "a"] for name, values in lender.items()}
    alone = iso.flag(only, **{**RATE, "groups": "sex"})
    assert inside.statistic[cell] == pytest.approx(alone.statistic[0])
    assert inside.ci_low[cell] == pytest.approx(alone.ci_low[0])
    around = iso.flag(lender, **RATE, reference={"race": "a", "sex": "f"})
    assert around.disparity[0] == pytest.approx(-inside.disparity[cell])
    mirrored = iso.flag(only, **{**RATE, "groups": "sex"})
    assert around.statistic[0] == pytest.approx(mirrored.statistic[0])
    assert around.ci_low[0] == pytest.approx(-mirrored.ci_high[0])


def test_an_estimate_with_influence_values_gives_what_the_population_gives(lender: dict[str, Any]) -> None:
    rate = lender["selected"].mean()
    data = lender | {"psi": lender["selected"] - rate}
    brought = iso.flag(data, **RATE, reference=Estimate(rate, "psi"))
    ours = iso.flag(data, **RATE)
    for name in ("statistic", "ci_low", "ci_high", "standard_error"):
        assert getattr(brought, name) == pytest.approx(getattr(ours, name), rel=1e-7), name
    joint = iso.certify(data, **RATE, reference=Estimate(rate, "psi"))
    assert joint.statistic == pytest.approx(iso.certify(data, **RATE).statistic, rel=1e-8)
    assert joint.df == 2
