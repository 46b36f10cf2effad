"""The rules of the layout: imports go one way, heavy libraries load on first use, exports are real."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import isonomy

PACKAGE = Path(isonomy.__file__).parent
METHODS = ("likelihood", "transport", "alternatives", "treatment", "calibration")
# A part may import those before it; the methods stand side by side and may not import each other.
ORDER = (
    "errors",
    "options",
    "numerics",
    "frames",
    "inference",
    "results",
    "methods",
    "report",
    "audit",
    "testing",
    "simulate",
    "cli",
    "__main__",
)
HEAVY = ("pyspark", "duckdb", "pandas", "pyarrow", "sklearn", "altair", "vl_convert", "scipy.stats", "polars")


def part_of(module: str) -> str:
    name = module.split(".")[1] if "." in module else ""
    return "methods" if name in METHODS else name


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            yield from (f"isonomy.{alias.name}" for alias in node.names) if base == "isonomy" else (base,)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    if relative == Path("__init__.py"):
        return
    own = relative.parts[0].removesuffix(".py")
    mine = "methods" if own in METHODS else own
    for module in imports(path):
        if not module.startswith("isonomy."):
            continue
        other = part_of(module)
        if other not in ORDER:  # a name exported by the package itself, such as __version__
            continue
        if mine == other == "methods":
            assert module.split(".")[1] == own, f"{relative} imports another method: {module}"
        assert ORDER.index(other) <= ORDER.index(mine), f"{relative} imports {module}, which comes after it"


def test_importing_isonomy_loads_nothing_heavy() -> None:
    code = f"import sys, isonomy; print([m for m in {HEAVY!r} if m in sys.modules])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.strip() == "[]"


def test_using_one_method_loads_no_engine_but_polars() -> None:
    code = (
        "import sys, isonomy as iso\n"
        "d = {'g': ['a', 'b'] * 50, 'p': [0, 1, 1, 0] * 25}\n"
        "iso.flag(d, metric='selection_rate', prediction='p', groups='g')\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.strip() == "['polars']"


def test_every_export_resolves_to_the_thing_of_that_name() -> None:
    for name in isonomy.__all__:
        value = getattr(isonomy, name)
        assert getattr(value, "__name__", name).rpartition(".")[2] == name or not callable(value)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = isonomy.no_such_name
