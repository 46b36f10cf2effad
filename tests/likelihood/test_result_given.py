"""A stratified result: its table, its words, its storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData
from support.admissions import RATE, admissions, stratified


def result() -> Any:
    return stratified(admissions(), **RATE, reference={"sex": "m"}, given="department")


def test_columns_and_their_order() -> None:
    assert result().to_frame().columns == [
        *("group", "size", "n", "estimate", "reference", "unconditional", "disparity", "ci_low", "ci_high"),
        *("statistic", "pvalue", "adjusted_pvalue", "verdict", "direction", "accounted", "accounted_low"),
        *("accounted_high", "homogeneity_pvalue", "strata", "one_sided", "status", "detectable"),
    ]


def test_it_is_stored_whole_and_drawn() -> None:
    whole = result()
    again = iso.from_json(whole.to_json())
    assert again.to_frame().equals(whole.to_frame())
    assert again.by_stratum().equals(whole.by_stratum())
    assert again.summary() == whole.summary()
    assert whole.plot().to_dict()["layer"]


def test_small_strata_are_withheld_with_small_groups() -> None:
    whole = result()
    limit = int(whole.effects.n.min()) + 1
    hidden = whole.suppressed(limit)
    assert len(hidden.by_stratum()) < len(whole.by_stratum())
    assert not np.isnan(hidden.unconditional[0])
    with pytest.raises(NotEnoughData, match="reference"):
        whole.suppressed(10_000)
    everything = stratified(admissions(), **RATE, given="department").suppressed(10_000)
    assert np.isnan(everything.unconditional).all()
    assert not len(everything.by_stratum())


def test_an_audit_file_can_ask_it() -> None:
    from isonomy.audit.config import parse

    text = """
[data]
path = "x.csv"
[[tests]]
kind = "flag"
metric = "selection_rate"
prediction = "admitted"
groups = "sex"
given = ["department", {column = "age", edges = [30]}]
"""
    assert len(parse(text).tests[0].own_options()["given"]) == 2  # type: ignore[arg-type]


def test_what_people_are_compared_within_has_the_readers_words() -> None:
    words = iso.Labels(columns={"department": "department applied to"})
    source = iso.open_source(admissions(), labels=words)
    told = iso.flag(source, **RATE, reference={"sex": "m"}, given="department")
    assert "comparing people with the same department applied to." in told.null
    assert "without regard to department applied to" in " ".join(told.findings())
