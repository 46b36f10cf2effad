"""From the file to the calls: roles, columns, seeds and passes are determined before any row is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import isonomy as iso
from isonomy.audit import Audit
from isonomy.audit.config import build
from isonomy.audit.plan import PlannedTest, plan
from isonomy.errors import ConfigError
from isonomy.frames import Source, open_source
from support.same import same

COLUMNS = {"outcome": "outcome", "prediction": "prediction", "score": "score", "groups": ["race"]}


def planned(test: Mapping[str, object], **keys: Any) -> PlannedTest:
    """One planned test."""
    return plan(build({"tests": [test], **keys}))[0]


def options(test: dict[str, object], **columns: object) -> dict[str, object]:
    return dict(planned(test, columns=columns).options)


def test_roles_come_from_columns_unless_the_test_says_otherwise() -> None:
    common: dict[str, object] = {
        "outcome": "y",
        "prediction": "p",
        "score": "s",
        "groups": ["g"],
        "user": "u",
        "features": ["a"],
    }
    assert options({"kind": "flag", "metric": "tpr"}, **common) == {
        "metric": "tpr", "outcome": "y", "prediction": "p", "score": "s", "groups": ["g"],
    }  # fmt: skip
    assert options({"kind": "predictive_parity", "user": False}, **common) == {
        "outcome": "y", "score": "s", "groups": ["g"],
    }  # fmt: skip
    assert options({"kind": "predictive_parity", "score": "other"}, **common)["score"] == "other"
    assert "score" not in options({"kind": "project", "distance": "d"}, **common)
    assert "features" not in options({"kind": "improvability", "status_quo": "p", "candidate": "c"}, **common)
    assert "features" in options({"kind": "improvability", "status_quo": "p", "rule": "lasso"}, **common)
    assert "features" not in options({"kind": "treatment_bias"}, **common)


def test_seeds_depend_on_the_name_alone() -> None:
    tests = [{"kind": "predictive_parity", "id": name} for name in "abc"]
    seeds = {one.name: one.seed for one in plan(build({"seed": 3, "tests": tests}))}
    fewer = {one.name: one.seed for one in plan(build({"seed": 3, "tests": tests[::-1][:2]}))}
    assert len(set(seeds.values())) == 3
    assert fewer == {name: seeds[name] for name in ("c", "b")}
    assert plan(build({"seed": 4, "tests": tests}))[0].seed != seeds["a"]
    own = plan(build({"tests": [{"kind": "predictive_parity", "rng": 5}]}))[0]
    assert own.ready()["rng"] == 5


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [("project", "tolerance", 0), ("flag", "null", [-0.1, 0.1]), ("predictive_parity", "tolerance", 0.1)],
)
def test_a_file_can_say_what_a_call_can(kind: str, key: str, value: object) -> None:
    test = {"kind": kind, key: value} | ({"metric": "tpr"} if kind == "flag" else {})
    assert planned(test).options[key] == value


@pytest.mark.parametrize(
    "changes",
    [{"suppress_below": 11}, {"filters": [{"column": "a", "value": 1}]}, {"labels": {"population": "everybody"}}],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_changes_a_number_or_a_word_changes_the_identity(changes: dict[str, Any]) -> None:
    def identity(fingerprint: str = "abc", **keys: Any) -> str:
        return planned(test, **keys).identity(fingerprint, build({"tests": [test], **keys}))

    test = {"kind": "flag", "metric": "tpr"}
    assert identity() == identity(title="Another")
    assert identity() != identity("other")
    assert identity() != identity(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": {**COLUMNS, "outcome": "outcom"}}, "columns.outcome: no column 'outcom' in the data."),
        ({"filters": [{"column": "race", "op": "<", "value": 3}]}, "cannot be compared with 3"),
        ({"columns": {**COLUMNS, "groups": [{"column": "race", "edges": [1]}]}}, "only numbers can be cut"),
        (
            {"columns": {"groups": ["race"]}, "tests": [{"kind": "predictive_parity"}]},
            "tests[0].outcome: predictive_parity requires it",
        ),
        ({"data": {"count": "n"}}, "count: no column 'n' in the data"),
    ],
)
def test_columns_are_checked_before_any_row_is_read(
    table: pl.DataFrame, audit: Callable[..., Audit], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(iso.errors.UsageError) as caught:
        audit(table, **changes).validate()
    assert words in str(caught.value)


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["no", "yes"])])
def test_text_is_no_outcome(
    table: pl.DataFrame, audit: Callable[..., Audit], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = pl.when(pl.col("outcome") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).cast(dtype)
    monkeypatch.setattr(Source, "sums", None)  # no row is read
    with pytest.raises(ConfigError, match=r"columns\.outcome: column 'outcome' is text .*equals = \"yes\"}"):
        audit(table.with_columns(words.alias("outcome"))).validate()
    assert audit(table.with_columns(pl.col("outcome").cast(pl.Boolean))).validate()


def test_every_method_says_what_it_will_ask(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a test first asks of the cells is in the requests of its plan, so that nothing is summed twice."""
    tests: list[dict[str, Any]] = [
        {"kind": "flag", "metric": "tpr"},
        {"kind": "certify", "metric": "fpr"},
        {"kind": "improvability", "groups": "sex", "status_quo": "prediction", "candidate": "better"},
        {"kind": "treatment_bias", "effect": "score", "treatment": "better", "measure": "difference"},
    ]
    for test in tests:
        one = planned(test, columns=COLUMNS)
        source = open_source(table)
        requests = one.requests(source)
        assert requests, test["kind"]
        source.prefetch(requests)
        with monkeypatch.context() as patch:
            patch.setattr("isonomy.frames.source.aggregate", None)
            getattr(iso, one.kind)(source, **one.ready())


def test_what_is_wrong_with_a_test_is_told_when_it_is_made(table: pl.DataFrame) -> None:
    test = planned(
        {"kind": "flag", "metric": "tpr", "method": {"likelihood": {"interval": "one-sided"}}}, columns=COLUMNS
    )
    assert test.requests(open_source(table)) == ()


def test_validation_finds_what_the_tests_would_refuse(audit: Callable[..., Audit], table: pl.DataFrame) -> None:
    tests = [{"kind": "flag", "metric": "tpr", "tolerance": 5}, {"kind": "flag", "metric": "brier", "score": False}]
    with pytest.raises(ConfigError) as caught:
        audit(table, tests=tests).validate()
    first, second = str(caught.value).splitlines()
    assert first.startswith("audit: tests[0].tolerance: 5")
    assert second.startswith("audit: tests[1].score: the metric 'brier' needs it")


def test_a_role_may_be_a_condition(audit: Callable[..., Audit], table: pl.DataFrame) -> None:
    words = table.with_columns(
        pl.when(pl.col("prediction") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("said"),
        (pl.col("outcome") + 1).alias("coded"),
    )
    plain = audit(table, tests=[{"kind": "flag", "metric": "tpr"}]).run().results["flag-tpr"]
    roles = {"prediction": {"column": "said", "equals": "yes"}, "outcome": {"column": "coded", "equals": 2}}
    asked = audit(words, tests=[{"kind": "flag", "metric": "tpr", **roles}])
    assert asked.validate()
    same(asked.run().results["flag-tpr"].table(), plain.table())
    for column, equals, message in (("said", 1, "cannot be compared with 1"), ("sayd", "yes", "no column 'sayd'")):
        test = {"kind": "flag", "metric": "tpr", "prediction": {"column": column, "equals": equals}}
        with pytest.raises(ConfigError, match=message):
            audit(words, tests=[test]).validate()
    with pytest.raises(ConfigError, match=r"specify what counts as 1: \{column = .said., equals"):
        audit(words, tests=[{"kind": "flag", "metric": "tpr", "prediction": "said"}]).validate()


@pytest.mark.parametrize("design", [{}, {"cluster": "home"}, {"weight": "home"}])
def test_a_value_that_no_row_has_is_refused_with_those_there_are(tmp_path: Path, design: dict[str, str]) -> None:
    (tmp_path / "d.csv").write_text("deny,sex,home\n" + "no,f,1\nyes,m,2\n" * 30)
    raw = {
        "data": {"path": "d.csv", **design},
        "columns": {"prediction": {"column": "deny", "equals": "No"}, "groups": ["sex"]},
        "tests": [{"kind": "flag", "metric": "selection_rate"}, {"kind": "adverse_impact"}],
    }
    audit = Audit.from_dict(raw, folder=tmp_path)
    words = "columns.prediction: no row has 'No' in column 'deny'; it holds no, yes. Did you mean 'no'?"
    for ask in (audit.validate, audit.run):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert str(caught.value) == f"audit: {words}"
