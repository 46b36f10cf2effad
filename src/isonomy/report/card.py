"""The fairness section of a model card: what was tested, on what, what came out, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterator

from isonomy.report import wording
from isonomy.report.document import Document
from isonomy.report.text import markdown as escaped
from isonomy.results import phrases


def card(document: Document) -> str:
    """Markdown to paste into a model card, in the card's usual headings. Every label is text."""
    return "\n".join(_lines(document)).rstrip() + "\n"


def _lines(document: Document) -> Iterator[str]:
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
    told = [text for text in dict.fromkeys([*glosses, *designs]) if text]
    yield from ("", *(f"- {escaped(text)}" for text in [*told, wording.IN_THE_REPORT]))
    limits = [limit for entry in document.entries if entry.result is not None for limit in entry.result.limits()]
    yield from ("", "### Caveats and recommendations", "")
    yield from (f"- {escaped(limit)}" for limit in dict.fromkeys(limits))
    steps = [step for entry in document.entries for step in entry.steps]
    yield from (f"- {escaped(step)}" for step in dict.fromkeys(steps))
    kept = [("isonomy", facts.get("isonomy")), ("fingerprint of the rows", facts.get("Fingerprint of the rows"))]
    provenance = [f"{name} {value}" for name, value in (*kept, ("seed", facts.get("Seed"))) if value]
    yield from ("", f"Made {document.created[:10]} with {escaped(', '.join(provenance))}.")
