"""The answers of calls in plain types, how they are stored, and how two of them are compared."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

import isonomy as iso

ANSWERS = Path(__file__).parent / "answers"
RELATIVE, ABSOLUTE = 1e-10, 1e-13
MOST = 120  # entries of an array, or rows of a frame; longer ones are thinned, and their sums are recorded
# Options that change numbers but not the kind of chart.
ALIKE = (
    *("adjust", "alpha", "bandwidth", "baseline", "budget", "center", "cluster", "condition", "correction", "count"),
    *(
        "cut",
        "engine",
        "estimator",
        "features",
        "form",
        "level",
        "min_size",
        "missing",
        "most",
        "positive",
        "power",
        "progress",
    ),
    *("profit", "propensity", "rng", "role", "search", "weight", "where", "words"),
)
REFUSES = "/refuses/"  # in the name of a call that raises

Thunk = Callable[[], Any]


@dataclass(frozen=True)
class Late:
    """An argument that is created when the call is made: a connection, a generator, a fitted model."""

    make: Thunk


@dataclass(frozen=True)
class Call:
    """One call of a public function or class: its arguments, and what is done with the result."""

    function: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    then: Callable[[Any], Any] | None = None
    draw: bool = True  # whether the chart is recorded too

    def __call__(self) -> Any:
        given = [_made(value) for value in self.arguments]
        named = {name: _made(value) for name, value in self.options.items()}
        answer = getattr(iso, self.function)(*given, **named)
        return answer if self.then is None else self.then(answer)


def _made(value: Any) -> Any:
    return value.make() if isinstance(value, Late) else value


@dataclass
class Calls:
    """The calls of a topic, by name."""

    calls: dict[str, Thunk] = field(default_factory=dict)

    drawn: set[str] = field(default_factory=set)

    def add(
        self,
        function: str,
        name: str,
        /,
        *arguments: Any,
        then: Callable[[Any], Any] | None = None,
        draw: bool | None = None,
        **options: Any,
    ) -> None:
        """Keep the call of a public function under ``function/name``.

        Charts take longer than most calls: unless ``draw`` says otherwise, one is recorded for the first call of each
        ``function/first part of the name`` that may change it.
        """
        kind = f"{function}/{name.partition('/')[0]}"
        chart = kind not in self.drawn and name.partition("/")[0] not in ALIKE if draw is None else draw
        self.drawn.add(kind)
        self.keep(f"{function}/{name}", Call(function, arguments, options, then, chart))

    def keep(self, name: str, call: Thunk) -> None:
        """Keep any call under its full name."""
        assert name not in self.calls, f"two calls are named {name}"
        self.calls[name] = call


@dataclass(frozen=True)
class Fitted:
    """An estimator after ``fit``, with what it predicts."""

    estimator: Any
    predictions: Mapping[str, Any]


def fitted(X: Any, y: Any = None, new: Any = None, **fit: Any) -> Callable[[Any], Fitted]:
    """A function that fits an estimator on ``X``, and predicts ``X`` (or the ``new`` rows)."""

    def fit_and_predict(estimator: Any) -> Fitted:
        model = estimator.fit(X, y, **fit)
        rows = X if new is None else new
        names = [name for name in ("predict", "transform", "predict_chance") if hasattr(model, name)]
        return Fitted(model, {name: getattr(model, name)(rows) for name in names})

    return fit_and_predict


def answer(call: Thunk) -> dict[str, Any]:
    """The answer of a call in plain types: its value, or the error it raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        try:
            value = described(call(), draw=getattr(call, "draw", True))
        except Exception as error:
            value = {"error": type(error).__name__, "text": str(error)}
    messages = [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    return value | ({"warned": list(dict.fromkeys(messages))} if messages else {})


def described(value: Any, *, draw: bool) -> dict[str, Any]:
    """Any answer in plain types."""
    if isinstance(value, iso.Evidence):
        return _result(value) | ({"chart": _chart(value)} if draw else {})
    if isinstance(value, Fitted):
        return _fitted(value)
    return {"type": type(value).__name__, "value": plain(value)}


def _result(result: iso.Evidence) -> dict[str, Any]:
    frame = _frame(result.to_frame("polars"))
    findings, messages = list(result.findings()), list(result.warnings)
    return {
        "type": type(result).__name__,
        "verdict": result.verdict.value,
        "answered": result.answered,
        "rows": result.provenance.rows,
        "dropped": dict(result.provenance.dropped),
        "frame": frame,
        "headline": result.headline(),
        "null": result.null,
        "findings": findings,
        "warnings": messages,
        "assumptions": [list(pair) for pair in result.assumptions()],
        "limits": list(result.limits()),
        "summary": result.summary(),
        "published": _published(result, frame, findings, messages),
        "stored": _stored(result, frame),
    }


def _published(result: iso.Evidence, frame: Any, findings: list[str], messages: list[str]) -> dict[str, Any]:
    """The copy for publication: everything in which it differs from the result."""
    try:
        copy = result.published(15)
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}
    if copy is result:
        return {"same": True}
    shown = _frame(copy.to_frame("polars"))
    changed = {name: values for name, values in shown["columns"].items() if not _same(values, frame["columns"][name])}
    return {
        "verdict": copy.verdict.value,
        "columns": changed,
        **({} if list(copy.findings()) == findings else {"findings": list(copy.findings())}),
        **({} if list(copy.warnings) == messages else {"warnings": list(copy.warnings)}),
    }


def _stored(result: iso.Evidence, frame: Any) -> dict[str, bool]:
    """Whether the result survives a round trip through JSON."""
    back = iso.from_json(result.to_json())
    return {"frame": _same(_frame(back.to_frame("polars")), frame), "summary": back.summary() == result.summary()}


def _chart(result: iso.Evidence) -> dict[str, Any]:
    """The titles of the chart, and the minimum, maximum and size of each numeric column that it draws."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):  # altair's checks of each part take most of the time
        drawn: dict[str, Any] = result.plot().to_dict(validate=False)
    columns = []
    for rows in drawn.get("datasets", {}).values():
        for name in dict.fromkeys(key for row in rows for key in row):
            values = [row[name] for row in rows if isinstance(row.get(name), (int, float))]
            if values:
                columns.append([name, float(min(values)), float(max(values)), len(values)])
    return {"titles": [_text(title) for title in _titles(drawn)], "columns": sorted(columns, key=_order)}


def _titles(drawn: Any) -> Iterator[Any]:
    for part in ([drawn] if isinstance(drawn, dict) else drawn) or ():
        if part.get("title") is not None:
            yield part["title"]
        for kind in ("layer", "hconcat", "vconcat", "concat"):
            yield from _titles(part.get(kind, []))


def _text(title: Any) -> Any:
    return {key: title[key] for key in ("text", "subtitle") if key in title} if isinstance(title, dict) else title


def _order(column: list[Any]) -> tuple[Any, ...]:
    name, low, high, number = column
    return name, number, f"{low:.6g}", f"{high:.6g}"


def _fitted(fit: Fitted) -> dict[str, Any]:
    model = fit.estimator
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    attributes = {name: getattr(model, name) for name in names}
    return {
        "type": type(model).__name__,
        "predictions": plain(fit.predictions),
        "attributes": {name: plain(value) for name, value in attributes.items() if _is_plain(value)},
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str, np.ndarray, np.generic, Enum, iso.Group)) or value is None


def plain(value: Any) -> Any:
    """A value in JSON types; long arrays and frames are thinned, with their sums."""
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, iso.Group):
        return value.label
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain(inner) for inner in parts]
    if isinstance(value, iso.Evidence):
        return _result(value)
    if hasattr(value, "to_frame"):
        return _frame(value.to_frame("polars"))
    frame: Any = nw.from_native(value, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        return _frame(frame.to_polars())
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    return f"a {type(value).__name__}"


def _array(values: np.ndarray[Any, Any]) -> Any:
    if values.size <= MOST:
        return plain(values.tolist())
    flat = values.ravel()
    summary: dict[str, Any] = {"shape": list(values.shape), "some": plain(flat[:: -(-flat.size // 50)].tolist())}
    if values.dtype.kind in "fiub":
        numbers = flat.astype(float)[np.isfinite(flat.astype(float))]
        summary |= {"finite": numbers.size, "sum": float(numbers.sum()), "squares": float((numbers**2).sum())}
    return summary


def _frame(frame: pl.DataFrame) -> dict[str, Any]:
    thin = frame.gather_every(-(-len(frame) // MOST)) if len(frame) > MOST else frame
    columns = {name: plain(thin[name].to_list()) for name in frame.columns}
    return {"rows": len(frame), "order": frame.columns, "columns": columns}


def _same(first: Any, second: Any) -> bool:
    """Whether two plain values are the same to the last digit; NaN equals NaN."""
    return json.dumps(first) == json.dumps(second)


# ---- storage


def path_of(topic: str) -> Path:
    """The file of a topic's answers."""
    return ANSWERS / f"{topic}.json"


def write(topic: str, answers: Mapping[str, Any]) -> None:
    """Write the answers of a topic. A line of text is stored once, however many answers contain it."""
    texts: dict[str, str] = {}
    packed = {name: _packed(value, texts) for name, value in answers.items()}
    lines = [f"{json.dumps(name)}: {_compact(packed[name])}" for name in sorted(packed)]
    shared = [f"{json.dumps(key)}: {_compact(texts[key])}" for key in sorted(texts)]
    text = '{"answers": {\n' + ",\n".join(lines) + '\n}, "texts": {\n' + ",\n".join(shared) + "\n}}\n"
    ANSWERS.mkdir(exist_ok=True)
    path_of(topic).write_text(text, encoding="utf-8")


def read(topic: str) -> dict[str, Any]:
    """The recorded answers of a topic, by the names of its calls."""
    stored = json.loads(path_of(topic).read_text(encoding="utf-8"))
    return {name: _unpacked(value, stored["texts"]) for name, value in stored["answers"].items()}


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


LONG = 24  # characters from which a line is stored separately


def _packed(value: Any, texts: dict[str, str]) -> Any:
    if isinstance(value, str) and ("\n" in value or len(value) >= LONG):
        return {"$": [_keyed(line, texts) for line in value.split("\n")]}
    if isinstance(value, dict):
        return {key: _packed(inner, texts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_packed(inner, texts) for inner in value]
    return value


def _keyed(line: str, texts: dict[str, str]) -> str:
    key = hashlib.sha256(line.encode()).hexdigest()[:9]
    assert texts.setdefault(key, line) == line
    return key


def _unpacked(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, dict) and value.keys() == {"$"}:
        return "\n".join(texts[key] for key in value["$"])
    if isinstance(value, dict):
        return {key: _unpacked(inner, texts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unpacked(inner, texts) for inner in value]
    return value


# ---- comparison


def differences(recorded: Any, seen: Any, place: str = "") -> Iterator[str]:
    """The differences of two answers: the path inside the answer, the recorded value and the new one."""
    if isinstance(recorded, dict) and isinstance(seen, dict):
        for key in sorted(recorded.keys() | seen.keys()):
            if key not in seen or key not in recorded:
                where = "is not there any more" if key in recorded else "is new"
                yield f"{place}.{key} {where}: {_shown((recorded if key in recorded else seen)[key])}"
            else:
                yield from differences(recorded[key], seen[key], f"{place}.{key}")
    elif isinstance(recorded, list) and isinstance(seen, list) and len(recorded) == len(seen):
        for i, (one, other) in enumerate(zip(recorded, seen, strict=True)):
            yield from differences(one, other, f"{place}[{i}]")
    elif isinstance(recorded, str) and isinstance(seen, str) and "\n" in recorded + seen:
        lines = zip_longest(recorded.split("\n"), seen.split("\n"))
        for i, (one, other) in enumerate(lines, start=1):
            if one != other:
                yield f"{place}, line {i}\n  recorded: {_shown(one)}\n  seen:     {_shown(other)}"
                return
    elif not _agree(recorded, seen):
        yield f"{place}\n  recorded: {_shown(recorded)}\n  seen:     {_shown(seen)}"


def _agree(recorded: Any, seen: Any) -> bool:
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (recorded, seen))
    if not numbers or (isinstance(recorded, int) and isinstance(seen, int)):
        return type(recorded) is type(seen) and bool(recorded == seen)
    if type(recorded) is not type(seen):
        return False
    if not (math.isfinite(recorded) and math.isfinite(seen)):
        return recorded == seen or (math.isnan(recorded) and math.isnan(seen))
    return math.isclose(recorded, seen, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]} ..."


def report(name: str, recorded: Any, seen: Any) -> str:
    """The differences of one call in words; empty if there are none."""
    lines = list(differences(recorded, json.loads(json.dumps(seen))))
    more = f"\n... and {len(lines) - 20} more" if len(lines) > 20 else ""
    return "" if not lines else "\n".join([f"{name}: {len(lines)} differences", *lines[:20]]) + more
