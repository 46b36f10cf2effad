"""Values of an audit file that change from run to run: variables of the environment, and keys set from outside.

Both replace single values after the file has been parsed, so neither can add structure to it, and the outcome is
checked like the file itself. ``${DAY}`` stands for a variable in any text; ``$${`` is the text ``${``.
"""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any

from isonomy.errors import ConfigError, near
from isonomy.options import shown

Keys = tuple[str | int, ...]

_SETTING = re.compile(r'((?:"[^"]*"|[^"=])+)=(.*)', re.DOTALL)
_PART = re.compile(r'(?:^|\.)(?:"([^"]+)"|([^."\[\]]+))|\[(\d+)\]')
_PLAIN = re.compile(r"""true|false|[+-]?[0-9][0-9_.eE+-]*|"[^"\n]*"|'[^'\n]*'""")  # what is not read as bare text
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?")
_PLACES = (("output",), ("data", "path"), ("data", "tables"), ("data", "database"))  # keys that name files
_IN_SQL = re.compile(r"[\w.:+]+(?:-[\w.:+]+)*")  # no quotes, no spaces, no comments


def put(raw: dict[str, Any], setting: str) -> tuple[str, str, Keys]:
    """Set one key, given as ``key=value``; returns both, and the path of the first key that is new or changed.

    An item of a list is named by its number, its id or its column; ``filters.day`` is the value of that filter.
    """
    match = _SETTING.fullmatch(setting)
    key = match[1].strip() if match else ""
    parts: list[Any] = [quoted or name or int(number) for quoted, name, number in _PART.findall(key)]
    if match is None or not parts or "".join(part[0] for part in _PART.finditer(key)) != key:
        raise ConfigError(f"--set: {setting!r} is not a key and a value; write --set data.path=today.parquet.")
    here: Any = raw
    path: Keys = ()
    new: Keys = ()
    while parts:
        part = parts.pop(0)
        if isinstance(here, list):
            names = [_name(item) for item in here]
            places = [i for i, name in enumerate(names) if part in (i, str(i), name)]
            if len(places) != 1:
                fault = f"{len(places) or 'no'} entries of {key_text(path)} are called {part!r}."
                allowed = ", ".join(f"[{i}] {name}" for i, name in enumerate(names)) or "there are none"
                close = "" if places else near(str(part), names)
                raise ConfigError(f"--set {key}: {fault}{close} Allowed: {allowed}.")
            part = places[0]
            parts = parts or (["value"] if path[-1] == "filters" else [])
        elif not isinstance(here, dict):
            raise ConfigError(f"--set {key}: {key_text(path)} is a single value and has no keys.")
        elif part not in here:
            new = new or (*path, part)
            here[part] = None if not parts else [] if part == "filters" else {}
        path = (*path, part)
        if parts:
            here = here[part]
    value = _read(match[2], here[part])
    here[part] = value.replace("${", "$${") if isinstance(value, str) else value
    return key, str(value), new or path


def expand(value: Any, facts: dict[str, str], path: Keys = ()) -> Any:
    """Replace the variables in every text below ``value``, and add them to ``facts``."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        parts = {key: expand(part, facts, (*path, key)) for key, part in items}
        return parts if isinstance(value, dict) else list(parts.values())

    def content(match: re.Match[str]) -> str:
        name, where = match[1], key_text(path)
        if match[0] == "$${":
            return "${"
        if name is None:
            raise ConfigError(f"{where}: {shown(value)}: write ${{NAME}} for a variable, $${{ for the text ${{.")
        text = os.environ.get(name, "")
        if not text:
            lack = "is empty." if name in os.environ else f"is not in the environment.{near(name, os.environ)}"
            raise ConfigError(f"{where}: the variable {name} {lack}")
        if path == ("data", "query") and not _IN_SQL.fullmatch(text):
            raise ConfigError(f"{where}: {name} is {shown(text)}; allowed in a query: letters, digits and . : + - _.")
        facts[f"Variable: {name}"] = text
        return text

    if not isinstance(value, str):
        return value
    text = _VARIABLE.sub(content, value)
    upward = [re.split(r"[/\\]", part).count("..") for part in (value, text)]
    if path[:2] in _PLACES and upward[1] > upward[0]:  # also if several variables add it together
        raise ConfigError(f"{key_text(path)}: {shown(text)}; a variable in a path may not add '..'.")
    return text


def _read(text: str, old: object) -> object:
    """A value as a file would write it, where text needs no quotes. What replaces text is text, and so are dates."""
    if isinstance(old, str) or not _PLAIN.fullmatch(text):
        return text
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def _name(item: Any) -> str:
    """What an item of a list is called: the id or the kind of a test, the column of a filter, the name of a group."""
    keys = [key for key in ("id", "column", "name", "kind") if isinstance(item, dict) and key in item]
    return str(item[keys[0]] if keys else item)


def key_text(path: Keys) -> str:
    """A key as messages write it: ``tests[0].metric``; nothing for the file as a whole."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key)
            name = key if plain else repr(key if len(key) < 60 else key[:57] + "...")
            text += f".{name}" if text else name
    return text
