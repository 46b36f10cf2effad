"""A result's table as cells: what is shown, what is sorted by, and what is downloaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from types import MappingProxyType

import numpy as np

from isonomy.numerics.arrays import AnyArray
from isonomy.report import glossary, wording
from isonomy.report.text import visible
from isonomy.results import Columns, Status, phrases
from isonomy.results.shape import COUNTS

MAXIMUM_ROWS = 1_000

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: ``text`` is shown, ``raw`` is downloaded and sorted by."""

    text: str
    raw: str
    mark: str = ""  # "violation", "suppressed", ...: verdicts and statuses get a look of their own


# What decides stands first. Of the other columns a page has room for a few; the rest are shown on request.
_FIRST = (
    *("candidate", "criterion", "round", "group", "stratum", "against", "table", "metric", "outcome", "verdict"),
    *("score", "estimate", "rate", "reference", "impact_ratio", "disparity", "difference", "alternative"),
    *("status_quo", "gain"),
    *("bias", "ci_low", "ci_high", "bias_low", "bias_high", "adjusted_pvalue", "pvalue", "bias_pvalue", "n"),
    *("predicted", "observed", "status"),
)
_ROOM = 8  # columns
_PAPER = 13  # columns that fit an upright page
# What a line is about.
_KEYS = ("candidate", "criterion", "round", "group", "stratum", "against", "table", "metric", "outcome", "score")
_COUNTED = ("moved_up", "moved_down", "rows_needed", "selected_change", "selected_change_low", "selected_change_high")
PRINTED = 100  # lines of a table on paper
_LONG = 30  # lines from which on paper prints them in two halves beside one another
_HALF = 7  # columns that fit half a page
_RUN = 8  # lines about the same groups that are worth a heading of their own


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, whether the column holds numbers, and whether it is shown only on request."""

    name: str
    heading: str
    numeric: bool
    minor: bool = False

    @property
    def key(self) -> bool:
        """Whether it says what a line is about: every part of a table that is printed in parts has it."""
        compared = self.name == "reference" and not self.numeric
        return not self.minor and (self.name in _KEYS or compared)


@dataclass(frozen=True, slots=True)
class Table:
    """The first lines of a result's table, and how many there are in all."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int
    title: str = ""  # what all lines are about, where that has no column

    @property
    def long(self) -> bool:
        """Whether paper prints the lines in two halves beside one another."""
        return len(self.rows) > _LONG

    @property
    def constant(self) -> tuple[tuple[str, str], ...]:
        """Of a long table, headings of columns that are the same in every line, and what they hold: printed once."""
        return tuple((self.columns[i].heading, self.rows[0][i].text) for i in self._constant())

    def _constant(self) -> list[int]:
        if not self.long:
            return []
        return [i for i in range(len(self.columns)) if len({row[i].text for row in self.rows[:PRINTED]}) == 1]

    @property
    def halves(self) -> tuple[tuple[Table, ...], ...]:
        """A long table as paper prints it: a few columns at a time, lines about the same groups under their names."""
        if not self.long:
            return ()
        varying = [i for i in range(len(self.columns)) if i not in self._constant()]
        names = [i for i in varying if self.columns[i].key and not self.columns[i].numeric]
        runs = [list(run) for _, run in groupby(self.rows[:PRINTED], lambda row: [row[i].text for i in names])]
        if not names or len(self.rows[:PRINTED]) < _RUN * len(runs):
            names, runs = [], [list(self.rows[:PRINTED])]
        keys = [i for i in varying if self.columns[i].key and i not in names]
        others = [i for i in varying if i not in (*keys, *names)]
        room = max(1, _HALF - len(keys))
        parts = [[*keys, *others[at : at + room]] for at in range(0, max(1, len(others)), room)]
        return tuple(
            tuple(replace(self._only(part, run), title=", ".join(run[0][i].text for i in names)) for run in runs)
            for part in parts
        )

    @property
    def wide(self) -> bool:
        """Whether an upright page has no room for all columns."""
        return len(self.columns) > _PAPER

    @property
    def continued(self) -> tuple[Table, ...]:
        """The columns that paper has no room for beside the others, in tables of their own below them."""
        if not self.wide or self.long:
            return ()
        keys = [i for i, column in enumerate(self.columns) if column.key]
        minor = [i for i, column in enumerate(self.columns) if column.minor]
        room = _ROOM + 2 - len(keys)
        return tuple(self._only([*keys, *minor[at : at + room]], self.rows) for at in range(0, len(minor), room))

    def _only(self, places: Sequence[int], rows: Sequence[tuple[Cell, ...]]) -> Table:
        columns = tuple(replace(self.columns[i], minor=False) for i in places)
        return Table(columns, tuple(tuple(row[i] for i in places) for row in rows[:PRINTED]), self.total)

    @property
    def shortened(self) -> str:
        """What to say where lines were left out, else nothing."""
        return "" if len(self.rows) == self.total else wording.shortened(len(self.rows), self.total)


def table(
    columns: Columns,
    limit: int = MAXIMUM_ROWS,
    units: Mapping[str, str] = MappingProxyType({}),
    headings: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    """The columns of a result, ready to be shown; those with ``units`` are shares, told in percent."""
    order = sorted(columns, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    listed = {name: _listed(columns[name]) for name in order}
    if "status" in listed:  # lines of which every number is withheld stand last
        places = sorted(range(len(listed["status"])), key=lambda i: listed["status"][i] == Status.SUPPRESSED)
        listed = {name: [values[i] for i in places] for name, values in listed.items()}
    listed = {name: values for name, values in listed.items() if name in _KEYS or not all(map(_missing, values))}
    order = list(listed)
    shown = order[:_ROOM]
    total = max((len(values) for values in listed.values()), default=0)
    numeric = {name: _numeric(values) for name, values in listed.items()}
    cells = [
        [_cell(name, value, numeric[name], name in units) for value in values[:limit]]
        for name, values in listed.items()
    ]
    if "verdict" in listed and "status" in listed:  # the group compared with, and one withheld, are not judged
        verdicts = cells[order.index("verdict")]
        for i, status in enumerate(cells[order.index("status")]):
            if status.mark in ("reference", "suppressed"):
                verdicts[i] = Cell(status.text, verdicts[i].raw, mark=status.mark)
    return Table(
        columns=tuple(
            Column(
                name,
                glossary.column(name, units.get(name, ""), headings.get(name, "")),
                numeric[name],
                name not in shown,
            )
            for name in listed
        ),
        rows=tuple(zip(*cells, strict=True)),
        total=total,
    )


def safe_csv(text: str) -> str:
    """A label that a spreadsheet shows and does not compute."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _listed(values: Sequence[object] | AnyArray) -> list[object]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _numeric(values: Sequence[object]) -> bool:
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and kinds <= {int, float, np.float64, np.int64}


def _cell(name: str, value: object, numeric: bool, share: bool = False) -> Cell:
    if isinstance(value, Enum):
        value = value.value
    if _missing(value):
        return Cell("–", "")
    if numeric and isinstance(value, (int, float)):
        return Cell(
            _percent(value) if share else _number(name, value),
            repr(float(value)) if isinstance(value, float) else str(value),
        )
    if isinstance(value, (bool, np.bool_)):
        return Cell("yes" if value else "no", str(bool(value)))
    text = str(value)
    if name in ("verdict", "status"):
        return Cell(wording.MARKS.get(text, text.replace("_", " ")), text, mark=text)
    shown = visible(text)
    return Cell(shown, safe_csv(shown))


def _percent(value: float) -> str:
    return _number("", value) if math.isinf(value) else phrases.percent(value).replace("-", "−", 1)


def _number(name: str, value: float) -> str:
    if "pvalue" in name:
        return phrases.probability(value)
    if isinstance(value, int):
        return f"{value:,}"
    if (name in COUNTS or name in _COUNTED) and abs(value) < 1e15:
        return phrases.count(value).replace("-", "−", 1)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return phrases.number(value).replace("-", "−", 1) if value < 0 else phrases.number(value)
