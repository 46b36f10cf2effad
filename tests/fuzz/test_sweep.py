"""A short run of the sweep; `make fuzz` runs it at length."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from fuzz.calls import internal_names, numbers, public, table
from fuzz.sweep import BAD, Hang, expected, limited, sweep


def test_hostile_calls_end_in_a_clear_error_or_the_right_number() -> None:
    outcomes = list(sweep(range(40), seconds=8))
    assert not [one for one in outcomes if one.outcome in BAD]
    assert {"right", "error"} <= {one.outcome for one in outcomes}


@pytest.mark.parametrize("place", range(len(public())), ids=[call.name for call in public()])
def test_columns_under_the_packages_own_names_change_no_number(place: int) -> None:
    """All of them at once, beside the columns that are asked for, and with the answers of others inside."""
    call = public()[place]
    plain = table()
    strangers = [name for name in internal_names() if name not in plain.columns]
    crowded = plain.with_columns(plain["x"].shuffle(i).alias(name) for i, name in enumerate(strangers))
    answer = numbers(call.function(crowded, **call.columns, **call.options))
    np.testing.assert_allclose(answer, expected(place), rtol=1e-9, atol=1e-12)


def test_the_search_of_the_source_knows_the_names_of_passes() -> None:
    assert {"__count", "__k0", "__v0", "group g", "role outcome", "column 0", "mass", "cluster", "cell"} <= set(
        internal_names()
    )


def _busy(seconds: float) -> None:
    """Work in Python: a loop inside C would never look for the signal."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_call_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(Hang), limited(0.05):
        _busy(20.0)


def test_depth_over_many_columns_is_refused_before_any_row_is_read() -> None:
    wide = pl.DataFrame({f"c{i}": [0, 1] for i in range(25)} | {"p": [0, 1]})
    with pytest.raises(iso.errors.UsageError, match=r"depth: 25 over 25 groups asks for 33,554,431 sets"):
        iso.flag(wide, metric="selection_rate", prediction="p", groups=[f"c{i}" for i in range(25)], depth=25)


def _draws(argument: str) -> Any:
    return {"measure": "difference", argument: 10**29}


@pytest.mark.parametrize("argument", ["splits", "resamples"])
def test_draws_without_end_are_refused(argument: str) -> None:
    with pytest.raises(iso.errors.UsageError, match=rf"{argument}: 100000.* give a whole number from \d to 100000"):
        iso.evaluate_corrections(table(), effect="e", treatment="t", outcome="v", groups="g", **_draws(argument))
