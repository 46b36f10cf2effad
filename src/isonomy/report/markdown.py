"""The audit in short: markdown for a pull request or an e-mail, for a model card, and a table for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from isonomy.report import glossary, wording
from isonomy.report.document import Document, Entry
from isonomy.report.text import markdown as escaped
from isonomy.report.text import visible
from isonomy.results import phrases

if TYPE_CHECKING:
    from isonomy.audit.compare import AuditComparison

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


def card(document: Document) -> str:
    """Markdown to paste into a model card, in the card's usual headings. Every label is text."""
    return "\n".join(_card(document)).rstrip() + "\n"


def _card(document: Document) -> Iterator[str]:
    facts = dict(document.facts)
    yield from ("## Fairness evaluation", "", escaped(wording.headline(document.counts)), "")
    yield from ("### Evaluation data", "")
    rows = "" if document.rows is None else f", {document.rows:,} rows"
    yield from (
        f"- {escaped(document.data or 'not recorded')}{rows}",
        f"- {escaped(wording.suppression(document.suppress_below))}",
    )
    yield from ("", "### Quantitative analyses", "", "| question | verdict | finding |", "|---|---|---|")
    for entry in document.entries:
        yield f"| {escaped(entry.heading)} | {entry.badge} | {escaped(entry.lead)} |"
    answers = [(entry, entry.result.provenance.options) for entry in document.entries if entry.result is not None]
    designs = [phrases.designed(options) for _, options in answers]
    glosses = [entry.gloss.removesuffix(design).strip() for (entry, _), design in zip(answers, designs, strict=True)]
    explained = [text for text in dict.fromkeys([*glosses, *designs]) if text]
    yield from ("", *(f"- {escaped(text)}" for text in [*explained, wording.IN_THE_REPORT]))
    limits = [limit for entry in document.entries if entry.result is not None for limit in entry.result.limits()]
    yield from ("", "### Caveats and recommendations", "")
    yield from (f"- {escaped(limit)}" for limit in dict.fromkeys(limits))
    steps = [step for entry in document.entries for step in entry.steps]
    yield from (f"- {escaped(step)}" for step in dict.fromkeys(steps))
    kept = [("isonomy", facts.get("isonomy")), ("fingerprint of the rows", facts.get("Fingerprint of the rows"))]
    provenance = [f"{name} {value}" for name, value in (*kept, ("seed", facts.get("Seed"))) if value]
    yield from ("", f"Made {document.created[:10]} with {escaped(', '.join(provenance))}.")


def comparison_markdown(comparison: AuditComparison) -> str:
    """The comparison of two audits. Every label is text."""
    return "\n".join(_comparison(comparison)).rstrip() + "\n"


def _comparison(comparison: AuditComparison) -> Iterator[str]:
    yield from (f"# {wording.COMPARISON}", "", escaped(comparison.headline), "")
    for name, document in (("Before", comparison.before), ("After", comparison.after)):
        yield f"- {name}: {escaped(document.title)}{f', {document.created[:10]}' if document.created else ''}"
    yield from ("", "| question | before | after | what changed |", "|---|---|---|---|")
    for change in comparison.changes:
        after = f"**{escaped(change.after)}**" if change.changed else escaped(change.after)
        cells = (escaped(change.heading), escaped(change.before), after, escaped(" ".join(change.moves)))
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from (f"- {escaped(note)}" for note in comparison.notes)
