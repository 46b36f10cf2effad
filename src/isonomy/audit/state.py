"""Files that appear complete or not at all, and the finished tests from which an interrupted audit resumes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isonomy.errors import ConfigError
from isonomy.options import check
from isonomy.results import storage

FILES = ("report.html", "results.json", "summary.md", "junit.xml")
FOLDER = ".isonomy-state"
_PAGE = b"Created with isonomy"
# What these files contain if isonomy wrote them.
_MARKS = {"results.json": b'"schema_version"', "report.html": _PAGE, "compare.html": _PAGE}
_OWNER = "audit-file"  # which audit file the folder belongs to, relative to the folder
_KEY = "key"  # of the fingerprints in this folder
KEY_VARIABLE = "ISONOMY_KEY"  # one key for all folders, so that `compare` recognizes the same rows
_OF_THIS_PROCESS = secrets.token_hex(32)  # the key of audits that are not written


def write(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_bytes(path, content)
    except OSError as error:
        raise ConfigError(f"output: cannot write to {path} ({error.strerror or error}).") from None


def output_folder(folder: str | Path, file: Path | None = None, names: Sequence[str] = FILES) -> Path:
    """The path of the output folder; raises if the files ``names`` cannot be written there. Writes nothing.

    A folder belongs to the audit file that wrote it, as long as that file exists.
    """
    check("output", folder, str | Path)
    if "\x00" in str(folder):
        raise ConfigError(f"output: cannot write to {str(folder)!r} (a path cannot contain a null character).")
    folder, remedy = Path(folder), "remove it, or name another output folder."
    try:
        nearest = next((nearest for nearest in (folder, *folder.parents) if nearest.exists()), Path())
    except OSError as error:
        raise ConfigError(f"output: cannot write to {folder} ({error.strerror}).") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        why = "is not writable" if nearest.is_dir() else "is a file"
        raise ConfigError(f"output: cannot write to {folder} ({nearest} {why}).")
    state = folder / FOLDER
    for path in (*(folder / name for name in names), state / _OWNER, state / _KEY):
        if path.is_dir():
            raise ConfigError(f"output: {path} is a folder; {remedy}")
    if (state.exists() or state.is_symlink()) and not state.is_dir():
        raise ConfigError(f"output: {state} is not a folder; {remedy}")
    existing = [name for name in names if (folder / name).exists()]
    if existing and not state.is_dir() and not any(_has(folder / name, mark) for name, mark in _MARKS.items()):
        raise ConfigError(
            f"output: {folder / existing[0]} was not written by isonomy and would be overwritten; name another output "
            "folder, or move the file."
        )
    try:
        owner = Path(os.path.normpath(folder / (state / _OWNER).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return folder
    if file is not None and owner.is_file() and owner.resolve() != file.resolve():
        raise ConfigError(
            f"output: {folder} holds the report of {owner}; name another folder (--output, or output in the audit "
            "file), or delete it."
        )
    return folder


def _has(file: Path, mark: bytes) -> bool:
    with contextlib.suppress(OSError):
        return mark in file.read_bytes()
    return False


def claim(folder: Path, file: Path | None) -> None:
    if file is not None:
        write(folder / FOLDER / _OWNER, os.path.relpath(file.resolve(), folder.resolve()))


def prepare(folder: str | Path, names: Sequence[str] = FILES) -> Path:
    """Create the output folder for the files ``names``, and delete incomplete files of a killed run."""
    folder = output_folder(folder, names=names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for inside in (folder, folder / FOLDER):
            for left in inside.glob(f".*{storage.PARTIAL}"):
                left.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"output: cannot write to {folder} ({error.strerror}).") from None
    return folder


def keyed(digest: str, folder: Path | None) -> str:
    """A fingerprint of rows that nobody without the key can compare with guesses about the rows.

    The key is that of the environment or, without one, random and kept with the state in the output folder.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if not key and folder is not None:
        place = folder / FOLDER / _KEY
        with contextlib.suppress(OSError, ValueError):
            key = place.read_text(encoding="utf-8")
        if not key:
            key = secrets.token_hex(32)
            write(place, key)
            place.chmod(0o600)
    return hmac.new((key or _OF_THIS_PROCESS).encode(), digest.encode(), hashlib.sha256).hexdigest()


class State:
    """Finished tests, one file each, named by everything on which their numbers depend; none without a folder."""

    def __init__(self, folder: Path | None, *, resume: bool) -> None:
        self.folder = None if folder is None else folder / FOLDER
        if self.folder is not None and not resume:
            for old in self.folder.glob("*.json"):
                old.unlink(missing_ok=True)

    def load(self, identity: str) -> dict[str, Any] | None:
        """What an earlier run stored; None if there is nothing readable, or if it was changed since."""
        if self.folder is None:
            return None
        try:
            checksum, stored = json.loads((self.folder / f"{identity}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return stored if isinstance(stored, dict) and checksum == _checksum(identity, stored) else None

    def save(self, identity: str, stored: Mapping[str, object] | None) -> None:
        """Store a finished test; None deletes what is stored."""
        if self.folder is not None and stored is not None:
            checked = [_checksum(identity, stored), stored]
            write(self.folder / f"{identity}.json", json.dumps(checked, allow_nan=False, ensure_ascii=False))
        elif self.folder is not None:
            (self.folder / f"{identity}.json").unlink(missing_ok=True)


def _checksum(identity: str, stored: Mapping[str, object]) -> str:
    """Of what the numbers depend on, and of the numbers."""
    text = json.dumps([identity, stored], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
