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


def html(result: Result) -> str:
    """The verdict, what was found, the first rows of the table, and the picture. Every label is text."""
    return "\n".join(_pieces(result))


def _pieces(result: Result) -> Iterator[str]:
    yield '<div style="max-width: 70em">'
    yield f"<p><em>{escape(result.question)}</em></p>"
    yield f"<p><strong>{escape(result.headline())}</strong></p>"
    findings = result.findings()
    yield _list(findings[:_FINDINGS])
    if more := findings[_FINDINGS:]:
        yield f"<details><summary>{len(more)} more findings</summary>{_list(more)}</details>"
    if result.warnings:
        yield f"<p>Warnings</p>{_list(result.warnings)}"
    yield _picture(result)
    yield _table(result.table())
    yield f"<details><summary>What this does not show</summary>{_list(result.limits())}</details></div>"


def _list(texts: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _picture(result: Result) -> str:
    """The chart as a picture inside the page: an image cannot run what a label says."""
    from isonomy.results.theme import to_svg

    try:
        svg = to_svg(result.plot())
    except ImportError:  # the renderer is needed for display alone
        return ""
    coded = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="Chart: {escape(result.question)}" style="max-width: 100%" src="data:image/svg+xml;base64,{coded}">'
    )


def _table(columns: Columns) -> str:
    if not columns:
        return ""
    total = max(len(values) for values in columns.values())
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = zip(*(list(values)[:_ROWS] for values in columns.values()), strict=True)
    body = "".join("<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>" for row in rows)
    more = f"<p>The first {_ROWS} of {total:,} rows; to_frame() has them all.</p>" if total > _ROWS else ""
    return (
        f'<div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'
    )


def _cell(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (float, np.floating)):
        return "" if math.isnan(value) else phrases.number(float(value))
    return phrases.cut(str(value), _CELL)
