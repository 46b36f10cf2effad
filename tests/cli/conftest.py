"""A folder with a small table and its audit file, and the command line run in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import isonomy
from isonomy.cli import app
from support.fakes import AUDIT


@pytest.fixture(autouse=True)
def without_pictures(no_pictures: None) -> None:
    """Every command."""


@pytest.fixture
def config() -> str:
    """The audit file of the folder."""
    return AUDIT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isonomy.simulate.decisions(1_000, seed=2).frame().write_parquet(tmp_path / "decisions.parquet")
    (tmp_path / "audit.toml").write_text(AUDIT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run() -> Callable[..., Any]:
    """A function that runs the command line with the given arguments."""

    def invoked(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments))

    return invoked


@pytest.fixture
def change(folder: Path) -> Callable[[str, str], None]:
    """A function that replaces a part of the audit file."""

    def replaced(old: str, new: str) -> None:
        text = (folder / "audit.toml").read_text()
        assert old in text
        (folder / "audit.toml").write_text(text.replace(old, new))

    return replaced
