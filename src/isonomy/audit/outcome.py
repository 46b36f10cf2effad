"""What an audit returns: the result of every test, the exit code, the files, and all of them in one archive."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isonomy.audit import state
from isonomy.errors import ConfigError, UsageError
from isonomy.report import Decided, Document, Entry, html, junit, markdown
from isonomy.report.document import DATES, FINGERPRINT
from isonomy.report.layout import Section
from isonomy.report.render import browser, print_pdf
from isonomy.results import SCHEMA_VERSION, Evidence, from_dict
from isonomy.results.columns import VOCABULARY, plain_value
from isonomy.results.evidence import plain_option
from isonomy.results.storage import check_version, read, typed

if TYPE_CHECKING:
    import polars as pl

NAME = "evidence.zip"
MANIFEST = "MANIFEST.sha256"
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_OF_THE_RUN = ("Time", "Peak memory")  # facts that differ from run to run
_READ_ME = """\
The evidence of one audit. It does not record when it was made or how long that took, so the same rows, audit file,
seed, versions and key of the fingerprint produce the same bytes. MANIFEST.sha256 lists every other file (check it with:
sha256sum -c MANIFEST.sha256). report.html opens in any browser and loads nothing from the network.
"""


_ESTIMATE = VOCABULARY.index("estimate") + 1
# The columns of the table of all tests: the common ones, and the limits of the estimate.
_TABLE = (*VOCABULARY[:_ESTIMATE], "estimate_low", "estimate_high", *VOCABULARY[_ESTIMATE:])


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
    def results(self) -> dict[str, Evidence]:
        """The results of the tests that finished."""
        return {entry.name: entry.result for entry in self.entries if entry.result is not None}

    def __getitem__(self, name: str) -> Evidence:
        return self.results[name]

    @property
    def failing(self) -> tuple[Entry, ...]:
        """The tests whose verdict the audit fails on."""
        return self.document.failing

    @property
    def exit_code(self) -> int:
        """2 a test's options are wrong; 3 bad data, or nothing to test; 4 a test crashed; 1 a verdict in `fail_on`.

        The first of these that applies, in this order; 0 otherwise.
        """
        faults = {entry.fault for entry in self.entries}
        codes = [code for kind, code in (("usage", 2), ("data", 3), ("crash", 4)) if kind in faults]
        return codes[0] if codes else int(bool(self.failing))

    def summary(self) -> str:
        """The audit in words."""
        lines = [self.document.title, "", self.document.headline, ""]
        lines += [f"[{entry.badge}] {entry.heading} ({entry.name})\n  {entry.lead}" for entry in self.entries]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<AuditResult {self.document.title!r}: {self.document.headline}>"

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types."""
        document = self.document
        return {
            "schema_version": SCHEMA_VERSION,
            **{name: getattr(document, name) for name in _DOCUMENT},
            "fail_on": list(document.fail_on),
            "tally": document.tally,
            "exit_code": self.exit_code,
            "provenance": dict(document.facts),
            "tests": [_stored(entry) for entry in document.entries],
        }

    def to_json(self) -> str:
        """Everything as JSON; `from_json` brings it back."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> AuditResult:
        """Rebuild an audit from results.json."""
        try:
            stored = json.loads(text)
            check_version("results.json", stored.get("schema_version"))
            document = typed(
                Document(
                    **{name: stored[name] for name in _DOCUMENT},
                    fail_on=tuple(stored["fail_on"]),
                    facts=tuple((name, str(value)) for name, value in stored["provenance"].items()),
                    entries=tuple(map(_restored, stored["tests"])),
                )
            )
            for entry in document.entries:
                Section(1, entry, 1, drawn=False)  # raises for words and tables of the wrong type
        except UsageError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError) as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            raise UsageError(f"results.json: not the results of an audit ({reason}).") from None
        return cls(document)

    def to_frame(self) -> pl.DataFrame:
        """One row per line of each test (group, metric and so on), with the same columns for every audit.

        Columns that a test does not have are null, and so are withheld numbers. A test without a result has one row.
        """
        import polars as pl

        document, facts = self.document, dict(self.document.facts)
        dates = facts.get(DATES, "").split(" to ")
        known: dict[str, object] = {"audit": document.title, "first_date": dates[0], "last_date": dates[-1]}
        known |= {"run": document.created, "fingerprint": facts.get(FINGERPRINT)}
        rows: list[dict[str, object]] = []
        for entry in self.entries:
            lines = {} if entry.result is None else {k: v for k, v in entry.result.table().items() if k in _TABLE}
            common = known | {"test": entry.name, "kind": entry.kind, "test_verdict": entry.verdict}
            common |= {"metric": entry.metrics[0]} if len(entry.metrics) == 1 else {}
            length = max(map(len, lines.values()), default=1)
            rows += [common | {name: plain_value(column[i]) for name, column in lines.items()} for i in range(length)]
        names = (*known, "test", "kind", "test_verdict", *_TABLE)
        texts = [[None if (cell := row.get(name)) in (None, "") else str(cell) for name in names] for row in rows]
        frame = pl.DataFrame(texts, schema=dict.fromkeys(names, pl.String), orient="row")
        numbers = _TABLE[_TABLE.index("size") : _TABLE.index("verdict")]
        return frame.with_columns(pl.col(numbers).cast(pl.Float64), pl.col("first_date", "last_date").str.to_date())

    def write(self, folder: str | Path) -> AuditResult:
        """Write report.html, results.json, summary.md and junit.xml, each complete or not at all."""
        place = state.prepare(folder)
        for name, text in self._texts().items():
            state.write(place / name, text)
        return AuditResult(self.document, place)

    def _texts(self) -> dict[str, str]:
        """The files. The report last: when it is new, everything else is."""
        results = self.to_json()
        return {
            "results.json": results,
            "summary.md": markdown(self.document),
            "junit.xml": junit(self.document),
            "report.html": html(self.document, _fingerprint(results)),
        }

    def write_report(self, folder: str | Path, *, pdf: bool = False) -> list[Path]:
        """Write report.html alone, and with ``pdf`` print it to report.pdf; returns what was written."""
        if pdf:
            browser()  # raises before anything is written
        place = state.prepare(folder, ("report.html", "report.pdf"))
        state.write(place / "report.html", html(self.document, _fingerprint(self.to_json())))
        if pdf:
            print_pdf(place / "report.html", place / "report.pdf")
        return [place / "report.html", *([place / "report.pdf"] if pdf else [])]


def _fingerprint(results: str) -> str:
    return hashlib.sha256(results.encode("utf-8", "replace")).hexdigest()


def write_table(audits: Iterable[AuditResult], path: Path) -> Path:
    """Write the rows of the audits, one below the other, to a csv, parquet or xlsx file."""
    import polars as pl

    writers = {".csv": "write_csv", ".parquet": "write_parquet", ".xlsx": "write_excel"}
    if path.suffix not in writers:
        raise UsageError(f"table: {str(path)!r} must end in .csv, .parquet or .xlsx.")
    frame, buffer = pl.concat([audit.to_frame() for audit in audits]), BytesIO()
    try:
        getattr(frame, writers[path.suffix])(buffer)
    except ModuleNotFoundError:
        raise UsageError('table: .xlsx needs pip install "isonomy[excel]"; a .csv file opens in Excel too.') from None
    state.write_bytes(path, buffer.getvalue())
    return path


def read_results(path: str | Path) -> AuditResult:
    """The audit in a results.json; raises `ConfigError` for any other file."""
    place = Path(path)
    try:
        text = read(place)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: cannot be read ({error}).") from None
    try:
        return AuditResult.from_json(text)
    except UsageError as error:
        raise ConfigError(f"{place}: {error}") from None


# Fields that JSON holds as they are.
_DOCUMENT = ("title", "description", "created", "data", "config", "rows", "suppress_below")
_ENTRY = ("kind", "title", "seconds", "peak_memory", "seed", "resumed", "error", "error_kind")


def _stored(entry: Entry) -> dict[str, object]:
    result = entry.result
    stored: dict[str, object] = {
        "id": entry.name,
        **{name: getattr(entry, name) for name in _ENTRY},
        "verdict": entry.verdict,
        "question": entry.question,
        "truth": list(entry.truth),
        "words": dict(entry.words),
        **({"further": list(entry.further)} if entry.further else {}),
        **({"decided": asdict(entry.decided)} if entry.decided else {}),
        **({"chosen": entry.chosen} if entry.chosen != "selected" else {}),
    }
    if result is None:
        return stored | {"options": plain_option(entry.options)}
    return stored | {
        "null": result.null,
        "findings": list(result.findings()),
        "warnings": list(result.warnings),
        "limits": list(result.limits()),
        "table": {name: [plain_value(value) for value in values] for name, values in result.table().items()},
        "result": result.to_dict(),
    }


def _restored(stored: Mapping[str, Any]) -> Entry:
    fields = {name: stored[name] for name in _ENTRY} | {name: stored.get(name, {}) for name in ("words", "options")}
    fields |= {name: tuple(stored.get(name, ())) for name in ("truth", "further")}
    result = from_dict(stored["result"]) if "result" in stored else None
    decided = typed(Decided(**stored["decided"])) if "decided" in stored else None
    fields |= {"chosen": stored["chosen"]} if "chosen" in stored else {}
    return typed(Entry(name=stored["id"], result=result, decided=decided, **fields))


def write_pack(result: AuditResult) -> Path:
    if result.output is None:
        raise UsageError("pack: the audit was not written; give an output folder.")
    path = result.output / NAME
    if path.exists() and not zipfile.is_zipfile(path):
        raise ConfigError(f"pack: {path} was not written by isonomy and would be overwritten; move it.")
    state.write_bytes(path, packed(result))
    return path


def packed(result: AuditResult) -> bytes:
    """The files of the pack, always in the same order and without what differs from run to run."""
    entries = tuple(replace(entry, seconds=0.0, peak_memory=None, resumed=False) for entry in result.entries)
    facts = tuple((name, value) for name, value in result.document.facts if name not in _OF_THE_RUN)
    document = replace(result.document, created="", entries=entries, facts=facts)
    environment = "".join(f"{name}: {value}\n" for name, value in document.facts)
    texts = {"README.txt": _READ_ME, "audit.toml": document.config, "environment.txt": environment}
    texts |= AuditResult(document)._texts()
    contents = {name: text.encode("utf-8", "replace") for name, text in sorted(texts.items())}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # no compressor, whose bytes differ by version
        for name, content in {**contents, MANIFEST: sums.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), content)
    return buffer.getvalue()
