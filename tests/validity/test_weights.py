"""Quick checks of size and coverage with weights and clusters; docs/weights_simulations.md has the long ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from studies.designs.people import people
from studies.lines import rejected
from studies.weights import METHODS, PAGE, RATE, against_the_rest, corners, other_methods, reading

DESIGNS: list[dict[str, Any]] = [
    {"clusters": 20, "correlation": 0.1, "within": True},
    {"clusters": 50, "correlation": 0.4, "within": False, "spread": 1.0, "related": True},
    {"clusters": 50, "heavy": True, "correlation": 0.4, "within": True},
]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_many_tables_at_once_are_those_that_flag_is_given(design: dict[str, Any]) -> None:
    tables = 5
    together = against_the_rest(np.random.default_rng(5), tables, design)
    rng = np.random.default_rng(5)
    for row in together:
        table = people(rng, **design)
        result = iso.flag(table, **RATE, reference="rest", adjust="none", **reading(design))
        naive = iso.flag(table, **RATE, reference="rest", adjust="none")
        missed = result.ci_low[0] > 0 or result.ci_high[0] < 0
        expected = [rejected(result.pvalue[0]), missed, rejected(naive.pvalue[0]), np.isnan(result.pvalue[0])]
        assert row.tolist() == [float(value) for value in expected]


@pytest.mark.parametrize(
    "line",
    [
        "20, equal, 0.4, within groups, none",
        "50, equal, 0.4, within groups, log-sd 1, related to the decision",
        "200, equal, 0.1, across groups, log-sd 0.5",
        "200, one has a fifth, 0, across groups, none",
    ],
)
def test_size_and_coverage(line: str) -> None:
    assert not PAGE.find("`flag`").find(line).missed(250)


def test_rows_taken_as_independent_would_not_do() -> None:
    """The naive test rejects a third of true nulls or more, so the check can fail."""
    ((_, _, naive, _),) = PAGE.find("`flag`").find("50, equal, 0.4, within groups, none").measure(200)
    assert isinstance(naive, float)
    assert naive > 0.25


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_the_tables_of_the_study(method: str) -> None:
    rejects, _, few = other_methods(np.random.default_rng(1), method, corners()[2])
    assert rejects in (0.0, 1.0)
    assert not few
