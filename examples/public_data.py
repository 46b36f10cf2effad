"""Find the public files and write the prepared tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import polars as pl


def find(name: str) -> Path:
    """The path of a public file; exit with a message if it is missing."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("ISONOMY_DATA", beside)) / name
    if not path.exists():
        sys.exit(f"{name} not found: set ISONOMY_DATA to the folder that contains it.")
    return path


def write(table: pl.DataFrame, script: str) -> None:
    """Write the prepared table next to the script, in a folder that git ignores."""
    folder = Path(script).resolve().parent / "data"
    folder.mkdir(exist_ok=True)
    table.write_parquet(folder / "table.parquet")
    print(f"{folder / 'table.parquet'}: {len(table):,} rows; columns {', '.join(table.columns)}")
