"""Hostile command lines: settings, stored results, states of monitors, and tables that `init` describes.

Everything is written in one temporary folder; paths elsewhere are only read.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow.csv import write_csv
from pyarrow.parquet import write_table
from typer.testing import CliRunner

import isonomy as iso
from fuzz import forms
from fuzz.calls import public, table
from isonomy.audit.starter import write_starter
from isonomy.cli import app
from isonomy.errors import ConfigError, IsonomyError
from isonomy.monitoring.state import _digest

Rng = np.random.Generator

FILE = """
title = "Audit ${FUZZ}"
output = "report"
suppress_below = 5
[data]
path = "rows.parquet"
[columns]
outcome = "y"
prediction = "p"
groups = ["g", {column = "x", edges = [0, 1]}]
[[filters]]
column = "x"
op = ">"
value = -9
[[tests]]
kind = "flag"
metric = "tpr"
[[tests]]
kind = "monitor"
metric = "selection_rate"
groups = ["g"]
"""
KEYS = (
    "title", "seed", "output", "suppress_below", "fail_on", "data.path", "data.engine", "data.query", "data.tables.t",
    "data.count", "columns.groups", "columns.groups[0]", "columns.groups[1].edges", "filters.x", "filters.x.op",
    "filters[0].value", "tests[0].metric", "tests[0].alpha", "tests[1].kind", "tests[7].kind", "tests.flag.reference",
    "tests.flag.given", "labels.columns.g", "decided.on", "nobody", "a.b.c", "__class__", '"data.path"', "", "tests",
)  # fmt: skip
VALUES = (
    "", "1", "-1", "1e400", "nan", "true", "x", "g", "tpr", "[1, 2]", "{a = 1}", "../../x", "/etc/passwd", "${HOME}",
    "$${", "${", "''", '"""', "2026-11-10", "0x10", "\x1b[31m", "a" * 3_000, "é\u202e", "select 1", "9" * 400,
)  # fmt: skip


@cache
def folder() -> Path:
    """A folder with a table, an audit file, its results and the state of a monitor."""
    place = Path(tempfile.mkdtemp(prefix="isonomy-fuzz-"))
    table().write_parquet(place / "rows.parquet")
    (place / "audit.toml").write_text(FILE)
    watch = iso.Monitor(metric="selection_rate", prediction="p", groups="g")
    for i in range(3):
        watch.update(table()[80 * i : 80 * i + 80], batch=str(i))
    watch.save(place / "monitor.json")
    roles: dict[str, Any] = {"columns": {"outcome": "y", "prediction": "p", "score": "s", "groups": ["g"]}}
    tests: list[dict[str, Any]] = [{"kind": kind} for kind in ("adverse_impact", "monitor", "predictive_parity")]
    tests += [{"kind": "flag", "metric": "tpr"}, {"kind": "discover", "metric": "tpr", "features": ["x", "d"]}]
    tests[1] |= {"metric": "tpr", "batch": "f"}
    iso.Audit.from_dict(roles | {"tests": tests}, data=table()).run(place / "report")
    return place


def _tampered(rng: Rng, file: str, *, digest: bool = False) -> Path:
    stored = json.loads((folder() / file).read_text())
    document = forms.tampered(rng, stored)
    try:
        document = {**document, "digest": _digest(document)} if digest and isinstance(document, dict) else document
        text = json.dumps(document, default=str)
    except (RecursionError, TypeError):
        text = "[" * 100_000
    path = folder() / f"tampered-{Path(file).name}"
    path.write_text(text if rng.random() < 0.9 else text[: int(rng.integers(len(text) + 1))])
    return path


def drawn(rng: Rng) -> list[str]:
    """The arguments of a command."""
    audit, output = str(folder() / "audit.toml"), str(folder() / "out")
    settings: list[str] = []
    for _ in range(int(rng.integers(3))):
        settings += ["--set", f"{rng.choice(KEYS)}={VALUES[rng.integers(len(VALUES))]}"]
    path = forms.PATHS[rng.integers(len(forms.PATHS))].replace("\x00", "")
    commands: tuple[Callable[[], list[str]], ...] = (
        lambda: ["validate", audit, *settings],
        lambda: ["sql", audit, *settings, "--table", VALUES[rng.integers(len(VALUES))]],
        lambda: ["report", str(_tampered(rng, "report/results.json")), "--output", output],
        lambda: ["card", str(_tampered(rng, "report/results.json"))],
        lambda: ["compare", str(_tampered(rng, "report/results.json")), str(folder() / "report" / "results.json")],
        lambda: ["monitor", "status", str(_tampered(rng, "monitor.json", digest=True))],
        lambda: ["monitor", "report", str(_tampered(rng, "monitor.json", digest=True)), "--output", output],
        lambda: ["monitor", "restart", str(_tampered(rng, "monitor.json", digest=True))],
        lambda: ["init", path, "--output", str(folder() / "new.toml"), "--force"],
        lambda: ["report", path, "--output", output],
        lambda: ["monitor", "status", path],
        lambda: ["validate", path],
        lambda: [str(rng.choice(["audit", "demo", "init", "schema", "x", "--version"])), "--nobody"],
    )
    return commands[rng.integers(len(commands))]()


def command(arguments: list[str]) -> int:
    """The exit code of a command; raises for a crash."""
    done = CliRunner(env={"FUZZ": "x"}).invoke(app, arguments)
    if done.exit_code == 4 or (done.exception is not None and not isinstance(done.exception, SystemExit)):
        raise AssertionError(done.output[-300:]) from done.exception
    if "Traceback" in done.output:
        raise AssertionError("a traceback was printed")
    return done.exit_code


def described(rng: Rng, names: list[str]) -> list[str]:
    """What `init` proposes for a table with other names and types; the file must be valid, or say that it has none."""
    data, _ = forms.renamed(rng, forms.typed(rng, table()), names)
    if rng.random() < 0.5:
        data, *_ = forms.strange(rng, table(), dict(public()[0].columns), memory=True)
    csv = rng.random() < 0.5
    place = folder() / f"table.{'csv' if csv else 'parquet'}"
    try:
        arrow = data if isinstance(data, pa.Table) else data.to_arrow()
        write_csv(arrow, place) if csv else write_table(arrow, place)
    except (pa.ArrowException, UnicodeEncodeError, pl.exceptions.PanicException):  # what the format does not have
        return []
    field: Any = (None, "lending", "hiring", "uplift", "monitoring")[rng.integers(5)]
    guesses = write_starter(place, folder() / "starter.toml", force=True, field=field)
    try:
        return iso.Audit.from_toml(folder() / "starter.toml").validate()
    except ConfigError as error:
        if "there are no tests" in str(error):
            return guesses
        raise AssertionError(f"the file that init wrote is refused: {error}") from error
    except IsonomyError as error:
        raise AssertionError(f"the rows that init described are refused: {error}") from error
