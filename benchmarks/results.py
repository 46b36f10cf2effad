"""Write benchmarks/RESULTS.md: one section per script, with the versions of the packages.

python benchmarks/results.py    prints the file
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

FILE = Path(__file__).with_name("RESULTS.md")
PACKAGES = ("numpy", "scipy", "polars", "scikit-learn", "statsmodels", "fairlearn")
HEAD = "# Benchmark results\n\nRatios are from one run. The command below each title writes its section.\n"


def versions() -> str:
    """The machine and the packages, in one line."""
    known = []
    for name in PACKAGES:
        try:
            known.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            known.append(f"{name} not installed")
    return f"Python {platform.python_version()}, {os.cpu_count()} cores; {', '.join(known)}."


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def write(title: str, command: str, *parts: str) -> None:
    """Replace one section of the file and print it."""
    section = "\n\n".join([f"## {title}", f"`{command}`. {versions()}", *parts]) + "\n"
    text = FILE.read_text() if FILE.exists() else HEAD
    others = [part for part in re.split(r"(?m)^(?=## )", text) if not part.startswith(f"## {title}\n")]
    FILE.write_text("\n".join([part.rstrip() + "\n" for part in (*others, section)]))
    print(section, flush=True)


if __name__ == "__main__":
    print(FILE.read_text() if FILE.exists() else "nothing has been measured yet")
