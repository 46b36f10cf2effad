"""Every error is one of ours; its message has the value given, the values allowed, and the probable meaning."""

from __future__ import annotations

import inspect

import pytest

from isonomy import errors

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", KINDS)
def test_code_that_does_not_import_isonomy_can_catch_every_error(kind: type[Exception]) -> None:
    assert kind is errors.IsonomyError or issubclass(kind, (ValueError, RuntimeError))


def test_an_unknown_column_names_the_near_one_and_lists_the_first_forty() -> None:
    message = str(errors.UnknownColumn("outcome", "repayed", ["repaid", *(f"x{i}" for i in range(50))]))
    assert message.startswith("outcome: no column 'repayed' in the data. Did you mean 'repaid'? Columns: repaid, x0, ")
    assert message.endswith("x38, ....")


def test_an_unknown_option_knows_the_names_others_give_it() -> None:
    known = str(errors.UnknownOption("metric", "Recall", ["tpr", "fpr"], {"recall": "tpr"}))
    assert known == "metric: 'Recall' is not allowed. It is called 'tpr' here. Allowed: tpr, fpr."
    assert "Did you mean 'holm'?" in str(errors.UnknownOption("adjust", "hom", ["holm", "bh"]))


def test_choose_returns_what_is_allowed() -> None:
    assert errors.choose("kind", "a", ("a", "b")) == "a"
    with pytest.raises(errors.UnknownOption, match="kind: 'c' is not allowed"):
        errors.choose("kind", "c", ("a", "b"))


def test_nothing_near_is_no_hint() -> None:
    assert errors.near("zzz", ["race", "sex"]) == ""


@pytest.mark.parametrize(("binary", "tolerance"), [(True, 0.05), (True, None), (False, 5.0)])
def test_a_tolerance_that_can_be_meant_passes(binary: bool, tolerance: float | None) -> None:
    errors.refuse_percent(binary, tolerance)
