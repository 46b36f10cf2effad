"""The audit in short: markdown for a pull request or an e-mail, for a model card, and a table for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from isonomy.report import glossary, wording
from isonomy.report.document import FINGERPRINT, Document
from isonomy.report.render import environment
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
    """What was asked, what was found, what it does not show."""
    return _rendered("summary.md", document=document, signs=_SIGNS, reading=glossary.reading)


def card(document: Document) -> str:
    """Markdown to paste into a model card, in the card's usual headings."""
    facts = dict(document.facts)
    results = [(entry, entry.result) for entry in document.entries if entry.result is not None]
    designs = [phrases.designed(result.provenance.options) for _, result in results]
    glosses = [entry.gloss.removesuffix(text).strip() for (entry, _), text in zip(results, designs, strict=True)]
    limits = [limit for _, result in results for limit in result.limits()]
    steps = [step for entry in document.entries for step in entry.steps]
    named = (("isonomy", "isonomy"), ("fingerprint of the rows", FINGERPRINT), ("seed", "Seed"))
    return _rendered(
        "card.md",
        document=document,
        explained=list(dict.fromkeys(filter(None, [*glosses, *designs, wording.IN_THE_REPORT]))),
        caveats=list(dict.fromkeys([*limits, *steps])),
        provenance=[f"{name} {facts[fact]}" for name, fact in named if facts.get(fact)],
    )


def comparison_markdown(comparison: AuditComparison) -> str:
    """The comparison of two audits."""
    return _rendered("comparison.md", comparison=comparison)


def _rendered(template: str, **values: object) -> str:
    """A template in which every value is text, whatever it contains."""
    plain = environment().overlay(autoescape=False, finalize=lambda v: v if isinstance(v, Markup) else escaped(str(v)))
    return plain.get_template(template).render(wording=wording, **values).rstrip() + "\n"


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
