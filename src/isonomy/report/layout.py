"""The layout of the page: each entry becomes a section of finished pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from isonomy.report import wording
from isonomy.report.document import Entry
from isonomy.report.tables import MAXIMUM_ROWS, PageTable, table
from isonomy.report.text import one_line, sentence, visible
from isonomy.results import Evidence, phrases
from isonomy.results.columns import plain_value
from isonomy.results.theme import specification

_LABELS = 200  # labels that are searched for in sentences; a report names only the first few of many groups


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite specification as JSON that is safe inside a script element, or the reason there is none."""

    specification: Markup | None
    problem: str = ""


class Section:
    """One test, ready for the template. Every `Markup` is already safe; everything else is escaped there."""

    def __init__(self, number: int, entry: Entry, rows: int = MAXIMUM_ROWS, *, drawn: bool = True) -> None:
        result = entry.result
        columns = {} if result is None else result.table()
        pages = {} if result is None else result.pages()
        labels = [str(label) for label in list(columns.get("group", ()))[:_LABELS]]

        def safe(texts: Iterable[str]) -> tuple[Markup, ...]:
            return tuple(sentence(text, labels) for text in texts)

        self.number, self.entry, self.verdict, self.badge = number, entry, entry.look, entry.badge
        self.heading, self.question = visible(entry.heading), visible(entry.question)
        self.sentence, self.gloss = entry.sentence, entry.gloss
        self.leads, self.truth, self.steps = safe(entry.leads), safe(entry.truth), safe(entry.steps)
        self.facts = _facts(entry)
        self.label = one_line(entry.heading, 200)
        self.chart = chart(result) if drawn and result is not None else None
        self.tables: tuple[tuple[str, PageTable], ...] = ()
        self.tables_first = bool(pages)
        self.null: Markup | None = None
        self.table_note = self.method = ""
        self.findings = self.warnings = self.limits = self.references = safe(())
        self.assumptions: tuple[tuple[Markup, ...], ...] = ()
        if result is None:
            return
        self.tables = tuple(
            (name, table(page, result.described(page), rows, chosen=bool(pages)))
            for name, page in (pages or {wording.NUMBERS: columns}).items()
            if page
        )
        self.null = sentence(result.null[:1].upper() + result.null[1:], labels)
        self.table_note, self.method = result.table_note(), result.method[:1].upper() + result.method[1:]
        self.findings, self.warnings = safe(result.findings()), safe(result.warnings)
        self.limits, self.references = safe(result.limits()), safe(result.references)
        self.assumptions = tuple(safe(pair) for pair in result.assumptions())

    @property
    def text(self) -> str:
        """Every word of the section, to find the terms that need an explanation."""
        assumed = [part for pair in self.assumptions for part in pair]
        sentences = (*self.leads, *self.findings, *self.warnings, *self.limits, *self.steps, *assumed)
        headings = [column.heading for _, table in self.tables for column in table.columns]
        every = (self.heading, self.question, self.gloss, self.null, *sentences, *headings, *dict(self.facts))
        return " ".join(map(str, every))

    @property
    def anchor(self) -> str:
        """The section's address in the page."""
        return f"test-{self.number}"


def _facts(entry: Entry) -> tuple[tuple[str, str], ...]:
    """The provenance of one result, as names and values."""
    facts = [("Test", entry.name), ("Kind", entry.kind)]
    if entry.result is not None:
        record = entry.result.provenance
        facts += [("Function", f"isonomy.{record.call.removeprefix('isonomy.')}"), ("Version", record.version)]
        facts += [("Rows used", phrases.count(record.rows))] if record.rows is not None else []
        facts += [(f"Rows left out, {column} missing", phrases.count(n)) for column, n in record.dropped.items()]
    # Settings have the names of the audit file; results.json also contains those that were not set.
    settings = ((f"Setting {name}", _shown(value)) for name, value in entry.given.items())
    facts += [(name, value) for name, value in settings if value != "none"]
    if entry.seed is not None:
        facts.append(("Seed of this test", str(entry.seed)))
    facts.append(("Time", f"{entry.seconds:.2f} s" + (" (kept from an earlier run)" if entry.resumed else "")))
    if entry.peak_memory is not None:
        facts.append(("Peak memory so far", f"{entry.peak_memory / 2**20:,.0f} MB"))
    return tuple((visible(name), visible(value)) for name, value in facts)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_shown(item)}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(_shown(item) for item in value) or "none"
    return "none" if value is None else one_line(str(value), 2_000)


def chart(result: Evidence) -> Chart:
    """The chart of a result. A chart that cannot be drawn must not stop the report."""
    try:
        drawn = specification(result.plot())
        drawn["config"] = {**drawn.get("config", {}), "background": "transparent"}  # the page has a background itself
        return Chart(embedded(drawn))
    except Exception as error:
        return Chart(None, wording.no_chart(f"{type(error).__name__}: {error}"))


def embedded(value: object) -> Markup:
    """JSON that cannot end the element in which it stands."""
    text = json.dumps(value, allow_nan=False, default=plain_value, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
