"""Audits: every kind of test from one file, the texts that are written about them, and the command line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl

import isonomy as iso
from recorded import tables
from recorded.recording import Calls, described, plain
from support.fakes import AUDIT

_calls = Calls()
CALLS = _calls.calls

COLUMNS: dict[str, Any] = {
    "outcome": "outcome",
    "prediction": "prediction",
    "score": "score",
    "groups": ["race", "sex"],
    "treatment": "treatment",
    "effect": "effect",
}
YOUNG = {"name": "young men", "where": [{"column": "age", "op": "<", "value": 30}, {"column": "sex", "value": "Male"}]}
EVERYTHING: dict[str, Any] = {
    "title": "Half-year audit",
    "description": "Every kind of test.",
    "seed": 7,
    "fail_on": ["violation", "inconclusive"],
    "suppress_below": 20,
    "data": {"missing": "drop", "missing_group": "level"},
    "columns": COLUMNS,
    "filters": [{"column": "age", "op": ">=", "value": 19}],
    "labels": {
        "columns": {"race": "origin"},
        "values": {"sex": {"Female": "women", "Male": "men"}},
        "groups": {"race=Other": "all others"},
        "metrics": {"tpr": "approval of those who repay"},
        "population": "all applicants",
    },
    "tests": [
        {"kind": "flag", "metric": "tpr", "depth": 2, "tolerance": 0.1},
        {"kind": "flag", "id": "strict", "title": "A heading", "metric": "fpr", "reference": {"race": "White"},
         "groups": "race", "tolerance": 0.01, "truth": ["Nothing was planted."],
         "decided": {"by": "The committee", "on": date(2026, 1, 15), "why": "smaller gaps do not matter"}},
        {"kind": "flag", "metric": {"name": "thin", "value": "prediction", "binary": True,
         "where": [{"column": "age", "op": "<", "value": 40}]},
         "groups": [{"column": "age", "edges": [30, 50]}, YOUNG], "tolerance": 0.1},
        {"kind": "flag", "id": "given", "metric": "selection_rate", "given": "region", "groups": "race",
         "tolerance": 0.1},
        {"kind": "certify", "metric": "selection_rate", "groups": "race", "method": {"likelihood": {"resamples": 100}}},
        {"kind": "adverse_impact", "groups": ["race", "sex"]},
        {"kind": "project", "threshold": 0.5, "groups": "sex", "tolerance": 0.1},
        {"kind": "improvability", "groups": "sex", "status_quo": "prediction", "candidate": "better",
         "accuracy": "accuracy"},
        {"kind": "treatment_bias", "outcome": "response", "groups": "sex"},
        {"kind": "evaluate_corrections", "outcome": "response", "groups": "sex", "strategies": ["mean"],
         "method": {"heldout": {"splits": 2, "resamples": 20}}},
        {"kind": "price_of_fairness", "outcome": "response", "corrected": ["corrected"], "groups": "sex"},
        {"kind": "predictive_parity", "groups": "sex",
         "method": {"curves": {"resamples": 100, "grid": [0.3, 0.5, 0.7]}}},
        {"kind": "composite_parity", "outcomes": ["outcome", "better"], "scores": ["score", "second_score"],
         "groups": "sex", "method": {"curves": {"resamples": 100}}},
        {"kind": "marginal_outcomes", "threshold": 0.5, "groups": "sex"},
        {"kind": "equalize_thresholds", "threshold": 0.5, "target": "tpr", "groups": "sex",
         "method": {"curves": {"resamples": 100}}},
        {"kind": "project", "id": "wrong side", "prediction": "better", "threshold": 0.5, "groups": "sex",
         "tolerance": 0.1},
        {"kind": "flag", "id": "nobody", "metric": "tpr", "groups": "race", "min_size": 10000, "tolerance": 0.1},
        {"kind": "flag", "id": "filtered", "metric": "tpr", "groups": "sex", "tolerance": 0.1,
         "filters": [{"column": "region", "op": "in", "value": ["north", "east"]}]},
    ],
}  # fmt: skip
TOML = (
    'title = "A small audit"\n'
    + AUDIT.replace('["race"]', '["race", {column = "age", edges = [30, 50]}]')
    + '[[tests]]\nkind = "adverse_impact"\ngroups = ["race", "sex"]\n'
)
DESIGNED = {
    "data": {"weight": "weight", "cluster": "household"},
    "columns": {"outcome": {"column": "repaid", "equals": "yes"}, "prediction": "prediction", "groups": "race"},
    "tests": [{"kind": "flag", "metric": "tpr"}, {"kind": "flag", "metric": "ppv", "reference": "rest"}],
}


@cache
def everything() -> iso.AuditResult:
    """The audit of everything, run once."""
    return iso.Audit.from_dict(EVERYTHING, data=tables.everything()).run()


@cache
def earlier() -> iso.AuditResult:
    """The same questions about other rows."""
    kinds = ("flag", "certify", "adverse_impact", "treatment_bias")
    tests = [test for test in EVERYTHING["tests"] if test["kind"] in kinds and "given" not in test]
    half = tables.everything().filter(pl.int_range(pl.len()) % 2 == 0)
    return iso.Audit.from_dict(EVERYTHING | {"tests": tests}, data=half).run()


def documented(audit: iso.AuditResult) -> dict[str, Any]:
    """The whole audit, without what changes from run to run."""
    whole = audit.to_dict()
    lasting = {key: value for key, value in whole.items() if key not in ("created", "provenance", "tests")}
    facts = ("Data", "Backend", "Rows after filters", "Fingerprint of the rows", "Seed", "Tests")
    return lasting | {
        "provenance": {fact: whole["provenance"][fact] for fact in facts},
        "summary": audit.summary(),
        "tests": [
            {key: value for key, value in test.items() if key not in ("seconds", "peak_memory", "result", "table")}
            for test in whole["tests"]
        ],
    }


def result_of(name: str) -> dict[str, Any]:
    """What one test of the audit found."""
    return described(everything()[name], draw=False)


def entry_of(name: str) -> dict[str, Any]:
    """What readers see of one test of the audit."""
    entry = next(entry for entry in everything().entries if entry.name == name)
    texts = ("verdict", "badge", "look", "lead", "leads", "sentence", "steps", "gloss", "question", "heading", "error")
    return {text: plain(getattr(entry, text)) for text in texts}


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder with the rows and the audit file, in which commands run; nothing is drawn there."""
    before = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch("vl_convert.vegalite_to_svg", return_value="<svg xmlns='http://www.w3.org/2000/svg'></svg>"),
    ):
        place = Path(name)
        tables.decisions().write_parquet(place / "decisions.parquet")
        (place / "audit.toml").write_text(TOML)
        os.chdir(place)
        try:
            yield place
        finally:
            os.chdir(before)


# Facts that depend on the machine and the time.
_PASSING = re.compile(
    r"^- (isonomy|Python|numpy|scipy|scikit-learn|narwhals|polars|altair|duckdb|pyspark|System|Time|Peak memory): .*\n",
    re.MULTILINE,
)


def settled(text: str) -> str:
    """A text without times, versions and memory."""
    text = _PASSING.sub("", text).replace(iso.__version__, "VERSION")
    text = re.sub(r'(time|timestamp)="[^"]*"', r'\1=""', text)
    text = re.sub(r"\b\d+(\.\d+)? s\b", "0 s", text)
    return re.sub(r"\d{4}-\d\d-\d\d(T[\d:+]+)?", "then", text)


def command(*arguments: str) -> dict[str, Any]:
    """What a command prints, and its exit code."""
    from typer.testing import CliRunner

    from isonomy.cli import app

    environment = {"COLUMNS": "110", "TERM": "dumb", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, list(arguments), env=environment)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return {"exit": done.exit_code, "output": settled(done.output)}


def commands(*several: tuple[str, ...], files: Mapping[str, str] | None = None, read: tuple[str, ...] = ()) -> Any:
    """What commands print, one after the other in one folder with further ``files``; and the files they write."""
    with folder() as place:
        for name, text in (files or {}).items():
            (place / name).write_text(text)
        printed = [command(*arguments) for arguments in several]
        return [printed, {name: settled((place / name).read_text()) for name in read}]


def page(audit: Callable[[], iso.AuditResult]) -> dict[str, str]:
    """The texts of the files that an audit writes; of the page, what a reader reads."""
    with folder() as place:
        audit().write(place / "out")
        html = (place / "out" / "report.html").read_text()
        html = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", html, flags=re.DOTALL)
        html = re.sub(r"<code>[0-9a-f]{16}</code>", "<code>SHA-256</code>", html)  # results.json has dates
        words = [" ".join(line.split()) for line in re.sub(r"<[^>]+>", "\n", html).splitlines()]
        facts = re.compile(r"^(\d+\.\d+(\.\w+)*|[\d,]+ MB|Linux .*|Darwin .*|Windows .*)$")
        files = {name: settled((place / "out" / name).read_text()) for name in ("summary.md", "junit.xml")}
        return files | {"report": settled("\n".join(word for word in words if word and not facts.match(word)))}


def counted() -> Any:
    """An audit of the answer to its own query."""
    import duckdb

    with folder() as place:
        asked = command("sql", "audit.toml", "--table", "'decisions.parquet'")
        duckdb.connect().sql(asked["output"]).pl().sort(pl.all()).write_csv(place / "counts.csv")
        return [asked, command("audit", "audit.toml", "--counts", "counts.csv", "-o", "out")]


def compared() -> Any:
    """Two audits compared on the command line."""
    stored = {"old.json": earlier().to_json(), "new.json": everything().to_json()}
    return commands(
        ("compare", "old.json", "new.json"),
        ("compare", "old.json", "new.json", "-o", "both"),
        ("compare", "old.json", "new.json", "--fail-on", "moved", "--table", "all.csv"),
        ("compare", "old.json", "new.json", "--fail-on", "verdict"),
        files=stored,
        read=("both/compare.md",),
    )


def again() -> Any:
    """Whether the audit survives a round trip through results.json."""
    audit = everything()
    back = iso.AuditResult.from_json(audit.to_json())
    return [back.to_dict() == audit.to_dict(), back.summary() == audit.summary()]


def of_config(change: Mapping[str, Any], data: Any = None) -> Any:
    """An audit of other keys, or the mistakes in them."""
    config = {"columns": COLUMNS, "tests": [{"kind": "flag", "metric": "tpr", "groups": "race"}]} | dict(change)
    return iso.Audit.from_dict(config, data=tables.everything() if data is None else data)


def validated(change: Mapping[str, Any]) -> list[str]:
    """The columns that such an audit needs."""
    columns: list[str] = of_config(change).validate()
    return columns


_calls.keep("everything/document", lambda: documented(everything()))
for _name in (
    *("flag-tpr", "strict", "flag-thin", "given", "certify-selection_rate", "adverse_impact", "project"),
    *("improvability", "treatment_bias", "evaluate_corrections", "price_of_fairness", "predictive_parity"),
    *("composite_parity", "marginal_outcomes", "equalize_thresholds", "nobody", "filtered"),
):
    _calls.keep(f"everything/result/{_name}", partial(result_of, _name))
    _calls.keep(f"everything/entry/{_name}", partial(entry_of, _name))
_calls.keep("everything/entry/wrong side", partial(entry_of, "wrong side"))
_calls.keep("everything/validate", lambda: iso.Audit.from_dict(EVERYTHING, data=tables.everything()).validate())
_calls.keep("everything/files", lambda: page(everything))
_calls.keep("everything/again", again)
_calls.keep(
    "everything/card", lambda: commands(("card", "results.json"), files={"results.json": everything().to_json()})
)
_calls.keep("everything/compare", compared)
_calls.keep("designed/document", lambda: documented(iso.Audit.from_dict(DESIGNED, data=tables.decisions()).run()))
_calls.keep("designed/one-seed", lambda: documented(of_config({"seed": 3, "suppress_below": 0}).run()))
_calls.keep("engine/pandas", lambda: documented(of_config({}, tables.everything().to_pandas()).run()))
_calls.keep("engine/duckdb", lambda: documented(of_config({}, tables.in_engine("duckdb", tables.everything())).run()))

# The command line.
_calls.keep("cli/version", lambda: command("--version"))
_calls.keep("cli/schema", lambda: json.loads(command("schema")["output"]))
_calls.keep("cli/validate", lambda: commands(("validate", "audit.toml")))
_calls.keep(
    "cli/set",
    lambda: commands(
        ("audit", "audit.toml", "--set", "suppress_below=5", "--set", "title=Tonight"),
        *(("validate", "audit.toml", "--set", wrong) for wrong in ("data.pth=x", "filters.day=2026-11-10", "seed=[1]")),
        read=("isonomy-report/summary.md",),
    ),
)
_calls.keep("cli/audit", lambda: commands(("audit", "audit.toml"), read=("isonomy-report/summary.md",)))
_calls.keep(
    "cli/audit/fails",
    lambda: commands(("audit", "strict.toml"), files={"strict.toml": TOML.replace("[]", '["inconclusive"]', 1)}),
)
_calls.keep(
    "cli/audit/resume",
    lambda: commands(("audit", "audit.toml", "-o", "a"), ("audit", "audit.toml", "-o", "a", "--resume")),
)
_calls.keep("cli/report", lambda: commands(("audit", "audit.toml", "-o", "a"), ("report", "a/results.json", "-o", "b")))
_calls.keep(
    "cli/init",
    lambda: commands(("init", "decisions.parquet", "-o", "new.toml"), ("validate", "new.toml"), read=("new.toml",)),
)
_calls.keep("cli/init/again", lambda: commands(("init", "decisions.parquet"), ("init", "decisions.parquet", "--force")))
_calls.keep("cli/sql", lambda: commands(("sql", "audit.toml"), ("sql", "audit.toml", "--table", "warehouse.decisions")))
_calls.keep("cli/counts", counted)
_calls.keep(
    "cli/no-file", lambda: commands(("audit", "nowhere.toml"), ("validate", "nowhere.toml"), ("card", "nowhere.json"))
)
_calls.keep(
    "cli/mistakes",
    lambda: commands(
        ("validate", "typo.toml"),
        ("validate", "metric.toml"),
        ("validate", "column.toml"),
        ("audit", "column.toml"),
        ("validate", "toml.toml"),
        ("sql", "mean.toml"),
        files={
            "typo.toml": TOML.replace("metric", "metrik"),
            "metric.toml": TOML.replace('"tpr"', '"calibration"'),
            "column.toml": TOML.replace('"outcome"', '"outcom"'),
            "toml.toml": "tests = [",
            "mean.toml": TOML.replace('"tpr"', '"mae"'),
        },
    ),
)

# Refusals.
MISTAKES: dict[str, dict[str, Any]] = {
    "no-tests": {"tests": []},
    "kind": {"tests": [{"kind": "flagg", "metric": "tpr"}]},
    "key": {"tests": [{"kind": "flag", "metric": "tpr", "tolerence": 0.1}]},
    "metric": {"tests": [{"kind": "flag", "metric": "trp"}]},
    "option": {"tests": [{"kind": "flag", "metric": "tpr", "alpha": 2}]},
    "word": {"tests": [{"kind": "flag", "metric": "tpr", "adjust": "BH"}]},
    "twice": {"tests": [{"kind": "flag", "id": "a", "metric": "tpr"}, {"kind": "flag", "id": "a", "metric": "fpr"}]},
    "condition": {"filters": [{"column": "age", "op": "in", "value": 3}]},
    "edges": {"tests": [{"kind": "flag", "metric": "tpr", "groups": {"column": "age", "edges": [50, 30]}}]},
    "path-and-query": {"data": {"path": "a.parquet", "query": "select 1", "engine": "duckdb"}},
    "query-engine": {"data": {"query": "select 1"}},
    "tolerance": {"tests": [{"kind": "flag", "metric": "tpr", "tolerance": -1}]},
    "seed": {"seed": -1},
    "top-key": {"titel": "x"},
}
UNFIT: dict[str, dict[str, Any]] = {
    "column": {"tests": [{"kind": "flag", "metric": "tpr", "groups": "rase"}]},
    "role": {"columns": {"groups": "race", "prediction": "prediction"}},
    "combination": {"tests": [{"kind": "flag", "metric": "tpr", "tolerance": 0.1, "null": 0.1}]},
    "filter-column": {"filters": [{"column": "agee", "op": ">", "value": 3}]},
    "filter-type": {"filters": [{"column": "age", "op": ">", "value": "old"}]},
}
for _name, _change in MISTAKES.items():
    _calls.keep(f"Audit/refuses/{_name}", partial(of_config, _change))
for _name, _change in UNFIT.items():
    _calls.keep(f"Audit/refuses/validate/{_name}", partial(validated, _change))
_calls.keep("Audit/refuses/no-rows", lambda: of_config({"filters": [{"column": "age", "op": ">", "value": 999}]}).run())
_calls.keep(
    "Audit/refuses/no-data", lambda: iso.Audit.from_dict({"tests": EVERYTHING["tests"][:1], "columns": COLUMNS}).run()
)
_calls.keep("Audit/refuses/results", lambda: iso.AuditResult.from_json("{}"))
_calls.keep("Audit/refuses/config", lambda: iso.Audit(3))  # type: ignore[arg-type]


def asserted(*audited: Any, **options: Any) -> str:
    """The message of a failing test in a test suite."""
    from isonomy.testing import assert_no_violation

    try:
        assert_no_violation(*audited, **options)
    except AssertionError as error:
        return str(error)
    return "nothing failed"


_calls.keep("testing/audit", lambda: asserted(everything()))
_calls.keep("testing/strict", lambda: asserted(everything()["given"], fail_on=["violation", "inconclusive"]))
_calls.keep("testing/refuses/verdict", lambda: asserted(everything(), fail_on=["violations"]))
