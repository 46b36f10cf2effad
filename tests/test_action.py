"""The composite GitHub Action: its script is run in bash with the inputs as variables, as a runner does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import isonomy

ROOT = Path(__file__).resolve().parents[1]
AUDIT = """\
[data]
path = "decisions.parquet"
[columns]
prediction = "prediction"
groups = ["race"]
[[tests]]
kind = "flag"
metric = "selection_rate"
"""


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return parsed


def test_inputs_reach_the_shell_as_variables_alone(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"


def test_the_audit_step_runs_and_tells_its_code(action: dict[str, Any], tmp_path: Path) -> None:
    isonomy.simulate.decisions(20_000, seed=1).frame().write_parquet(tmp_path / "decisions.parquet")
    (tmp_path / "audit.toml").write_text(AUDIT)
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "audit"]
    environment = os.environ | {
        "AUDIT": "audit.toml",
        "OUTPUT": "out put",
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "outputs").read_text() == "exit-code=1\n"
    assert "Difference shown" in (tmp_path / "summary").read_text()
    assert (tmp_path / "out put" / "evidence.zip").exists()
