"""What a reference may be, and which are refused before a row is read."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UnknownColumn, UnknownOption, UsageError
from isonomy.groups import Estimate
from support.groups import EVERY_TYPE as DATA

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
M = iso.Metric("m", iso.col("x"))
POSITIVE = iso.where("pos", iso.col("p") == 1)


def test_a_lookup_by_an_influence_column_that_is_missing(lender: dict[str, Any]) -> None:
    with pytest.raises(UnknownColumn, match="psi"):
        iso.flag(lender, **RATE, reference=Estimate(0.4, "psi"))


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_named_condition_or_its_negation(value: Any) -> None:
    result = iso.flag(DATA, metric=M, groups=["g", POSITIVE], reference={"pos": value})
    chosen = (DATA["p"] == 1) == value
    assert result.reference_value[0] == pytest.approx(DATA["x"][chosen].mean())
    assert result.reference == f"pos={bool(value)}"
    column = iso.flag(DATA, metric=M, groups="g", reference={"p": int(value)})
    assert result.statistic[:2] == pytest.approx(column.statistic, rel=1e-9)


def test_a_group_of_a_result_is_a_reference() -> None:
    first = iso.flag(DATA, metric=M, groups=["g", POSITIVE])
    result = iso.flag(DATA, metric=M, groups=["g", POSITIVE], reference=first.groups[-1])
    assert result.reference == "pos"
    assert result.reference_value[0] == pytest.approx(DATA["x"][DATA["p"] == 1].mean())


@pytest.mark.parametrize(
    ("reference", "error", "words"),
    [
        ({"pos": "nonsense"}, UnknownOption, r"reference\['pos'\]: 'nonsense' .*True, False"),
        ({"pos": 1}, UnknownOption, r"reference\['pos'\]: 1 .*True, False"),
        ({"h": "1"}, UsageError, r"reference\['h'\]: '1' .*'h'.* give a number"),
        ({"age": "<25"}, UsageError, r"reference\['age'\]: '<25' .*iso\.cut"),
        ({"g": ["a"]}, UsageError, r"reference\['g'\]: \['a'\] .* give text"),
        ({"g": 1}, UsageError, r"reference\['g'\]: 1 .* give text"),
        ({"day": "2024-01-01"}, UsageError, r"reference\['day'\]: '2024-01-01' .* give a date"),
        ({"yes": "true"}, UnknownOption, r"reference\['yes'\]: 'true' .*True, False"),
        (np.array([0.1, 0.2]), UnknownOption, "reference: .*population"),
    ],
    ids=str,
)
def test_a_reference_that_cannot_be_is_named(reference: Any, error: type[Exception], words: str) -> None:
    for ask in (iso.flag, iso.certify):
        with pytest.raises(error, match=words):
            ask(DATA, metric=M, groups=["g", POSITIVE], reference=reference)


@pytest.mark.parametrize(
    ("reference", "chosen"),
    [
        ({"h": np.int64(2)}, DATA["h"] == 2),
        ({"h": 2.0}, DATA["h"] == 2),
        ({"p": True}, DATA["p"] == 1),
        ({"day": date(2024, 1, 2)}, np.array(DATA["day"]) == date(2024, 1, 2)),
        ({"yes": False}, ~DATA["yes"]),
    ],
    ids=str,
)
def test_levels_of_every_type(reference: Any, chosen: Any) -> None:
    result = iso.flag(DATA, metric=M, groups="g", reference=reference)
    assert result.reference_value[0] == pytest.approx(DATA["x"][chosen].mean())


@pytest.mark.parametrize("number", [np.int64(0), np.float32(0.5), 0.25])
def test_numbers_of_every_type(number: Any) -> None:
    result = iso.flag(DATA, metric=M, groups="g", reference=number)
    assert result.reference_value[0] == float(number)
    assert iso.from_json(result.to_json()).reference_value[0] == float(number)


def test_a_number_has_no_error_to_leave_out() -> None:
    with pytest.raises(UsageError, match="uncertainty: 'plugin'"):
        iso.flag(DATA, metric=M, groups="g", reference=0.5, uncertainty="plugin")
    options: dict[str, Any] = {"metric": M, "groups": "g", "reference": 0.5}
    fixed, default = iso.flag(DATA, uncertainty="fixed", **options), iso.flag(DATA, **options)
    assert fixed.statistic.tolist() == default.statistic.tolist()


def test_an_estimate_is_checked_when_it_is_made() -> None:
    with pytest.raises(UsageError, match=r"^value: 'a' is not allowed; give a finite number"):
        Estimate("a", "f")  # type: ignore[arg-type]
