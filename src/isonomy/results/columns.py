"""What a column of a table is: its heading, its unit, and whether it is withheld for small groups.

A field of a result says so once, where it is declared::

    disparity: FloatArray = column("Difference", unit="points")
    n: FloatArray = column("Rows counted", count=True)

`Evidence` makes its table, its headings, its units and its suppressed copies from these; `cell_text` turns a value of a
column into text, in the one form that every output uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from isonomy.results import phrases

# One vocabulary for all tables, in this order; a question's own columns follow it, in the order of declaration.
KEYS = ("table", "candidate", "criterion", "round", "group", "stratum", "against", "metric", "outcome", "score", "time")
VOCABULARY = (
    *KEYS,
    *("size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "statistic", "pvalue"),
    *("adjusted_pvalue", "verdict", "direction", "status"),
)
# Headings of columns that are declared without one.
HEADINGS = {
    "against": "Compared with",
    "criterion": "What is compared",
    "size": "Rows in group",
    "n": "Rows counted",
    "disparity": "Difference",
    "ci_low": "Interval from",
    "ci_high": "Interval to",
    "pvalue": "p‑value",
    "adjusted_pvalue": "Adjusted p‑value",
    "direction": "Favored or disfavored",
    "rate_before": "Selection rate before",
    "rate_after": "Selection rate after",
    "worst_pair": "Most unequal pair",
}
_ENDS = {"se": "standard error", "low": "from", "high": "to", "pvalue": "p‑value"}  # what columns of a metric end in


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result's table.

    ``unit`` is "%" for shares and "points" for their differences. ``count`` marks numbers of rows or people, which
    decide whether a group is small unless ``sizes`` is false. ``whole`` marks other numbers that are shown without
    decimals, ``withheld`` what is hidden for small groups, and ``listed`` what the table shows.
    """

    name: str
    heading: str = ""
    unit: str = ""
    count: bool = False
    sizes: bool = False
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


def column(
    heading: str = "",
    *,
    unit: str = "",
    count: bool = False,
    sizes: bool | None = None,
    whole: bool = False,
    withheld: bool = True,
    listed: bool = True,
    name: str = "",
    default: Any = MISSING,
) -> Any:
    """A field that is a column of the result's table; ``name``: its name there, if it differs from the field's."""
    meaning = Column(name, heading, unit, count, count if sizes is None else sizes, whole, withheld, listed)
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
    """Where a column stands in a table."""
    return VOCABULARY.index(name) if name in VOCABULARY else len(VOCABULARY)


# ---- the values of a column as text, for notebooks, reports and the terminal

NOTHING = "–"
# Verdicts on single groups, and the reasons why a group has none.
MARKS = {
    "violation": "Shown",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
    "ok": "Tested",
    "reference": "Reference",
    "too_small": "Too few rows",
    "suppressed": "Withheld",
    "constant": "No variation",
    "empty": "No rows",
    "few_clusters": "Too few clusters",
    "few_events": "Too few events",
    "skewed": "Too few rows for extreme values",
    "unsupported": "Too few rows",
    "extrapolated": "Extrapolated beyond the data",
    "infeasible": "Cannot be reached",
    "no_treated": "Nobody treated",
    "no_control": "Everybody treated",
    "zero_baseline": "Reference is zero",
    "outside_range": "Outside the range of the data",
    "unbounded": "Unbounded interval",
    "not_converged": "Did not converge",
    "atoms": "Many equal scores",
    "time_limit": "Stopped by the time limit",
    "failed": "Stopped with an error",
}


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
    """A value of a column as readers see it, on one line or more."""
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
