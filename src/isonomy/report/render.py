"""The report as one HTML page, on paper, as markdown, and as JUnit's XML. A page loads nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from markupsafe import Markup

from isonomy.errors import MethodError, UsageError
from isonomy.report import wording
from isonomy.report.document import FINGERPRINT, Document
from isonomy.report.layout import MAXIMUM_ROWS, PRINTED, Section, refer_back
from isonomy.report.overview import choices
from isonomy.report.text import markdown as escaped
from isonomy.report.text import sentence, visible
from isonomy.results import phrases

if TYPE_CHECKING:
    from jinja2 import Environment

    from isonomy.audit.compare import AuditComparison

MAXIMUM_BYTES = 5_000_000
_CHART_BYTES = 2_500_000  # all specifications together; what does not fit is reported, not drawn
_TABLE_ROWS = (MAXIMUM_ROWS, 200, 50, 10, 1)


def html(document: Document, fingerprint: str = "") -> str:
    """The whole page. Tables are shortened, with a note, if the page would exceed 5 MB.

    ``fingerprint``: the SHA-256 of the results that the page shows, at the foot of every printed page.
    """
    page = ""
    for rows in _TABLE_ROWS:
        page = _page(document, rows, fingerprint)
        if len(page.encode("utf-8", "replace")) < MAXIMUM_BYTES:
            break
    return page


def _page(document: Document, rows: int, fingerprint: str) -> str:
    sections = [Section(i, entry, rows) for i, entry in enumerate(document.entries, start=1)]
    refer_back(sections)
    left = _CHART_BYTES
    for part in sections:
        left -= (size := len(part.chart or ""))
        if left < 0:
            left, part.chart, part.problem = left + size, None, wording.NO_CHART.format("the page would be too large")
    charts = any(part.chart for part in sections)
    scripts = [*([Markup(library())] if charts else []), Markup(template("report.js"))]
    return (
        environment()
        .get_template("report.html")
        .render(
            document=document,
            title=visible(document.title),
            description=sentence(document.description),
            sections=sections,
            tally=document.counts,
            choices=choices(document.entries),
            fingerprint=fingerprint,
            running=running(document, fingerprint),
            printed=PRINTED,
            suppression=wording.suppression(document.suppress_below),
            facts=[(visible(name), visible(value)) for name, value in document.facts],
            config=visible(document.config),
            wording=wording,
            reading=wording.reading(" ".join([*(part.text for part in sections), *dict(document.facts)])),
            style=Markup(template("report.css")),
            scripts=scripts,
            policy=policy(scripts),
        )
    )


def running(document: Document, fingerprint: str) -> Markup:
    """The title at the head of every printed page; at its foot the page number, and the fingerprint of the results."""
    foot = f"results.json SHA-256 {fingerprint[:32]}" if fingerprint else ""
    boxes = {
        "@top-left": css_text(document.title[:100]),
        "@top-right": css_text(document.created[:10]),
        "@bottom-left": css_text(foot),
        "@bottom-right": '"Page " counter(page) " of " counter(pages)',
    }
    rules = " ".join(f"{name} {{ content: {text}; }}" for name, text in boxes.items())
    return Markup(f"@page {{ {rules} }}")


def css_text(text: str) -> str:
    """A string of a style sheet that nothing can leave: all but letters, digits and spaces is escaped."""
    return (
        '"'
        + "".join(c if c.isascii() and (c.isalnum() or c == " ") else f"\\{ord(c):06x}" for c in visible(text))
        + '"'
    )


def policy(scripts: list[Markup]) -> str:
    """What the browser may do: run exactly these scripts, and nothing else. A second defense behind the escaping."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def comparison_html(comparison: AuditComparison) -> str:
    return (
        environment()
        .get_template("comparison.html")
        .render(
            heading=wording.COMPARISON.format(len(comparison.audits)),
            headline=comparison.headline,
            audits=comparison.audits,
            changes=comparison.changes,
            notes=comparison.notes,
            visible=visible,
            sentence=sentence,
            style=Markup(template("report.css")),
            policy=policy([]),
        )
    )


@cache
def template(name: str) -> str:
    return (files("isonomy.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed in one script, from the renderer's own copy: no network."""
    import vl_convert

    return vl_convert.javascript_bundle()  # type: ignore[call-arg]


# ---- markdown for a pull request, an e-mail or a model card

_SIGNS = {
    "violation": "🟠",
    "shown": "🔵",
    "within_tolerance": "🟢",
    "inconclusive": "⚪",
    "compared": "🔵",
    "failed": "⛔",
}


def markdown(document: Document) -> str:
    return _rendered("summary.md", document=document, signs=_SIGNS, reading=wording.reading, capital=phrases.capital)


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
    return _rendered("comparison.md", comparison=comparison)


def _rendered(template: str, **values: object) -> str:
    plain = environment().overlay(autoescape=False, finalize=lambda v: v if isinstance(v, Markup) else escaped(str(v)))
    return plain.get_template(template).render(wording=wording, **values).rstrip() + "\n"


# ---- JUnit's XML for continuous integration: one test case per test

# What XML 1.0 cannot hold even when escaped; `visible` has already replaced the usual ones.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: Document) -> str:
    attributes = {
        "tests": str(len(document.entries)),
        "failures": str(len(document.failing)),
        "errors": str(sum(not entry.answered for entry in document.entries)),
        "time": f"{sum(entry.seconds for entry in document.entries):.3f}",
    }
    root = ET.Element("testsuites", {"name": _text(document.title), **attributes})
    suite = ET.SubElement(root, "testsuite", {"name": _text(document.title), **attributes})
    if document.created:
        suite.set("timestamp", document.created)
    for entry in document.entries:
        names = {"classname": f"isonomy.{entry.kind}", "name": _text(entry.name), "time": f"{entry.seconds:.3f}"}
        case = ET.SubElement(suite, "testcase", names)
        if entry.fault is not None:
            ET.SubElement(case, "error", {"message": _text(entry.lead), "type": entry.fault})
        if entry.result is None:
            continue
        findings = _text("\n".join(entry.result.findings()))
        if failures := entry.failures(document.fail_on):
            message = _text(f"{entry.sentence} {entry.lead}")
            ET.SubElement(case, "failure", {"message": message, "type": " ".join(failures)}).text = findings
        ET.SubElement(case, "system-out").text = _text(f"{entry.question}\n{entry.sentence}\n") + findings
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _text(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", visible(text))


# ---- paper: an installed Chromium prints the page as PDF

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
_SECONDS = 180
_PRINTINGS = 3  # the first without page numbers; the last changes none of them
_SCREEN = "1440,900"  # charts are drawn for it: on a small screen, views are stacked
_DRAWING = 30_000  # milliseconds of the page's own clock, within which its charts are drawn


def browser() -> str:
    named = os.environ.get("ISONOMY_BROWSER")
    places = [shutil.which(name) for name in ((named,) if named else BROWSERS)]
    place = next((place for place in places if place), None)
    if place is None:
        wanted = f"ISONOMY_BROWSER names {named!r}, which does not exist" if named else "none is installed"
        raise UsageError(
            f"pdf: a Chromium browser is needed to print, and {wanted}. Install Chromium, Chrome or Edge, or open "
            "report.html in any browser and print it from there."
        )
    return place


def print_pdf(page: Path, target: Path) -> None:
    """Print an HTML file with page numbers beside its links; ``target`` appears complete or not at all.

    Chromium cannot refer to page numbers in a style sheet (``target-counter``), but the file it prints lists the page
    of every link target. The page is printed again with these numbers until they no longer change.
    """
    program = browser()
    numbers: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".printing-") as folder:
        source, made = Path(folder) / "report.html", Path(folder) / "report.pdf"
        command = [
            *(program, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--no-pdf-header-footer", f"--user-data-dir={folder}"),
            *(f"--window-size={_SCREEN}", f"--virtual-time-budget={_DRAWING}", f"--print-to-pdf={made}"),
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),  # Chromium refuses root one
            source.resolve().as_uri(),
        ]
        for _ in range(_PRINTINGS):
            source.write_text(numbered(page.read_text(encoding="utf-8"), numbers), encoding="utf-8")
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                raise MethodError(f"pdf: {program} did not finish within {_SECONDS} seconds.") from None
            if not made.exists():
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise MethodError(f"pdf: {program} wrote nothing ({last[:300]}).")
            before, numbers = numbers, page_numbers(made.read_bytes())
            if numbers == before:
                break
        os.replace(made, target)


def numbered(page: str, numbers: Mapping[str, int]) -> str:
    """The page with the page number after each link from a table, and from a question to the appendix."""
    rules = (f'a.paged[href="#{name}"]::after {{ content: "\u00a0(page\u00a0{n})"; }}' for name, n in numbers.items())
    return page.replace("</style>", f"@media print {{ {' '.join(rules)} }}\n</style>", 1)


def page_numbers(pdf: bytes) -> dict[str, int]:
    """The page of each link target in a PDF that Chromium wrote."""
    pages = re.findall(rb"(\d+) 0 obj\n<</Type /Page\n", pdf)
    targets = re.findall(rb"/([\w-]+) \[(\d+) 0 R /XYZ", pdf)
    return {name.decode(): pages.index(place) + 1 for name, place in targets if place in pages}
