"""The audit file: its keys and values; every file gives a config or a `ConfigError`, nothing else."""

from __future__ import annotations

import contextlib
import inspect
import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

import isonomy as iso
from isonomy.audit import Audit, parse, schema
from isonomy.audit.config import MODELS, Config, Data, FileColumns, Test, build, model_of, read
from isonomy.audit.forms import Condition, FileCut, FileWhere, OwnMetric, default_in_a_file, described
from isonomy.cli import app
from isonomy.errors import ConfigError, DataError, UsageError
from isonomy.frames import Groups
from isonomy.options import ROW_DEFAULTS, Column, Power, hints
from isonomy.results import QUESTIONS

TABLES: tuple[type[BaseModel], ...] = (
    Data, FileColumns, Condition, FileCut, FileWhere, OwnMetric, *MODELS.values(),
)  # fmt: skip


def test_a_good_file(good: str) -> None:
    config = parse(good)
    assert config.names == ["flag-tpr", "flag-thin files"]
    assert config.data.missing == "drop"
    assert config.filters[0].value == [2025, 2026]


def wrong(text: str) -> str:
    """The message about a file with a mistake."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('engine = "duckdb"', "an engine needs a path or a query"),
        ('path = "x"\ntables = {t = "t.csv"}', "tables and database belong to a query"),
        ('path = "x"\ndatabase = "d.db"', "tables and database belong to a query"),
    ],
)
def test_rows_come_from_one_place(data: str, words: str) -> None:
    assert words in wrong(f'[data]\n{data}\n[[tests]]\nkind = "flag"\nmetric = "tpr"\n')


def test_tests_without_names_are_told_apart() -> None:
    tests = [{"kind": "flag", "metric": "tpr", "depth": depth} for depth in (1, 2, 3)]
    assert build({"tests": tests}).names == ["flag-tpr", "flag-tpr-2", "flag-tpr-3"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read as text"):
        read(tmp_path / "bytes.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path, good: str) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + good.replace("\n", "\r\n").encode())
    assert read(tmp_path / "a.toml")[0].seed == 7


def test_the_schema_is_made_from_the_signatures() -> None:
    stored = json.loads(json.dumps(schema()))
    flag = stored["$defs"]["Flag"]["properties"]
    assert flag["alpha"] == {
        "default": 0.05,
        "description": flag["alpha"]["description"],
        "exclusiveMaximum": 1,
        "exclusiveMinimum": 0,
        "title": "Alpha",
        "type": "number",
    }
    assert flag["adjust"]["enum"] == ["bh", "bh-siblings", "bh-tree", "bonferroni", "by", "holm", "max-t", "none"]
    assert flag["depth"]["minimum"] == 1
    described = [name for name, key in flag.items() if key.get("description")]
    assert set(flag) - set(described) <= {"kind"}


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.datetimes()
WORDS = sorted(
    {name for model in TABLES for name in model.model_fields}
    | {"race", "tpr", "flag", "in", "==", "population", "duckdb", "violation", "x"}
    | set(MODELS)
)
words = st.sampled_from(WORDS)
values = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
tests = st.lists(
    st.builds(
        lambda kind, rest: {"kind": kind, **rest},
        st.sampled_from(sorted(MODELS)) | words,
        st.dictionaries(words, values, max_size=5),
    )
    | values,
    max_size=3,
)
configs = st.builds(
    lambda top, tests: {**top, "tests": tests},
    st.dictionaries(st.sampled_from(sorted(Config.model_fields)) | words | st.text(max_size=5), values, max_size=5),
    tests,
)
lines = st.one_of(
    st.sampled_from(
        ["[[tests]]", "[data]", "[columns]", "[[filters]]", 'kind = "flag"', 'metric = "tpr"', "tests = 3", "[tests]"]
    ),
    st.builds(
        lambda key, value: f"{key} = {value}",
        words,
        st.text(max_size=10) | st.sampled_from(['"a"', "1", "[", "{}", "nan", "1e400"]),
    ),
    st.text(max_size=20),
)


@settings(max_examples=40)
@given(configs)
def test_any_mapping_over_a_table(raw: dict[str, Any]) -> None:
    table = {"race": ["a", "b"] * 20, "x": [0, 1, 1, 0] * 10, "outcome": [0, 1] * 20}
    with contextlib.suppress(UsageError, DataError):
        Audit.from_dict({**raw, "data": {}}, data=table).validate()


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.lists(lines, max_size=6).map(lambda written: "\n".join(written).encode()))
def test_any_bytes_through_the_command(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "audit.toml"
        file.write_bytes(content)
        done = CliRunner().invoke(app, ["validate", str(file)])
        assert done.exit_code == 2
        assert isinstance(done.exception, SystemExit)
        assert "error: " in done.output
        assert "Traceback" not in done.output


def test_nesting_without_end() -> None:
    with pytest.raises(ConfigError):
        parse("title = " + "[" * 50_000)


@pytest.mark.parametrize("key", ["output", "data.path"])
def test_a_path_with_a_null_character(key: str) -> None:
    raw: dict[str, Any] = {"data": {"path": "x.csv"}, "tests": [{"kind": "adverse_impact", "prediction": "p"}]}
    raw |= {"output": "\x00"} if key == "output" else {"data": {"path": "\x00"}}
    with pytest.raises(ConfigError, match=rf"{key}.*null character"):
        build(raw)


@pytest.mark.parametrize(("metric", "name"), [("precision", "ppv"), ("recall", "tpr"), ("ppv", "ppv")])
def test_synonyms_of_metrics_are_accepted_in_a_file(metric: str, name: str) -> None:
    text = f'[data]\npath = "x.csv"\n[[tests]]\nkind = "flag"\nmetric = "{metric}"\n'
    (test,) = parse(text).tests
    assert test.own_options()["metric"] == name
    table = {"p": [0, 1] * 50, "y": [1, 1, 0, 0] * 25, "g": ["a", "b", "b", "a"] * 25}
    assert iso.flag(table, metric=metric, prediction="p", outcome="y", groups="g").metrics == (name, name)


# Set once for the whole audit ([data]), or reported by the audit itself.
ELSEWHERE = {"data", "rows"}


@pytest.mark.parametrize("kind", MODELS)
def test_keys_are_the_functions_keywords(kind: str) -> None:
    model = MODELS[kind]
    function = getattr(iso, kind)
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ELSEWHERE and hints(function)[name] is not object  # a file holds no Python objects
    }
    fields = {name: field for name, field in model.model_fields.items() if name not in Test.model_fields}
    assert set(fields) == {*parameters, *QUESTIONS[kind].further}
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty:
            # Required arguments must be in the test or under [columns].
            assert fields[name].is_required() or name in FileColumns.model_fields, name
        elif name not in FileColumns.model_fields:
            assert fields[name].default == default_in_a_file(parameter.default), name


def test_a_new_keyword_is_a_new_key() -> None:
    def flag(data: object, *, groups: Groups, baseline: Column | None = None, power: Power = 0.8) -> None:
        """Who is treated differently?

        Parameters
        ----------
        power : float, default 0.8
            The power aimed at.
        """

    model = model_of(flag)
    assert model.model_validate({"kind": "flag", "power": 0.9}).own_options() == {"power": 0.9}
    assert model.model_fields["power"].description == "The power aimed at."
    with pytest.raises(ValidationError, match="less than 1"):
        model.model_validate({"kind": "flag", "power": 1.5})


@pytest.mark.parametrize("kind", MODELS)
def test_every_key_is_described_by_the_function_s_documentation(kind: str) -> None:
    keys = set(MODELS[kind].model_fields) - {*Test.model_fields, *MODELS[kind].further}
    assert keys <= {name for name, text in described(getattr(iso, kind)).items() if text}


def test_the_keywords_about_rows_are_described_once() -> None:
    assert set(ROW_DEFAULTS) <= {name for name, text in described(iso.adverse_impact).items() if text}


def test_options_are_what_the_test_gives() -> None:
    (test,) = build({"tests": [{"kind": "predictive_parity", "id": "a", "user": False, "score": "s"}]}).tests
    assert test.own_options() == {"score": "s"}  # false: no column in this test
    assert test.question is QUESTIONS["predictive_parity"]


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ({"kind": "flag", "metric": "tpr"}, "flag-tpr"),
        ({"kind": "flag", "metric": {"name": "thin files", "value": "v"}}, "flag-thin files"),
        ({"kind": "project", "criterion": "equal_opportunity"}, "project-equal_opportunity"),
        ({"kind": "project"}, "project"),
        ({"kind": "treatment_bias"}, "treatment_bias"),
    ],
)
def test_a_test_without_an_id_is_named_by_what_tells_it_apart(test: dict[str, object], name: str) -> None:
    assert build({"tests": [test]}).names == [name]
