"""Every recorded call gives its recorded answer, and every option is in some recorded call."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import isonomy as iso
from isonomy.frames.metrics import ALSO_CALLED
from isonomy.options import ROW_DEFAULTS
from recorded import calls_audit, recording
from recorded.recording import Call, Late
from recorded.topics import TOPICS

CASES = [pytest.param(topic, name, id=f"{topic}-{name}") for topic, calls in TOPICS.items() for name in calls]
# Options whose words are listed in the schema of the audit file, not in an annotation.
WORDS = ("metric", "accuracy", "fairness", "rule")
# Words that another function accepts and this one refuses.
REFUSED = {("evaluate_corrections", "collapse", "positives_inverse")}
# Keywords about rows that a function refuses by name.
REFUSED_ROWS = {("evaluate_calibrators", "count"), ("evaluate_calibrators", "cluster")}
# They make an argument of other calls, or change a chart.
ARGUMENTS = ("col", "comparable", "dark")
PUBLIC = [
    name
    for name in iso.__all__
    if name not in ARGUMENTS and (inspect.isfunction(getattr(iso, name)) or hasattr(getattr(iso, name), "fit"))
]


@cache
def answers(topic: str) -> Mapping[str, Any]:
    return recording.read(topic)


@pytest.mark.parametrize(("topic", "name"), CASES)
def test_the_answer_is_as_recorded(topic: str, name: str) -> None:
    assert name in answers(topic), f"record it: PYTHONPATH=tests python -m recorded.record {topic}"
    text = recording.report(name, answers(topic)[name], recording.answer(TOPICS[topic][name]))
    assert not text, text


@pytest.mark.parametrize("topic", TOPICS)
def test_what_is_recorded_is_what_is_called(topic: str) -> None:
    assert set(answers(topic)) == set(TOPICS[topic])


@pytest.mark.parametrize("topic", TOPICS)
def test_calls_raise_where_their_names_say_so(topic: str) -> None:
    raised = {name for name, answer in answers(topic).items() if "error" in answer}
    assert raised == {name for name in TOPICS[topic] if recording.REFUSES in name}


def test_all_results_come_back_from_json() -> None:
    """Except for one column of projections, the distance of the farthest person, which JSON does not contain."""
    results = {n: one for topic in TOPICS for n, one in answers(topic).items() if "stored" in one}
    assert len(results) > 500
    assert [name for name, one in results.items() if not one["stored"]["summary"]] == []
    changed = {one["type"] for one in results.values() if not one["stored"]["frame"]}
    assert changed == {"ProjectionResult"}


def options_of(function: Any) -> list[str]:
    """The parameters of a function or class; ``**rows`` stands for the keywords about rows."""
    names = list(inspect.signature(function).parameters)
    return [*names[:-1], *ROW_DEFAULTS] if "rows" in names else names


@cache
def used() -> Mapping[str, Mapping[str, list[Any]]]:
    """The values of each option of each public function, in the calls that are answered."""
    found: dict[str, dict[str, list[Any]]] = {}
    for calls in TOPICS.values():
        for name, call in calls.items():
            if isinstance(call, Call) and recording.REFUSES not in name:
                options = found.setdefault(call.function, {})
                bound = inspect.signature(getattr(iso, call.function)).bind(*call.arguments, **call.options)
                rows = bound.arguments.pop("rows", {})
                for option, value in (bound.arguments | rows).items():
                    options.setdefault(option, []).append(word_of(value))
    return found


def word_of(value: Any) -> Any:
    """For curves, which are made at the call, the word that they stand for."""
    made = value.make if isinstance(value, Late) else None
    return made.args[0] if isinstance(made, partial) and made.func is iso.curves else value


@pytest.mark.parametrize("name", PUBLIC)
def test_every_option_is_in_a_recorded_call(name: str) -> None:
    refused = {option for function, option in REFUSED_ROWS if function == name}
    assert [o for o in options_of(getattr(iso, name)) if o not in used()[name] and o not in refused] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_word_of_an_option_is_in_a_recorded_call(name: str) -> None:
    function = getattr(iso, name)
    known = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    unused = [
        (option, word)
        for option in options_of(function)
        for word in literals(known.get(option))
        if not any(type(value) is type(word) and value == word for value in used()[name].get(option, []))
        and (name, option, word) not in REFUSED
    ]
    assert unused == []


def test_every_word_of_the_audit_file_is_in_a_recorded_call() -> None:
    schema = calls_audit.CALLS["cli/schema"]()
    listed = {word for part in schema["$defs"].values() for option in WORDS for word in words(schema, part, option)}
    said = {word for options in used().values() for option in WORDS for word in spoken(options.get(option, []))}
    assert {"tpr", "auc", "equalized_odds", "milp", "profit"} <= listed
    assert sorted(listed - said - set(ALSO_CALLED)) == []  # a synonym of a metric is the same word


def literals(annotation: Any) -> Iterator[Any]:
    """The words of every `Literal` in an annotation."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from literals(part)


def words(schema: Any, part: Any, option: str) -> Iterator[str]:
    """The words that a key of the file accepts."""
    stack = [part.get("properties", {}).get(option)]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield from (word for word in node.get("enum", ()) if isinstance(word, str))
            stack += [inner for key, inner in node.items() if key in ("anyOf", "oneOf", "items")]
        elif isinstance(node, list):
            stack += node


def spoken(value: Any) -> Iterator[str]:
    """The words in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from spoken(inner)


# The recording itself.


def test_numbers_agree_to_ten_digits_and_texts_exactly() -> None:
    recorded = {"a": [1.0, 0.0, float("nan"), float("inf")], "b": "text", "n": 3}
    assert (
        list(recording.differences(recorded, {**recorded, "a": [1 + 5e-11, 5e-14, float("nan"), float("inf")]})) == []
    )
    for changed in (
        {"a": [1 + 3e-10, 0.0, float("nan"), float("inf")]},
        {"a": [1.0, 2e-13, float("nan"), float("inf")]},
        {"a": [1.0, 0.0, 1.0, float("inf")]},
        {"a": [1.0, 0.0, float("nan"), -float("inf")]},
        {"a": [1.0, 0.0]},
        {"a": [1, 0.0, float("nan"), float("inf")]},
        {"b": "text."},
        {"n": 4},
        {"n": True},
        {"more": None},
    ):
        assert len(list(recording.differences(recorded, recorded | changed))) == 1


def test_a_difference_names_the_call_the_place_and_both_values() -> None:
    text = recording.report("flag/x", {"frame": {"columns": {"n": [1, 2]}}}, {"frame": {"columns": {"n": [1, 3]}}})
    assert text.startswith("flag/x: 1 differences\n.frame.columns.n[1]")
    assert "recorded: 2" in text
    assert "seen:     3" in text


def test_answers_are_stored_as_they_are(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "ANSWERS", tmp_path)
    answer = {"x": [0.1, float("nan"), -float("inf"), 1e-300, 7, True, None], "text": "two\nlines, one of them long"}
    recording.write("topic", {"b": answer, "a": answer})
    assert json.dumps(recording.read("topic")) == json.dumps(
        {"a": dict(sorted(answer.items())), "b": dict(sorted(answer.items()))}
    )


def test_errors_and_warnings_are_answers() -> None:
    def fails() -> None:
        import warnings

        warnings.warn("careful", UserWarning, stacklevel=1)
        raise ValueError("no")

    assert recording.answer(fails) == {"error": "ValueError", "text": "no", "warned": ["UserWarning: careful"]}


def test_long_arrays_are_thinned() -> None:
    kept = recording.plain(np.arange(1000.0))
    assert (kept["shape"], kept["sum"], len(kept["some"])) == ([1000], 499500.0, 50)
    moved = np.arange(1000.0)
    moved[[1, 2]] = moved[[2, 1]] + 0.5  # neither is stored
    assert list(recording.differences(kept, recording.plain(moved)))
