"""A result in a notebook: one piece of HTML with nothing to fetch and nothing that runs."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from enum import Enum
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from isonomy.results import phrases

if TYPE_CHECKING:
    from isonomy.results.shape import Columns, Result

_ROWS = 10  # of the table; `to_frame` has them all
_FINDINGS = 5
_CELL = 120
_SCALE = 2.0  # pixels for each of the page's


def html(result: Result) -> str:
    """The verdict, what was found, the first rows of the table, and the picture. Every label is text."""
    return "\n".join(_pieces(result))


def _pieces(result: Result) -> Iterator[str]:
    yield '<div style="max-width: 70em">'
    yield f"<p><em>{escape(result.question)}</em></p>"
    yield f"<p><strong>{escape(result.headline())}</strong></p>"
    if design := phrases.designed(result.provenance.options, result.provenance.clusters):
        yield f"<p>{escape(design)}</p>"
    findings = result.findings()
    yield _list(findings[:_FINDINGS])
    if more := findings[_FINDINGS:]:
        yield f"<details><summary>{len(more)} more findings</summary>{_list(more)}</details>"
    if result.warnings:
        yield f"<p>Warnings</p>{_list(result.warnings)}"
    yield _picture(result)
    yield table(result.table())
    yield f"<details><summary>What this does not show</summary>{_list(result.limits())}</details></div>"


def _list(texts: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _picture(result: Result) -> str:
    """The chart as a picture inside the page: an image cannot run what a label says.

    Pixels, not SVG: letters that another font makes wider than they were measured would be cut off.
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


def table(columns: Columns) -> str:
    """The first rows of a table. Every label is text."""
    if not columns:
        return ""
    total = max(len(values) for values in columns.values())
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = zip(*(list(values)[:_ROWS] for values in columns.values()), strict=True)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(_cell(name, value))}</td>" for name, value in zip(columns, row, strict=True))
        + "</tr>"
        for row in rows
    )
    more = f"<p>The first {_ROWS} of {total:,} rows; to_frame() has them all.</p>" if total > _ROWS else ""
    return (
        f'<div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'
    )


def _cell(name: str, value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return ""
        return phrases.probability(float(value)) if "pvalue" in name else phrases.number(float(value))
    return phrases.cut(str(value), _CELL)
