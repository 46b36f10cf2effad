"""Compare the numbers of two results, tables, arrays or JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np


def same(actual: object, expected: object, names: Sequence[str] = (), *, rel: float = 1e-9, abs: float = 1e-12) -> None:
    """Assert that two objects have the same numbers and are otherwise equal.

    Parameters
    ----------
    actual, expected : object
        Results (then give ``names``), or nested mappings, sequences, arrays and scalars. NaN equals NaN.
    names : sequence of str, optional
        Attributes to compare, with dots for nested ones: "plan.distance".
    rel, abs : float
        Numbers a and b are the same if |a - b| <= abs + rel |b|; if both are 0, they must be equal bit by bit.

    Examples
    --------
    >>> same({"p": np.array([0.1, np.nan])}, {"p": np.array([0.1 + 1e-12, np.nan])})
    >>> same([0.1], [0.2])
    Traceback (most recent call last):
        ...
    AssertionError: [0]: 0.1 is not 0.2
    """
    if names:
        actual, expected = numbers(actual, names), numbers(expected, names)
    differences = _differences(actual, expected, "", rel, abs)
    assert not differences, "\n".join(differences)


def is_same(actual: object, expected: object, *, rel: float = 1e-9, abs: float = 1e-12) -> bool:
    """Whether `same` would pass."""
    return not _differences(actual, expected, "", rel, abs)


def numbers(result: object, names: Sequence[str], order: Sequence[int] | None = None) -> dict[str, Any]:
    """The named attributes of a result, each in the given order of groups."""
    values = {name: reduce(getattr, name.split("."), result) for name in names}
    return values if order is None else {name: np.asarray(value)[list(order)] for name, value in values.items()}


def _differences(actual: Any, expected: Any, place: str, rel: float, abs: float) -> list[str]:
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or set(actual) != set(expected):
            return [f"{place or 'keys'}: {_keys(actual)} is not {_keys(expected)}"]
        pairs = [(f"{place}.{key}".lstrip("."), actual[key], expected[key]) for key in expected]
    elif isinstance(expected, np.ndarray) and expected.dtype.kind in "fciub":
        return _arrays(np.asarray(actual), expected, place, rel, abs)
    elif isinstance(expected, (list, tuple, np.ndarray)):
        if not isinstance(actual, (list, tuple, np.ndarray)) or len(actual) != len(expected):
            return [f"{place}: {actual!r} is not {expected!r}"]
        pairs = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
    elif isinstance(expected, (float, np.floating)) and isinstance(actual, (int, float, np.number)):
        close = np.isclose(float(actual), float(expected), rtol=rel, atol=abs, equal_nan=True)
        return [] if close else [f"{place}: {actual!r} is not {expected!r}"]
    else:
        return [] if actual == expected else [f"{place}: {actual!r} is not {expected!r}"]
    return [line for name, a, b in pairs for line in _differences(a, b, name, rel, abs)]


def _arrays(
    actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], place: str, rel: float, abs: float
) -> list[str]:
    if actual.shape != expected.shape or actual.dtype.kind not in "fciub":
        return [f"{place}: {actual.dtype} {actual.shape} is not {expected.dtype} {expected.shape}"]
    apart = ~np.isclose(actual, expected, rtol=rel, atol=abs, equal_nan=True)
    if not apart.any():
        return []
    first = tuple(int(i) for i in np.argwhere(apart)[0])
    return [f"{place}[{', '.join(map(str, first))}]: {actual[first]!r} is not {expected[first]!r}"]


def _keys(value: object) -> str:
    return repr(list(value)) if isinstance(value, Mapping) else repr(value)
