"""What an audit gives back: every test's result, the exit code, and the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.audit import state
from isonomy.report import Document, Entry, html, junit, markdown, wording
from isonomy.results import SCHEMA_VERSION, Result, from_dict


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult:
    """The results of an audit, by test id. Groups below the audit's minimum size are already withheld."""

    document: Document
    output: Path | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The tests in the order of the audit file, with their results or errors."""
        return self.document.entries

    @property
    def results(self) -> dict[str, Result]:
        """The results of the tests that came to their end."""
        return {entry.name: entry.result for entry in self.entries if entry.result is not None}

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    @property
    def failing(self) -> tuple[Entry, ...]:
        """The tests whose verdict the audit fails on."""
        return tuple(entry for entry in self.entries if entry.verdict in self.document.fail_on)

    @property
    def exit_code(self) -> int:
        """2 a test's options are wrong; 3 bad data, or nothing to test; 4 a test crashed; 1 a verdict in `fail_on`.

        The first of these that applies, in this order; 0 otherwise.
        """
        kinds = {entry.fault for entry in self.entries}
        for kind, code in (("usage", 2), ("data", 3), ("crash", 4)):
            if kind in kinds:
                return code
        return 1 if self.failing else 0

    def summary(self) -> str:
        """The audit in words."""
        lines = [self.document.title, "", wording.headline(self.document.tally), ""]
        for entry in self.entries:
            lines.append(f"[{wording.BADGES[entry.verdict]}] {entry.heading} ({entry.name})")
            lines.append(f"  {entry.lead}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types."""
        document = self.document
        return {
            "schema_version": SCHEMA_VERSION,
            "title": document.title,
            "description": document.description,
            "created": document.created,
            "data": document.data,
            "rows": document.rows,
            "suppress_below": document.suppress_below,
            "fail_on": list(document.fail_on),
            "tally": document.tally,
            "exit_code": self.exit_code,
            "provenance": dict(document.facts),
            "config": document.config,
            "tests": [_entry(entry) for entry in document.entries],
        }

    def to_json(self) -> str:
        """Everything as JSON; `from_json` brings it back."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> AuditResult:
        """Rebuild an audit from results.json."""
        stored = json.loads(text)
        keys = ("title", "description", "created", "data", "rows", "suppress_below", "config")
        return cls(
            Document(
                **{key: stored[key] for key in keys},
                fail_on=tuple(stored["fail_on"]),
                facts=tuple(stored["provenance"].items()),
                entries=tuple(_restored(test) for test in stored["tests"]),
            )
        )

    def write(self, folder: str | Path) -> AuditResult:
        """Write report.html, results.json, summary.md and junit.xml, each complete or not at all."""
        place = Path(folder)
        state.refuse(place)
        state.prepare(place)
        # The report last: when it is new, everything else is.
        state.write(place / "results.json", self.to_json())
        state.write(place / "summary.md", markdown(self.document))
        state.write(place / "junit.xml", junit(self.document))
        state.write(place / "report.html", html(self.document))
        return AuditResult(self.document, place)


_PLAIN_FIELDS = ("kind", "title", "seconds", "peak_memory", "seed", "resumed", "error", "error_kind")


def _entry(entry: Entry) -> dict[str, object]:
    result = entry.result
    stored: dict[str, object] = {
        "id": entry.name,
        **{name: getattr(entry, name) for name in _PLAIN_FIELDS},
        "verdict": entry.verdict,
        "question": entry.question,
        "truth": list(entry.truth),
    }
    if result is None:
        return stored
    return stored | {
        "null": result.null,
        "findings": list(result.findings()),
        "warnings": list(result.warnings),
        "limits": list(result.limits()),
        "table": {name: [_json(value) for value in values] for name, values in result.table().items()},
        "result": result.to_dict(),
    }


def _restored(stored: Mapping[str, Any]) -> Entry:
    plain = {name: stored[name] for name in _PLAIN_FIELDS}
    result = from_dict(stored["result"]) if "result" in stored else None
    return Entry(name=stored["id"], **plain, truth=tuple(stored["truth"]), result=result)


def _json(value: object) -> object:
    """A cell of a table; numbers JSON has no word for are null (missing) or text (infinite)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
