"""What groups are set beside, which can be tested, and by which likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.likelihood import Estimate
from isonomy.results import Status

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_the_reference_level_itself_is_not_tested(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, reference={"race": "b"}, **RATE)
    assert result.status == (Status.OK, Status.REFERENCE, Status.OK)
    assert np.isnan(result.pvalue[1])
    assert result.disparity[1] == 0


def test_the_error_of_a_quantile_rests_on_the_clusters_and_weights_there_are() -> None:
    rng = np.random.default_rng(3)
    x, group = rng.normal(size=100), np.repeat(["a", "b"], [40, 60])
    asked: dict[str, Any] = {"metric": iso.Metric("median", iso.col("x"), quantile=0.5), "groups": "g"}
    each = {"x": x, "g": group, "id": np.arange(100)}
    repeated = {name: np.repeat(values, 50) for name, values in each.items()}
    plain = iso.flag(each, cluster="id", reference={"g": "b"}, **asked)
    many = iso.flag(repeated, cluster="id", reference={"g": "b"}, **asked)
    assert many.status[0] is Status.OK
    np.testing.assert_allclose([many.ci_low[0], many.ci_high[0]], [plain.ci_low[0], plain.ci_high[0]], rtol=1e-9)
    # What the rows of one group weigh beside those of another is nothing to a group's own error.
    heavy = iso.flag(each | {"w": np.where(group == "a", 50.0, 1.0)}, weight="w", reference=0.0, **asked)
    equal = iso.flag(each | {"w": np.ones(100)}, weight="w", reference=0.0, **asked)
    np.testing.assert_allclose([heavy.ci_low, heavy.ci_high], [equal.ci_low, equal.ci_high], rtol=1e-7)


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
