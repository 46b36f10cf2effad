"""`same` detects every difference at any depth, and only differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.same import is_same, numbers, same


@dataclass(frozen=True)
class Inner:
    distance: Any


@dataclass(frozen=True)
class Outer:
    pvalue: Any
    plan: Inner
    status: str = "ok"


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (1.0, 1.0 + 1e-10),
        (float("nan"), float("nan")),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan])),
        ([1.0, "a", None], (1.0, "a", None)),
        ({"b": 1, "a": [2.0]}, {"a": [2.0], "b": 1}),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (np.array([True, False]), np.array([True, False])),
        (1, 1.0),
    ],
)
def test_the_same(actual: Any, expected: Any) -> None:
    same(actual, expected)
    assert is_same(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "place"),
    [
        (1.0, 1.001, "1.0 is not 1.001"),
        (1.0, float("nan"), "nan"),
        ({"a": 1}, {"b": 1}, "keys"),
        ({"a": {"b": [1.0, 2.0]}}, {"a": {"b": [1.0, 3.0]}}, r"a\.b\[1\]"),
        (np.ones(2), np.ones(3), r"\(2,\)"),
        (np.array([1.0, 2.0]), np.array([1.0, 2.1]), r"\[1\]"),
        (np.array([[1.0], [np.nan]]), np.array([[1.0], [2.0]]), r"\[1, 0\]"),
        ([1, 2], [1], r"\[1, 2\]"),
        ("a", "b", "'a' is not 'b'"),
        (None, 1.0, "None"),
        (np.array(["a"]), np.array(["b"]), r"\[0\]"),
    ],
)
def test_not_the_same(actual: Any, expected: Any, place: str) -> None:
    assert not is_same(actual, expected)
    with pytest.raises(AssertionError, match=place):
        same(actual, expected)


def test_attributes_by_name() -> None:
    one, two = (Outer(np.array([0.1, 0.2]), Inner(np.array([1.0 + shift]))) for shift in (0.0, 1e-7))
    same(one, two, ("pvalue", "status"))
    same(one, two, ("pvalue", "plan.distance"), rel=1e-6)
    with pytest.raises(AssertionError, match=r"plan\.distance"):
        same(one, two, ("pvalue", "plan.distance"))


def test_equality_to_the_last_bit_and_another_order() -> None:
    assert not is_same(1.0, np.nextafter(1.0, 2), rel=0, abs=0)
    result = Outer(np.array([0.1, 0.2]), Inner(0.0))
    same(numbers(result, ("pvalue",), order=[1, 0]), {"pvalue": np.array([0.2, 0.1])})
