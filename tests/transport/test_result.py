"""The result: round trip, tables, words, pictures, suppression."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import UnknownOption
from isonomy.numerics.status import Status
from isonomy.results.theme import specification, to_svg
from isonomy.transport import Discerning, ProjectionResult


@pytest.fixture(scope="module")
def result() -> ProjectionResult:
    rng = np.random.default_rng(4)
    n = 3_000
    group = rng.choice(["big", "<b>mid</b>", "small"], n, p=[0.7, 0.26, 0.04])
    score = rng.normal(size=n) + 0.4 * (group != "big")
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0, "y": rng.integers(0, 2, n)})
    return iso.project(
        data, outcome="y", prediction="c", groups="g", score="s", threshold=0.0, criterion="equalized_odds"
    )


def test_json_round_trip(result: ProjectionResult) -> None:
    again = iso.from_json(result.to_json())
    assert isinstance(again, ProjectionResult)
    assert again.to_json() == result.to_json()
    assert again.plan.to_frame().equals(result.plan.to_frame())


def test_tables(result: ProjectionResult) -> None:
    frame = result.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == 6
    assert list(frame["status"]).count("reference") == 2
    assert result.to_frame("pandas").shape == frame.shape
    plan = result.plan.to_frame()
    assert plan.columns == ["row", "group", "outcome", "decision", "distance", "fraction", "s from", "s to"]
    assert plan["s to"].to_list() == [0.0] * plan.height
    assert set(plan["decision"]) == {"refused to selected", "selected to refused"}
    up = plan["decision"] == "refused to selected"
    assert (plan["s from"].filter(up) < 0).all()
    assert (plan["s from"].filter(~up) >= 0).all()
    with pytest.raises(UnknownOption, match="backend"):
        result.plan.to_frame("numpy")


def test_what_a_plan_does_not_know_is_empty() -> None:
    """-1 would be taken for the last row, or for an outcome."""
    rng = np.random.default_rng(6)
    score, sex = rng.normal(size=500), rng.choice(["F", "M"], 500)
    data = pl.DataFrame({"sex": sex, "s": score + (sex == "F"), "c": score + (sex == "F") >= 0}).lazy()
    own = Discerning(
        u={"women": iso.col("sex") == "F", "men": iso.col("sex") == "M"},
        phi=lambda u, mean: u[:, 0] / mean[0] - u[:, 1] / mean[1],
        names=("women against men",),
    )
    plan = iso.project(data, prediction="c", score="s", threshold=0.0, criterion=own).plan.to_frame()
    assert plan["row"].null_count() == plan["outcome"].null_count() == plan.height > 0
    assert set(plan["group"]) == {"women=1 & men=0", "women=0 & men=1"}


def test_shares_add_up(result: ProjectionResult) -> None:
    moved = result.moved_up + result.moved_down
    assert result.share_moved == pytest.approx(moved / result.n)
    assert moved.sum() == pytest.approx(result.moved)


def test_words(result: ProjectionResult) -> None:
    said = result.summary()
    for word in ("is selected at a rate of", "flips", "critical value", "would move"):
        assert word in said
    assert not any(word in said.lower() for word in (" is fair", "unbiased", " fixed"))
    assert len(result.assumptions()) >= 3
    assert result.limits()


def pair(shift: float, n: int = 4_000, **options: Any) -> ProjectionResult:
    rng = np.random.default_rng(7)
    group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    score = rng.normal(size=n) + shift * (group == "b")
    data = {"g": group, "s": score, "c": score >= 0}
    return iso.project(
        data, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", **options
    )


def test_without_a_tolerance_no_number_of_rows_settles_it() -> None:
    plain, bounded = pair(0.0), pair(0.0, tolerance=0.001)
    for found in (plain, bounded, pair(0.0, tolerance=0.0)):
        assert found.verdict is iso.Verdict.INCONCLUSIVE
    for found in (plain, pair(0.0, tolerance=0.0)):
        assert "no number of rows can show that groups are equal" in found.summary()
        assert "within tolerance" not in found.headline()
        assert "could not tell" not in found.summary()
    assert "neither a violation nor" in bounded.headline()
    untested = replace(plain, pvalue=float("nan"))
    assert "nothing was tested" in untested.headline()


def test_a_one_sided_tolerance_speaks_of_its_side() -> None:
    below = pair(0.6, tolerance=0.05, tolerance_side="lower")  # b is selected far more often than a, the reference
    assert below.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert below.null == "No group is selected at a rate more than 0.0500 below its reference's."
    said = below.summary()
    assert "less than 0.0500 below its reference's. Differences the other way were not tested" in below.headline()
    assert "equal to within" not in said
    above = pair(0.6, tolerance=0.05, tolerance_side="upper")
    assert above.verdict is iso.Verdict.VIOLATION
    assert "at most 0.0500 above their reference's flips" in above.summary().replace("\n    ", " ")


def test_picture(result: ProjectionResult) -> None:
    chart = specification(result.plot())
    assert len(chart["hconcat"]) == 2
    svg = to_svg(result.plot())
    assert "<b>mid" not in svg  # a label is text, never markup


def test_suppression(result: ProjectionResult) -> None:
    hidden = result.suppressed(80)
    small = result.n < 80
    assert small.any()
    assert np.isnan(hidden.rate[small]).all()
    assert np.isfinite(hidden.rate[~small]).all()
    assert [s is Status.SUPPRESSED for s in hidden.statuses] == small.tolist()
    assert hidden.plan.row.size == 0
    assert result.suppressed(1) is result
    hidden.summary()
    hidden.plot()


def test_a_small_reference_is_not_given_away_by_differences() -> None:
    """A rate minus its difference from the reference is the reference's rate."""
    rng = np.random.default_rng(8)
    group = np.array(["few"] * 20 + ["many"] * 500 + ["more"] * 500)
    score = rng.normal(size=group.size)
    found = iso.project(
        {"g": group, "s": score, "c": score >= 0},
        prediction="c",
        groups="g",
        score="s",
        threshold=0.0,
        criterion="statistical_parity",
        reference={"g": "few"},
    )
    hidden = found.suppressed(30)
    assert np.isfinite(hidden.rate[1:]).all()
    assert np.isnan(hidden.disparity).all()
    assert np.isnan(hidden.ci_low).all()
    assert str(round(float(found.rate[0]), 3)) not in hidden.summary()


def test_a_plan_is_a_table_of_the_callers_library() -> None:
    rng = np.random.default_rng(5)
    group, score = rng.choice(["a", "b"], 500), rng.normal(size=500)
    score += group == "b"
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0})
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "score": "s", "threshold": 0.0}
    found = [
        iso.project(table, criterion="statistical_parity", **roles) for table in (data, data.to_pandas(), data.lazy())
    ]
    assert [type(r.plan.to_frame()).__module__.split(".")[0] for r in found] == ["polars", "pandas", "polars"]
    assert found[1].plan.to_frame("pyarrow").num_rows == found[0].plan.row.size
    assert found[0].to_json() == found[1].to_json()  # the library is no part of what was found
    for wrong in ("numpy", "", 3):
        with pytest.raises(UnknownOption, match="backend"):
            found[0].plan.to_frame(wrong)


def test_the_arrays_of_a_plan_are_read_only(result: ProjectionResult) -> None:
    for name in ("row", "outcome", "decision", "distance", "fraction", "start", "end"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(result.plan, name)[:1] = 0


def own_tuple(scale: float, **options: Any) -> ProjectionResult:
    """A criterion of one's own whose moment is no difference of rates."""
    rng = np.random.default_rng(9)
    age, score = rng.integers(2, 7, 3_000), rng.normal(size=3_000)
    score += 0.1 * (age - 4)
    own = Discerning(
        u={"age": iso.col("age")}, phi=lambda u, mean: scale * (u[:, 0] - mean[0]), names=("age and selection",)
    )
    data = {"age": age, "s": score, "c": score >= 0}
    return iso.project(data, prediction="c", score="s", threshold=0.0, criterion=own, **options)


@pytest.mark.parametrize(
    ("options", "verdict", "headline"),
    [
        ({}, "violation", "the moments of this criterion were shown not to be 0."),
        ({"tolerance": 0.001}, "violation", "were shown not to be within 0.00100 of 0."),
        ({"tolerance": 1.5}, "within_tolerance", "every moment of this criterion was shown to be within 1.50 of 0."),
        (
            {"tolerance": 1.5, "tolerance_side": "lower"},
            "within_tolerance",
            "every moment of this criterion was shown to be at least -1.50.",
        ),
    ],
)
def test_a_tuple_of_ones_own_is_not_called_a_rate(options: dict[str, Any], verdict: str, headline: str) -> None:
    found = own_tuple(1.0, **options)
    assert found.verdict.value == verdict
    assert headline in found.headline()
    said = " ".join((found.headline(), found.null, *found.findings(), *found.warnings))
    assert "rate" not in said
    assert "moments" in said


def test_a_complete_plan_is_not_called_shortened() -> None:
    """Lines that stand for several rows are fewer than the rows that move."""
    rng = np.random.default_rng(3)
    group, score = rng.choice(["a", "b"], 300), rng.normal(size=300)
    score += 0.5 * (group == "b")
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0, "n": np.full(300, 9)})
    found = iso.project(
        data, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", count="n"
    )
    assert found.moved > found.plan.row.size + 1
    assert not any("nearest rows" in w for w in found.warnings)
