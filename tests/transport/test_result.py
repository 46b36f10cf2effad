"""The result: round trip, tables, words, pictures, suppression."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.numerics.status import Status
from isonomy.results.theme import specification, to_svg
from isonomy.transport import ProjectionResult


@pytest.fixture(scope="module")
def result() -> ProjectionResult:
    rng = np.random.default_rng(4)
    n = 3_000
    group = rng.choice(["big", "<b>mid</b>", "small"], n, p=[0.7, 0.29, 0.01])
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


def test_picture(result: ProjectionResult) -> None:
    chart = specification(result.plot())
    assert len(chart["hconcat"]) == 2
    svg = to_svg(result.plot())
    assert "<b>mid" not in svg  # a label is text, never markup


def test_suppression(result: ProjectionResult) -> None:
    hidden = result.suppressed(30)
    small = result.n < 30
    assert small.any()
    assert np.isnan(hidden.rate[small]).all()
    assert np.isfinite(hidden.rate[~small]).all()
    assert [s is Status.SUPPRESSED for s in hidden.statuses] == small.tolist()
    assert hidden.plan.row.size == 0
    assert result.suppressed(1) is result
    hidden.summary()
    hidden.plot()
