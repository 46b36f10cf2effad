"""Rows counted into tables of categories."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.frames import open_source
from isonomy.likelihood.tally_impact import ImpactTally, tally_impact
from isonomy.results import QUESTIONS
from support.hires import hires


def tallied(data: dict[str, object], missing_group: str = "raise", **options: object) -> ImpactTally:
    source = open_source(data, missing_group=missing_group)  # type: ignore[arg-type]
    plan = QUESTIONS["adverse_impact"].planned(source, {"groups": ["race", "sex"], **options})
    return tally_impact(source, plan)  # type: ignore[arg-type]


def test_every_row_is_counted_once_in_each_table() -> None:
    data = hires()
    sums = tallied(data, prediction="hired", depth=2)
    for counts in sums.tables:
        assert counts.n.sum() == 3_000
        assert counts.selected.sum() == data["hired"].sum()
    assert sums.median is None


def test_rows_above_cutoffs() -> None:
    data = hires()
    sums = tallied(data, score="score")
    assert sums.median == pytest.approx(float(np.median(data["score"])))
    women = data["score"][data["sex"] == "f"]
    for cutoff, above in zip(sums.cutoffs, sums.tables[1].above[:, 0], strict=True):
        assert above == (women > cutoff).sum()


def test_unknown_categories_are_apart() -> None:
    data = hires()
    data["race"] = [None, *data["race"][1:]]
    counts = tallied(data, "level", prediction="hired").tables[0]
    assert (counts.unknown, counts.unknown_selected) == (1.0, float(data["hired"][0]))
    assert counts.n.sum() == 2_999
