"""Arguments in an audit file: every form has a type, names its columns, and is converted for its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter, ValidationError

import isonomy as iso
from isonomy.alternatives import RULES
from isonomy.audit import Audit
from isonomy.audit.config import model_of
from isonomy.audit.forms import (
    FORMS,
    advice_in_a_file,
    columns_in,
    in_a_file,
)
from isonomy.audit.forms import ready as as_argument
from isonomy.errors import ConfigError, UsageError
from isonomy.frames import Groups
from isonomy.frames.groups import Cut as CutGroup
from isonomy.options import Alpha, Column, Form, Names, Option, Seeded, Tolerance, Whole, form_of, hints
from isonomy.results import KINDS

UNKNOWN = Annotated[object, Form("nobody")]


# A value in a file, the columns that it names, and the argument of the function.
EXPECTED: dict[str, tuple[Any, list[str], Any]] = {
    "column": ("score", ["score"], "score"),
    "names": (["a", "b"], ["a", "b"], ["a", "b"]),
    "groups": (["race", {"column": "age", "edges": [25.0]}], ["race", "age"], ["race", CutGroup("age", (25.0,))]),
    "features": (["race", {"column": "age", "edges": [25.0]}], ["race", "age"], ["race", CutGroup("age", (25.0,))]),
    "given": ("band", ["band"], "band"),
    "metric": ("tpr", [], "tpr"),
    "reference": ({"race": "White"}, [], {"race": "White"}),
    "comparator": ({"race": "White"}, [], {"race": "White"}),
    "group": ({"race": "White", "age": 3}, [], {"race": "White", "age": 3}),
    "utility": ({"utility": "tpr", "outcome": "sick"}, ["sick"], {"utility": "tpr", "outcome": "sick"}),
    "utilities": (
        ["accuracy", {"utility": "tpr", "outcome": "sick"}],
        ["sick"],
        ["accuracy", {"utility": "tpr", "outcome": "sick"}],
    ),
    "rule": (list(RULES[:2]), [], list(RULES[:2])),
    "candidates": (["b", "c"], ["b", "c"], ["b", "c"]),
    "observed_effects": ({"race=Black": [0.1, 0.02]}, [], {"race=Black": [0.1, 0.02]}),
    "seed": (7, [], 7),
}


def valid(kind: Any, value: object) -> Any:
    """A value as read by the model of the file."""
    return TypeAdapter(kind).validate_python(value, strict=True)


@pytest.mark.parametrize("name", FORMS)
def test_every_form(name: str) -> None:
    value, columns, argument = EXPECTED[name]
    form = FORMS[name]
    parsed = valid(form.type, value)
    assert [column for column, _ in columns_in(parsed)] == columns
    assert as_argument(parsed) == argument


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
        (float | np.ndarray, [0.5], ["x"]),  # an array cannot be written in a file
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


def test_groups_of_every_form(table: pl.DataFrame, audit: Callable[..., Audit]) -> None:
    groups = [
        "race",
        {"column": "score", "edges": [0.3, 0.6]},
        {
            "name": "men, low",
            "where": [{"column": "sex", "value": "Male"}, {"column": "score", "op": "<", "value": 0.5}],
        },
    ]
    metric = {
        "name": "own",
        "value": "prediction",
        "where": [{"column": "score", "op": ">", "value": 0.1}],
        "binary": True,
    }
    done = audit(table, [{"kind": "flag", "metric": metric, "groups": groups}]).run(debug=True)
    labels = list(done["flag-own"].table()["group"])
    assert "men, low" in labels
    assert "score 0.3 to <0.6" in labels


@pytest.mark.parametrize("equals", [[], ["a", 1]])
def test_a_role_that_no_value_makes_is_refused(equals: list[object]) -> None:
    test = {"kind": "flag", "metric": "selection_rate", "prediction": {"column": "p", "equals": equals}, "groups": "g"}
    with pytest.raises(ConfigError, match="takes a list of values of one type, and at least one"):
        Audit.from_dict({"data": {"path": "x.csv"}, "tests": [test]})


@dataclass(frozen=True)
class Toy(Option):
    """A toy option.

    Parameters
    ----------
    kind : {"plain", "fancy"}, default "plain"
        How it is done.
    draws : int, default 100
        How often.
    by : str, optional
        A column.
    """

    name: ClassVar[str] = "toy"
    kind: Literal["plain", "fancy"] = "plain"
    draws: Whole = 100
    by: Column | None = None


@dataclass(frozen=True)
class Ends(Option):
    """Two numbers."""

    name: ClassVar[str] = "ends"
    low: float
    high: float

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        if self.low > self.high:
            raise UsageError("low: above high.")


METHOD = Literal["published"] | Toy | Ends


def toy(data: object, *, method: METHOD = Toy("fancy"), scale: Toy | None = None) -> None:  # noqa: B008
    """What is a toy?"""


@pytest.mark.parametrize(
    ("file", "argument", "columns"),
    [
        ("published", "published", []),
        ({"toy": "fancy"}, Toy("fancy"), []),
        ({"toy": {}}, Toy(), []),
        ({"toy": {"draws": 5, "by": "site"}}, Toy(draws=5, by="site"), ["site"]),
        ({"ends": {"low": 0.0, "high": 1.0}}, Ends(0.0, 1.0), []),
    ],
)
def test_an_option_is_a_table_with_its_name(file: object, argument: object, columns: list[str]) -> None:
    parsed = valid(in_a_file(METHOD), file)
    assert as_argument(parsed) == argument
    assert [column for column, _ in columns_in(parsed)] == columns


@pytest.mark.parametrize(
    "file",
    [
        {"toy": "fanci"},
        {"toy": {"draws": 0}},
        {"toy": {"drows": 3}},
        {"ends": 1.0},  # needs both
        {"ends": {"low": 2.0, "high": 1.0}},
        {"toy": {}, "ends": {"low": 0.0, "high": 1.0}},
        {},
        {"tyo": "fancy"},
    ],
)
def test_an_option_that_is_wrong(file: object) -> None:
    with pytest.raises(ValidationError):
        valid(in_a_file(METHOD), file)


PROTECTED = in_a_file(iso.protected | None)
GAIN = in_a_file(iso.gain)


@pytest.mark.parametrize(
    ("kind", "file", "argument"),
    [
        (PROTECTED, {"protected": "Black"}, iso.protected("Black")),
        (PROTECTED, {"protected": {"race": "Black"}}, iso.protected({"race": "Black"})),
        (PROTECTED, {"protected": {"group": "Black"}}, iso.protected("Black")),
        (PROTECTED, {"protected": {"group": "Black", "utility": "tpr"}}, iso.protected("Black", "tpr")),
        (
            PROTECTED,
            {"protected": {"group": {"race": "Black"}, "disadvantage": "lower"}},
            iso.protected({"race": "Black"}, disadvantage="lower"),
        ),
        (GAIN, {"gain": {"margin": 0.01}}, iso.gain(margin=0.01)),
        (GAIN, {"gain": {"Black": 0.01, "White": 0.02}}, iso.gain({"Black": 0.01, "White": 0.02})),
    ],
    ids=str,
)
def test_the_names_of_options_are_not_names_of_groups(kind: Any, file: object, argument: object) -> None:
    assert as_argument(valid(kind, file)) == argument


@pytest.mark.parametrize(
    "options",
    [
        {"grp": "Black", "utility": "tpr"},
        {"race": "Black", "disadvantage": "lower"},
        {"disadvantage": "lower"},
        {"group": "Black", "disadvantage": "worse"},
        {"group": "Black", "utility": "tpx"},
    ],
    ids=str,
)
def test_options_are_not_taken_for_a_group(options: object) -> None:
    with pytest.raises(ValidationError):
        valid(PROTECTED, {"protected": options})


def test_an_option_needs_no_line_in_the_model_of_a_test() -> None:
    model = model_of(toy)
    assert model.model_validate({"kind": "toy", "scale": {"toy": "plain"}}).own_options()
    schema = model.model_json_schema()
    assert schema["properties"]["method"]["default"] == {"toy": {"kind": "fancy", "draws": 100, "by": None}}
    assert schema["$defs"]["ToyFields"]["properties"]["draws"]["description"] == "How often."
    assert schema["$defs"]["ToyFields"]["properties"]["draws"]["minimum"] == 1


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("give method=iso.crossfit(repeats=5).", "give method = {crossfit = {repeats = 5}}."),
        ("write iso.splits(rounds)", "write {splits = rounds}"),
        ('write iso.null(side="greater")', 'write {null = {side = "greater"}}'),
        ("cut it with iso.cut(column, edges).", "cut it with {column = ..., edges = [...]}."),
        # Names that belong to the user.
        ("column 'iso.code' has 3 missing values", None),
        ("column 'iso.cut' has 3 missing values", None),
        ("/data/iso.csv: not found", None),
        ('unknown iso.foo("a", b=1)', None),
    ],
)
def test_advice_is_written_as_in_a_file(message: str, expected: str | None) -> None:
    assert advice_in_a_file(message) == (message if expected is None else expected)


def test_an_error_names_a_column_that_looks_like_a_name_of_isonomy(audit: Callable[..., Audit]) -> None:
    table = {"iso.code": [0, 1, None, 1], "p": [0, 1, 1, 0], "g": ["a", "a", "b", "b"]}
    test = {"kind": "flag", "metric": "tpr", "outcome": "iso.code", "prediction": "p", "groups": "g"}
    done = audit(table, [test], columns={}).run()
    assert "'iso.code'" in str(done.document.entries[0].error)
