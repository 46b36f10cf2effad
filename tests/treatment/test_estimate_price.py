"""What is said of treated shares beside a price, and of predictions in the other measure."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso

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
