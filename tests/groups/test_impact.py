"""Adverse impact through the public call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import MissingGroups, UsageError
from isonomy.inference import Verdict
from isonomy.results import Status
from support.hires import hires


def test_one_hand_computed_table() -> None:
    data = {"hired": [1] * 48 + [0] * 32 + [1] * 12 + [0] * 28, "sex": ["m"] * 80 + ["f"] * 40}
    row = iso.adverse_impact(data, prediction="hired", groups="sex").to_frame().row(0, named=True)
    assert (row["n"], row["selected"], row["estimate"], row["disparity"]) == (40, 12, 0.3, 0.5)
    assert (row["difference"], row["shortfall"], row["shortfall_parity"]) == (pytest.approx(-0.3), 8, 12)
    flag = iso.flag(data, metric="selection_rate", prediction="hired", groups="sex", reference={"sex": "m"})
    assert row["pvalue"] == pytest.approx(float(flag.pvalue[0]), rel=1e-9)  # the same likelihood


def test_three_facts_are_kept_apart() -> None:
    """Ratios of 0.7 from few rows: observed below, not shown; of 0.9 from many: shown to differ, not below."""
    few = {"p": [1] * 14 + [0] * 26 + [1] * 20 + [0] * 20, "g": ["x"] * 40 + ["y"] * 40}
    low = iso.adverse_impact(few, prediction="p", groups="g")
    assert (low.below_threshold[0], low.difference_shown[0], low.verdicts[0].value) == (True, False, "inconclusive")
    many = {"p": np.tile([1, 1, 0, 1, 0, 1, 0, 1, 1, 1], 1_000), "g": np.repeat(["x", "y"], 5_000)}
    many["p"] = (np.arange(10_000) % 100 < np.where(many["g"] == "x", 54, 60)).astype(int)
    high = iso.adverse_impact(many, prediction="p", groups="g")
    assert (high.below_threshold[0], high.difference_shown[0], high.verdicts[0].value) == (
        False,
        True,
        "within_tolerance",
    )


def test_scores_count_above_the_median_and_ties_do_not() -> None:
    data = {"score": [1, 2, 2, 2, 3, 3, 1, 1, 2, 3] * 5, "g": ["x", "y"] * 25}
    result = iso.adverse_impact(data, score="score", groups="g")
    assert result.median == 2.0
    assert result.selected.sum() == 15
    scored = iso.adverse_impact(hires(), score="score", groups="race", rng=3)
    assert scored.cutoff_ratio.shape == (scored.cutoffs.size, 3)
    known = ~np.isnan(scored.cutoff_low)
    assert known.mean() > 0.9
    assert (scored.cutoff_low[known] <= scored.cutoff_ratio[known]).all()
    assert "median of all scores" in " ".join(scored.findings())


def test_unknown_categories_are_counted_and_bound_the_ratio() -> None:
    data = hires()
    data["race"] = [None if i % 30 == 0 else value for i, value in enumerate(data["race"])]
    with pytest.raises(MissingGroups):
        iso.adverse_impact(data, prediction="hired", groups="race")
    result = iso.adverse_impact(data, prediction="hired", groups=["race", "sex"], missing_group="level")
    assert result.unknown == {"race": 100, "sex": 0}
    race = np.array([table == "race" for table in result.tables])
    assert (result.bound_low[race] < result.disparity[race] + 1e-12).all()
    assert np.isnan(result.bound_low[~race]).all()
    assert "If unknown categories were known" in result.pages()


def test_small_categories_are_listed_without_a_ratio() -> None:
    data = hires()
    data["race"] = np.where(np.arange(3_000) < 40, "rare", data["race"])
    result = iso.adverse_impact(data, prediction="hired", groups="race", smallest_share=0.02)
    place = list(result.labels).index("race=rare")
    assert result.status[place] is Status.TOO_SMALL
    assert np.isnan(result.disparity[place])
    assert result.n[place] == 40
    assert not np.isnan(result.estimate[place])
    assert not np.isnan(iso.adverse_impact(data, prediction="hired", groups="race").disparity[place])


def test_a_named_comparator_in_every_table() -> None:
    options: dict[str, Any] = {"prediction": "hired", "groups": ["race", "sex"]}
    result = iso.adverse_impact(hires(), **options, depth=2, reference={"race": "c", "sex": "m"})
    assert set(result.against) == {"race=c", "sex=m", "race=c & sex=m"}
    flag = iso.flag(hires(), metric="selection_rate", prediction="hired", groups="race", reference={"race": "c"})
    assert result.pvalue[1] == pytest.approx(float(flag.pvalue[1]), rel=1e-8)
    with pytest.raises(UsageError, match=r"reference: every column, .* None is given for|not among the groups"):
        iso.adverse_impact(hires(), **options, reference={"race": "c"})
    with pytest.raises(UsageError, match=r"no row of the table 'race' has race=C"):
        iso.adverse_impact(hires(), **options, reference={"race": "C", "sex": "m"})


def test_nobody_selected_and_one_category() -> None:
    data = hires()
    nobody = iso.adverse_impact({**data, "hired": np.zeros(3_000, dtype=int)}, prediction="hired", groups="race")
    assert set(nobody.status) == {Status.ZERO_BASELINE}
    assert not nobody.answered
    one = iso.adverse_impact({**data, "race": ["a"] * 3_000}, prediction="hired", groups="race")
    assert not one.answered
    assert any("Fewer than two" in sentence for sentence in one.warnings)


def test_counts_are_rows() -> None:
    data = hires(rows=200)
    double = {name: np.repeat(column, 2) for name, column in data.items()}
    counted = iso.adverse_impact({**data, "k": np.full(200, 2)}, score="score", groups="sex", count="k", rng=0)
    assert counted.to_frame().equals(iso.adverse_impact(double, score="score", groups="sex", rng=0).to_frame())


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


def test_p_values_are_adjusted_over_all_tables() -> None:
    options = {"prediction": "hired", "groups": ["race", "sex"]}
    holm, none = (iso.adverse_impact(hires(), **options, adjust=how) for how in ("holm", "none"))  # type: ignore[arg-type]
    place = list(holm.labels).index("race=b")
    assert holm.adjusted_pvalue[place] == 3 * none.adjusted_pvalue[place]
    assert holm.verdicts[place] is Verdict.VIOLATION
    assert holm.verdict is Verdict.VIOLATION


def test_equal_rates_in_many_rows_are_shown_to_reach_the_threshold() -> None:
    data = {"p": [0, 1] * 4_000, "g": ["x", "x", "y", "y"] * 2_000}
    assert iso.adverse_impact(data, prediction="p", groups="g").verdict is Verdict.WITHIN_TOLERANCE


@pytest.mark.parametrize("reference", ["highest", {"race": "a"}])
def test_one_category_left_is_compared_with_nothing(reference: Any) -> None:
    alone = iso.adverse_impact(hires(), prediction="hired", groups="race", min_size=1_000, reference=reference)
    assert alone.status == (Status.REFERENCE, Status.TOO_SMALL, Status.TOO_SMALL)
    assert not alone.answered
    assert alone.headline().startswith("Not answered: only one group has enough rows, which leaves nothing to compare")
    assert alone.findings() == ()
    both = iso.adverse_impact(hires(), prediction="hired", groups=["race", "sex"], min_size=1_000, reference="highest")
    assert both.answered
    assert both.status[0] is Status.REFERENCE
    assert "Fewer than two categories can be compared in the table race." in both.warnings


def result() -> iso.AdverseImpactResult:
    return iso.adverse_impact(hires(), prediction="hired", score="score", groups=["race", "sex"], rng=0)


def test_the_published_table_is_the_first_page() -> None:
    pages = result().pages()
    first = next(iter(pages.values()))
    names = ["table", "group", "n", "selected", "estimate", "disparity", "ci_low", "ci_high", "against", "difference"]
    assert list(first) == names
    assert list(pages)[-1] == "Shortfalls"


def test_weights_have_columns_of_their_own() -> None:
    data = {**hires(), "w": np.where(hires()["hired"] == 1, 30.0, 10.0)}
    weighted = iso.adverse_impact(data, prediction="hired", groups="race", weight="w")
    people = ["weighted_n", "weighted_selected"]
    assert set(people) <= set(weighted.to_frame().columns)
    assert not set(people) & set(result().to_frame().columns)
    pages = weighted.pages()
    assert list(pages["Rates and impact ratios"])[2:7] == ["n", "selected", *people, "estimate"]
    assert list(pages["Shortfalls"])[2:] == [*people, "shortfall", "shortfall_parity"]
    assert weighted.headings()["selected"] == "Rows selected"
    assert iso.from_json(weighted.to_json()).findings() == weighted.findings()
    hidden = weighted.suppressed(1_000)
    small = np.array([status is Status.SUPPRESSED for status in hidden.status])
    assert small.any()
    assert hidden.weighted_n is not None
    assert hidden.weighted_selected is not None
    assert np.isnan(hidden.weighted_n[small]).all()
    assert np.isnan(hidden.weighted_selected[small]).all()


def test_small_categories_are_withheld() -> None:
    hidden = result().suppressed(700)
    small = np.array([status is Status.SUPPRESSED for status in hidden.status])
    assert small.any()
    assert np.isnan(hidden.selected[small]).all()
    assert np.isnan(hidden.cutoff_ratio[:, small]).all()
    for page in hidden.pages().values():
        assert set(list(page["group"])[-int(small.sum()) :]) == {hidden.labels[i] for i in np.flatnonzero(small)}


def test_a_table_without_categories_withholds_nothing() -> None:
    unknown = {"p": [1, 0, 1], "g": [None, None, None]}
    published = iso.adverse_impact(unknown, prediction="p", groups="g", missing_group="level").published(5)
    assert published.to_frame().is_empty()


def test_the_axis_has_ticks_that_people_read_within_the_intervals() -> None:
    result = iso.adverse_impact(hires(), prediction="hired", groups="race")
    chart = result.plot().to_dict()
    ticks = [layer["encoding"]["x"]["axis"]["values"] for layer in chart["layer"] if "axis" in layer["encoding"]["x"]]
    assert ticks
    low, high = np.nanmin(result.ci_low), np.nanmax(result.ci_high)
    for values in ticks:
        assert {0.5, 0.8, 1} <= set(values)
        assert all(round(value, 2) == value for value in values)
        assert all(low / 1.5 <= value <= high * 1.5 for value in values)


def test_nothing_is_said_about_a_withheld_category() -> None:
    data = {"g": ["a"] * 60 + ["b"] * 60 + ["c"] * 5, "p": [0, 1] * 62 + [1]}
    table = iso.adverse_impact(data, prediction="p", groups="g").published(10).to_frame()
    assert table["status"].to_list() == ["reference", "suppressed", "suppressed"]
    for column in ("below_threshold", "difference_shown"):
        assert table[column].to_list() == [False, None, None]


def test_the_band_needs_refusals_as_well_as_selections() -> None:
    rng = np.random.default_rng(2)
    table = {"g": np.repeat(["a", "b"], [500, 40]), "x": rng.normal(size=540)}
    result = iso.adverse_impact(table, score="x", groups="g", reference={"g": "a"}, rng=0)
    small = np.array([table["x"][500:] > cutoff for cutoff in result.cutoffs]).sum(axis=1)
    known = ~np.isnan(result.cutoff_low[:, 1])
    assert np.array_equal(known, (small >= 10) & (small <= 30))
    assert (~np.isnan(result.cutoff_ratio[:, 1])).sum() > known.sum()


def test_weights_of_one_and_two_leave_a_low_ratio_to_be_shown() -> None:
    table = {"g": np.repeat(["a", "b"], [60, 40]), "d": np.repeat([1, 0, 1, 0], [40, 20, 6, 34]), "w": [1, 2] * 50}
    readings: tuple[dict[str, Any], ...] = ({}, {"weight": "w"})
    plain, weighted = (
        iso.adverse_impact(table, prediction="d", groups="g", reference={"g": "a"}, **options) for options in readings
    )
    assert plain.verdicts[1] is weighted.verdicts[1] is Verdict.VIOLATION
    assert plain.below_pvalue[1] < weighted.below_pvalue[1] < 0.01
    # Weights that are all equal cost nothing but Student's t.
    equal = iso.adverse_impact(table | {"w": [2] * 100}, prediction="d", groups="g", reference={"g": "a"}, weight="w")
    assert plain.below_pvalue[1] < equal.below_pvalue[1] < weighted.below_pvalue[1]
