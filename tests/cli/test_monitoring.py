"""`isonomy monitor`: states that were changed by hand, and the files it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isonomy as iso
from isonomy.monitoring.state import _digest

FILE = """
output = "out"
[data]
path = "rows.csv"
[columns]
prediction = "prediction"
groups = ["sex"]
[[tests]]
kind = "monitor"
metric = "selection_rate"
"""


@pytest.fixture
def monitored(tmp_path: Path, run: Callable[..., Any]) -> Path:
    iso.simulate.decisions(400, seed=1).frame().write_csv(tmp_path / "rows.csv")
    (tmp_path / "audit.toml").write_text(FILE)
    assert run("monitor", "update", str(tmp_path / "audit.toml"), "--batch", "1").exit_code == 0
    return tmp_path


@pytest.mark.parametrize(
    "change", [{"suppress_below": "x"}, {"name": 5}, {"fail_on": 5}, {"title": None}, {"heading": ["x"]}]
)
def test_what_a_state_says_about_its_audit_is_checked(
    change: dict[str, Any], monitored: Path, run: Callable[..., Any]
) -> None:
    """Also with a digest that fits."""
    state = monitored / "out" / "monitor.json"
    stored = json.loads(state.read_text())
    stored["about"] |= change
    state.write_text(json.dumps(stored | {"digest": _digest(stored)}))
    for command in ("status", "report"):
        done = run("monitor", command, str(state))
        assert done.exit_code == 2
        assert "the description of the audit is not valid" in done.output


def test_status_prints_the_notes(monitored: Path, run: Callable[..., Any]) -> None:
    rows = iso.simulate.decisions(9, seed=1).frame()
    rows.write_csv(monitored / "rows.csv")
    assert run("monitor", "update", str(monitored / "audit.toml"), "--batch", "2").exit_code == 0
    done = run("monitor", "status", str(monitored / "out" / "monitor.json"))
    assert done.exit_code == 0
    assert "\n! A group has fewer than 10 rows in the last batch." in done.output


def test_the_id_of_a_monitor_names_its_file(monitored: Path, run: Callable[..., Any]) -> None:
    tests = FILE[FILE.index("[[tests]]") :]
    (monitored / "audit.toml").write_text(FILE + 'id = "../x"\n' + tests)
    done = run("monitor", "update", str(monitored / "audit.toml"), "--batch", "2")
    assert done.exit_code == 2
    assert "the id '../x' contains a slash" in done.output
