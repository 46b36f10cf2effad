"""What the columns of an undescribed table probably mean."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isonomy.audit.guess import Look, guess_groups, guess_roles, look, opposed, recodable, sample, toml
from isonomy.errors import DataError, EmptyFrame, UsageError


def looks(**columns: list[Any]) -> list[Look]:
    """What the columns of a small table look like."""
    return [look(pl.Series(name, values)) for name, values in columns.items()]


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x00\x7f", "é", "😀", "'''", "a\tb"])
def test_toml_strings(text: str) -> None:
    assert tomllib.loads(f"x = {toml(text)}")["x"] == text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False, None], Look("x", "binary", 3, True)),
        ([0, 1, 1], Look("x", "binary", 2, False, 1.0, unit=True)),
        ([0.0, 0.5, 1.0, float("nan")], Look("x", "number", 3, True, 0.5, unit=True)),
        ([1, 2, 3], Look("x", "number", 3, False, 2.0)),
        ([1.0, 1.0], Look("x", "number", 1, False, 1.0, unit=True)),
        ([float("nan")], Look("x", "other", 0, True)),
        (["a", "b", "b"], Look("x", "text", 2, False, pair=("a", "b"))),
        (["Yes", "no ", "YES"], Look("x", "text", 3, False, yes=("YES", "Yes"))),
        (["yes", "no", "maybe"], Look("x", "text", 3, False)),
        ([[1], [2]], Look("x", "other", 0, False)),
    ],
    ids=str,
)
def test_what_a_column_looks_like(values: list[Any], expected: Look) -> None:
    assert look(pl.Series("x", values)) == expected


def test_categories_look_like_text() -> None:
    for dtype in (pl.Categorical, pl.Enum(["a", "b"])):
        assert look(pl.Series("x", ["a", "b"], dtype=dtype)) == Look("x", "text", 2, False, pair=("a", "b"))


def test_a_role_needs_a_telling_name_and_a_fitting_type() -> None:
    scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    columns = looks(y=[0, 1] * 3, approved=[1, 0] * 3, risk_score=scores, outcome=["a", "b"] * 3)
    assert guess_roles(columns) == {"outcome": "y", "prediction": "approved", "score": "risk_score"}


def test_the_more_telling_name_wins() -> None:
    assert guess_roles(looks(pass_fail=[0, 1], label=[1, 0]))["outcome"] == "label"
    assert guess_roles(looks(Was_Approved=[0, 1], other=[0, 1]))["prediction"] == "Was_Approved"


def test_an_experiment_needs_predicted_effects_and_a_count_is_not_guessed() -> None:
    assert guess_roles(looks(treatment=[0, 1], count=[5, 6])) == {}
    roles = guess_roles(looks(treatment=[0, 1, 0], uplift=[0.1, 0.2, 0.3]))
    assert roles == {"treatment": "treatment", "effect": "uplift"}


def test_groups_are_named_cut_or_the_few_levels_there_are() -> None:
    assert guess_groups(looks(sex=["f", "m"], race=["a", "b"], x=["p", "q"]), {}) == ['"race"', '"sex"']
    assert guess_groups(looks(age=list(range(30))), {}) == ['{column = "age", edges = [25, 45, 65]}']
    assert guess_groups(looks(city=["p", "q"], x=[0.1, 0.2]), {}) == ['"city"', '"x"']
    assert guess_groups(looks(x=[float(i) for i in range(30)]), {}) == ['{column = "x", edges = [14.5]}']
    with pytest.raises(UsageError, match="no column looks like groups"):
        guess_groups(looks(only=["a", "a"]), {})


def test_a_column_with_a_role_is_no_group() -> None:
    assert guess_groups(looks(race=["a", "b"], female=[0, 1]), {"prediction": "race"}) == ['"female"']


def test_text_that_should_be_0_and_1() -> None:
    columns = looks(approved=["yes", "no"], offer=["letter", "none"], city=["p", "q"], sex=["f", "m"])
    assert [column.name for column in recodable(columns, {}, ['"sex"'])] == ["approved", "offer"]
    assert recodable(columns, {"outcome": "approved", "treatment": "offer"}, []) == []


@pytest.mark.parametrize(
    ("outcome", "prediction", "expected"),
    [("default", "approved", True), ("repaid", "approved", False), ("default", "flagged", False)],
)
def test_outcomes_and_decisions_that_mean_opposite_things(outcome: str, prediction: str, expected: bool) -> None:
    assert opposed({"outcome": outcome, "prediction": prediction}) is expected
    assert not opposed({})


def test_a_sample_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,x\n2,y\n")
    assert sample(tmp_path / "d.csv").rows() == [(1, "x"), (2, "y")]
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(EmptyFrame, match="has no rows"):
        sample(tmp_path / "empty.csv")
    (tmp_path / "semicolons.csv").write_text("a;b\n1;x\n")
    with pytest.raises(DataError, match="separated by ';'"):
        sample(tmp_path / "semicolons.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")
    with pytest.raises((UsageError, DataError)):
        sample(tmp_path / "broken.parquet")
