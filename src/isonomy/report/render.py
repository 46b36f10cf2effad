"""The report as a single file with its styles, charts, tables and scripts. It loads nothing from the network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from isonomy.report import glossary, wording
from isonomy.report.document import Document
from isonomy.report.layout import Chart, Section
from isonomy.report.tables import MAXIMUM_ROWS, PRINTED
from isonomy.report.text import sentence, visible

if TYPE_CHECKING:
    from jinja2 import Environment

    from isonomy.audit.compare import AuditComparison

MAXIMUM_BYTES = 5_000_000
_CHART_BYTES = 2_500_000  # all specifications together; what does not fit is reported, not drawn
_FIRST_FINDINGS = 5  # shown at once; the others can be unfolded, and are printed
_TABLE_ROWS = (MAXIMUM_ROWS, 200, 50, 10, 1)


def html(document: Document) -> str:
    """The whole page. Tables are shortened, with a note, if the page would exceed 5 MB."""
    page = ""
    for rows in _TABLE_ROWS:
        page = _page(document, rows)
        if len(page.encode("utf-8", "replace")) < MAXIMUM_BYTES:
            break
    return page


def _page(document: Document, rows: int) -> str:
    sections = [Section(i, entry, rows) for i, entry in enumerate(document.entries, start=1)]
    left = _CHART_BYTES
    for part in sections:
        left -= (size := len(part.chart.specification) if part.chart and part.chart.specification else 0)
        if left < 0:
            left, part.chart = left + size, Chart(None, wording.no_chart("the page would be too large"))
    charts = any(part.chart and part.chart.specification for part in sections)
    scripts = [*([Markup(library())] if charts else []), Markup(template("report.js"))]
    page = environment().get_template("report.html")
    return page.render(
        document=document,
        title=visible(document.title),
        description=sentence(document.description),
        sections=sections,
        tally=document.counts,
        first=_FIRST_FINDINGS,
        printed=PRINTED,
        headline=wording.headline(document.counts),
        suppression=wording.suppression(document.suppress_below),
        facts=[(visible(name), visible(value)) for name, value in document.facts],
        config=visible(document.config),
        wording=wording,
        reading=glossary.reading(" ".join([*(part.text for part in sections), *dict(document.facts)])),
        style=Markup(template("report.css")),
        scripts=scripts,
        policy=policy(scripts),
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
    """The comparison of two audits as one page, in the report's own style."""
    page = environment().get_template("comparison.html")
    return page.render(
        heading=wording.COMPARISON,
        headline=comparison.headline,
        audits=[("Before", comparison.before), ("After", comparison.after)],
        changes=comparison.changes,
        notes=comparison.notes,
        visible=visible,
        sentence=sentence,
        style=Markup(template("report.css")),
        policy=policy([]),
    )


@cache
def template(name: str) -> str:
    """The text of a template, a style or a script."""
    return (files("isonomy.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """The environment of the templates, with everything escaped."""
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
