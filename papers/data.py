"""The location of the public datasets: the folder in ISONOMY_DATA, or shared/data next to the project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SKIPPED = 77  # `make papers` continues after this exit code


def folder() -> Path | None:
    """The data folder, or None if there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    found = Path(os.environ["ISONOMY_DATA"]) if "ISONOMY_DATA" in os.environ else beside
    return found if found.is_dir() else None


def find(name: str) -> Path:
    """The path of one dataset; exit with a message if it is missing."""
    place = folder()
    if place is None or not (place / name).exists():
        print(f"skipped: {name} not found; set ISONOMY_DATA to the folder that contains it (see examples/README.md).")
        sys.exit(SKIPPED)
    return place / name
