"""What is read of the rows: sizes, missing values, influence values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import MissingValues, UsageError
from isonomy.likelihood import Estimate

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_size_counts_all_rows_and_n_those_inside_the_condition(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, metric="tpr", groups="race", outcome="outcome", prediction="selected")
    race, outcome = lender["race"], lender["outcome"]
    assert result.size.tolist() == [np.sum(race == g) for g in "abc"]
    assert result.n.tolist() == [np.sum((race == g) & (outcome == 1)) for g in "abc"]


def test_missing_values_raise_or_are_counted(lender: dict[str, Any]) -> None:
    loss = lender["loss"].copy()
    loss[:7] = np.nan
    with pytest.raises(MissingValues, match="7 rows"):
        iso.flag(lender | {"loss": loss}, metric="mean_prediction", prediction="loss", groups="race")
    result = iso.flag(
        lender | {"loss": loss}, metric="mean_prediction", prediction="loss", groups="race", missing="drop"
    )
    assert result.provenance.dropped == {"loss": 7}
    assert any("7 with no 'loss'" in w for w in result.warnings)


@pytest.mark.parametrize("kind", ["flag", "certify"])
def test_influence_values_must_average_to_zero(lender: dict[str, Any], kind: str) -> None:
    rate = float(lender["selected"].mean())
    ask = iso.flag if kind == "flag" else iso.certify
    with pytest.raises(UsageError, match=r"'selected' must average to zero.* mean is 0\.4"):
        ask(lender, **RATE, reference=Estimate(rate, "selected"))
    with pytest.raises(UsageError, match="'psi' are all 0"):
        ask(lender | {"psi": np.zeros(600)}, **RATE, reference=Estimate(rate, "psi"))
    # What one-step estimates leave is small against the standard error, here 0.02.
    ask(lender | {"psi": lender["selected"] - rate + 0.001}, **RATE, reference=Estimate(rate, "psi"))
