"""The rules of the layout: the same files in every method, imports that go one way, rows in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import isonomy
from isonomy.results import QUESTIONS

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
    "scorers",
    "mlflow",
    "pytest_plugin",
    "simulate",
    "cli",
    "__main__",
)
# One method: the steps in the order a row visits them, what lays results out, and one folder of mathematics.
STEPS = ("plan", "tally", "estimate", "decide", "mitigate", "result", "api")
AROUND = ("wording", "figure", "__init__")
OPTIONAL = {"mitigate"}  # not every question has a correction
MATHEMATICS = {
    "likelihood": "ratio",
    "transport": "program",
    "alternatives": "rules",
    "treatment": "effects",
    "calibration": "smoothing",
}
HEAVY = ("pyspark", "duckdb", "pandas", "pyarrow", "sklearn", "altair", "vl_convert", "scipy.stats", "polars")
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = Path(__file__).parent


def step_of(stem: str) -> str:
    """The step a file of a method belongs to; a question may have a file of its own for it, plan_impact of plan."""
    return stem if stem.startswith("_") else stem.partition("_")[0]


def part_of(module: str) -> str:
    name = module.split(".")[1] if "." in module else ""
    return "methods" if name in METHODS else name


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports when it runs, submodules taken from a package included."""
    tree = ast.parse(path.read_text())
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    types_only = {inner for outer in guarded for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if node in types_only:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            if base == "isonomy" or base.removeprefix("isonomy.") in METHODS:
                yield from (f"{base}.{alias.name}" for alias in node.names)
            else:
                yield base
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def loaded(code: str) -> str:
    seen = f"{code}\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
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


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_files(method: str) -> None:
    folder = PACKAGE / method
    files = {step_of(path.stem) for path in folder.glob("*.py")}
    assert files <= {*STEPS, *AROUND}
    assert {*STEPS, *AROUND} - files <= OPTIONAL
    folders = [path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert folders == [MATHEMATICS[method]]


@pytest.mark.parametrize("method", METHODS)
def test_the_same_names_mean_the_same_steps(method: str) -> None:
    names = {"plan": "Plan", "tally": "Tally", "estimate": "Estimates", "decide": "Decisions"}
    for step, kind in names.items():
        tree = ast.parse((PACKAGE / method / f"{step}.py").read_text())
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        assert {step, kind} <= defined, f"{method}/{step}.py"


@pytest.mark.parametrize("method", METHODS)
def test_steps_import_the_steps_before_them_alone(method: str) -> None:
    """And wording, figure and mathematics import no step at all."""
    folder = PACKAGE / method
    inner = MATHEMATICS[method]
    for path in folder.rglob("*.py"):
        own = step_of(path.relative_to(folder).parts[0].removesuffix(".py"))
        others = {step_of(m.split(".")[2]) for m in imports(path) if m.startswith(f"isonomy.{method}.")} - {own}
        if own in STEPS:
            earlier = STEPS[: STEPS.index(own)]
            assert others <= {*earlier, "wording", "figure", inner}, path
        elif own in ("wording", "figure", inner):
            assert others <= {inner, "wording"}, path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rows_are_seen_in_frames_and_tallies_alone(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    counting = relative.parts[0] in METHODS and len(relative.parts) == 2 and step_of(path.stem) == "tally"
    allowed = relative.parts[0] == "frames" or counting
    if not allowed:
        assert not [module for module in imports(path) if module.split(".")[0] == "narwhals"], relative


@pytest.mark.parametrize("method", METHODS)
def test_words_and_mathematics_keep_to_themselves(method: str) -> None:
    wording = set(imports(PACKAGE / method / "wording.py"))
    assert not {"numpy", "polars", "altair"} & {module.split(".")[0] for module in wording}
    for path in (PACKAGE / method / MATHEMATICS[method]).rglob("*.py"):
        modules = set(imports(path))
        assert not [m for m in modules if m.endswith(".wording") or m.startswith("isonomy.results")], path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_source_has_a_test_file_of_its_name(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    if path.name not in ("__init__.py", "__main__.py", "arrays.py"):  # arrays.py holds names of types alone
        assert (TESTS / relative.parent / f"test_{relative.name}").exists()


def test_every_public_test_has_a_plan() -> None:
    for name in isonomy.__all__:
        getattr(isonomy, name)
    assert {"flag", "certify", "project", "improvability", "treatment_bias", "predictive_parity"} <= set(QUESTIONS)
    for name, question in QUESTIONS.items():
        assert getattr(isonomy, name) is question.function


def test_no_module_can_be_called() -> None:
    assert not [name for name, module in sys.modules.items() if name.startswith("isonomy") and callable(module)]


def test_importing_isonomy_loads_nothing_heavy() -> None:
    assert loaded("import isonomy") == "[]"


def test_using_one_method_loads_no_engine_but_polars() -> None:
    code = (
        "import isonomy as iso\n"
        "d = {'g': ['a', 'b'] * 50, 'p': [0, 1, 1, 0] * 25}\n"
        "iso.flag(d, metric='selection_rate', prediction='p', groups='g')"
    )
    assert loaded(code) == "['polars']"


def test_every_export_resolves_to_the_thing_of_that_name() -> None:
    for name in isonomy.__all__:
        value = getattr(isonomy, name)
        assert getattr(value, "__name__", name).rpartition(".")[2] == name or not callable(value)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = getattr(isonomy, "no_such_name")  # noqa: B009


def test_the_stub_lists_what_it_imports() -> None:
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    listed = next(node.value for node in stub.body if isinstance(node, ast.Assign))
    assert set(ast.literal_eval(listed)) == set(isonomy.__all__)
