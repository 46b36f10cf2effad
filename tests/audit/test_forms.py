"""How a file writes each argument: every form has a type, names its columns, and is made ready for its function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

import isonomy as iso
from isonomy.alternatives import RULES
from isonomy.audit.forms import FORMS, in_a_file, plain, written
from isonomy.audit.questions import KINDS, annotation_of
from isonomy.frames import Groups
from isonomy.frames.groups import Cut as CutGroup
from isonomy.likelihood import Estimate
from isonomy.options import Alpha, Column, Form, Names, Seeded, Tolerance, Whole, form_of, hints

UNKNOWN = Annotated[object, Form("nobody")]
YOUNG = {"column": "age", "op": "<", "value": 25}

# A value as a file writes it, the columns it names, and what the function gets.
EXPECTED: dict[str, tuple[Any, list[str], Any]] = {
    "column": ("score", ["score"], "score"),
    "names": (["a", "b"], ["a", "b"], ["a", "b"]),
    "groups": (["race", {"column": "age", "edges": [25.0]}], ["race", "age"], ["race", CutGroup("age", (25.0,))]),
    "given": ("band", ["band"], "band"),
    "metric": ("tpr", [], "tpr"),
    "reference": ({"value": 0.5, "influence": "i"}, ["i"], Estimate(0.5, "i")),
    "comparator": ({"race": "White"}, [], {"race": "White"}),
    "group": ({"race": "White", "age": 3}, [], {"race": "White", "age": 3}),
    "utility": ({"utility": "tpr", "outcome": "sick"}, ["sick"], {"utility": "tpr", "outcome": "sick"}),
    "utilities": (
        ["accuracy", {"utility": "tpr", "outcome": "sick"}],
        ["sick"],
        ["accuracy", {"utility": "tpr", "outcome": "sick"}],
    ),
    "rule": (list(RULES[:2]), [], list(RULES[:2])),
    "candidates": ({"better": "b", "cheaper": "c"}, ["b", "c"], {"better": "b", "cheaper": "c"}),
    "split": ("part", ["part"], "part"),
    "observed_effects": ({"race=Black": [0.1, 0.02]}, [], {"race=Black": (0.1, 0.02)}),
    "seed": (7, [], 7),
}


def valid(kind: Any, value: object) -> Any:
    """A value of a type, as the model of a file reads it."""
    return TypeAdapter(kind).validate_python(value, strict=True)


@pytest.mark.parametrize("name", FORMS)
def test_every_form(name: str) -> None:
    value, columns, ready = EXPECTED[name]
    form = FORMS[name]
    parsed = valid(form.type, value)
    assert [column for column, _ in form.columns(parsed)] == columns
    assert form.ready(parsed) == ready


def test_words_are_not_columns() -> None:
    assert list(FORMS["split"].columns("independent")) == []
    assert list(FORMS["reference"].columns("population")) == []
    assert list(FORMS["utilities"].columns("tpr")) == []


def test_a_metric_of_one_s_own_names_its_columns() -> None:
    form = FORMS["metric"]
    parsed = valid(form.type, {"name": "m", "value": "v", "where": [YOUNG]})
    assert [column for column, _ in form.columns(parsed)] == ["v", "age"]
    ready = form.ready(parsed)
    assert isinstance(ready, iso.Metric)
    assert ready.name == "m"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("column", 3),
        ("names", "a"),
        ("groups", {"name": "young"}),
        ("metric", "trp"),
        ("reference", "populaton"),
        ("utility", "tpx"),
        ("rule", "magic"),
        ("observed_effects", {"race=Black": [0.1]}),
        ("seed", -1),
    ],
)
def test_what_a_form_does_not_take(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        valid(FORMS[name].type, value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_public_function_has_a_row(kind: str) -> None:
    named = {form_of(annotation) for annotation in hints(getattr(iso, kind)).values()} - {None}
    assert named
    assert named <= set(FORMS)


def test_an_argument_without_a_form_is_written_as_it_is() -> None:
    assert form_of(Alpha) is None
    assert written(Alpha).ready(0.1) == 0.1
    assert list(written(Alpha).columns(0.1)) == []
    assert written(annotation_of("flag", "groups")) is FORMS["groups"]


@pytest.mark.parametrize(
    ("annotation", "accepted", "refused"),
    [
        (Alpha, [0.05], [0.0, 1.0, "a"]),
        (Tolerance, [0.1], [-0.1]),
        (Whole, [1, 5], [0, 1.5]),
        (bool, [True], [1]),
        (Literal["a", "b"], ["a"], ["c"]),
        (Column | None, ["x"], [3]),
        (Names, [["x", "y"]], [[3]]),
        (Groups, ["race", ["race"]], [3]),
        (Seeded, [3, None], [-3]),
        (float | np.ndarray, [0.5], ["x"]),  # an array cannot be written
        (Sequence[float], [[0.1, 0.2]], [[], ["a"], 0.1]),
        (tuple[float, float], [[0.1, 0.2]], [[0.1], [0.1, 0.2, 0.3]]),
        (tuple[float, float] | float, [[0.1, 0.2], 0.3], [[0.1]]),
        (Mapping[str, float], [{"a": 0.1}], [{"a": "b"}, 3]),
        (Mapping[str, object], [{"a": "b", "c": 1}], [{"a": [1]}]),
    ],
    ids=str,
)
def test_annotations_in_a_file(annotation: Any, accepted: list[Any], refused: list[Any]) -> None:
    for value in accepted:
        assert valid(in_a_file(annotation), value) == value
    for value in refused:
        with pytest.raises(ValidationError):
            valid(in_a_file(annotation), value)


@pytest.mark.parametrize("annotation", [object, np.ndarray, np.ndarray | None, Sequence[object]])
def test_what_no_file_can_say_is_told_when_the_model_is_made(annotation: Any) -> None:
    with pytest.raises(TypeError, match="give it a Form, and a row in FORMS"):
        in_a_file(annotation)


def test_an_unknown_form_is_told_when_the_model_is_made() -> None:
    with pytest.raises(KeyError, match="nobody"):
        in_a_file(UNKNOWN)


def test_a_condition_is_not_taken_for_two_candidates() -> None:
    kind = FORMS["candidates"].type
    with pytest.raises(ValidationError, match="a condition cannot be a candidate; name a column of 0 and 1"):
        valid(kind, {"column": "b", "equals": "yes"})
    assert valid(kind, {"column": "b"}) == {"column": "b"}


def test_tables_become_mappings() -> None:
    parsed = valid(FORMS["groups"].type, [{"name": "young", "where": [YOUNG]}, "race"])
    assert plain(parsed) == [{"name": "young", "where": [YOUNG]}, "race"]
    assert plain(3) == 3
