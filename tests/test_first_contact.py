"""The first commands of the README, exactly as they are printed, in an environment that has only Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import isonomy as iso

ROOT = Path(__file__).resolve().parents[1]


def commands() -> list[str]:
    """The commands of the section "From a csv file to a report", without their comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## From a csv file to a report")[1].split("\n## ")[0]
    return [re.sub(r"\s+#.*", "", line.strip()) for line in section.splitlines() if line.startswith("    ")]


def test_the_readme_names_commands_that_exist() -> None:
    assert commands()[0] == "pip install ."
    assert [line.split()[1] for line in commands()[1:]] == ["init", "validate", "audit", "report"]


@pytest.mark.install
def test_from_the_checkout_to_a_report(tmp_path: Path) -> None:
    environment = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    programs = environment / "bin"
    iso.simulate.lender(3_000, seed=1).frame().write_csv(tmp_path / "decisions.csv")
    first, *others = commands()
    subprocess.run([programs / first.split()[0], *first.split()[1:]], cwd=ROOT, check=True, timeout=900)
    for command in others[:-1]:
        done = subprocess.run([programs / command.split()[0], *command.split()[1:]], cwd=tmp_path, timeout=300)
        assert done.returncode in (0, 1), command  # 1: a violation was shown, as the audit file asks
    assert (tmp_path / "isonomy-report" / "report.html").stat().st_size > 50_000
