"""What a column of a table is: its heading, its unit, and whether it is withheld for small groups.

A field of a result says so once, where it is declared::

    disparity: FloatArray = column("Difference", unit="points")
    n: FloatArray = column("Rows counted", count=True)

`Evidence` makes its table, its headings, its units and its suppressed copies from these; `cell_text` turns a value of a
column into text, in the one form that every output uses.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from isonomy.results import phrases

if TYPE_CHECKING:
    from isonomy.results.evidence import Columns, Evidence

# The metadata of a number that all lines determine together, such as a joint p-value; withheld as soon as a line is.
POOLED: Mapping[str, bool] = {"pooled": True}
# One vocabulary for all tables, in this order; a question's own columns follow it, in the order of declaration.
KEYS = ("table", "candidate", "criterion", "round", "group", "stratum", "against", "metric", "outcome", "score", "time")
VOCABULARY = (
    *KEYS,
    *("size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "statistic", "pvalue"),
    *("adjusted_pvalue", "verdict", "direction", "status"),
)
# Headings of columns that are declared without one.
HEADINGS: dict[str, str] = phrases.WORDS["headings"]
_ENDS = {"se": "standard error", "low": "from", "high": "to", "pvalue": "p‑value"}  # what columns of a metric end in


@dataclass(frozen=True, slots=True)
class Column:
    """``unit`` is "%" for shares and "points" for their differences. ``count`` marks numbers of rows or people, which
    decide whether a group is small unless ``sizes`` is false; the field ``sized`` holds the groups they count.
    ``whole`` marks other numbers that are shown without decimals, ``withheld`` what is hidden for small groups, and
    ``listed`` what the table shows.
    """

    name: str
    heading: str = ""
    unit: str = ""
    count: bool = False
    sizes: bool = False
    sized: str = "groups"
    whole: bool = False
    withheld: bool = False
    listed: bool = True

    @property
    def title(self) -> str:
        """The heading with its unit. Without a heading, one is made from the name."""
        first, *others = self.name.split("_")
        named = " ".join([phrases.metric(first), *(_ENDS.get(word, word) for word in others)])
        text = self.heading or HEADINGS.get(self.name) or named
        text = text if text.startswith("p‑") else text[:1].upper() + text[1:]
        return f"{text} ({self.unit})" if self.unit else text


# The columns that a table has if rows have weights or clusters.
DESIGN = {
    "clusters": Column("clusters", "Clusters", count=True),
    "effective_clusters": Column("effective_clusters", "Effective number of clusters"),
    "design_effect": Column("design_effect", "Design effect"),
}
# Those computed from others that are whole numbers.
WHOLE = {
    "rows_needed": Column("rows_needed", whole=True),
    "reference_n": Column("reference_n", "Reference: rows", count=True),
}


def column(
    heading: str = "",
    *,
    unit: str = "",
    count: bool = False,
    sizes: bool | None = None,
    sized: str = "groups",
    whole: bool = False,
    withheld: bool = True,
    listed: bool = True,
    name: str = "",
    default: Any = MISSING,
) -> Any:
    """A field that is a column of the result's table; ``name``: its name there, if it differs from the field's."""
    meaning = Column(name, heading, unit, count, count if sizes is None else sizes, sized, whole, withheld, listed)
    return field(metadata={"column": meaning}, default=default)


@cache
def columns_of(cls: Any) -> Mapping[str, Column]:
    """The columns that the fields of a class declare, by the name of the field, in the order of the table."""
    declared = {
        part.name: replace(meaning, name=meaning.name or part.name)
        for part in fields(cls)
        if (meaning := part.metadata.get("column"))
    }
    return MappingProxyType(dict(sorted(declared.items(), key=lambda item: place(item[1].name))))


def place(name: str) -> int:
    return VOCABULARY.index(name) if name in VOCABULARY else len(VOCABULARY)


def join_tables(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: sum((table[name] for table in tables), ())
        if isinstance(values, tuple)
        else np.concatenate([table[name] for table in tables], axis=-1)
        for name, values in tables[0].items()
    }


# ---- the values of a column as text, for notebooks, reports and the terminal

NOTHING = "–"
# Verdicts on single groups, and the reasons why a group has none.
MARKS: dict[str, str] = phrases.WORDS["marks"]


def plain_value(value: object) -> object:
    """A value in plain JSON types: NaN is None, and an infinite number is text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def cell_text(column: Column, value: object) -> str:
    if isinstance(value, (np.generic, Enum)):
        value = value.item() if isinstance(value, np.generic) else value.value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(column, value).replace("-", "−", 1) if value < 0 else _number(column, value)
    if column.name in ("verdict", "status"):
        return MARKS.get(str(value), str(value).replace("_", " "))
    return str(value)


def _number(column: Column, value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if column.unit:
        return phrases.percent(value)
    if "pvalue" in column.name:
        return phrases.probability(value)
    if isinstance(value, int):
        return f"{value:,}"
    if (column.count or column.whole) and abs(value) < 1e15:
        return phrases.count(value)
    return phrases.number(value)


# ---- a result in a notebook, by the template `notebook.html`

_ROWS = 10  # of the table; `to_frame` has them all
_FINDINGS = 5  # the others are folded away
_CELL = 120
_SCALE = 2.0  # pixels for each of the page's


def html(result: Evidence) -> str:
    """The verdict, the findings, the first rows of the table, and the chart.

    The chart is a bitmap, not SVG: with another font, letters could be wider than measured and be cut off.
    """
    from isonomy.results.theme import to_png

    try:
        png = to_png(result.plot(), scale=_SCALE)
    except ImportError:  # the renderer is needed for display alone
        png = b""
    columns = result.table()
    return _rendered(
        **_as_text(columns, result.described(columns)),
        result=result,
        design=phrases.designed(result.provenance.options, result.provenance.clusters),
        findings=tuple(map(phrases.capital, result.findings())),
        most=_FINDINGS,
        picture=base64.b64encode(png).decode(),
        width=f"{int.from_bytes(png[16:20]) / _SCALE:.0f}" if png else "",
    )


def table(columns: Columns, described: Mapping[str, Column] | None = None) -> str:
    return _rendered(**_as_text(columns, described or {name: Column(name) for name in columns}))


def _as_text(columns: Columns, described: Mapping[str, Column]) -> dict[str, object]:
    cells = [[cell_text(described[name], value) for value in values[:_ROWS]] for name, values in columns.items()]
    return {
        "titles": [described[name].title for name in columns],
        "rows": [[phrases.cut(cell, _CELL) for cell in row] for row in zip(*cells, strict=True)],
        "total": max(map(len, columns.values()), default=0),
    }


def _rendered(**values: object) -> str:
    from jinja2 import Environment

    template = (files("isonomy.results") / "notebook.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(template).render(**values)
