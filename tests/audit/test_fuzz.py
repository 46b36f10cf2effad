"""Whatever is written in an audit file, the answer is a config or a `ConfigError`."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

from isonomy.audit import Audit, parse
from isonomy.audit.conditions import Condition, Cut, OwnMetric, Where
from isonomy.audit.config import Columns, Config, Data, Tolerances, build
from isonomy.audit.questions import MODELS
from isonomy.cli import app
from isonomy.errors import ConfigError, DataError, UsageError

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.datetimes()
WORDS = sorted(
    {
        name
        for model in (Data, Columns, Tolerances, Condition, Cut, Where, OwnMetric, *MODELS.values())
        for name in model.model_fields
    }
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


@settings(max_examples=60)
@given(configs | st.dictionaries(st.text(max_size=5), values, max_size=3))
def test_any_mapping(raw: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        assert build(raw).tests


@settings(max_examples=40)
@given(configs)
def test_any_mapping_over_a_table(raw: dict[str, Any]) -> None:
    table = {"race": ["a", "b"] * 20, "x": [0, 1, 1, 0] * 10, "outcome": [0, 1] * 20}
    with contextlib.suppress(UsageError, DataError):
        Audit.from_dict({**raw, "data": {}}, data=table).validate()


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


@settings(max_examples=60)
@given(st.lists(lines, max_size=12))
def test_any_text(written: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert parse("\n".join(written)).tests


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
