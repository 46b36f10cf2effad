"""What stands where on the page: each entry becomes a section of finished pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from markupsafe import Markup

from isonomy.report import wording
from isonomy.report.charts import Chart, chart
from isonomy.report.document import Entry
from isonomy.report.tables import MAXIMUM_ROWS, Table, table
from isonomy.report.text import one_line, sentence, visible
from isonomy.results import Result, phrases

_LABELS = 200  # labels looked for in a sentence; a report names only the first few of many groups


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Section:
    """One test, ready for the template. Every `Markup` is already safe; everything else is escaped there."""

    number: int
    entry: Entry
    verdict: str
    badge: str
    sentence: str
    heading: str
    question: str
    leads: tuple[Markup, ...]  # for the summary at the top
    gloss: str = ""  # technical words of this test, explained
    findings: tuple[Markup, ...] = ()
    truth: tuple[Markup, ...] = ()
    null: Markup | None = None
    chart: Chart | None = None
    chart_label: str = ""
    tables: tuple[tuple[str, Table], ...] = ()  # each with its heading
    tables_first: bool = False  # before the picture
    table_note: str = ""
    assumptions: tuple[tuple[Markup, Markup], ...] = ()
    warnings: tuple[Markup, ...] = ()
    limits: tuple[Markup, ...] = ()
    steps: tuple[Markup, ...] = ()  # what to do next
    method: str = ""
    references: tuple[Markup, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def table(self) -> Table | None:
        """The first of the tables."""
        return self.tables[0][1] if self.tables else None

    @property
    def text(self) -> str:
        """Every word of the section, to find those that need an explanation."""
        assumed = [part for pair in self.assumptions for part in pair]
        sentences = (*self.leads, *self.findings, *self.warnings, *self.limits, *self.steps, *assumed)
        headings = [column.heading for _, table in self.tables for column in table.columns]
        return " ".join(
            map(str, (self.heading, self.question, self.gloss, self.null, *sentences, *headings, *dict(self.facts)))
        )

    @property
    def anchor(self) -> str:
        """The section's address in the page."""
        return f"test-{self.number}"


def section(number: int, entry: Entry, rows: int = MAXIMUM_ROWS, *, picture: bool = True) -> Section:
    """Every piece of one entry."""
    result = entry.result
    part = Section(
        number=number,
        entry=entry,
        verdict=entry.look,
        badge=entry.badge,
        steps=_sentences(entry.steps, ()),
        sentence=entry.sentence,
        heading=visible(entry.heading),
        question=visible(entry.question),
        gloss=entry.gloss,
        leads=(sentence(entry.lead),),
        facts=_facts(entry),
    )
    if result is None:
        return part
    columns, pages = result.table(), result.pages()
    labels = [str(label) for label in list(columns.get("group", ()))[:_LABELS]]
    findings = _sentences(result.findings(), labels)
    return replace(
        part,
        leads=_sentences(entry.leads, labels),
        findings=findings,
        truth=_sentences(entry.truth, labels),
        null=sentence(result.null[:1].upper() + result.null[1:], labels),
        chart=chart(result) if picture else None,
        chart_label=wording.chart_label(one_line(entry.heading, 200)),
        tables=tuple(
            (name, table(page, rows, result.units(), result.headings()))
            for name, page in (pages or {wording.NUMBERS: columns}).items()
            if page
        ),
        tables_first=bool(pages),
        table_note=result.table_note(),
        assumptions=tuple((sentence(what, labels), sentence(how, labels)) for what, how in result.assumptions()),
        warnings=_sentences(result.warnings, labels),
        limits=_sentences(result.limits(), labels),
        method=result.method[:1].upper() + result.method[1:],
        references=_sentences(result.references, ()),
    )


def _sentences(texts: Iterable[str], labels: Iterable[str]) -> tuple[Markup, ...]:
    known = tuple(labels)
    return tuple(sentence(text, known) for text in texts)


def _facts(entry: Entry) -> tuple[tuple[str, str], ...]:
    """Where one result came from, as names and values."""
    facts = [("Test", entry.name), ("Kind", entry.kind)]
    if entry.result is not None:
        facts += _provenance(entry.result)
    else:
        facts += _options(entry.options)
    if entry.seed is not None:
        facts.append(("Seed of this test", str(entry.seed)))
    facts.append(("Time", f"{entry.seconds:.2f} s" + (" (kept from an earlier run)" if entry.resumed else "")))
    if entry.peak_memory is not None:
        facts.append(("Peak memory so far", f"{entry.peak_memory / 2**20:,.0f} MB"))
    return tuple((visible(name), visible(value)) for name, value in facts)


def _provenance(result: Result) -> list[tuple[str, str]]:
    record = result.provenance
    facts = [
        ("Function", f"isonomy.{record.call}".replace("isonomy.isonomy.", "isonomy.")),
        ("Version", record.version),
    ]
    if record.rows is not None:
        facts.append(("Rows used", phrases.count(record.rows)))
    facts += [(f"Rows left out, {column} missing", phrases.count(n)) for column, n in record.dropped.items()]
    return facts + _options(record.options)


def _options(options: Mapping[str, object]) -> list[tuple[str, str]]:
    """The settings, under their names in an audit file; results.json holds those that were not set, too."""
    shown = [(f"Setting {name}", _shown(value)) for name, value in options.items()]
    return [(name, value) for name, value in shown if value != "none"]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_shown(item)}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(_shown(item) for item in value) or "none"
    return "none" if value is None else one_line(str(value), 2_000)
