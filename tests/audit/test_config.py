"""The audit file: what it may say, and what is said about its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isonomy.audit import parse, schema
from isonomy.audit.config import build, read
from isonomy.audit.explain import line_of
from isonomy.errors import ConfigError

GOOD = """\
title = "Half-year audit"
seed = 7
fail_on = ["violation", "inconclusive"]
suppress_below = 20

[data]
path = "decisions-*.parquet"
missing = "drop"

[columns]
outcome = "repaid"
prediction = "approved"
groups = [
  "race",
  {column = "age", edges = [25, 45]},
  {name = "young men", where = [{column = "age", op = "<", value = 25}, {column = "sex", value = "Male"}]},
]

[[filters]]
column = "year"
op = "in"
value = [2025, 2026]

[tolerances]
flag = 0.02

[[tests]]
kind = "flag"
metric = "tpr"
reference = {race = "White"}

[[tests]]
kind = "flag"
metric = {name = "thin files", value = "approved", where = [{column = "accounts", op = "<", value = 3}], binary = true}
"""


def wrong(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def test_a_good_file() -> None:
    config = parse(GOOD)
    assert config.names == ["flag-tpr", "flag-thin files"]
    assert config.data.missing == "drop"
    assert config.tolerances.flag == 0.02
    assert config.filters[0].value == [2025, 2026]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('metric = "tpr"', 'metirc = "tpr"', "line 29: tests[0].metirc: unknown key. Did you mean 'metric'? Allowed: "),
        ('metric = "tpr"', "", "line 27: tests[0].metric: this key is needed and missing."),
        ('metric = "tpr"', 'metric = "trp"', "tests[0].metric: 'trp' is not allowed. Did you mean 'tpr'"),
        (
            'kind = "flag"\nmetric = "tpr"',
            'kind = "flga"',
            "'flga' is not allowed. Did you mean 'flag'? Allowed: flag, cert",
        ),
        ('kind = "flag"\nmetric = "tpr"', "", "tests[0]: kind: this key is needed and missing. Allowed: flag"),
        ("seed = 7", 'seed = "7"', "line 2: seed: '7' is not allowed. Allowed: a whole number."),
        ("seed = 7", "seed = -1", "seed: -1 is not allowed. Allowed: greater than or equal to 0."),
        ("seed = 7", "sede = 7", "line 2: sede: unknown key. Did you mean 'seed'?"),
        ('missing = "drop"', 'missing = "dorp"', "line 8: data.missing: 'dorp' is not allowed. Did you mean 'drop'?"),
        ('outcome = "repaid"', "outcome = 3", "line 11: columns.outcome: 3 is not allowed. Allowed: text."),
        ("edges = [25, 45]", "edges = [45, 25]", "columns.groups[1]: edges [45.0, 25.0] must increase."),
        ("edges = [25, 45]", "edges = []", "columns.groups[1].edges: [] is not allowed."),
        ('op = "in"', 'op = "=="', 'filters[0]: op "==" takes one value.'),
        ("value = [2025, 2026]", "", 'filters[0]: op "in" needs a value.'),
        ("value = [2025, 2026]", 'value = [2025, "a"]', "values of one type"),
        (
            "[tolerances]\nflag = 0.02",
            "[tolerances]\nflga = 0.02",
            "tolerances.flga: unknown key. Did you mean 'flag'?",
        ),
        ("[tolerances]\nflag = 0.02", "[tolerances]\nflag = nan", "tolerances.flag: nan is not allowed."),
        ('"violation", "inc', '"violatoin", "inc', "fail_on[0]: 'violatoin' is not allowed. Did you mean 'violation'?"),
        (
            'value = "Male"}',
            'vlaue = "Male"}',
            "where[1].vlaue: unknown key. Did you mean 'value'? Allowed: column, op, v",
        ),
        ("reference = {", "reference = [", "not TOML"),
        (
            'path = "decisions-*.parquet"',
            'path = "x"\nquery = "select 1"\nengine = "duckdb"',
            "give path or query, not both",
        ),
        ('path = "decisions-*.parquet"', 'query = "select 1"', "a query needs an engine"),
    ],
)
def test_mistakes_are_named(old: str, new: str, said: str) -> None:
    assert old in GOOD
    assert said in wrong(GOOD.replace(old, new, 1))


def test_every_mistake_is_told_at_once_in_order() -> None:
    told = wrong(GOOD.replace("seed", "sede").replace('"drop"', '"dorp"').replace('"tpr"', '"trp"')).splitlines()
    assert [line.split(":")[1].strip() for line in told] == ["sede", "data.missing", "tests[0].metric"]


def test_two_tests_of_one_name() -> None:
    assert "more than one test is called 'flag-tpr'; give each of them an id" in wrong(
        '[[tests]]\nkind = "flag"\nmetric = "tpr"\n[[tests]]\nkind = "flag"\nmetric = "tpr"\ndepth = 2\n'
    )


def test_no_tests() -> None:
    assert "tests: this key is needed and missing." in wrong('title = "x"')


def test_a_mapping_works_like_the_file() -> None:
    assert build({"tests": [{"kind": "certify", "metric": "fpr"}]}).names == ["certify-fpr"]
    with pytest.raises(ConfigError, match="unknown key"):
        build({"tests": [{"kind": "certify", "metric": "fpr", "x": 1}]})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read as text"):
        read(tmp_path / "bytes.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read(tmp_path / "a.toml")[0].seed == 7


def test_lines_are_found() -> None:
    assert line_of(GOOD, ("tests", 1, "metric")) == 34
    assert line_of(GOOD, ("columns", "groups", 1)) == 13
    assert line_of(GOOD, ("nothing",)) is None


def test_the_schema_is_made_from_the_signatures() -> None:
    made = json.loads(json.dumps(schema()))
    flag = made["$defs"]["Flag"]["properties"]
    assert flag["alpha"] == {
        "default": 0.05,
        "description": flag["alpha"]["description"],
        "exclusiveMaximum": 1,
        "exclusiveMinimum": 0,
        "title": "Alpha",
        "type": "number",
    }
    assert flag["adjust"]["enum"] == ["bh", "by", "holm", "bonferroni", "none", "bh-tree"]
    assert flag["depth"]["minimum"] == 1
    described = [name for name, key in flag.items() if key.get("description")]
    assert set(flag) - set(described) <= {"kind"}
