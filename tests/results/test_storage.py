"""Results to JSON and back: every value is restored, and single rows only if requested."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

import isonomy
from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.options import Seed
from isonomy.results import Note, Provenance, Status, Verdict, from_dict, from_json, provenance, storage
from isonomy.results.storage import OF_ROWS, SCHEMA_VERSION, decode, encode
from support.fakes import FakeResult, fake
from support.same import same


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Example(FakeResult):
    """A result that also has arbitrary values and the numbers of single rows."""

    extra: Any = None
    people: np.ndarray[Any, Any] | None = field(default=None, metadata=OF_ROWS)


@dataclass(frozen=True)
class Unregistered:
    x: int = 1


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Example:
    monkeypatch.setitem(storage._STORABLE, "Example", Example)
    result = fake()
    return Example(
        null="nothing",
        verdict=Verdict.INCONCLUSIVE,
        notes=(Note("merged"),),
        provenance=provenance("flag", {"alpha": 0.05, "expr": isonomy.col("x") > 1, "grid": np.arange(3)}),
        groups=(
            Group.from_mapping({"race": "b", "born": date(2000, 1, 2)}),
            Group.from_mapping({"": "<script>"}),
            Group.from_mapping({"race": None}),
        ),
        size=np.array([10.0, 3, 50]),
        disparity=np.array([0.5, np.inf, np.nan]),
        ci_low=result.ci_low,
        ci_high=result.ci_high,
        pvalue=result.pvalue,
        verdicts=result.verdicts,
        status=(Status.OK, Status.TOO_SMALL, Status.UNBOUNDED),
        extra={"nested": (1, -np.inf, "x"), 3: np.array(["a", None], dtype=object), "flag": np.array([True])},
        people=np.array([17.25, 18.5]),
    )


def test_json_round_trip(example: Example) -> None:
    text = example.to_json()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    back = from_json(text)
    assert isinstance(back, Example)
    assert back.to_json() == text
    same(back, example, ("size", "disparity", "ci_low"), rel=0, abs=0)
    assert back.groups == example.groups
    assert back.status == example.status
    assert back.verdict is Verdict.INCONCLUSIVE
    assert back.extra["nested"] == (1, -np.inf, "x")
    assert back.extra[3].tolist() == ["a", None]
    assert isinstance(back.provenance, Provenance)
    assert back.provenance.options["grid"] == (0, 1, 2)
    assert isinstance(back.to_frame(), pl.DataFrame)


def test_json_of_another_version_is_refused(example: Example) -> None:
    stored = example.to_dict()
    stored["schema_version"] = 99
    with pytest.raises(UsageError, match="99"):
        from_json(json.dumps(stored))
    with pytest.raises(UsageError, match=r"schema_version is 2; .* reads 3\. Compute it again, or"):
        from_json(json.dumps(stored | {"schema_version": 2}))
    with pytest.raises(UsageError, match="not JSON"):
        from_json("{")
    with pytest.raises(UsageError, match="unknown result type 'os'"):
        from_json('{"schema_version": 3, "result": {"$type": "os"}}')
    for body in ('"result": [1]', '"result": {}', '"result": {"$type": "Example"}', '"other": 1'):
        with pytest.raises(UsageError, match="from_json"):
            from_json(f'{{"schema_version": 3, {body}}}')


def test_what_could_not_be_read_back_is_not_written(example: Example) -> None:
    with pytest.raises(UsageError, match="Unregistered"):
        replace(example, extra=Unregistered()).to_json()
    with pytest.raises(TypeError, match="cannot store a set"):
        encode({1, 2})


def test_single_rows_are_stored_on_request_alone(example: Example) -> None:
    assert "17.25" not in example.to_json()
    assert from_json(example.to_json()).people is None
    stored = from_json(example.to_json(rows=True))
    same(stored.people, example.people, rel=0, abs=0)


def test_single_rows_of_a_part_are_stored_on_request_alone(example: Example) -> None:
    """The part may be in a tuple or in a mapping."""
    nested = replace(example, extra=({"part": example},), people=None)
    assert "17.25" not in nested.to_json()
    assert "17.25" in nested.to_json(rows=True)
    assert from_dict(nested.to_dict(rows=True)).extra[0]["part"].people.tolist() == [17.25, 18.5]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        7,
        0.1,
        np.inf,
        -np.inf,
        "text",
        date(2020, 2, 29),
        datetime(2020, 2, 29, 12, 30),
        Verdict.VIOLATION,
        Status.SUPPRESSED,
        Seed(5, "given"),
        Group.from_mapping({"race": None, "": "old", "born": date(2000, 1, 2)}),
        (1, ("a", None)),
        {"a": {1: (2.5, "x")}, Verdict.VIOLATION: 3},
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value: object) -> None:
    back = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, np.nan], [np.inf, -np.inf]]),
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.array([True, False]),
        np.array(["a", "ü"]),
        np.array([], dtype=np.float64),
        np.array(["2020-01-02"], dtype="datetime64[D]"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_keep_their_type_and_shape(array: np.ndarray[Any, Any]) -> None:
    back = decode(json.loads(json.dumps(encode(array), allow_nan=False)))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    with pytest.raises(ValueError, match="read-only"):
        back[...] = 0


def test_json_that_is_no_object_is_refused() -> None:
    with pytest.raises(UsageError, match="a JSON object is needed"):
        from_json("[1]")
    assert fake().to_dict()["schema_version"] == SCHEMA_VERSION


TABLE = {"g": ["a", "b"] * 50, "p": [0, 1, 1, 0, 1] * 20}


def test_text_is_as_wide_as_the_longest_there_is() -> None:
    array = decode({"$type": "array", "dtype": "<U1000000000", "shape": [2], "data": ["a", "bc"]})
    assert array.dtype.str.endswith("U2")


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "V1000000000000"}, "an array of 'V1000000000000'"),
        ({"dtype": "f8,f8"}, "an array of 'f8,f8'"),
        ({"dtype": 7}, "an array of '7'"),
        ({"shape": [10**12]}, "shape does not fit"),
        ({"shape": ["3"]}, "does not fit its values"),
        ({"data": "abc"}, "shape does not fit"),
        ({"data": [1, {"x": 1}, 3]}, "not a stored result"),
    ],
)
def test_arrays_that_were_changed_by_hand(change: dict[str, Any], words: str) -> None:
    stored: Any = isonomy.flag(TABLE, metric="selection_rate", prediction="p", groups="g").to_dict()
    stored["result"]["estimate"] |= change
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=words):
            isonomy.from_json(json.dumps(stored))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (deep(200_000), "nested too deeply"),
        (
            '{"schema_version": VERSION, "result": ' + '{"$type": "mapping", "items": ' * 600 + "1" + "}" * 600 + "}",
            "from_json",
        ),
        ('{"schema_version": VERSION, "tests": []}', "a whole audit .*AuditResult.from_json reads it"),
        ('{"schema_version": VERSION, "result": {"$type": "Seed"}}', "not a stored result"),
        ('{"schema_version": VERSION, "result": {"$type": "FlagResult", "null": 1}}', "not a stored result"),
        ('{"schema_version": VERSION, "result": 3}', "not a stored result"),
    ],
    ids=["deep list", "deep mapping", "an audit", "a part", "fields missing", "a number"],
)
def test_files_that_are_no_result(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        isonomy.from_json(text.replace("VERSION", str(SCHEMA_VERSION)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metric", 5),
        ("alpha", "a"),
        ("joint", "yes"),
        ("verdicts", [None]),
        ("verdict", "violation"),
        ("groups", ["a", "b", "c"]),
        ("disparity", {"$type": "array", "dtype": "<i8", "shape": [3], "data": [1, 2, 3]}),
        ("disparity", {"$type": "array", "dtype": "<f8", "shape": [2], "data": [1, 2]}),
        ("tolerance", True),
        ("provenance", {"$type": "mapping", "items": []}),
        ("warnings", "none"),
    ],
)
def test_values_of_the_wrong_type_are_told_when_they_are_read(name: str, value: object) -> None:
    """And not only when the chart is drawn."""
    table = {"g": ["a", "b", "c"] * 100, "p": [0, 1, 1, 1] * 75}
    stored = isonomy.flag(table, metric="selection_rate", prediction="p", groups="g").to_dict()
    assert from_dict(stored).labels == ("g=a", "g=b", "g=c")
    stored["result"][name] = value  # type: ignore[index]
    with pytest.raises(UsageError, match="from_json: not a stored result"):
        from_dict(stored)
