"""The rules of the layout: imports go one way, rows are read in one place, every question has the same headings."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import isonomy
from isonomy.results import KINDS, QUESTIONS, find_question

PACKAGE = Path(isonomy.__file__).parent
TOPICS = ("groups", "projection", "alternatives", "effects", "scores", "monitoring")
# A part may import those before it; the topics stand side by side and may not import each other.
ORDER = (
    *("errors", "options", "numerics", "frames", "inference", "results", "topics", "report", "audit", "simulate"),
    *("integrations", "testing", "cli", "__main__"),
)
HEADINGS = ["call", "plan", "read", "estimate", "decide", "evidence"]
# Files of mathematics that the topics keep in one folder each.
MATHEMATICS = {
    "groups": "likelihood",
    "projection": "program",
    "alternatives": "rules",
    "effects": "estimators",
    "scores": "smoothing",
    "monitoring": "sequences",
}
HEAVY = ("pyspark", "duckdb", "pandas", "pyarrow", "sklearn", "altair", "vl_convert", "scipy.stats", "polars")
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    name = module.split(".")[1] if "." in module else ""
    return "topics" if name in TOPICS else name


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module a file imports when it runs, submodules taken from a package included."""
    tree = parsed(path)
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    modules: list[str] = []
    types_only = {inner for outer in guarded for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if node in types_only:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            if base == "isonomy" or base.removeprefix("isonomy.") in TOPICS:
                modules += [f"{base}.{alias.name}" for alias in node.names]
            else:
                modules.append(base)
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return tuple(modules)


def headings(path: Path) -> list[tuple[str, int]]:
    """The headings of a file, with their lines."""
    lines = path.read_text().splitlines()
    return [
        (line.removeprefix("# ---- ").partition(":")[0], i)
        for i, line in enumerate(lines, start=1)
        if line.startswith("# ---- ")
    ]


def loaded(code: str) -> str:
    seen = f"{code}\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout.strip()


def test_imports_go_one_way() -> None:
    for path in FILES:
        relative = path.relative_to(PACKAGE)
        if relative == Path("__init__.py"):
            continue
        own = relative.parts[0].removesuffix(".py")
        mine = "topics" if own in TOPICS else own
        for module in imports(path):
            if not module.startswith("isonomy."):
                continue
            other = part_of(module)
            if other not in ORDER:  # a name exported by the package itself, such as __version__
                continue
            if mine == other == "topics":
                assert module.split(".")[1] == own, f"{relative} imports another topic: {module}"
            assert ORDER.index(other) <= ORDER.index(mine), f"{relative} imports {module}, which comes after it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_is_one_file_with_six_headings(kind: str) -> None:
    function = find_question(kind).function
    path = Path(sys.modules[function.__module__].__file__ or "")
    assert [name for name, _ in headings(path)] == HEADINGS
    assert path.parent.parent == PACKAGE
    assert path.parent.name in TOPICS


def test_no_question_knows_another_topic_by_name() -> None:
    """A question is named in its own file, in the list of `KINDS`, and in the exports of the package."""
    for part in ("report", "audit"):
        for path in (PACKAGE / part).glob("*.py"):
            if path.name == "starter.py":  # writes an audit file, and so names the tests it proposes
                continue
            words = {node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)}
            assert not words & set(KINDS), f"{path.relative_to(PACKAGE)} names {words & set(KINDS)}"


def test_rows_are_read_in_frames_and_below_the_heading_read() -> None:
    for path in FILES:
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] == "frames" or "narwhals" not in {module.split(".")[0] for module in imports(path)}:
            continue
        assert relative.parts[0] in TOPICS, relative
        if path.name == "read.py":
            continue
        sections = [*headings(path), ("", 10**9)]
        reading = [range(start, sections[i + 1][1]) for i, (name, start) in enumerate(sections[:-1]) if name == "read"]
        tree = parsed(path)
        annotated = {
            inner
            for node in ast.walk(tree)
            for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
            if annotation is not None
            for inner in ast.walk(annotation)
        }
        uses = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "nw"]
        types = [node.lineno for node in annotated if isinstance(node, ast.Name) and node.id == "nw"]
        outside = [line for line in uses if line not in types and not any(line in part for part in reading)]
        assert not outside, f"{relative}: narwhals outside the heading read, lines {outside}"


@pytest.mark.parametrize("topic", TOPICS)
def test_words_and_mathematics_keep_to_themselves(topic: str) -> None:
    folders = {path.parent.name for path in (PACKAGE / topic).glob("*/*.py")}
    assert folders == {MATHEMATICS[topic]}
    for path in (PACKAGE / topic).glob("wor*.py"):
        assert not {"polars", "altair", "narwhals"} & {module.split(".")[0] for module in imports(path)}
    for path in (PACKAGE / topic / MATHEMATICS[topic]).rglob("*.py"):
        modules = set(imports(path))
        assert not [m for m in modules if re.search(r"\.wor(ds|ding\w*)$", m) or m.startswith("isonomy.results")], path


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_every_public_question_is_exported() -> None:
    for name in isonomy.__all__:
        getattr(isonomy, name)
    assert set(KINDS) <= set(QUESTIONS)
    for name in KINDS:
        assert getattr(isonomy, name) is QUESTIONS[name].function


def test_subpackages_need_no_import_of_their_own() -> None:
    code = "import isonomy\nfor part in {parts!r}: assert getattr(isonomy, part).__name__ == f'isonomy.{{part}}'"
    parts = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    assert len(parts) > 10
    subprocess.run([sys.executable, "-c", code.format(parts=parts)], check=True)


def test_no_module_can_be_called() -> None:
    assert not [name for name, module in sys.modules.items() if name.startswith("isonomy") and callable(module)]


def test_importing_isonomy_loads_nothing_heavy() -> None:
    assert loaded("import isonomy") == "[]"


def test_using_one_question_loads_no_engine_but_polars() -> None:
    code = (
        "import isonomy as iso\n"
        "d = {'g': ['a', 'b'] * 50, 'p': [0, 1, 1, 0] * 25}\n"
        "iso.flag(d, metric='selection_rate', prediction='p', groups='g')"
    )
    assert loaded(code) == "['polars']"


def test_every_export_resolves_to_the_thing_of_that_name() -> None:
    for name in isonomy.__all__:
        value = getattr(isonomy, name)
        home = getattr(value, "__name__", name).rpartition(".")[2]
        assert name in (home, home.lower(), getattr(value, "name", home)) or not callable(value)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = getattr(isonomy, "no_such_name")  # noqa: B009


def test_the_stub_lists_what_it_imports() -> None:
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    listed = next(node.value for node in stub.body if isinstance(node, ast.Assign))
    assert set(ast.literal_eval(listed)) == set(isonomy.__all__)
