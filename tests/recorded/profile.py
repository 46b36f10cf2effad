"""How much of the package a call uses, and how large the package is.

Run ``PYTHONPATH=tests python -m recorded.profile``, with a topic and the name of a call (``groups flag/tolerance``) or
without.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import isonomy as iso
from recorded import tables

PACKAGE = Path(iso.__file__).parent


@dataclasses.dataclass(frozen=True)
class Touched:
    """What one call used: functions (file and name), files, and the dataclasses it created."""

    functions: frozenset[tuple[str, str]]
    files: frozenset[str]
    dataclasses: frozenset[str]


def plain_flag() -> Any:
    """The simplest call."""
    return iso.flag(tables.decisions(), metric="tpr", outcome="outcome", prediction="prediction", groups="race")


def touched(call: Callable[[], Any]) -> Touched:
    """What a call uses of the package, once everything is imported."""
    call()
    functions: set[tuple[str, str]] = set()
    made: set[str] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount:
            kind = type(frame.f_locals.get(code.co_varnames[0]))
            if dataclasses.is_dataclass(kind) and kind.__module__.startswith("isonomy"):
                made.add(f"{kind.__module__}.{kind.__qualname__}")
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE) and (not code.co_name.startswith("<") or code.co_name == "<lambda>"):
            functions.add((str(path.relative_to(PACKAGE)), code.co_qualname))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Touched(frozenset(functions), frozenset(file for file, _ in functions), frozenset(made))


def parameters() -> dict[str, int]:
    """The number of parameters of each public function and of each class whose objects a caller constructs or fits."""
    returned = (iso.Evidence, iso.AuditResult, iso.CalibrationMetrics, iso.Status, iso.Verdict)
    numbers = {}
    for name in iso.__all__:
        value = getattr(iso, name)
        local = str(getattr(value, "__module__", "")).startswith("isonomy")
        constructed = inspect.isclass(value) and not issubclass(value, (*returned, dict))  # `RowOptions` is a dict
        if local and (inspect.isfunction(value) or constructed):
            numbers[name] = len(inspect.signature(value).parameters)
    return numbers


def classes() -> Iterator[tuple[str, str]]:
    """Every class of the source, with its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(PACKAGE))


def ambiguous() -> dict[str, int]:
    """Class names that stand for several classes."""
    return {name: times for name, times in sorted(Counter(name for name, _ in classes()).items()) if times > 1}


def size() -> tuple[int, int]:
    """Files and lines of the source."""
    files = sorted(PACKAGE.rglob("*.py"))
    return len(files), sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def main(arguments: list[str]) -> None:
    """Print the numbers."""
    call: Callable[[], Any] = plain_flag
    if arguments:
        from recorded.topics import TOPICS

        call = TOPICS[arguments[0]][arguments[1]]
    seen = touched(call)
    print(f"one call{' of ' + arguments[1] if arguments else ' of flag'}:")
    print(f"  functions of isonomy that run   {len(seen.functions)}")
    print(f"  files touched                   {len(seen.files)}")
    print(f"  kinds of dataclass made         {len(seen.dataclasses)}")
    public = parameters()
    largest = max(public, key=lambda name: public[name])
    print(
        f"public parameters                 {sum(public.values())} of {len(public)}; most: {largest}, {public[largest]}"
    )
    several = ambiguous()
    print(f"class names of several classes    {len(several)} ({', '.join(f'{n} {k}' for n, k in several.items())})")
    files, lines = size()
    print(f"source                            {lines} lines in {files} files")


if __name__ == "__main__":
    main(sys.argv[1:])
