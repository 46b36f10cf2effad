"""Every key of a test is a keyword of its function, with the same default."""

from __future__ import annotations

import inspect

import pytest
from pydantic import ValidationError

import isonomy
from isonomy.audit import questions
from isonomy.audit.conditions import columns_of
from isonomy.audit.config import build
from isonomy.audit.forms import in_a_file
from isonomy.audit.plan import plan
from isonomy.audit.questions import MODELS, Columns, Test, described
from isonomy.frames import Groups
from isonomy.options import Column, Power
from isonomy.report import wording
from isonomy.report.document import VERDICTS
from isonomy.results import Verdict, phrases

# Said once for the whole audit ([data]), or shown by the audit itself.
ELSEWHERE = {"data", "count", "missing", "missing_group", "progress"}


@pytest.mark.parametrize("kind", MODELS)
def test_keys_are_the_functions_keywords(kind: str) -> None:
    model = MODELS[kind]
    parameters = {n: p for n, p in inspect.signature(getattr(isonomy, kind)).parameters.items() if n not in ELSEWHERE}
    fields = {name: field for name, field in model.model_fields.items() if name not in Test.model_fields}
    assert set(fields) == set(parameters)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty:
            # What the function needs, the file must give: here, or under [columns].
            assert fields[name].is_required() or name in Columns.model_fields, name
        elif name not in Columns.model_fields:
            assert fields[name].default == parameter.default, name


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_has_words(kind: str) -> None:
    assert kind in wording.QUESTIONS
    assert all(phrases.verdict(kind, verdict) for verdict in VERDICTS)


def test_verdicts_are_the_three() -> None:
    assert set(VERDICTS) == {verdict.value for verdict in Verdict}


def options(test: dict[str, object], **columns: object) -> dict[str, object]:
    return dict(plan(build({"columns": columns, "tests": [test]}))[0].options)


def test_roles_come_from_columns_unless_the_test_says_otherwise() -> None:
    common = {"outcome": "y", "prediction": "p", "score": "s", "groups": ["g"], "user": "u", "features": ["a"]}
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


def test_tolerances_are_for_tests_that_set_none() -> None:
    made = plan(
        build(
            {
                "tolerances": {"flag": 0.1},
                "tests": [
                    {"kind": "flag", "metric": "tpr"},
                    {"kind": "flag", "metric": "fpr", "tolerance": 0.2},
                    {"kind": "certify", "metric": "fpr"},
                ],
            }
        )
    )
    assert [one.options.get("tolerance") for one in made] == [0.1, 0.2, None]


def test_seeds_depend_on_the_name_alone() -> None:
    tests = [{"kind": "predictive_parity", "id": name} for name in "abc"]
    seeds = {one.name: one.seed for one in plan(build({"seed": 3, "tests": tests}))}
    fewer = {one.name: one.seed for one in plan(build({"seed": 3, "tests": tests[::-1][:2]}))}
    assert len(set(seeds.values())) == 3
    assert fewer == {name: seeds[name] for name in ("c", "b")}
    assert plan(build({"seed": 4, "tests": tests}))[0].seed != seeds["a"]
    own = plan(build({"tests": [{"kind": "predictive_parity", "rng": 5}]}))[0]
    assert own.arguments()["rng"] == 5


def test_columns_of_groups_and_metrics() -> None:
    made = build(
        {"tests": [{"kind": "flag", "metric": {"name": "m", "value": "v", "where": [{"column": "c", "value": 1}]}}]}
    )
    metric = getattr(made.tests[0], "metric", None)
    assert [column for column, _ in columns_of(metric)] == ["v", "c"]


def test_a_new_keyword_is_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def flag(data: object, *, groups: Groups, weight: Column | None = None, power: Power = 0.8) -> None:
        """Who is treated differently?

        Parameters
        ----------
        power : float, default 0.8
            The power aimed at.
        """

    monkeypatch.setattr(isonomy, "flag", flag)
    described.cache_clear()
    model = questions._model("flag")
    described.cache_clear()
    assert model.model_validate({"kind": "flag", "power": 0.9}).own_options() == {"power": 0.9}
    assert model.model_fields["power"].description == "The power aimed at."
    with pytest.raises(ValidationError, match="less than 1"):
        model.model_validate({"kind": "flag", "power": 1.5})


def test_what_no_file_can_say_is_told_when_the_model_is_made() -> None:
    with pytest.raises(TypeError, match="Form"):
        in_a_file(object)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [("project", "tolerance", 0), ("flag", "null", [-0.1, 0.1]), ("predictive_parity", "grid", [0.2, 0.5])],
)
def test_a_file_can_say_what_a_call_can(kind: str, key: str, value: object) -> None:
    test = {"kind": kind, key: value} | ({"metric": "tpr"} if kind == "flag" else {})
    assert plan(build({"tests": [test]}))[0].options[key] == value
