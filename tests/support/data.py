"""The location of the public datasets: the folder in ISONOMY_DATA, or shared/data next to the project."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path | None:
    """The folder of public datasets, or None if there is none."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    place = Path(os.environ.get("ISONOMY_DATA") or beside)
    return place if place.is_dir() else None
