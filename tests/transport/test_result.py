"""The result: round trip, tables, suppression, and that no row of anybody is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import UnknownOption
from isonomy.numerics.status import Status
from isonomy.results.theme import specification
from isonomy.transport import Discerning, ProjectionResult
from support.movement import listed


def test_json_round_trip(result: ProjectionResult) -> None:
    again = iso.from_json(result.to_json())
    assert isinstance(again, ProjectionResult)
    assert again.to_json() == result.to_json()
    assert again.plan is None
    assert again.to_frame().equals(result.to_frame().drop("reach"))  # one person's distance is not stored
    again.plot()


def test_rows_are_stored_only_on_request(result: ProjectionResult) -> None:
    stored = json.loads(result.to_json())["result"]
    assert stored["listing"] is None
    with_rows = iso.from_json(result.to_json(rows=True))
    assert listed(with_rows).to_frame().equals(listed(result).to_frame())
    assert with_rows.to_json() == result.to_json()


def test_no_row_is_shown(result: ProjectionResult) -> None:
    """Words, tables and pictures are the same without the rows."""
    without = replace(result, listing=None)
    assert without.summary() == result.summary()
    assert without.to_frame().equals(result.to_frame())
    assert specification(without.plot()) == specification(result.plot())


def test_tables(result: ProjectionResult) -> None:
    frame = result.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == 6
    assert list(frame["status"]).count("reference") == 2
    assert result.to_frame("pandas").shape == frame.shape
    plan = listed(result).to_frame()
    assert plan.columns == ["row", "group", "outcome", "decision", "distance", "fraction", "s from", "s to"]
    assert plan["s to"].to_list() == [0.0] * plan.height
    assert set(plan["decision"]) == {"refused to selected", "selected to refused"}
    up = plan["decision"] == "refused to selected"
    assert (plan["s from"].filter(up) < 0).all()
    assert (plan["s from"].filter(~up) >= 0).all()
    with pytest.raises(UnknownOption, match="backend"):
        listed(result).to_frame("numpy")


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
    plan = listed(iso.project(data, prediction="c", score="s", threshold=0.0, criterion=own)).to_frame()
    assert plan["row"].null_count() == plan["outcome"].null_count() == plan.height > 0
    assert set(plan["group"]) == {"women=1 & men=0", "women=0 & men=1"}


def test_shares_add_up(result: ProjectionResult) -> None:
    moved = result.moved_up + result.moved_down
    assert result.share_moved == pytest.approx(moved / result.n)
    assert moved.sum() == pytest.approx(result.moved)


def test_suppression(result: ProjectionResult) -> None:
    hidden = result.suppressed(80)
    small = result.n < 80
    assert small.any()
    withheld = np.isnan(hidden.rate)
    assert withheld[small].all()
    groups = np.array(result.group)
    assert (withheld == np.isin(groups, groups[withheld])).all()  # with one outcome also with the other
    assert len(set(groups[withheld])) > 1  # one alone would follow from everybody
    assert [s is Status.SUPPRESSED for s in hidden.statuses] == withheld.tolist()
    assert hidden.plan is None
    assert result.suppressed(1).plan is None
    assert result.suppressed(1).to_json() == result.to_json()
    hidden.summary()
    hidden.plot()


def test_a_small_reference_is_not_given_away_by_differences() -> None:
    """A rate minus its difference from the reference is the reference's rate."""
    rng = np.random.default_rng(8)
    group = np.array(["few"] * 20 + ["many"] * 500 + ["more"] * 500)
    score = rng.normal(size=group.size)
    answer = iso.project(
        {"g": group, "s": score, "c": score >= 0},
        prediction="c",
        groups="g",
        score="s",
        threshold=0.0,
        criterion="statistical_parity",
        reference={"g": "few"},
    )
    hidden = answer.suppressed(30)
    assert np.isfinite(hidden.rate).tolist() == [False, False, True]  # "few" alone would follow from everybody
    assert np.isnan(hidden.disparity).all()
    assert np.isnan(hidden.ci_low).all()
    assert str(round(float(answer.rate[0]), 3)) not in hidden.summary()


def test_a_plan_is_a_table_of_the_callers_library() -> None:
    rng = np.random.default_rng(5)
    group, score = rng.choice(["a", "b"], 500), rng.normal(size=500)
    score += group == "b"
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0})
    roles: dict[str, Any] = {"prediction": "c", "groups": "g", "score": "s", "threshold": 0.0}
    answer = [
        iso.project(table, criterion="statistical_parity", **roles) for table in (data, data.to_pandas(), data.lazy())
    ]
    assert [type(listed(r).to_frame()).__module__.split(".")[0] for r in answer] == ["polars", "pandas", "polars"]
    assert listed(answer[1]).to_frame("pyarrow").num_rows == listed(answer[0]).row.size
    assert answer[0].to_json(rows=True) == answer[1].to_json(rows=True)
    assert answer[0].to_json() == answer[1].to_json()  # the library is no part of what was found
    for wrong in ("numpy", "", 3):
        with pytest.raises(UnknownOption, match="backend"):
            listed(answer[0]).to_frame(wrong)  # type: ignore[arg-type]


def test_the_arrays_of_a_plan_are_read_only(result: ProjectionResult) -> None:
    for name in ("row", "outcome", "decision", "distance", "fraction", "start", "end"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(listed(result), name)[:1] = 0


def test_a_complete_plan_is_not_called_shortened() -> None:
    """Lines that stand for several rows are fewer than the rows that move."""
    rng = np.random.default_rng(3)
    group, score = rng.choice(["a", "b"], 300), rng.normal(size=300)
    score += 0.5 * (group == "b")
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0, "n": np.full(300, 9)})
    answer = iso.project(
        data, prediction="c", groups="g", score="s", threshold=0.0, criterion="statistical_parity", count="n"
    )
    assert answer.moved > listed(answer).row.size + 1
    assert listed(answer).complete


def test_selection_has_the_readers_words() -> None:
    table = {
        "g": ["a", "b"] * 100,
        "ok": [1, 1, 0, 0, 1, 0, 1, 0] * 25,
        "s": [0.9, 0.8, 0.2, 0.1, 0.7, 0.3, 0.6, 0.4] * 25,
    }
    for label, word in (("approved", "approved"), ("approval rate", "selected")):
        source = iso.open_source(table, labels=iso.Labels(metrics={"selection_rate": label}))
        told = iso.project(source, prediction="ok", groups="g", criterion="statistical_parity", score="s", rng=0)
        assert f" % {word} " in told.findings()[0]
        assert iso.from_json(told.to_json()).findings() == told.findings()
