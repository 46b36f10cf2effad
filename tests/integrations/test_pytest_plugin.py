"""`pytest --isonomy audit.toml`, run as a user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import isonomy

AUDIT = """\
[data]
path = "decisions.parquet"
[columns]
prediction = "prediction"
outcome = "outcome"
groups = ["race"]
[[tests]]
kind = "flag"
metric = "selection_rate"
[[tests]]
kind = "flag"
id = "tolerant"
metric = "selection_rate"
tolerance = 0.9
[[tests]]
kind = "flag"
id = "stopped"
metric = "tpr"
groups = "nobody's"
filters = [{column = "race", value = "Martian"}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = isonomy.simulate.decisions(20_000, seed=1).frame()
    table.rename({"sex": "nobody's"}).write_parquet(tmp_path / "decisions.parquet")
    (tmp_path / "audit.toml").write_text(AUDIT)
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert True\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # pytest finds the plugin of the installed package; naming it as well would register it twice. The others cost time.
    unused = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "xdist", "pytest_cov", "playwright")]
    command = [sys.executable, "-m", "pytest", *unused, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_every_test_of_the_audit_is_a_test(folder: Path) -> None:
    done = run(folder, "--isonomy", "audit.toml", "-v")
    assert done.returncode == 1
    assert "2 failed, 2 passed" in done.stdout
    assert "audit.toml::flag-selection_rate FAILED" in done.stdout
    assert "audit.toml::tolerant PASSED" in done.stdout
    assert "Difference shown: Selection rate by race" in done.stdout
    assert "no row is left" in done.stdout or "the table has no rows" in done.stdout
    assert "Traceback" not in done.stdout


def test_without_the_option_nothing_is_added(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 0
    assert "1 passed" in done.stdout


def test_a_mistake_in_the_file_stops_the_run_in_words(folder: Path) -> None:
    (folder / "audit.toml").write_text("sede = 1")
    done = run(folder, "--isonomy", "audit.toml")
    assert done.returncode == 4
    assert "sede: unknown key. Did you mean 'seed'?" in done.stdout + done.stderr
