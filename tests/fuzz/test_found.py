"""Calls that the sweep found to end in an exception of another program."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import IsonomyError

TABLE: dict[str, Any] = {
    "g": ["a", "b"] * 50,
    "y": [0, 1, 1, 0] * 25,
    "p": [1, 0, 0, 1, 1] * 20,
    "q": [1, 0, 1, 1, 1] * 20,
}


def test_an_outcome_that_is_a_list() -> None:
    outcome: Any = [float("nan"), iso.Metric("m", iso.col("p"))]
    with pytest.raises(IsonomyError, match="outcome"):
        iso.improvability(TABLE, outcome=outcome, groups="g", status_quo="p", candidate="q", rng=1)


def test_factors_without_a_name() -> None:
    with pytest.raises(IsonomyError, match="given: no factor"):
        iso.flag(TABLE, metric="selection_rate", prediction="p", groups="g", reference="rest", given=[])


def test_a_loss_of_one_array() -> None:
    loss: Any = lambda errors: errors  # noqa: E731
    with pytest.raises(IsonomyError, match=r"loss: .* cannot be called with two arrays"):
        iso.correction_risk(loss=loss)


def test_batches_beyond_64_bits() -> None:
    week = pl.Series("w", [2**70 + i // 50 for i in range(100)], dtype=pl.Int128)
    with pytest.raises(IsonomyError, match="batch: "):
        iso.monitor(
            pl.DataFrame(TABLE).with_columns(week), metric="selection_rate", prediction="p", groups="g", batch="w"
        )
