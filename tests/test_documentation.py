"""Every page: its Python code runs in order, its audit files and commands are valid, and its links exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

import isonomy as iso
from support import data

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def _hooks() -> ModuleType:
    """The hooks that MkDocs calls when it builds the site."""
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = _hooks()


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=_named)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = data.folder()
    monkeypatch.setenv("ISONOMY_DATA", str(folder or tmp_path / "missing"))
    text = page.read_text()
    ran = list(hooks.outputs(text, str(page)))
    blocks = hooks.BLOCK.findall(text)
    assert len(blocks) == text.count("```python")
    assert len(ran) == len(blocks) if folder else ran


def test_what_a_block_ends_with_is_shown_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    page = """
```python
import polars as pl

print("first")
pl.DataFrame({"group": ["a|b"], "rate": [0.25], "none": [float("nan")]})
```

```python
import altair as alt

alt.Chart(pl.DataFrame({"x": [1]})).mark_point().encode(x="x:Q")
```

```python
open(ISONOMY_DATA)
```
"""
    monkeypatch.setenv("ISONOMY_DATA", "/no/such/folder")
    text = hooks.executed(page, "page")
    assert "```text\nfirst\n```" in text
    assert "| a\\|b | 0.2500 |  |" in text
    assert text.count("data:image/png;base64,") == 1
    assert text.index("print(") < text.index("```text") < text.index("| group |") < text.index("<img")
    assert hooks.WITHOUT_DATA in text


def test_what_a_page_would_fetch_is_noticed() -> None:
    local = '<a href="https://example.org">read</a><script src="assets/a.js"></script><img src="data:image/svg+xml,x">'
    assert hooks.fetched(local) == []
    assert hooks.fetched(local + '<link rel="stylesheet" href="https://example.org/a.css">') == [
        "https://example.org/a.css"
    ]


@pytest.mark.parametrize("page", [p for p in PAGES if "```toml" in p.read_text()], ids=_named)
def test_audit_files_are_valid(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.audit.config import parse

    monkeypatch.setenv("DAY", "2026-11-10")  # a variable of the pages
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL):
        assert parse(block).tests


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_commands_exist(page: Path) -> None:
    from isonomy.cli import app

    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, rest in re.findall(r"^    isonomy (\w+)([^#\n]*)", page.read_text(), flags=re.MULTILINE):
        assert name in commands, f"isonomy {name}"
        command = commands[name]
        if hasattr(command, "commands"):  # such as monitor update
            assert rest.split()[0] in command.commands, f"isonomy {name}{rest}"
            command = command.commands[rest.split()[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", rest)) <= known, f"isonomy {name}{rest}"


@pytest.mark.parametrize("page", sorted({*ROOT.glob("*.md"), *PAGES}), ids=_named)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("words", ["four-fifths", "BISG", "disparate impact", "equalized odds", "impact ratio"])
def test_readers_find_what_they_know_by_another_name(words: str) -> None:
    """The search of the site indexes the text of its pages."""
    assert words in (DOCS / "questions.md").read_text()


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/]+\.md$", (ROOT / "mkdocs.yml").read_text().split("nav:")[1], flags=re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_public_name_is_explained_on_a_page() -> None:
    text = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))
    explained = {path.rsplit(".", 1)[1] for path in re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)}
    elsewhere = {"__version__", "col", "simulate"}  # the second is narwhals'; the third is explained by its parts
    names = {name: getattr(iso, name) for name in iso.__all__ if name not in elsewhere}
    # An option may be documented under the name of its class.
    assert not [name for name, value in names.items() if not {name, getattr(value, "__name__", name)} & explained]
    assert set(iso.simulate.__all__) <= explained
    overview = hooks.names_by_page(DOCS)
    assert "| [`flag`](groups/flag.md) | Which groups are treated differently" in overview
