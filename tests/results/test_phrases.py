"""Numbers and p-values in words; no sentence claims too much."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest

import isonomy
from isonomy.report import wording
from isonomy.results import phrases


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.00"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5, "1,234"), (-0.05, "-0.0500"), (1e-9, "1.00e-09"),
     (math.inf, "infinity"), (-math.inf, "minus infinity"), (math.nan, "not available"), (1e9, "1.00e+09")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert phrases.number(value) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "p < 0.001"), (9.9e-4, "p < 0.001"), (0.001, "p = 0.0010"), (0.0123, "p = 0.0123"), (0.5, "p = 0.50")],
)
def test_pvalues_are_never_zero(p: float, text: str) -> None:
    assert phrases.pvalue(p) == text


def test_intervals_and_bounds() -> None:
    assert phrases.interval(0.1, 0.2, 0.05) == "95 % interval 0.100 to 0.200"
    assert phrases.interval(-math.inf, 0.2, 0.1) == "90 % upper bound 0.200"
    assert phrases.interval(0.1, math.inf, 0.1) == "90 % lower bound 0.100"


def test_lists_end_with_how_many_more() -> None:
    assert phrases.listed(["a", "b", "c"]) == "a, b and c"
    assert phrases.listed(list("abcdefgh")) == "a, b, c, d, e and 3 more"
    assert phrases.listed(["a", "b, x", "c, y"]) == "a; b, x; and c, y"
    assert phrases.listed(["a, x", *"bcdefgh"]) == "a, x; b; c; d; e; and 3 more"


def test_no_sentence_says_a_model_is_fair_unbiased_or_fixed() -> None:
    claim = re.compile(r"\b(is|are|was|were|be|been) (now )?(fair|unbiased|fixed|non-discriminatory)\b", re.IGNORECASE)
    denial = re.compile(r"\b(no|not|never|cannot|nor)\b", re.IGNORECASE)
    package = Path(isonomy.__file__).parent
    for path in (*package.rglob("wording*.py"), *package.rglob("words.py"), package / "results" / "phrases.py"):
        for sentence in re.split(r"(?<=[.!?])\s", path.read_text()):
            if claim.search(sentence):
                assert denial.search(sentence), f"{path}: {sentence!r}"


@pytest.mark.parametrize(
    ("value", "share", "points"),
    [
        (0.381, "38.1 %", "38.1 points"),
        (-0.194, "-19.4 %", "19.4 points"),
        (0.0, "0.0 %", "0.0 points"),
        (0.00042, "0.04 %", "0.04 points"),
        (1.0, "100.0 %", "100.0 points"),
        (math.nan, "not available", "not available"),
        (math.inf, "infinity", "infinity"),
    ],
)
def test_shares_are_percentages_and_their_differences_points(value: float, share: str, points: str) -> None:
    assert phrases.share(value) == share
    assert phrases.points(value) == points


def test_what_is_not_available_is_not_a_number() -> None:
    assert phrases.pvalue(math.nan) == "no p-value"
    assert phrases.signed(math.nan) == "not available"
    assert phrases.listed([]) == ""
    assert phrases.listed(["a"]) == "a"
    assert phrases.count(1234567.0) == "1,234,567"


@pytest.mark.parametrize(
    ("label", "noun"),
    [
        ("called back", "share called back"),
        ("given a loan", "share given a loan"),
        ("repaid", "share repaid"),
        ("wrongly not paid", "share wrongly not paid"),
        ("Red flag", "Red flag"),
        ("Need of care", "Need of care"),
        ("approved amount", "approved amount"),
        ("selection_rate", "selection rate"),
    ],
)
def test_words_for_a_metric_that_say_what_people_are_become_a_noun(label: str, noun: str) -> None:
    assert phrases.noun(label) == noun


@pytest.mark.parametrize(
    ("difference", "ends", "text"),
    [
        (-0.019, (-0.044, 0.007), "1.9 points lower, 95 % interval 4.4 points lower to 0.7 points higher"),
        (0.019, (-0.007, 0.044), "1.9 points higher, 95 % interval 0.7 points lower to 4.4 points higher"),
        (-0.194, (-0.2, -0.188), "19.4 points lower, 95 % interval 18.8 to 20.0"),
        (0.194, (0.188, 0.2), "19.4 points higher, 95 % interval 18.8 to 20.0"),
        (-0.02, (-0.04, 0.0), "2.0 points lower, 95 % interval 0.0 to 4.0"),
        (0.02, (0.0, 0.04), "2.0 points higher, 95 % interval 0.0 to 4.0"),
        (0.001, (-0.03, -0.01), "0.1 points higher, 95 % interval 1.0 to 3.0 points lower"),
        (-0.2, (-np.inf, -0.186), "20.0 points lower, 95 % upper bound 18.6 points lower"),
        (-0.2, (-0.214, np.inf), "20.0 points lower, 95 % lower bound 21.4 points lower"),
        (-0.2, (-np.inf, np.inf), "20.0 points lower, 95 % unbounded interval"),
    ],
)
def test_an_interval_with_two_sides_names_both_the_lower_end_first(
    difference: float, ends: tuple[float, float], text: str
) -> None:
    assert phrases.apart(difference, ends, 0.05) == text


def _told(path: Path) -> list[str]:
    """Every string in a file of sentences, except docstrings."""
    tree = ast.parse(path.read_text())
    owners = (ast.Module, ast.FunctionDef, ast.ClassDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    docstrings = {id(node.value) for node in first if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return [node.value for node in strings if isinstance(node.value, str)]


def test_no_sentence_of_a_report_is_python() -> None:
    """'Give tolerance=', "adjust='by'": only whoever calls an estimator from Python reads the two that name one."""
    package = Path(isonomy.__file__).parent
    files = [*package.glob("*/wording*.py"), *package.glob("*/words.py")]
    files += [package / "results" / "phrases.py"]
    assert len(files) >= 7  # five topics and two shared files
    python = re.compile(r"\b[a-z_]+=(['\"\d<.]|None|True|False|$|\s)|\biso\.|`")
    texts = [text for path in files for text in _told(path)]
    texts += [meaning for *_, meaning in wording.TERMS]
    called = [text for text in texts if python.search(text)]
    assert all("refit with them, or use unknown=" in text for text in called)
    assert python.search("Give tolerance= to ask more.")
    assert python.search("adjust='by'")


@pytest.mark.parametrize(
    ("low", "high", "shares", "shown"),
    [
        (0.946, 1.01, False, ("0.946", "1.010")),
        (-0.0814, 0.208, False, ("-0.0814", "0.2080")),
        (0.0002, 0.186, True, ("0.02", "18.60")),
        (0.194, 0.219, True, ("19.4", "21.9")),
        (-0.0002, 12.3, False, ("0.00", "12.30")),
        (0.0, float("inf"), False, ("0.00", "infinity")),
        (1e-9, 0.5, False, ("1.00e-09", "0.500")),
    ],
)
def test_both_ends_of_an_interval_have_equal_decimals(
    low: float, high: float, shares: bool, shown: tuple[str, str]
) -> None:
    assert phrases.ends(low, high, shares=shares) == shown


def test_a_sentence_begins_with_a_capital_and_a_name_is_left_alone() -> None:
    assert phrases.capital("women: 5 of 9 approved.") == "Women: 5 of 9 approved."
    assert phrases.capital("race=Black: 5 of 9.") == "race=Black: 5 of 9."
    assert phrases.capital("") == ""


@pytest.mark.parametrize(
    ("rate", "chosen"),
    [("approval rate", "approved"), ("Hiring rate", "hired"), ("approved", "approved"), ("x", "selected")],
)
def test_people_are_called_by_the_words_for_their_rate(rate: str, chosen: str) -> None:
    assert phrases.chosen({"selection_rate": rate}) == chosen
