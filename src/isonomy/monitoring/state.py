"""The state of a monitor: sums by batch, from which everything else is computed, and the file that holds them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames.groups import Cut, Group
from isonomy.numerics.arrays import FloatArray
from isonomy.results.storage import decode, encode, read, storable, typed, write

FORMAT = 1
storable(Cut)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(kw_only=True)
class Batch:
    """One batch: its name, when it was counted, and its sums.

    ``sums`` are metrics x groups x (n1, s1, n0, s0), or rows, mean and central sums of both sides; ``totals`` are the
    rows and their sum (or mean and sum of squares) for each metric; ``sizes`` are the rows of each group. ``spread``
    has, with people who return, metrics x groups x (A A, A C, C C, buckets) to date. Groups that appear later are not
    listed.
    """

    id: str
    rows: int
    sizes: list[Any]
    totals: list[Any]
    sums: list[Any]
    spread: list[Any] = field(default_factory=list)
    dropped: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    note: str = ""
    at: str = ""


@dataclass(kw_only=True)
class MonitorState:
    """All batches since the options were last changed, from which the evidence is computed.

    ``question``: the options as they were recorded; ``buckets``: cumulated sums by bucket of people, if there are any;
    ``archive``: the batches that were counted with other options, before a restart; ``about``: whatever the caller
    keeps with the monitor.
    """

    question: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    metrics: list[Any] = field(default_factory=list)  # name, whether it is 0/1, whether lower is better
    groups: list[Group] = field(default_factory=list)
    epochs: list[Any] = field(default_factory=lambda: [{"from": 0, "note": ""}])
    batches: list[Batch] = field(default_factory=list)
    buckets: list[Any] | None = None
    archive: list[Any] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def current(self) -> list[Batch]:
        """The batches since the last restart."""
        return self.batches[self.epochs[-1]["from"] :]

    def put_away(self) -> None:
        """Archive the batches, before others are counted with other options."""
        stored = self.stored()
        self.archive.append({name: stored[name] for name in ("question", "groups", "metrics", "epochs", "batches")})
        self.groups, self.metrics, self.batches = [], [], []
        self.epochs = [{"from": 0, "note": self.epochs[-1]["note"]}]

    def padded(self, part: str, first: int, last: int, width: int) -> FloatArray:
        """``part`` of the batches from ``first`` to ``last``: metrics x batches x groups x width, 0 where absent."""
        values = np.zeros((len(self.metrics), last - first, len(self.groups), width))
        for t, batch in enumerate(self.batches[first:last]):
            for k, lines in enumerate(getattr(batch, part)):
                if len(lines):
                    given = np.asarray(lines, dtype=float)
                    values[k, t, : len(given), : given.shape[1]] = given
        return values

    def stored(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        groups, batches = [encode(group) for group in self.groups], [_whole(vars(batch)) for batch in self.batches]
        return parts | {"groups": groups, "batches": batches}


def _whole(value: Any) -> Any:
    """Whole numbers without a decimal point: counts are most of the file."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _digest(contents: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in contents.items() if name != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _counted(stored: Mapping[str, Any]) -> list[Any]:
    return [batch for part in (*stored["archive"], stored) for batch in part["batches"]]


def read_stored(path: Path) -> dict[str, Any]:
    """The contents of a state file; raises `UsageError` for any other file."""
    from isonomy import __version__

    try:
        stored = json.loads(read(path))
    except FileNotFoundError:
        raise UsageError(f"{path.name}: no such file; `isonomy monitor update` and Monitor.save write it.") from None
    except (OSError, ValueError, RecursionError) as error:
        why = "The file is written complete or not at all; restore a copy."
        raise UsageError(f"{path.name}: cannot be read ({str(error)[:200]}). {why}") from None
    if not isinstance(stored, dict) or "isonomy_monitor" not in stored:
        raise UsageError(f'{path.name}: not a monitor\'s state (no key "isonomy_monitor").')
    if stored["isonomy_monitor"] != FORMAT:
        raise UsageError(
            f"{path.name}: written by isonomy {stored.get('version')}; this is {__version__}, which reads format "
            f"{FORMAT} and not {stored['isonomy_monitor']!r}."
        )
    if stored.get("digest") != _digest(stored):
        raise UsageError(f"{path.name}: its contents do not match their digest: the file was changed. Restore a copy.")
    return stored


def read_state(path: Path) -> MonitorState:
    stored = read_stored(path)
    try:
        parts = {name: stored[name] for name in MonitorState.__dataclass_fields__}
        parts["groups"] = [decode(group) for group in parts["groups"]]
        parts["batches"] = [typed(Batch(**batch)) for batch in parts["batches"]]
        _counted(stored)  # raises for an archive of anything else
        return typed(MonitorState(**parts))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path.name}: not a monitor's state ({type(error).__name__}: {str(error)[:200]}).") from None


def save_state(state: MonitorState, path: Path) -> None:
    """Write the file whole. A file with batches that ``state`` has not counted is not overwritten."""
    from isonomy import __version__

    contents = {"isonomy_monitor": FORMAT, "version": __version__, **state.stored()}
    if path.exists():
        known = _counted(read_stored(path))
        if _counted(contents)[: len(known)] != known:
            raise UsageError(
                f"{path.name}: it has batches that this monitor has not counted. Load it, and update that monitor."
            )
    try:
        write(path, json.dumps(contents | {"digest": _digest(contents)}, allow_nan=False, ensure_ascii=False))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}).") from None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold ``<path>.lock``, so that only one process updates the file."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        since = ""
        with contextlib.suppress(OSError, ValueError):
            since = lock.read_text(encoding="utf-8")
        raise UsageError(
            f"{path.name}: another update is running (since {since or 'unknown'}). If none is, delete {lock.name}."
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}).") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(now())
        yield
    finally:
        lock.unlink(missing_ok=True)


# ---- options in the file


class Unwritten(str):
    """The text of an option that a file cannot hold, such as a condition: it must be given again."""


def written_option(value: object) -> dict[str, Any]:
    try:
        return {"value": encode(value)}
    except (TypeError, UsageError):  # an expression
        return {"text": str(value)}


def read_option(stored: Mapping[str, Any]) -> Any:
    return decode(stored["value"]) if "value" in stored else Unwritten(stored["text"])
