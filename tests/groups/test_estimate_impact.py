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
    for column in ("n", "estimate", "disparity", "ci_low", "pvalue", "shortfall"):
        assert ours[column].to_list() == theirs[column].to_list()[::-1]


def test_copies_of_people_in_clusters_say_nothing_new() -> None:
    data = {**hires(), "id": np.arange(3_000)}
    copies = {name: np.repeat(column, 3) for name, column in data.items()}
    options: dict[str, Any] = {"prediction": "hired", "groups": "race"}
    plain, clustered = iso.adverse_impact(data, **options), iso.adverse_impact(copies, **options, cluster="id")
    assert clustered.n.tolist() == (3 * plain.n).tolist()
    assert clustered.disparity == pytest.approx(plain.disparity)
    assert clustered.ci_low == pytest.approx(plain.ci_low, abs=2e-3)
    assert clustered.ci_high == pytest.approx(plain.ci_high, abs=2e-3)
    weighted = iso.adverse_impact({**data, "w": np.full(3_000, 0.5)}, **options, weight="w")
    assert weighted.ci_low == pytest.approx(plain.ci_low, abs=2e-3)


def test_weights_make_the_rates() -> None:
    data = {**hires(), "w": np.where(hires()["hired"] == 1, 2.0, 1.0)}
    result = iso.adverse_impact(data, prediction="hired", score="score", groups="sex", weight="w", rng=0)
    women = data["sex"] == "f"
    assert result.estimate[0] == pytest.approx(np.average(data["hired"][women], weights=data["w"][women]))
    assert result.selected[0] == data["hired"][women].sum()
    assert np.isnan(result.cutoff_low).all()
    assert result.warnings == ()  # a chart without a band says so in its title


def test_few_clusters_are_listed_and_not_compared() -> None:
    data = {**hires(), "branch": np.arange(3_000) % 5}
    result = iso.adverse_impact(data, prediction="hired", groups="race", cluster="branch")
    assert {status.value for status in result.status} == {"few_clusters"}
    assert not result.answered


def test_shortfalls_count_the_people_that_rows_stand_for() -> None:
    """Of 100 rows, 80 % and 40 % selected: 64 % is needed, 24 rows more; at 0.5 people a row in b, 12 people."""
    table = {"g": ["a"] * 100 + ["b"] * 100, "p": [1] * 80 + [0] * 20 + [1] * 40 + [0] * 60}
    plain = iso.adverse_impact(table, prediction="p", groups="g")
    assert plain.shortfall.tolist() == [0, 24]
    assert plain.shortfall_parity.tolist() == [0, 40]
    assert plain.weighted_n is plain.weighted_selected is None
    weights = np.r_[np.full(100, 20.0), np.full(100, 0.5)]
    result = iso.adverse_impact(table | {"w": weights}, prediction="p", groups="g", weight="w")
    assert result.n.tolist() == [100, 100]
    assert result.selected.tolist() == [80, 40]
    assert result.weighted_n == pytest.approx([2_000, 50])
    assert result.weighted_selected == pytest.approx([1_600, 20])
    assert result.shortfall.tolist() == [0, 12]
    assert result.shortfall_parity.tolist() == [0, 20]


def test_weighted_counts_and_shortfalls_add_up() -> None:
    data = {**hires(), "w": np.random.default_rng(3).uniform(50, 250, 3_000).round()}
    result = iso.adverse_impact(data, prediction="hired", groups="race", weight="w")
    assert result.weighted_n is not None
    assert result.weighted_selected is not None
    best = float(result.estimate.max())
    for i, race in enumerate("abc"):
        own = data["race"] == race
        assert result.weighted_n[i] == pytest.approx(data["w"][own].sum())
        assert result.weighted_selected[i] == pytest.approx((data["w"] * data["hired"])[own].sum())
        assert result.estimate[i] == pytest.approx(result.weighted_selected[i] / result.weighted_n[i])
        for share, needed in ((0.8, result.shortfall[i]), (1.0, result.shortfall_parity[i])):
            reached = (result.weighted_selected[i] + needed) / result.weighted_n[i]
            assert reached >= share * best - 1e-12
            assert not needed or (result.weighted_selected[i] + needed - 1) / result.weighted_n[i] < share * best


def test_weights_that_cannot_count_people_are_scaled_to_the_rows() -> None:
    data = {**hires(), "w": np.random.default_rng(3).uniform(50, 250, 3_000)}
    shares = data | {"w": data["w"] / data["w"].sum()}
    ones = data | {"w": data["w"] / data["w"].mean()}
    one, other = (iso.adverse_impact(table, prediction="hired", groups="race", weight="w") for table in (shares, ones))
    assert one.weighted_n == pytest.approx(other.weighted_n)
    assert float(np.sum(one.weighted_n)) == pytest.approx(3_000)
    assert one.shortfall.tolist() == other.shortfall.tolist()


def test_unknown_categories_are_counted_in_rows() -> None:
    data = {**hires(), "w": np.full(3_000, 7.0)}
    data["race"] = np.array([None] * 40 + list(data["race"][40:]), dtype=object)
    result = iso.adverse_impact(
        data | {"w": np.r_[np.full(40, 70.0), np.full(2_960, 7.0)]},
        prediction="hired",
        groups="race",
        weight="w",
        missing_group="level",
    )
    assert result.unknown == {"race": 40}
    assert "unknown for 40 of 3,000 rows" in result.warnings[0]
