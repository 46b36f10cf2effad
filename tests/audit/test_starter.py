"""`isonomy init`: reports every guess, and writes a file that runs or explains why it has no tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import isonomy as iso
from isonomy.audit import Audit, parse
from isonomy.audit.starter import write_starter
from isonomy.cli import app
from isonomy.errors import ConfigError, EmptyFrame, UsageError

RNG = np.random.default_rng(0)
N = 400


def binary(p: float = 0.5) -> Any:
    return RNG.random(N) < p


TABLES: dict[str, dict[str, Any]] = {
    "decisions": {"race": RNG.choice(["a", "b"], N), "approved": binary() * 1, "repaid": binary() * 1},
    "only a score": {"gender": RNG.choice(["f", "m"], N), "label": binary() * 1, "y_prob": RNG.random(N)},
    "booleans": {"sex": RNG.choice(["f", "m"], N), "prediction": binary(), "outcome": binary()},
    "yes and no": {
        "sex": RNG.choice(["f", "m"], N),
        "deny": RNG.choice(["yes", "no"], N),
        "default": RNG.choice(["Y", "N"], N),
    },
    "codes": {"sex": RNG.choice([1, 2], N), "hired": RNG.choice([1, 2], N)},
    "missing": {
        "race": [None, "a", "b", "b"] * (N // 4),
        "decision": [1, 0, None, 1] * (N // 4),
        "target": [0, 1, 1, 0] * (N // 4),
    },
    "missing yes and no": {"race": ["a", "b"] * (N // 2), "decision": ["yes", "no", None, "no"] * (N // 4)},
    "ages": {"age": RNG.integers(18, 90, N), "hired": binary() * 1},
    "an experiment": {
        "country": RNG.choice(["DE", "FR"], N),
        "treatment": binary() * 1,
        "uplift": 1 + RNG.random(N) / 5,
        "converted": binary(0.4) * 1,
    },
}
UNTOLD: dict[str, dict[str, Any]] = {
    "nothing but numbers": {"a": RNG.normal(size=N), "b": RNG.normal(size=N)},
    "nothing but an outcome": {"region": RNG.choice(["n", "s"], N), "churn": binary() * 1},
    "strange names": {'he said "x"': RNG.choice(["p", "q"], N), "\\ predicted": binary() * 1, "é\x7f": RNG.random(N)},
    "row numbers and ages": {"rownames": range(N), "age": RNG.integers(18, 90, N), "hours": RNG.normal(40, 5, N)},
    "two words": {"sex": RNG.choice(["f", "m"], N), "decision": RNG.choice(["letter", "none"], N)},
    "identifiers": {"id": [f"x{i}" for i in range(N)]},
}


def started(table: dict[str, Any], folder: Path, kind: str = "parquet") -> tuple[list[str], str]:
    """The messages of `init` about a table, and the file that it writes."""
    frame, path = pl.DataFrame(table), folder / f"data.{kind}"
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    guesses = write_starter(path, folder / "audit.toml", force=True)
    return guesses, (folder / "audit.toml").read_text()


def test_another_score_is_neither_a_factor_nor_a_feature(tmp_path: Path) -> None:
    table = {"sex": RNG.choice(["f", "m"], N), "approved": binary() * 1, "repaid": binary() * 1}
    table |= {"score": RNG.random(N), "risk_score": RNG.normal(size=N), "income": RNG.normal(40, 9, N)}
    text = started(table, tmp_path)[1]
    proposed = [line for line in text.splitlines() if line.startswith(("# given", "# features", "# factors"))]
    assert any("income" in line for line in proposed)
    assert not any("risk_score" in line for line in proposed)


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "csv") for name in TABLES), ("booleans", "parquet"), ("missing", "parquet")]
)
def test_the_file_runs_as_it_is(name: str, kind: str, tmp_path: Path) -> None:
    started(TABLES[name], tmp_path, kind)
    audit = Audit.from_toml(tmp_path / "audit.toml")
    audit.validate()
    done = audit.run()
    assert done.entries
    assert [entry.error for entry in done.entries if entry.error] == []


@pytest.mark.parametrize("name", UNTOLD)
def test_what_nothing_tells_is_not_tested(name: str, tmp_path: Path) -> None:
    guesses, text = started(UNTOLD[name], tmp_path)
    assert guesses[-1].startswith("No column was recognized as ")
    assert guesses[-1].endswith("nothing is tested yet.")
    assert guesses[-1][:40] in text
    with pytest.raises(ConfigError, match=r"tests: there are no tests; .* remove the # from one"):
        parse(text)


def test_the_tests_that_were_left_out_can_be_taken_in(tmp_path: Path) -> None:
    _, text = started(UNTOLD["two words"], tmp_path)
    assert '# prediction = {column = "decision", equals = "letter"}' in text
    assert '# prediction = {column = "decision", equals = "none"}' in text
    text = text.replace("# prediction = ", "prediction = ", 1)
    first = text.index("# [[tests]]")
    taken = re.sub(r"(?m)^# ", "", text[first : text.index("\n\n", first)])
    (tmp_path / "audit.toml").write_text(text[:first] + taken + "\n")
    assert Audit.from_toml(tmp_path / "audit.toml").run().entries[0].answered


@pytest.mark.parametrize("file", ["star.csv.gz", "acs12.csv", "nist_acs_tx2018.csv.gz", "law_school.csv"])
def test_public_tables_without_a_decision_get_no_test(file: str, tmp_path: Path, data_folder: Path) -> None:
    guesses = write_starter(data_folder / file, tmp_path / "audit.toml")
    assert guesses[-1].startswith("No column was recognized as a decision")


@pytest.mark.parametrize(
    ("file", "prediction", "groups"),
    [
        ("hmda_boston.csv", {"column": "deny", "equals": "no"}, ["afam"]),
        ("resume_names.csv", {"column": "call", "equals": "yes"}, ["ethnicity", "gender"]),
    ],
)
def test_public_tables_with_one_are_audited(
    file: str, prediction: Any, groups: list[str], tmp_path: Path, data_folder: Path
) -> None:
    write_starter(data_folder / file, tmp_path / "audit.toml")
    columns = parse((tmp_path / "audit.toml").read_text()).columns.model_dump(exclude_none=True)
    assert columns == {"prediction": prediction, "groups": groups}
    result = Audit.from_toml(tmp_path / "audit.toml").run().results["flag-selection_rate"]
    favourable = pl.col(prediction["column"]) == prediction["equals"]
    rows = pl.read_csv(data_folder / file).group_by(groups[0]).agg(favourable.mean())
    rates = {f"{groups[0]}={group}": rate for group, rate in rows.rows()}
    frame = result.to_frame()
    for label, estimate in zip(frame["group"], frame["estimate"], strict=True):
        assert estimate == pytest.approx(rates.get(label, estimate), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decisions", {"outcome": "repaid", "prediction": "approved", "groups": ["race"]}),
        ("only a score", {"outcome": "label", "score": "y_prob", "groups": ["gender"]}),
        (
            "an experiment",
            {"treatment": "treatment", "effect": "uplift", "outcome": "converted", "groups": ["country"]},
        ),
        (
            "yes and no",
            {
                "prediction": {"column": "deny", "equals": "no"},
                "outcome": {"column": "default", "equals": "N"},
                "groups": ["sex"],
            },
        ),
        ("codes", {"prediction": {"column": "hired", "equals": 1}, "groups": ["sex"]}),
        ("ages", {"prediction": "hired", "groups": [{"column": "age", "edges": [25, 45, 65]}]}),
    ],
)
def test_roles_are_guessed(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    guesses, text = started(TABLES[name], tmp_path)
    assert parse(text).columns.model_dump(exclude_none=True) == expected
    checks = [guess.removeprefix("check: ") for guess in guesses if guess.startswith("check: ")]
    assert len(guesses) == len(expected) + len(checks)
    flat = re.sub(r"\n#   ", " ", text)
    assert all(f"# CHECK: {check}" in flat for check in checks)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    pl.DataFrame(TABLES["decisions"]).write_csv(tmp_path / "in" / "d.csv")
    write_starter(tmp_path / "in" / "d.csv", tmp_path / "out" / "audit.toml")
    assert parse((tmp_path / "out" / "audit.toml").read_text()).data.path == "../in/d.csv"
    assert Audit.from_toml(tmp_path / "out" / "audit.toml").validate()


def test_refusals(tmp_path: Path) -> None:
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


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    pl.DataFrame(TABLES["decisions"]).write_csv(tmp_path / "d.csv")
    for force in (False, True):
        with pytest.raises(ConfigError, match=r"is a folder; --output names a file, such as .*audit\.toml"):
            write_starter(tmp_path / "d.csv", tmp_path, force=force)


@pytest.mark.parametrize(
    ("column", "label"),
    [("deny", "not denied"), ("hired", "hired"), ("call", "called back"), ("award", "awarded"), ("prediction", None)],
)
def test_the_decision_is_called_by_its_name(column: str, label: str | None, tmp_path: Path) -> None:
    _, text = started({"sex": ["f", "m"] * 40, column: ["yes", "no", "no", "yes"] * 20}, tmp_path, "csv")
    words = parse(text).labels.metrics
    assert f'title = "Who is {label or "selected"}?"' in text
    assert words == ({} if label is None else {"selection_rate": label})
    if label is not None:
        told = Audit.from_toml(tmp_path / "audit.toml").run()["flag-selection_rate"]
        assert f"sex=f: {label} 50.0 % (40 rows)" in " ".join(told.findings())
        assert f"its share {label} equals that of the population" in told.null


@pytest.mark.parametrize("unknown", ["missing", "no"])
def test_outcomes_of_the_selected_alone_are_compared_among_them(unknown: str, tmp_path: Path) -> None:
    awarded = RNG.choice(["yes", "no"], N)
    graduated = RNG.choice(["yes", "no"], N).astype(object)
    graduated[awarded == "no"] = None if unknown == "missing" else "no"
    graduates = graduated.tolist()  # polars would hold an array whose first value is missing as objects
    table = {"sex": RNG.choice(["f", "m"], N), "awarded": awarded, "graduated": graduates, "score": RNG.random(N)}
    guesses, text = started(table, tmp_path, "csv")
    assert 'check: "graduated" varies only among the selected' in " ".join(guesses)
    assert re.search(r'metric = "ppv" +# not tpr: the outcome is known only for those selected', text)
    assert 'metric = "tpr"' not in text
    assert 'title = "Is graduated = yes equally common in all groups of those awarded?"' in text
    assert ("filters = [{" in text) == (unknown == "no")  # rows without the outcome are left out anyway
    done = Audit.from_toml(tmp_path / "audit.toml").run()
    assert [entry.error for entry in done.entries if entry.error] == []
    women = graduated[(table["sex"] == "f") & (awarded == "yes")]
    rates = dict(zip(*(done["flag-ppv"].to_frame()[name] for name in ("group", "estimate")), strict=True))
    assert rates["sex=f"] == pytest.approx(np.mean(women == "yes"))
    # A score is not tested on rows whose outcome could not be observed.
    parity: Any = done["predictive_parity"]
    assert parity.provenance.rows == sum(awarded == "yes")


def test_the_rate_beside_outcomes_has_words_instead_of_its_technical_name(tmp_path: Path) -> None:
    table = {"sex": RNG.choice(["f", "m"], N), "hired": binary() * 1, "repaid": RNG.choice(["yes", "no"], N)}
    _, text = started(table, tmp_path, "csv")
    assert parse(text).labels.metrics == {"selection_rate": "hired", "tpr": "share hired (of those with repaid = yes)"}
    told = " ".join(Audit.from_toml(tmp_path / "audit.toml").run()["flag-tpr"].findings())
    assert "sex=f: share hired (of those with repaid = yes) " in told
    assert "true positive rate" not in told
    stayed = {"sex": table["sex"], "hired": table["hired"], "stayed": table["repaid"]}
    _, text = started(stayed, tmp_path, "csv")  # the user must decide whether it is the outcome
    assert parse(text).labels.metrics == {"selection_rate": "hired"}
    assert '# metrics = {selection_rate = "hired", tpr = "share hired (of those with stayed = yes)"}' in text


def test_what_may_be_the_outcome_is_a_comment_that_can_be_taken_in(tmp_path: Path) -> None:
    table = {"sex": RNG.choice(["f", "m"], N), "hired": binary() * 1, "stayed": RNG.choice(["yes", "no"], N)}
    guesses, text = started(table, tmp_path, "csv")
    assert "not used: stayed; the file says why" in guesses
    assert '#   two values whose meaning the name does not reveal: "stayed"' in text
    assert parse(text).columns.outcome is None
    assert [test.kind for test in parse(text).tests] == ["flag", "adverse_impact"]
    text = text.replace('# outcome = {column = "stayed"', 'outcome = {column = "stayed"')
    first = text.index("# Once the outcome above is named:")
    (tmp_path / "audit.toml").write_text(text[:first] + re.sub(r"(?m)^# ", "", text[first:].split("\n", 1)[1]))
    assert len(Audit.from_toml(tmp_path / "audit.toml").run()["flag-tpr"].to_frame()) == 2


def test_weights_and_clusters_are_proposed_and_not_taken(tmp_path: Path) -> None:
    table = {
        "sex": RNG.choice(["f", "m"], N),
        "hired": binary() * 1,
        "PWGTP": RNG.integers(1, 90, N),
        "household": [f"h{i // 2}" for i in range(N)],
        "site": RNG.choice(["a", "b"], N),  # two clusters are too few to measure the spread
    }
    guesses, text = started(table, tmp_path)
    told = " ".join(guesses)
    assert 'check: "PWGTP" may be the number of people that a row stands for.' in told
    assert 'check: "household" may identify rows that belong together.' in told
    assert (parse(text).data.weight, parse(text).data.cluster) == (None, None)
    taken = text.replace('# weight = "PWGTP"', 'weight = "PWGTP"').replace("# cluster = ", "cluster = ")
    (tmp_path / "audit.toml").write_text(taken)
    done = Audit.from_toml(tmp_path / "audit.toml").run()
    assert done["flag-selection_rate"].provenance.options["cluster"] == "household"


def with_probabilities(names: list[str], **more: Any) -> dict[str, Any]:
    chances = np.random.default_rng(4).dirichlet(np.ones(len(names)), N).round(3)
    return {"approved": binary() * 1, **dict(zip(names, chances.T, strict=True)), **more}


PROXIES = {
    "a prefix": (["p_white", "p_black", "p_hisp"], '{"White" = "p_white", "Black" = "p_black", "Hisp" = "p_hisp"}'),
    "a suffix": (["white_prob", "asian_prob", "other_prob"], '"White" = "white_prob", "Asian" = "asian_prob", "Other"'),
    "dots": (["pred.whi", "pred.bla", "pred.oth"], '"Whi" = "pred.whi", "Bla" = "pred.bla", "Oth" = "pred.oth"'),
    "two": (["p_female", "p_male"], '{proxy = "sex", probabilities = {"Female" = "p_female", "Male" = "p_male"}}'),
    "names alone": (["white", "black", "latino"], '"White" = "white", "Black" = "black", "Latino" = "latino"'),
}


@pytest.mark.parametrize("name", PROXIES)
@pytest.mark.parametrize("grouped", [False, True])
def test_probabilities_that_sum_to_one_are_proposed_as_groups(name: str, grouped: bool, tmp_path: Path) -> None:
    columns, expected = PROXIES[name]
    score = {"score": RNG.random(N), "p_default": RNG.random(N)}
    more = {"sex": ["f", "m"] * (N // 2)} if grouped else {}
    guesses, text = started(with_probabilities(columns, **score, **more), tmp_path)
    assert expected in text
    assert any(expected in guess for guess in guesses if guess.startswith("groups = "))
    assert any("sum to 1 in every row" in guess for guess in guesses)
    tests = tomllib.loads(text)["tests"]
    assert [test["id"] for test in tests if "id" in test] == ["by-probability"]
    assert [test["kind"] for test in tests] == ["flag", *(["flag", "adverse_impact"] if grouped else [])]
    assert ("one test is made" in text) is not grouped
    if hasattr(iso, "proxy"):
        Audit.from_toml(tmp_path / "audit.toml").validate()


@pytest.mark.parametrize(
    "table",
    [
        with_probabilities(["p_white", "p_black", "rest"]),  # the two that are named do not sum to 1
        with_probabilities(["class_0", "class_1", "class_2"]),  # classes, perhaps, not people
        {"approved": binary() * 1, "is_white": [0, 1] * (N // 2), "is_black": [1, 0] * (N // 2)},
    ],
)
def test_other_numbers_are_not_taken_for_probabilities(table: dict[str, Any], tmp_path: Path) -> None:
    _, text = started(table, tmp_path)
    assert "proxy" not in text
    assert "by-probability" not in text


def test_a_search_for_subgroups_is_proposed_and_not_made(tmp_path: Path) -> None:
    table = {
        "race": RNG.choice(["a", "b"], N),
        "hired": binary() * 1,
        "income": RNG.lognormal(size=N),
        "branch": RNG.choice(["x", "y", "z"], N),
        "name": [f"person {i}" for i in range(N)],
        "same": [1] * N,
    }
    _, text = started(table, tmp_path)
    assert '# kind = "discover"' in text
    assert '# features = ["race", "income", "branch"]' in text
    assert "discover" not in [test.kind for test in parse(text).tests]
    first = text.index("# Subgroups that nobody named")
    proposed = text[first:].split("\n\n")[0].split("\n", 2)[2]
    (tmp_path / "audit.toml").write_text(text[:first] + re.sub(r"(?m)^# ", "", proposed))
    done = Audit.from_toml(tmp_path / "audit.toml").run()
    assert [entry.error for entry in done.entries] == [None] * len(done.entries)
    assert isinstance(done["discover-selection_rate"], iso.DiscoverResult)


# ---- the tests that a field publishes


def mortgages(rows: int = 3_000) -> pl.DataFrame:
    """Applications decided by people: by credit and income, with some noise; race by probability too."""
    rng = np.random.default_rng(4)
    race = rng.choice(["White", "Black", "Hispanic"], rows, p=[0.7, 0.2, 0.1])
    credit, income = rng.normal(680, 50, rows).round(), rng.lognormal(4, 0.5, rows).round(1)
    odds = (credit - 660) / 50 + (income - 55) / 60 - 0.5 * (race == "Black") + rng.logistic(size=rows)
    sure = rng.dirichlet([1, 1, 1], rows) * 0.4 + 0.6 * (race[:, None] == np.array(["White", "Black", "Hispanic"]))
    columns = {"race": race, "sex": rng.choice(["Female", "Male"], rows), "credit_score": credit, "income": income}
    columns |= {"loan_amount": rng.lognormal(5, 0.4, rows).round(1), "approved": (odds > 0).astype(int)}
    return pl.DataFrame(columns | dict(zip(["p_white", "p_black", "p_hispanic"], sure.T, strict=True)))


def hires() -> pl.DataFrame:
    rows = iso.simulate.decisions(3_000, seed=1).frame().rename({"prediction": "hired"}).drop("outcome", "score")
    return rows.with_columns(job=pl.Series(np.random.default_rng(2).choice(["clerk", "driver", "nurse"], 3_000)))


def weeks() -> pl.DataFrame:
    rows = iso.simulate.decisions(3_000, seed=1).frame()
    return rows.with_columns(week=pl.Series(np.sort(np.random.default_rng(2).integers(1, 20, 3_000))))


FIELDS: dict[str, tuple[Any, set[str]]] = {
    "lending": (mortgages, {"by-probability", "flag-selection_rate", "adverse_impact", "comparable", "mean-score"}),
    "hiring": (hires, {"flag-selection_rate", "adverse_impact", "same-job"}),
    "uplift": (lambda: iso.simulate.uplift(3_000, seed=1).frame(), {"treatment_bias", "evaluate_corrections"}),
    "monitoring": (weeks, {"monitor-selection_rate"}),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_has_the_tests_it_publishes(field: Any, tmp_path: Path) -> None:
    make, names = FIELDS[field]
    make().write_csv(tmp_path / "data.csv")
    write_starter(tmp_path / "data.csv", tmp_path / "audit.toml", field=field)
    audit = Audit.from_toml(tmp_path / "audit.toml")
    audit.validate()
    done = audit.run()
    assert {entry.name for entry in done.entries} == names
    assert not re.search(r'#   .*"(week|job)"', (tmp_path / "audit.toml").read_text())  # not among the unused columns
    assert [entry.name for entry in done.entries if entry.error or not entry.answered] == []


def test_a_field_without_its_columns_has_no_tests_yet(tmp_path: Path) -> None:
    hires().write_csv(tmp_path / "data.csv")
    guesses = write_starter(tmp_path / "data.csv", tmp_path / "audit.toml", field="uplift")
    assert guesses[-1] == (
        "No column was recognized as outcome, effect and treatment, which an uplift audit needs: nothing is tested yet."
    )


def test_a_monitor_without_batches_counts_tables(tmp_path: Path) -> None:
    iso.simulate.decisions(3_000, seed=1).frame().write_csv(tmp_path / "data.csv")
    write_starter(tmp_path / "data.csv", tmp_path / "audit.toml", field="monitoring")
    assert "isonomy monitor update" in (tmp_path / "audit.toml").read_text()
    assert Audit.from_toml(tmp_path / "audit.toml").config.names == ["monitor-selection_rate"]
    done = CliRunner().invoke(app, ["monitor", "update", str(tmp_path / "audit.toml"), "--batch", "1"])
    assert done.exit_code in (0, 1), done.output


def test_the_outcome_of_an_uplift_audit_is_what_the_treatment_may_change(tmp_path: Path) -> None:
    iso.simulate.lender(3_000, seed=1).frame().write_csv(tmp_path / "data.csv")
    guesses = write_starter(tmp_path / "data.csv", tmp_path / "audit.toml", field="uplift")
    assert 'outcome = "accepted"' in guesses
    assert not any(guess.startswith("prediction") for guess in guesses)
    taken = 'The outcome that the treatment may change is taken to be "accepted"; if it is "repaid", write that name.'
    assert f"check: {taken}" in guesses
    assert set(Audit.from_toml(tmp_path / "audit.toml").run().results) == {"treatment_bias", "evaluate_corrections"}
