"""Tables beside one another, each with its own comparator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from support.hires import hires


def test_a_table_does_not_depend_on_the_others() -> None:
    both = iso.adverse_impact(hires(), prediction="hired", groups=["race", "sex"], adjust="none").to_frame()
    alone = iso.adverse_impact(hires(), prediction="hired", groups="sex", adjust="none").to_frame()
    assert both[3:].equals(alone)


def test_relabelling_and_permuting_change_nothing() -> None:
    data = hires()
    order = np.random.default_rng(0).permutation(3_000)
    named = {"a": "z", "b": "y", "c": "x"}
    other = {name: column[order] for name, column in data.items()}
    other["race"] = np.array([named[value] for value in other["race"]])
    ours, theirs = (iso.adverse_impact(table, prediction="hired", groups="race").to_frame() for table in (data, other))
    for column in ("n", "rate", "impact_ratio", "ci_low", "pvalue", "shortfall"):
        assert ours[column].to_list() == theirs[column].to_list()[::-1]


def test_copies_of_people_in_clusters_say_nothing_new() -> None:
    data = {**hires(), "id": np.arange(3_000)}
    copies = {name: np.repeat(column, 3) for name, column in data.items()}
    options: dict[str, Any] = {"prediction": "hired", "groups": "race"}
    plain, clustered = iso.adverse_impact(data, **options), iso.adverse_impact(copies, **options, cluster="id")
    assert clustered.n.tolist() == (3 * plain.n).tolist()
    assert clustered.impact_ratio == pytest.approx(plain.impact_ratio)
    assert clustered.ci_low == pytest.approx(plain.ci_low, abs=2e-3)
    assert clustered.ci_high == pytest.approx(plain.ci_high, abs=2e-3)
    weighted = iso.adverse_impact({**data, "w": np.full(3_000, 0.5)}, **options, weight="w")
    assert weighted.ci_low == pytest.approx(plain.ci_low, abs=2e-3)


def test_weights_make_the_rates() -> None:
    data = {**hires(), "w": np.where(hires()["hired"] == 1, 2.0, 1.0)}
    result = iso.adverse_impact(data, prediction="hired", score="score", groups="sex", weight="w", rng=0)
    women = data["sex"] == "f"
    assert result.rate[0] == pytest.approx(np.average(data["hired"][women], weights=data["w"][women]))
    assert result.selected[0] == data["hired"][women].sum()
    assert np.isnan(result.cutoff_low).all()
    assert result.warnings == ()  # a chart without a band says so in its title


def test_few_clusters_are_listed_and_not_compared() -> None:
    data = {**hires(), "branch": np.arange(3_000) % 5}
    result = iso.adverse_impact(data, prediction="hired", groups="race", cluster="branch")
    assert {status.value for status in result.status} == {"few_clusters"}
    assert not result.answered


def test_shortfalls_are_rows_whatever_they_weigh() -> None:
    table = {"g": ["a"] * 100 + ["b"] * 100, "p": [1] * 80 + [0] * 20 + [1] * 40 + [0] * 60}
    for weights in (None, [2.0] * 100 + [0.2] * 100):
        given = None if weights is None else "w"
        result = iso.adverse_impact(table | {"w": weights or [1.0] * 200}, prediction="p", groups="g", weight=given)
        assert result.shortfall.tolist() == [0, 24]
        assert result.shortfall_parity.tolist() == [0, 40]
