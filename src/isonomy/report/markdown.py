"""The audit in short: on one page of markdown for a pull request or an e-mail, as a table for a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from isonomy.report import glossary, wording
from isonomy.report.document import Document, Entry
from isonomy.report.text import markdown as escaped
from isonomy.report.text import visible
from isonomy.results import phrases

_SIGNS = {
    "violation": "🟠",
    "shown": "🔵",
    "within_tolerance": "🟢",
    "inconclusive": "⚪",
    "compared": "🔵",
    "failed": "⛔",
}


def markdown(document: Document) -> str:
    """What was asked, what was found, what it does not show. Every label is text."""
    lines = list(_lines(document))
    return "\n".join([*lines, *_reading(document, " ".join(lines))]).rstrip() + "\n"


def outline(document: Document) -> str:
    """The audit as a small table for a notebook: questions, verdicts, and the findings that decided them."""
    rows = [
        Markup("<tr><td>{}</td><td><strong>{}</strong></td><td>{}</td></tr>").format(
            visible(entry.heading), entry.badge, Markup("<br>").join(visible(lead) for lead in entry.leads)
        )
        for entry in document.entries
    ]
    head = Markup("<p><strong>{}</strong></p><p>{}</p>").format(
        visible(document.title), wording.headline(document.counts)
    )
    columns = Markup("<thead><tr><th>Question</th><th>Verdict</th><th>What was found</th></tr></thead>")
    return head + Markup("<table>{}<tbody>{}</tbody></table>").format(columns, Markup("").join(rows))


def _lines(document: Document) -> Iterator[str]:
    yield from (f"# {escaped(document.title)}", "", escaped(wording.headline(document.counts)), "")
    if document.fail_on:
        failing = sum(entry.verdict in document.fail_on for entry in document.entries)
        yield from (escaped(wording.outcome_line(failing, document.fail_on)), "")
    yield from ("| test | question | verdict |", "|---|---|---|")
    for entry in document.entries:
        verdict = f"{_SIGNS[entry.look]} {entry.badge}"
        yield f"| {escaped(entry.name)} | {escaped(entry.heading)} | {verdict} |"
    yield ""
    for entry in document.entries:
        yield from _entry(entry)


def _reading(document: Document, text: str) -> Iterator[str]:
    yield from ("## How to read this", "")
    yield from (f"- **{escaped(term)}**: {escaped(meaning)}" for term, meaning in glossary.reading(text))
    yield from ("", escaped(wording.IN_THE_REPORT))
    yield from ("", escaped(wording.suppression(document.suppress_below)), "", "## Provenance", "")
    yield from (f"- {escaped(name)}: {escaped(value)}" for name, value in document.facts)


def _entry(entry: Entry) -> Iterator[str]:
    yield from (f"## {escaped(entry.heading)}", "", f"*{escaped(entry.kind)}, test {escaped(entry.name)}*", "")
    yield from (escaped(entry.question), "") if entry.question != entry.heading else ()
    yield from (f"**{escaped(entry.sentence)}**", "")
    if entry.result is None:
        yield from (escaped(entry.error or ""), "")
        return
    result = entry.result
    yield from (escaped(entry.gloss), "") if entry.gloss else ()
    yield from (f"- {escaped(finding)}" for finding in result.findings())
    yield from ("", f"Tested: {escaped(result.null)}", "")
    yield from _bullets("What is true in this simulation", entry.truth)
    yield from _bullets("Warnings", result.warnings)
    yield from _bullets("What this does not show", result.limits())
    yield from _bullets("What to do next", entry.steps)
    rows = result.provenance.rows
    yield from (f"Rows used: {phrases.count(rows)}." if rows is not None else "", "")


def _bullets(heading: str, items: tuple[str, ...]) -> Iterator[str]:
    if items:
        yield from (f"### {heading}", "", *(f"- {escaped(item)}" for item in items), "")
