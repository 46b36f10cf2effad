"""The layout of the page: each entry becomes a section of finished pieces, its tables among them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
from markupsafe import Markup

from isonomy.errors import UsageError
from isonomy.report import wording
from isonomy.report.document import Entry
from isonomy.report.overview import direct, overview, worked
from isonomy.report.text import one_line, sentence, visible
from isonomy.results import Columns, Evidence, Status, phrases
from isonomy.results.columns import KEYS, VOCABULARY, Column, cell_text, place, plain_value
from isonomy.results.theme import specification

MAXIMUM_ROWS = 1_000
PRINTED = 100  # lines of a table on paper, in the appendix
SENTENCES = 5  # of findings on the page of a question, at least one finding; the others are in the appendix
_LABELS = 200  # labels that are searched for in sentences; a report names only the first few of many groups


class Section:
    """One test, ready for the template. Every `Markup` is already safe; everything else is escaped there."""

    def __init__(self, number: int, entry: Entry, rows: int = MAXIMUM_ROWS, *, drawn: bool = True) -> None:
        result = entry.result
        columns = {} if result is None else result.table()
        pages = {} if result is None else result.pages()
        labels = [str(label) for label in list(columns.get("group", ()))[:_LABELS]]

        def safe(texts: Iterable[str]) -> tuple[Markup, ...]:
            # An error begins with the name of an argument, which stays as it is.
            return tuple(sentence(text if result is None else phrases.capital(text), labels) for text in texts)

        self.number, self.entry, self.anchor = number, entry, f"test-{number}"
        self.heading, self.question = visible(entry.heading), visible(entry.question)
        self.label, self.sentence, self.gloss = one_line(entry.heading, 200), entry.sentence, entry.gloss
        self.leads, self.truth, self.steps = safe(entry.leads), safe(entry.truth), safe(entry.steps)
        self.facts = _facts(entry)
        self.line, self.example = (None, "") if result is None else (overview(result), worked(result))
        self.direct = result is not None and direct(result)
        self.chart, self.problem = chart(result) if drawn and result is not None else (None, "")
        self.tables: tuple[tuple[str, PageTable, str], ...] = ()  # with their titles, and the notes below them
        self.first = 1  # how many of them are on the page of the question; the others are in the appendix
        self.null: Markup | None = None
        self.method = ""
        self.findings = self.said = self.unsaid = self.warnings = self.limits = self.references = safe(())
        self.assumptions: tuple[tuple[Markup, ...], ...] = ()
        self.like: int | None = None  # an earlier question with the same limits, assumptions, method and references
        if result is None:
            return
        order, marks = result.ranking(), result.marks()
        for name, page in (pages or {wording.NUMBERS: columns}).items():
            note = "" if self.tables else result.table_note()
            if page:
                sorted_page = in_order(page, order)
                shown = table(sorted_page, result.described(page), rows, chosen=bool(pages), marks=marks)
                self.tables += ((name, shown, note),)
        lines = sum(len(shown.rows) for _, shown, _ in self.tables[:2])
        self.first = 2 if len(pages) > 1 and lines <= _LONG else 1
        for name in [name for name in entry.definition.further if name in entry.further]:
            try:
                more = getattr(result, name)()
                shown = table(more.table(), more.described(), rows, chosen=True)
                self.tables += ((more.title, shown, sentence(more.summary(), labels)),)
            except UsageError as error:  # the table is missing, and the page says why
                *others, (title, last, note) = self.tables
                self.tables = (*others, (title, last, sentence(f"{note} {error}".strip(), labels)))
        self.null = sentence(result.null[:1].upper() + result.null[1:], labels)
        self.method = result.method[:1].upper() + result.method[1:]
        findings = result.findings()
        lengths = np.cumsum([len(re.findall(r"[.!?](?=\s|$)", text)) for text in findings])
        said = max(1, int(np.count_nonzero(lengths <= SENTENCES)))
        self.said, self.unsaid, self.warnings = safe(findings[:said]), safe(findings[said:]), safe(result.warnings)
        self.findings = (*self.said, *self.unsaid)
        self.limits, self.references = safe(result.limits()), safe(result.references)
        self.assumptions = tuple(safe(pair) for pair in result.assumptions())

    @property
    def text(self) -> str:
        """Every word of the section, to find the terms that need an explanation."""
        assumed = [part for pair in self.assumptions for part in pair]
        sentences = (*self.leads, *self.findings, *self.warnings, *self.limits, *self.steps, *assumed)
        headings = [column.heading for _, table, _ in self.tables for column in table.columns]
        about = (self.heading, self.question, self.gloss, self.example, self.null, self.sentence, self.entry.badge)
        parts = (*about, *sentences, *headings, *dict(self.facts))
        return " ".join(map(str, parts))


def refer_back(sections: Sequence[Section]) -> None:
    """Print limits, assumptions, method and references once: later questions refer to the first that has them."""
    methods: dict[object, int] = {}
    for part in sections:
        method = (part.limits, part.assumptions, part.method, part.references)
        if part.method and (first := methods.setdefault(method, part.number)) != part.number:
            part.like = first


def in_order(columns: Columns, order: Sequence[int]) -> Columns:
    """The lines in another order; unchanged if the columns are not those of every line."""
    if any(len(values) != len(order) for values in columns.values()):
        return columns
    return {name: [values[i] for i in order] for name, values in columns.items()}


def _facts(entry: Entry) -> tuple[tuple[str, str], ...]:
    facts = [("Test", entry.name), ("Kind", entry.kind)]
    if entry.result is not None:
        record = entry.result.provenance
        facts += [("Function", f"isonomy.{record.call.removeprefix('isonomy.')}"), ("Version", record.version)]
        facts += [("Rows used", phrases.count(record.rows))] if record.rows is not None else []
        unknown: Mapping[str, int] = getattr(entry.result, "unknown", {})
        facts += [(f"Rows used in no rate ({name} unknown)", phrases.count(n)) for name, n in unknown.items() if n]
        facts += [(f"Rows left out, {column} missing", phrases.count(n)) for column, n in record.dropped.items()]
    # Settings have the names of the audit file; results.json also contains those that were not set.
    settings = ((f"Setting {name}", _setting(value)) for name, value in entry.given.items())
    facts += [(name, value) for name, value in settings if value != "none"]
    if entry.seed is not None:
        facts.append(("Seed of this test", str(entry.seed)))
    facts.append(("Time", f"{entry.seconds:.2f} s" + (" (kept from an earlier run)" if entry.resumed else "")))
    if entry.peak_memory is not None:
        facts.append(("Peak memory so far", f"{entry.peak_memory / 2**20:,.0f} MB"))
    return tuple((visible(name), visible(value)) for name, value in facts)


def _setting(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_setting(item)}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return ", ".join(_setting(item) for item in value) or "none"
    return "none" if value is None else one_line(str(value), 2_000)


def chart(result: Evidence) -> tuple[Markup | None, str]:
    """The chart as JSON that cannot end the script element around it, or None and why it could not be drawn."""
    try:
        drawn = specification(result.plot())
        drawn["config"] = {**drawn.get("config", {}), "background": "transparent"}  # the page has a background itself
        text = json.dumps(drawn, allow_nan=False, default=plain_value, separators=(",", ":"))
    except Exception as error:  # a chart that cannot be drawn must not stop the report
        return None, wording.NO_CHART.format(f"{type(error).__name__}: {error}")
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text), ""


# ---- tables: cells with the text that is shown, and the values for sorting and download

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MINOR = ("size", "statistic", "direction", "status")  # common columns that are shown only on request
_SPARE = ("n", "reference", "estimate")  # common columns that are shown only if there is room
_ROOM = 8  # columns that are shown at once
_BELOW = 13  # columns of the tables in which paper prints what is shown only on request
_LONG = 20  # lines of a table on the page of a question; a longer one is printed in the appendix
_HALF = 7  # columns that fit half a page
_RUN = 8  # lines about the same groups that get a heading of their own


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    raw: str
    mark: str = ""  # "violation", "suppressed", ...: verdicts and statuses have a style of their own


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A heading, whether the column holds numbers, and whether it is shown only on request."""

    name: str
    heading: str
    numeric: bool
    minor: bool = False

    @property
    def key(self) -> bool:
        """Whether the column says what a line is about: it is repeated in every part of a table printed in parts."""
        compared = self.name == "reference" and not self.numeric
        return not self.minor and (self.name in KEYS or compared)


@dataclass(frozen=True, slots=True)
class PageTable:
    columns: tuple[PageColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int
    title: str = ""  # what all lines are about, if no column says so

    head = _LONG  # lines of a long table that are printed on the page of the question

    @property
    def long(self) -> bool:
        """Whether paper prints the lines in the appendix, in two halves side by side."""
        return len(self.rows) > _LONG

    @property
    def constant(self) -> dict[int, tuple[str, str]]:
        """The columns of a long table that are the same in every line, by place: heading and value, printed once."""
        lines = self.rows[:PRINTED] if self.long else ()
        texts = ({row[i].text for row in lines} for i in range(len(self.columns)))
        return {i: (self.columns[i].heading, same.pop()) for i, same in enumerate(texts) if len(same) == 1}

    @property
    def halves(self) -> tuple[tuple[PageTable, ...], ...]:
        """A long table on paper: a few columns at a time, with lines about the same groups under their names."""
        if not self.long:
            return ()
        constant = self.constant
        varying = [i for i in range(len(self.columns)) if i not in constant]
        names = [i for i in varying if self.columns[i].key and not self.columns[i].numeric]
        runs = [list(run) for _, run in groupby(self.rows[:PRINTED], lambda row: [row[i].text for i in names])]
        if not names or len(self.rows[:PRINTED]) < _RUN * len(runs):
            names, runs = [], [list(self.rows[:PRINTED])]
        keys = [i for i in varying if self.columns[i].key and i not in names]
        others = [i for i in varying if i not in (*keys, *names)]
        room = max(1, _HALF - len(keys))
        parts = [[*keys, *others[at : at + room]] for at in range(0, max(1, len(others)), room)]
        return tuple(
            tuple(replace(self._only(part, run), title=", ".join(run[0][i].text for i in names)) for run in runs)
            for part in parts
        )

    @property
    def continued(self) -> tuple[PageTable, ...]:
        """The columns that are shown only on request, in tables of the appendix on paper."""
        if self.long:
            return ()
        keys = [i for i, column in enumerate(self.columns) if column.key]
        eventful = {row[i].mark for i, c in enumerate(self.columns) if c.name == "status" for row in self.rows}
        eventful -= {"ok", "reference"}  # otherwise the status only says that every line was tested
        minor = [i for i, c in enumerate(self.columns) if c.minor and (c.name != "status" or eventful)]
        room = _BELOW - len(keys)
        return tuple(self._only([*keys, *minor[at : at + room]], self.rows) for at in range(0, len(minor), room))

    def _only(self, places: Sequence[int], rows: Sequence[tuple[Cell, ...]]) -> PageTable:
        columns = tuple(replace(self.columns[i], minor=False) for i in places)
        return PageTable(columns, tuple(tuple(row[i] for i in places) for row in rows[:PRINTED]), self.total)


def table(
    columns: Columns,
    described: Mapping[str, Column] | None = None,
    limit: int = MAXIMUM_ROWS,
    *,
    chosen: bool = False,
    marks: Mapping[str, str] = MappingProxyType({}),
) -> PageTable:
    """The columns of a result, ready to be shown. ``chosen``: the result chose them and their order; ``marks``: its
    words for verdicts."""
    described = described or {name: Column(name) for name in columns}
    order = list(columns) if chosen else sorted(columns, key=place)
    listed = {name: [v.item() if isinstance(v, np.generic) else v for v in columns[name]] for name in order}
    if "status" in listed:  # lines whose numbers are all withheld come last
        lines = sorted(range(len(listed["status"])), key=lambda i: listed["status"][i] == Status.SUPPRESSED)
        listed = {name: [values[i] for i in lines] for name, values in listed.items()}
    known = {name: [value for value in values if plain_value(value) is not None] for name, values in listed.items()}
    listed = {name: values for name, values in listed.items() if name in KEYS or known[name]}
    if len(set(listed.get("table", ()))) == 1:  # the only table needs no name
        del listed["table"]
    numeric = {name: bool(known[name]) and {type(value) for value in known[name]} <= {int, float} for name in listed}
    shown = _shown(list(listed), chosen=chosen)
    drawn = {
        name: [_cell(described[name], value, numeric[name]) for value in values[:limit]]
        for name, values in listed.items()
    }
    _align_intervals(drawn, listed, described)
    if marks and "verdict" in drawn:
        drawn["verdict"] = [replace(cell, text=marks.get(cell.mark, cell.text)) for cell in drawn["verdict"]]
    for i, status in enumerate(drawn.get("status", []) if "verdict" in drawn else []):  # what was not judged
        judged = "adjusted_pvalue" not in listed or plain_value(listed["adjusted_pvalue"][i]) is not None
        if status.mark in ("reference", "suppressed") or (status.mark not in ("", "ok") and not judged):
            drawn["verdict"][i] = replace(status, raw=drawn["verdict"][i].raw)
    return PageTable(
        columns=tuple(PageColumn(n, described[n].title, numeric[n], minor=n not in shown) for n in listed),
        rows=tuple(zip(*drawn.values(), strict=True)),
        total=max((len(values) for values in listed.values()), default=0),
    )


def _align_intervals(
    drawn: dict[str, list[Cell]], listed: Mapping[str, Sequence[Any]], described: Mapping[str, Column]
) -> None:
    for name in [name for name in drawn if name.endswith("low") and f"{name[:-3]}high" in drawn]:
        other = f"{name[:-3]}high"
        if described[name].count or described[name].whole:
            continue
        for i, (low, high) in enumerate(zip(listed[name][: len(drawn[name])], listed[other], strict=False)):
            if isinstance(low, float) and isinstance(high, float) and math.isfinite(low) and math.isfinite(high):
                texts = phrases.ends(low, high, shares=bool(described[name].unit))
                for key, text in zip((name, other), texts, strict=True):
                    drawn[key][i] = replace(drawn[key][i], text=text.replace("-", "−", 1))


def _shown(names: Sequence[str], *, chosen: bool) -> list[str]:
    minor = (*_MINOR, "pvalue") if "adjusted_pvalue" in names and not chosen else _MINOR
    major = [name for name in names if name not in minor]
    excess = sum(name in VOCABULARY for name in major) - _ROOM
    spare = [name for name in _SPARE if name in major][: max(0, excess)]
    shown = [name for name in major if name not in spare][:_ROOM]
    return [*shown[:-1], "verdict"] if "verdict" in major and "verdict" not in shown else shown


def _cell(column: Column, value: object, numeric: bool) -> Cell:
    text, plain = visible(cell_text(column, value)), plain_value(value)
    if plain is None or numeric or isinstance(plain, bool):
        whole = (column.count or column.whole) and isinstance(value, float) and value.is_integer()
        return Cell(text, "" if plain is None else str(int(value) if whole else value))  # type: ignore[call-overload]
    if column.name in ("verdict", "status"):
        return Cell(text, str(plain), mark=str(plain))
    return Cell(text, f"'{text}" if text.startswith(_FORMULA) else text)  # a spreadsheet must not compute it
