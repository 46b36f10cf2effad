"""Files that appear complete or not at all, and the finished tests from which an interrupted audit resumes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isonomy.errors import ConfigError
from isonomy.options import check
from isonomy.results.storage import PARTIAL
from isonomy.results.storage import write as write
from isonomy.results.storage import write_bytes as write_bytes

FILES = ("report.html", "results.json", "summary.md", "junit.xml")
FOLDER = ".isonomy-state"
_OWNER = "audit-file"  # which audit file the folder belongs to, relative to the folder
_KEY = "key"  # of the fingerprints in this folder
KEY_VARIABLE = "ISONOMY_KEY"  # one key for all folders, so that `compare` recognizes the same rows
_OF_THIS_PROCESS = secrets.token_hex(32)  # the key of audits that are not written


def place(folder: str | Path) -> Path:
    check("output", folder, str | Path)
    if "\x00" in str(folder):
        raise ConfigError(f"output: cannot write to {str(folder)!r} (a path cannot contain a null character).")
    return Path(folder)


def refuse(folder: Path, file: Path | None = None) -> None:
    """Raise if a report cannot be written to ``folder``. Writes nothing.

    A folder belongs to the audit file that wrote it, as long as that file exists.
    """
    try:
        nearest = next((nearest for nearest in (folder, *folder.parents) if nearest.exists()), Path())
    except OSError as error:
        raise ConfigError(f"output: cannot write to {folder} ({error.strerror}).") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        why = "is not writable" if nearest.is_dir() else "is a file"
        raise ConfigError(f"output: cannot write to {folder} ({nearest} {why}).")
    for name in FILES:
        if (folder / name).is_dir():
            raise ConfigError(f"output: {folder / name} is a folder; remove it, or name another output folder.")
    state = folder / FOLDER
    if (state.exists() or state.is_symlink()) and not state.is_dir():
        raise ConfigError(f"output: {state} is not a folder; remove it, or name another output folder.")
    others = [name for name in FILES if (folder / name).exists()]
    if others and not state.is_dir() and not _written_here(folder):
        raise ConfigError(
            f"output: {folder / others[0]} was not written by isonomy and would be overwritten; name another output "
            "folder, or move the file."
        )
    try:
        owner = Path(os.path.normpath(folder / (folder / FOLDER / _OWNER).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return
    if file is not None and owner.is_file() and owner.resolve() != file.resolve():
        raise ConfigError(
            f"output: {folder} holds the report of {owner}; name another folder (--output, or output in the audit "
            "file), or delete it."
        )


def _written_here(folder: Path) -> bool:
    """Whether a file in the folder is a report or the results of an audit."""
    for name, mark in (("results.json", b'"schema_version"'), ("report.html", b"Created with isonomy")):
        with contextlib.suppress(OSError), (folder / name).open("rb") as file:
            if mark in file.read():
                return True
    return False


def claim(folder: Path, file: Path | None) -> None:
    if file is not None:
        write(folder / FOLDER / _OWNER, os.path.relpath(file.resolve(), folder.resolve()))


def prepare(folder: Path) -> None:
    """Create the output folder, and delete incomplete files of a killed run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for inside in (folder, folder / FOLDER):
            for left in inside.glob(f".*{PARTIAL}"):
                left.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"output: cannot write to {folder} ({error.strerror}).") from None


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
            place.parent.mkdir(exist_ok=True)
            write(place, key)
            place.chmod(0o600)
    return hmac.new((key or _OF_THIS_PROCESS).encode(), digest.encode(), hashlib.sha256).hexdigest()


class State:
    """Finished tests, one file each, named by everything on which their numbers depend."""

    def __init__(self, folder: Path | None, *, resume: bool) -> None:
        self.folder = None if folder is None else folder / FOLDER
        if self.folder is None:
            return
        self.folder.mkdir(exist_ok=True)
        if not resume:
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

    def save(self, identity: str, stored: Mapping[str, object]) -> None:
        if self.folder is not None:
            checked = [_checksum(identity, stored), stored]
            write(self.folder / f"{identity}.json", json.dumps(checked, allow_nan=False, ensure_ascii=False))

    def forget(self, identity: str) -> None:
        if self.folder is not None:
            (self.folder / f"{identity}.json").unlink(missing_ok=True)


def _checksum(identity: str, stored: Mapping[str, object]) -> str:
    """Of what the numbers depend on, and of the numbers."""
    text = json.dumps([identity, stored], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
