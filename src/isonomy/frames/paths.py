"""The files behind a path: one, those of a folder, or those of a glob.

Folders are walked through once each, whatever links point to them, and not without end; what is no plain file (a pipe,
a device) would be waited for, and is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from isonomy.errors import DataError, UsageError

MOST = 100_000  # files and folders that are looked at
_MARKS = re.compile(r"[*?\[]")


def is_pattern(path: Path) -> bool:
    """Whether a path stands for several, by its marks."""
    return bool(_MARKS.search(str(path))) and not path.exists()


def files_at(path: Path, argument: str = "data") -> list[Path]:
    """The files behind ``path``, in order; of a folder, the parquet files below it. None where there are none."""
    if is_pattern(path):
        chosen = _matching(path, argument)
    elif path.is_dir():
        chosen = [file for file in _below(path, None, argument) if file.name.endswith(".parquet")]
    else:
        chosen = [path] if path.exists() else []
    for file in chosen:
        if not file.is_file() and not file.is_dir():
            raise UsageError(f"{argument}: {file} is no plain file (a pipe, a socket or a device); name files to read.")
    return sorted(chosen)


def refuse_unlike(files: Sequence[Path]) -> None:
    """Raise if parquet files differ in their columns: engines would take those of the first file, and nulls."""
    each = [file for path in files for file in (files_at(path) if path.is_dir() else [path])]
    parquet = [file for file in each if ".csv" not in file.suffixes]
    if len(parquet) < 2:
        return
    import polars as pl

    try:
        schemas = [pl.read_parquet_schema(file) for file in parquet]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"data: the files cannot be read as parquet ({error}).") from None
    for file, schema in zip(parquet, schemas, strict=True):
        unlike = sorted(name for name in {**schemas[0], **schema} if schema.get(name) != schemas[0].get(name))
        if unlike:
            raise DataError(
                f"data: {_short(parquet[0])} and {_short(file)} differ in column {unlike[0]!r}. "
                "Files of one table need the same columns and types."
            )


def _short(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def _matching(path: Path, argument: str) -> list[Path]:
    """The files and folders that a glob stands for; ** is any number of folders, and names with a dot are hidden."""
    first = next(i for i, part in enumerate(path.parts) if _MARKS.search(part))
    root, parts = Path(*path.parts[:first]), path.parts[first:]
    if not root.is_dir():
        return []
    depth = None if "**" in parts else len(parts)
    return [entry for entry in _below(root, depth, argument) if _fits(entry.relative_to(root).parts, parts)]


def _fits(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the names along a path are those of the parts of a glob."""
    if not parts:
        return not names
    if parts[0] == "**" and _fits(names, parts[1:]):
        return True
    if not names or (names[0].startswith(".") and not parts[0].startswith(".")):
        return False
    return (
        _fits(names[1:], parts) if parts[0] == "**" else fnmatchcase(names[0], parts[0]) and _fits(names[1:], parts[1:])
    )


def _below(root: Path, depth: int | None, argument: str) -> Iterator[Path]:
    """The files and folders below a folder, each folder once."""
    entered: set[tuple[int, int]] = set()
    folders, looked_at = [(root, 1)], 0
    while folders:
        folder, level = folders.pop()
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as listed:
                entries = list(islice(listed, MOST + 1 - looked_at))
            inner = [Path(entry.path) for entry in entries if entry.is_dir()]
        except OSError:  # gone, or not ours to read
            continue
        looked_at += len(entries)
        if looked_at > MOST:
            raise UsageError(
                f"{argument}: more than {MOST:,} files and folders below {root}; name the files more closely."
            )
        yield from (Path(entry.path) for entry in entries)
        if depth is None or level < depth:
            folders += [(path, level + 1) for path in inner]
