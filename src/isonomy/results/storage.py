"""Results as JSON and back. The encoding is tagged, so a reader needs no schema to rebuild a result.

Numbers that JSON cannot express ("inf", "-inf", "nan") are strings inside arrays and tagged values elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames.groups import Group
from isonomy.inference import Verdict
from isonomy.numerics.arrays import AnyArray
from isonomy.numerics.status import Status
from isonomy.options import Seed

SCHEMA_VERSION = 3  # 1: results held single rows; 2: warnings were text
# The metadata of a field that lists single rows or raw values. It is stored only on request, and otherwise as None.
OF_ROWS: Mapping[str, bool] = {"rows": True}

_TAG = "$type"
_STORABLE: dict[str, type] = {"Seed": Seed}

C = TypeVar("C", bound=type)
D = TypeVar("D")
Json = Any  # what a JSON reader returns


def storable(cls: C) -> C:
    """Register a dataclass or an enum that may be a field of a result."""
    _STORABLE[cls.__name__] = cls
    return cls


storable(Status)
storable(Verdict)


def encode(value: object, *, rows: bool = False) -> Json:
    """A value in plain JSON types. ``rows``: include the fields marked `OF_ROWS`, which are otherwise None."""
    match value:
        case Enum():
            return {_TAG: type(value).__name__, "value": value.value}
        case None | bool() | str():
            return value
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            number = float(value)
            return number if math.isfinite(number) else {_TAG: "float", "value": str(number)}
        case np.bool_():
            return bool(value)
        case Decimal():
            return {_TAG: "decimal", "value": str(value)}
        case np.ndarray():
            return _encode_array(value)
        case Group():
            stored = {_TAG: "Group", "items": [[name, encode(level, rows=rows)] for name, level in value.items]}
            return stored | ({"name": value.name} if value.name else {})
        case date():
            return {_TAG: "datetime" if isinstance(value, datetime) else "date", "value": value.isoformat()}
        case time():
            return {_TAG: "time", "value": value.isoformat()}
        case Mapping():
            return {_TAG: "mapping", "items": [[encode(k), encode(v, rows=rows)] for k, v in value.items()]}
        case tuple() | list():
            return [encode(item, rows=rows) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        find_class(type(value).__name__)  # raises for what could not be read back
        parts = {
            name: encode(getattr(value, name), rows=rows) if rows or "rows" not in part.metadata else None
            for name, part in _stored(type(value)).items()
        }
        return {_TAG: type(value).__name__} | parts
    raise TypeError(f"cannot store a {type(value).__name__} in a result")


@cache
def _stored(cls: Any) -> dict[str, Field[Any]]:
    """The fields of a class by the names under which they are stored: private ones under that of their property."""
    return {part.name.removeprefix("_"): part for part in fields(cls)}


def _encode_array(array: AnyArray) -> dict[str, Json]:
    flat = array.ravel().tolist()
    if array.dtype.kind == "f":
        flat = [number if math.isfinite(number) else str(number) for number in flat]
    elif array.dtype.kind in "OUM":
        flat = [encode(item) for item in flat]
    kind = "object" if array.dtype.kind == "O" else array.dtype.str
    return {_TAG: "array", "dtype": kind, "shape": list(array.shape), "data": flat}


def decode(value: Json) -> Json:
    """The value that `encode` encoded. Lists come back as tuples, arrays read-only."""
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    tag = value.get(_TAG)
    match tag:
        case "array":
            return _decode_array(value)
        case "float":
            return _float(value["value"])
        case "decimal":
            return Decimal(value["value"])
        case "mapping":
            return {decode(k): decode(v) for k, v in value["items"]}
        case "Group":
            items = tuple((str(name), decode(level)) for name, level in value["items"])
            return Group(items, str(value.get("name", "")))
        case "datetime" | "date":
            return (datetime if tag == "datetime" else date).fromisoformat(value["value"])
        case "time":
            return time.fromisoformat(value["value"])
    cls: Any = find_class(tag)
    if issubclass(cls, Enum):
        return cls(value["value"])
    names: dict[str, str] = {name: part.name for name, part in _stored(cls).items()}
    return typed(cls(**{str(names.get(name, name)): decode(item) for name, item in value.items() if name != _TAG}))


def typed(part: D) -> D:
    kind: Any = type(part)
    for name, annotation in _annotations(kind).items():
        if not _fits(getattr(part, name), annotation):
            raise TypeError(f"{kind.__name__}.{name} is a {type(getattr(part, name)).__name__}")
    return part


@cache
def _annotations(cls: Any) -> dict[str, object]:
    """The annotation of each field; empty if only a type checker can resolve them."""
    try:
        known = get_type_hints(cls)
    except NameError:
        return {}
    return {part.name: known[part.name] for part in fields(cls)}


def _fits(value: object, annotation: object) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in inner)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in inner)
    if annotation is Any:
        return True
    if origin is np.ndarray:
        scalar = next((part for part in get_args(inner[1]) if isinstance(part, type)), object)
        bases = [base for base in (np.floating, np.integer, np.bool_) if issubclass(scalar, base)]
        return isinstance(value, np.ndarray) and all(issubclass(value.dtype.type, base) for base in bases)
    if origin is tuple and isinstance(value, tuple):
        if inner and inner[-1] is Ellipsis:
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(_fits(item, part) for item, part in zip(value, inner, strict=True))
    kind = origin or annotation
    if kind in (float, int):
        return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    return not isinstance(kind, type) or kind is object or isinstance(value, kind)


# Numbers, booleans, text, dates and objects; no type that would allocate memory before its values are read.
_DTYPE = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|U\d+|M8(\[\w+\])?)|object")


def _float(text: Json) -> float:
    """A number that JSON cannot hold: NaN or an infinite one."""
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{str(text)[:40]!r} instead of nan, inf or -inf")
    return float(text)


def _decode_array(value: dict[str, Json]) -> AnyArray:
    data, shape = value["data"], value["shape"]
    whole = isinstance(shape, list) and all(isinstance(length, int) and length >= 0 for length in shape)
    if not isinstance(data, list) or not whole or math.prod(shape) != len(data):
        raise ValueError("an array's shape does not fit its values")
    if not isinstance(value["dtype"], str) or not _DTYPE.fullmatch(value["dtype"]):
        raise ValueError(f"an array of {str(value['dtype'])[:40]!r}")
    text = "U" in value["dtype"]
    dtype = np.dtype(object if text else value["dtype"])
    if dtype.kind == "f":
        data = [_float(item) if isinstance(item, str) else item for item in data]
    elif dtype.kind in "OM":
        data = [decode(item) for item in data]
    flat = np.empty(len(data), dtype=dtype)
    flat[:] = data
    array = (flat.astype(np.str_) if text else flat).reshape(shape)  # as wide as the longest text
    array.flags.writeable = False
    return array


def find_class(name: object) -> type:
    """The class stored under ``name``: a part registered here, or a result exported by isonomy."""
    if name in _STORABLE:
        return _STORABLE[str(name)]
    import isonomy

    exported = getattr(isonomy, name, None) if isinstance(name, str) and name in isonomy.__all__ else None
    if not (isinstance(exported, type) and is_dataclass(exported)):
        raise UsageError(f"from_json: unknown result type {name!r}; it was written by another version of isonomy.")
    return exported


def check_version(what: str, version: object) -> None:
    """Raise unless this version of isonomy reads files of the schema ``version``."""
    if version == SCHEMA_VERSION:
        return
    older = isinstance(version, int) and version < SCHEMA_VERSION
    advice = " Compute it again, or read it with the version of isonomy that wrote it." if older else ""
    raise UsageError(f"{what}: schema_version is {version!r}; this version of isonomy reads {SCHEMA_VERSION}.{advice}")


def from_dict(stored: Mapping[str, Json]) -> Any:
    """Rebuild a result from ``to_dict()``.

    Its ``to_frame()`` is polars: the caller's own library is not stored.
    """
    check_version("from_json", stored.get("schema_version"))
    if "tests" in stored and "result" not in stored:
        raise UsageError(
            "from_json: this is a whole audit (results.json), not one result; isonomy.AuditResult.from_json reads it."
        )
    body: Json = stored.get("result")
    try:
        cls = find_class(body[_TAG])  # loading its module registers the parts of the result
        result = decode(body)
        if not hasattr(cls, "summary"):
            raise TypeError(f"a {cls.__name__} is not a result")
        result.to_frame()  # raises for numbers of the wrong type or length
        result.summary()
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # a file may hold anything instead of a result
        raise UsageError(f"from_json: not a stored result ({type(error).__name__}: {str(error)[:200]}).") from None
    return result


def from_json(text: str) -> Any:
    """Rebuild a result from ``to_json()``."""
    try:
        stored = json.loads(text)
    except RecursionError:
        raise UsageError("from_json: nested too deeply.") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"from_json: not JSON ({error}).") from None
    if not isinstance(stored, dict):
        raise UsageError("from_json: a JSON object is needed.")
    return from_dict(stored)


# ---- files that appear complete or not at all

PARTIAL = ".partial"  # how the name of an incomplete file ends
LARGEST = 500_000_000  # bytes of a file that is read whole


def read(path: Path) -> str:
    """The text of a file; raises `OSError` or `ValueError` if it cannot be read, may have no end, or is not text."""
    if path.is_char_device() or path.is_block_device():
        raise ValueError("it is a device, not a file")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    return content.decode("utf-8-sig")


def write(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically: readers see the old file or the new one, never a part."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        with partial.open("xb") as file:  # with the permissions of the umask
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
