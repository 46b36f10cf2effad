from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData, UsageError
from isonomy.likelihood.region import Region
from isonomy.results import Status, Verdict

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


@pytest.mark.parametrize("kwargs", [RATE, LOSS], ids=["binary", "real"])
@pytest.mark.parametrize("method", ["el", "eel"])
def test_a_partition_has_one_statistic_whatever_the_reference(
    lender: dict[str, Any], kwargs: dict[str, Any], method: str
) -> None:
    found = [
        iso.certify(lender, reference=r, method=method, **kwargs)
        for r in ("population", "rest", {"race": "a"}, {"race": "c"})
    ]
    assert {r.df for r in found} == {2}
    assert [r.statistic for r in found] == pytest.approx([found[0].statistic] * 4, rel=1e-7)


def test_race_sex_and_their_cells_have_rank_three_for_two_races(lender: dict[str, Any]) -> None:
    two = {name: values[lender["race"] != "c"] for name, values in lender.items()}
    result = iso.certify(two, **{**RATE, "groups": ["race", "sex"]}, depth=2)
    assert result.df == 3
    cells = two | {"cell": np.char.add(two["race"].astype(str), two["sex"].astype(str))}
    alone = iso.certify(cells, **{**RATE, "groups": "cell"})
    assert result.statistic == pytest.approx(alone.statistic, rel=1e-8)


def test_known_reference_adds_up_disjoint_groups(lender: dict[str, Any]) -> None:
    joint = iso.certify(lender, reference=0.42, **RATE)
    alone = iso.flag(lender, reference=0.42, **RATE)
    assert joint.statistic == pytest.approx(alone.statistic.sum())
    assert joint.df == 3


def test_euclidean_statistic_of_disjoint_groups_is_centred_over_all_rows(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=1.0, method="eel", **LOSS)
    tu = 0.0
    for g in "abc":
        z = lender["loss"][lender["race"] == g] - 1.0
        tu += z.sum() ** 2 / (z**2).sum()
    assert result.statistic == pytest.approx(tu / (1 - tu / 600), rel=1e-10)


@pytest.mark.parametrize("reference", ["population", "rest", {"race": "a"}, 0.42], ids=str)
@pytest.mark.parametrize("method", ["el", "eel"])
def test_the_region_holds_the_estimates_and_not_far_disparities(
    lender: dict[str, Any], reference: Any, method: str
) -> None:
    result = iso.certify(lender, reference=reference, method=method, **RATE)
    tested = ~np.isnan(result.ci_low)
    assert result.contains(result.disparity[tested])
    assert result.contains(dict(zip(np.array(result.labels)[tested], result.disparity[tested], strict=True)))
    assert not result.contains(result.disparity[tested] + np.linspace(-0.3, 0.3, tested.sum()))
    assert result.contains(0.0) == (result.pvalue > result.alpha)


def test_the_quick_path_is_the_general_one(lender: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Disjoint groups with a common shift are solved by one scalar root; the dual must agree."""
    for kwargs in (RATE, LOSS):
        for reference in ("population", {"race": "b"}):
            region = iso.certify(lender, reference=reference, **kwargs).region
            assert region is not None
            null = 0.0 if reference == "population" else 0.05
            quick = region.test(null)
            with monkeypatch.context() as patch:
                patch.setattr(Region, "_common", lambda self, target: False)
                slow = region.test(null)
            assert quick.statistic == pytest.approx(slow.statistic, rel=1e-7)
            assert quick.df == slow.df


def test_verdicts() -> None:
    data = {"race": ["a"] * 4000 + ["b"] * 4000, "selected": [0, 1] * 4000}
    assert iso.certify(data, **RATE).verdict is Verdict.INCONCLUSIVE
    assert iso.certify(data, tolerance=0.05, **RATE).verdict is Verdict.WITHIN_TOLERANCE
    assert iso.certify(data, tolerance=0.005, **RATE).verdict is Verdict.INCONCLUSIVE
    data["selected"] = [1] * 3000 + [0] * 5000
    assert iso.certify(data, tolerance=0.05, **RATE).verdict is Verdict.VIOLATION
    assert iso.certify(data, **RATE).verdict is Verdict.VIOLATION


def test_constraints_that_single_out_too_few_rows_are_left_out() -> None:
    """All but one row of race=b are men: race=b and its men together would pin that single row."""
    race = ["a"] * 100 + ["b"] * 31
    sex = ["f", "m"] * 50 + ["f"] + ["m"] * 30
    selected = [0, 0, 1, 1] * 25 + [1] + [0, 1] * 15
    data = {"race": race, "sex": sex, "selected": selected}
    result = iso.certify(data, **{**RATE, "groups": ["race", "sex"]}, depth=2)
    assert result.joint_status is Status.OK
    assert result.df == 2
    assert any("left out" in w for w in result.warnings)
    strict = iso.certify(data, **{**RATE, "groups": ["race", "sex"]}, depth=2, min_size=1)
    assert strict.df == 3


def test_bartlett_for_several_groups(lender: dict[str, Any]) -> None:
    plain = iso.certify(lender, reference=1.0, **LOSS)
    corrected = iso.certify(lender, reference=1.0, correction="bartlett", **LOSS)
    assert corrected.statistic < plain.statistic
    joint = iso.certify(lender, correction="bartlett", resamples=60, rng=3, **RATE)
    assert joint.statistic == iso.certify(lender, correction="bartlett", resamples=60, rng=3, **RATE).statistic


def test_bad_input(lender: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughData, match="min_size"):
        iso.certify(lender, min_size=1000, **RATE)
    with pytest.raises(UsageError, match="bartlett"):
        iso.certify(lender, correction="adjusted", **RATE)
    result = iso.certify(lender, **RATE)
    with pytest.raises(UsageError, match="one for each of 3"):
        result.contains([0.0, 0.1])
    with pytest.raises(UsageError, match="unknown groups"):
        result.contains({"race=z": 0.0})


def test_overlapping_groups_against_their_rests_are_tested_at_zero_only(lender: dict[str, Any]) -> None:
    kwargs = {**RATE, "groups": ["race", "sex"], "depth": 2}
    rest, population = (iso.certify(lender, reference=r, **kwargs) for r in ("rest", "population"))
    assert rest.statistic == pytest.approx(population.statistic)
    with pytest.raises(UsageError, match="population"):
        rest.contains(0.01)


def test_no_weighting_meets_the_null(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=100.0, **LOSS)
    assert result.joint_status is Status.OUTSIDE_RANGE
    assert result.pvalue == 0.0
    assert result.verdict is Verdict.VIOLATION


def test_round_trip_keeps_the_region_when_it_is_small(lender: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = iso.certify(lender, **RATE)
    again = iso.from_json(result.to_json())
    assert again.contains(0.01) == result.contains(0.01)
    assert again.to_frame().equals(result.to_frame())
    assert result.plot().to_dict()["layer"]
    monkeypatch.setattr("isonomy.likelihood.result.STORED_LINES", 3)
    with pytest.raises(UsageError, match="too many"):
        iso.from_json(result.to_json()).contains(0.0)
