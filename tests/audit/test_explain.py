"""Messages about mistakes in an audit file: the place, the value, and the values allowed."""

from __future__ import annotations

import pytest

from isonomy.audit import parse
from isonomy.audit.config import build, line_of
from isonomy.errors import ConfigError


def wrong(text: str) -> str:
    """The message about a file with a mistake."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('metric = "tpr"', 'metirc = "tpr"', "line 26: tests[0].metirc: unknown key. Did you mean 'metric'? Allowed: "),
        (
            'metric = "tpr"',
            'metric = "tpr"\nweight = "w"',
            "tests[0].weight: unknown key. Write it under [data]: it applies to all tests. Allowed: kind, ",
        ),
        ('metric = "tpr"', "", "line 24: tests[0].metric: this key is required."),
        ('kind = "flag"\nmetric = "tpr"', "", "tests[0]: kind: this key is required. Allowed: flag"),
        ("seed = 7", 'seed = "7"', "line 2: seed: '7' is not allowed. Allowed: a whole number."),
        ("seed = 7", "sede = 7", "line 2: sede: unknown key. Did you mean 'seed'?"),
        ('missing = "drop"', 'missing = "dorp"', "line 8: data.missing: 'dorp' is not allowed. Did you mean 'drop'?"),
        ('outcome = "repaid"', "outcome = 3", "line 11: columns.outcome: 3 is not allowed. Allowed: text, a table."),
        ("edges = [25, 45]", "edges = []", "columns.groups[1].edges: [] is not allowed."),
        ('op = "in"', 'op = "=="', 'filters[0]: op "==" takes one value.'),
        ("value = [2025, 2026]", "", 'filters[0]: op "in" needs a value.'),
        ("value = [2025, 2026]", 'value = [2025, "a"]', "values of one type"),
        ("tolerance = 0.02", "tolerence = 0.02", "tests[0].tolerence: unknown key. Did you mean 'tolerance' or"),
        ("tolerance = 0.02", "tolerance = nan", "tests[0].tolerance: nan is not allowed."),
        ('"violation", "inc', '"violatoin", "inc', "fail_on[0]: 'violatoin' is not allowed. Did you mean 'violation'?"),
        (
            'value = "Male"}',
            'vlaue = "Male"}',
            "where[1].vlaue: unknown key. Did you mean 'value'? Allowed: column, op, v",
        ),
        ("reference = {", "reference = [", "not TOML"),
        (
            'reference = {race = "White"}',
            'reference = "White"',
            "'White' is not allowed. A group is written with its column: {race = 'White'} or {age = 'White'}.",
        ),
        (
            'outcome = "repaid"',
            'outcome = {column = "repaid", equal = "yes"}',
            "columns.outcome.equal: unknown key. Did you mean 'equals'? Allowed: column, equals.",
        ),
    ],
)
def test_mistakes_are_named(good: str, old: str, new: str, words: str) -> None:
    assert old in good
    assert words in wrong(good.replace(old, new, 1))


def test_every_mistake_is_told_at_once_in_order(good: str) -> None:
    lines = wrong(good.replace("seed", "sede").replace('"drop"', '"dorp"').replace('"tpr"', '"trp"')).splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["sede", "data.missing", "tests[0].metric"]


def test_a_key_has_a_line(good: str) -> None:
    assert line_of(good, ("tests", 1, "metric")) == 32
    assert line_of(good, ("columns", "groups", 1)) == 13
    assert line_of(good, ("nothing",)) is None


def test_long_values_and_odd_keys_are_cut_and_quoted() -> None:
    with pytest.raises(ConfigError) as caught:
        build({"tests": [{"kind": "flag", "metric": "x" * 500}], "a\nb": 1, "k" * 100: 2})
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) < 500
    assert any(r"'a\nb': unknown key" in line for line in lines)
    assert any("'xxx" in line and "..." in line for line in lines)


@pytest.mark.parametrize(
    ("test", "keys"),
    [
        ({"kind": "flag", "metric": {"name": "m", "value": "v", "wher": []}}, "name, value, where, binary, quantile"),
        ({"kind": "flag", "metric": "tpr", "groups": [{"column": "a", "edges": [1], "x": 1}]}, "column, edges"),
        ({"kind": "flag", "metric": "tpr", "filters": [{"column": "a", "value": 1, "x": 1}]}, "column, op, value"),
        (
            {"kind": "improvability", "status_quo": "p", "accuracy": {"utility": "tpr", "outcome": "o", "x": 1}},
            "utility, outcome, weights",
        ),
    ],
)
def test_the_keys_of_the_table_at_fault_are_listed(test: dict[str, object], keys: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown key\..* Allowed: {keys}\."):
        build({"tests": [test]})


def test_a_criterion_by_another_name() -> None:
    with pytest.raises(
        ConfigError, match=r"'equality_of_opportunity' is not allowed. It is called 'equal_opportunity' here"
    ):
        parse('[[tests]]\nkind = "project"\ncriterion = "equality_of_opportunity"\n')


def test_a_key_of_an_earlier_version_is_refused_with_its_new_place() -> None:
    with pytest.raises(ConfigError, match=r"tests\[0\]\.evidence: it has moved; write method = \{crossfit = \{\}\}, "):
        parse('[[tests]]\nkind = "improvability"\nstatus_quo = "p"\nevidence = "paper"\n')


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (
            "correction = 'bartlett'",
            "tests[0].correction: it has moved; write method = {likelihood = {correction = ...}}.",
        ),
        ("sigma = 'pooled'", "tests[0].sigma: it has moved; write scale = {standardized = ...}."),
    ],
)
def test_a_key_that_has_moved_is_shown_as_the_file_writes_it(good: str, key: str, words: str) -> None:
    assert words in wrong(good.replace('metric = "tpr"', f'metric = "tpr"\n{key}', 1))


def test_a_key_that_has_become_a_method_is_shown_in_python() -> None:
    with pytest.raises(ConfigError, match=r"power: it has moved; in Python, write result\.detectable\(power=\.\.\.\)"):
        build({"tests": [{"kind": "treatment_bias", "power": 0.8}]})
