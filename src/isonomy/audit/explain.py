"""Mistakes in an audit file, in words: the key, the value, the values allowed, and the near match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel

from isonomy.errors import near
from isonomy.frames.metrics import ALSO_CALLED as METRICS
from isonomy.options import also_called, hints, shown
from isonomy.results import find_question

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "datetime_type": "a date and time",
    "date_type": "a date",
    "date_from_datetime_inexact": "a date",
    "none_required": "nothing",
    "finite_number": "a finite number",
}

Path = tuple[str | int, ...]


def explain(error: ValidationError, raw: Mapping[str, object], file: str, text: str | None = None) -> str:
    """One line for each mistake, in the order of the file."""
    mistakes: dict[Path, list[ErrorDetails]] = {}
    for item in error.errors(include_url=False):
        mistakes.setdefault(_path(item["loc"], raw, item["type"]), []).append(item)
    lines = []
    for path, items in mistakes.items():
        if any(len(other) > len(path) and other[: len(path)] == path for other in mistakes):
            continue  # a choice failed as a whole because of what is wrong inside it
        line = line_of(text, path) if text else None
        where = f"{file}, line {line}" if line else file
        lines.append((line or 0, f"{where}: {_written(path)}{_message(path, items, raw)}"))
    return "\n".join(message for _, message in sorted(lines, key=lambda pair: pair[0]))


def _path(loc: Path, raw: object, kind: str) -> Path:
    """The keys of the file that lead to the mistake, without pydantic's names for the branches of a choice."""
    path: list[str | int] = []
    here = raw
    for place, key in enumerate(loc):
        inner = dict(enumerate(here)) if isinstance(here, list) else here if isinstance(here, Mapping) else {}
        if key in inner:
            here = inner[key]
        elif not (kind == "missing" and place == len(loc) - 1):
            continue
        path.append(key)
    return tuple(path)


def _written(path: Path) -> str:
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key)
            name = key if plain else repr(key if len(key) < 60 else key[:57] + "...")
            text += f".{name}" if text else name
    return f"{text}: " if text else ""


def _message(path: Path, items: list[ErrorDetails], raw: Mapping[str, object]) -> str:
    from isonomy.audit.config import MODELS

    first = items[0]
    kinds = {item["type"]: item for item in items}
    if "extra_forbidden" in kinds:
        allowed, moved = _allowed(first["loc"]), _moved(path, raw)
        if moved:
            return f"it has moved; in Python, write {moved.replace('{}', '...')}. Allowed: {', '.join(allowed)}."
        return f"unknown key.{near(str(path[-1]), allowed)} Allowed: {', '.join(allowed)}."
    if path == ("tests",) and {"missing", "too_short"} & set(kinds):
        return "there are no tests; write at least one [[tests]] table, or remove the # from one in the file."
    if "missing" in kinds:
        return "this key is required."
    if "union_tag_not_found" in kinds:
        return f"kind: this key is required. Allowed: {', '.join(MODELS)}."
    if "union_tag_invalid" in kinds:
        kind = first["ctx"]["tag"]
        return f"kind: {shown(kind)} is not allowed.{near(str(kind), MODELS)} Allowed: {', '.join(MODELS)}."
    if "value_error" in kinds:
        return f"{str(kinds['value_error']['ctx']['error']).rstrip('.')}."
    words, others = _choices(items)
    given, choices = first["input"], dict.fromkeys([*words, *others])
    hint = _group_hint(path, given, raw) or _alias(given, words) or near(str(given), words)
    return f"{shown(given)} is not allowed.{hint} Allowed: {', '.join(choices)}."


def _moved(path: Path, raw: Mapping[str, object]) -> str:
    """What replaces a key of an earlier version; empty if the key never existed."""
    tests = raw.get("tests")
    if len(path) != 3 or path[0] != "tests" or not isinstance(tests, list):
        return ""
    return find_question(tests[int(path[1])]["kind"]).moved.get(str(path[2]), "")


def _alias(given: object, words: list[str]) -> str:
    """Isonomy's word for another library's name."""
    from isonomy.audit.config import MODELS, annotation_of

    name = str(given).lower().replace("-", "_").replace(" ", "_")
    annotations = (annotation_of(kind, key) for kind in MODELS for key in hints(find_question(kind).function))
    known = (METRICS, *map(also_called, annotations))
    ours = next((names[name] for names in known if names.get(name) in words), None)
    return "" if ours is None else f" It is called {ours!r} here."


def _group_hint(path: Path, given: object, raw: Mapping[str, object]) -> str:
    """How a reference group is written, if only its value was given."""
    if path[-1:] != ("reference",) or not isinstance(given, str):
        return ""
    test: object = raw
    for key in path[:-1]:
        test = test[key] if isinstance(test, (list, Mapping)) else {}  # type: ignore[index]
    homes = [home for home in (test, raw.get("columns")) if isinstance(home, Mapping)]
    groups: object = next((home["groups"] for home in homes if home.get("groups")), [])
    listed = groups if isinstance(groups, list) else [groups]
    columns = [spec.get("column") if isinstance(spec, Mapping) else spec for spec in listed]
    written = [f"{{{column} = {shown(given)}}}" for column in columns if isinstance(column, str)]
    forms = " or ".join(written[:3]) if written else f"{{column = {shown(given)}}}"
    return f" A group is written with its column: {forms}."


def _choices(items: list[ErrorDetails]) -> tuple[list[str], list[str]]:
    """What is allowed, from every branch of the choice: words, and everything else."""
    words: list[str] = []
    others: list[str] = []
    for item in items:
        if item["type"] == "literal_error":
            expected = str(item["ctx"]["expected"])
            words += re.findall(r"'([^']*)'", expected) or [expected.lower()]
        else:
            others.append(_TYPES.get(item["type"]) or re.sub(r"^Input should (be|have) ", "", item["msg"]))
    return words, others


def _allowed(loc: Path) -> list[str]:
    """The keys of the table in which an unknown key stands: ``loc`` names its keys, and the branches of choices."""
    from isonomy.audit.config import Config

    here: list[type[BaseModel]] = [Config]
    for key in loc[:-1]:
        branch = re.sub(r"function-\w+\[.*, (\w+)\]", r"\1", str(key))  # of a model with a validator
        fields = [model.model_fields[branch] for model in here if branch in model.model_fields]
        named = [model for model in here if model.__name__ in (branch, branch.title().replace("_", ""))]
        here = [model for field in fields for model in _models(field.annotation)] or named or here
    return list(dict.fromkeys(key for model in here for key in model.model_fields))


def _models(annotation: object) -> list[type[BaseModel]]:
    """The models in an annotation, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def line_of(text: str, path: Path) -> int | None:
    """The line of a key, as far as it can be found without a parser that keeps lines."""
    lines = text.splitlines()
    start, rest = 0, path
    headers = [i for i, line in enumerate(lines) if line.lstrip().startswith("[")]
    table, number = (*path, 0, 0)[:2]
    listed = len(path) > 1 and isinstance(number, int)  # [[table]]: its blocks are numbered
    header = re.compile(rf"\s*\[{{{1 + listed}}}\s*{re.escape(str(table))}\s*\]")
    blocks = [i for i in headers if header.match(lines[i])]
    place = int(number) if listed else 0
    if place < len(blocks):
        start, rest = blocks[place], path[1 + listed :]
    if not rest:
        return start + 1 if path else None
    end = next((i for i in headers if i > start), len(lines))
    for i in range(start, end):
        if re.match(rf"""\s*["']?{re.escape(str(rest[0]))}["']?\s*[=.]""", lines[i]):
            return i + 1
    return start + 1 if len(path) > len(rest) else None
