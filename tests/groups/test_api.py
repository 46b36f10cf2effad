"""What may be asked, and what is said about a call that cannot be answered."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData, UnknownColumn, UnknownOption, UsageError

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reference": 1.2}, UsageError, "between 0 and 1"),
        ({"reference": {"race": "z"}}, UsageError, "no row"),
        ({"reference": {"rase": "a"}}, UnknownColumn, "race"),
        ({"reference": {}}, UsageError, "empty"),
        ({"reference": "everyone"}, UnknownOption, "population"),
        ({"uncertainty": "fixed"}, UsageError, "number"),
        ({"uncertainty": "sure"}, UnknownOption, "joint"),
        ({"interval": "one-sided"}, UsageError, "alternative"),
        ({"interval": "one-sided", "alternative": "less", "tolerance": 0.1}, UsageError, "within the tolerance"),
        ({"interval": "wide"}, UnknownOption, "pointwise"),
        ({"adjust": "bho"}, UnknownOption, "bh"),
        ({"method": "el2"}, UnknownOption, "eel"),
        ({"min_size": 0}, UsageError, "whole number"),
        ({"correction": "bartlett", "resamples": 0}, UsageError, "resamples: 0"),
        ({"resamples": 2.5}, UsageError, "resamples: 2.5"),
        ({"alpha": 1.5}, UsageError, "between 0 and 1"),
        ({"correction": "adjusted"}, UsageError, "bartlett"),
        ({"correction": "bartlett", "method": "eel"}, UsageError, "Euclidean"),
        ({"metric": "ppw"}, UnknownOption, "ppv"),
        ({"reference": float("nan")}, UsageError, "finite"),
    ],
    ids=str,
)
def test_bad_options_say_what_to_do(
    lender: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        iso.flag(lender, **{**RATE, **options})


@pytest.mark.parametrize(
    "options",
    [{"interval": "wide"}, {"interval": "one-sided"}, {"resamples": 0}, {"adjust": "bho"}, {"method": "el2"}],
    ids=str,
)
def test_bad_options_are_refused_before_any_row_is_read(
    lender: dict[str, Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["isonomy.groups.flag"], "read", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(UsageError):
        iso.flag(lender, **{**RATE, **options})


@pytest.mark.parametrize("options", [{"null": True}, {"null": (False, True), "alternative": "outside"}], ids=str)
def test_a_null_is_a_number(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^null:"):
        iso.flag(THREE, **RATE_P, **options)


def test_a_tolerance_is_a_number() -> None:
    with pytest.raises(UsageError, match=r"^tolerance: True"):
        iso.flag(THREE, tolerance=True, **RATE_P)
    narrow: Any = np.float32(0.25)
    assert iso.flag(THREE, tolerance=narrow, **RATE_P).tolerance == 0.25


def test_bad_input(lender: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughData, match=r"each has fewer than [\d,]+ rows that count, or no variation"):
        iso.certify(lender, min_size=1000, **RATE)
    with pytest.raises(UsageError, match="bartlett"):
        iso.certify(lender, correction="adjusted", **RATE)  # type: ignore[arg-type]
    result = iso.certify(lender, **RATE)
    with pytest.raises(UsageError, match="one for each of 3"):
        result.contains([0.0, 0.1])
    with pytest.raises(UsageError, match="unknown groups"):
        result.contains({"race=z": 0.0})
    with pytest.raises(UsageError, match="null: 'much'"):
        iso.certify(lender, null="much", **RATE)  # type: ignore[arg-type]
    for null in (0.3, [0.1, 0.0, -0.1], {"race=a": 0.1}):
        with pytest.raises(UsageError, match="the tolerance sets the null"):
            iso.certify(lender, null=null, tolerance=0.02, **RATE)
    with pytest.raises(UsageError, match="Euclidean"):
        iso.certify(lender, method="eel", correction="bartlett", **RATE)
    with pytest.raises(UsageError, match="resamples: 0"):
        iso.certify(lender, correction="bartlett", resamples=0, **RATE)
    for ask in (iso.certify, iso.flag):
        with pytest.raises(UsageError, match="resamples: 1 are too few for the mean of T; give at least 100"):
            ask(lender, correction="bartlett", resamples=1, **RATE)


def test_one_group_says_that_it_is_one() -> None:
    with pytest.raises(NotEnoughData, match="everybody compared is in one group"):
        iso.certify({"g": ["a"] * 50, "p": [0, 1] * 25}, metric="selection_rate", prediction="p", groups="g")


def test_outcomes_known_of_the_selected_alone_are_told() -> None:
    table = {"p": [1] * 80, "y": [1, 1, 1, 0] * 20, "g": ["a"] * 40 + ["b"] * 40}
    told = iso.flag(table, metric="tpr", outcome="y", prediction="p", groups="g").warnings
    assert any("ask for ppv" in warning for warning in told)


def test_the_widest_gap_within_strata_is_refused_with_the_reason() -> None:
    result = iso.flag({**THREE, "x": np.arange(180) % 2}, **RATE_P, reference={"g": "a"}, given="x")
    with pytest.raises(UsageError, match="strata"):
        result.widest()
