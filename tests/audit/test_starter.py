"""`isonomy init`: guesses, each of them told; and a file that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit, parse
from isonomy.audit.starter import write_starter
from isonomy.errors import ConfigError, DataError, EmptyFrame, UsageError

RNG = np.random.default_rng(0)
N = 400


def binary(p: float = 0.5) -> Any:
    return RNG.random(N) < p


TABLES: dict[str, dict[str, Any]] = {
    "decisions": {"race": RNG.choice(["a", "b"], N), "approved": binary() * 1, "repaid": binary() * 1},
    "only a score": {"gender": RNG.choice(["f", "m"], N), "label": binary() * 1, "y_prob": RNG.random(N)},
    "booleans": {"sex": RNG.choice(["f", "m"], N), "prediction": binary(), "outcome": binary()},
    "nothing but numbers": {"a": RNG.normal(size=N), "b": RNG.normal(size=N)},
    "nothing but an outcome": {"region": RNG.choice(["n", "s"], N), "churn": binary() * 1},
    "strange names": {'he said "x"': RNG.choice(["p", "q"], N), "\\ predicted": binary() * 1, "é\x7f": RNG.random(N)},
    "missing": {
        "race": [None, "a", "b", "b"] * (N // 4),
        "decision": [1, 0, None, 1] * (N // 4),
        "target": [0, 1, 1, 0] * (N // 4),
    },
    "ages": {"age": RNG.integers(18, 90, N), "hired": binary() * 1},
    "an experiment": {
        "country": RNG.choice(["DE", "FR"], N),
        "treatment": binary() * 1,
        "uplift": 1 + RNG.random(N) / 5,
        "converted": binary(0.4) * 1,
    },
    "text outcome": {
        "sex": RNG.choice(["f", "m"], N),
        "income": RNG.choice(["<=50K", ">50K"], N),
        "hours": RNG.normal(40, 5, N),
    },
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_file_runs_as_it_is(name: str, kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(TABLES[name])
    path = tmp_path / f"data.{kind}"
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    file = tmp_path / "audit.toml"
    write_starter(path, file)
    done = Audit.from_toml(file).run()
    assert done.entries
    assert [entry.error for entry in done.entries if entry.error] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decisions", {"outcome": "repaid", "prediction": "approved", "groups": ["race"]}),
        ("only a score", {"outcome": "label", "score": "y_prob", "groups": ["gender"]}),
        (
            "an experiment",
            {"treatment": "treatment", "effect": "uplift", "outcome": "converted", "groups": ["country"]},
        ),
    ],
)
def test_roles_are_guessed(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    pl.DataFrame(TABLES[name]).write_parquet(tmp_path / "d.parquet")
    guesses = write_starter(tmp_path / "d.parquet", tmp_path / "audit.toml")
    columns = parse((tmp_path / "audit.toml").read_text()).columns.model_dump(exclude_none=True)
    assert columns == expected
    assert len(guesses) == len(expected)


def test_an_outcome_and_a_decision_that_mean_opposite_things(tmp_path: Path) -> None:
    table = {"default": [0, 1, 0, 1], "approved": [1, 0, 1, 1], "sex": ["f", "m", "f", "m"]}
    for prediction, opposed in (("approved", True), ("flagged", False)):
        pl.DataFrame(table).rename({"approved": prediction}).write_parquet(tmp_path / "d.parquet")
        guesses = write_starter(tmp_path / "d.parquet", tmp_path / "audit.toml", force=True)
        assert any(guess.startswith("check:") for guess in guesses) is opposed
        assert ("# CHECK:" in (tmp_path / "audit.toml").read_text()) is opposed
        parse((tmp_path / "audit.toml").read_text())


def test_the_lender_s_roles(tmp_path: Path) -> None:
    iso.simulate.lender(3_000, seed=0).write(tmp_path / "lender.parquet")
    write_starter(tmp_path / "lender.parquet", tmp_path / "audit.toml")
    columns = parse((tmp_path / "audit.toml").read_text()).columns
    assert columns.outcome == "repaid"
    assert columns.prediction == "approved"
    assert columns.score == "score"
    assert columns.user == "user"
    assert columns.treatment == "offer"
    assert columns.effect == "predicted_effect"
    assert columns.groups == ["race", "sex", "age_band"]


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    pl.DataFrame(TABLES["decisions"]).write_csv(tmp_path / "in" / "d.csv")
    write_starter(tmp_path / "in" / "d.csv", tmp_path / "out" / "audit.toml")
    assert parse((tmp_path / "out" / "audit.toml").read_text()).data.path == "../in/d.csv"
    assert Audit.from_toml(tmp_path / "out" / "audit.toml").validate()


def test_refusals(tmp_path: Path) -> None:
    pl.DataFrame({"id": [f"x{i}" for i in range(100)]}).write_csv(tmp_path / "ids.csv")
    with pytest.raises(UsageError, match="no column looks like groups"):
        write_starter(tmp_path / "ids.csv", tmp_path / "a.toml")
    with pytest.raises(UsageError, match="no file at"):
        write_starter(tmp_path / "none.csv", tmp_path / "a.toml")
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(EmptyFrame):
        write_starter(tmp_path / "empty.csv", tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text("mine")
    pl.DataFrame(TABLES["decisions"]).write_csv(tmp_path / "d.csv")
    with pytest.raises(ConfigError, match="--force"):
        write_starter(tmp_path / "d.csv", tmp_path / "a.toml")
    write_starter(tmp_path / "d.csv", tmp_path / "a.toml", force=True)
    assert "[[tests]]" in (tmp_path / "a.toml").read_text()


def test_yes_and_no_are_told_and_not_used(tmp_path: Path) -> None:
    table = {
        "application": [f"a{i}" for i in range(N)],
        "gender": RNG.choice(["f", "m"], N),
        "approved": RNG.choice(["yes", "no"], N),
        "repaid": RNG.choice(["Yes", "YES", "No"], N),
        "offer": RNG.choice(["letter", "none"], N),
        "disability": RNG.choice(["Y", "N"], N),
        "score_pct": RNG.random(N) * 100,
    }
    pl.DataFrame(table).write_csv(tmp_path / "d.csv")
    guesses = write_starter(tmp_path / "d.csv", tmp_path / "audit.toml")
    text = (tmp_path / "audit.toml").read_text()
    checks = [line for line in text.splitlines() if line.startswith("# CHECK:")]
    assert [line.removeprefix("# CHECK: ") for line in checks] == [g.removeprefix("check: ") for g in guesses[-3:]]
    assert [line.split('"')[1] for line in checks] == ["approved", "repaid", "offer"]
    assert '"approved" is yes/no text: recode it to 0/1' in checks[0]
    for line in checks:  # the line that is proposed does what it says
        rows = pl.read_csv(tmp_path / "d.csv")
        how = line.split("with polars, ")[1].rstrip(".")
        name = line.split('"')[1]
        assert set(eval(how, {"rows": rows, "pl": pl})[name]) == {0, 1}
    config = parse(text)
    assert config.columns.outcome is config.columns.prediction is config.columns.treatment is None
    assert config.columns.groups == ["gender", "disability"]  # a group may be yes or no
    assert [test.model_dump()["prediction"] for test in config.tests] == ["score_pct"]


def test_a_file_that_is_not_separated_by_commas(tmp_path: Path) -> None:
    for mark in (";", "\t"):
        (tmp_path / "d.csv").write_text(mark.join(["a", "b", "approved"]) + "\n" + mark.join("121") + "\n")
        with pytest.raises(DataError, match="write_parquet"):
            write_starter(tmp_path / "d.csv", tmp_path / "a.toml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    pl.DataFrame(TABLES["decisions"]).write_csv(tmp_path / "d.csv")
    for force in (False, True):
        with pytest.raises(ConfigError, match=r"is a folder; --output names a file, such as .*audit\.toml"):
            write_starter(tmp_path / "d.csv", tmp_path, force=force)


def test_without_a_decision_neither_a_row_number_nor_a_group_is_averaged(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"rownames": range(200), "age": rng.integers(18, 80, 200), "hours": rng.integers(1, 60, 200)})
    frame.write_csv(tmp_path / "people.csv")
    write_starter(tmp_path / "people.csv", tmp_path / "audit.toml")
    assert 'prediction = "hours"' in (tmp_path / "audit.toml").read_text()
