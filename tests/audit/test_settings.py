"""Variables in audit files, keys set from outside, and dates that are written in quotes."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isonomy.audit import Audit, AuditResult, parse
from isonomy.audit.counts import grouped_query
from isonomy.errors import ConfigError, DataError

FILE = """\
title = "Night of ${DAY}"
[data]
path = "rows.parquet"
date = "day"
[columns]
prediction = "ok"
groups = ["sex"]
[[filters]]
column = "day"
value = "${DAY}"
[[tests]]
kind = "flag"
id = "who"
metric = "selection_rate"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an audit file and the rows of three days, of which the third has 100 rows more."""
    monkeypatch.setenv("DAY", "2026-11-10")
    rows = [(10 + i % 3 if i < 600 else 12, "fm"[i // 3 % 2], i // 7 % 2) for i in range(700)]
    table = pl.DataFrame(rows, schema=["number", "sex", "ok"], orient="row")
    days = table.select(pl.date(2026, 11, "number").alias("day"), pl.exclude("number"))
    days.with_columns(pl.col("day").cast(pl.Datetime("us")).alias("at")).write_parquet(tmp_path / "rows.parquet")
    days.write_csv(tmp_path / "rows.csv")
    (tmp_path / "audit.toml").write_text(FILE)
    return tmp_path


def run(place: Path, *settings: str) -> AuditResult:
    return Audit.from_toml(place / "audit.toml", settings=settings).run()


def wrong(text: str, *settings: str) -> str:
    """The message about a file with a mistake."""
    with pytest.raises(ConfigError) as caught:
        parse(text, settings=settings)
    return str(caught.value)


def test_a_variable_stands_for_its_text(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (run(place).document.title, run(place).document.rows) == ("Night of 2026-11-10", 200)
    monkeypatch.setenv("DAY", "2026-11-12")
    assert run(place).document.rows == 300


def test_a_key_is_set_from_outside(place: Path) -> None:
    assert run(place, "filters.day=2026-11-12").document.rows == 300
    assert run(place, "filters[0].value=2026-11-12", "filters.day.op=>=").document.rows == 300
    result = run(place, "tests.who.tolerance=0.25", "tests[0].alpha=0.01", "data.path=rows.csv")
    assert result["who"].provenance.options["tolerance"] == 0.25
    assert result["who"].provenance.options["alpha"] == 0.01
    assert result.document.data == "rows.csv"


def test_what_was_set_is_in_the_provenance(place: Path) -> None:
    result = run(place, "tests.who.tolerance=0.25", "seed=7")
    facts = json.loads(result.to_json())["provenance"]
    assert {key: facts[key] for key in ("Set: tests.who.tolerance", "Set: seed", "Variable: DAY")} == {
        "Set: tests.who.tolerance": "0.25",
        "Set: seed": "7",
        "Variable: DAY": "2026-11-10",
    }
    assert (
        "Variable: DAY"
        in AuditResult.from_json(result.to_json())
        .write(place / "out")
        .output.joinpath(  # type: ignore[union-attr]
            "report.html"
        )
        .read_text()
    )


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("suppress_below=20", "suppress_below", 20),
        ("title=20", "title", "20"),  # text stays text
        ("title=${HOME} $${x}", "title", "${HOME} $${x}"),  # the value itself has no variables
        ('description="20"', "description", "20"),
        ("description=a = b # c", "description", "a = b # c"),
        ("output=out/2026", "output", "out/2026"),
    ],
)
def test_values_are_read_as_the_file_would_write_them(
    setting: str, key: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAY", "x")
    assert getattr(parse(FILE, settings=[setting]), key) == value


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("data.pth=x", "--set: data.pth: unknown key. Did you mean 'path'? Allowed: path, "),
        ("dta.path=x", "--set: dta: unknown key. Did you mean 'data'?"),
        ("filters.dya=x", "--set filters.dya: no entries of filters are called 'dya'. Did you mean 'day'?"),
        ("tests.whom.alpha=1", "no entries of tests are called 'whom'. Did you mean 'who'? Allowed: [0] who."),
        ("tests[3].alpha=1", "no entries of tests are called 3. Allowed: [0] who."),
        ("tests.who.tolerance=big", "--set: tests[0].tolerance: 'big' is not allowed. Allowed: a number."),
        ("tests.who.metric=trp", "--set: tests[0].metric: 'trp' is not allowed. Did you mean 'tpr'"),
        ("seed=1\nsuppress_below=0", "--set: seed: '1\\nsuppress_below=0' is not allowed. Allowed: a whole number."),
        ("seed=1 # none", "seed: '1 # none' is not allowed"),
        ('fail_on=["inconclusive"]', "--set: fail_on: '[\"inconclusive\"]' is not allowed. Allowed: a list."),
        ('columns={prediction="x"}', "--set: columns: '{prediction=\"x\"}' is not allowed. Allowed: a table."),
        ("data.path.x=1", "--set data.path.x: data.path is a single value and has no keys."),
        ("data.path", "--set: 'data.path' is not a key and a value; write --set data.path=today.parquet."),
        ("data..path=x", "is not a key and a value"),
        ("data.path=a\0b", "holds a null character"),
    ],
)
def test_mistakes_in_settings_are_named(setting: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAY", "2026-11-10")
    assert words in wrong(FILE, setting)


def test_two_filters_on_one_column_are_told_apart_by_their_number() -> None:
    text = FILE.replace("${DAY}", "2026-11-10") + '[[filters]]\ncolumn = "day"\nop = "<"\nvalue = 2026-12-01\n'
    assert "2 entries of filters are called 'day'. Allowed: [0] day, [1] day." in wrong(text, "filters.day=2026-11-12")
    assert parse(text, settings=["filters[1].value=2026-11-12"]).filters[1].value == "2026-11-12"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("${DAY}", "${DYA}", "title: the variable DYA is not in the environment. Did you mean 'DAY'?"),
        ("${DAY}", "${EMPTY}", "title: the variable EMPTY is empty."),
        (
            "[data]",
            'output = "out/${OUT}"\n[data]',
            "output: 'out/../../x'; a variable in a path may not add '..'.",
        ),
        ('"rows.parquet"', '"${OUT}/t.csv"', "data.path: '../../x/t.csv'; a variable in a path may not add"),
        (
            "[data]",
            'output = "out/${DOT}${DOT}/x"\n[data]',
            "output: 'out/../x'; a variable in a path may not add '..'.",
        ),
        ("[data]", 'output = "out/.${DOT}"\n[data]', "output: 'out/..'; a variable in a path may not add '..'."),
        ("${DAY}", "${DAY", "write ${NAME} for a variable, $${ for the text ${."),
        ("[data]", 'suppress_below = "${DAY}"\n[data]', "suppress_below: '2026-11-10' is not allowed."),
        ("[data]", 'fail_on = ["${DAY}"]\n[data]', "fail_on[0]: '2026-11-10' is not allowed."),
        (
            'path = "rows.parquet"',
            "query = \"select * from t where day = '${SLY}'\"\nengine = 'duckdb'",
            "data.query: SLY is \"x' or '1'='1\"; allowed in a query: letters, digits",
        ),
    ],
)
def test_mistakes_in_variables_are_named(old: str, new: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DAY": "2026-11-10", "EMPTY": "", "SLY": "x' or '1'='1", "OUT": "../../x", "DOT": "."}.items():
        monkeypatch.setenv(name, value)
    assert old in FILE
    assert words in wrong(FILE.replace(old, new, 1))


def test_a_variable_is_no_structure_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAY", '"\nseed = 5\n[labels]\n${HOME}')
    config = parse(FILE.replace("[data]", 'description = "$${DAY}"\n[data]'))
    assert config.title == 'Night of "\nseed = 5\n[labels]\n${HOME}'
    assert (config.seed, config.description) == (0, "${DAY}")


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ({"column": "day", "value": "2026-11-12"}, 300),
        ({"column": "day", "value": date(2026, 11, 12)}, 300),
        ({"column": "day", "op": "in", "value": ["2026-11-12", "2026-11-10"]}, 500),
        ({"column": "day", "op": "<", "value": "2026-11-12"}, 400),
        ({"column": "at", "value": "2026-11-12"}, 300),
        ({"column": "at", "op": "in", "value": ["2026-11-12T00:00:00", "2026-11-10"]}, 500),
        ({"column": "at", "op": ">=", "value": datetime(2026, 11, 12)}, 300),
    ],
)
@pytest.mark.parametrize("engine", [None, "duckdb"])
def test_dates_may_be_written_in_quotes(place: Path, condition: dict[str, Any], rows: int, engine: str | None) -> None:
    if engine is not None:
        pytest.importorskip(engine)
    config = {
        "data": {"path": "rows.parquet", **({} if engine is None else {"engine": engine})},
        "columns": {"prediction": "ok", "groups": ["sex"]},
        "filters": [condition],
        "tests": [{"kind": "flag", "metric": "selection_rate"}],
    }
    audit = Audit.from_dict(config, folder=place)
    assert audit.validate() == ["day" if condition["column"] == "day" else "at", "ok", "sex"]
    assert audit.run().document.rows == rows


def test_what_is_not_a_date_is_refused(place: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"'day' is Date; it cannot be compared with '10\.11\.2026'; write dates as 2026"
    ):
        run(place, "filters.day=10.11.2026")
    (place / "audit.toml").write_text(FILE.replace('"${DAY}"\n[[tests', "1\n[[tests"))
    with pytest.raises(ConfigError, match="'sex' is String; it cannot be compared with 3; write it in quotes"):
        run(place, "filters[0].column=sex", "filters.sex.value=3")


def test_the_query_for_a_warehouse_has_the_value(place: Path) -> None:
    config = Audit.from_toml(place / "audit.toml", settings=["filters.day=2026-11-12"]).config
    assert "WHERE \"day\" = '2026-11-12'" in grouped_query(config)


def test_the_dates_of_the_rows_are_recorded(place: Path) -> None:
    assert run(place).document.dates == "2026-11-10"
    assert run(place, "filters.day.op=>=").document.dates == "2026-11-10 to 2026-11-12"
    assert run(place, "filters.day.op=>=", "data.path=rows.csv").document.dates == "2026-11-10 to 2026-11-12"  # text
    frame = run(place, "filters.day.op=>=").to_frame()
    assert frame.select("first_date", "last_date").row(0) == (date(2026, 11, 10), date(2026, 11, 12))
    with pytest.raises(DataError, match="column 'sex' does not hold dates, such as 2026-11-10") as caught:
        run(place, "data.date=sex")
    assert "'f'" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"data\.date: no column 'dya' in the data. Did you mean 'day'"):
        run(place, "data.date=dya")
