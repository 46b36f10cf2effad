"""Guesses of the roles of the columns of a table."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isonomy.audit.starter import Guess, GuessedRole, find_known, guess, sample, toml
from isonomy.errors import DataError, EmptyFrame, UsageError
from isonomy.frames.profile import profile


def guessed(**columns: list[Any]) -> Guess:
    """The guessed roles of the columns of a small table."""
    return guess(tuple(profile(pl.Series(name, values)) for name, values in columns.items()))


@pytest.mark.parametrize("text", ['"', "\\", "\n", "\x00\x7f", "é", "😀", "'''", "a\tb"])
def test_toml_strings(text: str) -> None:
    assert tomllib.loads(f"x = {toml(text)}")["x"] == text


def test_a_role_needs_a_telling_name_and_a_fitting_type() -> None:
    scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    found = guessed(y=[0, 1] * 3, approved=[1, 0] * 3, risk_score=scores, outcome=[["a"], ["b"]] * 3)
    assert found.roles == {
        "outcome": GuessedRole("y"),
        "prediction": GuessedRole("approved"),
        "score": GuessedRole("risk_score"),
    }


def test_the_more_telling_name_wins() -> None:
    assert guessed(pass_fail=[0, 1], label=[1, 0]).roles["outcome"] == GuessedRole("label")
    assert guessed(Was_Approved=[0, 1], other=[0, 1]).roles["prediction"] == GuessedRole("Was_Approved")
    assert guessed(loanApproved=[0, 1]).roles["prediction"] == GuessedRole("loanApproved")


@pytest.mark.parametrize(
    ("values", "equals"),
    [
        (["yes", "no"], "yes"),
        (["N", "Y"], "Y"),
        ([" Yes", "No"], " Yes"),
        (["denied", "approved"], "approved"),
        (["rejected", "hired"], "hired"),
        ([2, 1], 1.0),
        ([True, False], None),
    ],
)
def test_what_says_yes_is_1(values: list[Any], equals: object) -> None:
    assert guessed(decision=values).roles == {"prediction": GuessedRole("decision", equals)}  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [["letter", "none"], ["Yes", "YES", "No"], [3, 7]])
def test_which_of_two_values_is_1_is_for_a_person_to_say(values: list[Any]) -> None:
    found = guessed(decision=values, sex=["f", "m", "f"][: len(values)])
    assert found.roles == {}
    assert [role.equals for role in found.undecided["prediction"]] == sorted(set(values))
    assert found.checks[0].startswith('"decision" ')
    assert found.obstacle


def test_more_than_two_values_are_no_decision() -> None:
    assert guessed(decision=["yes", "no", "maybe"]).roles == guessed(decision=[1, 2, 3]).roles == {}


@pytest.mark.parametrize(
    ("table", "roles"),
    [
        ({"deny": ["yes", "no"]}, {"prediction": GuessedRole("deny", "no")}),
        ({"denied": [0, 1]}, {"prediction": GuessedRole("denied", 0.0)}),
        (
            {"default": [0, 1], "approved": [1, 0]},
            {"prediction": GuessedRole("approved"), "outcome": GuessedRole("default", 0.0)},
        ),
        (
            {"default": [0, 1], "flagged": [1, 0]},
            {"prediction": GuessedRole("flagged"), "outcome": GuessedRole("default")},
        ),
        (
            {"repaid": [0, 1], "approved": [1, 0]},
            {"prediction": GuessedRole("approved"), "outcome": GuessedRole("repaid")},
        ),
        (
            {"recid": ["n", "y"], "deny": [1, 2]},
            {"prediction": GuessedRole("deny", 2.0), "outcome": GuessedRole("recid", "n")},
        ),
    ],
)
def test_1_is_the_good_side_where_names_tell_it(table: dict[str, list[Any]], roles: dict[str, GuessedRole]) -> None:
    found = guessed(**table)
    assert found.roles == roles
    turned = [role.column for role in roles.values() if role.equals in (0.0, 2.0, "no", "n")]
    assert [toml(name) in " ".join(found.checks) for name in turned] == [True] * len(turned)


def test_groups_are_columns_named_so() -> None:
    assert guessed(sex=["f", "m"], race=["a", "b"], x=["p", "q"]).groups == ('"race"', '"sex"')
    assert guessed(tethnicityk=["a", "b"], city=["p", "q"], x=[1, 2]).groups == ()
    assert guessed(race=["a", "b"], female=[0, 1]).groups == ('"race"', '"female"')
    assert guessed(sex=["f", "f"]).groups == ()  # there is nothing to compare with one level


def test_three_groupings_are_taken_and_the_others_told() -> None:
    found = guessed(**{name: ["yes", "no"] for name in ("Veteran", "Woman", "Disabled", "race")})
    assert found.groups == ('"race"', '"Woman"', '"Disabled"')
    assert found.checks == ['groups lists the first 3 that were found. Add these if they matter: "Veteran".']


@pytest.mark.parametrize(
    ("ages", "edges"), [(range(18, 80), "[25, 45, 65]"), (range(30, 50), "[45]"), (range(25, 40), None)]
)
def test_raw_ages_are_cut_where_there_are_people_on_both_sides(ages: range, edges: str | None) -> None:
    expected = (f'{{column = "age", edges = {edges}}}',) if edges else ()
    assert guessed(age=list(ages)).groups == expected
    assert guessed(age=[1, 2, 3]).groups == ('"age"',)  # bands


def test_a_file_without_a_line_of_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("39, State-gov, Male, <=50K\n" * 3 + "50, Private, Female, >50K\n")
    with pytest.raises(DataError, match=r"looks like a row, .*'39', ' State-gov'"):
        sample(tmp_path / "d.csv")
    (tmp_path / "spaces.csv").write_text("A11 6 A34\nA12 48 A32\n")
    with pytest.raises(DataError, match="has a single column, 'A11 6 A34'"):
        sample(tmp_path / "spaces.csv")
    (tmp_path / "years.csv").write_text("sex,2015,2016\nf,1,0\nm,0,1\n")
    with pytest.raises(DataError, match="looks like a row"):
        sample(tmp_path / "years.csv")
    (tmp_path / "years.csv").write_text("sex,hired,2015,2016\nf,1,1,0\nm,0,0,1\n")
    assert len(sample(tmp_path / "years.csv")) == 4


def test_groups_whose_names_end_in_a_number_or_a_capital_letter() -> None:
    assert guessed(approved=[0, 1], race1=["a", "b"]).groups == ('"race1"',)
    assert guessed(approved=[0, 1], RAC1P=[1, 2]).groups == ('"RAC1P"',)


def test_a_sample_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,x\n2,y\n")
    assert [column.name for column in sample(tmp_path / "d.csv")] == ["a", "b"]
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(EmptyFrame, match="has no rows"):
        sample(tmp_path / "empty.csv")
    (tmp_path / "semicolons.csv").write_text("a;b\n1;x\n")
    assert [column.name for column in sample(tmp_path / "semicolons.csv")] == ["a", "b"]
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")
    with pytest.raises((UsageError, DataError)):
        sample(tmp_path / "broken.parquet")


@pytest.mark.parametrize(
    "name",
    [
        "graduated",
        "repaid",
        "completed",
        "passed",
        "reoffended",
        "loan_fully_paid",
        "DroppedOut",
        "rearrest",
        "survived",
    ],
)
def test_outcomes_are_known_by_their_usual_names(name: str) -> None:
    assert guessed(admitted=["yes", "no"], **{name: ["yes", "no"]}).roles["outcome"].column == name


def test_two_values_that_no_name_explains_are_offered_as_the_outcome_and_not_taken() -> None:
    found = guessed(sex=["f", "m"], hired=[0, 1], smiles=["yes", "no"], colour=["red", "blue"], tall=[1, 0])
    assert "outcome" not in found.roles
    offered = [
        GuessedRole("smiles", "yes"),
        GuessedRole("colour", "blue"),
        GuessedRole("colour", "red"),
        GuessedRole("tall"),
    ]
    assert found.undecided == {"outcome": tuple(offered)}
    assert guessed(sex=["f", "m"], smiles=["yes", "no"]).undecided == {}  # there is no decision to compare it with
    assert guessed(hired=[0, 1], repaid=[0, 1], smiles=["yes", "no"]).undecided == {}  # there is an outcome


def test_columns_without_a_role_are_told_with_the_reason() -> None:
    found = guessed(
        sex=["f", "m"] * 30,
        hired=[0, 1] * 30,
        repaid=[1, 0] * 30,
        income=list(range(60)),
        name=[f"x{i}" for i in range(60)],
        job=["a", "b", "c"] * 20,
        smiles=["yes", "no"] * 30,
        year=[2020] * 60,
        tags=[["a"], ["b"]] * 30,
    )
    assert {reason.split(" whose")[0].split(":")[0].split(",")[0]: names for reason, names in found.unused.items()} == {
        "numbers": ["income"],
        "text with more than 20 values": ["name"],
        "a few values": ["job"],
        "two values": ["smiles"],
        "the same value in every row": ["year"],
        "neither numbers nor text (dates": ["tags"],
    }


@pytest.mark.parametrize(
    ("table", "known"),
    [
        ({"awarded": [1, 1, 0, 0], "repaid": [1, 0, 1, 0]}, "everybody"),
        ({"awarded": [1, 1, 0, 0], "repaid": [1, 0, None, None]}, "selected"),
        ({"awarded": ["yes", "yes", "no", "no"], "repaid": ["yes", "no", "no", "no"]}, "selected"),
        ({"deny": ["no", "no", "yes", "yes"], "default": ["yes", "no", "no", "no"]}, "selected"),
        ({"flagged": [True, True, False, False], "fraud": [float("nan"), None, 1.0, 0.0]}, "others"),
        ({"awarded": [1, 1, 0, 0], "repaid": [0, 0, 1, 1]}, "nobody"),
    ],
)
def test_of_whom_the_outcome_tells_anything(table: dict[str, list[Any]], known: str, tmp_path: Path) -> None:
    pl.DataFrame(table, strict=False).write_parquet(tmp_path / "d.parquet")
    found = guess(sample(tmp_path / "d.parquet"))
    find_known(tmp_path / "d.parquet", found)
    assert found.known == known
    assert bool(found.checks) == (known != "everybody" or "deny" in table)


def test_what_repeats_the_decision_is_not_the_first_choice_of_an_outcome(tmp_path: Path) -> None:
    table = {"hired": [1, 1, 0, 0], "copy": [0, 0, 1, 1], "smiles": [1, 0, 1, 0], "sex": ["f", "m"] * 2}
    pl.DataFrame(table).write_parquet(tmp_path / "d.parquet")
    found = guess(sample(tmp_path / "d.parquet"))
    find_known(tmp_path / "d.parquet", found)
    assert [role.column for role in found.undecided["outcome"]] == ["smiles", "copy"]
    assert found.known == "everybody"


def test_part_of_a_name_makes_no_weight_and_no_cluster() -> None:
    numbers = [float(i) for i in range(40)]
    found = guessed(household_income=numbers, weight_kg=numbers, hired=[0, 1] * 20, sex=["f", "m"] * 20)
    assert found.design == {}
    assert guessed(household=numbers, wt=numbers).design == {"weight": "wt", "cluster": "household"}
