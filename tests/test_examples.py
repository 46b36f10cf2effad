"""All examples run."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import pytest

from isonomy.audit import Audit, parse

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = ("compas", "adult", "obermeyer", "hillstrom")


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_a_valid_file_with_a_readme(name: str) -> None:
    assert parse((EXAMPLES / name / "audit.toml").read_text()).tests
    assert f"isonomy audit examples/{name}/audit.toml" in (EXAMPLES / name / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs(name: str, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare and audit a copy, so that no files are left behind."""
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("data", "isonomy-report"))
    shutil.copy(EXAMPLES / "public_data.py", tmp_path)
    monkeypatch.setenv("ISONOMY_DATA", str(data_folder))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "public_data", raising=False)
    runpy.run_path(str(tmp_path / name / "prepare.py"), run_name="__main__")
    done = Audit.from_toml(tmp_path / name / "audit.toml").run()
    assert [entry.error for entry in done.entries if entry.error] == []


def test_the_quick_start_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "quickstart.py"))
    assert "1 of 1 results failed (violation)." in capsys.readouterr().out
    assert (tmp_path / "isonomy-report" / "report.html").exists()
