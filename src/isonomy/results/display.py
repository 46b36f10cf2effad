"""A result in a notebook: HTML that loads nothing from the network and runs no script."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from isonomy.results import phrases
from isonomy.results.columns import Column, cell_text

if TYPE_CHECKING:
    from isonomy.results.evidence import Columns, Evidence

_ROWS = 10  # of the table; `to_frame` has them all
_FINDINGS = 5
_CELL = 120
_SCALE = 2.0  # pixels for each of the page's


def html(result: Evidence) -> str:
    """The verdict, the findings, the first rows of the table, and the chart. Every label is text."""
    design = phrases.designed(result.provenance.options, result.provenance.clusters)
    findings, columns = result.findings(), result.table()
    more = findings[_FINDINGS:]
    pieces = [
        '<div style="max-width: 70em">',
        f"<p><em>{escape(result.question)}</em></p>",
        f"<p><strong>{escape(result.headline())}</strong></p>",
        f"<p>{escape(design)}</p>" if design else "",
        _list(findings[:_FINDINGS]),
        f"<details><summary>{len(more)} more findings</summary>{_list(more)}</details>" if more else "",
        f"<p>Warnings</p>{_list(result.warnings)}" if result.warnings else "",
        _picture(result),
        table(columns, result.described(columns)),
        f"<details><summary>What this does not show</summary>{_list(result.limits())}</details></div>",
    ]
    return "\n".join(filter(None, pieces))


def _list(texts: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _picture(result: Evidence) -> str:
    """The chart as an image, in which no label can run.

    A bitmap, not SVG: with another font, letters could be wider than measured and be cut off.
    """
    from isonomy.results.theme import to_png

    try:
        png = to_png(result.plot(), scale=_SCALE)
    except ImportError:  # the renderer is needed for display alone
        return ""
    coded, width = base64.b64encode(png).decode(), int.from_bytes(png[16:20]) / _SCALE
    return (
        f'<img alt="Chart: {escape(result.question)}" width="{width:.0f}" style="max-width: 100%" '
        f'src="data:image/png;base64,{coded}">'
    )


def table(columns: Columns, described: Mapping[str, Column] | None = None) -> str:
    """The first rows of a table. Every label is text."""
    if not columns:
        return ""
    described = described or {name: Column(name) for name in columns}
    total = max(len(values) for values in columns.values())
    head = "".join(f"<th>{escape(described[name].title)}</th>" for name in columns)
    cells = [[cell_text(described[name], value) for value in values[:_ROWS]] for name, values in columns.items()]
    rows = ("".join(f"<td>{escape(phrases.cut(cell, _CELL))}</td>" for cell in row) for row in zip(*cells, strict=True))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"<p>The first {_ROWS} of {total:,} rows; to_frame() has them all.</p>" if total > _ROWS else ""
    return (
        f'<div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'
    )
