"""What is wrong with an audit file, in words: the key, what was seen, what is allowed, what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from isonomy.errors import near

if TYPE_CHECKING:
    from pydantic import ValidationError

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


def explain(error: ValidationError, raw: Mapping[str, Any], file: str, text: str | None = None) -> str:
    """Every mistake on a line of its own, first in the file first."""
    mistakes: dict[Path, list[dict[str, Any]]] = {}
    for item in error.errors(include_url=False):
        mistakes.setdefault(_path(item["loc"], raw, item["type"]), []).append(dict(item))
    lines = []
    for path, items in mistakes.items():
        if any(len(other) > len(path) and other[: len(path)] == path for other in mistakes):
            continue  # a choice failed as a whole because of what is wrong inside it
        at = line_of(text, path) if text else None
        where = f"{file}, line {at}" if at else file
        lines.append((at or 0, f"{where}: {_written(path)}{_message(path, items, raw)}"))
    return "\n".join(line for _, line in sorted(lines, key=lambda pair: pair[0]))


def _path(loc: Sequence[str | int], raw: Any, kind: str) -> Path:
    """The keys of the file that lead to the mistake: pydantic's names for the branches of a choice are left out."""
    path: list[str | int] = []
    here = raw
    for place, key in enumerate(loc):
        last = place == len(loc) - 1
        inside = key in here if isinstance(here, Mapping) else isinstance(here, list) and key in range(len(here))
        if inside:
            here = here[key]
        elif not (last and kind == "missing"):
            continue
        path.append(key)
    return tuple(path)


def _written(path: Path) -> str:
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            shown = (
                key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else repr(key if len(key) < 60 else key[:57] + "...")
            )
            text += f".{shown}" if text else shown
    return f"{text}: " if text else ""


def _message(path: Path, items: list[dict[str, Any]], raw: Any) -> str:
    first = items[0]
    context = first.get("ctx", {})
    kinds = {item["type"] for item in items}
    value = _shown(first.get("input"))
    if "extra_forbidden" in kinds:
        allowed = _allowed(first["loc"])
        return f"unknown key.{near(str(path[-1]), allowed)} Allowed: {', '.join(allowed)}."
    if "missing" in kinds:
        return "this key is needed and missing."
    if kinds & {"union_tag_invalid", "union_tag_not_found"}:
        return _tag(first, context)
    if "value_error" in kinds:
        error_item = next(item for item in items if item["type"] == "value_error")
        return f"{error_item['ctx']['error']}."
    return f"{value} is not allowed.{_literals(items, first)} {_limits(items)}".rstrip()


def _tag(item: dict[str, Any], context: dict[str, Any]) -> str:
    allowed = re.findall(r"'([^']*)'", str(context.get("expected_tags", "")))
    if item["type"] == "union_tag_not_found":
        from isonomy.audit.questions import MODELS

        return f"kind: this key is needed and missing. Allowed: {', '.join(MODELS)}."
    value = context["tag"]
    return f"kind: {_shown(value)} is not allowed.{near(str(value), allowed)} Allowed: {', '.join(allowed)}."


def _literals(items: list[dict[str, Any]], first: dict[str, Any]) -> str:
    """Near matches among the words a key takes."""
    words = [w for item in items if item["type"] == "literal_error" for w in _words(item)]
    return near(str(first.get("input")), words) if words else ""


def _words(item: dict[str, Any]) -> list[str]:
    return re.findall(r"'([^']*)'", str(item.get("ctx", {}).get("expected", "")))


def _limits(items: list[dict[str, Any]]) -> str:
    """What is allowed, from every branch of the choice."""
    allowed: list[str] = []
    for item in items:
        context = item.get("ctx", {})
        if item["type"] in _TYPES:
            allowed.append(_TYPES[item["type"]])
        elif item["type"] == "literal_error":
            allowed += _words(item) or [str(context["expected"]).lower()]
        else:
            allowed.append(re.sub(r"^Input should (be|have) ", "", item["msg"]))
    return f"Allowed: {', '.join(dict.fromkeys(allowed))}."


def _allowed(loc: Sequence[str | int]) -> list[str]:
    """The keys of the table in which an unknown key stands."""
    from isonomy.audit import conditions, config, forms, questions

    tables: dict[str, Any] = {
        "data": config.Data,
        "columns": questions.Columns,
        "tolerances": config.Tolerances,
        "filters": conditions.Condition,
        "cut": conditions.Cut,
        "where": conditions.Where,
        "OwnMetric": conditions.OwnMetric,
        "estimate": conditions.EstimateOf,
        "UtilityOf": forms.UtilityOf,
        **questions.MODELS,
    }
    model: Any = config.Config
    for place, key in enumerate(loc[:-1]):
        if key == "where" and "where" in loc[:place]:
            model = conditions.Condition  # the list inside a named group, or inside a metric
        elif key == "where" and "OwnMetric" in loc[:place]:
            model = conditions.Condition
        elif isinstance(key, str) and key in tables:
            model = tables[key]
    return list(model.model_fields)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def line_of(text: str, path: Path) -> int | None:
    """The line of a key, as far as it can be told without a parser that keeps lines."""
    lines = text.splitlines()
    start, rest = 0, list(path)
    headers = [i for i, line in enumerate(lines) if line.lstrip().startswith("[")]
    if len(rest) > 1 and isinstance(rest[1], int):
        blocks = [i for i in headers if re.match(rf"\s*\[\[\s*{re.escape(str(rest[0]))}\s*\]\]", lines[i])]
        if rest[1] < len(blocks):
            start, rest = blocks[rest[1]], rest[2:]
    elif rest and any(re.match(rf"\s*\[\s*{re.escape(str(rest[0]))}\s*\]", lines[i]) for i in headers):
        start = next(i for i in headers if re.match(rf"\s*\[\s*{re.escape(str(rest[0]))}\s*\]", lines[i]))
        rest = rest[1:]
    if not rest:
        return start + 1 if path else None
    end = next((i for i in headers if i > start), len(lines))
    for i in range(start, end):
        if re.match(rf"""\s*["']?{re.escape(str(rest[0]))}["']?\s*[=.]""", lines[i]):
            return i + 1
    return start + 1 if len(path) > len(rest) else None
