"""Adverse impact through the public call: the table, its three facts, engines and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import IsonomyError, MissingGroups, UsageError
from isonomy.results import Status
from support.engines import ENGINES
from support.hires import hires


def test_the_columns_are_those_of_every_table() -> None:
    result = iso.adverse_impact(hires(), prediction="hired", groups=["race", "sex"], depth=2)
    frame = result.to_frame()
    assert frame.columns[:13] == [
        *("table", "group", "against", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "pvalue"),
        *("adjusted_pvalue", "verdict", "status"),
    ]
    assert frame["table"].unique(maintain_order=True).to_list() == ["race", "sex", "race & sex"]
    assert (frame.group_by("table").agg(iso_max=frame["disparity"].max())["iso_max"] == 1.0).all()


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
    with pytest.raises(UsageError, match=r"reference: each table has its own"):
        iso.adverse_impact(hires(), **options, reference={"race": "c"})
    with pytest.raises(UsageError, match=r"no row of the table 'race' has race=C"):
        iso.adverse_impact(hires(), **options, reference={"race": "C", "sex": "m"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 80}, "threshold: 80 is not allowed; give a number strictly between 0 and 1"),
        ({"smallest_share": 2}, "smallest_share: 2 is not allowed"),
        ({"reference": "best"}, "reference"),
        ({"prediction": None}, "prediction: decisions or scores are needed"),
        ({"prediction": "score"}, "prediction"),
        ({"groups": "rase"}, "groups"),
    ],
)
def test_bad_input_is_refused_in_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(IsonomyError, match=message):
        iso.adverse_impact(hires(), **{"prediction": "hired", "groups": "race", **options})


def test_nobody_selected_and_one_category() -> None:
    data = hires()
    nobody = iso.adverse_impact({**data, "hired": np.zeros(3_000, dtype=int)}, prediction="hired", groups="race")
    assert set(nobody.status) == {Status.ZERO_BASELINE}
    assert not nobody.answered
    one = iso.adverse_impact({**data, "race": ["a"] * 3_000}, prediction="hired", groups="race")
    assert not one.answered
    assert any("Fewer than two" in sentence for sentence in one.warnings)


@pytest.mark.parametrize("engine", ["pandas", "polars-lazy", "duckdb"])
def test_engines_agree(engine: str) -> None:
    data = hires()
    options: dict[str, Any] = {"prediction": "hired", "score": "score", "groups": ["race", "sex"], "rng": 1}
    if engine in ENGINES:
        ours, theirs = (iso.adverse_impact(t, **options).to_frame("polars") for t in (data, ENGINES[engine](data)))
        assert ours.equals(theirs)


def test_counts_are_rows() -> None:
    data = hires(rows=200)
    double = {name: np.repeat(column, 2) for name, column in data.items()}
    counted = iso.adverse_impact({**data, "k": np.full(200, 2)}, score="score", groups="sex", count="k", rng=0)
    assert counted.to_frame().equals(iso.adverse_impact(double, score="score", groups="sex", rng=0).to_frame())
