"""What is said of treated shares beside a price, and of predictions in the other measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def priced(measure: Any = "relative", **options: Any) -> iso.PriceResult:
    table = dict(iso.simulate.uplift(4_000, 1, groups=3, baseline=0.3, treated={"a": 0.2, "b": 0.5, "c": 0.5}).columns)
    table |= {"p": np.where(table["group"] == "a", 0.2, 0.5)}
    return iso.price_of_fairness(table, **ROLES, corrected="effect", measure=measure, **options)


def test_treated_shares_that_differ_are_told_and_warned_of() -> None:
    blind, known = priced(), priced(propensity="p")
    assert "does not allow for: name a propensity column" in blind.assumptions()[0][1]
    assert any("one share was taken for all" in warning for warning in blind.warnings)
    assert "which the propensities allow for" in known.assumptions()[0][1]
    assert not any("one share" in warning for warning in known.warnings)
    assert iso.from_json(blind.to_json()).assumptions() == blind.assumptions()


def test_shares_alike_are_said_to_be() -> None:
    table = iso.simulate.uplift(4_000, 1, groups=3, baseline=0.3).columns
    price = iso.price_of_fairness(table, **ROLES, corrected="effect")
    assert "no more than 5 points or than chance explains" in price.assumptions()[0][1]
    assert not any("one share" in warning for warning in price.warnings)


def test_ratios_given_for_differences_are_noticed() -> None:
    assert any("they look like ratios" in warning for warning in priced("difference").warnings)


def test_differences_are_not_taken_for_ratios() -> None:
    made = dict(iso.simulate.uplift(8_000, 3, groups=3, measure="difference", error={"b": 0.05}).columns)
    with pytest.raises(UsageError, match=r'measure: none given.*measure="difference".*measure="relative"'):
        iso.price_of_fairness(made, **ROLES, corrected="effect")
    assert iso.price_of_fairness(made, **ROLES, corrected="effect", measure="difference").bias_before > 0


def intersections() -> dict[str, Any]:
    made = dict(iso.simulate.uplift(12_000, 4, groups=3, baseline=0.3, measure="difference", error={"b": 0.2}).columns)
    made |= {"less": made["effect"] - 0.2 * (made["group"] == "b"), "one": np.ones(12_000), "who": np.arange(12_000)}
    return made | {"sex": np.where(made["x"] < 0.4, "f", "m")}


GROUPINGS: dict[str, Any] = {
    "columns": (["group", "sex"], 1),
    "depth": (["group", "sex"], 2),
    "cuts": (["group", iso.cut("x", [0.3, 0.6])], 2),
    "conditions": ([iso.where("young", iso.col("x") < 0.5), iso.where("b", iso.col("group") == "b"), "sex"], 3),
}


@pytest.mark.parametrize("name", GROUPINGS)
@pytest.mark.parametrize("design", [{}, {"weight": "one"}, {"cluster": "who"}])
def test_bias_left_is_that_of_all_groups(name: str, design: dict[str, Any]) -> None:
    """As `treatment_bias` finds them, column by column; the ranking does not depend on how people are grouped."""
    made, (groups, depth) = intersections(), GROUPINGS[name]
    roles: dict[str, Any] = {**ROLES, "groups": groups, "depth": depth, "measure": "difference", **design}
    price = iso.price_of_fairness(made, **roles, corrected=["less", "effect"])
    left = []
    for effect in ("effect", "less"):
        found = iso.treatment_bias(made, **{**roles, "effect": effect}, test="welch")
        left.append(np.sqrt(max(float(np.mean(found.bias**2 - found.bias_se**2)), 0.0)))
    assert [price.bias_before, *price.bias_after] == pytest.approx([*left, left[0]], rel=1e-9)
    assert price.bias_after[0] < 0.5 * price.bias_before
    plain = iso.price_of_fairness(made, **ROLES, corrected="less", measure="difference")
    np.testing.assert_allclose(price.change[0], plain.change[0])
    assert iso.from_json(price.to_json()).bias_before == price.bias_before


def test_treated_shares_are_looked_at_in_every_column() -> None:
    made = intersections()
    rng = np.random.default_rng(0)
    made["treatment"] = (rng.random(12_000) < np.where(made["sex"] == "f", 0.3, 0.6)).astype(int)
    price = iso.price_of_fairness(made, **{**ROLES, "groups": ["group", "sex"]}, corrected="less", measure="difference")
    assert price.arms_differ
