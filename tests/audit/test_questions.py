"""Every key of a test is a keyword of its function, with the same default."""

from __future__ import annotations

import inspect

import pytest
from pydantic import ValidationError

import isonomy
from isonomy.audit import questions
from isonomy.audit.config import build
from isonomy.audit.questions import MODELS, Columns, Test, annotation_of, described, required
from isonomy.frames import Groups
from isonomy.options import Alpha, Column, Power
from isonomy.results import QUESTIONS

# Said once for the whole audit ([data]), or shown by the audit itself.
ELSEWHERE = {"data", "count", "weight", "cluster", "missing", "missing_group", "progress"}


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


def test_a_new_keyword_is_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def flag(data: object, *, groups: Groups, baseline: Column | None = None, power: Power = 0.8) -> None:
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


@pytest.mark.parametrize("kind", MODELS)
def test_every_key_is_described_by_the_function_s_documentation(kind: str) -> None:
    keys = set(MODELS[kind].model_fields) - set(Test.model_fields)
    assert keys <= {name for name, text in described(kind).items() if text}


def test_options_are_what_the_test_gives() -> None:
    (test,) = build({"tests": [{"kind": "predictive_parity", "id": "a", "user": False, "score": "s"}]}).tests
    assert test.own_options() == {"score": "s"}  # false: no column in this test
    assert test.question is QUESTIONS["predictive_parity"]


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ({"kind": "flag", "metric": "tpr"}, "flag-tpr"),
        ({"kind": "flag", "metric": {"name": "thin files", "value": "v"}}, "flag-thin files"),
        ({"kind": "project", "criterion": "equal_opportunity"}, "project-equal_opportunity"),
        ({"kind": "project"}, "project"),
        ({"kind": "treatment_bias"}, "treatment_bias"),
    ],
)
def test_a_test_without_an_id_is_named_by_what_tells_it_apart(test: dict[str, object], name: str) -> None:
    assert build({"tests": [test]}).names == [name]


def test_annotations_and_needs_are_those_of_the_signature() -> None:
    assert annotation_of("flag", "alpha") == Alpha
    assert required("flag") == ["metric", "groups"]
    assert "outcome" in required("predictive_parity")
